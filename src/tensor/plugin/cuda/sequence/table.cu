/*
 * Tables of tokens.
 *
 * The gradient of a table's row is the sum of the gradients of its tokens, in their order, the same bits every time: rows are
 * sorted by their tokens, digit by digit, and those with the same token are then side by side.
 */
#include "tensor/plugin/cuda/sequence/sequence.h"
#include "tensor/plugin/cuda/teams.h"

typedef pdl__cuda_table_t table_t;

#define THREADS 256
#define WARPS   (THREADS / 32)
#define CHUNK   PDL__TABLE_CHUNK
#define DIGITS  256
#define BAND    256 /* channels of a block */

/* A thread has eight neighbouring channels; WHOLE: there are eight, at addresses for vectors. */
template <typename T, bool WHOLE> static __global__ void __launch_bounds__(THREADS) table_rows(table_t t)
{
    int64_t vectors = (t.channels + 7) / 8;

    for (int64_t i = pdl_grid_thread(); i < t.rows * vectors; i += pdl_grid_threads()) {
        int64_t row = i / vectors, c = i % vectors * 8, token = t.tokens[row], at = token - t.first;
        float   value[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        T      *out = (T *)t.out + row * t.channels + c;

        if (token < 0 || token >= t.all) {
            for (int k = 0; k < 8; k++) value[k] = NAN;
        } else if (at >= 0 && at < t.count) {
            const float *from = t.table + at * t.channels + c;

            if (WHOLE)
                pdl_load8(from, value);
            else
                for (int k = 0; k < 8 && c + k < t.channels; k++) value[k] = from[k];
        }
        if (WHOLE)
            pdl_store8(out, value);
        else
            for (int k = 0; k < 8 && c + k < t.channels; k++) out[k] = T(value[k]);
    }
}

/* ---- sorting: stable, one digit of the token a pass ---- */

/* One pass: from one order of the rows to the other; NULL stands for the order in which they are. */
struct pass {
    int32_t *from, *to, *counts; /* counts [chunks][DIGITS] */
    int      digit;
};

static __device__ __host__ int64_t chunks_of(const table_t &t)
{
    return (t.rows + CHUNK - 1) / CHUNK;
}

/* The row of the table, or behind the last where this rank does not have it. */
static __device__ __forceinline__ int64_t key_of(const table_t &t, int64_t row)
{
    int64_t at = t.tokens[row] - t.first;

    return at >= 0 && at < t.count ? at : t.count;
}

static __device__ __forceinline__ int32_t row_at(const pass &p, int64_t i)
{
    return p.from != NULL ? p.from[i] : (int32_t)i;
}

static __device__ __forceinline__ int digit_at(const table_t &t, const pass &p, int64_t i)
{
    return i < t.rows ? (int)(key_of(t, row_at(p, i)) >> (8 * p.digit) & (DIGITS - 1)) : -1;
}

/* How often every digit is in every chunk; a block has a chunk, then a thread a digit. */
static __global__ void __launch_bounds__(CHUNK) table_count(table_t t, pass p)
{
    __shared__ int digit[CHUNK];

    for (int64_t chunk = blockIdx.x; chunk < chunks_of(t); chunk += gridDim.x) {
        int32_t count = 0;

        digit[threadIdx.x] = digit_at(t, p, chunk * CHUNK + threadIdx.x);
        __syncthreads();
        for (int k = 0; k < CHUNK; k++) count += digit[k] == (int)threadIdx.x;
        p.counts[chunk * DIGITS + threadIdx.x] = count;
        __syncthreads();
    }
}

/* Counts become the places where rows of a chunk begin; one block, a thread has a digit. */
static __global__ void __launch_bounds__(DIGITS) table_place(table_t t, pass p)
{
    __shared__ int32_t sums[DIGITS];
    int32_t            sum = 0, at = 0;

#pragma unroll 8
    for (int64_t chunk = 0; chunk < chunks_of(t); chunk++) sum += p.counts[chunk * DIGITS + threadIdx.x];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int d = 0; d < (int)threadIdx.x; d++) at += sums[d];
#pragma unroll 8
    for (int64_t chunk = 0; chunk < chunks_of(t); chunk++) {
        int32_t count = p.counts[chunk * DIGITS + threadIdx.x];

        p.counts[chunk * DIGITS + threadIdx.x] = at;
        at += count;
    }
}

static __global__ void __launch_bounds__(CHUNK) table_move(table_t t, pass p)
{
    __shared__ int digit[CHUNK];

    for (int64_t chunk = blockIdx.x; chunk < chunks_of(t); chunk += gridDim.x) {
        int64_t i = chunk * CHUNK + threadIdx.x;
        int     mine = digit_at(t, p, i);
        int32_t before = 0;

        digit[threadIdx.x] = mine;
        __syncthreads();
        for (int k = 0; k < (int)threadIdx.x; k++) before += digit[k] == mine;
        if (mine >= 0) p.to[p.counts[chunk * DIGITS + mine] + before] = row_at(p, i);
        __syncthreads();
    }
}

/* ---- sums ---- */

/* Where the rows that have the token of place `first` end. */
static __device__ int64_t end_of(const table_t &t, const int32_t *order, int64_t first)
{
    int32_t token = t.tokens[order[first]];
    int64_t end = first + 1;

    while (end < t.rows && t.tokens[order[end]] == token) end++;
    return end;
}

/* A block has the first place of a token and a band of channels: warps take turns with the rows, a lane has eight
   channels. */
template <typename T, bool WHOLE>
static __global__ void __launch_bounds__(THREADS) table_gradient(table_t t, const int32_t *order)
{
    __shared__ float   shared[WARPS][BAND];
    __shared__ int64_t last;
    int64_t            bands = (t.channels + BAND - 1) / BAND;
    int                lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int64_t item = blockIdx.x; item < t.rows * bands; item += gridDim.x) {
        int64_t first = item / bands, at = key_of(t, order[first]), c = item % bands * BAND + lane * 8;
        int64_t mine = item % bands * BAND + threadIdx.x;
        float   sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, total = 0;

        if (at == t.count || (first > 0 && key_of(t, order[first - 1]) == at)) continue;
        __syncthreads();
        if (threadIdx.x == 0) last = end_of(t, order, first);
        __syncthreads();
#pragma unroll 4
        for (int64_t k = first + warp; k < last; k += WARPS) {
            const T *from = (const T *)t.gradient + (int64_t)order[k] * t.channels + c;
            float    value[8] = {0, 0, 0, 0, 0, 0, 0, 0};

            if (WHOLE && c < t.channels) pdl_load8(from, value);
            for (int i = 0; !WHOLE && i < 8 && c + i < t.channels; i++) value[i] = (float)from[i];
            for (int i = 0; i < 8; i++) sum[i] += value[i];
        }
        for (int i = 0; i < 8; i++) shared[warp][lane * 8 + i] = sum[i];
        __syncthreads();
        for (int w = 0; w < WARPS; w++) total += shared[w][threadIdx.x];
        if (mine < t.channels) t.table_gradient[at * t.channels + mine] += total;
    }
}

/* ---- launches ---- */

template <typename T>
static pdl_status_t launch_look_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const table_t *t)
{
    bool whole = pdl_has_vectors(t->table, t->channels, t->channels) && pdl_is_aligned(t->out);
    auto look_up = whole ? table_rows<T, true> : table_rows<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, t->rows * ((t->channels + 7) / 8), THREADS, 8);

    return PDL_LAUNCH(look_up, blocks, THREADS, 0, stream, *t);
}

/* The rows in the order of their tokens. */
static pdl_status_t sort_rows(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const table_t *t, const int32_t **order)
{
    int32_t     *to[2] = {t->workspace, t->workspace + t->rows};
    pass         p = {NULL, to[0], t->workspace + 2 * t->rows, 0};
    int          blocks = pdl__gpu_blocks(gpu, chunks_of(*t), 1, 8);
    pdl_status_t status = PDL_OK;

    for (; status == PDL_OK && (p.digit == 0 || t->count >> (8 * p.digit) > 0); p.digit++) {
        p.to = to[p.digit % 2];
        status = PDL_LAUNCH(table_count, blocks, CHUNK, 0, stream, *t, p);
        if (status == PDL_OK) status = PDL_LAUNCH(table_place, 1, DIGITS, 0, stream, *t, p);
        if (status == PDL_OK) status = PDL_LAUNCH(table_move, blocks, CHUNK, 0, stream, *t, p);
        p.from = p.to;
    }
    *order = p.from;
    return status;
}

template <typename T>
static pdl_status_t launch_look_up_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const table_t *t)
{
    bool           whole = pdl_has_vectors(t->gradient, t->channels, t->channels);
    auto           look_up_gradient = whole ? table_gradient<T, true> : table_gradient<T, false>;
    const int32_t *order;
    pdl_status_t   status = sort_rows(gpu, stream, t, &order);
    int64_t        items = t->rows * ((t->channels + BAND - 1) / BAND);

    if (status != PDL_OK) return status;
    return PDL_LAUNCH(look_up_gradient, pdl__gpu_blocks(gpu, items, 1, 8), THREADS, 0, stream, *t, order);
}

extern "C" pdl_status_t pdl__cuda_look_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                          const table_t *t)
{
    return type == PDL_DTYPE_BF16 ? launch_look_up<pdl_bf16>(gpu, stream, t)
                                  : launch_look_up<float>(gpu, stream, t);
}

extern "C" pdl_status_t pdl__cuda_look_up_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                               const table_t *t)
{
    return type == PDL_DTYPE_BF16 ? launch_look_up_back<pdl_bf16>(gpu, stream, t)
                                  : launch_look_up_back<float>(gpu, stream, t);
}
