/*
 * Logits as plain numbers for a caller that looks at them and may add to their gradient.
 */
#include "train/exec/session.h"
#include <stdlib.h>
#include <string.h>

/* One position and all classes a sample, on one rank. */
static pdl_status_t check(const pdl_session_t *s)
{
    const pdl__unit_t *loss = &s->graph->unit[s->graph->loss];
    const pdl_layer_t *layer = pdl_model_layer(s->spec.plan->model, loss->layer);
    double             share = loss->spec.share;

    if (pdl_layer_traits(layer)->loss != PDL_LOSS_CLASSES)
        return pdl_error(PDL_ERR_UNSUPPORTED, "layer %s: only a cross_entropy has logits to look at", layer->name);
    if (pdl_shape_positions(&layer->in) != 1)
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "layer %s has %lld positions a sample: logits can be looked at where there is one",
                         layer->name, (long long)pdl_shape_positions(&layer->in));
    if (loss->statistic_axes || (share > 0 && share < 1))
        return pdl_error(
            PDL_ERR_UNSUPPORTED,
            "layer %s is split over ranks: logits can be looked at where they are whole; use replicate",
            layer->name);
    return PDL_OK;
}

static size_t values_bytes(const pdl_session_t *s)
{
    return (size_t)(s->micro_samples * s->executor.logits.classes) * sizeof(float);
}

static size_t extra_bytes(const pdl_session_t *s)
{
    return (size_t)(s->count * s->executor.logits.classes) * sizeof(float);
}

static pdl_status_t take(pdl_session_t *s, pdl_space_t space, size_t bytes, void *result)
{
    void        *memory = NULL;
    pdl_status_t status = s->executor.device->ops->alloc(s->executor.device, space, bytes, &memory);

    memcpy(result, &memory, sizeof(memory));
    return status;
}

pdl_status_t pdl__logits_create(pdl_session_t *s, pdl_logits_fn_t call, void *context)
{
    pdl__logits_t *l = &s->executor.logits;
    pdl_backend_t *backend = s->spec.backend;

    if (s->graph->loss < 0) return PDL_OK;
    pdl_status_t status = check(s);
    if (status) return status;
    const pdl_shape_t *shape = &s->graph->unit[s->graph->unit[s->graph->loss].input[0]].shape;
    pdl__logits_destroy(s);
    l->classes = shape->channels;
    l->added_bytes = backend->ops->tensor_bytes(backend, shape, s->micro_samples, PDL_FORMAT_PLAIN);
    if (take(s, PDL_SPACE_PINNED, values_bytes(s), &l->values) ||
        take(s, PDL_SPACE_PINNED, extra_bytes(s), &l->extra) ||
        take(s, PDL_SPACE_DEVICE, l->added_bytes, &l->added))
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the logits of %lld samples", (long long)s->count);
    memset(l->extra, 0, extra_bytes(s));
    l->call = call;
    l->context = context;
    return PDL_OK;
}

void pdl__logits_destroy(pdl_session_t *s)
{
    pdl__logits_t       *l = &s->executor.logits;
    pdl_tensor_device_t *device = s->executor.device;

    if (l->values) device->ops->release(device, PDL_SPACE_PINNED, l->values, values_bytes(s));
    if (l->extra) device->ops->release(device, PDL_SPACE_PINNED, l->extra, extra_bytes(s));
    if (l->added) device->ops->release(device, PDL_SPACE_DEVICE, l->added, l->added_bytes);
    *l = (pdl__logits_t){0};
}

/* The samples whose loss this rank computes in a micro-batch, among those of its batch. */
static int64_t samples_of(const pdl_session_t *s, int micro_batch, int64_t *first)
{
    const pdl_region_t *region = &s->graph->unit[s->graph->loss].region;

    *first = micro_batch * s->micro_samples + pdl__region_first(s->layouts, region);
    return pdl__region_samples(region);
}

pdl_status_t pdl__logits_show(pdl_session_t *s, int micro_batch, const pdl_op_run_t *run,
                              const pdl__execution_t *execution)
{
    pdl__logits_t *l = &s->executor.logits;
    pdl_backend_t *backend = s->spec.backend;
    int64_t        first, samples = samples_of(s, micro_batch, &first), count = samples * l->classes;
    pdl_logits_t   shown = {.first = first,
                            .samples = samples,
                            .classes = l->classes,
                            .values = l->values,
                            .labels = execution->batch->labels + first,
                            .weight = execution->batch->weight + first,
                            .confidence = s->executor.results + 2 * s->count + first,
                            .scale = run->loss_scale};

    pdl_status_t status =
        backend->ops->to_float(backend, s->executor.stream[PDL_STREAM_COMPUTE], run->input[0], count, l->values);

    if (!status) status = pdl__results_fetch(s);
    if (status) return status;
    if (execution->mode == PDL__EXECUTE_TRAIN) {
        shown.extra = l->extra + first * l->classes;
        memset(shown.extra, 0, (size_t)count * sizeof(float));
    }
    l->call(l->context, &shown);
    return PDL_OK;
}

pdl_status_t pdl__logits_add(pdl_session_t *s, int micro_batch, const pdl_op_run_t *run)
{
    pdl__logits_t *l = &s->executor.logits;
    pdl_backend_t *backend = s->spec.backend;
    int64_t        first, count = samples_of(s, micro_batch, &first) * l->classes;

    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    pdl_status_t         status =
        backend->ops->from_float(backend, compute, l->extra + first * l->classes, count, l->added);

    return status ? status
                  : backend->ops->add(backend, compute, run->input_gradient[0], l->added,
                                      (size_t)count * pdl_dtype_bytes(backend->activation_type),
                                      run->input_gradient[0]);
}
