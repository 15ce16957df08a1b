/*
 * What an update does to one element: the rules of the optimizers, once for processors and GPUs. Which products and sums are fused is written here, and
 * both sides compile without others (cmake/Training.cmake, cmake/Cuda.cmake), so that an element has the same bits wherever it is updated.
 */
#ifndef PDL_TENSOR_STEPS_H
#define PDL_TENSOR_STEPS_H

#include "tensor/rates.h"

/* The numbers of a step, alike for all elements of a range. */
typedef struct pdl__update_step {
    float lr, scale, decay, momentum, beta1, beta2, epsilon;
    float rest1, rest2; /* 1 - beta, rounded once: in float 1 - 0.999 is off by 5e-5 */
    float direction;    /* lr-free factor of m: 1 / correction1 */
    float root;         /* factor of sqrt(v): 1 / sqrt(correction2) */
} pdl__update_step_t;

PDL__BOTH_SIDES static inline pdl__update_step_t pdl__step_of(const pdl_update_t        *u,
                                                              const pdl__update_rates_t *rates)
{
    pdl__update_step_t s;

    s.lr = (float)rates->lr;
    s.scale = (float)rates->scale;
    s.decay = (float)rates->decay;
    s.momentum = (float)u->momentum;
    s.beta1 = (float)u->beta1;
    s.beta2 = (float)u->beta2;
    s.epsilon = (float)u->epsilon;
    s.rest1 = (float)(1 - u->beta1);
    s.rest2 = (float)(1 - u->beta2);
    s.direction = u->correction1 > 0 ? (float)(1.0 / u->correction1) : 0;
    s.root = u->correction2 > 0 ? (float)(1.0 / sqrt(u->correction2)) : 0;
    return s;
}

PDL__BOTH_SIDES static inline void pdl__step_sgd(const pdl__update_step_t *s, float *w, float g)
{
    *w = fmaf(-s->lr, fmaf(s->scale, g, s->decay * *w), *w);
}

PDL__BOTH_SIDES static inline void pdl__step_momentum(const pdl__update_step_t *s, float *w, float g, float *m)
{
    *m = fmaf(s->decay, *w, fmaf(s->momentum, *m, s->scale * g));
    *w = fmaf(-s->lr, *m, *w);
}

PDL__BOTH_SIDES static inline void pdl__step_nesterov(const pdl__update_step_t *s, float *w, float g, float *m)
{
    float d = fmaf(s->scale, g, s->decay * *w);

    *m = fmaf(s->momentum, *m, d);
    *w = fmaf(-s->lr, fmaf(s->momentum, *m, d), *w);
}

PDL__BOTH_SIDES static inline void pdl__step_moments(const pdl__update_step_t *s, float g, float *m, float *v)
{
    g *= s->scale;
    *m = s->beta1 * *m + s->rest1 * g;
    *v = s->beta2 * *v + s->rest2 * g * g;
}

PDL__BOTH_SIDES static inline void pdl__step_adamw(const pdl__update_step_t *s, float *w, float g, float *m,
                                                   float *v)
{
    pdl__step_moments(s, g, m, v);
    *w = *w - s->lr * s->decay * *w - s->lr * s->direction * *m / (sqrtf(*v) * s->root + s->epsilon);
}

/* Where LAMB goes, before it is scaled by the norms of a layer. */
PDL__BOTH_SIDES static inline float pdl__step_lamb_direction(const pdl__update_step_t *s, float w, float m, float v)
{
    return fmaf(s->decay, w, s->direction * m / fmaf(sqrtf(v), s->root, s->epsilon));
}

/* The averaged weight. */
PDL__BOTH_SIDES static inline float pdl__step_average(float keep, float rest, float average, float w)
{
    return fmaf(keep, average, rest * w);
}

#endif
