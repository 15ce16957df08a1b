/*
 * Gradients through activations that follow a product, with the sums of their columns, which are the gradient of the bias:
 * in one pass over the matrices where their rows can be read by vectors.
 */
#include "tensor/plugin/cuda/matmul/matmul.h"
#include "tensor/plugin/cuda/pointwise/functions.h"
#include "tensor/plugin/cuda/pointwise/pointwise.h"
#include "tensor/plugin/cuda/teams.h"

#define BAND  256 /* columns of a block */
#define LINES 8   /* rows at a time: a warp each */
#define DEPTH 2   /* rows of a thread whose loads are in flight together */

typedef pdl__cuda_slopes_t slopes_t;

/* parts [count][columns]; block = part * bands + band. */
template <typename T, typename F>
static __global__ void __launch_bounds__(BAND) slope_parts(slopes_t s, int64_t bands)
{
    __shared__ float shared[LINES][BAND];
    int64_t          band = blockIdx.x % bands, part = blockIdx.x / bands, step = gridDim.x / bands * LINES;
    int              lane = threadIdx.x % 32, line = threadIdx.x / 32;
    int64_t          column = band * BAND + lane * 8, mine = band * BAND + threadIdx.x;
    float            sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, total = 0;

    for (int64_t row = part * LINES + line; column < s.columns && row < s.rows; row += DEPTH * step) {
        pdl_raw8<T> kept[DEPTH], dy[DEPTH];

#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            if (row + d * step < s.rows) {
                kept[d].load((const T *)s.kept + (row + d * step) * s.columns + column);
                dy[d].load((const T *)s.dy + (row + d * step) * s.columns + column);
            }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            float v[8], g[8];

            if (row + d * step >= s.rows) continue;
            kept[d].unpack(v);
            dy[d].unpack(g);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                g[i] = F::back(v[i], g[i], 0);
                sum[i] += g[i];
            }
            pdl_store8((T *)s.dz + (row + d * step) * s.columns + column, g);
        }
    }
    if (s.sums == NULL) return;
    for (int i = 0; i < 8; i++) shared[line][lane * 8 + i] = sum[i];
    __syncthreads();
    for (int i = 0; i < LINES; i++) total += shared[i][threadIdx.x];
    if (mine < s.columns) s.parts[part * s.columns + mine] = total;
}

template <typename T, typename F>
static pdl_status_t in_one_pass(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const slopes_t *s)
{
    int64_t      bands = (s->columns + BAND - 1) / BAND, most = pdl__cuda_column_parts(s->rows, s->columns);
    int64_t      count = (int64_t)gpu->multiprocessors * 6 / bands;
    auto         slopes = slope_parts<T, F>;
    pdl_status_t status;

    count = count < 1 ? 1 : count > most ? most : count;
    status = PDL_LAUNCH(slopes, (int)(bands * count), BAND, 0, stream, *s, bands);
    if (status != PDL_OK || s->sums == NULL) return status;
    return pdl__cuda_finish_columns(gpu, stream, s->parts, count, s->columns, s->columns, s->add, s->sums, NULL);
}

template <typename T>
static pdl_status_t by_function(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const slopes_t *s)
{
    switch (s->function) {
    case PDL_LAYER_RELU: return in_one_pass<T, relu>(gpu, stream, s);
    case PDL_LAYER_GELU: return in_one_pass<T, gelu>(gpu, stream, s);
    case PDL_LAYER_GELU_TANH: return in_one_pass<T, gelu_tanh>(gpu, stream, s);
    case PDL_LAYER_SILU: return in_one_pass<T, silu>(gpu, stream, s);
    case PDL_LAYER_HARD_SWISH: return in_one_pass<T, hard_swish>(gpu, stream, s);
    case PDL_LAYER_TANH: return in_one_pass<T, hyperbolic_tangent>(gpu, stream, s);
    case PDL_LAYER_SIGMOID: return in_one_pass<T, sigmoid>(gpu, stream, s);
    default: return pdl_error(PDL_ERR_UNSUPPORTED, "there is no such activation behind a product");
    }
}

static pdl_status_t in_two_passes(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const slopes_t *s)
{
    pdl__cuda_activation_t activation = {};
    pdl_status_t           status;

    activation.function = s->function;
    activation.rows = s->rows;
    activation.channels = activation.stride = s->columns;
    activation.x = s->kept;
    activation.gradient[0] = s->dy;
    activation.out = s->dz;
    status = pdl__cuda_pointwise.activate_back(gpu, stream, type, &activation);
    if (status != PDL_OK || s->sums == NULL) return status;
    return pdl__cuda_sum_columns(gpu, stream, type, s->dz, s->rows, s->columns, s->columns, s->add, s->sums,
                                 s->parts);
}

extern "C" pdl_status_t pdl__cuda_slope_columns(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                                const slopes_t *s)
{
    if (!pdl_has_vectors(s->kept, s->columns, s->columns) || !pdl_is_aligned(s->dy) || !pdl_is_aligned(s->dz))
        return in_two_passes(gpu, stream, type, s);
    return type == PDL_DTYPE_BF16 ? by_function<pdl_bf16>(gpu, stream, s) : by_function<float>(gpu, stream, s);
}
