/*
 * Layer norm and RMS norm over the channels of every position. Mean and inverse deviation of each row are kept for backward.
 */
#include "tensor/cuda/cuda.h"

static int64_t rows_of(const pdl_op_t *op)
{
    return op->spec.samples * pdl_shape_positions(&op->spec.layer->in);
}

static bool has_bias(const pdl_layer_t *layer)
{
    return layer->type == PDL_LAYER_LAYER_NORM && layer->bias;
}

static pdl_status_t norm_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cuda;
    pdl__cuda_set_formats(op);
    pdl__cuda_add_weight(op, "weight", 1, &layer->in.channels, true);
    if (has_bias(layer)) pdl__cuda_add_weight(op, "bias", 1, &layer->in.channels, true);
    op->description.keeps_inputs = 1;
    op->description.adds_gradient = true;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    if (!op->spec.training) return PDL_OK;
    op->description.saved_bytes = (size_t)(2 * rows_of(op)) * sizeof(float);
    op->description.workspace_bytes = pdl__cuda_rows_norm_workspace(rows_of(op), layer->in.channels);
    return PDL_OK;
}

static pdl__cuda_rows_norm_t norm_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_rows_norm_t){.rows = rows_of(op),
                                   .channels = layer->in.channels,
                                   .stride = pdl__cuda_channels(&layer->in, op->description.in_format[0]),
                                   .centred = layer->type == PDL_LAYER_LAYER_NORM,
                                   .epsilon = (float)layer->epsilon,
                                   .x = run->input[0],
                                   .weight = run->weight[0],
                                   .bias = has_bias(layer) ? run->weight[1] : NULL,
                                   .statistics = op->spec.training ? run->saved : NULL};
}

static pdl_status_t norm_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t    *cuda = pdl__cuda_of(op);
    pdl__cuda_rows_norm_t norm = norm_of(op, run);

    norm.y = run->output;
    return cuda->api->layer_norms->forward(cuda->gpu, stream, cuda->base.activation_type, &norm);
}

static pdl_status_t norm_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    const pdl__cuda_t    *cuda = pdl__cuda_of(op);
    pdl__cuda_rows_norm_t norm = norm_of(op, run);

    norm.dy = run->output_gradient[0];
    norm.added = run->added_gradient;
    norm.add = run->accumulate;
    norm.parts = run->workspace;
    if (what & PDL_BACKWARD_DATA) norm.dx = run->input_gradient[0];
    if (what & PDL_BACKWARD_WEIGHT) {
        norm.dweight = run->weight_gradient[0];
        norm.dbias = norm.bias != NULL ? run->weight_gradient[1] : NULL;
    }
    return cuda->api->layer_norms->backward(cuda->gpu, stream, cuda->base.activation_type, &norm);
}

const pdl__cuda_kind_t pdl__cuda_layer_norm = {.describe = norm_describe,
                                               .forward = norm_forward,
                                               .backward = norm_backward};
