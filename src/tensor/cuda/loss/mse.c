/*
 * Mean squared error of a sample's elements. Targets are plain, predictions of images are not.
 */
#include "tensor/cuda/cuda.h"

static pdl_status_t mse_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.out_format = PDL_FORMAT_PLAIN;
    op->description.out_bytes = (size_t)(3 * op->spec.samples) * sizeof(float);
    op->description.keeps_inputs = 1;
    return PDL_OK;
}

static pdl__cuda_squares_t squares_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;

    return (pdl__cuda_squares_t){.samples = op->spec.samples,
                                 .channels = shape->channels,
                                 .stride = pdl__cuda_channels(shape, op->description.in_format[0]),
                                 .positions = pdl_shape_positions(shape),
                                 .x = run->input[0],
                                 .target = run->target,
                                 .sequence = shape->sequence,
                                 .output = run->output,
                                 .scale = run->loss_scale,
                                 .sample_weight = run->sample_weight,
                                 .dx = run->input_gradient[0]};
}

static pdl_status_t mse_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_squares_t squares = squares_of(op, run);

    return cuda->api->losses->squares(cuda->gpu, stream, cuda->base.activation_type, &squares);
}

static pdl_status_t mse_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    const pdl__cuda_t  *cuda = pdl__cuda_of(op);
    pdl__cuda_squares_t squares = squares_of(op, run);

    if (!(what & PDL_BACKWARD_DATA) || squares.dx == NULL) return PDL_OK;
    return cuda->api->losses->squares_back(cuda->gpu, stream, cuda->base.activation_type, &squares);
}

const pdl__cuda_kind_t pdl__cuda_mse = {.describe = mse_describe, .forward = mse_forward, .backward = mse_backward};
