/*
 * Layers that only move elements: flatten, to_sequence, select.
 */
#include "tensor/cuda/cuda.h"

/* PLAIN images are vectors already; sequences have to be turned. */
static bool flatten_turns(const pdl_op_t *op)
{
    const pdl_shape_t *shape = &op->spec.layer->in;

    return shape->sequence && shape->channels > 1 && shape->extent[0] > 1;
}

static pdl_status_t flatten_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    op->description.inplace = !flatten_turns(op);
    op->description.gradient_use[0] = flatten_turns(op) ? PDL_GRADIENT_OWN : PDL_GRADIENT_PASSED;
    return PDL_OK;
}

static pdl_status_t flatten_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_shape_t *in = &op->spec.layer->in;

    if (!flatten_turns(op)) return pdl__cuda_copy(op, stream, run->output, run->input[0]);
    return cuda->api->pointwise->transpose(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                           in->extent[0], in->channels, run->input[0], run->output);
}

static pdl_status_t flatten_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     unsigned what)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_shape_t *in = &op->spec.layer->in;

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (!flatten_turns(op)) return pdl__cuda_copy(op, stream, run->input_gradient[0], run->output_gradient[0]);
    return cuda->api->pointwise->transpose(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                           in->channels, in->extent[0], run->output_gradient[0],
                                           run->input_gradient[0]);
}

/* The positions of an image are a sequence already, unless its channels are filled up. */
static bool is_view(const pdl_op_t *op)
{
    return pdl__cuda_stride(&op->spec.layer->in) == op->spec.layer->in.channels;
}

static pdl_status_t to_sequence_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.inplace = is_view(op);
    return PDL_OK;
}

/* Rows with and without filling. */
static pdl_status_t move_rows(const pdl_op_t *op, pdl_tensor_stream_t *stream, void *image, void *sequence,
                              bool back)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_shape_t *in = &op->spec.layer->in;
    pdl__cuda_pieces_t pieces = {.rows = op->spec.samples * pdl_shape_positions(in),
                                 .count = 1,
                                 .channels = {in->channels},
                                 .stride = {pdl__cuda_stride(in)},
                                 .part = {image},
                                 .whole_channels = in->channels,
                                 .whole_stride = in->channels,
                                 .whole = sequence,
                                 .apart = back};

    return cuda->api->pointwise->join(cuda->gpu, stream, cuda->base.activation_type, &pieces);
}

static pdl_status_t to_sequence_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    if (is_view(op)) return pdl__cuda_copy(op, stream, run->output, run->input[0]);
    return move_rows(op, stream, (void *)run->input[0], run->output, false);
}

static pdl_status_t to_sequence_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                         unsigned what)
{
    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (is_view(op)) return pdl__cuda_copy(op, stream, run->input_gradient[0], run->output_gradient[0]);
    return move_rows(op, stream, run->input_gradient[0], (void *)run->output_gradient[0], true);
}

static pdl_status_t select_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda, (void)op;
    return PDL_OK;
}

static int64_t selected_row(const pdl_layer_t *layer)
{
    return layer->index < 0 ? layer->index + layer->in.extent[0] : layer->index;
}

static pdl_status_t select_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_layer_t *layer = op->spec.layer;

    return cuda->api->pointwise->select(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                        layer->in.extent[0], layer->in.channels, selected_row(layer), run->input[0],
                                        run->output);
}

static pdl_status_t select_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                    unsigned what)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    const pdl_layer_t *layer = op->spec.layer;

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    return cuda->api->pointwise->select_back(cuda->gpu, stream, cuda->base.activation_type, op->spec.samples,
                                             layer->in.extent[0], layer->in.channels, selected_row(layer),
                                             run->output_gradient[0], run->input_gradient[0]);
}

const pdl__cuda_kind_t pdl__cuda_flatten = {.describe = flatten_describe,
                                            .forward = flatten_forward,
                                            .backward = flatten_backward};
const pdl__cuda_kind_t pdl__cuda_to_sequence = {.describe = to_sequence_describe,
                                                .forward = to_sequence_forward,
                                                .backward = to_sequence_backward};
const pdl__cuda_kind_t pdl__cuda_select = {.describe = select_describe,
                                           .forward = select_forward,
                                           .backward = select_backward};
