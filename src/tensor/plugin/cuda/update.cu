/*
 * One step of an optimizer, in one pass over weights, gradients and moments, for a table of ranges.
 */
#include "tensor/plugin/cuda/spans.h"
#include "tensor/plugin/cuda/vectors_parts.h"
#include "tensor/steps.h"

namespace
{

/* All that is alike for the ranges of an update. */
struct arrays {
    pdl_update_t update; /* its pointers are the device's */
    int          ranges; /* all of them: sums are [2][ranges] */
};

/* False: nothing is to be written. */
__device__ __forceinline__ bool find_numbers(const arrays &a, const pdl_span &span, pdl__update_step_t &step)
{
    pdl_update_t u = a.update;
    double       norm[2] = {};

    if (u.numbers != NULL) {
        u.lr = u.numbers->lr;
        u.correction1 = u.numbers->correction1;
        u.correction2 = u.numbers->correction2;
    }
    for (int k = 0; k < 2 && (u.trust > 0 || u.kind == PDL_UPDATE_LAMB_APPLY); k++)
        norm[k] = sqrt(u.sums[k * a.ranges + span.index]);
    pdl__update_rates_t rates = pdl__update_rates(&u, u.scale != NULL ? *u.scale : 1, span.decays, norm);
    step = pdl__step_of(&u, &rates);
    return isfinite(rates.scale);
}

/* The rules: a step for one element. */
struct sgd {
    static constexpr bool                  has_m = false, has_v = false;
    static __device__ __forceinline__ void step(const pdl__update_step_t &s, float &w, float g, float &, float &)
    {
        pdl__step_sgd(&s, &w, g);
    }
};

struct momentum {
    static constexpr bool                  has_m = true, has_v = false;
    static __device__ __forceinline__ void step(const pdl__update_step_t &s, float &w, float g, float &m, float &)
    {
        pdl__step_momentum(&s, &w, g, &m);
    }
};

struct nesterov {
    static constexpr bool                  has_m = true, has_v = false;
    static __device__ __forceinline__ void step(const pdl__update_step_t &s, float &w, float g, float &m, float &)
    {
        pdl__step_nesterov(&s, &w, g, &m);
    }
};

struct adamw {
    static constexpr bool                  has_m = true, has_v = true;
    static __device__ __forceinline__ void step(const pdl__update_step_t &s, float &w, float g, float &m, float &v)
    {
        pdl__step_adamw(&s, &w, g, &m, &v);
    }
};

struct lamb_apply {
    static constexpr bool                  has_m = true, has_v = true;
    static __device__ __forceinline__ void step(const pdl__update_step_t &s, float &w, float, float &m, float &v)
    {
        w = fmaf(-s.lr, pdl__step_lamb_direction(&s, w, m, v), w);
    }
};

/* Where the arrays of a range begin. */
template <typename T> struct places {
    float       *w, *m, *v;
    const float *g;
    T           *packed;

    __device__ places(const arrays &a, const pdl_span &span)
        : w((float *)a.update.weights + span.at[0]), m((float *)a.update.moment[0] + span.at[2]),
          v((float *)a.update.moment[1] + span.at[2]), g((const float *)a.update.gradients + span.at[1]),
          packed(a.update.packed != NULL && span.at[3] >= 0 ? (T *)a.update.packed + span.at[3] : NULL)
    {
    }
};

template <typename R, typename T> struct update_step {
    places<T>          at;
    pdl__update_step_t n;
    int64_t           *not_finite;

    /* What was written times 0 is a NaN if it was not finite. All write the same. */
    __device__ void note(float zero) const
    {
        if (zero != 0 && not_finite != NULL) *not_finite = 1;
    }
    template <int N> __device__ __forceinline__ void fours(int64_t first, int64_t by) const
    {
        float w[N][4], g[N][4], m[N][4] = {}, v[N][4] = {}, zero = 0;

#pragma unroll
        for (int j = 0; j < N; j++) {
            int64_t i = first + j * by;

            pdl_load4(at.w + i, w[j]);
            pdl_load4(at.g + i, g[j]);
            if (R::has_m) pdl_load4(at.m + i, m[j]);
            if (R::has_v) pdl_load4(at.v + i, v[j]);
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            int64_t i = first + j * by;

            for (int k = 0; k < 4; k++) {
                R::step(n, w[j][k], g[j][k], m[j][k], v[j][k]);
                zero += w[j][k] * 0.0f + v[j][k] * 0.0f;
            }
            pdl_store4(at.w + i, w[j]);
            if (R::has_m) pdl_store4(at.m + i, m[j]);
            if (R::has_v) pdl_store4(at.v + i, v[j]);
            if (at.packed != NULL) pdl_store4(at.packed + i, w[j]);
        }
        note(zero);
    }
    __device__ void one(int64_t i) const
    {
        float w = at.w[i], m = R::has_m ? at.m[i] : 0, v = R::has_v ? at.v[i] : 0;

        R::step(n, w, at.g[i], m, v);
        at.w[i] = w;
        if (R::has_m) at.m[i] = m;
        if (R::has_v) at.v[i] = v;
        if (at.packed != NULL) at.packed[i] = T(w);
        note(w * 0.0f + v * 0.0f);
    }
};

template <typename R, typename T>
__global__ void update_spans(const __grid_constant__ pdl_spans spans, const __grid_constant__ arrays a)
{
    const pdl_span   &span = spans.mine();
    update_step<R, T> step = {places<T>(a, span), {}, a.update.not_finite};

    if (find_numbers(a, span, step.n)) pdl_walk_fours(span, step);
}

/* Only the moments change; partial sums of the squares of directions. */
struct lamb_step {
    places<float>      at;
    pdl__update_step_t n;
    double            *sum;

    __device__ void one(int64_t i) const
    {
        float m = at.m[i], v = at.v[i], d;

        pdl__step_moments(&n, at.g[i], &m, &v);
        d = pdl__step_lamb_direction(&n, at.w[i], m, v);
        at.m[i] = m;
        at.v[i] = v;
        *sum += (double)d * (double)d;
    }
    __device__ void eight(int64_t i) const
    {
        for (int k = 0; k < 8; k++) one(i + k);
    }
};

__global__ void lamb_spans(const __grid_constant__ pdl_spans spans, const __grid_constant__ arrays a,
                           double *partial)
{
    __shared__ double shared[32];
    const pdl_span   &span = spans.mine();
    double            sum = 0;
    lamb_step         step = {places<float>(a, span), {}, &sum};

    if (!find_numbers(a, span, step.n)) return;
    pdl_walk(span, step);
    sum = pdl_block_sum(sum, shared);
    if (pdl_thread() == 0) partial[blockIdx.x] = sum;
}

pdl_status_t update_lamb(pdl_tensor_stream_t *stream, const pdl_spans &spans, const arrays &a)
{
    double      *partial = (double *)stream->scratch;
    pdl_status_t status = PDL_LAUNCH(lamb_spans, spans.blocks, PDL__SPAN_THREADS, 0, stream, spans, a, partial);

    return status ? status
                  : PDL_LAUNCH(pdl__finish_spans, spans.count, PDL__SPAN_THREADS, 0, stream, spans, partial,
                               a.update.scale, a.update.sums + a.ranges);
}

template <typename T>
pdl_status_t update_batch(pdl_tensor_stream_t *stream, const pdl_spans &spans, const arrays &a)
{
    auto kernel = update_spans<sgd, T>;

    switch (a.update.kind) {
    case PDL_UPDATE_SGD: break;
    case PDL_UPDATE_MOMENTUM: kernel = update_spans<momentum, T>; break;
    case PDL_UPDATE_NESTEROV: kernel = update_spans<nesterov, T>; break;
    case PDL_UPDATE_ADAMW: kernel = update_spans<adamw, T>; break;
    case PDL_UPDATE_LAMB_APPLY: kernel = update_spans<lamb_apply, T>; break;
    case PDL_UPDATE_LAMB_STATE: return update_lamb(stream, spans, a);
    }
    return PDL_LAUNCH(kernel, spans.blocks, PDL__SPAN_THREADS, 0, stream, spans, a);
}

/* Where a range is, and whether eight elements can be read at once. */
pdl_span span_of(const pdl_update_t *u, const pdl_update_range_t *range, int index)
{
    bool     packs = u->packed != NULL && range->packed >= 0;
    pdl_span span = {range->elements, {range->weights, range->gradients, range->state, packs ? range->packed : -1}};

    span.index = index;
    span.decays = range->decays;
    span.aligned = pdl_aligned((const float *)u->weights + range->weights) &&
                   pdl_aligned((const float *)u->gradients + range->gradients) &&
                   (u->moment[0] == NULL || pdl_aligned((const float *)u->moment[0] + range->state)) &&
                   (u->moment[1] == NULL || pdl_aligned((const float *)u->moment[1] + range->state)) &&
                   (!packs || (range->packed % 8 == 0 && pdl_aligned(u->packed)));
    return span;
}

} // namespace

pdl_status_t pdl__cuda_update(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const pdl_update_t *u,
                              const pdl_update_range_t *ranges, int count)
{
    arrays       a = {*u, count};
    int          most = u->kind == PDL_UPDATE_LAMB_STATE ? PDL__SPAN_PARTIALS : 8 * gpu->multiprocessors;
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < count && !status;) {
        pdl_spans spans = {};

        for (; i < count && spans.count < PDL__SPANS; i++)
            if (ranges[i].elements > 0 || u->kind == PDL_UPDATE_LAMB_STATE)
                spans.add(span_of(u, &ranges[i], i), most);
        if (spans.count == 0) break;
        status = type == PDL_DTYPE_BF16 ? update_batch<pdl_bf16>(stream, spans, a)
                                        : update_batch<float>(stream, spans, a);
    }
    return status;
}
