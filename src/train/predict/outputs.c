/*
 * What a network says of samples, for the caller: the input of the loss as plain numbers of the host.
 */
#include "train/exec/session.h"

pdl_status_t pdl_session_output_shape(const pdl_session_t *s, pdl_shape_t *shape)
{
    const pdl_model_t *model = s->spec.plan->model;
    const pdl__unit_t *loss = s->graph->loss >= 0 ? &s->graph->unit[s->graph->loss] : NULL;

    if (loss == NULL)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s has no loss on this rank, and with it no outputs",
                         pdl_model_name(model));
    *shape = pdl_model_layer(model, loss->layer)->in;
    if (!loss->statistic_axes && (loss->spec.share == 0 || loss->spec.share == 1)) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "layer %s is split over ranks: outputs are to be had where they are whole",
                     pdl_model_layer(model, loss->layer)->name);
}

/* The input of the loss in the plain format. */
static pdl_status_t make_plain(pdl_session_t *s, const pdl__unit_t *loss, const pdl_op_run_t *run,
                               const void **plain)
{
    pdl_backend_t     *backend = s->spec.backend;
    const pdl_shape_t *shape = &s->graph->unit[loss->input[0]].shape;
    pdl_format_t       format = loss->description.in_format[0];
    pdl_status_t       status = PDL_OK;

    *plain = run->input[0];
    if (format == PDL_FORMAT_PLAIN) return PDL_OK;
    if (s->executor.plain == NULL)
        status = s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_DEVICE,
                                                backend->ops->tensor_bytes(backend, shape, s->micro_samples,
                                                                           PDL_FORMAT_PLAIN),
                                                &s->executor.plain);
    *plain = s->executor.plain;
    return status ? status
                  : backend->ops->convert(backend, s->executor.stream[PDL_STREAM_COMPUTE], shape, s->micro_samples,
                                          format, run->input[0], PDL_FORMAT_PLAIN, s->executor.plain);
}

bool pdl_session_finds_largest(const pdl_session_t *s)
{
    return s->spec.backend->ops->largest != NULL && s->graph->loss >= 0 &&
           pdl_shape_positions(&s->graph->unit[s->graph->unit[s->graph->loss].input[0]].shape) == 1;
}

/* Rows of a format are as long as what all of them take says. */
static pdl_status_t find_largest(pdl_session_t *s, const pdl__unit_t *loss, const pdl_op_run_t *run, int32_t *index)
{
    pdl_backend_t     *backend = s->spec.backend;
    const pdl_shape_t *shape = &s->graph->unit[loss->input[0]].shape;
    size_t bytes = backend->ops->tensor_bytes(backend, shape, s->micro_samples, loss->description.in_format[0]);

    return backend->ops->largest(backend, s->executor.stream[PDL_STREAM_COMPUTE], run->input[0], s->micro_samples,
                                 shape->channels,
                                 (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type)) / s->micro_samples,
                                 index);
}

pdl_status_t pdl__outputs_take(pdl_session_t *s, int micro_batch, const pdl__unit_t *loss, const pdl_op_run_t *run)
{
    const pdl_outputs_t *outputs = s->executor.outputs;
    pdl_backend_t       *backend = s->spec.backend;
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    const pdl_shape_t   *shape = &s->graph->unit[loss->input[0]].shape;
    int64_t              from = micro_batch * s->micro_samples, elements = pdl_shape_elements(shape);
    size_t               item = pdl_dtype_bytes(backend->activation_type);
    const void          *plain;

    if (outputs->largest != NULL) return find_largest(s, loss, run, outputs->largest + from);
    pdl_status_t status = make_plain(s, loss, run, &plain);
    if (status) return status;
    /* Of one position there is no choice. */
    if (outputs->position == NULL || shape->extent[0] == 1)
        return backend->ops->to_float(backend, compute, plain, s->micro_samples * elements,
                                      outputs->values + from * elements);
    for (int64_t n = 0; n < s->micro_samples && !status; n++) {
        int64_t row = n * shape->extent[0] + outputs->position[from + n];

        status =
            backend->ops->to_float(backend, compute, (const char *)plain + (size_t)(row * shape->channels) * item,
                                   shape->channels, outputs->values + (from + n) * shape->channels);
    }
    return status;
}

void pdl__outputs_destroy(pdl_session_t *s)
{
    pdl_backend_t *backend = s->spec.backend;

    if (s->executor.plain == NULL) return;
    const pdl_shape_t *shape = &s->graph->unit[s->graph->unit[s->graph->loss].input[0]].shape;
    s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->executor.plain,
                                     backend->ops->tensor_bytes(backend, shape, s->micro_samples,
                                                                PDL_FORMAT_PLAIN));
}
