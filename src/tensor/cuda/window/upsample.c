/*
 * Upsampling.
 */
#include "tensor/cuda/cuda.h"

static pdl_status_t upsample_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    return PDL_OK;
}

static pdl__cuda_upsample_t make_pass(const pdl_op_t *op)
{
    const pdl_layer_t   *layer = op->spec.layer;
    pdl__cuda_upsample_t pass = {.samples = (int)op->spec.samples,
                                 .stride = (int)pdl__cuda_stride(&layer->in),
                                 .linear = layer->bilinear};

    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        pass.in[d] = (int)layer->in.extent[d];
        pass.out[d] = (int)layer->out.extent[d];
    }
    return pass;
}

static pdl_status_t upsample_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t         *cuda = pdl__cuda_of(op);
    pdl__cuda_upsample_t pass = make_pass(op);

    pass.from = run->input[0];
    pass.to = run->output;
    return cuda->api->windows->upsample(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t upsample_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                      unsigned what)
{
    pdl__cuda_t         *cuda = pdl__cuda_of(op);
    pdl__cuda_upsample_t pass = make_pass(op);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pass.from = run->output_gradient[0];
    pass.to = run->input_gradient[0];
    return cuda->api->windows->upsample_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

const pdl__cuda_kind_t pdl__cuda_upsample = {.describe = upsample_describe,
                                             .forward = upsample_forward,
                                             .backward = upsample_backward};
