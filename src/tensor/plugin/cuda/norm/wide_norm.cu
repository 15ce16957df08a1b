/*
 * Layer norm and RMS norm of rows that a warp's registers do not hold: a row is a block's, eight channels a thread, and is read once.
 * Several rows are in flight together. At 1,600 channels an H200 needs 28 us so for 8,192 rows forward, a warp to a row 23, and both 47
 * backward: narrower rows are left to warps.
 */
#include "tensor/plugin/cuda/gpu.h"
#include "tensor/plugin/cuda/norm/layer_norm.h"
#include "tensor/plugin/cuda/teams.h"

#define NARROW 256 /* threads of a block; with more, and for floats, registers of backward have one row at a time */

typedef pdl__cuda_rows_norm_t norm_t;

/* Sums over the threads of a block. `shared` is of the caller's last call but one. */
template <int COUNT> static __device__ void sum_over_block(float (&value)[COUNT], float (*shared)[32])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        value[k] = pdl_warp_sum(value[k]);
        if (lane == 0) shared[k][warp] = value[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COUNT; k++) value[k] = pdl_warp_sum(lane < warps ? shared[k][lane] : 0.0f);
}

/* The thread's eight channels of R rows. */
template <typename T, int R> struct some_rows {
    pdl_raw8<T> at[R];

    __device__ __forceinline__ void load(const void *rows, int64_t first, int count, int64_t channels)
    {
#pragma unroll
        for (int r = 0; r < R; r++)
            if (r < count) at[r].load((const T *)rows + (first + r) * channels + threadIdx.x * 8);
    }
};

static __device__ void load_parameters(const float *values, bool mine, float value[8])
{
    for (int i = 0; i < 8; i++) value[i] = mine && values != NULL ? values[threadIdx.x * 8 + i] : 0.0f;
}

/* Of the rows from `first` on, so many are there for this thread. */
template <int R> static __device__ int rows_of_thread(const norm_t &norm, int64_t first)
{
    if ((int64_t)threadIdx.x * 8 >= norm.channels) return 0;
    return norm.rows - first < R ? (int)(norm.rows - first) : R;
}

template <typename T, int R, int MOST> static __global__ void __launch_bounds__(MOST) norm_forward_wide(norm_t norm)
{
    __shared__ float shared[2][R][32];
    int64_t          channels = norm.channels;
    bool             mine = threadIdx.x * 8 < channels;
    float            weight[8], bias[8], value[8];
    some_rows<T, R>  x;

    load_parameters(norm.weight, mine, weight);
    load_parameters(norm.bias, mine, bias);
    for (int64_t row = (int64_t)blockIdx.x * R; row < norm.rows; row += (int64_t)gridDim.x * R) {
        int   count = rows_of_thread<R>(norm, row);
        float mean[R] = {}, scale[R] = {};

        x.load(norm.x, row, count, channels);
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (r >= count || !norm.centred) continue;
            x.at[r].unpack(value);
            for (int i = 0; i < 8; i++) mean[r] += value[i];
        }
        sum_over_block(mean, shared[0]);
#pragma unroll
        for (int r = 0; r < R; r++) {
            mean[r] /= (float)channels;
            if (r >= count) continue;
            x.at[r].unpack(value);
            for (int i = 0; i < 8; i++) scale[r] += (value[i] - mean[r]) * (value[i] - mean[r]);
        }
        sum_over_block(scale, shared[1]);
#pragma unroll
        for (int r = 0; r < R; r++) {
            scale[r] = 1.0f / sqrtf(scale[r] / (float)channels + norm.epsilon);
            if (r >= count) continue;
            if (norm.statistics != NULL && threadIdx.x == 0) {
                norm.statistics[2 * (row + r)] = mean[r];
                norm.statistics[2 * (row + r) + 1] = scale[r];
            }
            x.at[r].unpack(value);
            for (int i = 0; i < 8; i++) value[i] = (value[i] - mean[r]) * scale[r] * weight[i] + bias[i];
            pdl_store8((T *)norm.y + (row + r) * channels + threadIdx.x * 8, value);
        }
    }
}

/* With z the normalised x and g = dy weight: dx = scale (g - mean(g) - z mean(g z)), in RMS norm without mean(g). A thread has all rows of its channels, so that their sums need no other's. */
template <typename T, int R, int MOST>
static __global__ void __launch_bounds__(MOST, MOST <= NARROW ? 3 : 1) norm_backward_wide(norm_t norm)
{
    __shared__ float shared[2][2 * R][32];
    int64_t          channels = norm.channels;
    bool             mine = threadIdx.x * 8 < channels;
    float            weight[8], dweight[8] = {}, dbias[8] = {}, z[8], d[8];
    int              half = 0;
    some_rows<T, R>  x, dy, added;

    load_parameters(norm.weight, mine, weight);
    for (int64_t row = (int64_t)blockIdx.x * R; row < norm.rows; row += (int64_t)gridDim.x * R) {
        int   count = rows_of_thread<R>(norm, row);
        float mean[R], scale[R], sum[2 * R] = {}; /* of g, then of g z */

        x.load(norm.x, row, count, channels);
        dy.load(norm.dy, row, count, channels);
        if (norm.added != NULL) added.load(norm.added, row, count, channels);
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (r >= count) continue;
            mean[r] = norm.statistics[2 * (row + r)];
            scale[r] = norm.statistics[2 * (row + r) + 1];
            x.at[r].unpack(z);
            dy.at[r].unpack(d);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                z[i] = (z[i] - mean[r]) * scale[r];
                sum[r] += d[i] * weight[i];
                sum[R + r] += d[i] * weight[i] * z[i];
                dweight[i] += d[i] * z[i];
                dbias[i] += d[i];
            }
        }
        if (norm.dx == NULL) continue;
        sum_over_block(sum, shared[half]);
        half = 1 - half;
#pragma unroll
        for (int r = 0; r < R; r++) {
            float g = norm.centred ? sum[r] / (float)channels : 0.0f, gz = sum[R + r] / (float)channels;

            if (r >= count) continue;
            x.at[r].unpack(z);
            dy.at[r].unpack(d);
            for (int i = 0; i < 8; i++) d[i] = scale[r] * (d[i] * weight[i] - g - (z[i] - mean[r]) * scale[r] * gz);
            if (norm.added != NULL) {
                added.at[r].unpack(z);
                for (int i = 0; i < 8; i++) d[i] += z[i];
            }
            pdl_store8((T *)norm.dx + (row + r) * channels + threadIdx.x * 8, d);
        }
    }
    if (!mine || (norm.dweight == NULL && norm.dbias == NULL)) return;
    float *part = norm.parts + (int64_t)blockIdx.x * 2 * channels + threadIdx.x * 8;
    for (int i = 0; i < 8; i++) {
        part[i] = dweight[i];
        part[channels + i] = dbias[i];
    }
}

/* ---- launches ---- */

#define FORWARD_ROWS 4 /* of a block at a time */

/* Blocks of `of_block` threads, of which a multiprocessor has `threads` at a time. */
static int blocks_of(const pdl__gpu_t *gpu, const norm_t *norm, int rows, int of_block, int threads)
{
    return pdl__gpu_blocks(gpu, norm->rows, rows, threads > of_block ? threads / of_block : 1);
}

template <typename T> static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const norm_t *norm)
{
    int  threads = pdl__cuda_wide_norm_threads(norm);
    auto wide_norm = norm_forward_wide<T, FORWARD_ROWS, NARROW>;

    if (threads > NARROW) wide_norm = norm_forward_wide<T, FORWARD_ROWS, 1024>;
    return PDL_LAUNCH(wide_norm, blocks_of(gpu, norm, FORWARD_ROWS, threads, 1024), threads, 0, stream, *norm);
}

template <typename T>
static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const norm_t *norm, int64_t *parts)
{
    constexpr int ROWS = sizeof(T) == 2 ? 2 : 1;
    int           threads = pdl__cuda_wide_norm_threads(norm);
    int           blocks = blocks_of(gpu, norm, threads > NARROW ? 1 : ROWS, threads, 672);
    auto          wide_norm_back = norm_backward_wide<T, ROWS, NARROW>;

    if (threads > NARROW) wide_norm_back = norm_backward_wide<T, 1, 1024>;
    *parts = blocks < *parts ? blocks : *parts;
    return PDL_LAUNCH(wide_norm_back, (int)*parts, threads, 0, stream, *norm);
}

extern "C" pdl_status_t pdl__cuda_wide_norm(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                            const norm_t *norm)
{
    return type == PDL_DTYPE_BF16 ? forward<pdl_bf16>(gpu, stream, norm) : forward<float>(gpu, stream, norm);
}

extern "C" pdl_status_t pdl__cuda_wide_norm_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                                 const norm_t *norm, int64_t *parts)
{
    return type == PDL_DTYPE_BF16 ? backward<pdl_bf16>(gpu, stream, norm, parts)
                                  : backward<float>(gpu, stream, norm, parts);
}
