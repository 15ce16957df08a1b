/*
 * Normalizations and softmax.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* Scale, shift and statistics are operands 1 to 4 of the node, as far as it has them. */
static pdl_status_t add_on(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl_layer_t *layer, const char *hint)
{
    pdl__onnx_parts_t parts = {.transposed = false};
    int               added;
    pdl_status_t      st = pdl__onnx_add(o, layer, o->node, hint, &x->layer, 1, &added);

    if (st) return st;
    for (size_t i = PDL__PART_WEIGHT; i <= PDL__PART_VAR; i++)
        parts.part[i] = i + 1 < o->node->n_input ? pdl__onnx_input(o, i + 1) : NULL;
    st = pdl__onnx_bind(o, added, &parts);
    return st ? st : pdl__onnx_output_view(o, added, &x->view);
}

static pdl_status_t check_scale(const pdl__onnx_t *o, const pdl__onnx_value_t *scale, int64_t channels)
{
    if (scale == NULL || scale->kind != PDL__ONNX_CONSTANT || pdl__onnx_elements(&scale->view) != channels)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "scale or shift do not have the %lld channels of the operand",
                              (long long)channels);
    return PDL_OK;
}

/* Statistics that training updates: constants of unknown numbers, which may be outputs of the graph. */
static pdl_status_t output_statistics(pdl__onnx_t *o, const pdl__onnx_value_t *like)
{
    for (size_t i = 1; i < o->node->n_output; i++) {
        pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
        pdl_status_t       st;

        if (y == NULL) return PDL_ERR_NOMEM;
        y->view = like->view;
        y->real = true;
        st = pdl__onnx_output(o, i, y);
        if (st) return st;
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_batch_norm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *scale = pdl__onnx_input(o, 1);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_BATCH_NORM);
    pdl_status_t       st = pdl__onnx_materialise(o, x);

    if (!st && pdl__onnx_shape(o, x)->rank > 0 && x->view.rank == 2) st = pdl__onnx_as_rows(o, x);
    if (!st) st = pdl__onnx_as_image(o, x);
    if (!st && pdl__onnx_int(o, "spatial", 1) == 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "spatial 0: statistics of every position are not supported");
    for (size_t i = 1; !st && i < 5; i++)
        st = check_scale(o, pdl__onnx_input(o, i), pdl__onnx_shape(o, x)->channels);
    if (!st) st = output_statistics(o, scale);
    if (st) return st;
    layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    /* ONNX weighs the old value, we the new one. */
    layer.momentum = pdl__onnx_decimal(1 - pdl__onnx_float(o, "momentum", 0.9), 6);
    return add_on(o, x, &layer, scale->label);
}

pdl_status_t pdl__onnx_layer_norm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *scale = pdl__onnx_input(o, 1);
    bool               rms = strcmp(o->node->op_type, "LayerNormalization") != 0;
    pdl_layer_t        layer = pdl__layer_default(rms ? PDL_LAYER_RMS_NORM : PDL_LAYER_LAYER_NORM);
    int                axis;
    pdl_status_t       st = pdl__onnx_as_rows(o, x);

    if (!st) st = pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", -1), x->view.rank, &axis);
    if (st) return st;
    if (axis != x->view.rank - 1)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only the last dimension can be normalized");
    st = check_scale(o, scale, pdl__onnx_shape(o, x)->channels);
    if (st) return st;
    layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    layer.bias = !rms && pdl__onnx_input(o, 2) != NULL;
    if (layer.bias) st = check_scale(o, pdl__onnx_input(o, 2), pdl__onnx_shape(o, x)->channels);
    if (st) return st;
    return add_on(o, x, &layer, scale->label);
}

/* Whether numbers that are in the file are all `wanted`. */
static bool all_are(pdl__onnx_t *o, pdl__onnx_value_t *value, double wanted)
{
    const double *numbers = value->kind == PDL__ONNX_CONSTANT ? pdl__onnx_numbers(o, value) : NULL;

    for (int64_t i = 0; numbers != NULL && i < pdl__onnx_elements(&value->view); i++)
        if (numbers[i] != wanted) return false;
    return value->kind == PDL__ONNX_CONSTANT;
}

/* Over the groups that a reshape to [batch, groups, rest] made; scale and shift of the channels follow as nodes. */
static pdl_status_t norm_of_groups(pdl__onnx_t *o, pdl__onnx_value_t *x)
{
    const pdl_shape_t      *shape = pdl__onnx_shape(o, x);
    const pdl__onnx_view_t *view = &x->view;
    const pdl__onnx_atom_t *group = &view->atoms[view->rank > 1 ? view->start[1] : 0];
    pdl__onnx_value_t      *y = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);
    int64_t                 groups = view->rank > 1 ? view->dims[1] : 0;

    if (y == NULL) return PDL_ERR_NOMEM;
    if (view->rank != 3 || groups < 1 || shape->channels % groups != 0 || view->channel_begin != 0 ||
        (groups > 1 && (view->start[2] - view->start[1] != 1 || group->axis != PDL__AXIS_CHANNEL ||
                        group->stride != shape->channels / groups)))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the dimensions normalized are neither channels nor groups");
    if (!all_are(o, pdl__onnx_input(o, 1), 1) || !all_are(o, pdl__onnx_input(o, 2), 0))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "a scale and shift of groups; only those of channels are known");
    y->pending = pdl_arena_alloc(o->arena, 1, sizeof *y->pending);
    if (y->pending == NULL) return PDL_ERR_NOMEM;
    y->pending->layer = pdl__layer_default(PDL_LAYER_GROUP_NORM);
    y->pending->layer.groups = groups;
    y->pending->layer.bias = false;
    y->pending->layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    y->pending->input = x->layer;
    y->view = x->view;
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_instance_norm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *scale = pdl__onnx_input(o, 1);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_GROUP_NORM);
    const pdl_shape_t *shape;
    pdl_status_t       st = pdl__onnx_materialise(o, x);

    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (x->view.rank < 2 || x->view.rank != shape->rank + 2 ||
        !pdl__onnx_dim_is_channels(&x->view, 1, shape->channels))
        return norm_of_groups(o, x);
    st = check_scale(o, scale, shape->channels);
    if (!st) st = check_scale(o, pdl__onnx_input(o, 2), shape->channels);
    if (st) return st;
    layer.groups = shape->channels;
    layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    return add_on(o, x, &layer, scale->label);
}

pdl_status_t pdl__onnx_group_norm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *scale = pdl__onnx_input(o, 1);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_GROUP_NORM);
    pdl_status_t       st = pdl__onnx_as_image(o, x);

    if (st) return st;
    layer.groups = pdl__onnx_int(o, "num_groups", 0);
    if (o->opset < 21 && layer.groups != pdl__onnx_shape(o, x)->channels)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "before operator set 21 its scale is one of groups; export with 21, or with 17");
    for (size_t i = 1; !st && i < 3; i++)
        st = check_scale(o, pdl__onnx_input(o, i), pdl__onnx_shape(o, x)->channels);
    if (st) return st;
    layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    return add_on(o, x, &layer, scale->label);
}

pdl_status_t pdl__onnx_lrn(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_LOCAL_RESPONSE_NORM);
    pdl_status_t       st = pdl__onnx_as_image(o, x);

    if (st) return st;
    layer.lrn_size = pdl__onnx_int(o, "size", 0);
    if (layer.lrn_size % 2 == 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "size %lld: windows of an even number of channels differ",
                              (long long)layer.lrn_size);
    layer.lrn_alpha = pdl__onnx_float(o, "alpha", 1e-4);
    layer.lrn_beta = pdl__onnx_float(o, "beta", 0.75);
    layer.lrn_k = pdl__onnx_float(o, "bias", 1);
    return add_on(o, x, &layer, NULL);
}

/* Whether the node makes the network's output, and nobody else reads it. */
static bool is_output(const pdl__onnx_t *o)
{
    const char *name = o->graph->n_output > 0 ? o->graph->output[0]->name : NULL;

    return name != NULL && o->node->n_output > 0 && strcmp(o->node->output[0], name) == 0 &&
           pdl__onnx_uses(o, name) == 1;
}

/* The one dimension that is summed over. Before operator set 13 all from the axis on were: the others must be 1. */
static pdl_status_t softmax_axis(const pdl__onnx_t *o, const pdl__onnx_view_t *view, int *axis)
{
    pdl_status_t st = pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", o->opset < 13 ? 1 : -1), view->rank, axis);
    int          wide = -1;

    if (st || o->opset >= 13) return st;
    for (int i = *axis; i < view->rank; i++) {
        if (view->dims[i] == 1) continue;
        if (wide >= 0)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                                  "axis %d means all dimensions from it on before operator set 13; export with 13",
                                  *axis);
        wide = i;
    }
    if (wide >= 0) *axis = wide;
    return PDL_OK;
}

static pdl_status_t softmax_of_scores(pdl__onnx_t *o, pdl__onnx_value_t *x, int axis)
{
    pdl__onnx_value_t *y;

    if (axis != x->view.rank - 1 || strcmp(o->node->op_type, "Softmax") != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the softmax of attention must be over its last dimension");
    y = pdl__onnx_copy(o, x);
    if (y != NULL) y->kind = PDL__ONNX_PROBABILITIES;
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_softmax(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_SOFTMAX);
    bool               last = is_output(o);
    int                axis;
    pdl_status_t       st = softmax_axis(o, &x->view, &axis);

    if (st) return st;
    if (x->kind == PDL__ONNX_SCORES) return softmax_of_scores(o, x, axis);
    if (!last && strcmp(o->node->op_type, "Softmax") != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a log softmax must be the output of the network");
    st = pdl__onnx_materialise(o, x);
    if (!st && axis == x->view.rank - 1) st = pdl__onnx_as_rows(o, x);
    if (st) return st;
    if (!pdl__onnx_dim_is_channels(&x->view, axis, pdl__onnx_shape(o, x)->channels))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a softmax over axis %d, which does not hold the channels",
                              axis);
    if (!last) return add_on(o, x, &layer, NULL);
    o->classifies = true; /* the loss contains the softmax of the class scores */
    return pdl__onnx_pass(o);
}
