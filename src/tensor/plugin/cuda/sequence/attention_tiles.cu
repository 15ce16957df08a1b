/*
 * Attention in bf16 by tensor cores, with any rate of dropout and fewer key heads than heads (Dao, FlashAttention-2, 2023):
 * a block has 64 queries, 16 a warp, and goes over tiles of keys; scores and sums stay in registers. Backward makes the
 * scores again, once for the queries and once, with the roles exchanged, for the keys: every sum is made by one warp in one
 * order.
 *
 * Numbers of dropout come four at a time, for keys that follow one another. Each lane draws four and tells its neighbours
 * which of the pairs that they have are kept.
 */
#include "tensor/plugin/cuda/fragments.h"
#include "tensor/plugin/cuda/sequence/attention.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

typedef pdl__cuda_attention_t attention_t;
typedef pdl__cuda_heads_t     heads_t;

#define WARPS 4
#define ROWS  (WARPS * 16) /* vectors of a block: queries, or keys where roles are exchanged */
#define LOG2E 1.44269504f
#define LN2   0.69314718f

/* Vectors of the other side at a time; and from one vector to the next in shared memory, where eight of them have
   their pieces of 16 bytes in different banks. */
template <int D> static constexpr int OTHERS = D <= 64 ? 64 : 32;
template <int D> static constexpr int OTHERS_OF_KEYS = 32;
template <int D> static constexpr int WIDE = D + 8;

/* ---- tiles ---- */

/* Vectors `first` to `first + count - 1` of a head, zeros from `end` on. */
template <int D>
static __device__ __forceinline__ void load_tile(const heads_t &heads, int64_t n, int64_t head, int64_t first,
                                                 int64_t end, int count, pdl_bf16 *tile)
{
    const pdl_bf16 *from = (const pdl_bf16 *)heads.at + n * heads.sample + first * heads.token + head * D;

#pragma unroll 4
    for (int i = threadIdx.x; i < count * (D / 8); i += WARPS * 32) {
        int   row = i / (D / 8), piece = i % (D / 8) * 8;
        uint4 words = make_uint4(0, 0, 0, 0);

        if (first + row < end) words = *(const uint4 *)PDL_ALIGNED(from + row * heads.token + piece);
        *(uint4 *)(tile + row * WIDE<D> + piece) = words;
    }
}

/* Sums of a warp, times `by`, to vectors `first` to `first + 15`, through rows of shared memory that are the warp's. */
template <int D>
static __device__ void store_rows(const heads_t &heads, int64_t n, int64_t head, int64_t first, int64_t end,
                                  const float sum[D / 8][4], const float by[2], pdl_bf16 *rows)
{
    int       lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    pdl_bf16 *to = (pdl_bf16 *)heads.at + n * heads.sample + first * heads.token + head * D;

    __syncwarp();
#pragma unroll
    for (int j = 0; j < D / 8; j++)
        for (int h = 0; h < 2; h++)
            *(uint32_t *)(rows + (g + 8 * h) * WIDE<D> + 8 * j + 2 * t) =
                pdl_pair(sum[j][2 * h] * by[h], sum[j][2 * h + 1] * by[h]);
    __syncwarp();
    for (int i = lane; i < 16 * (D / 8); i += 32) {
        int row = i / (D / 8), piece = i % (D / 8) * 8;

        if (first + row < end)
            *(uint4 *)PDL_ALIGNED(to + row * heads.token + piece) = *(const uint4 *)(rows + row * WIDE<D> + piece);
    }
}

/* product[i][j] += vector i of a warp's 16 times vector j of a tile of 8 N. */
template <int D, int N>
static __device__ __forceinline__ void multiply(const pdl_bf16 *vectors, const pdl_bf16 *tile, float product[N][4])
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t a[4], b[4];

        pdl_load_matrices<false>(a, vectors + lane % 16 * WIDE<D> + k + lane / 16 * 8);
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            pdl_load_matrices<false>(b, tile + (8 * j + lane % 8 + lane / 16 * 8) * WIDE<D> + k + lane / 8 % 2 * 8);
            pdl_multiply(product[j], a, b);
            pdl_multiply(product[j + 1], a, b + 2);
        }
    }
}

/* sum of vector i += over the tile's vectors weight[i][j] times vector j. */
template <int D, int N>
static __device__ __forceinline__ void add_vectors(const float weight[N][4], const pdl_bf16 *tile,
                                                   float sum[D / 8][4])
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < N; k += 2) {
        uint32_t a[4] = {pdl_pair(weight[k][0], weight[k][1]), pdl_pair(weight[k][2], weight[k][3]),
                         pdl_pair(weight[k + 1][0], weight[k + 1][1]),
                         pdl_pair(weight[k + 1][2], weight[k + 1][3])};

#pragma unroll
        for (int j = 0; j < D / 8; j += 2) {
            uint32_t b[4];

            pdl_load_matrices<true>(b, tile + (8 * k + lane % 16) * WIDE<D> + 8 * j + lane / 16 * 8);
            pdl_multiply(sum[j], a, b);
            pdl_multiply(sum[j + 1], a, b + 2);
        }
    }
}

/* ---- what a block does ---- */

static __host__ __device__ int64_t tiles_of(int64_t rows)
{
    return (rows + ROWS - 1) / ROWS;
}

/* A tile of one head of one sample, the late ones of a causal sequence first. */
struct place {
    int64_t n, head, first, past;

    __device__ place(const attention_t &a, int64_t heads, int64_t tiles, bool last_first)
        : n(blockIdx.x / tiles / heads), head(blockIdx.x / tiles % heads),
          first((last_first ? tiles - 1 - blockIdx.x % tiles : blockIdx.x % tiles) * ROWS),
          past(a.past != NULL ? a.past[n] : 0)
    {
    }
};

static __device__ __forceinline__ bool sees(const attention_t &a, int64_t past, int64_t query, int64_t key)
{
    return query < a.queries && key < a.keys && (!a.causal || key <= past + query);
}

/* Whether all queries from `query` on see all `keys` keys from `key` on. */
static __device__ __forceinline__ bool sees_all(const attention_t &a, int64_t past, int64_t query, int64_t queries,
                                                int64_t key, int64_t keys)
{
    return query + queries <= a.queries && key + keys <= a.keys && (!a.causal || key + keys - 1 <= past + query);
}

/* ---- dropout ---- */

/* Bits of the four pairs of a query with key, key + 1, ...: whether they are kept. */
static __device__ __forceinline__ unsigned draw(const attention_t &a, int64_t n, int64_t head, int64_t query,
                                                int64_t key)
{
    int64_t  row = (a.first_sample + n) * a.all_heads + a.first_head + head;
    float    four[4];
    unsigned bits = 0;

    pdl_random4(a.seed, a.stream, (uint64_t)((row * a.keys + query) * a.keys + key) / 4, four);
    for (int i = 0; i < 4; i++) bits |= (unsigned)(four[i] >= a.rate) << i;
    return bits;
}

/* Those of a lane in a tile of 16 queries and 8 keys. Even lanes draw for query g, odd ones for g + 8. */
static __device__ __forceinline__ unsigned draw_queries(const attention_t &a, int64_t n, int64_t head,
                                                        int64_t query, int64_t key)
{
    int      lane = threadIdx.x % 32, g = lane / 4, odd = lane % 2;
    unsigned mine = draw(a, n, head, query + g + 8 * odd, key + lane % 4 / 2 * 4);
    unsigned other = __shfl_xor_sync(PDL_ALL_LANES, mine, 1);
    unsigned low = odd ? other : mine, high = odd ? mine : other;

    return (low >> 2 * odd & 3) | (high >> 2 * odd & 3) << 2;
}

/* Those of a lane in a tile of 16 keys and 8 queries. Four lanes have the keys of the same draws. */
static __device__ __forceinline__ unsigned draw_keys(const attention_t &a, int64_t n, int64_t head, int64_t query,
                                                     int64_t key)
{
    int      lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, i = g % 4;
    unsigned mine = draw(a, n, head, query + 2 * t + i % 2, key + g / 4 * 4 + i / 2 * 8), bits = 0;

    for (int k = 0; k < 4; k++) bits |= (__shfl_sync(PDL_ALL_LANES, mine, (g / 4 * 4 + k) * 4 + t) >> i & 1) << k;
    return bits;
}

/* ---- forward ---- */

/* The largest or the sum of a row, whose parts four lanes have. */
static __device__ __forceinline__ float row_max(float value)
{
    value = pdl__larger(value, __shfl_xor_sync(PDL_ALL_LANES, value, 1));
    return pdl__larger(value, __shfl_xor_sync(PDL_ALL_LANES, value, 2));
}

static __device__ __forceinline__ float row_sum(float value)
{
    value += __shfl_xor_sync(PDL_ALL_LANES, value, 1);
    return value + __shfl_xor_sync(PDL_ALL_LANES, value, 2);
}

/* Scores to weights 2^(score - largest), scores being in units of log 2; what was summed before is multiplied by a factor. */
template <int D, int N>
static __device__ __forceinline__ void weigh(const attention_t &a, const place &at, int64_t query, int64_t key,
                                             float weight[N][4], float largest[2], float total[2],
                                             float sum[D / 8][4])
{
    int  lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    bool all = sees_all(a, at.past, query, 16, key, 8 * N);

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float high = largest[h], factor, part = 0;

#pragma unroll
        for (int j = 0; j < N; j++)
            for (int i = 2 * h; i < 2 * h + 2; i++) {
                bool seen = all || sees(a, at.past, query + g + 8 * h, key + 8 * j + 2 * t + i % 2);

                weight[j][i] = seen ? weight[j][i] * (a.scale * LOG2E) : -INFINITY;
                high = pdl__larger(high, weight[j][i]);
            }
        high = row_max(high);
        factor = exp2f(largest[h] - high);
        largest[h] = high;
#pragma unroll
        for (int j = 0; j < N; j++)
            for (int i = 2 * h; i < 2 * h + 2; i++) {
                weight[j][i] = exp2f(weight[j][i] - high);
                part += weight[j][i];
            }
        total[h] = total[h] * factor + part;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            sum[j][2 * h] *= factor;
            sum[j][2 * h + 1] *= factor;
        }
    }
    if (a.rate == 0) return;
#pragma unroll
    for (int j = 0; j < N; j++) {
        unsigned bits = draw_queries(a, at.n, at.head, query, key + 8 * j);

        for (int i = 0; i < 4; i++) weight[j][i] = bits >> i & 1 ? weight[j][i] : 0.0f;
    }
}

template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, queries);
    constexpr int N = OTHERS<D> / 8;
    pdl_bf16     *keys = queries + ROWS * WIDE<D>, *values = keys + OTHERS<D> * WIDE<D>;
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t       group = a.heads / a.kv_heads;
    place         at(a, a.heads, tiles_of(a.queries), true);
    int64_t       query = at.first + warp * 16, end = a.causal ? min(a.keys, at.past + at.first + ROWS) : a.keys;
    float         sum[D / 8][4] = {}, largest[2] = {-FLT_MAX, -FLT_MAX}, total[2] = {0, 0}, by[2];

    load_tile<D>(a.q, at.n, at.head, at.first, a.queries, ROWS, queries);
    for (int64_t key = 0; key < end; key += OTHERS<D>) {
        float weight[N][4] = {};

        __syncthreads();
        load_tile<D>(a.k, at.n, at.head / group, key, a.keys, OTHERS<D>, keys);
        load_tile<D>(a.v, at.n, at.head / group, key, a.keys, OTHERS<D>, values);
        __syncthreads();
        if (a.causal && key > at.past + query + 15) continue;
        multiply<D, N>(queries + warp * 16 * WIDE<D>, keys, weight);
        weigh<D, N>(a, at, query, key, weight, largest, total, sum);
        add_vectors<D, N>(weight, values, sum);
    }
    for (int h = 0; h < 2; h++) {
        int64_t mine = query + lane / 4 + 8 * h;

        total[h] = row_sum(total[h]);
        by[h] = 1.0f / ((1.0f - a.rate) * total[h]);
        if (a.lse != NULL && lane % 4 == 0 && mine < a.queries)
            a.lse[(at.n * a.heads + at.head) * a.queries + mine] = largest[h] * LN2 + logf(total[h]);
    }
    store_rows<D>(a.out, at.n, at.head, query, a.queries, sum, by, queries + warp * 16 * WIDE<D>);
}

/* ---- backward ---- */

/* The probability of a pair, as it was used but for the factor of dropout, and the gradient of its score. */
static __device__ __forceinline__ void pair_gradients(const attention_t &a, bool seen, bool kept, float lse,
                                                      float dots, float *score, float *slope)
{
    float probability = seen ? exp2f((a.scale * *score - lse) * LOG2E) : 0.0f;
    float gradient = kept ? *slope / (1.0f - a.rate) : 0.0f;

    *slope = seen ? probability * (gradient - dots) * a.scale : 0.0f;
    *score = kept ? probability : 0.0f;
}

template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_query_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, queries);
    constexpr int N = OTHERS<D> / 8;
    pdl_bf16     *gradients = queries + ROWS * WIDE<D>, *keys = gradients + ROWS * WIDE<D>;
    pdl_bf16     *values = keys + OTHERS<D> * WIDE<D>;
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t       group = a.heads / a.kv_heads;
    place         at(a, a.heads, tiles_of(a.queries), true);
    int64_t       query = at.first + warp * 16, end = a.causal ? min(a.keys, at.past + at.first + ROWS) : a.keys;
    float         sum[D / 8][4] = {}, lse[2] = {0, 0}, dots[2] = {0, 0}, by[2] = {1, 1};

    for (int h = 0; h < 2 && query + lane / 4 + 8 * h < a.queries; h++) {
        int64_t row = (at.n * a.heads + at.head) * a.queries + query + lane / 4 + 8 * h;

        lse[h] = a.lse[row];
        dots[h] = a.dots[row];
    }
    load_tile<D>(a.q, at.n, at.head, at.first, a.queries, ROWS, queries);
    load_tile<D>(a.d_out, at.n, at.head, at.first, a.queries, ROWS, gradients);
    for (int64_t key = 0; key < end; key += OTHERS<D>) {
        float score[N][4] = {}, slope[N][4] = {};

        __syncthreads();
        load_tile<D>(a.k, at.n, at.head / group, key, a.keys, OTHERS<D>, keys);
        load_tile<D>(a.v, at.n, at.head / group, key, a.keys, OTHERS<D>, values);
        __syncthreads();
        if (a.causal && key > at.past + query + 15) continue;
        multiply<D, N>(queries + warp * 16 * WIDE<D>, keys, score);
        multiply<D, N>(gradients + warp * 16 * WIDE<D>, values, slope);
#pragma unroll
        for (int j = 0; j < N; j++) {
            unsigned bits = a.rate > 0 ? draw_queries(a, at.n, at.head, query, key + 8 * j) : 15;

#pragma unroll
            for (int i = 0; i < 4; i++)
                pair_gradients(a,
                               sees(a, at.past, query + lane / 4 + i / 2 * 8, key + 8 * j + lane % 4 * 2 + i % 2),
                               bits >> i & 1, lse[i / 2], dots[i / 2], &score[j][i], &slope[j][i]);
        }
        add_vectors<D, N>(slope, keys, sum);
    }
    store_rows<D>(a.dq, at.n, at.head, query, a.queries, sum, by, queries + warp * 16 * WIDE<D>);
}

/* Logs of sums and dots of some queries; zeros behind the last. */
static __device__ __forceinline__ void load_numbers(const attention_t &a, int64_t n, int64_t head, int64_t first,
                                                    int count, float *numbers)
{
    int64_t row = (n * a.heads + head) * a.queries + first;

    for (int i = threadIdx.x; i < 2 * count; i += WARPS * 32)
        numbers[i] = first + i % count < a.queries ? (i < count ? a.lse : a.dots)[row + i % count] : 0.0f;
}

/* Roles exchanged: warps have keys, and go over the queries of all heads that read them. */
template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_key_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, keys);
    constexpr int COUNT = OTHERS_OF_KEYS<D>, N = COUNT / 8;
    pdl_bf16     *values = keys + ROWS * WIDE<D>, *queries = values + ROWS * WIDE<D>;
    pdl_bf16     *gradients = queries + COUNT * WIDE<D>;
    float        *numbers = (float *)(gradients + COUNT * WIDE<D>);
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t       group = a.heads / a.kv_heads;
    place         at(a, a.kv_heads, tiles_of(a.keys), false);
    int64_t       key = at.first + warp * 16;
    int64_t       begin = a.causal && at.first > at.past ? (at.first - at.past) / COUNT * COUNT : 0;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {}, by[2] = {1, 1}, by_kept[2] = {1 / (1 - a.rate), 1 / (1 - a.rate)};

    load_tile<D>(a.k, at.n, at.head, at.first, a.keys, ROWS, keys);
    load_tile<D>(a.v, at.n, at.head, at.first, a.keys, ROWS, values);
    for (int64_t head = at.head * group; head < (at.head + 1) * group; head++)
        for (int64_t query = begin; query < a.queries; query += COUNT) {
            float score[N][4] = {}, slope[N][4] = {};

            __syncthreads();
            load_tile<D>(a.q, at.n, head, query, a.queries, COUNT, queries);
            load_tile<D>(a.d_out, at.n, head, query, a.queries, COUNT, gradients);
            load_numbers(a, at.n, head, query, COUNT, numbers);
            __syncthreads();
            if (a.causal && key > at.past + query + COUNT - 1) continue;
            multiply<D, N>(keys + warp * 16 * WIDE<D>, queries, score);
            multiply<D, N>(values + warp * 16 * WIDE<D>, gradients, slope);
#pragma unroll
            for (int j = 0; j < N; j++) {
                unsigned bits = a.rate > 0 ? draw_keys(a, at.n, head, query + 8 * j, key) : 15;

#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = 8 * j + lane % 4 * 2 + i % 2;

                    pair_gradients(a, sees(a, at.past, query + row, key + lane / 4 + i / 2 * 8), bits >> i & 1,
                                   numbers[row], numbers[COUNT + row], &score[j][i], &slope[j][i]);
                }
            }
            add_vectors<D, N>(score, gradients, dv);
            add_vectors<D, N>(slope, queries, dk);
        }
    __syncthreads();
    store_rows<D>(a.dk, at.n, at.head, key, a.keys, dk, by, keys + warp * 16 * WIDE<D>);
    store_rows<D>(a.dv, at.n, at.head, key, a.keys, dv, by_kept, keys + warp * 16 * WIDE<D>);
}

/* ---- launches ---- */

template <int D> static size_t shared_bytes(int rows, int others)
{
    return (size_t)((rows * ROWS + 2 * others) * WIDE<D>)*sizeof(pdl_bf16) + 2 * (size_t)others * sizeof(float);
}

template <int D> static pdl_status_t prepare()
{
    pdl_status_t status = PDL_SHARED_LIMIT(attention_tiles<D>, (shared_bytes<D>(1, OTHERS<D>)));

    if (status == PDL_OK) status = PDL_SHARED_LIMIT(attention_query_tiles<D>, (shared_bytes<D>(2, OTHERS<D>)));
    return status ? status : PDL_SHARED_LIMIT(attention_key_tiles<D>, (shared_bytes<D>(2, OTHERS_OF_KEYS<D>)));
}

template <int D> static pdl_status_t launch(pdl_tensor_stream_t *stream, const attention_t *a, bool backward)
{
    int64_t      samples = a->samples;
    auto         forward = attention_tiles<D>, queries = attention_query_tiles<D>, keys = attention_key_tiles<D>;
    pdl_status_t status;

    if (!backward)
        return PDL_LAUNCH(forward, (unsigned)(samples * a->heads * tiles_of(a->queries)), WARPS * 32,
                          (shared_bytes<D>(1, OTHERS<D>)), stream, *a);
    status = PDL_LAUNCH(queries, (unsigned)(samples * a->heads * tiles_of(a->queries)), WARPS * 32,
                        (shared_bytes<D>(2, OTHERS<D>)), stream, *a);
    return status ? status
                  : PDL_LAUNCH(keys, (unsigned)(samples * a->kv_heads * tiles_of(a->keys)), WARPS * 32,
                               (shared_bytes<D>(2, OTHERS_OF_KEYS<D>)), stream, *a);
}

static bool is_even(const heads_t *heads)
{
    return pdl_is_aligned(heads->at) && heads->sample % 8 == 0 && heads->token % 8 == 0;
}

extern "C" bool pdl__cuda_attention_fits(pdl_dtype_t type, const attention_t *a)
{
    return type == PDL_DTYPE_BF16 && (a->dim == 32 || a->dim == 64 || a->dim == 128) &&
           (a->rate == 0 || a->keys % 4 == 0) && is_even(&a->q) && is_even(&a->k) && is_even(&a->v) &&
           is_even(&a->out) && is_even(&a->d_out) && is_even(&a->dq) && is_even(&a->dk) && is_even(&a->dv);
}

extern "C" pdl_status_t pdl__cuda_attention_prepare(pdl_dtype_t type, int64_t dim)
{
    if (type != PDL_DTYPE_BF16) return PDL_OK;
    return dim == 128 ? prepare<128>() : dim == 64 ? prepare<64>() : dim == 32 ? prepare<32>() : PDL_OK;
}

extern "C" pdl_status_t pdl__cuda_attention_tile(pdl_tensor_stream_t *stream, const attention_t *a, bool backward)
{
    return a->dim == 128  ? launch<128>(stream, a, backward)
           : a->dim == 64 ? launch<64>(stream, a, backward)
                          : launch<32>(stream, a, backward);
}
