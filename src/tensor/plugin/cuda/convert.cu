/*
 * Tensors of images and volumes from one format to the other: [n][c][positions] and [n][positions][c padded]. Tiles go through
 * shared memory, so that both sides are read and written in rows.
 */
#include "tensor/plugin/cuda/kernel.h"
#include "tensor/plugin/cuda/vectors_parts.h"

#define TILE 32
#define ROWS 8

/* The matrix of every sample, [rows][columns], becomes [columns][written]. */
template <typename T> struct transposition {
    const T *from;
    T       *to;
    int64_t  samples;
    int64_t  rows, columns;          /* that the source has, */
    int64_t  from_stride, to_stride; /* elements from row to row of either */
    int64_t  from_sample, to_sample; /* elements of a sample */
    int64_t  written;                /* elements of a row of the target: zeros behind the last one of the source */
};

template <typename T> __global__ void transpose(transposition<T> t)
{
    __shared__ T tile[TILE][TILE + 1];
    int64_t      down = (t.written + TILE - 1) / TILE, across = (t.columns + TILE - 1) / TILE;

    for (int64_t k = blockIdx.x; k < t.samples * down * across; k += gridDim.x) {
        int64_t  row = k / across % down * TILE, column = k % across * TILE, sample = k / (across * down);
        const T *from = t.from + sample * t.from_sample;
        T       *to = t.to + sample * t.to_sample;

        for (int r = threadIdx.y; r < TILE; r += ROWS) {
            int64_t i = row + r, j = column + threadIdx.x;

            if (i < t.written && j < t.columns)
                tile[r][threadIdx.x] = i < t.rows ? from[i * t.from_stride + j] : T(0.0f);
        }
        __syncthreads();
        for (int r = threadIdx.y; r < TILE; r += ROWS) {
            int64_t i = column + r, j = row + threadIdx.x;

            if (i < t.columns && j < t.written) to[i * t.to_stride + j] = tile[threadIdx.x][r];
        }
        __syncthreads();
    }
}

template <typename T>
static pdl_status_t convert_typed(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, int64_t samples, int64_t channels,
                                  int64_t padded, int64_t positions, bool to_blocked, const void *source,
                                  void *target)
{
    transposition<T> t = {};
    auto             kernel = transpose<T>;

    t.from = (const T *)source;
    t.to = (T *)target;
    t.samples = samples;
    if (to_blocked) {
        t.rows = channels;
        t.written = padded;
        t.columns = t.from_stride = positions;
        t.to_stride = padded;
        t.from_sample = channels * positions;
        t.to_sample = padded * positions;
    } else {
        t.rows = t.written = positions;
        t.columns = channels;
        t.from_stride = padded;
        t.to_stride = positions;
        t.from_sample = padded * positions;
        t.to_sample = channels * positions;
    }
    int64_t tiles = samples * ((t.written + TILE - 1) / TILE) * ((t.columns + TILE - 1) / TILE);
    return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, tiles, 1, 8), dim3(TILE, ROWS), 0, stream, t);
}

pdl_status_t pdl__cuda_convert(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                               int64_t channels, int64_t padded, int64_t positions, bool to_blocked,
                               const void *source, void *target)
{
    if (type == PDL_DTYPE_BF16)
        return convert_typed<pdl_bf16>(gpu, stream, samples, channels, padded, positions, to_blocked, source,
                                       target);
    return convert_typed<float>(gpu, stream, samples, channels, padded, positions, to_blocked, source, target);
}
