/*
 * What the CPU backend keeps, overwrites and needs as scratch memory, layer by layer.
 */
#include "program/footprint.h"
#include <math.h>

#define GEMM_SCRATCH      786432.0  /* packed panels of a product, per thread */
#define ATTENTION_SCRATCH 450000.0  /* tiles of scores, per thread */
#define WINOGRAD_SCRATCH  8388608.0 /* tiles on their way: the same on one thread and on two */

bool pdl__footprint_joins(const pdl_layer_t *layer, const pdl__joined_t *joined)
{
    pdl_layer_type_t activation = joined->activation;

    bool none = activation == PDL_NO_ACTIVATION, relu = activation == PDL_LAYER_RELU;

    if (pdl_layer_is_convolution(layer)) return !joined->add && relu;
    if (pdl_layer_traits(layer)->statistics) return none || relu;
    return pdl_layer_is_linear(layer) && (none || !joined->add);
}

static double positions(const pdl_shape_t *shape)
{
    return (double)(shape->extent[0] * shape->extent[1] * shape->extent[2]);
}

static double round_to(double value, double unit)
{
    return ceil(value / unit) * unit;
}

bool pdl__footprint_small(const pdl__footprint_spec_t *spec, const pdl_layer_t *layer)
{
    double taps = (double)layer->in.channels;

    if (!pdl_layer_is_convolution(layer) || spec->item_bytes < 4 || layer->groups != 1 ||
        layer->in.channels >= 16 || layer->out.channels > 16)
        return false;
    for (int d = 0; d < layer->in.rank; d++) {
        if (layer->stride[d] != 1 || (layer->kernel[d] - 1) * layer->dilation[d] >= 32 || layer->pad_low[d] >= 32)
            return false;
        taps *= (double)layer->kernel[d];
    }
    return round_to(taps, 32) * round_to(positions(&layer->out), 32) <= 192 * 1024;
}

/* A small convolution unrolls a sample for each thread and sums its weight gradient in up to 32 parts. */
static double small_scratch(const pdl__footprint_op_t *op)
{
    const pdl_layer_t *layer = op->layer;
    double             taps = (double)layer->in.channels, image = taps, out = positions(&layer->out);

    for (int d = 0; d < layer->in.rank; d++) {
        taps *= (double)layer->kernel[d];
        image *= (double)(layer->out.extent[d] + (layer->kernel[d] - 1) * layer->dilation[d]);
    }
    double filters = round_to((double)layer->out.channels, 8), panels = filters * round_to(taps, 32);
    double forward = fmin(ceil(512 / out), op->samples) * image + taps * 32 + 384;
    double backward = image + round_to(out, 32) * (2 * filters + round_to(taps, 32)) + 256;
    double parts = op->spec->training ? fmin(op->samples, 32) * (panels + filters) : 0;
    return 4 * (panels + parts + op->spec->threads * (op->spec->training ? fmax(forward, backward) : forward));
}

/* Tiles of 4x4 outputs; 0 where the convolution is computed directly. */
static double winograd_tiles(const pdl__footprint_op_t *op)
{
    const pdl_layer_t *layer = op->layer;
    double             tiles = op->samples;

    if (op->spec->channel_block < 16 || op->spec->item_bytes < 4 || !pdl_layer_is_convolution(layer) ||
        layer->in.rank != 2 || layer->groups != 1 || (layer->in.channels < 16 && !op->input_gradient))
        return 0;
    for (int d = 0; d < 2; d++) {
        if (layer->kernel[d] != 3 || layer->stride[d] != 1 || layer->dilation[d] != 1 ||
            layer->pad_low[d] != layer->pad_high[d])
            return 0;
        tiles *= ceil((double)layer->out.extent[d] / 4);
    }
    return tiles < 24 || 10 * tiles > op->samples * positions(&layer->out) ? 0 : tiles;
}

/* A first layer of few channels copies input and gradient with channels innermost, unless it has one channel or
   three, for which there are kernels, or the gradient has a single block. */
static double first_copies(const pdl__footprint_op_t *op)
{
    const pdl_layer_t *layer = op->layer;
    int64_t            channels = layer->in.channels;

    if (!pdl_layer_is_convolution(layer) || op->input_gradient || layer->groups > 1 ||
        channels >= op->spec->channel_block || channels == 1 || channels == 3 || !op->spec->training)
        return 0;
    double copied = op->samples * (double)channels * positions(&layer->in);
    if (layer->out.channels != op->spec->channel_block) copied += op->out_elements;
    return copied * op->spec->item_bytes;
}

/* Winograd holds transformed weights, once more for each thread that sums their gradient, and when there are many
   filters all transformed tiles, too: 36 numbers for 9 weights or for 16 outputs. */
static double convolution_scratch(const pdl__footprint_op_t *op)
{
    const pdl_layer_t *layer = op->layer;
    double             tiles = winograd_tiles(op), threads = op->spec->threads;
    double             in = (double)layer->in.channels, out = (double)layer->out.channels;
    double             gradients = op->spec->accumulates ? op->weight_bytes : 0;

    if (tiles > 0)
        return gradients + 36 * 4 * in * out * (1 + threads) + WINOGRAD_SCRATCH +
               (out > 64 ? 36 * 4 * tiles * (in + out) : 0);
    /* Direct ones turn the weights for the gradient of the input. */
    double turned = op->input_gradient && layer->groups == 1 ? op->weight_bytes : 0;
    if (pdl_layer_traits(layer)->transposed) turned += op->out_elements * op->spec->item_bytes;
    return fmax(gradients, turned) + first_copies(op);
}

static void describe_convolution(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    bool relu = op->joined.activation == PDL_LAYER_RELU;

    node->keeps_inputs = 1;
    node->keeps_output = node->sums_gradients = relu;
    if (pdl__footprint_small(op->spec, op->layer))
        node->workspace_bytes = (size_t)small_scratch(op);
    else
        node->workspace_bytes = (size_t)(convolution_scratch(op) + (relu ? (double)node->out_bytes : 0));
}

static void describe_linear(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    bool activated = op->joined.activation != PDL_NO_ACTIVATION;

    node->keeps_inputs = 1;
    node->keeps_output = activated && pdl_type_traits(op->joined.activation)->keeps_output;
    if (activated && !node->keeps_output) node->saved_bytes = (size_t)(4 * op->out_elements);
    node->workspace_bytes = (size_t)(GEMM_SCRATCH * op->spec->threads + (activated ? 4 * op->out_elements : 0));
    if (op->joined.add) node->gradient[1] = PDL_GRADIENT_PASSED;
}

static void describe_batch_norm(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    bool add = op->joined.add;

    node->keeps_inputs = 1;
    node->keeps_output = add && op->joined.activation == PDL_LAYER_RELU;
    node->sums_gradients = true;
    node->gradient[add] = PDL_GRADIENT_INPLACE;
}

static void describe_activation(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    node->keeps_output = pdl_layer_traits(op->layer)->keeps_output;
    node->keeps_inputs = !node->keeps_output;
    node->inplace = node->keeps_output || !op->spec->training;
    node->sums_gradients = pdl_layer_traits(op->layer)->activation;
    node->gradient[0] = PDL_GRADIENT_INPLACE;
}

/* Two numbers of every row, of every group of a sample; or one of every output, where there is no scale. */
static void describe_norm(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    const pdl_layer_t  *layer = op->layer;
    const pdl_traits_t *traits = pdl_layer_traits(layer);
    bool                rows = traits->positions == PDL_POSITIONS_ALONE;

    node->keeps_inputs = 1;
    node->saved_bytes = (size_t)(4 * op->out_elements);
    if (traits->kernel == PDL_KERNEL_NONE) return;
    node->gradient[0] = PDL_GRADIENT_INPLACE;
    node->saved_bytes = (size_t)(8 * op->samples * (rows ? positions(&layer->in) : (double)layer->groups));
}

static void describe_attention(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    double rows = op->samples * (double)op->layer->heads * positions(&op->layer->in);

    node->keeps_inputs = 1;
    node->keeps_output = true;
    node->saved_bytes = (size_t)(4 * rows);
    node->workspace_bytes = (size_t)(ATTENTION_SCRATCH * op->spec->threads + 4 * rows);
}

/* Experts work on the tokens that chose them, and compute their hidden layer again in backward. */
static void describe_experts(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    const pdl_layer_t *layer = op->layer;
    double             rows = op->samples * positions(&layer->in) * (double)layer->top_k;

    node->keeps_inputs = 1;
    node->saved_bytes = (size_t)(8 * rows);
    node->workspace_bytes = (size_t)(4 * rows *
                                     ((double)(2 * layer->in.channels + 2 * layer->out.channels) +
                                      (layer->gated ? 5.0 : 3.0) * (double)layer->expert_hidden));
}

static void describe_loss(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    double rows = op->samples * positions(&op->layer->in);

    node->loss = true;
    node->keeps_inputs = 1;
    node->out_bytes = (size_t)(3 * 4 * op->samples);
    if (pdl_layer_traits(op->layer)->loss == PDL_LOSS_VALUES) return;
    node->saved_bytes = (size_t)(4 * rows);
    node->workspace_bytes = (size_t)(16 * rows);
}

/* Layers that hand their input on, changed a little or not at all. */
static void describe_light(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    const pdl_traits_t *traits = pdl_layer_traits(op->layer);
    bool                sum = traits->combine == PDL_COMBINE_SUM;

    if (traits->pool && traits->keeps_inputs) node->saved_bytes = (size_t)(2 * op->out_elements);
    if (traits->drops) {
        node->saved_bytes = (size_t)op->out_elements;
        node->inplace = true;
        node->gradient[0] = PDL_GRADIENT_INPLACE;
    }
    if (traits->tokens) node->keeps_inputs = 1;
    if (traits->kernel == PDL_KERNEL_POSITIONS) {
        node->inplace = !op->layer->class_token;
        node->gradient[0] = op->layer->class_token ? PDL_GRADIENT_OWN : PDL_GRADIENT_PASSED;
    }
    if (traits->combine == PDL_COMBINE_PRODUCT) node->keeps_inputs = ~0u;
    if (sum) node->inplace = true;
    for (int j = 0; sum && j < PDL_PROGRAM_INPUTS; j++) node->gradient[j] = PDL_GRADIENT_PASSED;
}

static void describe_elements(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    const pdl_traits_t *traits = pdl_layer_traits(op->layer);

    if (traits->loss)
        describe_loss(op, node);
    else if (traits->statistics)
        describe_batch_norm(op, node);
    else if (traits->norm)
        describe_norm(op, node);
    else if (traits->activation || traits->keeps_output)
        describe_activation(op, node);
    else
        describe_light(op, node);
}

void pdl__footprint_node(const pdl__footprint_op_t *op, pdl_program_node_t *node)
{
    const pdl_traits_t *traits = pdl_layer_traits(op->layer);

    *node = (pdl_program_node_t){.out_bytes = (size_t)(op->out_elements * op->spec->item_bytes)};
    switch (traits->work) {
    case PDL_WORK_ELEMENTS: describe_elements(op, node); break;
    case PDL_WORK_MATRIX: (traits->window ? describe_convolution : describe_linear)(op, node); break;
    case PDL_WORK_ATTENTION: describe_attention(op, node); break;
    case PDL_WORK_EXPERTS: describe_experts(op, node); break;
    }
    if (!op->spec->training) node->saved_bytes = 0;
}
