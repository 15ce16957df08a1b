/*
 * Layer norm and RMS norm, a warp to a row. Rows of a multiple of 8 channels up to 1792 stay in registers, and the next row
 * is being read while one is computed; wider ones have a block each (wide_norm.cu); other rows are read three times, from the cache.
 */
#include "tensor/plugin/cuda/matmul/matmul.h"
#include "tensor/plugin/cuda/norm/layer_norm.h"
#include "tensor/plugin/cuda/teams.h"

#define WARPS 8

typedef pdl__cuda_rows_norm_t norm_t;

/* One value of a channel in shared memory, so that lanes which read eight neighbours do so without conflicts: the first
   four of all vectors, then the other four. */
struct alignas(16) four {
    float at[4];
};

static __device__ void store_channels(const float *values, int channels, float *shared)
{
    for (int c = threadIdx.x; c < channels; c += blockDim.x)
        shared[(c % 8 / 4) * (channels / 2) + c / 8 * 4 + c % 4] = values[c];
}

static __device__ void load_channels(const float *shared, int channels, int vector, float value[8])
{
    four low = ((const four *)shared)[vector], high = ((const four *)(shared + channels / 2))[vector];

    for (int i = 0; i < 4; i++) {
        value[i] = low.at[i];
        value[4 + i] = high.at[i];
    }
}

/* ---- rows in registers: N vectors of 8 channels a lane ---- */

template <typename T, int N> static __device__ void load_row(const T *row, int vectors, pdl_raw8<T> (&line)[N])
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int j = 0; j < N; j++)
        if (j * 32 + lane < vectors) line[j].load(row + (j * 32 + lane) * 8);
}

template <typename T, int N>
static __device__ void measure_row(const pdl_raw8<T> (&line)[N], int vectors, bool centred, float epsilon,
                                   float *mean, float *scale)
{
    int   lane = threadIdx.x % 32;
    float sum = 0, squares = 0, value[8], count = (float)(vectors * 8);

    *mean = 0;
    if (centred) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (j * 32 + lane >= vectors) continue;
            line[j].unpack(value);
            for (int i = 0; i < 8; i++) sum += value[i];
        }
        *mean = pdl_warp_sum(sum) / count;
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
        if (j * 32 + lane >= vectors) continue;
        line[j].unpack(value);
        for (int i = 0; i < 8; i++) squares += (value[i] - *mean) * (value[i] - *mean);
    }
    *scale = 1.0f / sqrtf(pdl_warp_sum(squares) / count + epsilon);
}

template <typename T, int N> static __global__ void __launch_bounds__(WARPS * 32) norm_forward(norm_t norm)
{
    PDL_SHARED(float, parameters); /* [2][channels] */
    int         channels = (int)norm.channels, vectors = channels / 8, lane = threadIdx.x % 32;
    int64_t     row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32, step = (int64_t)gridDim.x * WARPS;
    const T    *x = (const T *)norm.x;
    T          *y = (T *)norm.y;
    pdl_raw8<T> line[N], next[N];

    if (row < norm.rows) load_row<T, N>(x + row * channels, vectors, next);
    store_channels(norm.weight, channels, parameters);
    if (norm.bias != NULL) store_channels(norm.bias, channels, parameters + channels);
    __syncthreads();
    for (; row < norm.rows; row += step) {
        float mean, scale;

#pragma unroll
        for (int j = 0; j < N; j++) line[j] = next[j];
        if (row + step < norm.rows) load_row<T, N>(x + (row + step) * channels, vectors, next);
        measure_row<T, N>(line, vectors, norm.centred, norm.epsilon, &mean, &scale);
        if (norm.statistics != NULL && lane == 0) {
            norm.statistics[2 * row] = mean;
            norm.statistics[2 * row + 1] = scale;
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            int   v = j * 32 + lane;
            float value[8], weight[8], bias[8] = {0, 0, 0, 0, 0, 0, 0, 0};

            if (v >= vectors) continue;
            line[j].unpack(value);
            load_channels(parameters, channels, v, weight);
            if (norm.bias != NULL) load_channels(parameters + channels, channels, v, bias);
            for (int i = 0; i < 8; i++) value[i] = (value[i] - mean) * scale * weight[i] + bias[i];
            pdl_store8(y + row * channels + v * 8, value);
        }
    }
}

/* dx of one row. With z the normalised x and g = dy weight: dx = scale (g - mean(g) - z mean(g z)), in RMS norm without
   mean(g). The lane's parts of dweight and dbias are added up. */
template <typename T, int N>
static __device__ void backward_row(const norm_t &norm, const float *parameters, int64_t row,
                                    const pdl_raw8<T> (&x)[N], const pdl_raw8<T> (&dy)[N],
                                    const pdl_raw8<T> (&added)[N], float dweight[N][8], float dbias[N][8])
{
    int   channels = (int)norm.channels, vectors = channels / 8, lane = threadIdx.x % 32;
    float mean = norm.statistics[2 * row], scale = norm.statistics[2 * row + 1];
    float sum_g = 0, sum_gz = 0, z[8], d[8], weight[8];

#pragma unroll
    for (int j = 0; j < N; j++) {
        int v = j * 32 + lane;

        if (v >= vectors) continue;
        x[j].unpack(z);
        dy[j].unpack(d);
        load_channels(parameters, channels, v, weight);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            z[i] = (z[i] - mean) * scale;
            sum_g += d[i] * weight[i];
            sum_gz += d[i] * weight[i] * z[i];
            dweight[j][i] += d[i] * z[i];
            dbias[j][i] += d[i];
        }
    }
    if (norm.dx == NULL) return;
    sum_g = norm.centred ? pdl_warp_sum(sum_g) / (float)channels : 0.0f;
    sum_gz = pdl_warp_sum(sum_gz) / (float)channels;
#pragma unroll
    for (int j = 0; j < N; j++) {
        int v = j * 32 + lane;

        if (v >= vectors) continue;
        x[j].unpack(z);
        dy[j].unpack(d);
        load_channels(parameters, channels, v, weight);
        for (int i = 0; i < 8; i++) d[i] = scale * (d[i] * weight[i] - sum_g - (z[i] - mean) * scale * sum_gz);
        if (norm.added != NULL) {
            added[j].unpack(z);
            for (int i = 0; i < 8; i++) d[i] += z[i];
        }
        pdl_store8((T *)norm.dx + row * channels + v * 8, d);
    }
}

/* The sums of a block's warps, one of the two gradients after the other: shared is [warps][channels]. */
template <int N> static __device__ void write_parts(int channels, const float sum[N][8], float *shared, float *part)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

    __syncthreads();
#pragma unroll
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 8 && j * 32 + lane < channels / 8; i++)
            shared[warp * channels + (j * 32 + lane) * 8 + i] = sum[j][i];
    __syncthreads();
    for (int c = threadIdx.x; c < channels; c += blockDim.x) {
        float total = 0;

        for (int w = 0; w < warps; w++) total += shared[w * channels + c];
        part[c] = total;
    }
}

/* What backward reads of a row. */
template <typename T, int N> struct row_values {
    pdl_raw8<T> x[N], dy[N], added[N];

    __device__ __forceinline__ void load(const norm_t &norm, int64_t row)
    {
        int64_t at = row * norm.channels;
        int     vectors = (int)norm.channels / 8;

        load_row<T, N>((const T *)norm.x + at, vectors, x);
        load_row<T, N>((const T *)norm.dy + at, vectors, dy);
        if (norm.added != NULL) load_row<T, N>((const T *)norm.added + at, vectors, added);
    }
};

template <typename T, int N, int W> static __global__ void __launch_bounds__(W * 32) norm_backward(norm_t norm)
{
    PDL_SHARED(float, shared); /* the weight, then [warps][channels] */
    int              channels = (int)norm.channels;
    int64_t          row = (int64_t)blockIdx.x * W + threadIdx.x / 32, step = (int64_t)gridDim.x * W;
    float            dweight[N][8], dbias[N][8], *part = norm.parts + (int64_t)blockIdx.x * 2 * channels;
    row_values<T, N> line;

#pragma unroll
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 8; i++) dweight[j][i] = dbias[j][i] = 0;
    store_channels(norm.weight, channels, shared);
    __syncthreads();
    for (; row < norm.rows; row += step) {
        line.load(norm, row);
        backward_row<T, N>(norm, shared, row, line.x, line.dy, line.added, dweight, dbias);
    }
    if (norm.dweight == NULL && norm.dbias == NULL) return;
    write_parts<N>(channels, dweight, shared + channels, part);
    write_parts<N>(channels, dbias, shared + channels, part + channels);
}

/* ---- any rows ---- */

template <typename T> static __global__ void __launch_bounds__(WARPS * 32) norm_forward_any(norm_t norm)
{
    int lane = threadIdx.x % 32;

    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < norm.rows;
         row += (int64_t)gridDim.x * WARPS) {
        const T *x = (const T *)norm.x + row * norm.stride;
        T       *y = (T *)norm.y + row * norm.stride;
        float    sum = 0, squares = 0, mean, scale;

        for (int64_t c = lane; norm.centred && c < norm.channels; c += 32) sum += (float)x[c];
        mean = pdl_warp_sum(sum) / (float)norm.channels;
        for (int64_t c = lane; c < norm.channels; c += 32) squares += ((float)x[c] - mean) * ((float)x[c] - mean);
        scale = 1.0f / sqrtf(pdl_warp_sum(squares) / (float)norm.channels + norm.epsilon);
        if (norm.statistics != NULL && lane == 0) {
            norm.statistics[2 * row] = mean;
            norm.statistics[2 * row + 1] = scale;
        }
        for (int64_t c = lane; c < norm.stride; c += 32) {
            float value = 0;

            if (c < norm.channels)
                value = ((float)x[c] - mean) * scale * norm.weight[c] + (norm.bias != NULL ? norm.bias[c] : 0.0f);
            y[c] = T(value);
        }
    }
}

template <typename T> static __global__ void __launch_bounds__(WARPS * 32) norm_backward_any(norm_t norm)
{
    int lane = threadIdx.x % 32;

    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < norm.rows;
         row += (int64_t)gridDim.x * WARPS) {
        const T *x = (const T *)norm.x + row * norm.stride, *dy = (const T *)norm.dy + row * norm.stride;
        T       *dx = (T *)norm.dx + row * norm.stride;
        float    mean = norm.statistics[2 * row], scale = norm.statistics[2 * row + 1], sum_g = 0, sum_gz = 0;

        for (int64_t c = lane; c < norm.channels; c += 32) {
            float g = (float)dy[c] * norm.weight[c];

            sum_g += g;
            sum_gz += g * ((float)x[c] - mean) * scale;
        }
        sum_g = norm.centred ? pdl_warp_sum(sum_g) / (float)norm.channels : 0.0f;
        sum_gz = pdl_warp_sum(sum_gz) / (float)norm.channels;
        for (int64_t c = lane; c < norm.stride; c += 32) {
            float value = 0;

            if (c < norm.channels)
                value = scale * ((float)dy[c] * norm.weight[c] - sum_g - ((float)x[c] - mean) * scale * sum_gz);
            if (c < norm.channels && norm.added != NULL)
                value += (float)((const T *)norm.added)[row * norm.stride + c];
            dx[c] = T(value);
        }
    }
}

/* parts [count][2][channels]; a block has 32 channels of some of the rows: block = part * bands + band. */
template <typename T>
static __global__ void __launch_bounds__(WARPS * 32) norm_parts_any(norm_t norm, int64_t bands)
{
    __shared__ float shared[2][WARPS][32];
    int              lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t          part = blockIdx.x / bands, c = blockIdx.x % bands * 32 + lane, count = gridDim.x / bands;
    float            dweight = 0, dbias = 0;

    for (int64_t row = part * WARPS + warp; c < norm.channels && row < norm.rows; row += count * WARPS) {
        float d = (float)((const T *)norm.dy)[row * norm.stride + c];
        float x = (float)((const T *)norm.x)[row * norm.stride + c];

        dweight += d * (x - norm.statistics[2 * row]) * norm.statistics[2 * row + 1];
        dbias += d;
    }
    shared[0][warp][lane] = dweight;
    shared[1][warp][lane] = dbias;
    __syncthreads();
    if (warp > 1 || c >= norm.channels) return;
    float total = 0;
    for (int w = 0; w < WARPS; w++) total += shared[warp][w][lane];
    norm.parts[(part * 2 + warp) * norm.channels + c] = total;
}

/* ---- launches ---- */

/* Vectors a lane has of a row; 0: rows do not fit into registers. */
static int vectors_of(const norm_t *norm)
{
    static const int sizes[] = {1, 3, 4, 5, 7};
    bool             even = norm->channels % 8 == 0 && norm->stride == norm->channels;

    for (size_t i = 0; even && i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (norm->channels <= 256 * sizes[i]) return sizes[i];
    return 0;
}

template <typename T> static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const norm_t *norm)
{
    int    blocks = pdl__gpu_blocks(gpu, norm->rows, WARPS, norm->channels <= 768 ? 4 : 2);
    size_t shared = (size_t)(2 * norm->channels) * sizeof(float);

    auto layer_norm_forward = norm_forward_any<T>;

    switch (vectors_of(norm)) {
    case 1: layer_norm_forward = norm_forward<T, 1>; break;
    case 3: layer_norm_forward = norm_forward<T, 3>; break;
    case 4: layer_norm_forward = norm_forward<T, 4>; break;
    case 5: layer_norm_forward = norm_forward<T, 5>; break;
    case 7: layer_norm_forward = norm_forward<T, 7>; break;
    }
    return PDL_LAUNCH(layer_norm_forward, blocks, WARPS * 32, shared, stream, *norm);
}

/* dx in one kernel, the parts of dweight and dbias in another. */
template <typename T>
static pdl_status_t backward_any(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const norm_t *norm, int64_t *parts)
{
    int64_t      bands = (norm->channels + 31) / 32, count = (int64_t)gpu->multiprocessors * 8 / bands + 1;
    pdl_status_t status = PDL_OK;

    *parts = count < *parts ? count : *parts;
    /* dx may lie over dy, which the sums need. */
    if (norm->dweight != NULL || norm->dbias != NULL)
        status = PDL_LAUNCH(norm_parts_any<T>, (int)(bands * *parts), WARPS * 32, 0, stream, *norm, bands);
    if (status != PDL_OK || norm->dx == NULL) return status;
    return PDL_LAUNCH(norm_backward_any<T>, pdl__gpu_blocks(gpu, norm->rows, WARPS, 8), WARPS * 32, 0, stream,
                      *norm);
}

template <typename T>
static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const norm_t *norm)
{
    int64_t      count = pdl__cuda_rows_norm_parts(norm->rows);
    int          vectors = vectors_of(norm), warps = vectors <= 3 ? 8 : 4; /* registers for the sums of wide rows */
    auto         layer_norm_backward = norm_backward<T, 1, 8>;
    pdl_status_t status;

    switch (vectors) {
    case 3: layer_norm_backward = norm_backward<T, 3, 8>; break;
    case 4: layer_norm_backward = norm_backward<T, 4, 4>; break;
    case 5: layer_norm_backward = norm_backward<T, 5, 4>; break;
    case 7: layer_norm_backward = norm_backward<T, 7, 4>; break;
    }
    if (pdl__cuda_wide_norm_threads(norm) > 0) {
        status = pdl__cuda_wide_norm_back(gpu, stream, type, norm, &count);
    } else if (vectors == 0) {
        status = backward_any<T>(gpu, stream, norm, &count);
    } else {
        int blocks = pdl__gpu_blocks(gpu, norm->rows, warps, vectors == 1 ? 4 : 2);

        count = blocks < count ? blocks : count;
        status = PDL_LAUNCH(layer_norm_backward, (int)count, warps * 32,
                            (size_t)((1 + warps) * norm->channels) * sizeof(float), stream, *norm);
    }
    if (status == PDL_OK && (norm->dweight != NULL || norm->dbias != NULL))
        status = pdl__cuda_finish_columns(gpu, stream, norm->parts, count, norm->channels, 2 * norm->channels,
                                          norm->add, norm->dweight, norm->dbias);
    return status;
}

static pdl_status_t norm_rows(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const norm_t *norm)
{
    if (pdl__cuda_wide_norm_threads(norm) > 0) return pdl__cuda_wide_norm(gpu, stream, type, norm);
    return type == PDL_DTYPE_BF16 ? forward<pdl_bf16>(gpu, stream, norm) : forward<float>(gpu, stream, norm);
}

static pdl_status_t norm_rows_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                   const norm_t *norm)
{
    return type == PDL_DTYPE_BF16 ? backward<pdl_bf16>(gpu, stream, type, norm)
                                  : backward<float>(gpu, stream, type, norm);
}

extern "C" const pdl__cuda_layer_norms_t pdl__cuda_layer_norms = {norm_rows, norm_rows_back};
