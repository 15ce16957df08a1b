/*
 * Pooling, upsampling and local response norm.
 *
 * Backward gathers: a thread has an element of the input and looks for the windows that it is in, so that nothing is added
 * by several threads.
 */
#include "tensor/plugin/cuda/window/window.h"

#include "tensor/plugin/cuda/channels.h"

#define BLOCKS 8 /* of a multiprocessor */

/* A position of a sample, from its row. */
struct place {
    int sample, at[3];

    __device__ place(int64_t row, const int (&extent)[3])
    {
        unsigned rest = (unsigned)row;

        at[2] = (int)(rest % (unsigned)extent[2]);
        rest /= (unsigned)extent[2];
        at[1] = (int)(rest % (unsigned)extent[1]);
        rest /= (unsigned)extent[1];
        at[0] = (int)(rest % (unsigned)extent[0]);
        sample = (int)(rest / (unsigned)extent[0]);
    }
};

__device__ inline int64_t row_of(const int (&extent)[3], int sample, int a, int b, int c)
{
    return (((int64_t)sample * extent[0] + a) * extent[1] + b) * extent[2] + c;
}

__device__ inline int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* The elements [low, high) of a window that are on the input, in one dimension. */
__device__ inline void inside(const pdl__cuda_window_t &w, int d, int at, int *start, int *low, int *high)
{
    int room;

    *start = at * w.step[d] - w.pad[d];
    room = w.in[d] - *start;
    *low = *start < 0 ? divide_up(-*start, w.dilation[d]) : 0;
    *high = min(room <= 0 ? 0 : divide_up(room, w.dilation[d]), w.kernel[d]);
    if (*high < *low) *high = *low;
}

__device__ inline float mean_factor(const pdl__cuda_pool_t &p, const int (&low)[3], const int (&high)[3])
{
    int count = 1;

    for (int d = 0; d < 3; d++) count *= p.count_padding ? p.window.kernel[d] : high[d] - low[d];
    return 1.0f / (float)(count > 0 ? count : 1);
}

/* The largest value so far and where it was; of equal ones the first, and a NaN wins. */
template <int V> struct largest_so_far {
    float value[V];
    int   place[V];
    bool  empty;

    __device__ largest_so_far() : empty(true)
    {
#pragma unroll
        for (int i = 0; i < V; i++) {
            value[i] = 0;
            place[i] = -1;
        }
    }
    __device__ void see(const float (&next)[V], int element)
    {
#pragma unroll
        for (int i = 0; i < V; i++) {
            bool better = empty || next[i] > value[i] || (next[i] != next[i] && value[i] == value[i]);

            value[i] = better ? next[i] : value[i];
            place[i] = better ? element : place[i];
        }
        empty = false;
    }
};

template <typename P, int V> __device__ inline void write_places(void *places, int64_t at, const int (&place)[V])
{
    pdl_lanes<P, V> lanes;

#pragma unroll
    for (int i = 0; i < V; i++) lanes.at[i] = (P)place[i]; /* -1: all bits */
    *reinterpret_cast<pdl_lanes<P, V> *>(static_cast<P *>(places) + at) = lanes;
}

template <typename T, typename P, int V> __global__ void pool_largest(pdl__cuda_pool_t p, pdl_rows_t r)
{
    const pdl__cuda_window_t &w = p.window;
    pdl_row_walk<V>           walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        place             o(row, w.out);
        int               start[3], low[3], high[3];
        largest_so_far<V> largest;

        for (int d = 0; d < 3; d++) inside(w, d, o.at[d], &start[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    int64_t from = row_of(w.in, o.sample, start[0] + a * w.dilation[0],
                                          start[1] + b * w.dilation[1], start[2] + c * w.dilation[2]);
                    float   x[V];

                    pdl_load<T, V>(p.in, from * w.stride + walk.channel, x);
                    largest.see(x, (a * w.kernel[1] + b) * w.kernel[2] + c);
                }
        pdl_write<T, V>(p.out, row * w.stride + walk.channel, largest.value);
        if (p.place != NULL) write_places<P, V>(p.place, row * w.stride + walk.channel, largest.place);
    }
}

/* Windows of 3 x 3 in images: all nine are in flight before the first is compared. */
template <typename T, typename P, int V> __global__ void pool_largest_3x3(pdl__cuda_pool_t p, pdl_rows_t r)
{
    const pdl__cuda_window_t &w = p.window;
    pdl_row_walk<V>           walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        place             o(row, w.out);
        int               top = o.at[0] * w.step[0] - w.pad[0], left = o.at[1] * w.step[1] - w.pad[1];
        pdl_lanes<T, V>   x[9];
        largest_so_far<V> largest;

#pragma unroll
        for (int k = 0; k < 9; k++) {
            int y = min(max(top + k / 3, 0), w.in[0] - 1), z = min(max(left + k % 3, 0), w.in[1] - 1);

            x[k] = pdl_read<T, V>(p.in, row_of(w.in, o.sample, y, z, 0) * w.stride + walk.channel);
        }
#pragma unroll
        for (int k = 0; k < 9; k++) {
            bool is_inside =
                (unsigned)(top + k / 3) < (unsigned)w.in[0] && (unsigned)(left + k % 3) < (unsigned)w.in[1];
            float value[V];

            pdl_widen<T, V>(x[k], value);
            if (is_inside) largest.see(value, k);
        }
        pdl_write<T, V>(p.out, row * w.stride + walk.channel, largest.value);
        if (p.place != NULL) write_places<P, V>(p.place, row * w.stride + walk.channel, largest.place);
    }
}

template <typename T, int V> __global__ void pool_mean(pdl__cuda_pool_t p, pdl_rows_t r)
{
    const pdl__cuda_window_t &w = p.window;
    pdl_row_walk<V>           walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        place o(row, w.out);
        int   start[3], low[3], high[3];
        float sum[V] = {}, factor;

        for (int d = 0; d < 3; d++) inside(w, d, o.at[d], &start[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    int64_t from = row_of(w.in, o.sample, start[0] + a * w.dilation[0],
                                          start[1] + b * w.dilation[1], start[2] + c * w.dilation[2]);
                    float   x[V];

                    pdl_load<T, V>(p.in, from * w.stride + walk.channel, x);
#pragma unroll
                    for (int i = 0; i < V; i++) sum[i] += x[i];
                }
        factor = mean_factor(p, low, high);
#pragma unroll
        for (int i = 0; i < V; i++) sum[i] *= factor;
        pdl_write<T, V>(p.out, row * w.stride + walk.channel, sum);
    }
}

/* The windows [low, high) whose reach covers an element, in one dimension; not all of them have it when dilated. */
__device__ inline void covering(const pdl__cuda_window_t &w, int d, int at, int *low, int *high)
{
    int reach = at + w.pad[d] - (w.kernel[d] - 1) * w.dilation[d];

    *low = reach <= 0 ? 0 : divide_up(reach, w.step[d]);
    *high = min((at + w.pad[d]) / w.step[d] + 1, w.out[d]);
}

/* Element of window `o` that is at `at`, or -1. */
__device__ inline int element_at(const pdl__cuda_window_t &w, int d, int o, int at)
{
    int from = at + w.pad[d] - o * w.step[d];

    return from % w.dilation[d] != 0 ? -1 : from / w.dilation[d];
}

/* What window `o` hands to its element `element`. */
template <typename T, typename P, int V, bool LARGEST>
__device__ inline void add_share(const pdl__cuda_pool_t &p, const int (&o)[3], int sample, int channel, int element,
                                 float (&sum)[V])
{
    const pdl__cuda_window_t &w = p.window;
    int64_t                   at = row_of(w.out, sample, o[0], o[1], o[2]) * w.stride + channel;
    float                     g[V];

    pdl_load<T, V>(p.in, at, g);
    if (LARGEST) {
        pdl_lanes<P, V> place = pdl_read<P, V>(p.place, at);

#pragma unroll
        for (int i = 0; i < V; i++) sum[i] += (int)place.at[i] == element ? g[i] : 0;
    } else {
        int   start[3], low[3], high[3];
        float factor;

        for (int d = 0; d < 3; d++) inside(w, d, o[d], &start[d], &low[d], &high[d]);
        factor = mean_factor(p, low, high);
#pragma unroll
        for (int i = 0; i < V; i++) sum[i] += factor * g[i];
    }
}

template <typename T, typename P, int V, bool LARGEST> __global__ void pool_gather(pdl__cuda_pool_t p, pdl_rows_t r)
{
    const pdl__cuda_window_t &w = p.window;
    pdl_row_walk<V>           walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        place x(row, w.in);
        int   low[3], high[3], o[3];
        float sum[V] = {};

        for (int d = 0; d < 3; d++) covering(w, d, x.at[d], &low[d], &high[d]);
        for (o[0] = low[0]; o[0] < high[0]; o[0]++)
            for (o[1] = low[1]; o[1] < high[1]; o[1]++)
                for (o[2] = low[2]; o[2] < high[2]; o[2]++) {
                    int a = element_at(w, 0, o[0], x.at[0]), b = element_at(w, 1, o[1], x.at[1]),
                        c = element_at(w, 2, o[2], x.at[2]);

                    if (a < 0 || b < 0 || c < 0) continue;
                    add_share<T, P, V, LARGEST>(p, o, x.sample, walk.channel,
                                                (a * w.kernel[1] + b) * w.kernel[2] + c, sum);
                }
        pdl_write<T, V>(p.out, row * w.stride + walk.channel, sum);
    }
}

/* The windows over one element along one dimension, where they are at most two: the later one, and whether it and the one before
   are there. */
struct two_windows {
    int  last;
    bool has[2];

    __device__ two_windows(int at, int kernel, int out)
    {
        int offset = at & 1; /* in the later one */

        last = at >> 1;
        has[0] = offset < kernel && last < out;
        has[1] = offset + 2 < kernel && last > 0 && last <= out;
    }
};

/* Maxima of images under windows of at most 4 x 4 with stride 2: the four windows that an element can be in are in flight at
   once, and nothing is divided by what is not known before. */
template <typename T, typename P, int V> __global__ void pool_gather_four(pdl__cuda_pool_t p, pdl_rows_t r)
{
    const pdl__cuda_window_t &w = p.window;
    pdl_row_walk<V>           walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        place       x(row, w.in);
        two_windows down(x.at[0] + w.pad[0], w.kernel[0], w.out[0]),
            across(x.at[1] + w.pad[1], w.kernel[1], w.out[1]);
        pdl_lanes<T, V> g[4];
        pdl_lanes<P, V> place[4];
        float           sum[V] = {};

#pragma unroll
        for (int k = 0; k < 4; k++) { /* in the order of the output */
            int     a = 1 - k / 2, b = 1 - k % 2;
            int64_t at = row_of(w.out, x.sample, down.last - a, across.last - b, 0) * w.stride + walk.channel;

            if (!down.has[a] || !across.has[b]) continue;
            g[k] = pdl_read<T, V>(p.in, at);
            place[k] = pdl_read<P, V>(p.place, at);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int a = 1 - k / 2, b = 1 - k % 2;
            int element = (x.at[0] + w.pad[0] - 2 * (down.last - a)) * w.kernel[1] + x.at[1] + w.pad[1] -
                          2 * (across.last - b);
            float value[V];

            if (!down.has[a] || !across.has[b]) continue;
            pdl_widen<T, V>(g[k], value);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += (int)place[k].at[i] == element ? value[i] : 0;
        }
        pdl_write<T, V>(p.out, row * w.stride + walk.channel, sum);
    }
}

static int64_t count_rows(int samples, const int (&extent)[3])
{
    return (int64_t)samples * extent[0] * extent[1] * extent[2];
}

static bool is_image(const pdl__cuda_window_t &w)
{
    return w.kernel[2] == 1 && w.in[2] == 1 && w.step[2] == 1 && w.pad[2] == 0 && w.dilation[0] == 1 &&
           w.dilation[1] == 1;
}

static bool is_3x3(const pdl__cuda_window_t &w)
{
    return is_image(w) && w.kernel[0] == 3 && w.kernel[1] == 3;
}

static bool is_small(const pdl__cuda_window_t &w)
{
    return is_image(w) && w.step[0] == 2 && w.step[1] == 2 && w.kernel[0] <= 4 && w.kernel[1] <= 4;
}

template <typename T, typename P, int V>
static pdl_status_t launch_pool(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_pool_t &p, bool back)
{
    auto       largest = is_3x3(p.window) ? pool_largest_3x3<T, P, V> : pool_largest<T, P, V>;
    auto       mean = pool_mean<T, V>;
    auto       gather_largest = is_small(p.window) ? pool_gather_four<T, P, V> : pool_gather<T, P, V, true>;
    auto       gather_mean = pool_gather<T, P, V, false>;
    pdl_rows_t r = pdl_cover_rows(gpu, count_rows(p.window.samples, back ? p.window.in : p.window.out),
                                  p.window.stride, 1, BLOCKS);

    if (back)
        return p.largest ? PDL_LAUNCH(gather_largest, r.grid, pdl_row_block(r), 0, stream, p, r)
                         : PDL_LAUNCH(gather_mean, r.grid, pdl_row_block(r), 0, stream, p, r);
    return p.largest ? PDL_LAUNCH(largest, r.grid, pdl_row_block(r), 0, stream, p, r)
                     : PDL_LAUNCH(mean, r.grid, pdl_row_block(r), 0, stream, p, r);
}

template <typename T, int V>
static pdl_status_t run_pool(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_pool_t &p, bool back)
{
    return p.wide ? launch_pool<T, uint16_t, V>(gpu, stream, p, back)
                  : launch_pool<T, uint8_t, V>(gpu, stream, p, back);
}

static pdl_status_t pool(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const pdl__cuda_pool_t *p)
{
    return PDL_ROW_TYPES(type, p->window.stride, run_pool, gpu, stream, *p, false);
}

static pdl_status_t pool_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                              const pdl__cuda_pool_t *p)
{
    return PDL_ROW_TYPES(type, p->window.stride, run_pool, gpu, stream, *p, true);
}

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
        place o(row, u.out);
        int   side[2][3];
        float share[3], sum[V] = {};

        for (int d = 0; d < 3; d++) between(u, d, o.at[d], &side[0][d], &side[1][d], &share[d]);
        for (int corner = 0; corner < 8; corner++) {
            int   high[3] = {corner & 1, corner >> 1 & 1, corner >> 2};
            float weight = 1, x[V];

            for (int d = 0; d < 3; d++) weight *= high[d] ? share[d] : 1 - share[d];
            if (weight == 0) continue;
            pdl_load<T, V>(u.from,
                           row_of(u.in, o.sample, side[high[0]][0], side[high[1]][1], side[high[2]][2]) * u.stride +
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
        place x(row, u.in);
        int   low[3], high[3];
        float sum[V] = {};

        for (int d = 0; d < 3; d++) readers(u, d, x.at[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    float g[V], weight = weight_of(u, 0, a, x.at[0]) * weight_of(u, 1, b, x.at[1]) *
                                         weight_of(u, 2, c, x.at[2]);

                    if (weight == 0) continue;
                    pdl_load<T, V>(u.from, row_of(u.out, x.sample, a, b, c) * u.stride + walk.channel, g);
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
    pdl_rows_t r = pdl_cover_rows(gpu, count_rows(u.samples, back ? u.in : u.out), u.stride, 1, BLOCKS);

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
    int  blocks = pdl__gpu_blocks(gpu, p->rows * p->stride, 256, BLOCKS);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, 256, 0, stream, *p)
                                  : PDL_LAUNCH(wide, blocks, 256, 0, stream, *p);
}

static pdl_status_t response_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_response_t *p)
{
    auto narrow = response_backward<pdl_bf16>;
    auto wide = response_backward<float>;
    int  blocks = pdl__gpu_blocks(gpu, p->rows * p->stride, 256, BLOCKS);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, 256, 0, stream, *p)
                                  : PDL_LAUNCH(wide, blocks, 256, 0, stream, *p);
}

const pdl__cuda_windows_t pdl__cuda_windows = {pool,     pool_back,     global_pool, global_pool_back,
                                               upsample, upsample_back, response,    response_back};
