/*
 * The mean of all positions, upsampling and local response norm. Backward gathers, as in pool.cu.
 */
#include "tensor/plugin/cuda/window/places.h"

/* ---- the mean of all positions ---- */

struct spread {
    int64_t     samples, positions;
    int         channels, stride;
    float       factor;
    const void *in;
    void       *out;
};

template <typename T, int V> __global__ void mean_of_all(spread s, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t n = blockIdx.y; n < s.samples; n += gridDim.y) {
        float sum[1][V] = {};

#pragma unroll 4
        for (int64_t position = walk.down; position < r.rows; position += r.down) {
            float x[V];

            pdl_load<T, V>(s.in, (n * r.rows + position) * s.stride + walk.channel, x);
#pragma unroll
            for (int i = 0; i < V; i++) sum[0][i] += x[i];
        }
        pdl_add_rows<V, 1>(r, sum, [&](int, int channel, float total) {
            if (channel < s.channels) static_cast<T *>(s.out)[n * s.channels + channel] = T(total * s.factor);
        });
        __syncthreads();
    }
}

template <typename T, int V> __global__ void spread_to_all(spread s, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t n = blockIdx.y; n < s.samples; n += gridDim.y) {
        float g[V];

#pragma unroll
        for (int i = 0; i < V; i++)
            g[i] = walk.channel + i < s.channels
                       ? s.factor * (float)static_cast<const T *>(s.in)[n * s.channels + walk.channel + i]
                       : 0;
        for (int64_t position = walk.down; position < r.rows; position += r.down)
            pdl_write<T, V>(s.out, (n * r.rows + position) * s.stride + walk.channel, g);
    }
}

template <typename T, int V> static pdl_status_t run_spread(pdl_tensor_stream_t *stream, const spread &s, bool back)
{
    auto       forward = mean_of_all<T, V>;
    auto       backward = spread_to_all<T, V>;
    pdl_rows_t r = pdl_cover_samples(s.samples, s.positions, s.stride);

    return back ? PDL_LAUNCH(backward, r.grid, pdl_row_block(r), 0, stream, s, r)
                : PDL_LAUNCH(forward, r.grid, pdl_row_block(r), 0, stream, s, r);
}

static pdl_status_t global_pool(pdl__gpu_t *, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                                int64_t positions, int64_t channels, int64_t stride, double factor, const void *in,
                                void *out)
{
    spread s = {samples, positions, (int)channels, (int)stride, (float)factor, in, out};

    return PDL_ROW_TYPES(type, stride, run_spread, stream, s, false);
}

static pdl_status_t global_pool_back(pdl__gpu_t *, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                                     int64_t positions, int64_t channels, int64_t stride, double factor,
                                     const void *in, void *out)
{
    spread s = {samples, positions, (int)channels, (int)stride, (float)factor, in, out};

    return PDL_ROW_TYPES(type, stride, run_spread, stream, s, true);
}

/* ---- upsampling ---- */

/* The two inputs that output `at` is between, and the share of the second. */
__device__ inline void between(const pdl__cuda_upsample_t &u, int d, int at, int *low, int *high, float *share)
{
    double centre = ((double)at + 0.5) * (double)u.in[d] / (double)u.out[d] - 0.5;

    *low = *high = (int)((int64_t)at * u.in[d] / u.out[d]);
    *share = 0;
    if (!u.linear) return;
    if (centre < 0) centre = 0;
    *low = min((int)centre, u.in[d] - 1);
    *high = min(*low + 1, u.in[d] - 1);
    *share = (float)(centre - (double)*low);
}

template <typename T, int V> __global__ void upsample_rows(pdl__cuda_upsample_t u, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        pdl_place o(row, u.out);
        int       side[2][3];
        float     share[3], sum[V] = {};

        for (int d = 0; d < 3; d++) between(u, d, o.at[d], &side[0][d], &side[1][d], &share[d]);
        for (int corner = 0; corner < 8; corner++) {
            int   high[3] = {corner & 1, corner >> 1 & 1, corner >> 2};
            float weight = 1, x[V];

            for (int d = 0; d < 3; d++) weight *= high[d] ? share[d] : 1 - share[d];
            if (weight == 0) continue;
            pdl_load<T, V>(u.from,
                           pdl_row_of(u.in, o.sample, side[high[0]][0], side[high[1]][1], side[high[2]][2]) *
                                   u.stride +
                               walk.channel,
                           x);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += weight * x[i];
        }
        pdl_write<T, V>(u.to, row * u.stride + walk.channel, sum);
    }
}

/* The outputs [low, high) that may have read input `at`, in one dimension. */
__device__ inline void readers(const pdl__cuda_upsample_t &u, int d, int at, int *low, int *high)
{
    double scale = (double)u.out[d] / (double)u.in[d];

    *low = max((int)(((double)at - 0.5) * scale - 0.5) - 1, 0);
    *high = min((int)(((double)at + 1.5) * scale - 0.5) + 2, u.out[d]);
}

/* How much of input `at` is in output `o`, in one dimension. */
__device__ inline float weight_of(const pdl__cuda_upsample_t &u, int d, int o, int at)
{
    int   low, high;
    float share;

    between(u, d, o, &low, &high, &share);
    return (low == at ? 1 - share : 0) + (high == at ? share : 0);
}

template <typename T, int V> __global__ void upsample_gather(pdl__cuda_upsample_t u, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        pdl_place x(row, u.in);
        int       low[3], high[3];
        float     sum[V] = {};

        for (int d = 0; d < 3; d++) readers(u, d, x.at[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    float g[V], weight = weight_of(u, 0, a, x.at[0]) * weight_of(u, 1, b, x.at[1]) *
                                         weight_of(u, 2, c, x.at[2]);

                    if (weight == 0) continue;
                    pdl_load<T, V>(u.from, pdl_row_of(u.out, x.sample, a, b, c) * u.stride + walk.channel, g);
#pragma unroll
                    for (int i = 0; i < V; i++) sum[i] += weight * g[i];
                }
        pdl_write<T, V>(u.to, row * u.stride + walk.channel, sum);
    }
}

template <typename T, int V>
static pdl_status_t run_upsample(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_upsample_t &u,
                                 bool back)
{
    auto       forward = upsample_rows<T, V>;
    auto       backward = upsample_gather<T, V>;
    pdl_rows_t r =
        pdl_cover_rows(gpu, pdl_count_rows(u.samples, back ? u.in : u.out), u.stride, 1, PDL_WINDOW_BLOCKS);

    return back ? PDL_LAUNCH(backward, r.grid, pdl_row_block(r), 0, stream, u, r)
                : PDL_LAUNCH(forward, r.grid, pdl_row_block(r), 0, stream, u, r);
}

static pdl_status_t upsample(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_upsample_t *u)
{
    return PDL_ROW_TYPES(type, u->stride, run_upsample, gpu, stream, *u, false);
}

static pdl_status_t upsample_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_upsample_t *u)
{
    return PDL_ROW_TYPES(type, u->stride, run_upsample, gpu, stream, *u, true);
}

/* ---- local response norm ---- */

/* The exponent that networks use needs no general power. */
__device__ inline float raise(float s, float beta)
{
    return beta == 0.75f ? 1.0f / sqrtf(s * sqrtf(s)) : powf(s, -beta);
}

template <typename T> __global__ void response_forward(pdl__cuda_response_t p)
{
    for (int64_t at = pdl_grid_thread(); at < p.rows * p.stride; at += pdl_grid_threads()) {
        int      c = (int)(at % p.stride), low = max(c - p.low, 0), high = min(c + p.high, p.channels - 1);
        const T *row = static_cast<const T *>(p.x) + (at - c);
        float    squares = 0, s;

        for (int k = low; k <= high; k++) squares += (float)row[k] * (float)row[k];
        s = p.k + p.alpha * squares;
        if (p.s != NULL) p.s[at] = s;
        static_cast<T *>(p.out)[at] = T(c < p.channels ? (float)row[c] * raise(s, p.beta) : 0.0f);
    }
}

/* dx = g s^-beta - 2 alpha beta x * the sum of g x s^(-beta - 1) over the windows that x is in. */
template <typename T> __global__ void response_backward(pdl__cuda_response_t p)
{
    for (int64_t at = pdl_grid_thread(); at < p.rows * p.stride; at += pdl_grid_threads()) {
        int          c = (int)(at % p.stride), low = max(c - p.high, 0), high = min(c + p.low, p.channels - 1);
        const T     *x = static_cast<const T *>(p.x) + (at - c), *g = static_cast<const T *>(p.gradient) + (at - c);
        const float *s = p.s + (at - c);
        float        sum = 0, direct;

        if (c >= p.channels) {
            static_cast<T *>(p.out)[at] = T(0.0f);
            continue;
        }
        for (int k = low; k <= high; k++) sum += (float)g[k] * (float)x[k] * raise(s[k], p.beta) / s[k];
        direct = (float)g[c] * raise(s[c], p.beta);
        static_cast<T *>(p.out)[at] = T(direct - 2 * p.alpha * p.beta * (float)x[c] * sum);
    }
}

static pdl_status_t response(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_response_t *p)
{
    auto narrow = response_forward<pdl_bf16>;
    auto wide = response_forward<float>;
    int  blocks = pdl__gpu_blocks(gpu, p->rows * p->stride, 256, PDL_WINDOW_BLOCKS);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, 256, 0, stream, *p)
                                  : PDL_LAUNCH(wide, blocks, 256, 0, stream, *p);
}

static pdl_status_t response_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_response_t *p)
{
    auto narrow = response_backward<pdl_bf16>;
    auto wide = response_backward<float>;
    int  blocks = pdl__gpu_blocks(gpu, p->rows * p->stride, 256, PDL_WINDOW_BLOCKS);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, 256, 0, stream, *p)
                                  : PDL_LAUNCH(wide, blocks, 256, 0, stream, *p);
}

const pdl__cuda_windows_t pdl__cuda_windows = {pdl__cuda_pool, pdl__cuda_pool_back, global_pool, global_pool_back,
                                               upsample,       upsample_back,       response,    response_back};
