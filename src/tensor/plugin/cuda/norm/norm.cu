/*
 * Batch norm, with the sum and the ReLU that follow it in residual networks. (Group norm is in group_norm.cu.)
 *
 * It is bound by memory, so passes are few. Forward: one for the statistics, one that writes relu(scale x + shift + add).
 * Backward: one that adds up and masks the gradients of the output, and sums; one that makes the gradient of x. Passes that
 * measure go from the last row to the first: what was written before, and what the next pass begins with, is still in the
 * cache.
 *
 * Sums are around the first row, or the mean, so that a large mean does not swallow a small variance; in float within a
 * block of threads, in double over blocks.
 */
#include "tensor/plugin/cuda/norm/norm.h"

#include "tensor/plugin/cuda/channels.h"
#include "tensor/plugin/cuda/norm/group_norm.h"

/* Rows in flight of a thread, and blocks of a multiprocessor: as many as it has room for, since every block first reads what belongs
   to its channels and in the end leaves its sums. On an H200 these were the best of 40 pairs for nearly all shapes of ResNet-50:
   3.8 to 4.2 TB/s where tensors have 100 MB or more. */
#define MEASURE_AHEAD      4
#define MEASURE_ROOM       3
#define APPLY_AHEAD        2
#define APPLY_ROOM         4
#define ADD_AHEAD          1 /* with a sum */
#define MEASURE_BACK_AHEAD 1
#define MEASURE_BACK_ROOM  4
#define APPLY_BACK_AHEAD   2
#define APPLY_BACK_ROOM    2

static pdl_rows_t cover(const pdl__gpu_t *gpu, const pdl__cuda_batch_norm_t &b, int ahead, int room)
{
    pdl_rows_t r = pdl_cover_rows(gpu, b.rows, b.stride, ahead, room);

    if (r.grid.y > PDL__NORM_PARTIALS / r.grid.x) r.grid.y = PDL__NORM_PARTIALS / r.grid.x;
    if (r.grid.y < 1) r.grid.y = 1;
    return r;
}

template <typename T, int V>
__global__ void __launch_bounds__(PDL_ROW_THREADS, MEASURE_ROOM)
    measure_rows(pdl__cuda_batch_norm_t b, pdl_rows_t r)
{
    constexpr int   AHEAD = MEASURE_AHEAD;
    pdl_row_walk<V> walk(r);
    float           sum[2][V] = {}, center[V];

    pdl_load<T, V>(b.x, walk.channel, center);
    for (int64_t first = walk.row; first < r.rows; first += walk.step * AHEAD) {
        pdl_lanes<T, V> x[AHEAD];

#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t row = first + k * walk.step;

            if (row < r.rows) x[k] = pdl_read<T, V>(b.x, (r.rows - 1 - row) * b.stride + walk.channel);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            float value[V];

            if (first + k * walk.step >= r.rows) break;
            pdl_widen<T, V>(x[k], value);
#pragma unroll
            for (int i = 0; i < V; i++) {
                value[i] -= center[i];
                sum[0][i] += value[i];
                sum[1][i] += value[i] * value[i];
            }
        }
    }
    pdl_add_rows<V, 2>(r, sum, [&](int which, int channel, float total) {
        b.partial[((int64_t)blockIdx.y * 2 + which) * b.stride + channel] = total;
    });
}

/* ---- from partial sums to what a channel needs ---- */

/* Sums of x and x^2 from those around the first row. */
template <typename T>
__device__ inline void uncenter(const pdl__cuda_batch_norm_t &b, int channel, double *sum, double *squares)
{
    double at = (double)(float)static_cast<const T *>(b.x)[channel], local = (double)b.rows;

    *squares += at * (2 * *sum + local * at);
    *sum += local * at;
}

__device__ inline void set_scale(const pdl__cuda_batch_norm_t &b, int c, double mean, double inverse)
{
    double scale = c < b.channels ? inverse * (double)b.gamma[c] : 0;

    b.scale[c] = (float)scale;
    b.shift[c] = (float)((c < b.channels && b.beta != NULL ? (double)b.beta[c] : 0.0) - mean * scale);
}

__device__ inline void set_moments(const pdl__cuda_batch_norm_t &b, int c, double sum, double squares)
{
    double mean = sum / b.count, variance = squares / b.count - mean * mean, inverse, unbiased;

    if (variance < 0) variance = 0;
    inverse = 1.0 / sqrt(variance + b.epsilon);
    unbiased = b.count > 1 ? variance * b.count / (b.count - 1) : variance;
    b.mean[c] = (float)mean;
    b.inverse[c] = (float)inverse;
    set_scale(b, c, mean, inverse);
    if (b.running_mean == NULL) return;
    b.running_mean[c] = (float)((1 - b.momentum) * (double)b.running_mean[c] + b.momentum * mean);
    b.running_var[c] = (float)((1 - b.momentum) * (double)b.running_var[c] + b.momentum * unbiased);
}

__device__ inline void clear_channel(const pdl__cuda_batch_norm_t &b, int c)
{
    b.mean[c] = b.inverse[c] = b.scale[c] = b.shift[c] = 0;
}

template <typename T> __global__ void total_channels(pdl__cuda_batch_norm_t b, int parts)
{
    int    c = pdl_total_channel();
    double sum, squares;

    pdl_add_partials(b.partial, parts, b.stride, &sum, &squares);
    if (threadIdx.x >= PDL_TOTAL_CHANNELS || c >= b.channels) return;
    uncenter<T>(b, c, &sum, &squares);
    b.total[c] = sum;
    b.total[b.channels + c] = squares;
}

template <typename T> __global__ void set_channels(pdl__cuda_batch_norm_t b, int parts)
{
    int    c = pdl_total_channel();
    double sum = 0, squares = 0;

    if (!b.shared) pdl_add_partials(b.partial, parts, b.stride, &sum, &squares);
    if (threadIdx.x >= PDL_TOTAL_CHANNELS || c >= b.stride) return;
    if (c >= b.channels) {
        clear_channel(b, c);
        return;
    }
    if (b.shared) {
        sum = b.total[c];
        squares = b.total[b.channels + c];
    } else {
        uncenter<T>(b, c, &sum, &squares);
    }
    set_moments(b, c, sum, squares);
}

static __global__ void evaluate_channels(pdl__cuda_batch_norm_t b)
{
    int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (c >= b.stride) return;
    if (c < b.channels)
        set_scale(b, c, (double)b.running_mean[c], 1.0 / sqrt((double)b.running_var[c] + b.epsilon));
    else
        b.scale[c] = b.shift[c] = 0;
}

/* ---- the pass that writes ---- */

template <typename T, int V, bool ADD, bool RELU>
__global__ void __launch_bounds__(PDL_ROW_THREADS, APPLY_ROOM) apply_rows(pdl__cuda_batch_norm_t b, pdl_rows_t r)
{
    constexpr int   AHEAD = ADD ? ADD_AHEAD : APPLY_AHEAD;
    pdl_row_walk<V> walk(r);
    float           scale[V], shift[V];

    pdl_load_floats<V>(b.scale, walk.channel, scale);
    pdl_load_floats<V>(b.shift, walk.channel, shift);
    for (int64_t first = walk.row; first < r.rows; first += walk.step * AHEAD) {
        pdl_lanes<T, V> x[AHEAD], add[AHEAD];

#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t at = (first + k * walk.step) * b.stride + walk.channel;

            if (first + k * walk.step >= r.rows) break;
            x[k] = ADD ? pdl_read_last<T, V>(b.x, at) : pdl_read<T, V>(b.x, at);
            if (ADD) add[k] = pdl_read_last<T, V>(b.add, at);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t  at = (first + k * walk.step) * b.stride + walk.channel;
            float    y[V], other[V];
            unsigned bits = 0;

            if (first + k * walk.step >= r.rows) break;
            pdl_widen<T, V>(x[k], y);
            if (ADD) pdl_widen<T, V>(add[k], other);
#pragma unroll
            for (int i = 0; i < V; i++) {
                y[i] = fmaf(y[i], scale[i], shift[i]);
                if (ADD) y[i] += other[i];
                if (RELU) y[i] = y[i] < 0 ? 0 : y[i];
                if (RELU && ADD) bits |= (y[i] > 0 ? 1u : 0u) << i;
            }
            pdl_write<T, V>(b.out, at, y);
            if (RELU && ADD && b.bits != NULL) b.bits[at / V] = (uint8_t)bits;
        }
    }
}

/* ---- backward ---- */

/* What the ReLU lets through of a gradient. */
template <int V, pdl__cuda_mask_t MASK>
__device__ inline void mask_gradient(const float (&x)[V], const float (&scale)[V], const float (&shift)[V],
                                     unsigned bits, float (&g)[V])
{
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (MASK == PDL__MASK_SIGN) g[i] = fmaf(x[i], scale[i], shift[i]) > 0 ? g[i] : 0;
        if (MASK == PDL__MASK_BITS) g[i] = (bits >> i & 1) != 0 ? g[i] : 0;
    }
}

/* The row of both gradients, x and the mask, read before anything is done with them; LAST: for the last time. */
template <typename T, int V, pdl__cuda_mask_t MASK, bool TWO, bool LAST_X, bool LAST_G> struct gradient_row {
    pdl_lanes<T, V> x, first, second;
    unsigned        bits;

    __device__ void read(const pdl__cuda_batch_norm_t &b, int64_t at)
    {
        x = LAST_X ? pdl_read_last<T, V>(b.x, at) : pdl_read<T, V>(b.x, at);
        first = LAST_G ? pdl_read_last<T, V>(b.gradient[0], at) : pdl_read<T, V>(b.gradient[0], at);
        if (TWO) second = LAST_G ? pdl_read_last<T, V>(b.gradient[1], at) : pdl_read<T, V>(b.gradient[1], at);
        if (MASK == PDL__MASK_BITS) bits = b.bits[at / V];
    }
    __device__ void widen(const float (&scale)[V], const float (&shift)[V], float (&value)[V], float (&g)[V]) const
    {
        float other[V];

        pdl_widen<T, V>(x, value);
        pdl_widen<T, V>(first, g);
        if (TWO) pdl_widen<T, V>(second, other);
#pragma unroll
        for (int i = 0; TWO && i < V; i++) g[i] += other[i];
        mask_gradient<V, MASK>(value, scale, shift, bits, g);
    }
};

template <typename T, int V, pdl__cuda_mask_t MASK, bool TWO, bool KEEP>
__global__ void __launch_bounds__(PDL_ROW_THREADS, MEASURE_BACK_ROOM)
    measure_back(pdl__cuda_batch_norm_t b, pdl_rows_t r)
{
    constexpr int   AHEAD = MEASURE_BACK_AHEAD;
    pdl_row_walk<V> walk(r);
    float           sum[2][V] = {}, mean[V], scale[V], shift[V];

    pdl_load_floats<V>(b.mean, walk.channel, mean);
    pdl_load_floats<V>(b.scale, walk.channel, scale);
    pdl_load_floats<V>(b.shift, walk.channel, shift);
    for (int64_t first = walk.row; first < r.rows; first += walk.step * AHEAD) {
        gradient_row<T, V, MASK, TWO, false, KEEP> rows[AHEAD];

#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * walk.step < r.rows)
                rows[k].read(b, (r.rows - 1 - first - k * walk.step) * b.stride + walk.channel);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            float x[V], g[V];

            if (first + k * walk.step >= r.rows) break;
            rows[k].widen(scale, shift, x, g);
            if (KEEP) pdl_write<T, V>(b.kept, (r.rows - 1 - first - k * walk.step) * b.stride + walk.channel, g);
#pragma unroll
            for (int i = 0; i < V; i++) {
                sum[0][i] += g[i];
                sum[1][i] += g[i] * (x[i] - mean[i]);
            }
        }
    }
    pdl_add_rows<V, 2>(r, sum, [&](int which, int channel, float total) {
        b.partial[((int64_t)blockIdx.y * 2 + which) * b.stride + channel] = total;
    });
}

__device__ inline void add_gradient(float *gradient, int c, double value, bool accumulate)
{
    if (gradient != NULL) gradient[c] = (float)(accumulate ? (double)gradient[c] + value : value);
}

/* dx = scale (g - mean(g) - (x - mean) / deviation^2 mean(g (x - mean))) */
__device__ inline void set_slope(const pdl__cuda_batch_norm_t &b, int c, double sum, double product)
{
    double inverse = (double)b.inverse[c];

    b.offset[c] = (float)(-sum / b.count);
    b.slope[c] = (float)(-product / b.count * inverse * inverse);
}

static __global__ void total_back(pdl__cuda_batch_norm_t b, int parts)
{
    int    c = pdl_total_channel();
    double sum, product;

    pdl_add_partials(b.partial, parts, b.stride, &sum, &product);
    if (threadIdx.x >= PDL_TOTAL_CHANNELS || c >= b.stride) return;
    if (c >= b.channels) {
        b.offset[c] = b.slope[c] = 0;
        return;
    }
    add_gradient(b.gamma_gradient, c, product * (double)b.inverse[c], b.accumulate);
    add_gradient(b.beta_gradient, c, sum, b.accumulate);
    if (!b.shared) {
        set_slope(b, c, sum, product);
        return;
    }
    b.total[c] = sum;
    b.total[b.channels + c] = product;
}

static __global__ void slope_channels(pdl__cuda_batch_norm_t b)
{
    int c = (int)(blockIdx.x * blockDim.x + threadIdx.x);

    if (c >= b.stride) return;
    if (c < b.channels)
        set_slope(b, c, b.total[c], b.total[b.channels + c]);
    else
        b.offset[c] = b.slope[c] = 0;
}

template <typename T, int V, pdl__cuda_mask_t MASK, bool TWO>
__global__ void __launch_bounds__(PDL_ROW_THREADS, APPLY_BACK_ROOM)
    apply_back(pdl__cuda_batch_norm_t b, pdl_rows_t r)
{
    constexpr int   AHEAD = APPLY_BACK_AHEAD;
    pdl_row_walk<V> walk(r);
    float           mean[V], scale[V], shift[V], slope[V], offset[V];

    pdl_load_floats<V>(b.mean, walk.channel, mean);
    pdl_load_floats<V>(b.scale, walk.channel, scale);
    pdl_load_floats<V>(b.shift, walk.channel, shift);
    pdl_load_floats<V>(b.slope, walk.channel, slope);
    pdl_load_floats<V>(b.offset, walk.channel, offset);
#pragma unroll
    for (int i = 0; i < V; i++) { /* dx = scale g + slope x + offset */
        slope[i] *= scale[i];
        offset[i] = scale[i] * offset[i] - slope[i] * mean[i];
    }
    for (int64_t first = walk.row; first < r.rows; first += walk.step * AHEAD) {
        gradient_row<T, V, MASK, TWO, true, true> rows[AHEAD];

#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (first + k * walk.step < r.rows) rows[k].read(b, (first + k * walk.step) * b.stride + walk.channel);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            float x[V], g[V];

            if (first + k * walk.step >= r.rows) break;
            rows[k].widen(scale, shift, x, g);
#pragma unroll
            for (int i = 0; i < V; i++) g[i] = fmaf(scale[i], g[i], fmaf(slope[i], x[i], offset[i]));
            pdl_write<T, V>(b.out, (first + k * walk.step) * b.stride + walk.channel, g);
        }
    }
}

/* ---- launches ---- */

static int total_blocks(const pdl__cuda_batch_norm_t *b)
{
    return (b->stride + PDL_TOTAL_CHANNELS - 1) / PDL_TOTAL_CHANNELS;
}

template <typename T, int V>
static pdl_status_t run_measure(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t &b)
{
    auto       kernel = measure_rows<T, V>;
    pdl_rows_t r = cover(gpu, b, MEASURE_AHEAD, MEASURE_ROOM);

    return PDL_LAUNCH(kernel, r.grid, pdl_row_block(r), 0, stream, b, r);
}

static pdl_status_t batch_measure(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_batch_norm_t *b)
{
    return PDL_ROW_TYPES(type, b->stride, run_measure, gpu, stream, *b);
}

static pdl_status_t batch_total(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                const pdl__cuda_batch_norm_t *b)
{
    auto kernel = type == PDL_DTYPE_BF16 ? total_channels<pdl_bf16> : total_channels<float>;

    return PDL_LAUNCH(kernel, total_blocks(b), PDL_TOTAL_THREADS, 0, stream, *b,
                      (int)cover(gpu, *b, MEASURE_AHEAD, MEASURE_ROOM).grid.y);
}

static pdl_status_t batch_moments(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_batch_norm_t *b)
{
    auto kernel = type == PDL_DTYPE_BF16 ? set_channels<pdl_bf16> : set_channels<float>;

    return PDL_LAUNCH(kernel, total_blocks(b), PDL_TOTAL_THREADS, 0, stream, *b,
                      (int)cover(gpu, *b, MEASURE_AHEAD, MEASURE_ROOM).grid.y);
}

static pdl_status_t batch_evaluate(pdl__gpu_t *, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t *b)
{
    return PDL_LAUNCH(evaluate_channels, (b->stride + 127) / 128, 128, 0, stream, *b);
}

template <typename T, int V>
static pdl_status_t run_apply(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t &b)
{
    bool       relu = b.mask != PDL__MASK_NONE;
    auto       added = relu ? apply_rows<T, V, true, true> : apply_rows<T, V, true, false>;
    auto       alone = relu ? apply_rows<T, V, false, true> : apply_rows<T, V, false, false>;
    pdl_rows_t r = cover(gpu, b, b.add != NULL ? ADD_AHEAD : APPLY_AHEAD, APPLY_ROOM);

    return b.add != NULL ? PDL_LAUNCH(added, r.grid, pdl_row_block(r), 0, stream, b, r)
                         : PDL_LAUNCH(alone, r.grid, pdl_row_block(r), 0, stream, b, r);
}

static pdl_status_t batch_apply(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                const pdl__cuda_batch_norm_t *b)
{
    return PDL_ROW_TYPES(type, b->stride, run_apply, gpu, stream, *b);
}

template <typename T, int V, pdl__cuda_mask_t MASK>
static pdl_status_t launch_measure_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream,
                                        const pdl__cuda_batch_norm_t &b)
{
    bool       keep = b.kept != NULL;
    auto       two = keep ? measure_back<T, V, MASK, true, true> : measure_back<T, V, MASK, true, false>;
    auto       one = keep ? measure_back<T, V, MASK, false, true> : measure_back<T, V, MASK, false, false>;
    pdl_rows_t r = cover(gpu, b, MEASURE_BACK_AHEAD, MEASURE_BACK_ROOM);

    return b.gradient[1] != NULL ? PDL_LAUNCH(two, r.grid, pdl_row_block(r), 0, stream, b, r)
                                 : PDL_LAUNCH(one, r.grid, pdl_row_block(r), 0, stream, b, r);
}

template <typename T, int V, pdl__cuda_mask_t MASK>
static pdl_status_t launch_apply_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t &b)
{
    auto       two = apply_back<T, V, MASK, true>;
    auto       one = apply_back<T, V, MASK, false>;
    pdl_rows_t r = cover(gpu, b, APPLY_BACK_AHEAD, APPLY_BACK_ROOM);

    return b.gradient[1] != NULL ? PDL_LAUNCH(two, r.grid, pdl_row_block(r), 0, stream, b, r)
                                 : PDL_LAUNCH(one, r.grid, pdl_row_block(r), 0, stream, b, r);
}

template <typename T, int V>
static pdl_status_t run_measure_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t &b)
{
    switch (b.mask) {
    case PDL__MASK_NONE: return launch_measure_back<T, V, PDL__MASK_NONE>(gpu, stream, b);
    case PDL__MASK_SIGN: return launch_measure_back<T, V, PDL__MASK_SIGN>(gpu, stream, b);
    default: return launch_measure_back<T, V, PDL__MASK_BITS>(gpu, stream, b);
    }
}

template <typename T, int V>
static pdl_status_t run_apply_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t &b)
{
    switch (b.mask) {
    case PDL__MASK_NONE: return launch_apply_back<T, V, PDL__MASK_NONE>(gpu, stream, b);
    case PDL__MASK_SIGN: return launch_apply_back<T, V, PDL__MASK_SIGN>(gpu, stream, b);
    default: return launch_apply_back<T, V, PDL__MASK_BITS>(gpu, stream, b);
    }
}

static pdl_status_t batch_measure_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                       const pdl__cuda_batch_norm_t *b)
{
    return PDL_ROW_TYPES(type, b->stride, run_measure_back, gpu, stream, *b);
}

static pdl_status_t batch_total_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t *b)
{
    return PDL_LAUNCH(total_back, total_blocks(b), PDL_TOTAL_THREADS, 0, stream, *b,
                      (int)cover(gpu, *b, MEASURE_BACK_AHEAD, MEASURE_BACK_ROOM).grid.y);
}

static pdl_status_t batch_slope(pdl__gpu_t *, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t *b)
{
    return PDL_LAUNCH(slope_channels, (b->stride + 127) / 128, 128, 0, stream, *b);
}

static pdl_status_t batch_apply_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                     const pdl__cuda_batch_norm_t *b)
{
    pdl__cuda_batch_norm_t masked = *b;

    if (b->kept != NULL) {
        masked.mask = PDL__MASK_NONE;
        masked.gradient[0] = b->kept;
        masked.gradient[1] = NULL;
    }
    return PDL_ROW_TYPES(type, b->stride, run_apply_back, gpu, stream, masked);
}

const pdl__cuda_norms_t pdl__cuda_norms = {
    batch_measure,    batch_total, batch_moments,    batch_evaluate,  batch_apply,          batch_measure_back,
    batch_total_back, batch_slope, batch_apply_back, pdl__group_norm, pdl__group_norm_back,
};
