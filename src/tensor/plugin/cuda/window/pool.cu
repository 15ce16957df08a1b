/*
 * Pooling. Backward gathers: a thread has an element of the input and looks for the windows that it is in, so that nothing is
 * added by several threads.
 */
#include "tensor/plugin/cuda/window/places.h"

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
        pdl_place         o(row, w.out);
        int               start[3], low[3], high[3];
        largest_so_far<V> largest;

        for (int d = 0; d < 3; d++) inside(w, d, o.at[d], &start[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    int64_t from = pdl_row_of(w.in, o.sample, start[0] + a * w.dilation[0],
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
        pdl_place         o(row, w.out);
        int               top = o.at[0] * w.step[0] - w.pad[0], left = o.at[1] * w.step[1] - w.pad[1];
        pdl_lanes<T, V>   x[9];
        largest_so_far<V> largest;

#pragma unroll
        for (int k = 0; k < 9; k++) {
            int y = min(max(top + k / 3, 0), w.in[0] - 1), z = min(max(left + k % 3, 0), w.in[1] - 1);

            x[k] = pdl_read<T, V>(p.in, pdl_row_of(w.in, o.sample, y, z, 0) * w.stride + walk.channel);
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
        pdl_place o(row, w.out);
        int       start[3], low[3], high[3];
        float     sum[V] = {}, factor;

        for (int d = 0; d < 3; d++) inside(w, d, o.at[d], &start[d], &low[d], &high[d]);
        for (int a = low[0]; a < high[0]; a++)
            for (int b = low[1]; b < high[1]; b++)
                for (int c = low[2]; c < high[2]; c++) {
                    int64_t from = pdl_row_of(w.in, o.sample, start[0] + a * w.dilation[0],
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
    int64_t                   at = pdl_row_of(w.out, sample, o[0], o[1], o[2]) * w.stride + channel;
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
        pdl_place x(row, w.in);
        int       low[3], high[3], o[3];
        float     sum[V] = {};

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
        pdl_place   x(row, w.in);
        two_windows down(x.at[0] + w.pad[0], w.kernel[0], w.out[0]),
            across(x.at[1] + w.pad[1], w.kernel[1], w.out[1]);
        pdl_lanes<T, V> g[4];
        pdl_lanes<P, V> place[4];
        float           sum[V] = {};

#pragma unroll
        for (int k = 0; k < 4; k++) { /* in the order of the output */
            int     a = 1 - k / 2, b = 1 - k % 2;
            int64_t at = pdl_row_of(w.out, x.sample, down.last - a, across.last - b, 0) * w.stride + walk.channel;

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
    pdl_rows_t r = pdl_cover_rows(gpu, pdl_count_rows(p.window.samples, back ? p.window.in : p.window.out),
                                  p.window.stride, 1, PDL_WINDOW_BLOCKS);

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

pdl_status_t pdl__cuda_pool(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_pool_t *p)
{
    return PDL_ROW_TYPES(type, p->window.stride, run_pool, gpu, stream, *p, false);
}

pdl_status_t pdl__cuda_pool_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_pool_t *p)
{
    return PDL_ROW_TYPES(type, p->window.stride, run_pool, gpu, stream, *p, true);
}
