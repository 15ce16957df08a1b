/*
 * Dropout. The mask is drawn at the indices that elements have in the whole tensor of the global batch: it does not depend on
 * how many ranks share the work, nor on the format here. Saved: a bit of every element.
 */
#include "tensor/cuda/cuda.h"

#include <paradl/base/random.h>

#include <string.h>

static pdl_status_t dropout_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.inplace = true;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    if (op->spec.training && layer->rate > 0)
        op->description.saved_bytes =
            ((size_t)pdl__cuda_elements(&layer->in, op->spec.samples, op->description.out_format) + 7) / 8;
    return PDL_OK;
}

static pdl__cuda_dropout_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t  *shape = &op->spec.layer->in;
    const pdl_origin_t *origin = &op->spec.origin;
    pdl__cuda_dropout_t pass = {.samples = op->spec.samples,
                                .channels = shape->channels,
                                .stride = pdl__cuda_stride(shape),
                                .positions = pdl_shape_positions(shape),
                                .sequence = shape->sequence,
                                .whole_channels = origin->whole.channels,
                                .first_channel = origin->channel,
                                .first_sample = run->first_sample,
                                .seed = run->seed,
                                .root = pdl_random_root("dropout", op->spec.id),
                                .step = run->step,
                                .numbers = run->numbers,
                                .rate = (float)op->spec.layer->rate,
                                .scale = (float)(1 / (1 - op->spec.layer->rate)),
                                .mask = run->saved};

    memcpy(pass.extent, shape->extent, sizeof(pass.extent));
    memcpy(pass.whole_extent, origin->whole.extent, sizeof(pass.whole_extent));
    memcpy(pass.first, origin->space, sizeof(pass.first));
    return pass;
}

/* Nothing is dropped outside training. */
static bool drops(const pdl_op_t *op, const pdl_op_run_t *run)
{
    return run->training && op->description.saved_bytes > 0;
}

static pdl_status_t dropout_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t        *cuda = pdl__cuda_of(op);
    pdl__cuda_dropout_t pass = make_pass(op, run);

    if (!drops(op, run)) return pdl__cuda_copy(op, stream, run->output, run->input[0]);
    pass.in = run->input[0];
    pass.out = run->output;
    return cuda->api->pointwise->drop(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t dropout_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     unsigned what)
{
    pdl__cuda_t        *cuda = pdl__cuda_of(op);
    pdl__cuda_dropout_t pass = make_pass(op, run);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (!drops(op, run)) return pdl__cuda_copy(op, stream, run->input_gradient[0], run->output_gradient[0]);
    pass.in = run->output_gradient[0];
    pass.out = run->input_gradient[0];
    return cuda->api->pointwise->drop_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

const pdl__cuda_kind_t pdl__cuda_dropout = {.describe = dropout_describe,
                                            .forward = dropout_forward,
                                            .backward = dropout_backward};
