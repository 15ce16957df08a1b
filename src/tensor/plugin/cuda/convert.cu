/*
 * Tensors of images and volumes from one format to the other: [n][c][positions] and [n][positions][c padded]. Tiles go through
 * shared memory, so that both sides are read and written in rows.
 */
#include "tensor/plugin/cuda/kernel.h"
#include "tensor/plugin/cuda/vectors_parts.h"

#define LANES 32
#define ROWS  8

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

/* N elements that lie side by side, of which so many are there: in one access where that is all of them. */
template <typename T, int N> struct alignas(N * sizeof(T)) neighbours {
    T at[N];

    __device__ __forceinline__ void load(const T *from, int64_t count)
    {
        if (count >= N) *this = *(const neighbours *)from;
        for (int n = 0; n < N && count < N; n++)
            if (n < count) at[n] = from[n];
    }
    __device__ __forceinline__ void store(T *to, int64_t count) const
    {
        if (count >= N) *(neighbours *)to = *this;
        for (int n = 0; n < N && count < N; n++)
            if (n < count) to[n] = at[n];
    }
};

/* Where tile k of all samples' tiles begins. */
struct place {
    int64_t sample, row, column; /* tiles, of rows and columns */
};

template <typename I> static __device__ __forceinline__ place place_of(I k, I down, I across)
{
    return place{(int64_t)(k / (across * down)), (int64_t)(k / across % down), (int64_t)(k % across)};
}

template <typename T, int N> __global__ void __launch_bounds__(LANES *ROWS) transpose(transposition<T> t)
{
    constexpr int TILE = LANES * N;
    __shared__ T  tile[TILE][TILE + N];
    int64_t       down = (t.written + TILE - 1) / TILE, across = (t.columns + TILE - 1) / TILE;
    int64_t       tiles = t.samples * down * across;

    for (int64_t k = blockIdx.x; k < tiles; k += gridDim.x) {
        /* Divisions of 32 bits take a quarter of the time. */
        place    at = tiles <= UINT32_MAX ? place_of<uint32_t>((uint32_t)k, (uint32_t)down, (uint32_t)across)
                                          : place_of<int64_t>(k, down, across);
        int64_t  row = at.row * TILE, column = at.column * TILE;
        const T *from = t.from + at.sample * t.from_sample;
        T       *to = t.to + at.sample * t.to_sample;

#pragma unroll
        for (int r = threadIdx.y; r < TILE; r += ROWS) {
            int64_t          i = row + r, j = column + threadIdx.x * N;
            neighbours<T, N> some;

            for (int n = 0; n < N; n++) some.at[n] = T(0.0f);
            if (i < t.rows) some.load(from + i * t.from_stride + j, t.columns - j);
            for (int n = 0; n < N; n++) tile[r][threadIdx.x * N + n] = some.at[n];
        }
        __syncthreads();
#pragma unroll
        for (int r = threadIdx.y; r < TILE; r += ROWS) {
            int64_t          i = column + r, j = row + threadIdx.x * N;
            neighbours<T, N> some;

            for (int n = 0; n < N; n++) some.at[n] = tile[threadIdx.x * N + n][r];
            if (i < t.columns) some.store(to + i * t.to_stride + j, t.written - j);
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
    constexpr int    PAIR =
        4 / sizeof(T); /* elements that a thread takes at a time, where all rows begin at 4 bytes */

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
    bool pairs = (t.from_stride | t.to_stride | t.from_sample | t.to_sample) % PAIR == 0 &&
                 (uintptr_t)source % 4 == 0 && (uintptr_t)target % 4 == 0;
    auto    kernel = pairs ? transpose<T, PAIR> : transpose<T, 1>;
    int64_t side = LANES * (pairs ? PAIR : 1);
    int64_t tiles = samples * ((t.written + side - 1) / side) * ((t.columns + side - 1) / side);

    return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, tiles, 1, 8), dim3(LANES, ROWS), 0, stream, t);
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
