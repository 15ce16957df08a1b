/*
 * Activations. Those whose slope follows from the output keep only that, so they may work in place; GELU and both swishes keep
 * the input.
 */
#include "tensor/cuda/cuda.h"

/* The output of a leaky ReLU without a slope does not tell the sign of the input. */
static bool keeps_input(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->keeps_inputs || layer->slope <= 0;
}

static pdl_status_t activation_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t    *layer = op->spec.layer;
    pdl_op_description_t *d = &op->description;

    (void)cuda;
    pdl__cuda_set_formats(op);
    d->gradient_use[0] = PDL_GRADIENT_INPLACE;
    d->sums_gradients = true;
    d->inplace = true;
    if (!op->spec.training) return PDL_OK;
    d->keeps_inputs = keeps_input(layer);
    d->keeps_output = !keeps_input(layer);
    d->inplace = !keeps_input(layer);
    return PDL_OK;
}

static pdl__cuda_activation_t make_pass(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_activation_t){.function = layer->type,
                                    .slope = (float)layer->slope,
                                    .rows = op->spec.samples * pdl_shape_positions(&layer->in),
                                    .channels = layer->in.channels,
                                    .stride = pdl__cuda_stride(&layer->in)};
}

static pdl_status_t activation_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t           *cuda = pdl__cuda_of(op);
    pdl__cuda_activation_t pass = make_pass(op);

    pass.x = run->input[0];
    pass.out = run->output;
    return cuda->api->pointwise->activate(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t activation_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                        unsigned what)
{
    pdl__cuda_t           *cuda = pdl__cuda_of(op);
    pdl__cuda_activation_t pass = make_pass(op);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pass.x = keeps_input(op->spec.layer) ? run->input[0] : run->output;
    pass.gradient[0] = run->output_gradient[0];
    pass.gradient[1] = run->output_gradient[1];
    pass.out = run->input_gradient[0];
    return cuda->api->pointwise->activate_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

const pdl__cuda_kind_t pdl__cuda_activation = {.describe = activation_describe,
                                               .forward = activation_forward,
                                               .backward = activation_backward};
