/*
 * Softmax, tables of tokens, and positions.
 *
 * The gradient of a table's row is the sum of the gradients of its tokens, in the order of the tokens, the same bits every
 * time: the first place of a token is found by minima of integers, and the block that has it looks for the others.
 */
#include "tensor/plugin/cuda/sequence/sequence.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

/* ---- softmax ---- */

#define LONG_ROW 1024 /* channels from which a row has a block */
#define THREADS  256

typedef pdl__cuda_softmax_t softmax_t;

template <typename T, bool BLOCK> static __global__ void __launch_bounds__(THREADS) softmax_rows(softmax_t s)
{
    typedef pdl_team<BLOCK> team;

    __shared__ float shared[32];

    for (int64_t row = team::first(); row < s.rows; row += team::step()) {
        const T *x = (const T *)s.x + row * s.stride;
        T       *y = (T *)s.out + row * s.stride;
        float    largest = -FLT_MAX, sum = 0;

        for (int64_t c = team::member(); c < s.channels; c += team::members())
            largest = (float)x[c] > largest ? (float)x[c] : largest;
        largest = team::largest(largest, shared);
        for (int64_t c = team::member(); c < s.channels; c += team::members()) sum += expf((float)x[c] - largest);
        sum = team::sum(sum, shared);
        for (int64_t c = team::member(); c < s.stride; c += team::members())
            y[c] = T(c < s.channels ? expf((float)x[c] - largest) / sum : 0.0f);
    }
}

template <typename T, bool BLOCK> static __global__ void __launch_bounds__(THREADS) softmax_gradient(softmax_t s)
{
    typedef pdl_team<BLOCK> team;

    __shared__ float shared[32];

    for (int64_t row = team::first(); row < s.rows; row += team::step()) {
        const T *dy = (const T *)s.x + row * s.stride, *y = (const T *)s.y + row * s.stride;
        T       *dx = (T *)s.out + row * s.stride;
        float    sum = 0;

        for (int64_t c = team::member(); c < s.channels; c += team::members()) sum += (float)y[c] * (float)dy[c];
        sum = team::sum(sum, shared);
        for (int64_t c = team::member(); c < s.stride; c += team::members())
            dx[c] = T(c < s.channels ? (float)y[c] * ((float)dy[c] - sum) : 0.0f);
    }
}

template <typename T>
static pdl_status_t launch_softmax(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const softmax_t *s, bool back)
{
    bool block = s->channels >= LONG_ROW;
    auto softmax_forward = block ? softmax_rows<T, true> : softmax_rows<T, false>;
    auto softmax_backward = block ? softmax_gradient<T, true> : softmax_gradient<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, s->rows, block ? 1 : THREADS / 32, 8);

    return back ? PDL_LAUNCH(softmax_backward, blocks, THREADS, 0, stream, *s)
                : PDL_LAUNCH(softmax_forward, blocks, THREADS, 0, stream, *s);
}

static pdl_status_t softmax(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const softmax_t *s)
{
    return type == PDL_DTYPE_BF16 ? launch_softmax<pdl_bf16>(gpu, stream, s, false)
                                  : launch_softmax<float>(gpu, stream, s, false);
}

static pdl_status_t softmax_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const softmax_t *s)
{
    return type == PDL_DTYPE_BF16 ? launch_softmax<pdl_bf16>(gpu, stream, s, true)
                                  : launch_softmax<float>(gpu, stream, s, true);
}

/* ---- tables ---- */

typedef pdl__cuda_table_t table_t;

#define WARPS (THREADS / 32)

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

static __global__ void table_clear_seen(table_t t)
{
    for (int64_t i = pdl_grid_thread(); i < t.count; i += pdl_grid_threads()) t.seen[i] = INT32_MAX;
}

/* seen[token] = the first row with it. */
static __global__ void table_find_first(table_t t)
{
    for (int64_t i = pdl_grid_thread(); i < t.rows; i += pdl_grid_threads()) {
        int64_t at = t.tokens[i] - t.first;

        if (at >= 0 && at < t.count) atomicMin(&t.seen[at], (int)i);
    }
}

#define LIST 1024 /* rows of a token that are summed at a time */

/* Adds rows of the list to a row of the table's gradient: warps take turns, a lane has eight channels. */
template <typename T, bool WHOLE>
static __device__ void add_list(const table_t &t, const int *list, int count, int64_t at, float (*shared)[256])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int64_t band = 0; band < t.channels; band += 256) {
        int64_t c = band + lane * 8, mine = band + threadIdx.x;
        float   sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};

        for (int k = warp; k < count && c < t.channels; k += WARPS) {
            const T *from = (const T *)t.gradient + (int64_t)list[k] * t.channels + c;
            float    value[8] = {0, 0, 0, 0, 0, 0, 0, 0};

            if (WHOLE)
                pdl_load8(from, value);
            else
                for (int i = 0; i < 8 && c + i < t.channels; i++) value[i] = (float)from[i];
            for (int i = 0; i < 8; i++) sum[i] += value[i];
        }
        for (int i = 0; i < 8; i++) shared[warp][lane * 8 + i] = sum[i];
        __syncthreads();
        if (mine < t.channels) {
            float total = 0;

            for (int w = 0; w < WARPS; w++) total += shared[w][threadIdx.x];
            t.table_gradient[at * t.channels + mine] += total;
        }
        __syncthreads();
    }
}

/* Appends the rows from `begin` on, one a thread, that have the token; returns the new length. */
static __device__ int append_matches(const table_t &t, int64_t begin, int32_t token, int *list, int length,
                                     int *counts)
{
    int64_t  i = begin + threadIdx.x;
    bool     match = i < t.rows && t.tokens[i] == token;
    unsigned lanes = __ballot_sync(PDL_ALL_LANES, match);
    int      lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    if (lane == 0) counts[warp] = __popc(lanes);
    __syncthreads();
    for (int w = 0; w < WARPS; w++) {
        if (w == warp && match) list[length + __popc(lanes & ((1u << lane) - 1))] = (int)i;
        length += counts[w];
    }
    __syncthreads();
    return length;
}

/* A block goes from row to row, and does the sum of a token where it is the first one. */
template <typename T, bool WHOLE> static __global__ void __launch_bounds__(THREADS) table_gradient(table_t t)
{
    __shared__ int   list[LIST], counts[WARPS];
    __shared__ float shared[WARPS][256];

    for (int64_t row = blockIdx.x; row < t.rows; row += gridDim.x) {
        int32_t token = t.tokens[row];
        int64_t at = token - t.first;
        int     length = 0;

        if (at < 0 || at >= t.count || t.seen[at] != (int)row) continue;
        for (int64_t begin = row; begin < t.rows; begin += THREADS) {
            length = append_matches(t, begin, token, list, length, counts);
            if (length <= LIST - THREADS && begin + THREADS < t.rows) continue;
            add_list<T, WHOLE>(t, list, length, at, shared);
            length = 0;
        }
    }
}

template <typename T>
static pdl_status_t launch_look_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const table_t *t)
{
    bool whole = pdl_has_vectors(t->table, t->channels, t->channels) && pdl_is_aligned(t->out);
    auto look_up = whole ? table_rows<T, true> : table_rows<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, t->rows * ((t->channels + 7) / 8), THREADS, 8);

    return PDL_LAUNCH(look_up, blocks, THREADS, 0, stream, *t);
}

template <typename T>
static pdl_status_t launch_look_up_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const table_t *t)
{
    bool         whole = pdl_has_vectors(t->gradient, t->channels, t->channels);
    auto         look_up_gradient = whole ? table_gradient<T, true> : table_gradient<T, false>;
    pdl_status_t status =
        PDL_LAUNCH(table_clear_seen, pdl__gpu_blocks(gpu, t->count, THREADS, 4), THREADS, 0, stream, *t);

    if (status == PDL_OK)
        status = PDL_LAUNCH(table_find_first, pdl__gpu_blocks(gpu, t->rows, THREADS, 4), THREADS, 0, stream, *t);
    if (status != PDL_OK) return status;
    return PDL_LAUNCH(look_up_gradient, pdl__gpu_blocks(gpu, t->rows, 1, 8), THREADS, 0, stream, *t);
}

static pdl_status_t look_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const table_t *t)
{
    return type == PDL_DTYPE_BF16 ? launch_look_up<pdl_bf16>(gpu, stream, t)
                                  : launch_look_up<float>(gpu, stream, t);
}

static pdl_status_t look_up_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const table_t *t)
{
    return type == PDL_DTYPE_BF16 ? launch_look_up_back<pdl_bf16>(gpu, stream, t)
                                  : launch_look_up_back<float>(gpu, stream, t);
}

/* ---- positions ---- */

typedef pdl__cuda_position_t position_t;

template <typename T, bool WHOLE> static __global__ void __launch_bounds__(THREADS) position_rows(position_t p)
{
    int64_t vectors = (p.channels + 7) / 8, moved = p.class_token != NULL ? 1 : 0;

    for (int64_t i = pdl_grid_thread(); i < p.samples * p.tokens * vectors; i += pdl_grid_threads()) {
        int64_t      c = i % vectors * 8, n = i / vectors / p.tokens, t = i / vectors % p.tokens;
        const T     *x = (const T *)p.x + (n * (p.tokens - moved) + t - moved) * p.channels + c;
        T           *y = (T *)p.y + (n * p.tokens + t) * p.channels + c;
        const float *weight = p.weight + t * p.channels + c;
        float        value[8], add[8];

        if (WHOLE) {
            pdl_load8(weight, add);
            if (t < moved)
                pdl_load8(p.class_token + c, value);
            else
                pdl_load8(x, value);
            for (int k = 0; k < 8; k++) value[k] += add[k];
            pdl_store8(y, value);
        } else {
            for (int k = 0; k < 8 && c + k < p.channels; k++)
                y[k] = T((t < moved ? p.class_token[c + k] : (float)x[k]) + weight[k]);
        }
    }
}

template <typename T>
static pdl_status_t launch_position(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const position_t *p)
{
    bool whole = pdl_has_vectors(p->x, p->channels, p->channels) && pdl_is_aligned(p->y) &&
                 pdl_is_aligned(p->weight) && (p->class_token == NULL || pdl_is_aligned(p->class_token));
    auto position = whole ? position_rows<T, true> : position_rows<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, p->samples * p->tokens * ((p->channels + 7) / 8), THREADS, 8);

    return PDL_LAUNCH(position, blocks, THREADS, 0, stream, *p);
}

static pdl_status_t add_position(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const position_t *p)
{
    return type == PDL_DTYPE_BF16 ? launch_position<pdl_bf16>(gpu, stream, p)
                                  : launch_position<float>(gpu, stream, p);
}

extern "C" const pdl__cuda_sequences_t pdl__cuda_sequences = {softmax, softmax_back, look_up, look_up_back,
                                                              add_position};
