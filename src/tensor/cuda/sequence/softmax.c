/*
 * Softmax over the channels of every position.
 */
#include "tensor/cuda/cuda.h"

static pdl_status_t softmax_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.keeps_output = true;
    op->description.inplace = true;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    return PDL_OK;
}

static pdl__cuda_softmax_t softmax_of(const pdl_op_t *op, const void *x, const void *y, void *out)
{
    const pdl_shape_t *shape = &op->spec.layer->in;

    return (pdl__cuda_softmax_t){.rows = op->spec.samples * pdl_shape_positions(shape),
                                 .channels = shape->channels,
                                 .stride = pdl__cuda_channels(shape, op->description.in_format[0]),
                                 .x = x,
                                 .y = y,
                                 .out = out};
}

static pdl_status_t softmax_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_softmax_t softmax = softmax_of(op, run->input[0], NULL, run->output);

    return cuda->api->sequences->softmax(cuda->gpu, stream, cuda->base.activation_type, &softmax);
}

static pdl_status_t softmax_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     unsigned what)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_softmax_t softmax = softmax_of(op, run->output_gradient[0], run->output, run->input_gradient[0]);

    if (!(what & PDL_BACKWARD_DATA) || softmax.out == NULL) return PDL_OK;
    return cuda->api->sequences->softmax_back(cuda->gpu, stream, cuda->base.activation_type, &softmax);
}

const pdl__cuda_kind_t pdl__cuda_softmax = {.describe = softmax_describe,
                                            .forward = softmax_forward,
                                            .backward = softmax_backward};
