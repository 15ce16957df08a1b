/*
 * Attention in bf16 by tensor cores, with any rate of dropout and fewer key heads than heads (Dao, FlashAttention-2, 2023):
 * a block has 128 queries, 32 a warp, and goes over tiles of keys; scores and sums stay in registers. Backward makes the
 * scores again, once for the queries and once, with the roles exchanged, for the keys: every sum is made by one warp in one
 * order.
 */
#include "tensor/plugin/cuda/sequence/attention_tiles.h"
#include "tensor/plugin/cuda/teams.h"

/* ---- forward ---- */

/* The largest or the sum of a row, whose parts four lanes have. */
static __device__ __forceinline__ float row_max(float value)
{
    value = pdl_larger(value, __shfl_xor_sync(PDL_ALL_LANES, value, 1));
    return pdl_larger(value, __shfl_xor_sync(PDL_ALL_LANES, value, 2));
}

static __device__ __forceinline__ float row_sum(float value)
{
    value += __shfl_xor_sync(PDL_ALL_LANES, value, 1);
    return value + __shfl_xor_sync(PDL_ALL_LANES, value, 2);
}

/* Scores to weights 2^(score - largest), scores being in units of log 2; what was summed before is multiplied by a factor.
   seen: keys of the tile that the lane's two queries see. */
template <int D, int N>
static __device__ __forceinline__ void weigh(const attention_t &a, const int seen[2], float weight[N][4],
                                             float largest[2], float total[2], float sum[D / 8][4])
{
    int   t = threadIdx.x % 4;
    float scale = a.scale * PDL_LOG2E;

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float high = largest[h], factor, part = 0;

#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; i++) {
                weight[j][i] = 8 * j + 2 * t + i % 2 < seen[h] ? weight[j][i] * scale : -INFINITY;
                high = pdl_larger(high, weight[j][i]);
            }
        high = row_max(high);
        factor = pdl_exp2(largest[h] - high);
        largest[h] = high;
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; i++) {
                weight[j][i] = pdl_exp2(weight[j][i] - high);
                part += weight[j][i];
            }
        total[h] = total[h] * factor + part;
#pragma unroll
        for (int j = 0; j < D / 8; j++) {
            sum[j][2 * h] *= factor;
            sum[j][2 * h + 1] *= factor;
        }
    }
}

template <int N>
static __device__ __forceinline__ void drop(const attention_t &a, const draws &from, int64_t key,
                                            float weight[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        unsigned bits = draw_queries(a, from, key + 8 * j);

#pragma unroll
        for (int i = 0; i < 4; i++) weight[j][i] = bits >> i & 1 ? weight[j][i] : 0.0f;
    }
}

/* Keys and values from `key` on, into the one or the other of two pairs of tiles. */
template <int D>
static __device__ __forceinline__ void load_keys(const attention_t &a, const place &at, int64_t key,
                                                 pdl_bf16 *tiles)
{
    pdl_bf16 *keys = tiles + key / OTHERS<D> % 2 * (2 * OTHERS<D> * WIDE<D>);
    int64_t   head = at.head / (a.heads / a.kv_heads);

    load_tile<D>(a.k, at.n, head, key, a.keys, OTHERS<D>, keys);
    load_tile<D>(a.v, at.n, head, key, a.keys, OTHERS<D>, keys + OTHERS<D> * WIDE<D>);
    pdl_async_end();
}

/* The tiles of `key` are there; those behind them are in flight. */
template <int D>
static __device__ __forceinline__ void next_keys(const attention_t &a, const place &at, int64_t key, int64_t end,
                                                 pdl_bf16 *tiles)
{
    if (key + OTHERS<D> < end) {
        load_keys<D>(a, at, key + OTHERS<D>, tiles);
        pdl_async_wait<1>();
    } else {
        pdl_async_wait<0>();
    }
    __syncthreads();
}

/* What a query's weights sum to, and their log, once all keys have been seen. */
static __device__ __forceinline__ float conclude(const attention_t &a, const place &at, int64_t query,
                                                 float largest, float total)
{
    total = row_sum(total);
    if (a.lse != NULL && threadIdx.x % 4 == 0 && query < a.queries)
        a.lse[(at.n * a.heads + at.head) * a.queries + query] = largest * LN2 + logf(total);
    return 1.0f / ((1.0f - a.rate) * total);
}

#define TWO 2 /* times 16 queries of a warp */

template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, queries);
    constexpr int N = OTHERS<D> / 8;
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    pdl_bf16     *tiles = queries + ROWS<TWO> * WIDE<D>, *mine = queries + warp * 16 * TWO * WIDE<D>;
    place         at(a, a.heads, tiles_of<TWO>(a.queries), ROWS<TWO>, true);
    int64_t       query = at.first + warp * 16 * TWO,
            end = a.causal ? min(a.keys, at.past + at.first + ROWS<TWO>) : a.keys;
    float sum[TWO][D / 8][4] = {}, largest[TWO][2], total[TWO][2] = {};

    for (int i = 0; i < 2 * TWO; i++) largest[i / 2][i % 2] = -FLT_MAX;
    load_tile<D>(a.q, at.n, at.head, at.first, a.queries, ROWS<TWO>, queries);
    load_keys<D>(a, at, 0, tiles);
    for (int64_t key = 0; key < end; key += OTHERS<D>) {
        const pdl_bf16 *keys = tiles + key / OTHERS<D> % 2 * (2 * OTHERS<D> * WIDE<D>);
        float           weight[TWO][N][4] = {};

        next_keys<D>(a, at, key, end, tiles);
        if (!a.causal || key <= at.past + query + 16 * TWO - 1) {
            multiply<D, N, TWO>(mine, keys, weight);
#pragma unroll
            for (int m = 0; m < TWO; m++) {
                int64_t first = query + 16 * m + lane / 4;
                int     seen[2] = {seen_by(a, at.past, first, key, OTHERS<D>),
                                   seen_by(a, at.past, first + 8, key, OTHERS<D>)};

                weigh<D, N>(a, seen, weight[m], largest[m], total[m], sum[m]);
                if (a.rate > 0) drop<N>(a, draws(a, at.n, at.head, first + lane % 2 * 8), key, weight[m]);
            }
            add_vectors<D, N, TWO>(weight, keys + OTHERS<D> * WIDE<D>, sum);
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < TWO; m++) {
        int64_t first = query + 16 * m + lane / 4;
        float   by[2] = {conclude(a, at, first, largest[m][0], total[m][0]),
                         conclude(a, at, first + 8, largest[m][1], total[m][1])};

        store_rows<D>(a.out, at.n, at.head, query + 16 * m, a.queries, sum[m], by, mine + 16 * m * WIDE<D>);
    }
}

/* ---- backward ---- */

/* The probability of a pair, as it was used but for the factor of dropout, and the gradient of its score. lse is in units of
   log 2; kept_by is that factor, or 0. */
static __device__ __forceinline__ void pair_gradients(const attention_t &a, bool seen, float kept_by, float lse,
                                                      float dots, float *score, float *slope)
{
    float probability = seen ? pdl_exp2(a.scale * PDL_LOG2E * *score - lse) : 0.0f;

    *slope = seen ? probability * (kept_by * *slope - dots) * a.scale : 0.0f;
    *score = kept_by > 0 ? probability : 0.0f;
}

template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_query_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, queries);
    constexpr int N = OTHERS<D> / 8;
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    pdl_bf16     *gradients = queries + ROWS<1> * WIDE<D>, *tiles = gradients + ROWS<1> * WIDE<D>;
    pdl_bf16     *mine = queries + warp * 16 * WIDE<D>;
    place         at(a, a.heads, tiles_of<1>(a.queries), ROWS<1>, true);
    int64_t       query = at.first + warp * 16, end = a.causal ? min(a.keys, at.past + at.first + ROWS<1>) : a.keys;
    draws         from(a, at.n, at.head, query + lane / 4 + lane % 2 * 8);
    float         sum[1][D / 8][4] = {}, lse[2] = {0, 0}, dots[2] = {0, 0}, by[2] = {1, 1},
                     kept_by = 1.0f / (1.0f - a.rate);

    load_tile<D>(a.q, at.n, at.head, at.first, a.queries, ROWS<1>, queries);
    load_tile<D>(a.d_out, at.n, at.head, at.first, a.queries, ROWS<1>, gradients);
    load_keys<D>(a, at, 0, tiles);
    for (int h = 0; h < 2 && query + lane / 4 + 8 * h < a.queries; h++) {
        int64_t row = (at.n * a.heads + at.head) * a.queries + query + lane / 4 + 8 * h;

        lse[h] = a.lse[row] * PDL_LOG2E;
        dots[h] = a.dots[row];
    }
    for (int64_t key = 0; key < end; key += OTHERS<D>) {
        const pdl_bf16 *keys = tiles + key / OTHERS<D> % 2 * (2 * OTHERS<D> * WIDE<D>);
        float           score[1][N][4] = {}, slope[1][N][4] = {};

        next_keys<D>(a, at, key, end, tiles);
        if (!a.causal || key <= at.past + query + 15) {
            int seen[2] = {seen_by(a, at.past, query + lane / 4, key, OTHERS<D>),
                           seen_by(a, at.past, query + lane / 4 + 8, key, OTHERS<D>)};

            multiply<D, N, 1>(mine, keys, score);
            multiply<D, N, 1>(gradients + warp * 16 * WIDE<D>, keys + OTHERS<D> * WIDE<D>, slope);
#pragma unroll
            for (int j = 0; j < N; j++) {
                unsigned bits = a.rate > 0 ? draw_queries(a, from, key + 8 * j) : 15;

#pragma unroll
                for (int i = 0; i < 4; i++)
                    pair_gradients(a, 8 * j + lane % 4 * 2 + i % 2 < seen[i / 2], bits >> i & 1 ? kept_by : 0.0f,
                                   lse[i / 2], dots[i / 2], &score[0][j][i], &slope[0][j][i]);
            }
            add_vectors<D, N, 1>(slope, keys, sum);
        }
        __syncthreads();
    }
    store_rows<D>(a.dq, at.n, at.head, query, a.queries, sum[0], by, mine);
}

/* Tiles of queries and gradients of a head, and logs of sums and dots as floats behind them; two of all. */
template <int D> static constexpr int QUERY_TILES = 2 * OTHERS_OF_KEYS<D> *WIDE<D> + 4 * OTHERS_OF_KEYS<D>;

template <int D>
static __device__ __forceinline__ void load_queries(const attention_t &a, int64_t n, int64_t head, int64_t query,
                                                    pdl_bf16 *tiles)
{
    constexpr int COUNT = OTHERS_OF_KEYS<D>;
    float        *numbers = (float *)(tiles + 2 * COUNT * WIDE<D>);
    int64_t       row = (n * a.heads + head) * a.queries + query;

    load_tile<D>(a.q, n, head, query, a.queries, COUNT, tiles);
    load_tile<D>(a.d_out, n, head, query, a.queries, COUNT, tiles + COUNT * WIDE<D>);
    pdl_async_end();
    for (int i = threadIdx.x; i < COUNT; i += WARPS * 32) {
        bool there = query + i < a.queries;

        numbers[i] = there ? a.lse[row + i] * PDL_LOG2E : 0.0f;
        numbers[COUNT + i] = there ? a.dots[row + i] : 0.0f;
    }
}

/* Roles exchanged: warps have keys, and go over the queries of all heads that read them. */
template <int D> static __global__ void __launch_bounds__(WARPS * 32) attention_key_tiles(attention_t a)
{
    PDL_SHARED(pdl_bf16, keys);
    constexpr int COUNT = OTHERS_OF_KEYS<D>, N = COUNT / 8;
    pdl_bf16     *values = keys + ROWS<1> * WIDE<D>, *tiles = values + ROWS<1> * WIDE<D>;
    int           lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    place         at(a, a.kv_heads, tiles_of<1>(a.keys), ROWS<1>, false);
    int64_t       key = at.first + warp * 16, group = a.heads / a.kv_heads;
    int64_t       begin = a.causal && at.first > at.past ? (at.first - at.past) / COUNT * COUNT : 0;
    int64_t       turns = (a.queries - begin + COUNT - 1) / COUNT;
    float         dk[1][D / 8][4] = {}, dv[1][D / 8][4] = {}, one[2] = {1, 1}, kept_by = 1.0f / (1.0f - a.rate);
    float         by[2] = {kept_by, kept_by};

    load_tile<D>(a.k, at.n, at.head, at.first, a.keys, ROWS<1>, keys);
    load_tile<D>(a.v, at.n, at.head, at.first, a.keys, ROWS<1>, values);
    if (turns > 0) load_queries<D>(a, at.n, at.head * group, begin, tiles);
    for (int64_t turn = 0; turn < turns * group; turn++) {
        int64_t head = at.head * group + turn / turns, query = begin + turn % turns * COUNT, next = turn + 1;
        const pdl_bf16 *queries = tiles + turn % 2 * QUERY_TILES<D>, *gradients = queries + COUNT * WIDE<D>;
        const float    *numbers = (const float *)(gradients + COUNT * WIDE<D>);
        float           score[1][N][4] = {}, slope[1][N][4] = {};

        if (next < turns * group) {
            load_queries<D>(a, at.n, at.head * group + next / turns, begin + next % turns * COUNT,
                            tiles + next % 2 * QUERY_TILES<D>);
            pdl_async_wait<1>();
        } else {
            pdl_async_wait<0>();
        }
        __syncthreads();
        if (!a.causal || key <= at.past + query + COUNT - 1) {
            draws from(a, at.n, head, query);

            multiply<D, N, 1>(keys + warp * 16 * WIDE<D>, queries, score);
            multiply<D, N, 1>(values + warp * 16 * WIDE<D>, gradients, slope);
#pragma unroll
            for (int j = 0; j < N; j++) {
                unsigned bits = a.rate > 0 ? draw_keys(a, from, 8 * j, key) : 15;

#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int     row = 8 * j + lane % 4 * 2 + i % 2;
                    int64_t mine = key + lane / 4 + i / 2 * 8;
                    bool    seen =
                        query + row < a.queries && mine < a.keys && (!a.causal || mine <= at.past + query + row);

                    pair_gradients(a, seen, bits >> i & 1 ? kept_by : 0.0f, numbers[row], numbers[COUNT + row],
                                   &score[0][j][i], &slope[0][j][i]);
                }
            }
            add_vectors<D, N, 1>(score, gradients, dv);
            add_vectors<D, N, 1>(slope, queries, dk);
        }
        __syncthreads();
    }
    pdl_async_end();
    pdl_async_wait<0>();
    __syncthreads();
    store_rows<D>(a.dk, at.n, at.head, key, a.keys, dk[0], one, keys + warp * 16 * WIDE<D>);
    store_rows<D>(a.dv, at.n, at.head, key, a.keys, dv[0], by, keys + warp * 16 * WIDE<D>);
}

/* ---- launches ---- */

/* Queries, in backward half as many with their gradients, and twice two tiles of the other side. */
template <int D> static size_t shared_bytes()
{
    static_assert(ROWS<TWO> == 2 * ROWS<1>);
    return (size_t)((ROWS<TWO> + 4 * OTHERS<D>)*WIDE<D>)*sizeof(pdl_bf16);
}

template <int D> static size_t shared_bytes_of_keys()
{
    return (size_t)(2 * ROWS<1> * WIDE<D> + 2 * QUERY_TILES<D>)*sizeof(pdl_bf16);
}

template <int D> static pdl_status_t prepare()
{
    pdl_status_t status = PDL_SHARED_LIMIT(attention_tiles<D>, shared_bytes<D>());

    if (status == PDL_OK) status = PDL_SHARED_LIMIT(attention_query_tiles<D>, shared_bytes<D>());
    return status ? status : PDL_SHARED_LIMIT(attention_key_tiles<D>, shared_bytes_of_keys<D>());
}

template <int D> static pdl_status_t launch(pdl_tensor_stream_t *stream, const attention_t *a, bool backward)
{
    int64_t      samples = a->samples;
    auto         forward = attention_tiles<D>, queries = attention_query_tiles<D>, keys = attention_key_tiles<D>;
    pdl_status_t status;

    if (!backward)
        return PDL_LAUNCH(forward, (unsigned)(samples * a->heads * tiles_of<TWO>(a->queries)), WARPS * 32,
                          shared_bytes<D>(), stream, *a);
    status = PDL_LAUNCH(queries, (unsigned)(samples * a->heads * tiles_of<1>(a->queries)), WARPS * 32,
                        shared_bytes<D>(), stream, *a);
    return status ? status
                  : PDL_LAUNCH(keys, (unsigned)(samples * a->kv_heads * tiles_of<1>(a->keys)), WARPS * 32,
                               shared_bytes_of_keys<D>(), stream, *a);
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
