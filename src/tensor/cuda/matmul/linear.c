/*
 * Linear: y = x w^T + bias for every position, x [rows][C], w [F][C], with an activation or a second tensor on top.
 *
 * In bf16 products read a copy of weight and bias that is made when these have changed. Gradients of weights are written in
 * fp32 by the product itself. Logits of many classes have padded rows (pdl__cuda_pads()).
 */
#include "tensor/cuda/cuda.h"

#include <stdlib.h>

typedef struct linear {
    int64_t             rows, in, out;
    int64_t             wide; /* channels of the output with their padding */
    bool                bias, add;
    pdl_layer_type_t    activation;            /* or PDL_NO_ACTIVATION */
    bool                inside;                /* the product applies it */
    bool                keeps_before;          /* what it is applied to is saved for backward */
    size_t              bias_at;               /* in the packed copy */
    size_t              gradient_at, parts_at; /* in the workspace: that of the product, and parts of sums */
    pdl__cuda_matmul_t *forward, *data, *weight;
} linear_t;

static bool linear_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    const pdl_traits_t *tail = pdl_type_traits(fusion->activation);

    (void)layer;
    return fusion->activation == PDL_NO_ACTIVATION || (tail->activation && tail->fuses_tail && !fusion->add);
}

static size_t greater(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Of output, saved product and gradient. */
static size_t matrix_bytes(const pdl_op_t *op, const linear_t *linear)
{
    return (size_t)(linear->rows * linear->out) * pdl_dtype_bytes(op->backend->activation_type);
}

/* Whether the library of products applies it: ReLU, which is the same for everybody, and the tanh form of GELU, in bf16 and
   with rows that it can write twice. */
static bool is_inside(pdl_dtype_t type, pdl_layer_type_t activation, int64_t columns)
{
    return activation == PDL_LAYER_RELU ||
           (activation == PDL_LAYER_GELU_TANH && type == PDL_DTYPE_BF16 && columns % 8 == 0);
}

static void place_workspace(const pdl_op_t *op, linear_t *linear, pdl_op_description_t *description)
{
    size_t bytes = pdl__cuda_matmul_workspace(linear->rows, linear->wide);

    if (op->spec.training) {
        bytes = greater(bytes, pdl__cuda_matmul_workspace(linear->rows, linear->in));
        bytes = greater(bytes, pdl__cuda_matmul_workspace(linear->out, linear->in));
        linear->gradient_at = bytes;
        if (linear->activation != PDL_NO_ACTIVATION) bytes += (matrix_bytes(op, linear) + 255) / 256 * 256;
        linear->parts_at = bytes;
        if (linear->bias) bytes += pdl__cuda_columns_workspace(linear->rows, linear->out);
    }
    description->workspace_bytes = bytes;
}

static pdl_status_t linear_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t    *layer = op->spec.layer;
    pdl_op_description_t *description = &op->description;
    int64_t               dims[2] = {layer->out.channels, layer->in.channels};
    linear_t             *linear = calloc(1, sizeof(*linear));

    if (linear == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    linear->rows = op->spec.samples * pdl_shape_positions(&layer->out);
    linear->in = layer->in.channels;
    linear->out = layer->out.channels;
    linear->bias = layer->bias;
    linear->add = op->spec.fusion.add;
    linear->activation = op->spec.fusion.activation;
    if (!linear->bias && !linear->add && linear->activation == PDL_NO_ACTIVATION &&
        pdl__cuda_pads(op->backend, &layer->out))
        description->out_format = PDL_FORMAT_BLOCKED;
    linear->wide = pdl__cuda_channels(&layer->out, description->out_format);
    linear->inside = is_inside(cuda->base.activation_type, linear->activation, linear->out);
    op->private_data = linear;

    pdl__cuda_add_weight(op, "weight", 2, dims, true);
    if (layer->bias) pdl__cuda_add_weight(op, "bias", 1, dims, true);
    description->keeps_inputs = 1;
    if (linear->activation != PDL_NO_ACTIVATION) {
        description->keeps_output = pdl_type_traits(linear->activation)->keeps_output;
        linear->keeps_before = op->spec.training && !description->keeps_output;
        if (linear->keeps_before) description->saved_bytes = matrix_bytes(op, linear);
    }
    if (linear->add) description->gradient_use[op->spec.input_count - 1] = PDL_GRADIENT_PASSED;
    if (cuda->base.activation_type == PDL_DTYPE_BF16) {
        linear->bias_at = ((size_t)(linear->wide * linear->in) * 2 + 63) / 64 * 64;
        description->packed_bytes = linear->bias_at + (linear->bias ? (size_t)linear->out * 2 : 0);
        for (int k = 0; k < description->weight_count; k++) {
            description->weight[k].copied = true;
            description->weight[k].copied_at = k == 0 ? 0 : linear->bias_at;
        }
    }
    place_workspace(op, linear, description);
    return PDL_OK;
}

static pdl_status_t linear_prepare(pdl__cuda_t *cuda, pdl_op_t *op)
{
    linear_t               *linear = op->private_data;
    pdl_dtype_t             type = cuda->base.activation_type;
    pdl__cuda_matmul_spec_t forward = {.m = linear->rows,
                                       .n = linear->wide,
                                       .k = linear->in,
                                       .b_turned = true,
                                       .type = type,
                                       .out = type,
                                       .bias = linear->bias,
                                       .adds = linear->add,
                                       .activation = linear->inside ? linear->activation : PDL_NO_ACTIVATION,
                                       .keeps_before = linear->inside && linear->keeps_before,
                                       .tf32 = cuda->options.tf32};
    pdl__cuda_matmul_spec_t data = {.m = linear->rows,
                                    .n = linear->in,
                                    .k = linear->wide,
                                    .type = type,
                                    .out = type,
                                    .activation = PDL_NO_ACTIVATION,
                                    .tf32 = cuda->options.tf32};
    pdl__cuda_matmul_spec_t weight = {.m = linear->out,
                                      .n = linear->in,
                                      .k = linear->rows,
                                      .a_turned = true,
                                      .a_row = linear->wide,
                                      .type = type,
                                      .out = PDL_DTYPE_F32,
                                      .activation = PDL_NO_ACTIVATION,
                                      .tf32 = cuda->options.tf32};
    pdl_status_t            status = cuda->api->products->create(cuda->gpu, &forward, &linear->forward);

    if (!status && op->spec.training && op->spec.input_gradient)
        status = cuda->api->products->create(cuda->gpu, &data, &linear->data);
    if (!status && op->spec.training) status = cuda->api->products->create(cuda->gpu, &weight, &linear->weight);
    return status;
}

static void linear_destroy(pdl_op_t *op)
{
    linear_t              *linear = op->private_data;
    const pdl__cuda_api_t *api = pdl__cuda_of(op)->api;

    if (api != NULL) {
        api->products->destroy(linear->forward);
        api->products->destroy(linear->data);
        api->products->destroy(linear->weight);
    }
    free(linear);
}

/* What products read: the packed copy, or the masters. */
static const void *weight_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    return op->backend->activation_type == PDL_DTYPE_BF16 ? run->packed : run->weight[0];
}

static const void *bias_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const linear_t *linear = op->private_data;

    if (!linear->bias) return NULL;
    return op->backend->activation_type == PDL_DTYPE_BF16 ? (const char *)run->packed + linear->bias_at
                                                          : run->weight[1];
}

static pdl_status_t linear_refresh(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const linear_t    *linear = op->private_data;
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl_status_t       status;

    if (cuda->base.activation_type != PDL_DTYPE_BF16) return PDL_OK;
    status = cuda->api->vectors->cast(cuda->gpu, stream, PDL_DTYPE_F32, run->weight[0], PDL_DTYPE_BF16, run->packed,
                                      linear->out * linear->in);
    /* Weights of padding are zero, and with them logits there. */
    if (!status && linear->wide > linear->out)
        status = cuda->base.device->ops->fill(cuda->base.device, stream,
                                              (char *)run->packed + (size_t)(linear->out * linear->in) * 2,
                                              (size_t)((linear->wide - linear->out) * linear->in) * 2);
    if (status || !linear->bias) return status;
    return cuda->api->vectors->cast(cuda->gpu, stream, PDL_DTYPE_F32, run->weight[1], PDL_DTYPE_BF16,
                                    (char *)run->packed + linear->bias_at, linear->out);
}

static pdl_status_t linear_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const linear_t        *linear = op->private_data;
    const pdl__cuda_t     *cuda = pdl__cuda_of(op);
    bool                   alone = linear->activation != PDL_NO_ACTIVATION && !linear->inside;
    pdl__cuda_matmul_run_t product = {.a = run->input[0],
                                      .b = weight_of(op, run),
                                      .c = linear->add ? run->input[op->spec.input_count - 1] : NULL,
                                      .bias = bias_of(op, run),
                                      .d = alone && linear->keeps_before ? run->saved : run->output,
                                      .before = linear->keeps_before && !alone ? run->saved : NULL,
                                      .workspace = run->workspace};
    pdl__cuda_activation_t activation = {.function = linear->activation,
                                         .rows = linear->rows,
                                         .channels = linear->out,
                                         .stride = linear->out,
                                         .x = product.d,
                                         .out = run->output};
    pdl_status_t           status = cuda->api->products->run(linear->forward, stream, &product);

    if (status || !alone) return status;
    return cuda->api->pointwise->activate(cuda->gpu, stream, cuda->base.activation_type, &activation);
}

/* Where parts of sums are. */
static float *parts_of(const linear_t *linear, const pdl_op_run_t *run)
{
    return (float *)(void *)((char *)run->workspace + linear->parts_at);
}

/* The gradient of the product: that of the output, through the activation, where that of the bias is made at once; `what` says
   whether it is still in the workspace. */
static pdl_status_t product_gradient(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     unsigned what, const void **gradient)
{
    const linear_t    *linear = op->private_data;
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_slopes_t slopes = {.function = linear->activation,
                                 .rows = linear->rows,
                                 .columns = linear->out,
                                 .kept = linear->keeps_before ? run->saved : run->output,
                                 .dy = run->output_gradient[0],
                                 .dz = (char *)run->workspace + linear->gradient_at,
                                 .add = run->accumulate,
                                 .parts = parts_of(linear, run)};

    *gradient = linear->activation == PDL_NO_ACTIVATION ? run->output_gradient[0] : slopes.dz;
    if (linear->activation == PDL_NO_ACTIVATION || (what & PDL_BACKWARD_AGAIN)) return PDL_OK;
    if (linear->bias && (what & PDL_BACKWARD_WEIGHT)) slopes.sums = run->weight_gradient[1];
    return cuda->api->products->slope_columns(cuda->gpu, stream, cuda->base.activation_type, &slopes);
}

static pdl_status_t weight_gradients(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                     const void *gradient, bool bias)
{
    const linear_t        *linear = op->private_data;
    const pdl__cuda_t     *cuda = pdl__cuda_of(op);
    pdl__cuda_matmul_run_t weight = {.a = gradient,
                                     .b = run->input[0],
                                     .c = run->accumulate ? run->weight_gradient[0] : NULL,
                                     .d = run->weight_gradient[0],
                                     .workspace = run->workspace};
    pdl_status_t           status = PDL_OK;

    if (weight.d != NULL) status = cuda->api->products->run(linear->weight, stream, &weight);
    if (status || !bias || run->weight_gradient[1] == NULL) return status;
    return cuda->api->products->sum_columns(cuda->gpu, stream, cuda->base.activation_type, weight.a, linear->rows,
                                            linear->out, linear->out, run->accumulate, run->weight_gradient[1],
                                            parts_of(linear, run));
}

static pdl_status_t linear_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                    unsigned what)
{
    const linear_t        *linear = op->private_data;
    pdl__cuda_matmul_run_t data = {.b = weight_of(op, run),
                                   .d = run->input_gradient[0],
                                   .workspace = run->workspace};
    /* An activation's kernel has summed the bias, but not in a call for the data alone. */
    bool         bias = linear->bias && (linear->activation == PDL_NO_ACTIVATION || (what & PDL_BACKWARD_AGAIN));
    const void  *gradient;
    pdl_status_t status = product_gradient(op, stream, run, what, &gradient);

    data.a = gradient;
    if (!status && (what & PDL_BACKWARD_WEIGHT)) status = weight_gradients(op, stream, run, gradient, bias);
    if (status || !(what & PDL_BACKWARD_DATA) || data.d == NULL) return status;
    return pdl__cuda_of(op)->api->products->run(linear->data, stream, &data);
}

const pdl__cuda_kind_t pdl__cuda_linear = {.describe = linear_describe,
                                           .prepare = linear_prepare,
                                           .destroy = linear_destroy,
                                           .forward = linear_forward,
                                           .backward = linear_backward,
                                           .refresh = linear_refresh,
                                           .fuses = linear_fuses};
