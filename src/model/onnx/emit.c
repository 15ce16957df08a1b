/*
 * From values to layers: what an operator reads must be the output of a layer, in the form the operator needs.
 */
#include "model/onnx/graph.h"

#include <string.h>

const pdl_shape_t *pdl__onnx_shape(const pdl__onnx_t *o, const pdl__onnx_value_t *value)
{
    return &pdl__builder_layer(o->builder, value->layer)->out;
}

pdl_status_t pdl__onnx_add(pdl__onnx_t *o, pdl_layer_t *layer, const Onnx__NodeProto *node, const char *hint,
                           const int *inputs, int input_count, int *index)
{
    const Onnx__NodeProto *reading = o->node;
    char                   where[512];
    pdl_status_t           st;

    layer->name = pdl__onnx_name(o, node, hint, layer->type);
    if (layer->name == NULL) return PDL_ERR_NOMEM;
    layer->inputs = inputs;
    layer->input_count = input_count;
    o->node = node != NULL ? node : reading;
    st = pdl__builder_add(o->builder, layer, pdl__onnx_where(o, where, sizeof where), index);
    o->node = reading;
    return st;
}

pdl_status_t pdl__onnx_bind(pdl__onnx_t *o, int layer, const pdl__onnx_parts_t *parts)
{
    if (o->bound_count == o->bound_room) {
        int                room = o->bound_room > 0 ? 2 * o->bound_room : 64;
        pdl__onnx_bound_t *larger = pdl_arena_alloc(o->arena, (size_t)room, sizeof *larger);

        if (larger == NULL) return PDL_ERR_NOMEM;
        if (o->bound_count > 0) memcpy(larger, o->bound, (size_t)o->bound_count * sizeof *larger);
        o->bound = larger;
        o->bound_room = room;
    }
    o->bound[o->bound_count++] = (pdl__onnx_bound_t){layer, *parts};
    return PDL_OK;
}

pdl_status_t pdl__onnx_settle(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    pdl__onnx_pending_t *pending = value->pending;
    pdl_status_t         st;

    if (value->kind == PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the operand is a constant, not the output of a layer");
    if (value->kind != PDL__ONNX_ACTIVATION)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "attention scores are used in a way that is not the usual "
                              "softmax(q k / scale + mask) v");
    if (pending == NULL) return PDL_OK;
    if (!pending->scaled)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "%s is not supported",
                              pdl_layer_traits(&pending->layer)->norm ? "a normalization without a learned scale"
                                                                      : "a class token without learned positions");
    st = pdl__onnx_add(o, &pending->layer, value->node, pending->hint, &pending->input, 1, &value->layer);
    if (!st) st = pdl__onnx_bind(o, value->layer, &pending->parts);
    if (!st) value->pending = NULL;
    return st;
}

static pdl_status_t unknown_arithmetic(pdl__onnx_t *o, const pdl__onnx_value_t *value, pdl__onnx_form_t form)
{
    const Onnx__NodeProto *node = o->node;
    pdl_status_t           st;

    if (value->node != NULL) o->node = value->node;
    if (value->reduced)
        st = pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a mean over channels outside a layer normalization");
    else if (value->normalises)
        st = pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a normalization without a learned scale is not supported");
    else if (form == PDL__FORM_SCALE)
        st = pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                            "multiplication by a constant is only supported in front of "
                            "attention; fold it into the weights");
    else
        st = pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                            "this arithmetic is none of the activations known (relu, "
                            "leaky_relu, gelu, silu, tanh, sigmoid)");
    o->node = node;
    return st;
}

static void become_layer(pdl__onnx_value_t *value, int layer)
{
    value->layer = layer;
    value->expression = false;
    value->normalises = false;
    value->depth = 0;
    memcpy(value->probe, pdl__onnx_probe, sizeof value->probe);
}

/* Evaluates the operator at the top of an expression on the probes of its (materialised) operands. */
static void reapply(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    const char              *op = value->node->op_type;
    pdl__onnx_binary_fn_t    binary = pdl__onnx_binary(op);
    const pdl__onnx_unary_t *unary = pdl__onnx_unary(op);

    for (int i = 0; i < PDL__ONNX_PROBES; i++) {
        double x[2] = {0, 0};

        for (int k = 0; k < 2; k++) {
            pdl__onnx_value_t *operand = value->operand[k];

            if (operand == NULL) continue;
            if (operand->kind == PDL__ONNX_CONSTANT)
                pdl__onnx_scalar(o, operand, &x[k]);
            else
                x[k] = operand->probe[i];
        }
        value->probe[i] = binary != NULL ? binary(x[0], x[1]) : pdl__onnx_apply(unary, x[0], value->parameter);
    }
}

/* The whole expression is unknown: its operands become layers first, and the operator at the top one of its own. */
static pdl_status_t split_expression(pdl__onnx_t *o, pdl__onnx_value_t *value, pdl__onnx_form_t form)
{
    pdl_layer_t  layer = pdl__layer_default(PDL_LAYER_ADD);
    int          inputs[2] = {-1, -1}, count = 0, added;
    const char  *op = value->node->op_type;
    pdl_status_t st;

    if (value->normalises || value->depth <= 1) {
        bool sum = value->operand[1] != NULL && value->operand[0]->kind == PDL__ONNX_ACTIVATION &&
                   value->operand[1]->kind == PDL__ONNX_ACTIVATION;
        if (value->normalises || !sum) return unknown_arithmetic(o, value, form);
    }
    for (int k = 0; k < 2; k++) {
        if (value->operand[k] == NULL || value->operand[k]->kind != PDL__ONNX_ACTIVATION) continue;
        st = pdl__onnx_materialise(o, value->operand[k]);
        if (st) return st;
        inputs[count++] = value->operand[k]->layer;
    }
    if (count == 2) {
        if (strcmp(op, "Mul") == 0)
            layer.type = PDL_LAYER_MUL;
        else if (!pdl__onnx_is_sum(op))
            return unknown_arithmetic(o, value, form);
    } else {
        reapply(o, value);
        form = pdl__onnx_recognise(value, &layer);
        if (form == PDL__FORM_IDENTITY) {
            become_layer(value, inputs[0]);
            return PDL_OK;
        }
        if (form != PDL__FORM_LAYER) return unknown_arithmetic(o, value, form);
        pdl__onnx_note_function(o, pdl__onnx_other_function(value));
    }
    st = pdl__onnx_add(o, &layer, value->node, NULL, inputs, count, &added);
    if (!st) become_layer(value, added);
    return st;
}

pdl_status_t pdl__onnx_materialise(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    pdl_layer_t      layer = pdl__layer_default(PDL_LAYER_RELU);
    pdl__onnx_form_t form;
    pdl_status_t     st = pdl__onnx_settle(o, value);
    int              added;

    if (st) return st;
    if (value->padded)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "padding is only supported directly in front of a convolution "
                              "or pooling");
    if (!value->expression) return PDL_OK;
    if (value->reduced) return unknown_arithmetic(o, value, PDL__FORM_UNKNOWN);
    form = pdl__onnx_recognise(value, &layer);
    if (form == PDL__FORM_IDENTITY) {
        become_layer(value, value->layer);
        return PDL_OK;
    }
    if (form != PDL__FORM_LAYER || value->normalises) return split_expression(o, value, form);
    pdl__onnx_note_function(o, pdl__onnx_other_function(value));
    st = pdl__onnx_add(o, &layer, value->node, NULL, &value->layer, 1, &added);
    if (!st) become_layer(value, added);
    return st;
}

static pdl_status_t reshape_layer(pdl__onnx_t *o, pdl__onnx_value_t *value, pdl_layer_type_t type)
{
    pdl_layer_t layer = pdl__layer_default(type);

    return pdl__onnx_add(o, &layer, value->node, NULL, &value->layer, 1, &value->layer);
}

/* Whether a dimension holds all of a sample, channels outermost, as flattening makes it. */
static bool dim_is_flat(const pdl__onnx_view_t *view, int dim, const pdl_shape_t *shape)
{
    int at = view->start[dim], end = view->start[dim + 1];

    if (view->channel_begin != 0 || view->dims[dim] != pdl_shape_elements(shape)) return false;
    for (int axis = PDL__AXIS_CHANNEL; axis < PDL__AXIS_SPACE + shape->rank; axis++) {
        int64_t size = axis == PDL__AXIS_CHANNEL ? shape->channels : shape->extent[axis - PDL__AXIS_SPACE];

        if (size == 1) continue;
        if (at == end || view->atoms[at].axis != axis || view->atoms[at].size != size) return false;
        at++;
    }
    return at == end;
}

pdl_status_t pdl__onnx_as_image(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    const pdl__onnx_view_t *view = &value->view;
    const pdl_shape_t      *shape;
    bool                    image;
    pdl_status_t            st = pdl__onnx_materialise(o, value);

    if (st) return st;
    shape = pdl__onnx_shape(o, value);
    image = view->rank == shape->rank + 2 && pdl__onnx_dim_is_channels(view, 1, shape->channels);
    for (int i = 0; image && i < shape->rank; i++)
        image = pdl__onnx_dim_is_axis(view, i + 2, PDL__AXIS_SPACE + i, shape->extent[i]);
    if (image ||
        (view->rank > 1 && pdl_shape_positions(shape) == 1 && pdl__onnx_dim_is_channels(view, 1, shape->channels)))
        return PDL_OK;
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                          "the operand was reshaped so that it is no longer [batch, channels, "
                          "extents...]");
}

/* Space that has been merged into one dimension is a sequence. */
static pdl_status_t space_to_sequence(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    const pdl_shape_t *shape = pdl__onnx_shape(o, value);
    int64_t            positions = pdl_shape_positions(shape);
    int                rank = shape->rank;

    for (int d = 0; d < value->view.rank; d++) {
        const pdl__onnx_atom_t *atom = &value->view.atoms[value->view.start[d]];
        bool                    merged = value->view.dims[d] == positions;

        for (int i = 0; merged && i < value->view.start[d + 1] - value->view.start[d]; i++)
            merged = atom[i].axis >= PDL__AXIS_SPACE && (i == 0 || atom[i].axis > atom[i - 1].axis);
        if (!merged || (rank > 1 && value->view.start[d + 1] - value->view.start[d] < 2)) continue;
        pdl__onnx_view_set(&value->view, d, PDL__AXIS_SPACE, positions);
        return reshape_layer(o, value, PDL_LAYER_TO_SEQUENCE);
    }
    return PDL_OK; /* channels last, but still an image */
}

pdl_status_t pdl__onnx_as_rows(pdl__onnx_t *o, pdl__onnx_value_t *value)
{
    int                last = value->view.rank - 1;
    const pdl_shape_t *shape;
    pdl_status_t       st = pdl__onnx_materialise(o, value);

    if (st) return st;
    shape = pdl__onnx_shape(o, value);
    if (last >= 0 && pdl__onnx_dim_is_channels(&value->view, last, shape->channels)) {
        if (shape->sequence || pdl_shape_positions(shape) == 1) return PDL_OK;
        return space_to_sequence(o, value);
    }
    if (last >= 0 && !shape->sequence && dim_is_flat(&value->view, last, shape)) {
        pdl__onnx_view_set(&value->view, last, PDL__AXIS_CHANNEL, pdl_shape_elements(shape));
        return reshape_layer(o, value, PDL_LAYER_FLATTEN);
    }
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                          "the last dimension of the operand does not hold the channels of a "
                          "layer");
}

pdl_status_t pdl__onnx_output_view(pdl__onnx_t *o, int layer, const pdl__onnx_view_t *view)
{
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);

    if (y == NULL) return PDL_ERR_NOMEM;
    y->layer = layer;
    y->view = *view;
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_output_image(pdl__onnx_t *o, int layer, int64_t batch)
{
    pdl__onnx_view_t view;

    pdl__onnx_view_of(&pdl__builder_layer(o->builder, layer)->out, batch, false, &view);
    return pdl__onnx_output_view(o, layer, &view);
}
