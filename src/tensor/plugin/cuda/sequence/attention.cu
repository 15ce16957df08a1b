/*
 * Attention by own kernels, for every type, size and rate of dropout (Dao et al., FlashAttention, 2022); bf16 and the usual
 * sizes have faster ones (attention_tiles.cu). A block has 16
 * queries and goes over the keys, 32 at a time; a lane has a key while scores are made, and channels while values are summed.
 * Backward makes the scores again, once for the queries and once, with the roles exchanged, for the keys, so that
 * every sum is made by one thread in one order.
 */
#include "tensor/plugin/cuda/sequence/attention.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

typedef pdl__cuda_attention_t attention_t;
typedef pdl__cuda_heads_t     heads_t;

#define WARPS 4
#define ROWS  4              /* of a warp: queries, or keys where roles are exchanged */
#define TILE  (WARPS * ROWS) /* of a block */
#define LANES 32             /* of the other side at a time */

/* From one vector to the next in shared memory: odd, so that lanes which read their own do not meet in a bank. */
static __host__ __device__ __forceinline__ int64_t wide(int64_t dim)
{
    return dim | 1;
}

/* Two tiles of vectors that lanes have and up to two that warps have. */
static size_t shared_bytes(int64_t dim)
{
    return (size_t)(2 * LANES * wide(dim) + 2 * TILE * dim) * sizeof(float);
}

template <typename T>
static __device__ const T *vector_of(const heads_t &heads, const attention_t &a, int64_t n, int64_t head,
                                     int64_t token)
{
    return (const T *)heads.at + n * heads.sample + token * heads.token + head * a.dim;
}

/* `count` vectors from `first` on, zeros from `end` on. */
template <typename T>
static __device__ void load_tile(const heads_t &heads, const attention_t &a, int64_t n, int64_t head, int64_t first,
                                 int64_t end, int count, int64_t stride, float *tile)
{
    for (int i = threadIdx.x; i < count * (int)a.dim; i += blockDim.x) {
        int64_t row = i / a.dim, d = i % a.dim;

        tile[row * stride + d] = first + row < end ? (float)vector_of<T>(heads, a, n, head, first + row)[d] : 0.0f;
    }
}

static __device__ __forceinline__ int64_t past_of(const attention_t &a, int64_t n)
{
    return a.past != NULL ? a.past[n] : 0;
}

static __device__ __forceinline__ bool sees(const attention_t &a, int64_t past, int64_t query, int64_t key)
{
    return query < a.queries && key < a.keys && (!a.causal || key <= past + query);
}

/* 0 or 1 / (1 - rate). */
static __device__ float kept(const attention_t &a, int64_t n, int64_t head, int64_t query, int64_t key)
{
    int64_t row = (a.first_sample + n) * a.all_heads + a.first_head + head;

    if (a.rate == 0) return 1;
    return pdl_random(a.seed, pdl_random_part_of(a.root, a.numbers != NULL ? a.numbers->step : a.step),
                      (uint64_t)((row * a.keys + query) * a.keys + key)) < a.rate
               ? 0.0f
               : 1.0f / (1.0f - a.rate);
}

/* Products of the lane's vector with those of the warp. */
static __device__ __forceinline__ void multiply(int dim, const float *lane_vector, const float *warp_vectors,
                                                float product[ROWS])
{
    for (int d = 0; d < dim; d++) {
        float value = lane_vector[d];

#pragma unroll
        for (int i = 0; i < ROWS; i++) product[i] += value * warp_vectors[i * dim + d];
    }
}

/* sum[i] += over lanes their weight[i] times their vector; a lane has channels lane, lane + 32, ... of sums. */
template <int J>
static __device__ __forceinline__ void add_vectors(int dim, const float weight[ROWS], const float *vectors,
                                                   float sum[ROWS][J])
{
    int lane = threadIdx.x % 32;

    for (int k = 0; k < LANES; k++) {
        float by[ROWS];

#pragma unroll
        for (int i = 0; i < ROWS; i++) by[i] = __shfl_sync(PDL_ALL_LANES, weight[i], k);
#pragma unroll
        for (int j = 0; j < J; j++) {
            float value = lane + 32 * j < dim ? vectors[k * wide(dim) + lane + 32 * j] : 0.0f;

#pragma unroll
            for (int i = 0; i < ROWS; i++) sum[i][j] += by[i] * value;
        }
    }
}

template <typename T, int J>
static __device__ void write_rows(const attention_t &a, const heads_t &heads, int64_t n, int64_t head,
                                  int64_t first, int64_t end, const float sum[ROWS][J])
{
    int lane = threadIdx.x % 32;

    for (int i = 0; i < ROWS && first + i < end; i++) {
        T *to = (T *)heads.at + n * heads.sample + (first + i) * heads.token + head * a.dim;

#pragma unroll
        for (int j = 0; j < J; j++)
            if (lane + 32 * j < a.dim) to[lane + 32 * j] = T(sum[i][j]);
    }
}

/* What a block does: a tile of one head of one sample, the late ones of a causal sequence first. */
struct place {
    int64_t n, head, first, past;

    __device__ place(const attention_t &a, int64_t item, int64_t heads, int64_t tiles, bool last_first)
        : n(item / tiles / heads), head(item / tiles % heads),
          first((last_first ? tiles - 1 - item % tiles : item % tiles) * TILE), past(past_of(a, n))
    {
    }
};

static __host__ __device__ int64_t tiles_of(int64_t rows)
{
    return (rows + TILE - 1) / TILE;
}

/* Scores of a lane's key to weights exp(score - largest); what was summed before is multiplied by a factor. */
template <int J>
static __device__ void weigh(const attention_t &a, const place &at, int64_t query, int64_t key, float weight[ROWS],
                             float largest[ROWS], float total[ROWS], float sum[ROWS][J])
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        bool  seen = sees(a, at.past, query + i, key);
        float score = seen ? a.scale * weight[i] : -FLT_MAX, high = pdl_warp_max(score), factor;

        high = high > largest[i] || high != high ? high : largest[i];
        factor = expf(largest[i] - high);
        weight[i] = seen ? expf(score - high) : 0.0f;
        total[i] = total[i] * factor + pdl_warp_sum(weight[i]);
        largest[i] = high;
        if (seen) weight[i] *= kept(a, at.n, at.head, query + i, key);
#pragma unroll
        for (int j = 0; j < J; j++) sum[i][j] *= factor;
    }
}

template <typename T, int J> static __global__ void __launch_bounds__(WARPS * 32) attention_forward(attention_t a)
{
    PDL_SHARED(float, keys);
    int     dim = (int)a.dim, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float  *values = keys + LANES * wide(dim), *queries = values + LANES * wide(dim);
    int64_t tiles = tiles_of(a.queries), group = a.heads / a.kv_heads;

    for (int64_t item = blockIdx.x; item < a.samples * a.heads * tiles; item += gridDim.x) {
        place   at(a, item, a.heads, tiles, true);
        int64_t query = at.first + warp * ROWS, end = a.causal ? min(a.keys, at.past + at.first + TILE) : a.keys;
        float   sum[ROWS][J], largest[ROWS], total[ROWS];

        for (int i = 0; i < ROWS; i++) {
            largest[i] = -FLT_MAX;
            total[i] = 0;
            for (int j = 0; j < J; j++) sum[i][j] = 0;
        }
        __syncthreads();
        load_tile<T>(a.q, a, at.n, at.head, at.first, a.queries, TILE, dim, queries);
        for (int64_t key = 0; key < end; key += LANES) {
            float weight[ROWS] = {0, 0, 0, 0};

            __syncthreads();
            load_tile<T>(a.k, a, at.n, at.head / group, key, a.keys, LANES, wide(dim), keys);
            load_tile<T>(a.v, a, at.n, at.head / group, key, a.keys, LANES, wide(dim), values);
            __syncthreads();
            multiply(dim, keys + lane * wide(dim), queries + warp * ROWS * dim, weight);
            weigh<J>(a, at, query, key + lane, weight, largest, total, sum);
            add_vectors<J>(dim, weight, values, sum);
        }
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < J; j++) sum[i][j] /= total[i];
            if (a.lse != NULL && lane == 0 && query + i < a.queries)
                a.lse[(at.n * a.heads + at.head) * a.queries + query + i] = largest[i] + logf(total[i]);
        }
        write_rows<T, J>(a, a.out, at.n, at.head, query, a.queries, sum);
    }
}

/* ---- backward ---- */

/* dots = out times its gradient, a warp for each head of each token. */
template <typename T> static __global__ void __launch_bounds__(256) attention_dots(attention_t a)
{
    typedef pdl_team<false> team;

    for (int64_t row = team::first(); row < a.samples * a.heads * a.queries; row += team::step()) {
        int64_t  t = row % a.queries, head = row / a.queries % a.heads, n = row / a.queries / a.heads;
        const T *out = vector_of<T>(a.out, a, n, head, t), *gradient = vector_of<T>(a.d_out, a, n, head, t);
        float    sum = 0;

        for (int64_t d = team::member(); d < a.dim; d += 32) sum += (float)out[d] * (float)gradient[d];
        sum = pdl_warp_sum(sum);
        if (team::member() == 0) a.dots[row] = sum;
    }
}

/* The probability of a pair, as it was used, and the gradient of its score, from products of vectors. */
static __device__ __forceinline__ void pair_gradients(const attention_t &a, const place &at, int64_t head,
                                                      int64_t query, int64_t key, float *score, float *slope)
{
    int64_t row = (at.n * a.heads + head) * a.queries + query;
    float   probability, keep;

    if (!sees(a, at.past, query, key)) {
        *score = *slope = 0;
        return;
    }
    probability = expf(a.scale * *score - a.lse[row]);
    keep = kept(a, at.n, head, query, key);
    *slope = probability * (keep * *slope - a.dots[row]) * a.scale;
    *score = probability * keep;
}

template <typename T, int J> static __global__ void __launch_bounds__(WARPS * 32) attention_queries(attention_t a)
{
    PDL_SHARED(float, keys);
    int    dim = (int)a.dim, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *values = keys + LANES * wide(dim), *queries = values + LANES * wide(dim),
          *gradients = queries + TILE * dim;
    int64_t tiles = tiles_of(a.queries), group = a.heads / a.kv_heads;

    for (int64_t item = blockIdx.x; item < a.samples * a.heads * tiles; item += gridDim.x) {
        place   at(a, item, a.heads, tiles, true);
        int64_t query = at.first + warp * ROWS, end = a.causal ? min(a.keys, at.past + at.first + TILE) : a.keys;
        float   sum[ROWS][J];

        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < J; j++) sum[i][j] = 0;
        __syncthreads();
        load_tile<T>(a.q, a, at.n, at.head, at.first, a.queries, TILE, dim, queries);
        load_tile<T>(a.d_out, a, at.n, at.head, at.first, a.queries, TILE, dim, gradients);
        for (int64_t key = 0; key < end; key += LANES) {
            float score[ROWS] = {0, 0, 0, 0}, slope[ROWS] = {0, 0, 0, 0};

            __syncthreads();
            load_tile<T>(a.k, a, at.n, at.head / group, key, a.keys, LANES, wide(dim), keys);
            load_tile<T>(a.v, a, at.n, at.head / group, key, a.keys, LANES, wide(dim), values);
            __syncthreads();
            multiply(dim, keys + lane * wide(dim), queries + warp * ROWS * dim, score);
            multiply(dim, values + lane * wide(dim), gradients + warp * ROWS * dim, slope);
            for (int i = 0; i < ROWS; i++)
                pair_gradients(a, at, at.head, query + i, key + lane, &score[i], &slope[i]);
            add_vectors<J>(dim, slope, keys, sum);
        }
        write_rows<T, J>(a, a.dq, at.n, at.head, query, a.queries, sum);
    }
}

/* Roles exchanged: warps have keys, lanes have queries, of all heads that read these keys. */
template <typename T, int J> static __global__ void __launch_bounds__(WARPS * 32) attention_keys(attention_t a)
{
    PDL_SHARED(float, queries);
    int    dim = (int)a.dim, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *gradients = queries + LANES * wide(dim), *keys = gradients + LANES * wide(dim),
          *values = keys + TILE * dim;
    int64_t tiles = tiles_of(a.keys), group = a.heads / a.kv_heads;

    for (int64_t item = blockIdx.x; item < a.samples * a.kv_heads * tiles; item += gridDim.x) {
        place   at(a, item, a.kv_heads, tiles, false);
        int64_t key = at.first + warp * ROWS;
        int64_t begin = a.causal && at.first > at.past ? (at.first - at.past) / LANES * LANES : 0;
        float   dk[ROWS][J], dv[ROWS][J];

        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < J; j++) dk[i][j] = dv[i][j] = 0;
        __syncthreads();
        load_tile<T>(a.k, a, at.n, at.head, at.first, a.keys, TILE, dim, keys);
        load_tile<T>(a.v, a, at.n, at.head, at.first, a.keys, TILE, dim, values);
        for (int64_t head = at.head * group; head < (at.head + 1) * group; head++)
            for (int64_t query = begin; query < a.queries; query += LANES) {
                float score[ROWS] = {0, 0, 0, 0}, slope[ROWS] = {0, 0, 0, 0};

                __syncthreads();
                load_tile<T>(a.q, a, at.n, head, query, a.queries, LANES, wide(dim), queries);
                load_tile<T>(a.d_out, a, at.n, head, query, a.queries, LANES, wide(dim), gradients);
                __syncthreads();
                multiply(dim, queries + lane * wide(dim), keys + warp * ROWS * dim, score);
                multiply(dim, gradients + lane * wide(dim), values + warp * ROWS * dim, slope);
                for (int i = 0; i < ROWS; i++)
                    pair_gradients(a, at, head, query + lane, key + i, &score[i], &slope[i]);
                add_vectors<J>(dim, slope, queries, dk);
                add_vectors<J>(dim, score, gradients, dv);
            }
        write_rows<T, J>(a, a.dk, at.n, at.head, key, a.keys, dk);
        write_rows<T, J>(a, a.dv, at.n, at.head, key, a.keys, dv);
    }
}

/* ---- rotation ---- */

/* The angle of pair i; in double, because angles are large. */
static __device__ void find_angle(const pdl__cuda_rotation_t &r, int64_t position, int64_t i, float *cosine,
                                  float *sine)
{
    double angle = (double)position * pow(10000.0, -(double)i / (double)(r.dim / 2));

    *cosine = (float)cos(angle);
    *sine = (float)(r.back ? -sin(angle) : sin(angle));
}

/* A thread has a pair of channels of a token, in one of `parts` of all heads of all samples: the angle is the same in those of a sample,
   and in all where none has a past. */
template <typename T>
static __global__ void __launch_bounds__(256) rotate_vectors(pdl__cuda_rotation_t r, int64_t parts)
{
    int64_t half = (r.dim + 1) / 2, vectors = r.samples * r.heads;

    for (int64_t item = pdl_grid_thread(); item < parts * r.tokens * half; item += pdl_grid_threads()) {
        int64_t i = item % half, t = item / half % r.tokens, part = item / half / r.tokens, known = -1, place = t;
        float   cosine = 1, sine = 0;

        for (int64_t v = part * vectors / parts; v < (part + 1) * vectors / parts; v++) {
            int64_t n = v / r.heads, h = v % r.heads;

            if (n != known) {
                int64_t past = r.past != NULL ? r.past[n] : 0;

                if (r.turns && (known < 0 || r.past != NULL)) find_angle(r, r.first + past + t, i, &cosine, &sine);
                if (r.places > 0) place = past + t;
                known = n;
            }
            if (r.places > 0 && place >= r.places) continue;
            const T *from = (const T *)r.from.at + n * r.from.sample + t * r.from.token + h * r.dim + i;
            T       *to = (T *)r.to.at + n * r.to.sample + place * r.to.token + h * r.dim + i;
            float    a = (float)from[0], b = i + half < r.dim ? (float)from[half] : 0.0f;

            to[0] = T(a * cosine - b * sine);
            if (i + half < r.dim) to[half] = T(b * cosine + a * sine);
        }
    }
}

/* ---- launches ---- */

/* Channels of a lane are 2, 4 or 8. */
#define BY_DIM(name, T, dim) ((dim) <= 64 ? name<T, 2> : (dim) <= 128 ? name<T, 4> : name<T, 8>)

template <typename T> static pdl_status_t set_limits(int64_t dim)
{
    size_t       bytes = shared_bytes(dim);
    pdl_status_t status = PDL_SHARED_LIMIT((BY_DIM(attention_forward, T, dim)), bytes);

    (void)bytes;
    if (status == PDL_OK) status = PDL_SHARED_LIMIT((BY_DIM(attention_queries, T, dim)), bytes);
    if (status == PDL_OK) status = PDL_SHARED_LIMIT((BY_DIM(attention_keys, T, dim)), bytes);
    return status;
}

static pdl_status_t prepare(pdl__gpu_t *gpu, pdl_dtype_t type, int64_t dim)
{
    pdl_status_t status = pdl__cuda_attention_prepare(type, dim);

    (void)gpu;
    /* Up to here every kernel may have it. */
    if (status != PDL_OK || shared_bytes(dim) <= (48 << 10)) return status;
    return type == PDL_DTYPE_BF16 ? set_limits<pdl_bf16>(dim) : set_limits<float>(dim);
}

static int blocks_of(const pdl__gpu_t *gpu, const attention_t *a, int64_t heads, int64_t rows)
{
    return pdl__gpu_blocks(gpu, a->samples * heads * tiles_of(rows), 1, 16);
}

template <typename T>
static pdl_status_t launch_forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const attention_t *a)
{
    auto attention = BY_DIM(attention_forward, T, a->dim);

    return PDL_LAUNCH(attention, blocks_of(gpu, a, a->heads, a->queries), WARPS * 32, shared_bytes(a->dim), stream,
                      *a);
}

template <typename T>
static pdl_status_t launch_backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const attention_t *a, bool fits)
{
    auto         dots = attention_dots<T>;
    auto         query_gradient = BY_DIM(attention_queries, T, a->dim);
    auto         key_gradient = BY_DIM(attention_keys, T, a->dim);
    int64_t      rows = a->samples * a->heads * a->queries;
    pdl_status_t status = PDL_LAUNCH(dots, pdl__gpu_blocks(gpu, rows, 8, 8), 256, 0, stream, *a);

    if (status == PDL_OK && fits) return pdl__cuda_attention_tile(stream, a, true);
    if (status == PDL_OK)
        status = PDL_LAUNCH(query_gradient, blocks_of(gpu, a, a->heads, a->queries), WARPS * 32,
                            shared_bytes(a->dim), stream, *a);
    if (status == PDL_OK)
        status = PDL_LAUNCH(key_gradient, blocks_of(gpu, a, a->kv_heads, a->keys), WARPS * 32, shared_bytes(a->dim),
                            stream, *a);
    return status;
}

static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const attention_t *a)
{
    if (a->plans != NULL) return pdl__cuda_attention_run(stream, a, false);
    if (pdl__cuda_attention_steps(a)) return pdl__cuda_attention_step(gpu, stream, type, a);
    if (pdl__cuda_attention_fits(type, a)) return pdl__cuda_attention_tile(stream, a, false);
    return type == PDL_DTYPE_BF16 ? launch_forward<pdl_bf16>(gpu, stream, a)
                                  : launch_forward<float>(gpu, stream, a);
}

static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const attention_t *a)
{
    bool fits = pdl__cuda_attention_fits(type, a);

    if (a->plans != NULL) return pdl__cuda_attention_run(stream, a, true);
    return type == PDL_DTYPE_BF16 ? launch_backward<pdl_bf16>(gpu, stream, a, fits)
                                  : launch_backward<float>(gpu, stream, a, fits);
}

static pdl_status_t rotate(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const pdl__cuda_rotation_t *rotation)
{
    auto    rotary = type == PDL_DTYPE_BF16 ? rotate_vectors<pdl_bf16> : rotate_vectors<float>;
    int64_t pairs = rotation->tokens * ((rotation->dim + 1) / 2), vectors = rotation->samples * rotation->heads;
    int64_t parts = 1 + (int64_t)gpu->multiprocessors * 1024 / pairs; /* few tokens: more threads for each */

    if (parts > vectors) parts = vectors;
    return PDL_LAUNCH(rotary, pdl__gpu_blocks(gpu, parts * pairs, 256, 16), 256, 0, stream, *rotation, parts);
}

extern "C" const pdl__cuda_attentions_t pdl__cuda_attentions = {prepare, pdl__cuda_attention_plan, forward,
                                                                backward, rotate};
