/*
 * Concatenation, transposition, one row of many, and dropout.
 */
#include "tensor/plugin/cuda/pointwise/moves.h"

#include "tensor/plugin/cuda/channels.h"

#define THREADS 256
#define TILE    32

/* Piece by piece: rows of a part to or from their place in the whole; what fills up a row is zero. */
template <typename T, int V>
__global__ void move_piece(int64_t rows, int channels, int from_stride, int from_first, const T *from,
                           int to_stride, int to_first, int to_width, T *to)
{
    int64_t count = rows * (to_width / V);

    for (int64_t at = pdl_grid_thread(); at < count; at += pdl_grid_threads()) {
        int64_t row = at / (to_width / V);
        int     c = (int)(at % (to_width / V)) * V;
        float   value[V] = {};

        if (c < channels) pdl_load<T, V>(from, row * from_stride + from_first + c, value);
        pdl_write<T, V>(to, row * to_stride + to_first + c, value);
    }
}

template <typename T, int V>
static pdl_status_t run_join(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_pieces_t &p)
{
    auto         kernel = move_piece<T, V>;
    int          first = 0;
    pdl_status_t status = PDL_OK;

    for (int k = 0; k < p.count && status == PDL_OK; k++) {
        int channels = (int)p.channels[k], stride = (int)p.stride[k], whole = (int)p.whole_stride;
        T  *part = static_cast<T *>(p.part[k]), *all = static_cast<T *>(p.whole);
        int width = p.apart ? stride : k + 1 < p.count ? channels : whole - first; /* with what fills up the row */

        if (part != NULL && p.apart)
            status = PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, p.rows * width / V, THREADS, 8), THREADS, 0, stream,
                                p.rows, channels, whole, first, all, stride, 0, width, part);
        else if (part != NULL)
            status = PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, p.rows * width / V, THREADS, 8), THREADS, 0, stream,
                                p.rows, channels, stride, 0, part, whole, first, width, all);
        first += channels;
    }
    return status;
}

pdl_status_t pdl__cuda_join(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_pieces_t *pieces)
{
    int64_t rest = pieces->whole_stride % 8;

    for (int k = 0; k < pieces->count; k++) rest |= pieces->channels[k] % 8 | pieces->stride[k] % 8;
    return PDL_ROW_TYPES(type, rest, run_join, gpu, stream, *pieces);
}

/* ---- dropout ---- */

/* The index of an element in the whole plain tensor; `row` counts positions of all samples here. */
__device__ inline uint64_t whole_index(const pdl__cuda_dropout_t &d, int64_t row, int64_t channel)
{
    int64_t n = d.first_sample + row / d.positions, rest = row % d.positions, positions = 1, position = 0;
    int64_t last = rest % d.extent[2], middle = rest / d.extent[2] % d.extent[1],
            first = rest / d.extent[2] / d.extent[1];

    position =
        ((first + d.first[0]) * d.whole_extent[1] + middle + d.first[1]) * d.whole_extent[2] + last + d.first[2];
    positions = d.whole_extent[0] * d.whole_extent[1] * d.whole_extent[2];
    channel += d.first_channel;
    return (uint64_t)(d.sequence ? (n * positions + position) * d.whole_channels + channel
                                 : (n * d.whole_channels + channel) * positions + position);
}

/* Of this step. */
__device__ inline uint64_t drawn_stream(const pdl__cuda_dropout_t &d)
{
    return pdl_random_part_of(d.root, d.numbers != NULL ? d.numbers->step : d.step);
}

/* Any sizes: a thread has 8 elements, a byte of the mask. */
template <typename T, bool DRAW> __global__ void drop_elements(pdl__cuda_dropout_t d, int64_t count)
{
    uint64_t stream = DRAW ? drawn_stream(d) : 0;

    for (int64_t at = pdl_grid_thread() * 8; at < count; at += pdl_grid_threads() * 8) {
        int      lanes = count - at < 8 ? (int)(count - at) : 8;
        unsigned bits = DRAW ? 0 : d.mask[at / 8];

        for (int i = 0; DRAW && i < lanes; i++) {
            int64_t row = (at + i) / d.stride, channel = (at + i) % d.stride;

            if (channel < d.channels && pdl_random(d.seed, stream, whole_index(d, row, channel)) >= d.rate)
                bits |= 1u << i;
        }
        if (DRAW) d.mask[at / 8] = (uint8_t)bits;
        for (int i = 0; i < lanes; i++) {
            float x = (float)static_cast<const T *>(d.in)[at + i];

            static_cast<T *>(d.out)[at + i] = T((bits >> i & 1) != 0 ? x * d.scale : 0.0f);
        }
    }
}

/* Eight channels that are kept or not. */
template <typename T> __device__ inline void drop8(const pdl__cuda_dropout_t &d, int64_t at, unsigned bits)
{
    float x[8];

    pdl_load8(static_cast<const T *>(d.in) + at, x);
    for (int i = 0; i < 8; i++) x[i] = (bits >> i & 1) != 0 ? x[i] * d.scale : 0.0f;
    pdl_store8(static_cast<T *>(d.out) + at, x);
}

/* Sequences in vectors: a thread has eight channels of a row, which are two draws of four. */
template <typename T> __global__ void drop_sequence(pdl__cuda_dropout_t d, int64_t rows)
{
    const int64_t  vectors = d.stride / 8;
    const uint64_t stream = drawn_stream(d);

    for (int64_t at = pdl_grid_thread(); at < rows * vectors; at += pdl_grid_threads()) {
        uint64_t block = whole_index(d, at / vectors, at % vectors * 8) / 4;
        unsigned bits = 0;
        float    four[4];

        for (int i = 0; i < 8; i++) {
            if (i % 4 == 0) pdl_random4(d.seed, stream, block + (uint64_t)i / 4, four);
            bits |= (four[i % 4] >= d.rate ? 1u : 0u) << i;
        }
        d.mask[at] = (uint8_t)bits;
        drop8<T>(d, at * 8, bits);
    }
}

/* Images in vectors: a draw is of four neighbouring positions of a channel, so a thread has eight channels of four positions. */
template <typename T> __global__ void drop_positions(pdl__cuda_dropout_t d, int64_t rows)
{
    const int64_t  vectors = d.stride / 8;
    const uint64_t stream = drawn_stream(d);

    for (int64_t at = pdl_grid_thread(); at < rows / 4 * vectors; at += pdl_grid_threads()) {
        int64_t  row = at / vectors * 4, channel = at % vectors * 8;
        unsigned bits[4] = {0, 0, 0, 0};

        for (int i = 0; i < 8; i++) {
            float four[4];

            if (channel + i >= d.channels) break;
            pdl_random4(d.seed, stream, whole_index(d, row, channel + i) / 4, four);
            for (int k = 0; k < 4; k++) bits[k] |= (four[k] >= d.rate ? 1u : 0u) << i;
        }
        for (int k = 0; k < 4; k++) {
            int64_t element = (row + k) * d.stride + channel;

            d.mask[element / 8] = (uint8_t)bits[k];
            drop8<T>(d, element, bits[k]);
        }
    }
}

template <typename T> __global__ void drop_masked(pdl__cuda_dropout_t d, int64_t vectors)
{
    for (int64_t at = pdl_grid_thread(); at < vectors; at += pdl_grid_threads()) drop8<T>(d, at * 8, d.mask[at]);
}

/* Every draw of four is of neighbouring rows here: pieces of the first dimension only, in multiples of four positions. */
static bool draws_of_positions(const pdl__cuda_dropout_t &d)
{
    int64_t inner = d.extent[1] * d.extent[2];

    return d.extent[1] == d.whole_extent[1] && d.extent[2] == d.whole_extent[2] && d.positions % 4 == 0 &&
           d.whole_extent[0] * inner % 4 == 0 && d.first[0] * inner % 4 == 0;
}

static bool draws_of_channels(const pdl__cuda_dropout_t &d)
{
    return d.channels == d.stride && d.whole_channels % 4 == 0 && d.first_channel % 4 == 0;
}

template <typename T, bool DRAW>
static pdl_status_t run_drop(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_dropout_t &d)
{
    int64_t rows = d.samples * d.positions, count = rows * d.stride;
    bool    vectors = d.stride % 8 == 0, fours = DRAW && !d.sequence;
    int     blocks = pdl__gpu_blocks(gpu, fours ? (count + 31) / 32 : (count + 7) / 8, THREADS, 8);

    if (!DRAW && vectors) {
        auto masked = drop_masked<T>;

        return PDL_LAUNCH(masked, blocks, THREADS, 0, stream, d, count / 8);
    }
    if (DRAW && vectors && (d.sequence ? draws_of_channels(d) : draws_of_positions(d))) {
        auto drawn = d.sequence ? drop_sequence<T> : drop_positions<T>;

        return PDL_LAUNCH(drawn, blocks, THREADS, 0, stream, d, rows);
    }
    auto any = drop_elements<T, DRAW>;
    return PDL_LAUNCH(any, pdl__gpu_blocks(gpu, (count + 7) / 8, THREADS, 8), THREADS, 0, stream, d, count);
}

template <bool DRAW>
static pdl_status_t run_drop_type(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_dropout_t &d)
{
    return type == PDL_DTYPE_BF16 ? run_drop<pdl_bf16, DRAW>(gpu, stream, d)
                                  : run_drop<float, DRAW>(gpu, stream, d);
}

pdl_status_t pdl__cuda_drop(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_dropout_t *dropout)
{
    return run_drop_type<true>(gpu, stream, type, *dropout);
}

pdl_status_t pdl__cuda_drop_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_dropout_t *dropout)
{
    return run_drop_type<false>(gpu, stream, type, *dropout);
}

/* ---- transposition, selection: elements by their size ---- */

template <typename W> __global__ void transpose_tiles(int64_t n, int64_t rows, int64_t columns, const W *in, W *out)
{
    __shared__ W tile[TILE][TILE + 1];
    int64_t      down = (rows + TILE - 1) / TILE, across = (columns + TILE - 1) / TILE;
    int          x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;

    for (int64_t at = blockIdx.x; at < n * down * across; at += gridDim.x) {
        int64_t       row = at / across % down * TILE, column = at % across * TILE, base = at / across / down;
        const W      *from = in + base * rows * columns;
        W            *to = out + base * rows * columns;
        constexpr int step = THREADS / TILE;

        for (int k = y; k < TILE; k += step)
            if (row + k < rows && column + x < columns) tile[k][x] = from[(row + k) * columns + column + x];
        __syncthreads();
        for (int k = y; k < TILE; k += step)
            if (column + k < columns && row + x < rows) to[(column + k) * rows + row + x] = tile[x][k];
        __syncthreads();
    }
}

pdl_status_t pdl__cuda_transpose(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                                 int64_t rows, int64_t columns, const void *in, void *out)
{
    auto    narrow = transpose_tiles<uint16_t>;
    auto    wide = transpose_tiles<uint32_t>;
    int64_t tiles = n * ((rows + TILE - 1) / TILE) * ((columns + TILE - 1) / TILE);
    int     blocks = pdl__gpu_blocks(gpu, tiles, 1, 8);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, THREADS, 0, stream, n, rows, columns,
                                               static_cast<const uint16_t *>(in), static_cast<uint16_t *>(out))
                                  : PDL_LAUNCH(wide, blocks, THREADS, 0, stream, n, rows, columns,
                                               static_cast<const uint32_t *>(in), static_cast<uint32_t *>(out));
}

/* BACK: all rows of out are written, from one row of in. */
template <typename W, bool BACK>
__global__ void select_row(int64_t n, int64_t rows, int64_t columns, int64_t row, const W *in, W *out)
{
    int64_t count = n * columns * (BACK ? rows : 1);

    for (int64_t at = pdl_grid_thread(); at < count; at += pdl_grid_threads()) {
        int64_t column = at % columns;

        if (!BACK)
            out[at] = in[(at / columns * rows + row) * columns + column];
        else
            out[at] = at / columns % rows == row ? in[at / columns / rows * columns + column] : W(0);
    }
}

template <bool BACK>
static pdl_status_t run_select(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                               int64_t rows, int64_t columns, int64_t row, const void *in, void *out)
{
    auto narrow = select_row<uint16_t, BACK>;
    auto wide = select_row<uint32_t, BACK>;
    int  blocks = pdl__gpu_blocks(gpu, n * columns * (BACK ? rows : 1), THREADS, 8);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, THREADS, 0, stream, n, rows, columns, row,
                                               static_cast<const uint16_t *>(in), static_cast<uint16_t *>(out))
                                  : PDL_LAUNCH(wide, blocks, THREADS, 0, stream, n, rows, columns, row,
                                               static_cast<const uint32_t *>(in), static_cast<uint32_t *>(out));
}

pdl_status_t pdl__cuda_select(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                              int64_t rows, int64_t columns, int64_t row, const void *in, void *out)
{
    return run_select<false>(gpu, stream, type, n, rows, columns, row, in, out);
}

pdl_status_t pdl__cuda_select_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                                   int64_t rows, int64_t columns, int64_t row, const void *in, void *out)
{
    return run_select<true>(gpu, stream, type, n, rows, columns, row, in, out);
}
