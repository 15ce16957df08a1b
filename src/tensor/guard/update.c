/*
 * Updates of weights on the guard's memory and streams.
 */
#include "tensor/guard/guard.h"

#include <stdlib.h>
#include <string.h>

/* A call in a stream; tables are behind it. */
typedef struct call {
    pdl_backend_t *cpu;
    pdl_update_t   update;
    const void    *values;
    const float   *weights;
    double        *numbers;
    int64_t       *flag;
    int64_t        count;
    double         allowed;
    max_align_t    table[];
} call_t;

static pdl_status_t enqueue(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const call_t *call,
                            const void *table, size_t bytes, pdl__guard_fn_t function)
{
    call_t      *whole = malloc(sizeof(*whole) + bytes);
    pdl_status_t status = whole != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (status) return status;
    *whole = *call;
    whole->cpu = pdl__guard_cpu(backend);
    if (bytes > 0) memcpy(whole->table, table, bytes);
#define TRANSLATE(field) \
    if (!status) status = pdl__guard_translate(backend->device, whole->field, 0, false, (void *)&whole->field)
    TRANSLATE(values);
    TRANSLATE(weights);
    TRANSLATE(numbers);
    TRANSLATE(flag);
    TRANSLATE(update.scale);
    TRANSLATE(update.sums);
    TRANSLATE(update.weights);
    TRANSLATE(update.moment[0]);
    TRANSLATE(update.moment[1]);
    TRANSLATE(update.gradients);
    TRANSLATE(update.packed);
    TRANSLATE(update.not_finite);
#undef TRANSLATE
    if (!status) status = pdl__guard_enqueue(stream, function, whole, sizeof(*whole) + bytes);
    free(whole);
    return status;
}

static pdl_status_t run_check_results(void *argument)
{
    const call_t *c = argument;

    return c->cpu->ops->check_results(c->cpu, NULL, c->values, c->weights, c->count, c->flag);
}

pdl_status_t pdl__guard_check_results(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *results,
                                      const float *sample_weight, int64_t count, int64_t *flag)
{
    call_t call = {.values = results, .weights = sample_weight, .count = count, .flag = flag};

    return enqueue(backend, stream, &call, NULL, 0, run_check_results);
}

static pdl_status_t run_sum_squares(void *argument)
{
    const call_t *c = argument;

    return c->cpu->ops->sum_squares(c->cpu, NULL, c->values, (const pdl_slice_t *)(const void *)c->table,
                                    (int)c->count, c->numbers);
}

pdl_status_t pdl__guard_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                    const pdl_slice_t *slices, int count, double *sums)
{
    call_t call = {.values = values, .count = count, .numbers = sums};

    return enqueue(backend, stream, &call, slices, (size_t)count * sizeof(*slices), run_sum_squares);
}

static pdl_status_t run_clip(void *argument)
{
    const call_t *c = argument;

    return c->cpu->ops->clip(c->cpu, NULL, c->values, (int)c->count, c->allowed, c->flag, c->numbers);
}

pdl_status_t pdl__guard_clip(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const double *sums, int count,
                             double allowed, const int64_t *flag, double clip[2])
{
    call_t call = {
        .values = sums, .count = count, .allowed = allowed, .flag = (int64_t *)(uintptr_t)flag, .numbers = clip};

    return enqueue(backend, stream, &call, NULL, 0, run_clip);
}

static pdl_status_t run_update(void *argument)
{
    const call_t *c = argument;

    return c->cpu->ops->update(c->cpu, NULL, &c->update, (const pdl_update_range_t *)(const void *)c->table,
                               (int)c->count);
}

pdl_status_t pdl__guard_update(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_update_t *update,
                               const pdl_update_range_t *ranges, int count)
{
    call_t call = {.update = *update, .count = count};

    return enqueue(backend, stream, &call, ranges, (size_t)count * sizeof(*ranges), run_update);
}
