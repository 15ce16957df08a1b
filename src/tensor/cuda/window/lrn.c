/*
 * Local response norm: y = x s^-beta, s = k + alpha / size * the sum of squares over a window of channels around x's. Saved: s.
 */
#include "tensor/cuda/cuda.h"

static int64_t count_rows(const pdl_op_t *op)
{
    return op->spec.samples * pdl_shape_positions(&op->spec.layer->in);
}

static pdl_status_t lrn_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    if (!op->spec.training) return PDL_OK;
    op->description.keeps_inputs = 1;
    op->description.saved_bytes = (size_t)(count_rows(op) * pdl__cuda_stride(&op->spec.layer->in)) * sizeof(float);
    return PDL_OK;
}

static pdl__cuda_response_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_response_t){.rows = count_rows(op),
                                  .channels = (int)layer->in.channels,
                                  .stride = (int)pdl__cuda_stride(&layer->in),
                                  .low = (int)(layer->lrn_size / 2),
                                  .high = (int)((layer->lrn_size - 1) / 2),
                                  .alpha = (float)(layer->lrn_alpha / (double)layer->lrn_size),
                                  .beta = (float)layer->lrn_beta,
                                  .k = (float)layer->lrn_k,
                                  .x = run->input[0],
                                  .s = op->description.saved_bytes > 0 ? run->saved : NULL};
}

static pdl_status_t lrn_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t         *cuda = pdl__cuda_of(op);
    pdl__cuda_response_t pass = make_pass(op, run);

    pass.out = run->output;
    return cuda->api->windows->response(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t lrn_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t         *cuda = pdl__cuda_of(op);
    pdl__cuda_response_t pass = make_pass(op, run);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pass.gradient = run->output_gradient[0];
    pass.out = run->input_gradient[0];
    return cuda->api->windows->response_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

const pdl__cuda_kind_t pdl__cuda_lrn = {.describe = lrn_describe, .forward = lrn_forward, .backward = lrn_backward};
