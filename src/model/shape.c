/*
 * Shape inference: one small function per kind of layer, chosen by a table. A layer that does not fit its
 * input is refused here, with what it needs in the message.
 */
#include "model/builder.h"
#include "model/internal.h"

typedef struct infer {
    const pdl_model_t *model;
    const char        *where;
} infer_t;

typedef pdl_status_t (*infer_fn_t)(const infer_t *context, pdl_layer_t *layer);

/* "64x56x56" inside a message; two may appear in one, hence the buffer is the caller's. */
#define SHAPE_TEXT 96

static pdl_status_t infer_same(const infer_t *context, pdl_layer_t *layer)
{
    (void)context;
    layer->out = layer->in;
    return PDL_OK;
}

static pdl_status_t need_channels(const infer_t *context, const pdl_layer_t *layer)
{
    if (layer->out.channels < 1)
        return pdl__layer_error(context->where, layer, "%s needs out, its output channels",
                                pdl_layer_type_name(layer->type));
    return PDL_OK;
}

static pdl_status_t need_space(const infer_t *context, const pdl_layer_t *layer)
{
    char text[SHAPE_TEXT];

    if (layer->in.rank == 0 || layer->in.sequence)
        return pdl__layer_error(context->where, layer, "%s needs an input with space, not %s",
                                pdl_layer_type_name(layer->type), pdl_shape_format(&layer->in, text, sizeof(text)));
    return PDL_OK;
}

static pdl_status_t need_sequence(const infer_t *context, const pdl_layer_t *layer)
{
    char text[SHAPE_TEXT];

    if (!layer->in.sequence)
        return pdl__layer_error(context->where, layer, "%s needs a sequence, not %s",
                                pdl_layer_type_name(layer->type), pdl_shape_format(&layer->in, text, sizeof(text)));
    return PDL_OK;
}

static pdl_status_t check_size(const infer_t *context, const pdl_layer_t *layer, int64_t extent)
{
    if (extent > PDL_MAX_ATTRIBUTE) return pdl__layer_error(context->where, layer, "the output is too large");
    return PDL_OK;
}

/* Dimensions that the input does not have get a window that changes nothing. */
static pdl_status_t prepare_window(const infer_t *context, pdl_layer_t *layer)
{
    int          rank = layer->in.rank;
    pdl_status_t status = need_space(context, layer);

    if (status) return status;
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        if (d >= rank) {
            layer->kernel[d] = layer->stride[d] = layer->dilation[d] = 1;
            layer->pad_low[d] = layer->pad_high[d] = 0;
        }
        if (layer->kernel[d] < 1)
            return pdl__layer_error(context->where, layer, "%s needs a kernel of 1 or more",
                                    pdl_layer_type_name(layer->type));
        if (layer->stride[d] == 0) layer->stride[d] = layer->kernel[d];
        if (!pdl_layer_traits(layer)->transposed && layer->pad_high[d] < 0)
            return pdl__layer_error(context->where, layer, "padding must not be negative");
    }
    return PDL_OK;
}

static pdl_status_t slide_window(const infer_t *context, pdl_layer_t *layer)
{
    for (int d = 0; d < layer->in.rank; d++) {
        int64_t covered = layer->dilation[d] * (layer->kernel[d] - 1) + 1;
        int64_t padded = layer->in.extent[d] + layer->pad_low[d] + layer->pad_high[d];

        if (covered > padded)
            return pdl__layer_error(context->where, layer,
                                    "the window covers %lld positions but the padded input has only %lld",
                                    (long long)covered, (long long)padded);
        layer->out.extent[d] = (padded - covered) / layer->stride[d] + 1;
        if (check_size(context, layer, layer->out.extent[d])) return PDL_ERR_INPUT;
    }
    return PDL_OK;
}

static pdl_status_t check_groups(const infer_t *context, const pdl_layer_t *layer, int64_t channels)
{
    if (channels % layer->groups != 0)
        return pdl__layer_error(context->where, layer, "%lld groups do not divide %lld channels",
                                (long long)layer->groups, (long long)channels);
    return PDL_OK;
}

static pdl_status_t start_conv(const infer_t *context, pdl_layer_t *layer)
{
    int64_t      channels = layer->out.channels;
    pdl_status_t status = need_channels(context, layer);

    if (!status) status = prepare_window(context, layer);
    if (!status) status = check_groups(context, layer, layer->in.channels);
    if (!status) status = check_groups(context, layer, channels);
    layer->out = layer->in;
    layer->out.channels = channels;
    return status;
}

static pdl_status_t infer_conv(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = start_conv(context, layer);

    return status ? status : slide_window(context, layer);
}

static pdl_status_t infer_conv_transpose(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = start_conv(context, layer);

    if (status) return status;
    for (int d = 0; d < layer->in.rank; d++) {
        int64_t extent = (layer->in.extent[d] - 1) * layer->stride[d] +
                         layer->dilation[d] * (layer->kernel[d] - 1) + 1 - layer->pad_low[d] - layer->pad_high[d];

        if (-layer->pad_high[d] >= layer->stride[d])
            return pdl__layer_error(context->where, layer, "output padding must be smaller than the stride");
        if (extent < 1) return pdl__layer_error(context->where, layer, "the padding leaves no output");
        if (check_size(context, layer, extent)) return PDL_ERR_INPUT;
        layer->out.extent[d] = extent;
    }
    return PDL_OK;
}

static pdl_status_t infer_pool(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = prepare_window(context, layer);

    layer->out = layer->in;
    return status ? status : slide_window(context, layer);
}

/* Space keeps its rank, so that convolutions may follow; a sequence becomes a vector. */
static pdl_status_t infer_global_pool(const infer_t *context, pdl_layer_t *layer)
{
    (void)context;
    layer->out = layer->in;
    for (int d = 0; d < layer->in.rank; d++) {
        layer->kernel[d] = layer->stride[d] = layer->in.extent[d];
        layer->out.extent[d] = 1;
    }
    if (layer->in.sequence) {
        layer->out.sequence = false;
        layer->out.rank = 0;
    }
    return PDL_OK;
}

static pdl_status_t infer_linear(const infer_t *context, pdl_layer_t *layer)
{
    int64_t      channels = layer->out.channels;
    pdl_status_t status = need_channels(context, layer);
    char         text[SHAPE_TEXT];

    if (status) return status;
    if (!layer->in.sequence && pdl_shape_positions(&layer->in) != 1)
        return pdl__layer_error(context->where, layer,
                                "linear needs a vector or a sequence, not %s; put flatten in front of it",
                                pdl_shape_format(&layer->in, text, sizeof(text)));
    for (int d = 0; d < PDL_MAX_SPACE; d++)
        if (layer->kernel[d] != 1) return pdl__layer_error(context->where, layer, "linear has no kernel");
    layer->out = layer->in;
    layer->out.channels = channels;
    if (!layer->in.sequence) layer->out.rank = 0;
    return PDL_OK;
}

static pdl_status_t infer_group_norm(const infer_t *context, pdl_layer_t *layer)
{
    layer->out = layer->in;
    return check_groups(context, layer, layer->in.channels);
}

static bool same_positions(const pdl_shape_t *a, const pdl_shape_t *b)
{
    if (a->rank != b->rank || a->sequence != b->sequence) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->extent[d] != b->extent[d]) return false;
    return true;
}

static pdl_status_t misfit(const infer_t *context, const pdl_layer_t *layer, const pdl_layer_t *other)
{
    char first[SHAPE_TEXT], second[SHAPE_TEXT];

    return pdl__layer_error(context->where, layer, "inputs do not fit: %.80s is %s, %.80s is %s",
                            context->model->layers[layer->inputs[0]].name,
                            pdl_shape_format(&layer->in, first, sizeof(first)), other->name,
                            pdl_shape_format(&other->out, second, sizeof(second)));
}

/* A factor of a product may have one position only: it scales whole channels. */
static pdl_status_t infer_combine(const infer_t *context, pdl_layer_t *layer)
{
    layer->out = layer->in;
    for (int i = 1; i < layer->input_count; i++) {
        const pdl_layer_t *other = &context->model->layers[layer->inputs[i]];
        bool               fits = same_positions(&layer->in, &other->out);

        if (pdl_layer_traits(layer)->combine == PDL_COMBINE_PRODUCT && pdl_shape_positions(&other->out) == 1)
            fits = true;
        if (!fits || other->out.channels != layer->in.channels) return misfit(context, layer, other);
    }
    return PDL_OK;
}

static pdl_status_t infer_concat(const infer_t *context, pdl_layer_t *layer)
{
    layer->out = layer->in;
    for (int i = 1; i < layer->input_count; i++) {
        const pdl_layer_t *other = &context->model->layers[layer->inputs[i]];

        if (!same_positions(&layer->in, &other->out)) return misfit(context, layer, other);
        layer->out.channels += other->out.channels;
        if (check_size(context, layer, layer->out.channels)) return PDL_ERR_INPUT;
    }
    return PDL_OK;
}

static pdl_status_t infer_upsample(const infer_t *context, pdl_layer_t *layer)
{
    int64_t      size[PDL_MAX_SPACE];
    bool         sized = layer->out.extent[0] > 0;
    pdl_status_t status = need_space(context, layer);

    if (status) return status;
    if (sized == (layer->stride[0] > 0))
        return pdl__layer_error(context->where, layer, "upsample needs either a factor or a size");
    for (int d = 0; d < PDL_MAX_SPACE; d++) size[d] = layer->out.extent[d];
    layer->out = layer->in;
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        if (d >= layer->in.rank) {
            layer->stride[d] = sized ? 0 : 1;
            continue;
        }
        layer->out.extent[d] = sized ? size[d] : layer->in.extent[d] * layer->stride[d];
        if (layer->out.extent[d] < 1)
            return pdl__layer_error(context->where, layer, "upsample needs a positive %s in every dimension",
                                    sized ? "size" : "factor");
        if (check_size(context, layer, layer->out.extent[d])) return PDL_ERR_INPUT;
    }
    return PDL_OK;
}

static pdl_status_t infer_flatten(const infer_t *context, pdl_layer_t *layer)
{
    layer->out = (pdl_shape_t){.channels = pdl_shape_elements(&layer->in), .extent = {1, 1, 1}};
    return check_size(context, layer, layer->out.channels);
}

static pdl_status_t infer_to_sequence(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = need_space(context, layer);

    if (status) return status;
    layer->out = (pdl_shape_t){.channels = layer->in.channels, .extent = {1, 1, 1}, .rank = 1, .sequence = true};
    layer->out.extent[0] = pdl_shape_positions(&layer->in);
    return check_size(context, layer, layer->out.extent[0]);
}

static pdl_status_t infer_select(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = need_sequence(context, layer);
    int64_t      tokens = layer->in.extent[0];

    if (status) return status;
    if (layer->index >= tokens || layer->index < -tokens)
        return pdl__layer_error(context->where, layer, "index %lld is outside a sequence of %lld",
                                (long long)layer->index, (long long)tokens);
    layer->out = (pdl_shape_t){.channels = layer->in.channels, .extent = {1, 1, 1}};
    return PDL_OK;
}

static pdl_status_t infer_embedding(const infer_t *context, pdl_layer_t *layer)
{
    const pdl_layer_t *source = &context->model->layers[layer->inputs[0]];
    int64_t            channels = layer->out.channels;
    pdl_status_t       status = need_channels(context, layer);

    if (!status) status = need_sequence(context, layer);
    if (status) return status;
    if (layer->in.channels != 1 || !pdl_layer_traits(source)->source)
        return pdl__layer_error(context->where, layer, "embedding must read an input of token indices");
    if (layer->vocabulary == 0) layer->vocabulary = source->vocabulary;
    if (layer->vocabulary == 0) return pdl__layer_error(context->where, layer, "embedding needs a vocabulary");
    if (source->vocabulary > layer->vocabulary)
        return pdl__layer_error(context->where, layer, "the input has %lld token values, the vocabulary only %lld",
                                (long long)source->vocabulary, (long long)layer->vocabulary);
    layer->out = layer->in;
    layer->out.channels = channels;
    return PDL_OK;
}

static pdl_status_t infer_position(const infer_t *context, pdl_layer_t *layer)
{
    pdl_status_t status = need_sequence(context, layer);

    if (status) return status;
    layer->out = layer->in;
    if (layer->class_token) layer->out.extent[0]++;
    if (layer->rows > 0 && layer->rows < layer->out.extent[0])
        return pdl__layer_error(context->where, layer, "a table of %lld rows for %lld positions",
                                (long long)layer->rows, (long long)layer->out.extent[0]);
    return check_size(context, layer, layer->out.extent[0]);
}

static pdl_status_t infer_attention(const infer_t *context, pdl_layer_t *layer)
{
    int64_t      thirds, needed;
    pdl_status_t status = need_sequence(context, layer);

    if (status) return status;
    if (layer->heads < 1) return pdl__layer_error(context->where, layer, "attention needs heads");
    if (layer->kv_heads == 0) layer->kv_heads = layer->heads;
    if (layer->heads % layer->kv_heads != 0)
        return pdl__layer_error(context->where, layer, "%lld kv_heads do not divide %lld heads",
                                (long long)layer->kv_heads, (long long)layer->heads);
    thirds = layer->heads + 2 * layer->kv_heads;
    if (layer->head_dim == 0) layer->head_dim = layer->in.channels / thirds;
    if (layer->value_dim == 0 && layer->shared_dim == 0 &&
        (layer->head_dim < 1 || layer->head_dim * thirds != layer->in.channels))
        return pdl__layer_error(context->where, layer,
                                "the input needs (heads + 2 kv_heads) head_dim = %lld x %lld channels (q, k, v) "
                                "but has %lld",
                                (long long)thirds, (long long)layer->head_dim, (long long)layer->in.channels);
    if (layer->shared_dim > layer->head_dim)
        return pdl__layer_error(context->where, layer, "shared_dim %lld is more than a key's head_dim %lld",
                                (long long)layer->shared_dim, (long long)layer->head_dim);
    needed = layer->heads * layer->head_dim + layer->shared_dim +
             layer->kv_heads * (layer->head_dim - layer->shared_dim + pdl_attention_value_dim(layer));
    if (needed != layer->in.channels)
        return pdl__layer_error(context->where, layer,
                                "queries, keys, values and what keys share are %lld channels, the input has %lld",
                                (long long)needed, (long long)layer->in.channels);
    layer->out = layer->in;
    layer->out.channels = layer->heads * pdl_attention_value_dim(layer);
    return PDL_OK;
}

static pdl_status_t infer_moe(const infer_t *context, pdl_layer_t *layer)
{
    int64_t channels = layer->out.channels ? layer->out.channels : layer->in.channels;

    if (layer->in.rank > 0 && !layer->in.sequence) return need_sequence(context, layer);
    if (layer->experts < 1 || layer->expert_hidden < 1)
        return pdl__layer_error(context->where, layer,
                                "moe needs experts and hidden, the size of their inner layer");
    if (layer->top_k < 1 || layer->top_k > layer->experts)
        return pdl__layer_error(context->where, layer, "top_k must be between 1 and the %lld experts",
                                (long long)layer->experts);
    layer->out = layer->in;
    layer->out.channels = channels;
    return PDL_OK;
}

static pdl_status_t infer_loss(const infer_t *context, pdl_layer_t *layer)
{
    (void)context;
    layer->out = (pdl_shape_t){.channels = 1, .extent = {1, 1, 1}};
    return PDL_OK;
}

static pdl_status_t infer_input(const infer_t *context, pdl_layer_t *layer)
{
    pdl_shape_t *shape = &layer->out;

    if (shape->rank < 0 || shape->rank > PDL_MAX_SPACE || (shape->sequence && shape->rank != 1))
        return pdl__layer_error(context->where, layer, "an input has at most %d extents", PDL_MAX_SPACE);
    if (shape->channels < 1 || shape->channels > PDL_MAX_ATTRIBUTE)
        return pdl__layer_error(context->where, layer, "an input needs 1 or more channels");
    for (int d = 0; d < PDL_MAX_SPACE; d++) {
        if (d >= shape->rank) shape->extent[d] = 1;
        if (shape->extent[d] < 1 || shape->extent[d] > PDL_MAX_ATTRIBUTE)
            return pdl__layer_error(context->where, layer, "the extents of an input must be 1 or more");
    }
    layer->in = *shape;
    return PDL_OK;
}

static const infer_fn_t infer_functions[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_INPUT] = infer_input,
    [PDL_LAYER_CONV] = infer_conv,
    [PDL_LAYER_CONV_TRANSPOSE] = infer_conv_transpose,
    [PDL_LAYER_LINEAR] = infer_linear,
    [PDL_LAYER_GROUP_NORM] = infer_group_norm,
    [PDL_LAYER_MAX_POOL] = infer_pool,
    [PDL_LAYER_AVG_POOL] = infer_pool,
    [PDL_LAYER_GLOBAL_AVG_POOL] = infer_global_pool,
    [PDL_LAYER_ADD] = infer_combine,
    [PDL_LAYER_MUL] = infer_combine,
    [PDL_LAYER_CONCAT] = infer_concat,
    [PDL_LAYER_UPSAMPLE] = infer_upsample,
    [PDL_LAYER_FLATTEN] = infer_flatten,
    [PDL_LAYER_TO_SEQUENCE] = infer_to_sequence,
    [PDL_LAYER_SELECT] = infer_select,
    [PDL_LAYER_EMBEDDING] = infer_embedding,
    [PDL_LAYER_POSITION] = infer_position,
    [PDL_LAYER_ATTENTION] = infer_attention,
    [PDL_LAYER_MOE] = infer_moe,
    [PDL_LAYER_CROSS_ENTROPY] = infer_loss,
    [PDL_LAYER_MSE] = infer_loss,
};

/* In a table of layers both shapes are given; they only have to be shapes, and windows to be windows. */
static pdl_status_t check_given(pdl_layer_t *layer, const char *where)
{
    const pdl_shape_t *shapes[] = {&layer->in, &layer->out};
    bool               window = pdl__attribute_find(layer->type, "kernel") != NULL;

    for (int i = 0; i < 2; i++) {
        bool ok = shapes[i]->channels >= 1 && shapes[i]->rank >= 0 && shapes[i]->rank <= PDL_MAX_SPACE;

        for (int d = 0; d < PDL_MAX_SPACE; d++) ok = ok && shapes[i]->extent[d] >= 1;
        if (!ok) return pdl__layer_error(where, layer, "the %s shape is not positive", i ? "output" : "input");
    }
    for (int d = 0; d < PDL_MAX_SPACE && window; d++) {
        if (d >= layer->in.rank) layer->kernel[d] = layer->stride[d] = 1;
        if (layer->kernel[d] < 1) return pdl__layer_error(where, layer, "the kernel needs 1 or more");
        if (layer->stride[d] == 0) layer->stride[d] = layer->kernel[d];
    }
    return PDL_OK;
}

/* A loss is the end: what reads it would have no part in training. */
static pdl_status_t check_inputs(const pdl_model_t *model, const pdl_layer_t *layer, const char *where)
{
    for (int j = 0; j < layer->input_count; j++) {
        const pdl_layer_t *input = pdl_model_layer(model, layer->inputs[j]);

        if (pdl_layer_traits(input)->loss)
            return pdl__layer_error(where, layer,
                                    "reads the loss %s, which ends the network: move it before the loss",
                                    input->name);
    }
    return PDL_OK;
}

pdl_status_t pdl__infer_shape(const pdl_model_t *model, pdl_layer_t *layer, const char *where)
{
    infer_t      context = {.model = model, .where = where};
    infer_fn_t   infer = infer_functions[layer->type] ? infer_functions[layer->type] : infer_same;
    pdl_status_t status = check_inputs(model, layer, where);

    if (status) return status;

    if (model->table && !pdl_layer_traits(layer)->source) return check_given(layer, where);
    return infer(&context, layer);
}
