/*
 * Layers with several inputs: sums, products, channels side by side.
 */
#include "tensor/cuda/cuda.h"

static pdl_status_t add_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    op->description.inplace = op->spec.input_count > 1;
    for (int i = 0; i < op->spec.input_count; i++) op->description.gradient_use[i] = PDL_GRADIENT_PASSED;
    return PDL_OK;
}

static pdl_status_t add_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl_dtype_t  type = cuda->base.activation_type;

    if (op->spec.input_count == 1) return pdl__cuda_copy(op, stream, run->output, run->input[0]);
    return cuda->api->pointwise->sum(cuda->gpu, stream, type, op->spec.input_count, run->input,
                                     (int64_t)(op->description.out_bytes / pdl_dtype_bytes(type)), run->output);
}

/* The output's gradient is that of every input. */
static pdl_status_t add_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl_status_t status = PDL_OK;

    (void)what;
    for (int i = 0; i < op->spec.input_count && status == PDL_OK; i++)
        status = pdl__cuda_copy(op, stream, run->input_gradient[i], run->output_gradient[0]);
    return status;
}

/* ---- products ---- */

/* A factor of one position scales whole channels. */
static bool is_small(const pdl_op_t *op, int k)
{
    return pdl_shape_positions(&op->spec.inputs[k]) == 1 && pdl_shape_positions(&op->spec.layer->out) > 1;
}

static pdl_status_t mul_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    for (int i = 0; i < op->spec.input_count; i++) {
        if (is_small(op, i)) op->description.in_format[i] = PDL_FORMAT_PLAIN;
        op->description.keeps_inputs |= 1u << i;
    }
    return PDL_OK;
}

static pdl__cuda_product_t make_product(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t  *out = &op->spec.layer->out;
    pdl__cuda_product_t product = {.samples = op->spec.samples,
                                   .positions = pdl_shape_positions(out),
                                   .channels = out->channels,
                                   .stride = pdl__cuda_stride(out),
                                   .count = op->spec.input_count};

    for (int i = 0; i < op->spec.input_count; i++) {
        product.small[i] = is_small(op, i);
        product.input[i] = run->input[i];
    }
    return product;
}

static pdl_status_t mul_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t        *cuda = pdl__cuda_of(op);
    pdl__cuda_product_t product = make_product(op, run);

    product.out = run->output;
    return cuda->api->pointwise->multiply(cuda->gpu, stream, cuda->base.activation_type, &product);
}

static pdl_status_t mul_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t        *cuda = pdl__cuda_of(op);
    pdl__cuda_product_t product = make_product(op, run);
    pdl_status_t        status = PDL_OK;

    product.gradient = run->output_gradient[0];
    for (int k = 0; k < product.count && status == PDL_OK; k++) {
        if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[k] == NULL) continue;
        product.wanted = k;
        product.out = run->input_gradient[k];
        status = cuda->api->pointwise->multiply(cuda->gpu, stream, cuda->base.activation_type, &product);
    }
    return status;
}

/* ---- concatenation ---- */

static pdl_status_t concat_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    (void)cuda;
    pdl__cuda_set_formats(op);
    return PDL_OK;
}

static pdl__cuda_pieces_t cut_pieces(const pdl_op_t *op)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    pdl__cuda_pieces_t pieces = {.rows = op->spec.samples * pdl_shape_positions(out),
                                 .count = op->spec.input_count,
                                 .whole_channels = out->channels,
                                 .whole_stride = pdl__cuda_stride(out)};

    for (int i = 0; i < pieces.count; i++) {
        pieces.channels[i] = op->spec.inputs[i].channels;
        pieces.stride[i] = pdl__cuda_stride(&op->spec.inputs[i]);
    }
    return pieces;
}

static pdl_status_t concat_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    pdl__cuda_pieces_t pieces = cut_pieces(op);

    for (int i = 0; i < pieces.count; i++) pieces.part[i] = (void *)run->input[i];
    pieces.whole = run->output;
    return cuda->api->pointwise->join(cuda->gpu, stream, cuda->base.activation_type, &pieces);
}

static pdl_status_t concat_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                    unsigned what)
{
    pdl__cuda_t       *cuda = pdl__cuda_of(op);
    pdl__cuda_pieces_t pieces = cut_pieces(op);

    if (!(what & PDL_BACKWARD_DATA)) return PDL_OK;
    for (int i = 0; i < pieces.count; i++) pieces.part[i] = run->input_gradient[i];
    pieces.whole = (void *)run->output_gradient[0];
    pieces.apart = true;
    return cuda->api->pointwise->join(cuda->gpu, stream, cuda->base.activation_type, &pieces);
}

const pdl__cuda_kind_t pdl__cuda_add = {.describe = add_describe, .forward = add_forward, .backward = add_backward};
const pdl__cuda_kind_t pdl__cuda_mul = {.describe = mul_describe, .forward = mul_forward, .backward = mul_backward};
const pdl__cuda_kind_t pdl__cuda_concat = {.describe = concat_describe,
                                           .forward = concat_forward,
                                           .backward = concat_backward};
