/*
 * Tensors of images and volumes from one format to the other: [n][c][positions] and [n][positions][c padded]. Tiles go through
 * shared memory, so that both sides are read and written in rows. Tiles are as wide as there are channels, up to 64, and the longer
 * the fewer these are: threads without channels would leave the memory idle.
 */
#include "tensor/plugin/cuda/kernel.h"
#include "tensor/plugin/cuda/vectors_parts.h"

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

/* Threads of a block: every one keeps its place in rows of so many pieces. */
constexpr int threads_of(int channels)
{
    return channels % 24 == 0 ? 192 : 256;
}

/* A tile of R rows and C columns, N elements at a time. Threads that read a column find its rows in different banks. */
template <typename T, int N, int R, int C, int THREADS> struct tile_of {
    T at[R][C + (R < 32 ? 32 / R : 1)];

    __device__ __forceinline__ void take(int i, int j, const neighbours<T, N> &some)
    {
        for (int n = 0; n < N; n++) at[i][j + n] = some.at[n];
    }
    /* All that a thread reads is on its way together. */
    __device__ __forceinline__ void read_whole(const T *from, int64_t stride)
    {
        constexpr int    ACROSS = C / N, DOWN = THREADS / ACROSS;
        int              i = (int)threadIdx.x / ACROSS, j = (int)threadIdx.x % ACROSS * N;
        neighbours<T, N> some[R / DOWN];

        from += i * stride + j;
#pragma unroll
        for (int k = 0; k < R / DOWN; k++, from += DOWN * stride) some[k].load(from, N);
#pragma unroll
        for (int k = 0; k < R / DOWN; k++) take(i + k * DOWN, j, some[k]);
    }
    /* With zeros where there is nothing. */
    __device__ __forceinline__ void read(const T *from, int64_t stride, int64_t rows, int64_t columns)
    {
        constexpr int ACROSS = C / N, DOWN = THREADS / ACROSS;
        int           j = (int)threadIdx.x % ACROSS * N;

#pragma unroll 1
        for (int i = (int)threadIdx.x / ACROSS; i < R; i += DOWN) {
            neighbours<T, N> some;

            for (int n = 0; n < N; n++) some.at[n] = T(0.0f);
            if (i < rows) some.load(from + i * stride + j, columns - j);
            take(i, j, some);
        }
    }
    __device__ __forceinline__ void write(T *to, int64_t stride, int64_t columns, int64_t written) const
    {
        constexpr int ALONG = R / N, DOWN = THREADS / ALONG;
        int           i = (int)threadIdx.x % ALONG * N, j = (int)threadIdx.x / ALONG;

        to += j * stride + i;
#pragma unroll
        for (int k = 0; k < C / DOWN; k++, j += DOWN, to += DOWN * stride) {
            neighbours<T, N> some;

            for (int n = 0; n < N; n++) some.at[n] = at[i + n][j];
            if (j < columns) some.store(to, written - i);
        }
    }
};

template <typename T, int N, int R, int C, int THREADS>
__global__ void __launch_bounds__(THREADS) transpose(transposition<T> t)
{
    static_assert(THREADS % (C / N) == 0 && THREADS % (R / N) == 0 && R * C % (N * THREADS) == 0,
                  "every thread has its place, and as many elements");
    __shared__ tile_of<T, N, R, C, THREADS> tile;
    int64_t                                 down = (t.written + R - 1) / R, across = (t.columns + C - 1) / C;
    int64_t                                 tiles = t.samples * down * across;

    for (int64_t k = blockIdx.x; k < tiles; k += gridDim.x) {
        /* Divisions of 32 bits take a quarter of the time. */
        place    at = tiles <= UINT32_MAX ? place_of<uint32_t>((uint32_t)k, (uint32_t)down, (uint32_t)across)
                                          : place_of<int64_t>(k, down, across);
        int64_t  row = at.row * R, column = at.column * C;
        const T *from = t.from + at.sample * t.from_sample + row * t.from_stride + column;

        if (row + R <= t.rows && column + C <= t.columns)
            tile.read_whole(from, t.from_stride);
        else
            tile.read(from, t.from_stride, t.rows - row, t.columns - column);
        __syncthreads();
        tile.write(t.to + at.sample * t.to_sample + column * t.to_stride + row, t.to_stride, t.columns - column,
                   t.written - row);
        __syncthreads();
    }
}

/* With tiles of so many channels. */
template <typename T, int N, int CHANNELS>
static pdl_status_t transpose_tiles(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const transposition<T> &t,
                                    bool to_blocked)
{
    constexpr int POSITIONS = N * (CHANNELS <= 16 ? 128 : CHANNELS <= 32 ? 64 : 32);
    constexpr int THREADS = threads_of(CHANNELS);
    auto          kernel =
        to_blocked ? transpose<T, N, CHANNELS, POSITIONS, THREADS> : transpose<T, N, POSITIONS, CHANNELS, THREADS>;
    int64_t rows = to_blocked ? CHANNELS : POSITIONS, columns = to_blocked ? POSITIONS : CHANNELS;
    int64_t tiles = t.samples * ((t.written + rows - 1) / rows) * ((t.columns + columns - 1) / columns);

    return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, tiles, 1, 8), THREADS, 0, stream, t);
}

/* The width of tiles that leaves the fewest channels of the last one empty; of several the widest. Rows of 8 channels, where there
   are more, are less than what memory is read by. */
static int tile_channels(int64_t channels)
{
    static const int widths[] = {64, 48, 32, 24, 16};
    int              best = 8;
    int64_t          least = INT64_MAX;

    if (channels <= 8) return best;
    for (int width : widths) {
        int64_t covered = (channels + width - 1) / width * width;

        if (covered < least) {
            least = covered;
            best = width;
        }
    }
    return best;
}

template <typename T, int N>
static pdl_status_t transpose_channels(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const transposition<T> &t,
                                       int64_t channels, bool to_blocked)
{
    switch (tile_channels(channels)) {
    case 8: return transpose_tiles<T, N, 8>(gpu, stream, t, to_blocked);
    case 16: return transpose_tiles<T, N, 16>(gpu, stream, t, to_blocked);
    case 24: return transpose_tiles<T, N, 24>(gpu, stream, t, to_blocked);
    case 32: return transpose_tiles<T, N, 32>(gpu, stream, t, to_blocked);
    case 48: return transpose_tiles<T, N, 48>(gpu, stream, t, to_blocked);
    default: return transpose_tiles<T, N, 64>(gpu, stream, t, to_blocked);
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

    return pairs ? transpose_channels<T, PAIR>(gpu, stream, t, to_blocked ? padded : channels, to_blocked)
                 : transpose_channels<T, 1>(gpu, stream, t, to_blocked ? padded : channels, to_blocked);
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
