/*
 * One step of an optimizer, in one pass over weights, gradients and moments.
 */
#include "tensor/update.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"
#include "tensor/steps.h"

#define GRAIN 8192

/* The sum of squares that LAMB wants is made in chunks that depend on the count alone. */
#define CHUNKS 256

typedef struct update_step {
    float *restrict w;
    const float *restrict g;
    float *restrict m;
    float *restrict v;
    pdl__update_step_t step;
    int64_t            count, chunk;
    double             sum[CHUNKS];
    bool               not_finite; /* some weight or second moment that was written */
} update_step_t;

/* `zero` is a sum of what was written times 0: a NaN if one of it was not finite. Such sums ride along with a pass that
   is bound by memory. */
PDL__INLINE void note_written(void *context, float zero)
{
    if (zero != 0) __atomic_store_n(&((update_step_t *)context)->not_finite, true, __ATOMIC_RELAXED);
}

PDL__CLONES static void step_sgd(void *context, int64_t first, int64_t end)
{
    const update_step_t s = *(const update_step_t *)context;
    float               zero = 0;

#pragma omp simd reduction(+ : zero)
    for (int64_t i = first; i < end; i++) {
        pdl__step_sgd(&s.step, &s.w[i], s.g[i]);
        zero += s.w[i] * 0.0f;
    }
    note_written(context, zero);
}

PDL__CLONES static void step_momentum(void *context, int64_t first, int64_t end)
{
    const update_step_t s = *(const update_step_t *)context;
    float               zero = 0;

#pragma omp simd reduction(+ : zero)
    for (int64_t i = first; i < end; i++) {
        pdl__step_momentum(&s.step, &s.w[i], s.g[i], &s.m[i]);
        zero += s.w[i] * 0.0f;
    }
    note_written(context, zero);
}

PDL__CLONES static void step_nesterov(void *context, int64_t first, int64_t end)
{
    const update_step_t s = *(const update_step_t *)context;
    float               zero = 0;

#pragma omp simd reduction(+ : zero)
    for (int64_t i = first; i < end; i++) {
        pdl__step_nesterov(&s.step, &s.w[i], s.g[i], &s.m[i]);
        zero += s.w[i] * 0.0f;
    }
    note_written(context, zero);
}

PDL__CLONES static void step_adamw(void *context, int64_t first, int64_t end)
{
    const update_step_t s = *(const update_step_t *)context;
    float               zero = 0;

#pragma omp simd reduction(+ : zero)
    for (int64_t i = first; i < end; i++) {
        pdl__step_adamw(&s.step, &s.w[i], s.g[i], &s.m[i], &s.v[i]);
        zero += s.w[i] * 0.0f + s.v[i] * 0.0f;
    }
    note_written(context, zero);
}

PDL__CLONES static void step_lamb_state(void *context, int64_t first, int64_t end)
{
    update_step_t      *step = context;
    const update_step_t s = *step;

    for (int64_t c = first; c < end; c++) {
        int64_t low = c * s.chunk, high = low + s.chunk < s.count ? low + s.chunk : s.count;
        double  sum = 0;

#pragma omp simd reduction(+ : sum)
        for (int64_t i = low; i < high; i++) {
            pdl__step_moments(&s.step, s.g[i], &s.m[i], &s.v[i]);
            double d = (double)pdl__step_lamb_direction(&s.step, s.w[i], s.m[i], s.v[i]);
            sum += d * d;
        }
        step->sum[c] = sum;
    }
}

PDL__CLONES static void step_lamb_apply(void *context, int64_t first, int64_t end)
{
    const update_step_t s = *(const update_step_t *)context;
    float               zero = 0;

#pragma omp simd reduction(+ : zero)
    for (int64_t i = first; i < end; i++) {
        s.w[i] = fmaf(-s.step.lr, pdl__step_lamb_direction(&s.step, s.w[i], s.m[i], s.v[i]), s.w[i]);
        zero += s.w[i] * 0.0f + s.v[i] * 0.0f;
    }
    note_written(context, zero);
}

static double update_lamb_state(update_step_t *step)
{
    int64_t chunks;
    double  sum = 0;

    step->chunk = (step->count + CHUNKS - 1) / CHUNKS;
    if (step->chunk < 4096) step->chunk = 4096;
    chunks = (step->count + step->chunk - 1) / step->chunk;
    pdl_threads_run(chunks, 2, step_lamb_state, step);
    for (int64_t c = 0; c < chunks; c++) sum += step->sum[c];
    return sum;
}

/* The copy that kernels read, behind the weights. */
static void pack(pdl_backend_t *backend, const pdl_update_t *update, const pdl_update_range_t *range)
{
    size_t item = pdl_dtype_bytes(backend->activation_type);

    if (update->packed == NULL || range->packed < 0) return;
    (void)pdl__cpu_from_float(backend, NULL, (const float *)update->weights + range->weights, range->elements,
                              (char *)update->packed + (size_t)range->packed * item);
}

static float *moment_of(const pdl_update_t *update, int k, const pdl_update_range_t *range)
{
    return update->moment[k] != NULL ? (float *)update->moment[k] + range->state : NULL;
}

static void update_range(const pdl_update_t *update, const pdl__update_rates_t *rates,
                         const pdl_update_range_t *range, double *sum)
{
    update_step_t step = {.w = (float *)update->weights + range->weights,
                          .g = (const float *)update->gradients + range->gradients,
                          .m = moment_of(update, 0, range),
                          .v = moment_of(update, 1, range),
                          .step = pdl__step_of(update, rates),
                          .count = range->elements};

    switch (update->kind) {
    case PDL_UPDATE_SGD: pdl_threads_run(step.count, GRAIN, step_sgd, &step); break;
    case PDL_UPDATE_MOMENTUM: pdl_threads_run(step.count, GRAIN, step_momentum, &step); break;
    case PDL_UPDATE_NESTEROV: pdl_threads_run(step.count, GRAIN, step_nesterov, &step); break;
    case PDL_UPDATE_ADAMW: pdl_threads_run(step.count, GRAIN, step_adamw, &step); break;
    case PDL_UPDATE_LAMB_STATE: *sum = update_lamb_state(&step); break;
    case PDL_UPDATE_LAMB_APPLY: pdl_threads_run(step.count, GRAIN, step_lamb_apply, &step); break;
    }
    if (update->not_finite != NULL && step.not_finite) *update->not_finite = 1;
}

pdl_status_t pdl__cpu_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                             const pdl_update_range_t *ranges, int count)
{
    pdl__update_rates_t rates;

    (void)stream;
    for (int i = 0; i < count; i++) {
        if (!pdl__host_update_rates(update, ranges, count, i, &rates)) continue;
        update_range(update, &rates, &ranges[i], update->sums != NULL ? &update->sums[count + i] : NULL);
        if (update->kind != PDL_UPDATE_LAMB_STATE) pack(backend, update, &ranges[i]);
    }
    return PDL_OK;
}
