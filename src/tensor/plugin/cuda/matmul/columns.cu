/*
 * Sums over the rows of a matrix, the same bits every time: a block of threads sums some rows of 256 columns in single
 * precision, then the parts are added in double precision. And what follows a product, where its library cannot do it.
 */
#include "tensor/plugin/cuda/matmul/matmul.h"
#include "tensor/plugin/cuda/teams.h"

#define BAND  256 /* columns of a block */
#define LINES 8   /* rows at a time: a warp each */
#define DEPTH 4   /* rows of a thread whose loads are in flight together */

/* Eight neighbouring columns, or those that there are. */
template <typename T, bool WHOLE>
static __device__ void load_columns(const T *row, int64_t column, int64_t columns, float value[8])
{
    if (WHOLE)
        pdl_load8(row + column, value);
    else
        for (int i = 0; i < 8; i++) value[i] = column + i < columns ? (float)row[column + i] : 0.0f;
}

template <typename T, bool WHOLE>
static __device__ void sum_lines(const T *matrix, int64_t rows, int64_t columns, int64_t stride, int64_t first,
                                 int64_t step, int64_t column, float sum[8])
{
    for (int64_t row = first; row < rows; row += DEPTH * step) {
        float value[DEPTH][8];

#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            if (row + d * step < rows)
                load_columns<T, WHOLE>(matrix + (row + d * step) * stride, column, columns, value[d]);
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            for (int i = 0; i < 8 && row + d * step < rows; i++) sum[i] += value[d][i];
    }
}

/* parts [count][columns]; block = part * bands + band. */
template <typename T, bool WHOLE>
static __global__ void __launch_bounds__(BAND)
    sum_parts(const T *matrix, int64_t rows, int64_t columns, int64_t stride, int64_t bands, float *parts)
{
    __shared__ float shared[LINES][BAND];
    int64_t          band = blockIdx.x % bands, part = blockIdx.x / bands, count = gridDim.x / bands;
    int              lane = threadIdx.x % 32, line = threadIdx.x / 32;
    int64_t          column = band * BAND + lane * 8, mine = band * BAND + threadIdx.x;
    float            sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, total = 0;

    if (column < columns)
        sum_lines<T, WHOLE>(matrix, rows, columns, stride, part * LINES + line, count * LINES, column, sum);
    for (int i = 0; i < 8; i++) shared[line][lane * 8 + i] = sum[i];
    __syncthreads();
    for (int i = 0; i < LINES; i++) total += shared[i][threadIdx.x];
    if (mine < columns) parts[part * columns + mine] = total;
}

#define FINISH_LINES 16
#define FINISH_DEPTH 8 /* parts of a thread whose loads are in flight together */

/* A block has 32 columns of parts [count][stride]: those of `sums`, then those of `other`; NULL: not wanted. */
static __global__ void __launch_bounds__(32 * FINISH_LINES)
    finish_columns(const float *parts, int64_t count, int64_t columns, int64_t stride, bool add, float *sums,
                   float *other)
{
    __shared__ double shared[FINISH_LINES][32];
    int               lane = threadIdx.x % 32, line = threadIdx.x / 32;
    int64_t           column = (int64_t)blockIdx.x * 32 + lane;
    float            *to = column < columns ? sums : other;
    double            sum = 0;

    for (int64_t part = line; column < stride && part < count; part += FINISH_DEPTH * FINISH_LINES) {
        float value[FINISH_DEPTH];

#pragma unroll
        for (int d = 0; d < FINISH_DEPTH; d++) {
            int64_t at = part + d * FINISH_LINES;

            value[d] = at < count ? parts[at * stride + column] : 0.0f;
        }
#pragma unroll
        for (int d = 0; d < FINISH_DEPTH; d++) sum += (double)value[d];
    }
    shared[line][lane] = sum;
    __syncthreads();
    if (line > 0 || column >= stride || to == NULL) return;
    for (int i = 1; i < FINISH_LINES; i++) sum += shared[i][lane];
    column = column < columns ? column : column - columns;
    to[column] = add ? to[column] + (float)sum : (float)sum;
}

template <typename T>
static pdl_status_t sum_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const void *matrix, int64_t rows,
                                int64_t columns, int64_t stride, bool add, float *sums, float *parts)
{
    int64_t      bands = (columns + BAND - 1) / BAND, most = pdl__cuda_column_parts(rows, columns);
    int64_t      count = (int64_t)gpu->multiprocessors * 6 / bands;
    auto         sum_of_rows = pdl_has_vectors(matrix, columns, stride) ? sum_parts<T, true> : sum_parts<T, false>;
    pdl_status_t status;

    count = count < 1 ? 1 : count > most ? most : count;
    status = PDL_LAUNCH(sum_of_rows, (int)(bands * count), BAND, 0, stream, (const T *)matrix, rows, columns,
                        stride, bands, parts);
    if (status != PDL_OK) return status;
    return pdl__cuda_finish_columns(gpu, stream, parts, count, columns, columns, add, sums, NULL);
}

extern "C" pdl_status_t pdl__cuda_sum_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                              const void *matrix, int64_t rows, int64_t columns, int64_t stride,
                                              bool add, float *sums, float *parts)
{
    if (type == PDL_DTYPE_BF16)
        return sum_columns<pdl_bf16>(gpu, stream, matrix, rows, columns, stride, add, sums, parts);
    return sum_columns<float>(gpu, stream, matrix, rows, columns, stride, add, sums, parts);
}

extern "C" pdl_status_t pdl__cuda_finish_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *parts,
                                                 int64_t count, int64_t columns, int64_t stride, bool add,
                                                 float *sums, float *other)
{
    (void)gpu;
    return PDL_LAUNCH(finish_columns, (int)((stride + 31) / 32), 32 * FINISH_LINES, 0, stream, parts, count,
                      columns, stride, add, sums, other);
}

/* ---- behind a product ---- */

/* d = f(d + bias), and what f is applied to. */
template <typename T>
static __global__ void __launch_bounds__(256)
    finish_rows(T *d, int64_t rows, int64_t columns, const T *bias, pdl_layer_type_t activation, T *before)
{
    for (int64_t i = pdl_grid_thread(); i < rows * columns; i += pdl_grid_threads()) {
        float value = (float)d[i];

        if (bias != NULL) value += (float)bias[i % columns];
        if (before != NULL) before[i] = T(value);
        if (activation == PDL_LAYER_RELU) value = value > 0 || value != value ? value : 0.0f;
        if (activation == PDL_LAYER_GELU_TANH)
            value *= 0.5f * (1.0f + tanhf(0.7978845608f * (value + 0.044715f * value * value * value)));
        d[i] = T(value);
    }
}

extern "C" pdl_status_t pdl__cuda_finish_product(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream,
                                                 const pdl__cuda_matmul_spec_t *spec, void *d, const void *bias,
                                                 void *before)
{
    int blocks = pdl__gpu_blocks(gpu, spec->m * spec->n, 256, 8);

    if (spec->out == PDL_DTYPE_BF16)
        return PDL_LAUNCH(finish_rows<pdl_bf16>, blocks, 256, 0, stream, (pdl_bf16 *)d, spec->m, spec->n,
                          (const pdl_bf16 *)bias, spec->activation, (pdl_bf16 *)before);
    return PDL_LAUNCH(finish_rows<float>, blocks, 256, 0, stream, (float *)d, spec->m, spec->n, (const float *)bias,
                      spec->activation, (float *)before);
}

/* ---- values to time products with, because zeros are faster than others ---- */

template <typename T> static __global__ void __launch_bounds__(256) fill_random(T *values, int64_t count)
{
    for (int64_t i = pdl_grid_thread(); i < (count + 3) / 4; i += pdl_grid_threads()) {
        float four[4];

        pdl_random4(1, 2, (uint64_t)i, four);
        for (int k = 0; k < 4 && 4 * i + k < count; k++) values[4 * i + k] = T(2 * four[k] - 1);
    }
}

extern "C" pdl_status_t pdl__cuda_fill_random(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                              void *values, int64_t count)
{
    int blocks = pdl__gpu_blocks(gpu, count, 1024, 8);

    if (type == PDL_DTYPE_BF16)
        return PDL_LAUNCH(fill_random<pdl_bf16>, blocks, 256, 0, stream, (pdl_bf16 *)values, count);
    return PDL_LAUNCH(fill_random<float>, blocks, 256, 0, stream, (float *)values, count);
}
