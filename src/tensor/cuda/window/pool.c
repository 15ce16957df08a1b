/*
 * Pooling over windows, with the place of every maximum saved for backward; and the mean of all positions.
 */
#include "tensor/cuda/cuda.h"

/* A place is a byte, the largest one standing for an empty window. */
static bool is_wide(const pdl_layer_t *layer)
{
    return layer->kernel[0] * layer->kernel[1] * layer->kernel[2] >= 0xff;
}

static pdl_status_t pool_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cuda;
    if (layer->kernel[0] * layer->kernel[1] * layer->kernel[2] >= 0xffff)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: pooling windows have less than 65535 elements", layer->name);
    pdl__cuda_set_formats(op);
    if (op->spec.training && layer->type == PDL_LAYER_MAX_POOL)
        op->description.saved_bytes =
            (size_t)pdl__cuda_elements(&layer->out, op->spec.samples, op->description.out_format) *
            (is_wide(layer) ? sizeof(uint16_t) : sizeof(uint8_t));
    return PDL_OK;
}

static pdl__cuda_pool_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    pdl__cuda_pool_t   pass = {.window = {.samples = (int)op->spec.samples,
                                          .stride = (int)pdl__cuda_stride(&layer->in)},
                               .largest = layer->type == PDL_LAYER_MAX_POOL,
                               .count_padding = layer->count_padding,
                               .wide = is_wide(layer),
                               .place = op->description.saved_bytes > 0 ? run->saved : NULL};

    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        pass.window.in[d] = (int)layer->in.extent[d];
        pass.window.out[d] = (int)layer->out.extent[d];
        pass.window.kernel[d] = (int)layer->kernel[d];
        pass.window.step[d] = (int)layer->stride[d];
        pass.window.dilation[d] = (int)layer->dilation[d];
        pass.window.pad[d] = (int)layer->pad_low[d];
    }
    return pass;
}

static pdl_status_t pool_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t     *cuda = pdl__cuda_of(op);
    pdl__cuda_pool_t pass = make_pass(op, run);

    pass.in = run->input[0];
    pass.out = run->output;
    return cuda->api->windows->pool(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t pool_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t     *cuda = pdl__cuda_of(op);
    pdl__cuda_pool_t pass = make_pass(op, run);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pass.in = run->output_gradient[0];
    pass.out = run->input_gradient[0];
    return cuda->api->windows->pool_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t global_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.out_format = PDL_FORMAT_PLAIN;
    return PDL_OK;
}

/* With a share of the positions it is a partial sum. */
static double mean_factor(const pdl_op_t *op)
{
    return (op->spec.share > 0 ? op->spec.share : 1) / (double)pdl_shape_positions(&op->spec.layer->in);
}

static pdl_status_t global_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_shape_t *in = &op->spec.layer->in;

    return cuda->api->windows->global_pool(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                           pdl_shape_positions(in), in->channels, pdl__cuda_stride(in),
                                           mean_factor(op), run->input[0], run->output);
}

static pdl_status_t global_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                    unsigned what)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_shape_t *in = &op->spec.layer->in;

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    return cuda->api->windows->global_pool_back(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                                pdl_shape_positions(in), in->channels, pdl__cuda_stride(in),
                                                mean_factor(op), run->output_gradient[0], run->input_gradient[0]);
}

const pdl__cuda_kind_t pdl__cuda_pool = {.describe = pool_describe,
                                         .forward = pool_forward,
                                         .backward = pool_backward};
const pdl__cuda_kind_t pdl__cuda_global_pool = {.describe = global_describe,
                                                .forward = global_forward,
                                                .backward = global_backward};
