/*
 * One step of an optimizer, in one pass over weights, gradients and moments.
 */
#include "tensor/plugin/cuda/elements.h"
#include "tensor/plugin/cuda/vectors_parts.h"

struct numbers {
    float lr, momentum, beta1, beta2, epsilon, decay, scale;
    float rest1, rest2; /* 1 - beta, rounded once: in float 1 - 0.999 is off by 5e-5 */
    float direction;    /* lr-free factor of m: 1 / correction1 */
    float root;         /* factor of sqrt(v): 1 / sqrt(correction2) */
};

/* The rules: a step for one element. HAS: which of m and v there are. WRITES_W: whether the weight changes. */
struct sgd {
    static constexpr bool  has_m = false, has_v = false;
    static __device__ void step(const numbers &n, float &w, float g, float &, float &)
    {
        w -= n.lr * (n.scale * g + n.decay * w);
    }
};

struct momentum {
    static constexpr bool  has_m = true, has_v = false;
    static __device__ void step(const numbers &n, float &w, float g, float &m, float &)
    {
        m = n.momentum * m + n.scale * g + n.decay * w;
        w -= n.lr * m;
    }
};

struct nesterov {
    static constexpr bool  has_m = true, has_v = false;
    static __device__ void step(const numbers &n, float &w, float g, float &m, float &)
    {
        float d = n.scale * g + n.decay * w;

        m = n.momentum * m + d;
        w -= n.lr * (d + n.momentum * m);
    }
};

static __device__ __forceinline__ void moments(const numbers &n, float g, float &m, float &v)
{
    g *= n.scale;
    m = n.beta1 * m + n.rest1 * g;
    v = n.beta2 * v + n.rest2 * g * g;
}

struct adamw {
    static constexpr bool  has_m = true, has_v = true;
    static __device__ void step(const numbers &n, float &w, float g, float &m, float &v)
    {
        moments(n, g, m, v);
        w = w - n.lr * n.decay * w - n.lr * n.direction * m / (sqrtf(v) * n.root + n.epsilon);
    }
};

static __device__ __forceinline__ float lamb_direction(const numbers &n, float w, float m, float v)
{
    return n.direction * m / (sqrtf(v) * n.root + n.epsilon) + n.decay * w;
}

struct lamb_apply {
    static constexpr bool  has_m = true, has_v = true;
    static __device__ void step(const numbers &n, float &w, float, float &m, float &v)
    {
        w -= n.lr * lamb_direction(n, w, m, v);
    }
};

template <typename R> struct update_each {
    numbers      n;
    float       *w;
    const float *g;
    float       *m, *v;
    int64_t     *not_finite;

    /* What was written times 0 is a NaN if it was not finite. All write the same. */
    __device__ void note(float zero) const
    {
        if (zero != 0 && not_finite != NULL) *not_finite = 1;
    }
    __device__ void eight(int64_t i) const
    {
        float ws[8], gs[8], ms[8] = {}, vs[8] = {}, zero = 0;

        pdl_load8(w + i, ws);
        pdl_load8(g + i, gs);
        if (R::has_m) pdl_load8(m + i, ms);
        if (R::has_v) pdl_load8(v + i, vs);
        for (int k = 0; k < 8; k++) {
            R::step(n, ws[k], gs[k], ms[k], vs[k]);
            zero += ws[k] * 0.0f + vs[k] * 0.0f;
        }
        pdl_store8(w + i, ws);
        if (R::has_m) pdl_store8(m + i, ms);
        if (R::has_v) pdl_store8(v + i, vs);
        note(zero);
    }
    __device__ void one(int64_t i) const
    {
        float ws = w[i], ms = R::has_m ? m[i] : 0, vs = R::has_v ? v[i] : 0;

        R::step(n, ws, g[i], ms, vs);
        w[i] = ws;
        if (R::has_m) m[i] = ms;
        if (R::has_v) v[i] = vs;
        note(ws * 0.0f + vs * 0.0f);
    }
};

/* Only the moments change; gives the square of the direction. */
struct lamb_state {
    numbers      n;
    const float *w, *g;
    float       *m, *v;

    __device__ double one(int64_t i) const
    {
        float ms = m[i], vs = v[i], d;

        moments(n, g[i], ms, vs);
        d = lamb_direction(n, w[i], ms, vs);
        m[i] = ms;
        v[i] = vs;
        return (double)d * (double)d;
    }
    __device__ double eight(int64_t i) const
    {
        float  ws[8], gs[8], ms[8], vs[8];
        double sum = 0;

        pdl_load8(w + i, ws);
        pdl_load8(g + i, gs);
        pdl_load8(m + i, ms);
        pdl_load8(v + i, vs);
        for (int k = 0; k < 8; k++) {
            moments(n, gs[k], ms[k], vs[k]);
            float d = lamb_direction(n, ws[k], ms[k], vs[k]);
            sum += (double)d * (double)d;
        }
        pdl_store8(m + i, ms);
        pdl_store8(v + i, vs);
        return sum;
    }
};

pdl_status_t pdl__cuda_update(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl_update_t *u, int64_t count,
                              float *w, const float *g, float *m, float *v, double *norm, int64_t *not_finite)
{
    numbers n = {};
    bool    aligned = pdl_aligned(w) && pdl_aligned(g) && pdl_aligned(m) && pdl_aligned(v);

    n.lr = (float)u->lr;
    n.momentum = (float)u->momentum;
    n.beta1 = (float)u->beta1;
    n.beta2 = (float)u->beta2;
    n.rest1 = (float)(1 - u->beta1);
    n.rest2 = (float)(1 - u->beta2);
    n.epsilon = (float)u->epsilon;
    n.decay = (float)u->decay;
    n.scale = (float)u->gradient_scale;
    if (u->correction1 > 0) n.direction = (float)(1.0 / u->correction1);
    if (u->correction2 > 0) n.root = (float)(1.0 / sqrt(u->correction2));
#define STEP(rule) return pdl_each(gpu, stream, count, aligned, update_each<rule>{n, w, g, m, v, not_finite})
    switch (u->kind) {
    case PDL_UPDATE_SGD: STEP(sgd);
    case PDL_UPDATE_MOMENTUM: STEP(momentum);
    case PDL_UPDATE_NESTEROV: STEP(nesterov);
    case PDL_UPDATE_ADAMW: STEP(adamw);
    case PDL_UPDATE_LAMB_APPLY: STEP(lamb_apply);
    case PDL_UPDATE_LAMB_STATE: return pdl_total(gpu, stream, count, aligned, lamb_state{n, w, g, m, v}, norm);
    }
#undef STEP
    return PDL_OK;
}
