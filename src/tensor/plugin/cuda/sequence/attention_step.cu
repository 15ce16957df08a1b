/*
 * Attention of few new tokens to many earlier ones, as generation has it: a block to each query of each head. Groups of threads
 * share a vector, eight channels each, and go over the keys side by side; what they found is put together in the end.
 */
#include "tensor/plugin/cuda/sequence/attention.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

typedef pdl__cuda_attention_t attention_t;

#define THREADS 256
#define DEPTH   4 /* keys of a group in flight together */

/* What some of the keys come to: with weights exp(score - largest), their sum and the sum of values. */
struct found {
    float largest, total, sum[8];
};

static __device__ __forceinline__ void join(found &a, float largest, float total, const float sum[8])
{
    float high = largest > a.largest || largest != largest ? largest : a.largest;
    float mine = expf(a.largest - high), other = expf(largest - high);

    a.largest = high;
    a.total = a.total * mine + total * other;
#pragma unroll
    for (int i = 0; i < 8; i++) a.sum[i] = a.sum[i] * mine + sum[i] * other;
}

/* Keys `first`, `first + step`, ... below `end`. */
template <typename T, int LANES>
static __device__ void read_keys(const attention_t &a, const T *k, const T *v, const float q[8], int64_t first,
                                 int64_t step, int64_t end, found &f)
{
    /* All threads of a warp take part in sums, whether they have a key or not. */
    for (int64_t begin = 0; begin < end; begin += DEPTH * step) {
        pdl_raw8<T> keys[DEPTH], values[DEPTH];

#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            int64_t key = begin + d * step + first;

            if (key >= end) continue;
            keys[d].load(k + key * a.k.token);
            values[d].load(v + key * a.v.token);
        }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            bool  seen = begin + d * step + first < end;
            float x[8], product = 0;

            if (seen) {
                keys[d].unpack(x);
                for (int i = 0; i < 8; i++) product += q[i] * x[i];
            }
#pragma unroll
            for (int by = LANES / 2; by > 0; by /= 2) product += __shfl_xor_sync(PDL_ALL_LANES, product, by);
            if (!seen) continue;
            values[d].unpack(x);
            join(f, a.scale * product, 1, x);
        }
    }
}

template <typename T, int LANES> static __global__ void __launch_bounds__(THREADS) attention_step(attention_t a)
{
    __shared__ found shared[THREADS];
    int              lane = threadIdx.x % LANES, group = threadIdx.x / LANES, groups = THREADS / LANES;

    for (int64_t item = blockIdx.x; item < a.samples * a.heads * a.queries; item += gridDim.x) {
        int64_t  t = item % a.queries, head = item / a.queries % a.heads, n = item / a.queries / a.heads;
        int64_t  kv = head / (a.heads / a.kv_heads), end = (a.past != NULL ? a.past[n] : 0) + t + 1;
        const T *q = (const T *)a.q.at + n * a.q.sample + t * a.q.token + head * a.dim + lane * 8;
        const T *k = (const T *)a.k.at + n * a.k.sample + kv * a.dim + lane * 8;
        const T *v = (const T *)a.v.at + n * a.v.sample + kv * a.dim + lane * 8;
        found    f = {-FLT_MAX, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
        float    query[8];

        pdl_load8(q, query);
        read_keys<T, LANES>(a, k, v, query, group, groups, end < a.keys ? end : a.keys, f);
        __syncthreads();
        shared[threadIdx.x] = f;
        __syncthreads();
        if (group > 0) continue;
        for (int g = 1; g < groups; g++) {
            const found &other = shared[g * LANES + lane];

            if (other.total > 0 || other.total != other.total) join(f, other.largest, other.total, other.sum);
        }
        for (int i = 0; i < 8; i++) f.sum[i] /= f.total;
        pdl_store8((T *)a.out.at + n * a.out.sample + t * a.out.token + head * a.dim + lane * 8, f.sum);
    }
}

template <typename T> static pdl_status_t launch(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const attention_t *a)
{
    auto attention = a->dim == 256   ? attention_step<T, 32>
                     : a->dim == 128 ? attention_step<T, 16>
                     : a->dim == 64  ? attention_step<T, 8>
                                     : attention_step<T, 4>;

    return PDL_LAUNCH(attention, pdl__gpu_blocks(gpu, a->samples * a->heads * a->queries, 1, 8), THREADS, 0, stream,
                      *a);
}

static bool is_even(const pdl__cuda_heads_t *heads)
{
    return pdl_is_aligned(heads->at) && heads->sample % 8 == 0 && heads->token % 8 == 0;
}

extern "C" bool pdl__cuda_attention_steps(const attention_t *a)
{
    bool size = a->dim == 32 || a->dim == 64 || a->dim == 128 || a->dim == 256;

    return a->past != NULL && a->queries <= 8 && size && a->rate == 0 && is_even(&a->q) && is_even(&a->k) &&
           is_even(&a->v) && is_even(&a->out);
}

extern "C" pdl_status_t pdl__cuda_attention_step(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                                 const attention_t *a)
{
    return type == PDL_DTYPE_BF16 ? launch<pdl_bf16>(gpu, stream, a) : launch<float>(gpu, stream, a);
}
