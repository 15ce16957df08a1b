/*
 * Convolutions and their transposes, by oneDNN where it is there, but for small ones.
 *
 * Which arrangement? On processors with 512-bit vectors BLOCKED is kept from layer to layer. Measured on the layers
 * of ResNet-50 and ResNet-18 (processor time, batch 4 to 32) against channels-last with oneDNN's batched products:
 * both run at 95 to 120 GFLOP/s a core, near its peak, but channels-last copies weights in every backward. Windows
 * of 3x3 with stride 1 go by Winograd, F(4x4, 3x3): 180 to 275 GFLOP/s counted as direct, in all three directions.
 * It is less exact, by a few 1e-6 of the largest value. The first layer, with a few channels and no gradient to its
 * input, reads PLAIN and writes BLOCKED. Few channels in and out (LeNet) are computed by conv_small.c. Few channels
 * elsewhere are a whole block for oneDNN, because it takes less for an image in colours and then has no backward;
 * faster than PLAIN, for which it unrolls windows into a matrix. Where only the slow reference implements an
 * arrangement (groups that are not whole blocks), the next is tried.
 *
 * Weights and their gradients lie as forward likes them. Backward to the input wants them otherwise: they are
 * copied to the workspace. With bf16, masters and gradients lie as backward to the weights likes them, and
 * `refresh` makes the bf16 copies for the other two.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/window/conv_small.h"
#include "tensor/cpu/window/conv_unroll.h"

#include <stdlib.h>
#include <string.h>

typedef struct pdl__conv {
    const pdl__dnnl_t *dnnl;
    pdl__conv_form_t   form;
    pdl__small_t      *small;    /* not NULL: computed without oneDNN, and nothing below is used */
    bool               unrolled; /* likewise */
    pdl__primitive_t   forward, backward_data, backward_weight;
    pdl__primitive_t   to_data;           /* weights as backward to the input wants them */
    pdl__primitive_t   to_forward;        /* bf16 only: as forward wants them */
    pdl__primitive_t   to_gradient;       /* the weight gradient as weights are stored */
    pdl__primitive_t   in_last, out_last; /* backward to the weights of a first layer: channels innermost */
    pdl__desc_t        plain;             /* PyTorch's order */
    pdl__desc_t        storage;           /* borrowed from one of the primitives, or `plain` */
    size_t             data_bytes;        /* of the weights for backward to the input */
    size_t             gradient_bytes, storage_bytes;
    size_t             packed_data; /* bf16: where they begin in op->packed */
    bool               last;
    size_t             in_copy, out_copy, weights, bias, scratch; /* where things begin in the workspace */
} pdl__conv_t;

enum { KERNEL_DNNL, KERNEL_SMALL, KERNEL_UNROLLED };

/* Computed by our own kernels, on PLAIN tensors and weights. */
static bool is_ours(const pdl__conv_t *conv)
{
    return conv->small != NULL || conv->unrolled;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#define PRIMITIVES 8
static void list_primitives(pdl__conv_t *conv, pdl__primitive_t *all[PRIMITIVES])
{
    pdl__primitive_t *list[PRIMITIVES] = {&conv->forward, &conv->backward_data, &conv->backward_weight,
                                          &conv->to_data, &conv->to_forward,    &conv->to_gradient,
                                          &conv->in_last, &conv->out_last};

    memcpy(all, list, sizeof(list));
}

static void conv_destroy(pdl_op_t *op)
{
    pdl__conv_t      *conv = op->private_data;
    pdl__primitive_t *all[PRIMITIVES];

    if (conv == NULL) return;
    pdl__small_destroy(conv->small);
    list_primitives(conv, all);
    for (int i = 0; conv->dnnl != NULL && i < PRIMITIVES; i++) conv->dnnl->free(all[i]);
    if (conv->dnnl != NULL) conv->dnnl->desc_free(conv->plain);
    free(conv);
    op->private_data = NULL;
}

static void fill_form(const pdl__cpu_t *cpu, const pdl_op_t *op, pdl__conv_form_t *form)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            groups = layer->groups;
    int                at = 0;

    form->transposed = pdl_layer_traits(layer)->transposed;
    form->bias = layer->bias;
    form->relu = op->spec.fusion.activation == PDL_LAYER_RELU;
    form->space = layer->in.rank;
    form->grouped = groups > 1;
    form->bf16 = cpu->base.activation_type == PDL_DTYPE_BF16;
    form->x[0] = form->y[0] = op->spec.samples;
    form->x[1] = layer->in.channels;
    form->y[1] = layer->out.channels;
    if (form->grouped) form->weight[at++] = groups;
    form->weight[at++] = layer->out.channels / groups;
    form->weight[at++] = layer->in.channels / groups;
    for (int d = 0; d < layer->in.rank; d++) {
        form->x[2 + d] = layer->in.extent[d];
        form->y[2 + d] = layer->out.extent[d];
        form->weight[at++] = layer->kernel[d];
        form->stride[d] = layer->stride[d];
        form->dilation[d] = layer->dilation[d];
        form->pad_low[d] = layer->pad_low[d];
        /* Negative: output padding. Zero gives the same windows, and that is what oneDNN accepts. */
        form->pad_high[d] = layer->pad_high[d] > 0 ? layer->pad_high[d] : 0;
    }
}

/* PyTorch's [out][in / groups][k...], transposed [in][out / groups][k...], seen as [groups][out][in][k...]. */
static pdl__desc_t plain_desc(const pdl__dnnl_t *dnnl, const pdl__conv_form_t *form)
{
    int            rank = 2 + form->space + form->grouped;
    const int64_t *dims = form->weight + form->grouped;
    int64_t        strides[6], window = 1, *out = strides + form->grouped, *in = out + 1;

    for (int d = rank - 1; d >= 2 + form->grouped; d--) {
        strides[d] = window;
        window *= form->weight[d];
    }
    *in = form->transposed ? window * dims[0] : window;
    *out = form->transposed ? window : window * dims[1];
    if (form->grouped) strides[0] = window * dims[0] * dims[1];
    return dnnl->desc_strided(rank, form->weight, strides);
}

/* First the arrangement that makes copies unnecessary, then any; for a first layer of 2 or 4 to 15 channels oneDNN
   wants channels innermost, which is a small copy of the input beside the alternatives (four times the work, or
   none). */
static pdl_status_t try_backward_weight(pdl__cpu_t *cpu, pdl__conv_t *conv, bool last)
{
    pdl__conv_form_t form = conv->form;
    pdl_status_t     status;

    conv->last = false;
    if (!form.bf16) form.weight_desc = conv->dnnl->slot(&conv->forward, PDL__SLOT_WEIGHT);
    status =
        cpu->dnnl->conv(cpu->engine, &form, PDL__BACKWARD_WEIGHT, &conv->forward, false, &conv->backward_weight);
    form.weight_desc = NULL;
    if (status == PDL_ERR_UNSUPPORTED)
        status =
            cpu->dnnl->conv(cpu->engine, &form, PDL__BACKWARD_WEIGHT, &conv->forward, last, &conv->backward_weight);
    if (status != PDL_ERR_UNSUPPORTED || form.in != PDL__LIE_PLAIN || form.out != PDL__LIE_BLOCKED) return status;
    conv->last = true;
    form.in = form.out = PDL__LIE_LAST;
    return cpu->dnnl->conv(cpu->engine, &form, PDL__BACKWARD_WEIGHT, &conv->forward, false, &conv->backward_weight);
}

/* The descriptors of all directions wanted, or none. */
static pdl_status_t try_form(pdl__cpu_t *cpu, const pdl_op_t *op, pdl__conv_t *conv, bool last)
{
    pdl_status_t status = cpu->dnnl->conv(cpu->engine, &conv->form, PDL__FORWARD, NULL, last, &conv->forward);

    if (status == PDL_OK && op->spec.training && op->spec.input_gradient)
        status = cpu->dnnl->conv(cpu->engine, &conv->form, PDL__BACKWARD_DATA, &conv->forward, last,
                                 &conv->backward_data);
    if (status == PDL_OK && op->spec.training) status = try_backward_weight(cpu, conv, last);
    if (status != PDL_OK) {
        conv->dnnl->free(&conv->forward);
        conv->dnnl->free(&conv->backward_data);
        conv->dnnl->free(&conv->backward_weight);
    }
    return status;
}

/* Winograd computes tiles of 4x4 outputs, also over the border, and transforms the weights for all of them: with
   less than about 24 tiles, or with borders of more than 60 percent, direct is faster. oneDNN decides about the
   rest. */
static bool suits_winograd(const pdl__cpu_t *cpu, const pdl_op_t *op, const pdl__conv_form_t *form)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            tiles = op->spec.samples;

    if (cpu->direct || form->bf16 || form->transposed || form->grouped || layer->in.rank != 2) return false;
    for (int d = 0; d < 2; d++) {
        if (layer->kernel[d] != 3 || layer->stride[d] != 1 || layer->dilation[d] != 1) return false;
        /* oneDNN 2.6.3 gets the gradient of the input wrong where the padding is not the same on both sides. */
        if (layer->pad_low[d] != layer->pad_high[d]) return false;
        tiles *= (layer->out.extent[d] + 3) / 4;
    }
    if (tiles < 24 || 10 * tiles > op->spec.samples * pdl_shape_positions(&layer->out)) return false;
    return form->in == PDL__LIE_BLOCKED && form->out == PDL__LIE_BLOCKED;
}

static pdl_status_t try_algorithms(pdl__cpu_t *cpu, const pdl_op_t *op, pdl__conv_t *conv, bool last)
{
    pdl_status_t status = PDL_ERR_UNSUPPORTED;

    if (suits_winograd(cpu, op, &conv->form)) {
        conv->form.winograd = true;
        /* For inference alone it would arrange weights such that nobody else could read them. */
        conv->form.training = true;
        status = try_form(cpu, op, conv, false);
    }
    if (status != PDL_ERR_UNSUPPORTED) return status;
    conv->form.winograd = false;
    conv->form.training = op->spec.training;
    return try_form(cpu, op, conv, last);
}

static pdl_status_t choose_form(pdl__cpu_t *cpu, pdl_op_t *op, pdl__conv_t *conv)
{
    static const struct {
        pdl_format_t in, out;
    } ways[] = {{PDL_FORMAT_PLAIN, PDL_FORMAT_BLOCKED},
                {PDL_FORMAT_BLOCKED, PDL_FORMAT_BLOCKED},
                {PDL_FORMAT_PLAIN, PDL_FORMAT_PLAIN}};
    const pdl_layer_t          *layer = op->spec.layer;
    const pdl_op_description_t *like = op->spec.like;
    bool         few = layer->in.channels < PDL__BLOCK && layer->groups == 1 && !op->spec.input_gradient;
    pdl_status_t status = PDL_ERR_UNSUPPORTED;

    for (int i = !cpu->blocks ? 2 : few ? 0 : 1; i < 3 && status == PDL_ERR_UNSUPPORTED; i++) {
        if (like != NULL && (ways[i].in != like->in_format[0] || ways[i].out != like->out_format)) continue;
        op->description.in_format[0] = ways[i].in;
        op->description.out_format = ways[i].out;
        conv->form.in = ways[i].in == PDL_FORMAT_BLOCKED ? PDL__LIE_BLOCKED : PDL__LIE_PLAIN;
        conv->form.out = ways[i].out == PDL_FORMAT_BLOCKED ? PDL__LIE_BLOCKED : PDL__LIE_PLAIN;
        conv->form.x[1] = layer->in.channels;
        if (ways[i].in == PDL_FORMAT_BLOCKED && layer->groups == 1 && layer->in.channels < PDL__BLOCK)
            conv->form.x[1] = PDL__BLOCK;
        if (layer->groups == 1) conv->form.weight[1] = conv->form.x[1];
        status = try_algorithms(cpu, op, conv, i == 2);
    }
    if (status == PDL_ERR_UNSUPPORTED)
        return pdl_error(status, "%s: oneDNN has no %s for this shape and precision", layer->name,
                         pdl_layer_type_name(layer->type));
    if (status != PDL_OK) return pdl_error(status, "%s: out of memory", layer->name);
    return PDL_OK;
}

/* Where weights are stored, and the copies that follow from it. */
static pdl_status_t make_copies(pdl__cpu_t *cpu, const pdl_op_t *op, pdl__conv_t *conv)
{
    const pdl_layer_t *layer = op->spec.layer;
    pdl__desc_t        forward = conv->dnnl->slot(&conv->forward, PDL__SLOT_WEIGHT), data = NULL, gradient = NULL;
    pdl_status_t       status = PDL_OK;

    if (conv->backward_data.descriptor != NULL) data = conv->dnnl->slot(&conv->backward_data, PDL__SLOT_WEIGHT);
    if (conv->backward_weight.descriptor != NULL)
        gradient = conv->dnnl->slot(&conv->backward_weight, PDL__SLOT_WEIGHT);
    if (op->spec.plain_weights)
        conv->storage = conv->plain;
    else if (!conv->form.bf16)
        conv->storage = forward;
    else
        conv->storage = gradient != NULL ? gradient : conv->plain;
    conv->storage_bytes = conv->dnnl->desc_bytes(conv->storage);
    if (gradient != NULL) conv->gradient_bytes = conv->dnnl->desc_bytes(gradient);
    if (!conv->dnnl->desc_equal(conv->storage, forward))
        status = cpu->dnnl->reorder(cpu->engine, conv->storage, forward, layer, &conv->to_forward);
    if (status == PDL_OK && data != NULL && !conv->dnnl->desc_equal(conv->storage, data)) {
        conv->data_bytes = conv->dnnl->desc_bytes(data);
        status = cpu->dnnl->reorder(cpu->engine, conv->storage, data, layer, &conv->to_data);
    }
    if (status == PDL_OK && gradient != NULL && !conv->dnnl->desc_equal(conv->storage, gradient))
        status = cpu->dnnl->reorder(cpu->engine, gradient, conv->storage, layer, &conv->to_gradient);
    return status;
}

static pdl_status_t make_image_copy(pdl__cpu_t *cpu, const pdl_op_t *op, const int64_t *dims, pdl__lie_t lie,
                                    pdl__primitive_t *made)
{
    const pdl__conv_t *conv = op->private_data;
    pdl__desc_t        from = conv->dnnl->desc_image(2 + conv->form.space, dims, conv->form.bf16, lie);
    pdl__desc_t        to = conv->dnnl->desc_image(2 + conv->form.space, dims, conv->form.bf16, PDL__LIE_LAST);
    pdl_status_t       status = PDL_ERR_NOMEM;

    if (from != NULL && to != NULL)
        status = cpu->dnnl->reorder(cpu->engine, from, to, op->spec.layer, made);
    else
        (void)pdl_error(status, "%s: out of memory", op->spec.layer->name);
    conv->dnnl->desc_free(from);
    conv->dnnl->desc_free(to);
    return status;
}

/* One block of channels is already innermost. */
static pdl_status_t make_image_copies(pdl__cpu_t *cpu, const pdl_op_t *op, pdl__conv_t *conv)
{
    pdl_status_t status = PDL_OK;

    if (!conv->last) return PDL_OK;
    status = make_image_copy(cpu, op, conv->form.x, PDL__LIE_PLAIN, &conv->in_last);
    if (status == PDL_OK && conv->form.y[1] != PDL__BLOCK)
        status = make_image_copy(cpu, op, conv->form.y, PDL__LIE_BLOCKED, &conv->out_last);
    return status;
}

static size_t largest_scratch(pdl__conv_t *conv)
{
    pdl__primitive_t *all[PRIMITIVES];
    size_t            most = 0;

    list_primitives(conv, all);
    for (int i = 0; i < PRIMITIVES; i++) {
        size_t bytes = conv->dnnl->slot_bytes(all[i], PDL__SLOT_SCRATCH);

        if (bytes > most) most = bytes;
    }
    return most;
}

static size_t copy_bytes(const pdl__conv_t *conv, const pdl__primitive_t *copy)
{
    return round_up(conv->dnnl->slot_bytes(copy, PDL__SLOT_DST));
}

/* Gradient before ReLU | input and gradient with channels innermost | weights for backward to the input, or one or
   two weight gradients | bias | scratch. */
static void plan_memory(pdl__cpu_t *cpu, pdl_op_t *op, pdl__conv_t *conv)
{
    const pdl_layer_t *layer = op->spec.layer;
    size_t             weights = 0, gradients = 0;

    if (conv->form.bf16) {
        conv->packed_data = round_up(conv->dnnl->slot_bytes(&conv->forward, PDL__SLOT_WEIGHT));
        op->description.packed_bytes = conv->packed_data + round_up(conv->data_bytes);
    } else {
        weights = conv->data_bytes;
        if (copy_bytes(conv, &conv->to_forward) > weights) weights = copy_bytes(conv, &conv->to_forward);
    }
    if (conv->to_gradient.descriptor != NULL) gradients += round_up(conv->gradient_bytes);
    if (op->spec.accumulates) gradients += conv->storage_bytes;
    if (gradients > weights) weights = gradients;
    if (op->spec.training && conv->form.relu)
        conv->in_copy = round_up(
            cpu->base.ops->tensor_bytes(&cpu->base, &layer->out, op->spec.samples, op->description.out_format));
    conv->out_copy = conv->in_copy + copy_bytes(conv, &conv->in_last);
    conv->weights = conv->out_copy + copy_bytes(conv, &conv->out_last);
    conv->bias = conv->weights + round_up(weights);
    conv->scratch = conv->bias;
    if (op->spec.accumulates && conv->form.bias)
        conv->scratch += round_up((size_t)layer->out.channels * sizeof(float));
    op->description.workspace_bytes = conv->scratch + largest_scratch(conv);
}

static void describe_op(pdl_op_t *op, const pdl__conv_t *conv)
{
    const pdl_layer_t *layer = op->spec.layer;
    bool               transposed = conv->form.transposed;
    int64_t            dims[5] = {transposed ? layer->in.channels : layer->out.channels,
                       (transposed ? layer->out.channels : layer->in.channels) / layer->groups, layer->kernel[0],
                       layer->kernel[1], layer->kernel[2]};
    pdl_weight_t *weight = pdl__cpu_add_weight(op, "weight", 2 + layer->in.rank, dims, true);

    if (!is_ours(conv)) weight->elements = (int64_t)(conv->storage_bytes / sizeof(float));
    if (layer->bias) pdl__cpu_add_weight(op, "bias", 1, &layer->out.channels, true);
    op->description.keeps_inputs = 1;
    op->description.keeps_output = conv->form.relu;
    op->description.sums_gradients = conv->form.relu;
    op->description.gradient_use[0] = PDL_GRADIENT_OWN;
}

/* The descriptors of the primitives, and the memory that they want. */
static pdl_status_t describe_primitives(pdl__cpu_t *cpu, pdl_op_t *op, pdl__conv_t *conv)
{
    pdl_status_t status = choose_form(cpu, op, conv);

    if (status == PDL_OK) {
        conv->plain = plain_desc(conv->dnnl, &conv->form);
        if (conv->plain == NULL) status = pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    }
    if (status == PDL_OK) status = make_copies(cpu, op, conv);
    if (status == PDL_OK) status = make_image_copies(cpu, op, conv);
    if (status == PDL_OK) plan_memory(cpu, op, conv);
    return status;
}

static pdl_status_t conv_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    pdl__conv_t       *conv;
    pdl_status_t       status;

    conv = op->private_data = calloc(1, sizeof(*conv));
    if (conv == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    conv->dnnl = cpu->dnnl;
    fill_form(cpu, op, &conv->form);
    op->description.kernel = op->spec.like != NULL       ? op->spec.like->kernel
                             : pdl__small_suits(cpu, op) ? KERNEL_SMALL
                             : cpu->dnnl == NULL         ? KERNEL_UNROLLED
                                                         : KERNEL_DNNL;
    conv->unrolled = op->description.kernel == KERNEL_UNROLLED;
    if (conv->unrolled)
        status = pdl__unroll_describe(cpu, op);
    else if (op->description.kernel == KERNEL_SMALL)
        status = pdl__small_describe(op, &conv->small);
    else
        status = describe_primitives(cpu, op, conv);
    if (status != PDL_OK) {
        conv_destroy(op);
        return status;
    }
    describe_op(op, conv);
    return PDL_OK;
}

static pdl_status_t conv_prepare(pdl__cpu_t *cpu, pdl_op_t *op)
{
    pdl__conv_t      *conv = op->private_data;
    pdl__primitive_t *all[PRIMITIVES];
    pdl_status_t      status = PDL_OK;

    if (conv->small != NULL) return pdl__small_prepare(conv->small);
    if (conv->unrolled) return PDL_OK;
    list_primitives(conv, all);
    for (int i = 0; i < PRIMITIVES && status == PDL_OK; i++)
        if (all[i]->descriptor != NULL) status = cpu->dnnl->finish(cpu->engine, all[i], op->spec.layer);
    return status;
}

static pdl_status_t run_primitive(pdl_op_t *op, const pdl__primitive_t *primitive, void *const buffers[PDL__SLOTS])
{
    const pdl__cpu_t *cpu = (const pdl__cpu_t *)op->backend;

    return cpu->dnnl->run(cpu->engine, primitive, buffers, op->spec.layer);
}

static pdl_status_t reorder(pdl_op_t *op, const pdl__primitive_t *primitive, const void *from, void *to,
                            void *scratch)
{
    void *buffers[PDL__SLOTS] = {
        [PDL__SLOT_SRC] = (void *)from, [PDL__SLOT_DST] = to, [PDL__SLOT_SCRATCH] = scratch};

    return run_primitive(op, primitive, buffers);
}

static pdl_status_t conv_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__conv_t *conv = op->private_data;
    char        *workspace = run->workspace, *scratch = workspace != NULL ? workspace + conv->scratch : NULL;
    void        *weights = conv->form.bf16 ? run->packed : run->weight[0];
    pdl_status_t status = PDL_OK;

    if (conv->small != NULL) {
        pdl__small_forward(conv->small, run);
        return PDL_OK;
    }
    if (conv->unrolled) {
        pdl__unroll_forward(op, run);
        return PDL_OK;
    }
    if (!conv->form.bf16 && conv->to_forward.primitive != NULL) {
        weights = workspace + conv->weights;
        status = reorder(op, &conv->to_forward, run->weight[0], weights, scratch);
    }
    void *buffers[PDL__SLOTS] = {(void *)run->input[0], weights, run->weight[1], run->output, scratch};
    if (status != PDL_OK) return status;
    return run_primitive(op, &conv->forward, buffers);
}

static pdl_status_t backward_data(pdl_op_t *op, const pdl_op_run_t *run, const void *gradient)
{
    pdl__conv_t *conv = op->private_data;
    char        *workspace = run->workspace, *scratch = workspace + conv->scratch;
    void        *weights = run->weight[0];
    void        *buffers[PDL__SLOTS] = {run->input_gradient[0], NULL, NULL, (void *)gradient, scratch};
    pdl_status_t status = PDL_OK;

    if (conv->form.bf16) {
        weights = (char *)run->packed + conv->packed_data;
    } else if (conv->to_data.primitive != NULL) {
        weights = workspace + conv->weights;
        status = reorder(op, &conv->to_data, run->weight[0], weights, scratch);
    }
    buffers[PDL__SLOT_WEIGHT] = weights;
    if (status == PDL_OK) status = run_primitive(op, &conv->backward_data, buffers);
    return status;
}

/* The primitive overwrites; what is to be added goes through the workspace. */
static pdl_status_t backward_weight(pdl_op_t *op, const pdl_op_run_t *run, const void *gradient)
{
    pdl__conv_t *conv = op->private_data;
    char        *workspace = run->workspace, *made = workspace + conv->weights;
    bool         copied = conv->to_gradient.primitive != NULL;
    char        *sum = made + (copied ? round_up(conv->gradient_bytes) : 0);
    void        *target = run->accumulate ? sum : run->weight_gradient[0];
    void        *bias = conv->form.bias && run->accumulate ? workspace + conv->bias : run->weight_gradient[1];
    void        *buffers[PDL__SLOTS] = {(void *)run->input[0], copied ? made : target, bias, (void *)gradient,
                                        workspace + conv->scratch};
    pdl_status_t status = PDL_OK;

    if (conv->last) {
        buffers[PDL__SLOT_SRC] = workspace + conv->in_copy;
        status = reorder(op, &conv->in_last, run->input[0], workspace + conv->in_copy, workspace + conv->scratch);
    }
    if (status == PDL_OK && conv->out_last.primitive != NULL) {
        buffers[PDL__SLOT_DST] = workspace + conv->out_copy;
        status = reorder(op, &conv->out_last, gradient, workspace + conv->out_copy, workspace + conv->scratch);
    }
    if (status != PDL_OK) return status;

    status = run_primitive(op, &conv->backward_weight, buffers);
    if (status == PDL_OK && copied)
        status = reorder(op, &conv->to_gradient, made, target, workspace + conv->scratch);
    if (status != PDL_OK || !run->accumulate) return status;
    pdl__cpu_add_floats(run->weight_gradient[0], sum, op->description.weight[0].elements);
    if (conv->form.bias && run->weight_gradient[1] != NULL)
        pdl__cpu_add_floats(run->weight_gradient[1], bias, op->description.weight[1].elements);
    return PDL_OK;
}

static pdl_status_t conv_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__conv_t *conv = op->private_data;
    const void  *gradient = run->output_gradient[0];
    pdl_status_t status = PDL_OK;

    if (conv->small != NULL) {
        pdl__small_backward(conv->small, run, what);
        return PDL_OK;
    }
    if (conv->unrolled) {
        pdl__unroll_backward(op, run, what);
        return PDL_OK;
    }
    if (conv->form.relu) {
        if (!(what & PDL_BACKWARD_AGAIN))
            pdl__cpu_mask(op->backend, gradient, run->output_gradient[1], run->output, op->description.out_bytes,
                          run->workspace);
        gradient = run->workspace;
    }
    if ((what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL) status = backward_data(op, run, gradient);
    if (status == PDL_OK && (what & PDL_BACKWARD_WEIGHT) && run->weight_gradient[0] != NULL)
        status = backward_weight(op, run, gradient);
    return status;
}

static pdl_status_t conv_refresh(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__conv_t *conv = op->private_data;
    char        *scratch = run->workspace != NULL ? (char *)run->workspace + conv->scratch : NULL;
    pdl_status_t status;

    if (!conv->form.bf16) return PDL_OK;
    status = reorder(op, &conv->to_forward, run->weight[0], run->packed, scratch);
    if (status == PDL_OK && conv->to_data.primitive != NULL)
        status = reorder(op, &conv->to_data, run->weight[0], (char *)run->packed + conv->packed_data, scratch);
    return status;
}

/* Outside of steps, so it may make a primitive for one use. */
static pdl_status_t reorder_once(pdl_op_t *op, pdl__desc_t from, const void *source, pdl__desc_t to, void *target)
{
    pdl__primitive_t primitive;
    pdl__cpu_t      *cpu = (pdl__cpu_t *)op->backend;
    size_t           scratch_bytes;
    void            *scratch = NULL;
    pdl_status_t     status;

    status = cpu->dnnl->reorder(cpu->engine, from, to, op->spec.layer, &primitive);
    if (status != PDL_OK) return status;
    status = cpu->dnnl->finish(cpu->engine, &primitive, op->spec.layer);
    scratch_bytes = cpu->dnnl->slot_bytes(&primitive, PDL__SLOT_SCRATCH);
    if (status == PDL_OK && scratch_bytes > 0) {
        scratch = aligned_alloc(64, round_up(scratch_bytes));
        if (scratch == NULL) status = pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    }
    if (status == PDL_OK) status = reorder(op, &primitive, source, target, scratch);
    free(scratch);
    cpu->dnnl->free(&primitive);
    return status;
}

/* PyTorch's array and one in which the input channels are a whole block: rows of `narrow` and `wide` elements for
   each filter, or, transposed, one after the other for all. */
typedef struct pdl__widening {
    int64_t rows, narrow, wide;
} pdl__widening_t;

static pdl__widening_t widening(const pdl_op_t *op)
{
    const pdl__conv_t *conv = op->private_data;
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            window = layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
    int64_t            rows = conv->form.transposed ? 1 : layer->out.channels;
    int64_t            others = conv->form.transposed ? layer->out.channels / layer->groups : 1;

    if (conv->form.x[1] == layer->in.channels) return (pdl__widening_t){0};
    return (pdl__widening_t){rows, layer->in.channels * window * others, conv->form.x[1] * window * others};
}

static pdl_status_t conv_import(pdl_op_t *op, int k, const float *plain, void *storage)
{
    pdl__conv_t    *conv = op->private_data;
    pdl__widening_t w = widening(op);
    float          *wide;
    pdl_status_t    status;

    if (k > 0 || is_ours(conv)) {
        memcpy(storage, plain, (size_t)op->description.weight[k].elements * sizeof(*plain));
        return PDL_OK;
    }
    if (w.rows == 0) return reorder_once(op, conv->plain, plain, conv->storage, storage);
    wide = calloc((size_t)(w.rows * w.wide), sizeof(*wide));
    if (wide == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    for (int64_t r = 0; r < w.rows; r++)
        memcpy(wide + r * w.wide, plain + r * w.narrow, (size_t)w.narrow * sizeof(*wide));
    status = reorder_once(op, conv->plain, wide, conv->storage, storage);
    free(wide);
    return status;
}

static pdl_status_t conv_export(pdl_op_t *op, int k, const void *storage, float *plain)
{
    pdl__conv_t    *conv = op->private_data;
    pdl__widening_t w = widening(op);
    float          *wide;
    pdl_status_t    status;

    if (k > 0 || is_ours(conv)) {
        memcpy(plain, storage, (size_t)op->description.weight[k].elements * sizeof(*plain));
        return PDL_OK;
    }
    if (w.rows == 0) return reorder_once(op, conv->storage, storage, conv->plain, plain);
    wide = calloc((size_t)(w.rows * w.wide), sizeof(*wide));
    if (wide == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    status = reorder_once(op, conv->storage, storage, conv->plain, wide);
    for (int64_t r = 0; r < w.rows; r++)
        memcpy(plain + r * w.narrow, wide + r * w.wide, (size_t)w.narrow * sizeof(*wide));
    free(wide);
    return status;
}

static bool conv_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    (void)layer;
    return !fusion->add && fusion->activation == PDL_LAYER_RELU;
}

const pdl__cpu_kind_t pdl__cpu_conv = {.describe = conv_describe,
                                       .prepare = conv_prepare,
                                       .destroy = conv_destroy,
                                       .forward = conv_forward,
                                       .backward = conv_backward,
                                       .refresh = conv_refresh,
                                       .weight_import = conv_import,
                                       .weight_export = conv_export,
                                       .fuses = conv_fuses};

const pdl__cpu_kind_t pdl__cpu_conv_transpose = {.describe = conv_describe,
                                                 .prepare = conv_prepare,
                                                 .destroy = conv_destroy,
                                                 .forward = conv_forward,
                                                 .backward = conv_backward,
                                                 .refresh = conv_refresh,
                                                 .weight_import = conv_import,
                                                 .weight_export = conv_export};
