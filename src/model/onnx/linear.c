/*
 * Matrix products with weights, and what is learned beside them: biases, scales, positions, tokens.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* Embedding layer whose table is `weight`, or -1. */
static int tied_by_name(const pdl__onnx_t *o, const pdl__onnx_value_t *weight)
{
    const pdl__onnx_value_t *table = weight->origin != NULL ? pdl__onnx_find(o, weight->origin) : NULL;

    return table != NULL && table->kind == PDL__ONNX_CONSTANT ? table->layer : -1;
}

static const Onnx__TensorProto *find_initializer(const pdl__onnx_t *o, const char *name)
{
    for (size_t i = 0; i < o->graph->n_initializer; i++) {
        const Onnx__TensorProto *t = o->graph->initializer[i];

        if (t->name != NULL && strcmp(t->name, name) == 0) return t;
    }
    return NULL;
}

/* table: [rows][columns], weight: [columns][rows], both of `size` bytes an element. */
static bool is_transpose(const Onnx__TensorProto *table, const Onnx__TensorProto *weight)
{
    size_t rows, columns, size;

    if (table->n_dims != 2 || weight->n_dims != 2 || table->dims[0] != weight->dims[1] ||
        table->dims[1] != weight->dims[0] || table->dims[0] < 1 || table->dims[1] < 1 ||
        table->data_type != weight->data_type || !table->has_raw_data || !weight->has_raw_data ||
        table->raw_data.len != weight->raw_data.len || table->raw_data.len == 0)
        return false;
    rows = (size_t)table->dims[0];
    columns = (size_t)table->dims[1];
    size = table->raw_data.len / rows / columns;
    if (size == 0 || size > 8 || size * rows * columns != table->raw_data.len) return false;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            if (memcmp(table->raw_data.data + (r * columns + c) * size,
                       weight->raw_data.data + (c * rows + r) * size, size) != 0)
                return false;
    return true;
}

/* Exporters that fold constants store a tied table a second time, transposed. */
static int tied_by_content(const pdl__onnx_t *o, const pdl__onnx_value_t *weight)
{
    const Onnx__TensorProto *mine;

    if (weight->origin == NULL || weight->view.rank != 2) return -1;
    for (int i = 1; i < pdl__builder_count(o->builder); i++) {
        const pdl_layer_t *layer = pdl__builder_layer(o->builder, i);

        if (!pdl_layer_traits(layer)->tokens) {
            if (i > 8) break; /* embeddings come first; the search need not grow with the network */
            continue;
        }
        if (layer->vocabulary != weight->view.dims[1] || layer->out.channels != weight->view.dims[0]) continue;
        mine = find_initializer(o, weight->origin);
        for (size_t k = 0; mine != NULL && k < o->graph->n_initializer; k++) {
            const Onnx__TensorProto *table = o->graph->initializer[k];
            const pdl__onnx_value_t *value = table->name != NULL ? pdl__onnx_find(o, table->name) : NULL;

            if (value != NULL && value->layer == i && is_transpose(table, mine)) return i;
        }
    }
    return -1;
}

/* x times a matrix of `in` rows and `out` columns. The layer waits for a bias. */
static pdl_status_t linear(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *weight, bool transposed,
                           pdl__onnx_value_t *bias)
{
    int64_t              in = weight->view.dims[transposed ? 1 : 0], out = weight->view.dims[transposed ? 0 : 1];
    pdl__onnx_value_t   *y = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);
    pdl__onnx_pending_t *pending = pdl_arena_alloc(o->arena, 1, sizeof *pending);
    const pdl_shape_t   *shape;
    pdl_status_t         st = pdl__onnx_as_rows(o, x);

    if (y == NULL || pending == NULL) return PDL_ERR_NOMEM;
    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (shape->channels != in)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the weights have %lld inputs, the operand has %lld channels",
                              (long long)in, (long long)shape->channels);
    /* Over an image with the channels last it is a convolution of one position. */
    if (shape->sequence || pdl_shape_positions(shape) == 1) {
        pending->layer = pdl__layer_default(PDL_LAYER_LINEAR);
    } else {
        pending->layer = pdl__layer_default(PDL_LAYER_CONV);
        for (int i = 0; i < PDL_MAX_SPACE; i++) pending->layer.kernel[i] = 1;
    }
    pending->layer.out.channels = out;
    pending->layer.bias = bias != NULL;
    bool tied = pdl_layer_is_linear(&pending->layer);
    if (tied) pending->layer.tied_to = tied_by_name(o, weight);
    if (tied && pending->layer.tied_to < 0 && !transposed) pending->layer.tied_to = tied_by_content(o, weight);
    pending->parts = (pdl__onnx_parts_t){
        .part = {[PDL__PART_WEIGHT] = pending->layer.tied_to < 0 ? weight : NULL, [PDL__PART_BIAS] = bias},
        .transposed = !transposed};
    pending->input = x->layer;
    pending->scaled = true;
    pending->hint = weight->label;
    if (bias != NULL && bias->label != NULL && (pending->hint == NULL || strncmp(pending->hint, "onnx::", 6) == 0))
        pending->hint = bias->label;
    /* A tied head would be named after the embedding. */
    if (pending->layer.tied_to >= 0) pending->hint = NULL;
    y->pending = pending;
    y->view = x->view;
    pdl__onnx_view_set(&y->view, y->view.rank - 1, PDL__AXIS_CHANNEL, out);
    return pdl__onnx_output(o, 0, y);
}

/* beta C as the bias of a linear layer: one number for each column. Zeros are no bias. */
static pdl_status_t read_bias(pdl__onnx_t *o, int64_t out, pdl__onnx_value_t **bias)
{
    pdl__onnx_value_t *c = pdl__onnx_input(o, 2);
    double             beta = pdl__onnx_float(o, "beta", 1), scalar;

    *bias = NULL;
    if (c == NULL || beta == 0 || (pdl__onnx_scalar(o, c, &scalar) && scalar == 0)) return PDL_OK;
    if (c->kind != PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only products of an activation with weights are supported");
    if (beta != 1)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "beta %g is not supported; fold it into the bias", beta);
    if (pdl__onnx_elements(&c->view) != out || c->view.rank < 1 || c->view.dims[c->view.rank - 1] != out)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "operand C has %lld elements for %lld columns; only a bias of one row is supported",
                              (long long)pdl__onnx_elements(&c->view), (long long)out);
    *bias = c;
    return PDL_OK;
}

pdl_status_t pdl__onnx_gemm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *weight = pdl__onnx_input(o, 1), *bias;
    bool               transposed = pdl__onnx_int(o, "transB", 0) != 0;
    double             alpha = pdl__onnx_float(o, "alpha", 1);
    pdl_status_t       st;

    if (weight->kind != PDL__ONNX_CONSTANT || weight->view.rank != 2 || pdl__onnx_int(o, "transA", 0) != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only products of an activation with weights are supported");
    if (alpha != 1)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "alpha %g is not supported; fold it into the weights", alpha);
    st = read_bias(o, weight->view.dims[transposed ? 0 : 1], &bias);
    return st ? st : linear(o, x, weight, transposed, bias);
}

pdl_status_t pdl__onnx_matmul(pdl__onnx_t *o)
{
    pdl__onnx_value_t *a = pdl__onnx_input(o, 0), *b = pdl__onnx_input(o, 1);

    if (a->kind == PDL__ONNX_ACTIVATION && b->kind == PDL__ONNX_CONSTANT && b->view.rank == 2)
        return linear(o, a, b, false, NULL);
    if (a->kind == PDL__ONNX_PROBABILITIES && b->kind == PDL__ONNX_ACTIVATION)
        return pdl__onnx_attention_product(o, a, b);
    if (a->kind == PDL__ONNX_ACTIVATION && b->kind == PDL__ONNX_ACTIVATION)
        return pdl__onnx_scores_product(o, a, b);
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                          "only products with weights and those of an attention are supported");
}

/* Where the elements of a constant that is combined with x are along its axes. */
typedef enum fit { FIT_NONE, FIT_CHANNELS, FIT_POSITIONS } fit_t;

static fit_t fit_constant(const pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl__onnx_value_t *c)
{
    const pdl_shape_t *shape;
    int64_t            channels;
    bool               over_channels = false, over_positions = false;

    if (x->pending != NULL && pdl_layer_traits(&x->pending->layer)->kernel == PDL_KERNEL_MATRIX)
        channels = x->pending->layer.out.channels;
    else
        channels = pdl__builder_layer(o->builder, x->pending != NULL ? x->pending->input : x->layer)->out.channels;
    shape = x->pending != NULL ? NULL : pdl__onnx_shape(o, x);
    for (int i = 1; i <= c->view.rank; i++) {
        int64_t n = c->view.dims[c->view.rank - i];

        if (n == 1) continue;
        if (i > x->view.rank || n != x->view.dims[x->view.rank - i]) return FIT_NONE;
        if (pdl__onnx_dim_is_channels(&x->view, x->view.rank - i, channels))
            over_channels = true;
        else if (pdl__onnx_dim_is_axis(&x->view, x->view.rank - i, PDL__AXIS_SPACE, n) &&
                 (shape == NULL || shape->sequence))
            over_positions = true;
        else
            return FIT_NONE;
    }
    if (!over_channels) return FIT_NONE;
    return over_positions ? FIT_POSITIONS : FIT_CHANNELS;
}

static bool is_position(const pdl__onnx_pending_t *pending)
{
    return pending != NULL && pdl_layer_traits(&pending->layer)->kernel == PDL_KERNEL_POSITIONS;
}

/* x with its pending layer changed; x itself must have no other reader. */
static pdl_status_t output_pending(pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl__onnx_pending_t *pending)
{
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);

    if (y == NULL) return PDL_ERR_NOMEM;
    y->pending = pdl_arena_alloc(o->arena, 1, sizeof *y->pending);
    if (y->pending == NULL) return PDL_ERR_NOMEM;
    *y->pending = *pending;
    y->view = x->view;
    return pdl__onnx_output(o, 0, y);
}

/* The scale or shift of a norm, the bias of a matrix product. False when the layer has no place for it. */
static bool take_per_channel(pdl__onnx_pending_t *pending, const pdl__onnx_value_t *constant, char sign)
{
    const pdl_traits_t *traits = pdl_layer_traits(&pending->layer);
    const char         *label = constant->label;

    if (traits->norm && sign == '*' && !pending->scaled) {
        pending->scaled = true;
        pending->parts.part[PDL__PART_WEIGHT] = constant;
        if (pending->hint == NULL) pending->hint = label;
        return true;
    }
    if (sign != '+' || !pending->scaled || pending->layer.bias || !traits->bias) return false;
    pending->layer.bias = true;
    pending->parts.part[PDL__PART_BIAS] = constant;
    if (pending->hint == NULL || strncmp(pending->hint, "onnx::", 6) == 0) pending->hint = label;
    return true;
}

/* A learned vector per position. Constants added to it are part of what is learned. */
static pdl_status_t add_positions(pdl__onnx_t *o, pdl__onnx_value_t *x, const pdl__onnx_value_t *c)
{
    pdl__onnx_pending_t pending = {.layer = pdl__layer_default(PDL_LAYER_POSITION)};
    pdl_status_t        st;

    if (is_position(x->pending) && x->uses == 1) {
        pending = *x->pending;
    } else {
        st = pdl__onnx_as_rows(o, x);
        if (st) return st;
        pending.input = x->layer;
    }
    /* Of a sum of several the file has no tensor. */
    pending.parts.part[PDL__PART_WEIGHT] = pending.scaled ? NULL : c;
    pending.scaled = true;
    if (pending.hint == NULL || (c->label != NULL && strstr(c->label, "pos") != NULL)) pending.hint = c->label;
    return output_pending(o, x, &pending);
}

pdl_status_t pdl__onnx_with_constant(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *constant, char sign)
{
    pdl__onnx_pending_t pending;
    fit_t               fit;
    pdl_status_t        st;

    if (x->padded || (x->pending != NULL && x->uses > 1)) {
        st = pdl__onnx_materialise(o, x);
        if (st) return st;
    }
    fit = fit_constant(o, x, constant);
    if (fit == FIT_CHANNELS && x->pending != NULL) {
        pending = *x->pending;
        if (take_per_channel(&pending, constant, sign)) return output_pending(o, x, &pending);
    }
    if (fit == FIT_CHANNELS && sign == '*' && x->expression && x->normalises) {
        pending = (pdl__onnx_pending_t){.layer = pdl__layer_default(PDL_LAYER_LAYER_NORM), .input = x->layer};
        if (pdl__onnx_recognise(x, &pending.layer) == PDL__FORM_LAYER) {
            pending.layer.bias = false;
            take_per_channel(&pending, constant, sign);
            return output_pending(o, x, &pending);
        }
    }
    if (sign == '+' && fit == FIT_POSITIONS) return add_positions(o, x, constant);
    if (sign == '+' && fit == FIT_CHANNELS && is_position(x->pending)) return add_positions(o, x, constant);
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "no layer %s this constant %s the operand",
                          sign == '+' ? "adds" : "multiplies", sign == '+' ? "to" : "with");
}

/* A class token in front of a sequence: [batch, 1, channels] and [batch, positions, channels]. */
static pdl_status_t prepend_token(pdl__onnx_t *o, const pdl__onnx_value_t *token, pdl__onnx_value_t *x, int axis)
{
    pdl__onnx_pending_t pending = {.layer = pdl__layer_default(PDL_LAYER_POSITION)};
    pdl__onnx_value_t   seen;
    const pdl_shape_t  *shape;
    pdl_status_t        st = pdl__onnx_as_rows(o, x);

    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (!shape->sequence || !pdl__onnx_dim_is_axis(&x->view, axis, PDL__AXIS_SPACE, shape->extent[0]) ||
        token->view.rank != x->view.rank || token->view.dims[axis] != 1 ||
        token->view.dims[token->view.rank - 1] != shape->channels)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "the only constant that can be joined to an activation is a "
                              "class token in front of a sequence");
    pending.layer.class_token = true;
    pending.parts.part[PDL__PART_TOKEN] = token;
    pending.input = x->layer;
    seen = *x;
    pdl__onnx_view_set(&seen.view, axis, PDL__AXIS_SPACE, shape->extent[0] + 1);
    return output_pending(o, &seen, &pending);
}

/* Whether two views show the same dimensions in the same order, whatever the size of one of them. */
static bool alike_but_for(const pdl__onnx_view_t *a, const pdl__onnx_view_t *b, int dim)
{
    pdl__onnx_view_t p = *a, q = *b;

    pdl__onnx_view_set(&p, dim, PDL__AXIS_CHANNEL, 1);
    pdl__onnx_view_set(&q, dim, PDL__AXIS_CHANNEL, 1);
    return pdl__onnx_view_equal(&p, &q);
}

static pdl_status_t join_channels(pdl__onnx_t *o, int axis)
{
    size_t           n = o->node->n_input;
    int             *inputs = pdl_arena_alloc(o->arena, n, sizeof *inputs), added;
    pdl_layer_t      layer = pdl__layer_default(PDL_LAYER_CONCAT);
    pdl__onnx_view_t view = pdl__onnx_input(o, 0)->view;
    pdl_status_t     st;

    if (inputs == NULL) return PDL_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        pdl__onnx_value_t *x = pdl__onnx_input(o, i);

        if (x == NULL) return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu is missing", i + 1);
        st = pdl__onnx_materialise(o, x);
        if (st) return st;
        if (x->view.rank != view.rank ||
            !pdl__onnx_dim_is_channels(&x->view, axis, pdl__onnx_shape(o, x)->channels) ||
            !alike_but_for(&x->view, &pdl__onnx_input(o, 0)->view, axis))
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only whole channels of layers can be joined");
        inputs[i] = x->layer;
    }
    if (n == 1) return pdl__onnx_pass(o);
    st = pdl__onnx_add(o, &layer, o->node, NULL, inputs, (int)n, &added);
    if (st) return st;
    pdl__onnx_view_set(&view, axis, PDL__AXIS_CHANNEL, pdl__builder_layer(o->builder, added)->out.channels);
    return pdl__onnx_output_view(o, added, &view);
}

pdl_status_t pdl__onnx_concat_axis(const pdl__onnx_t *o, int rank, int *axis)
{
    if (o->opset >= 4 && pdl__onnx_attribute(o, "axis") == NULL)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the attribute axis is missing");
    return pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", 1), rank, axis);
}

pdl_status_t pdl__onnx_concat(pdl__onnx_t *o)
{
    pdl__onnx_value_t *first = pdl__onnx_input(o, 0), *second = pdl__onnx_input(o, 1);
    int                axis;
    pdl_status_t       st = pdl__onnx_concat_axis(o, first->view.rank, &axis);

    if (st) return st;
    if (first->kind == PDL__ONNX_CONSTANT && o->node->n_input == 2 && second != NULL)
        return prepend_token(o, first, second, axis);
    return join_channels(o, axis);
}
