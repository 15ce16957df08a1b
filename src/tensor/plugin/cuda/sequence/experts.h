/*
 * Kernels of a mixture of experts, for all experts here (moe.cu) and for those on several ranks (moe_route.cu). Products are
 * by tiles in single precision: correct in every build, not yet by the units for matrices.
 */
#ifndef PDL_TENSOR_CUDA_EXPERTS_H
#define PDL_TENSOR_CUDA_EXPERTS_H

#include "tensor/plugin/cuda/sequence/moe.h"

#include "tensor/plugin/cuda/pointwise/functions.h"
#include "tensor/plugin/cuda/sequence/segments.h"

typedef pdl__cuda_moe_t        moe_t;
typedef pdl__cuda_moe_choice_t choice_t;

#define THREADS 256
#define CHUNK   PDL__MOE_CHUNK

/* ---- choices ---- */

/* A NaN comes before every number, so that it is not lost with the experts that nobody asks. */
static __device__ bool is_better(float a, float b)
{
    return a > b || (a != a && b == b);
}

/* Takes the best that is left, top_k times; of equal logits the first. Then softmax over those taken. */
static __device__ void choose(const moe_t &m, const float *logit, choice_t *choice)
{
    float sum = 0;

    for (int64_t k = 0; k < m.top_k; k++) {
        int64_t best = -1;

        for (int64_t e = 0; e < m.experts; e++) {
            bool taken = false;

            for (int64_t before = 0; before < k; before++) taken = taken || choice[before].expert == e;
            if (!taken && (best < 0 || is_better(logit[e], logit[best]))) best = e;
        }
        choice[k].expert = (int32_t)best;
        choice[k].share = expf(logit[best] - logit[choice[0].expert]);
        sum += choice[k].share;
    }
    for (int64_t k = 0; k < m.top_k; k++) choice[k].share /= sum;
}

/* A warp has a row. */
template <typename T> static __global__ void __launch_bounds__(THREADS) moe_choose(moe_t m)
{
    typedef pdl_team<false> team;

    for (int64_t row = team::first(); row < m.rows; row += team::step()) {
        const T *x = (const T *)m.x + row * m.in;

        for (int64_t e = 0; e < m.experts; e++) {
            float sum = 0;

            for (int64_t c = team::member(); c < m.in; c += 32) sum += (float)x[c] * m.router[e * m.in + c];
            sum = pdl_warp_sum(sum);
            if (team::member() == 0) m.logit[row * m.experts + e] = sum;
        }
        if (team::member() == 0) choose(m, m.logit + row * m.experts, m.choice + row * m.top_k);
    }
}

/* ---- order: entries of an expert one after the other, as they come ---- */

static __device__ __host__ int64_t chunks_of(const moe_t &m)
{
    return (m.rows * m.top_k + CHUNK - 1) / CHUNK;
}

/* How many entries of every chunk every expert has; a block has a chunk. */
static __global__ void __launch_bounds__(CHUNK) moe_count(moe_t m)
{
    __shared__ int32_t expert[CHUNK];

    for (int64_t chunk = blockIdx.x; chunk < chunks_of(m); chunk += gridDim.x) {
        int64_t i = chunk * CHUNK + threadIdx.x;

        expert[threadIdx.x] = i < m.rows * m.top_k ? m.choice[i].expert : -1;
        __syncthreads();
        for (int64_t e = threadIdx.x; e < m.experts; e += CHUNK) {
            int32_t count = 0;

            for (int k = 0; k < CHUNK; k++) count += expert[k] == e;
            m.counts[chunk * m.experts + e] = count;
        }
        __syncthreads();
    }
}

/* Counts become the places where entries of a chunk begin; one block, a thread has an expert. */
static __global__ void __launch_bounds__(CHUNK) moe_place(moe_t m)
{
    for (int64_t e = threadIdx.x; e < m.experts; e += CHUNK) {
        int64_t sum = 0;

        for (int64_t chunk = 0; chunk < chunks_of(m); chunk++) sum += m.counts[chunk * m.experts + e];
        m.start[e + 1] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        m.start[0] = 0;
        for (int64_t e = 0; e < m.experts; e++) m.start[e + 1] += m.start[e];
    }
    __syncthreads();
    for (int64_t e = threadIdx.x; e < m.experts; e += CHUNK) {
        int64_t at = m.start[e];

        for (int64_t chunk = 0; chunk < chunks_of(m); chunk++) {
            int32_t count = m.counts[chunk * m.experts + e];

            m.counts[chunk * m.experts + e] = (int32_t)at;
            at += count;
        }
    }
}

static __global__ void __launch_bounds__(CHUNK) moe_order(moe_t m)
{
    __shared__ int32_t expert[CHUNK];

    for (int64_t chunk = blockIdx.x; chunk < chunks_of(m); chunk += gridDim.x) {
        int64_t i = chunk * CHUNK + threadIdx.x;
        int32_t mine = i < m.rows * m.top_k ? m.choice[i].expert : -1, before = 0;

        expert[threadIdx.x] = mine;
        __syncthreads();
        for (int k = 0; k < (int)threadIdx.x; k++) before += expert[k] == mine;
        if (mine >= 0) {
            int32_t slot = m.counts[chunk * m.experts + mine] + before;

            m.slot[i] = slot;
            m.entry[slot] = (int32_t)i;
        }
        __syncthreads();
    }
}

/* ---- rows ---- */

/* Rows of tokens in the order of the experts. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) moe_gather(moe_t m, const T *from, int64_t width, T *to)
{
    for (int64_t i = pdl_grid_thread(); i < m.start[m.experts] * width; i += pdl_grid_threads())
        to[i] = from[m.entry[i / width] / m.top_k * width + i % width];
}

template <typename T> static __global__ void __launch_bounds__(THREADS) moe_activate(moe_t m)
{
    const T *g = (const T *)m.g, *u = (const T *)m.u;

    for (int64_t i = pdl_grid_thread(); i < m.start[m.experts] * m.hidden; i += pdl_grid_threads())
        ((T *)m.a)[i] = T(m.gated ? silu::value((float)g[i], 0) * (float)u[i] : gelu::value((float)u[i], 0));
}

/* Answers by their shares. */
template <typename T> static __global__ void __launch_bounds__(THREADS) moe_combine(moe_t m)
{
    for (int64_t i = pdl_grid_thread(); i < m.rows * m.out; i += pdl_grid_threads()) {
        int64_t row = i / m.out;
        float   sum = 0;

        for (int64_t k = row * m.top_k; k < (row + 1) * m.top_k; k++)
            sum += m.choice[k].share * (float)((const T *)m.out_rows)[m.slot[k] * m.out + i % m.out];
        ((T *)m.y)[i] = T(sum);
    }
}

/* ---- backward ---- */

/* For every entry, a warp each: the gradient of its share, which is the answer times the gradient of the output, a da;
   dg and du for that share, and the gradient of the answer multiplied by it. */
template <typename T> static __global__ void __launch_bounds__(THREADS) moe_shares(moe_t m)
{
    typedef pdl_team<false> team;

    for (int64_t slot = team::first(); slot < m.start[m.experts]; slot += team::step()) {
        int64_t entry = m.entry[slot];
        float   share = m.choice[entry].share, sum = 0;

        for (int64_t h = team::member(); h < m.hidden; h += 32) {
            int64_t at = slot * m.hidden + h;
            float   da = (float)((const T *)m.da)[at], u = (float)((const T *)m.u)[at];

            sum += da * (float)((const T *)m.a)[at];
            if (m.gated) {
                float g = (float)((const T *)m.g)[at];

                ((T *)m.dg)[at] = T(silu::back(g, share * da * u, 0));
                ((T *)m.du)[at] = T(share * da * silu::value(g, 0));
            } else {
                ((T *)m.du)[at] = T(gelu::back(u, share * da, 0));
            }
        }
        for (int64_t c = team::member(); c < m.out; c += 32) {
            T *dy = (T *)m.out_rows + slot * m.out + c;

            *dy = T(share * (float)*dy);
        }
        sum = pdl_warp_sum(sum);
        if (team::member() == 0) m.d_share[entry] = sum;
    }
}

/* From gradients of shares to those of logits: share (d - sum of share d), 0 for experts not chosen. */
static __global__ void __launch_bounds__(THREADS) moe_logits(moe_t m)
{
    for (int64_t row = pdl_grid_thread(); row < m.rows; row += pdl_grid_threads()) {
        const choice_t *choice = m.choice + row * m.top_k;
        const float    *d = m.d_share + row * m.top_k;
        float           mean = 0;

        for (int64_t k = 0; k < m.top_k; k++) mean += choice[k].share * d[k];
        for (int64_t e = 0; e < m.experts; e++) m.logit[row * m.experts + e] = 0;
        for (int64_t k = 0; k < m.top_k; k++)
            m.logit[row * m.experts + choice[k].expert] = choice[k].share * (d[k] - mean);
    }
}

/* A thread has one number of the router's gradient. */
template <typename T> static __global__ void __launch_bounds__(THREADS) moe_router(moe_t m)
{
    for (int64_t i = pdl_grid_thread(); i < m.experts * m.in; i += pdl_grid_threads()) {
        int64_t e = i / m.in, c = i % m.in;
        double  sum = 0;

        for (int64_t row = 0; row < m.rows; row++)
            sum += (double)(m.logit[row * m.experts + e] * (float)((const T *)m.x)[row * m.in + c]);
        m.d_router[i] = m.add ? m.d_router[i] + (float)sum : (float)sum;
    }
}

/* What comes back to a token from its experts and from the router. */
template <typename T> static __global__ void __launch_bounds__(THREADS) moe_tokens(moe_t m)
{
    for (int64_t i = pdl_grid_thread(); i < m.rows * m.in; i += pdl_grid_threads()) {
        int64_t row = i / m.in, c = i % m.in;
        float   sum = 0;

        for (int64_t k = row * m.top_k; k < (row + 1) * m.top_k; k++)
            sum += (float)((const T *)m.d_rows)[m.slot[k] * m.d_stride + c];
        for (int64_t e = 0; e < m.experts; e++) sum += m.logit[row * m.experts + e] * m.router[e * m.in + c];
        ((T *)m.dx)[i] = T(sum);
    }
}

/* ---- launches ---- */

/* A pass over a tensor of so many elements. */
#define PASS(kernel, count, ...) \
    PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, count, THREADS, 8), THREADS, 0, stream, __VA_ARGS__)

template <typename T>
static pdl_status_t multiply(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m, const void *in,
                             int64_t k, const float *weight, bool turned, bool add, int64_t n, void *out)
{
    pdl_segments s = {m->experts, n, k, m->rows * m->top_k, m->start, in, weight, turned, add, out};
    int64_t      tiles = (s.most / PDL_TILE + m->experts) * ((n + PDL_TILE - 1) / PDL_TILE);
    auto         product = pdl_segment_product<T>;

    return PDL_LAUNCH(product, pdl__gpu_blocks(gpu, tiles, 1, 8), 256, 0, stream, s);
}

template <typename T>
static pdl_status_t add_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m, const void *d, int64_t n,
                           const void *x, int64_t k, float *gradient)
{
    pdl_segment_sums s = {m->experts, n, k, m->start, d, x, gradient, m->add};
    int64_t          tiles = m->experts * ((n + PDL_TILE - 1) / PDL_TILE) * ((k + PDL_TILE - 1) / PDL_TILE);
    auto             sums = pdl_segment_gradient<T>;

    return gradient != NULL ? PDL_LAUNCH(sums, pdl__gpu_blocks(gpu, tiles, 1, 8), 256, 0, stream, s) : PDL_OK;
}

/* Brings entries into the order of the experts that they chose. */
static inline pdl_status_t order_entries(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    int          blocks = pdl__gpu_blocks(gpu, chunks_of(*m), 1, 8);
    pdl_status_t status = PDL_LAUNCH(moe_count, blocks, CHUNK, 0, stream, *m);

    if (status == PDL_OK) status = PDL_LAUNCH(moe_place, 1, CHUNK, 0, stream, *m);
    return status == PDL_OK ? PDL_LAUNCH(moe_order, blocks, CHUNK, 0, stream, *m) : status;
}

/* Rows and inner values of entries that are in order: both directions begin with it. */
template <typename T> static pdl_status_t inner(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    int64_t      entries = m->rows * m->top_k;
    auto         gather = moe_gather<T>;
    auto         activate = moe_activate<T>;
    pdl_status_t status = PASS(gather, entries * m->in, *m, (const T *)m->x, m->in, (T *)m->in_rows);

    if (status == PDL_OK && m->gated)
        status = multiply<T>(gpu, stream, m, m->in_rows, m->in, m->gate, true, false, m->hidden, m->g);
    if (status == PDL_OK)
        status = multiply<T>(gpu, stream, m, m->in_rows, m->in, m->up, true, false, m->hidden, m->u);
    return status == PDL_OK ? PASS(activate, entries * m->hidden, *m) : status;
}

/* What experts say, in their order. */
template <typename T> static pdl_status_t answer(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    pdl_status_t status = inner<T>(gpu, stream, m);

    if (status != PDL_OK) return status;
    return multiply<T>(gpu, stream, m, m->a, m->hidden, m->down, true, false, m->out, m->out_rows);
}

/* Gradients of the weights of experts, and of the tokens sent to them. */
template <typename T>
static pdl_status_t expert_gradients(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    pdl_status_t status = add_up<T>(gpu, stream, m, m->out_rows, m->out, m->a, m->hidden, m->d_down);

    if (status == PDL_OK && m->gated)
        status = add_up<T>(gpu, stream, m, m->dg, m->hidden, m->in_rows, m->in, m->d_gate);
    if (status == PDL_OK) status = add_up<T>(gpu, stream, m, m->du, m->hidden, m->in_rows, m->in, m->d_up);
    if (status == PDL_OK && m->dx != NULL)
        status = multiply<T>(gpu, stream, m, m->du, m->hidden, m->up, false, false, m->in, m->d_rows);
    if (status == PDL_OK && m->dx != NULL && m->gated)
        status = multiply<T>(gpu, stream, m, m->dg, m->hidden, m->gate, false, true, m->in, m->d_rows);
    return status;
}

/* Gradients of experts and of shares, from dy on. */
template <typename T> static pdl_status_t answer_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    auto         gather = moe_gather<T>;
    auto         shares = moe_shares<T>;
    int64_t      entries = m->rows * m->top_k;
    pdl_status_t status = inner<T>(gpu, stream, m);

    if (status == PDL_OK) status = PASS(gather, entries * m->out, *m, (const T *)m->dy, m->out, (T *)m->out_rows);
    if (status == PDL_OK)
        status = multiply<T>(gpu, stream, m, m->out_rows, m->out, m->down, false, false, m->hidden, m->da);
    if (status == PDL_OK) status = PASS(shares, 32 * entries, *m);
    return status == PDL_OK ? expert_gradients<T>(gpu, stream, m) : status;
}

/* Gradients of router and tokens, from those of shares and of the rows that were sent. */
template <typename T> static pdl_status_t router_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    auto         router = moe_router<T>;
    auto         tokens = moe_tokens<T>;
    pdl_status_t status = PASS(moe_logits, m->rows, *m);

    if (status == PDL_OK && m->d_router != NULL) status = PASS(router, m->experts * m->in, *m);
    return status == PDL_OK && m->dx != NULL ? PASS(tokens, m->rows * m->in, *m) : status;
}

#endif
