/*
 * Inside attention_tiles.cu: tiles of vectors in shared memory and their products, and numbers of dropout.
 *
 * Those come four at a time, for keys that follow one another. Each lane draws four and tells its neighbours which of the
 * pairs that they have are kept.
 */
#ifndef PDL_TENSOR_CUDA_ATTENTION_TILES_H
#define PDL_TENSOR_CUDA_ATTENTION_TILES_H

#include "tensor/plugin/cuda/fragments.h"
#include "tensor/plugin/cuda/sequence/attention.h"

#include <float.h>

typedef pdl__cuda_attention_t attention_t;
typedef pdl__cuda_heads_t     heads_t;

#define WARPS 4
/* Vectors of a block, 16 M of a warp: queries, or keys where roles are exchanged. With M = 2 what is read of the other side
   serves twice; sums of backward leave no registers for that. */
template <int M> static constexpr int ROWS = WARPS * 16 * M;
#define LN2 0.69314718f

/* Vectors of the other side at a time; and from one vector to the next in shared memory, where eight of them have
   their pieces of 16 bytes in different banks. */
template <int D> static constexpr int OTHERS = D <= 64 ? 64 : 32;
template <int D> static constexpr int OTHERS_OF_KEYS = 32;
template <int D> static constexpr int WIDE = D + 8;

/* ---- tiles ---- */

/* Vectors `first` to `first + count - 1` of a head, zeros from `end` on, in flight to shared memory. */
template <int D>
static __device__ __forceinline__ void load_tile(const heads_t &heads, int64_t n, int64_t head, int64_t first,
                                                 int64_t end, int count, pdl_bf16 *tile)
{
    const pdl_bf16 *from = (const pdl_bf16 *)heads.at + n * heads.sample + first * heads.token + head * D;
    int             left = (int)min(end - first, (int64_t)count);

#pragma unroll 4
    for (int i = threadIdx.x; i < count * (D / 8); i += WARPS * 32) {
        int  row = i / (D / 8), piece = i % (D / 8) * 8;
        bool there = row < left;

        pdl_copy_async(tile + row * WIDE<D> + piece, from + (there ? row * heads.token + piece : 0), there);
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

/* product[m][.][.] += vectors 16 m to 16 m + 15 of a warp times the vectors of a tile of 8 N. */
template <int D, int N, int M>
static __device__ __forceinline__ void multiply(const pdl_bf16 *vectors, const pdl_bf16 *tile,
                                                float product[M][N][4])
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t a[M][4], b[4];

#pragma unroll
        for (int m = 0; m < M; m++)
            pdl_load_matrices<false>(a[m], vectors + (16 * m + lane % 16) * WIDE<D> + k + lane / 16 * 8);
#pragma unroll
        for (int j = 0; j < N; j += 2) {
            pdl_load_matrices<false>(b, tile + (8 * j + lane % 8 + lane / 16 * 8) * WIDE<D> + k + lane / 8 % 2 * 8);
#pragma unroll
            for (int m = 0; m < M; m++) {
                pdl_multiply(product[m][j], a[m], b);
                pdl_multiply(product[m][j + 1], a[m], b + 2);
            }
        }
    }
}

/* sum[m] += over the tile's vectors their weights in weight[m] times the vectors. */
template <int D, int N, int M>
static __device__ __forceinline__ void add_vectors(const float weight[M][N][4], const pdl_bf16 *tile,
                                                   float sum[M][D / 8][4])
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int k = 0; k < N; k += 2) {
        uint32_t a[M][4], b[4];

#pragma unroll
        for (int m = 0; m < M; m++)
            for (int i = 0; i < 4; i++)
                a[m][i] = pdl_pair(weight[m][k + i / 2][i % 2 * 2], weight[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int j = 0; j < D / 8; j += 2) {
            pdl_load_matrices<true>(b, tile + (8 * k + lane % 16) * WIDE<D> + 8 * j + lane / 16 * 8);
#pragma unroll
            for (int m = 0; m < M; m++) {
                pdl_multiply(sum[m][j], a[m], b);
                pdl_multiply(sum[m][j + 1], a[m], b + 2);
            }
        }
    }
}

/* ---- what a block does ---- */

template <int M> static __host__ __device__ int64_t tiles_of(int64_t rows)
{
    return (rows + ROWS<M> - 1) / ROWS<M>;
}

/* A tile of one head of one sample, the late ones of a causal sequence first. */
struct place {
    int64_t n, head, first, past;

    __device__ place(const attention_t &a, int64_t heads, int64_t tiles, int64_t rows, bool last_first)
        : n(blockIdx.x / tiles / heads), head(blockIdx.x / tiles % heads),
          first((last_first ? tiles - 1 - blockIdx.x % tiles : blockIdx.x % tiles) * rows),
          past(a.past != NULL ? a.past[n] : 0)
    {
    }
};

/* How many of `count` keys from `key` on a query sees. */
static __device__ __forceinline__ int seen_by(const attention_t &a, int64_t past, int64_t query, int64_t key,
                                              int count)
{
    int64_t end = a.causal ? min(a.keys, past + query + 1) : a.keys;

    return query < a.queries ? (int)max((int64_t)0, min(end - key, (int64_t)count)) : 0;
}

/* ---- dropout ---- */

/* The numbers of a query and those behind them: their stream in this step, and where they begin, in fours. */
struct draws {
    uint64_t stream, block;

    __device__ draws(const attention_t &a, int64_t n, int64_t head, int64_t query)
    {
        int64_t row = (a.first_sample + n) * a.all_heads + a.first_head + head;

        stream = pdl_random_part_of(a.root, a.numbers != NULL ? a.numbers->step : a.step);
        block = (uint64_t)((row * a.keys + query) * (a.keys / 4));
    }
};

/* Bits of the pairs of a query with four keys: whether they are kept. */
static __device__ __forceinline__ unsigned draw(const attention_t &a, uint64_t stream, uint64_t block)
{
    float    four[4];
    unsigned bits = 0;

    pdl_random4(a.seed, stream, block, four);
    for (int i = 0; i < 4; i++) bits |= (unsigned)(four[i] >= a.rate) << i;
    return bits;
}

/* Those of a lane in a tile of 16 queries and 8 keys. Even lanes draw for query g, odd ones for g + 8, whose numbers
   are given. */
static __device__ __forceinline__ unsigned draw_queries(const attention_t &a, const draws &from, int64_t key)
{
    int      lane = threadIdx.x % 32, odd = lane % 2;
    unsigned mine = draw(a, from.stream, from.block + (uint64_t)(key / 4 + lane % 4 / 2));
    unsigned other = __shfl_xor_sync(PDL_ALL_LANES, mine, 1);
    unsigned low = odd ? other : mine, high = odd ? mine : other;

    return (low >> 2 * odd & 3) | (high >> 2 * odd & 3) << 2;
}

/* Those of a lane in a tile of 16 keys and 8 queries, which are so far behind the query whose numbers are given. Four lanes
   have the keys of the same draws. */
static __device__ __forceinline__ unsigned draw_keys(const attention_t &a, const draws &from, int64_t query,
                                                     int64_t key)
{
    int      lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, i = g % 4;
    uint64_t block = from.block + (uint64_t)((query + 2 * t + i % 2) * (a.keys / 4) + key / 4 + g / 4 + i / 2 * 2);
    unsigned mine = draw(a, from.stream, block), bits = 0;

    for (int k = 0; k < 4; k++) bits |= (__shfl_sync(PDL_ALL_LANES, mine, (g / 4 * 4 + k) * 4 + t) >> i & 1) << k;
    return bits;
}

#endif
