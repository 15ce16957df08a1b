/*
 * Tensors with channels innermost, as kernels see them: rows of channels, 8 at a time where rows are a multiple of 8 long,
 * else one at a time.
 *
 * A thread keeps its channels and takes every so-many-th row: what belongs to a channel stays in registers. Neighbouring
 * threads have neighbouring channels, and then the next row. Rows of a block lie far apart, those of all blocks together
 * are contiguous: measured 3.8 TB/s on an H200 against 3.0 with a contiguous piece for every block.
 */
#ifndef PDL_TENSOR_CUDA_CHANNELS_H
#define PDL_TENSOR_CUDA_CHANNELS_H

#include "tensor/plugin/cuda/gpu.h"
#include "tensor/plugin/cuda/kernel.h"

#define PDL_ROW_THREADS 256

/* Elements that are read and written together. */
template <typename T, int V> struct alignas(sizeof(T) * V > 16 ? 16 : sizeof(T) * V) pdl_lanes {
    T at[V];
};

template <typename T, int V> __device__ inline pdl_lanes<T, V> pdl_read(const void *data, int64_t at)
{
    return *reinterpret_cast<const pdl_lanes<T, V> *>(static_cast<const T *>(data) + at);
}

/* What nobody reads again soon: it makes room in the cache for what is. */
template <typename T, int V> __device__ inline pdl_lanes<T, V> pdl_read_last(const void *data, int64_t at)
{
#ifndef PDL_CUDA_EMULATED
    if constexpr (sizeof(pdl_lanes<T, V>) % sizeof(uint4) == 0) {
        const uint4    *from = reinterpret_cast<const uint4 *>(static_cast<const T *>(data) + at);
        pdl_lanes<T, V> lanes;

#pragma unroll
        for (unsigned i = 0; i < sizeof(lanes) / sizeof(uint4); i++)
            reinterpret_cast<uint4 *>(&lanes)[i] = __ldcs(from + i);
        return lanes;
    }
#endif
    return pdl_read<T, V>(data, at);
}

template <typename T, int V> __device__ inline void pdl_widen(const pdl_lanes<T, V> &lanes, float (&value)[V])
{
#pragma unroll
    for (int i = 0; i < V; i++) value[i] = (float)lanes.at[i];
}

template <typename T, int V> __device__ inline void pdl_load(const void *data, int64_t at, float (&value)[V])
{
    pdl_widen<T, V>(pdl_read<T, V>(data, at), value);
}

template <typename T, int V> __device__ inline void pdl_write(void *data, int64_t at, const float (&value)[V])
{
    pdl_lanes<T, V> lanes;

#pragma unroll
    for (int i = 0; i < V; i++) lanes.at[i] = T(value[i]);
    *reinterpret_cast<pdl_lanes<T, V> *>(static_cast<T *>(data) + at) = lanes;
}

/* Floats that belong to the channels of a thread, such as scales. */
template <int V> __device__ inline void pdl_load_floats(const float *data, int64_t at, float (&value)[V])
{
#pragma unroll
    for (int i = 0; i < V; i++) value[i] = data[at + i];
}

/* How a block of threads covers rows: `across` threads beside each other, each with V channels, `down` rows. */
typedef struct pdl_rows {
    int64_t rows;
    int     stride, lanes; /* elements and vectors of a row */
    int     across, down;
    dim3    grid; /* x: pieces of a row; y: rows */
} pdl_rows_t;

/* `ahead`: rows that a thread reads before it uses them. */
static inline pdl_rows_t pdl_cover_rows(const pdl__gpu_t *gpu, int64_t rows, int stride, int ahead, int blocks)
{
    pdl_rows_t r = {};
    int64_t    wanted, most;
    int        pieces;

    r.rows = rows;
    r.stride = stride;
    r.lanes = stride % 8 == 0 ? stride / 8 : stride;
    pieces = (r.lanes + 31) / 32;
    r.across = (r.lanes + pieces - 1) / pieces;
    r.down = PDL_ROW_THREADS / r.across;
    wanted = (rows + (int64_t)r.down * ahead - 1) / ((int64_t)r.down * ahead);
    most = (int64_t)gpu->multiprocessors * blocks / pieces;
    if (wanted > most) wanted = most;
    r.grid = dim3((unsigned)pieces, (unsigned)(wanted > 0 ? wanted : 1));
    return r;
}

static inline dim3 pdl_row_block(const pdl_rows_t &r)
{
    return dim3((unsigned)(r.across * r.down));
}

/* What this thread does: rows `row`, `row + step`, ... at the vector that begins with `channel`; no rows where there are no
   channels for it. In a grid of samples: rows `down`, `down + r.down`, ... of each. */
template <int V> struct pdl_row_walk {
    int64_t row, step, down;
    int     channel;

    __device__ explicit pdl_row_walk(const pdl_rows_t &r)
    {
        int  lane = (int)blockIdx.x * r.across + (int)threadIdx.x % r.across;
        bool idle = lane >= r.lanes;

        channel = idle ? 0 : lane * V;
        down = idle ? r.rows : (int)threadIdx.x / r.across;
        step = (int64_t)gridDim.y * r.down;
        row = idle ? r.rows : (int64_t)blockIdx.y * r.down + down;
    }
};

/* Adds up N sums over the rows of a block and calls leave(which, channel, sum) for each. All threads call it; before it is
   called again they must have met. */
template <int V, int N, typename Leave>
__device__ inline void pdl_add_rows(const pdl_rows_t &r, const float (&sum)[N][V], Leave leave)
{
    __shared__ float sums[N][PDL_ROW_THREADS * V];
    int              width = r.across * V;

#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < V; i++) sums[n][(int)threadIdx.x * V + i] = sum[n][i];
    __syncthreads();
    for (int at = (int)threadIdx.x; at < N * width; at += (int)blockDim.x) {
        int   which = at / width, column = at % width, channel = (int)blockIdx.x * width + column;
        float total = 0;

        for (int d = 0; d < r.down; d++) total += sums[which][d * width + column];
        if (channel < r.stride) leave(which, channel, total);
    }
}

/* ---- from partial sums to totals: blocks of PDL_TOTAL_CHANNELS channels, which are 32 bytes of a row, PDL_TOTAL_ROWS at a time:
   it is latency that counts here ---- */

#define PDL_TOTAL_CHANNELS 8
#define PDL_TOTAL_ROWS     128
#define PDL_TOTAL_THREADS  (PDL_TOTAL_ROWS * PDL_TOTAL_CHANNELS)

/* The channel whose totals this thread gets. */
__device__ inline int pdl_total_channel()
{
    return (int)(blockIdx.x * PDL_TOTAL_CHANNELS + threadIdx.x % PDL_TOTAL_CHANNELS);
}

/* Adds up partial[part][2][stride], in double. All threads call it; the first PDL_TOTAL_CHANNELS use the totals. */
__device__ inline void pdl_add_partials(const float *partial, int parts, int stride, double *first, double *second)
{
    __shared__ double sums[2][PDL_TOTAL_ROWS][PDL_TOTAL_CHANNELS + 1], totals[2][PDL_TOTAL_CHANNELS];
    int               x = (int)threadIdx.x % PDL_TOTAL_CHANNELS, y = (int)threadIdx.x / PDL_TOTAL_CHANNELS;
    int               lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, channel = pdl_total_channel();
    int               which = warp / PDL_TOTAL_CHANNELS % 2, column = warp % PDL_TOTAL_CHANNELS;
    double            a = 0, b = 0, sum = 0;

#pragma unroll 4
    for (int part = y; part < parts && channel < stride; part += PDL_TOTAL_ROWS) {
        a += (double)partial[(int64_t)part * 2 * stride + channel];
        b += (double)partial[((int64_t)part * 2 + 1) * stride + channel];
    }
    sums[0][y][x] = a;
    sums[1][y][x] = b;
    __syncthreads();
    for (int row = lane; row < PDL_TOTAL_ROWS; row += 32) sum += sums[which][row][column];
    sum = pdl_warp_sum(sum);
    if (lane == 0 && warp < 2 * PDL_TOTAL_CHANNELS) totals[which][column] = sum;
    __syncthreads();
    *first = totals[0][x];
    *second = totals[1][x];
}

/* Rows of one sample after the other: blocks along y are samples, and a block has all rows of one. */
static inline pdl_rows_t pdl_cover_samples(int64_t samples, int64_t positions, int stride)
{
    pdl_rows_t r = {};
    int        pieces;

    r.rows = positions;
    r.stride = stride;
    r.lanes = stride % 8 == 0 ? stride / 8 : stride;
    pieces = (r.lanes + 31) / 32;
    r.across = (r.lanes + pieces - 1) / pieces;
    r.down = PDL_ROW_THREADS / r.across;
    if (r.down > positions) r.down = (int)positions;
    r.grid = dim3((unsigned)pieces, (unsigned)(samples < 65535 ? samples : 65535));
    return r;
}

/* Calls `name<T, V>` with the rest. */
#define PDL_ROW_TYPES(type, stride, name, ...)                                                 \
    ((type) == PDL_DTYPE_BF16                                                                  \
         ? (stride) % 8 == 0 ? name<pdl_bf16, 8>(__VA_ARGS__) : name<pdl_bf16, 1>(__VA_ARGS__) \
     : (stride) % 8 == 0 ? name<float, 8>(__VA_ARGS__)                                         \
                         : name<float, 1>(__VA_ARGS__))

#endif
