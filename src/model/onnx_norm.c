/*
 * Normalizations and softmax.
 */
#include "onnx_graph.h"

#include <string.h>

static pdl_status_t add_on(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl_layer_t *layer, const char *hint)
{
    int          added;
    pdl_status_t st = pdl__onnx_add(o, layer, o->node, hint, &x->layer, 1, &added);

    return st ? st : pdl__onnx_output_view(o, added, &x->view);
}

static pdl_status_t check_scale(const pdl__onnx_t *o, const pdl__onnx_value_t *scale, int64_t channels)
{
    if (scale == NULL || scale->kind != PDL__ONNX_CONSTANT || pdl__onnx_elements(&scale->view) != channels)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the scale does not have the %lld elements of the operand",
                              (long long)channels);
    return PDL_OK;
}

pdl_status_t pdl__onnx_batch_norm(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *scale = pdl__onnx_input(o, 1);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_BATCH_NORM);
    pdl_status_t       st = pdl__onnx_materialise(o, x);

    if (!st && pdl__onnx_shape(o, x)->rank > 0 && x->view.rank == 2) st = pdl__onnx_as_rows(o, x);
    if (!st) st = pdl__onnx_as_image(o, x);
    if (!st) st = check_scale(o, scale, pdl__onnx_shape(o, x)->channels);
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
    return add_on(o, x, &layer, scale->label);
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

    if (!st) st = check_scale(o, scale, pdl__onnx_shape(o, x)->channels);
    if (st) return st;
    layer.groups = pdl__onnx_int(o, "num_groups", 1);
    layer.epsilon = pdl__onnx_float(o, "epsilon", 1e-5);
    return add_on(o, x, &layer, scale->label);
}

pdl_status_t pdl__onnx_lrn(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_LOCAL_RESPONSE_NORM);
    pdl_status_t       st = pdl__onnx_as_image(o, x);

    if (st) return st;
    layer.lrn_size = pdl__onnx_int(o, "size", 5);
    layer.lrn_alpha = pdl__onnx_float(o, "alpha", 1e-4);
    layer.lrn_beta = pdl__onnx_float(o, "beta", 0.75);
    layer.lrn_k = pdl__onnx_float(o, "bias", 1);
    return add_on(o, x, &layer, NULL);
}

static bool is_output(const pdl__onnx_t *o)
{
    const char *name = o->graph->n_output > 0 ? o->graph->output[0]->name : NULL;

    return name != NULL && o->node->n_output > 0 && strcmp(o->node->output[0], name) == 0;
}

pdl_status_t pdl__onnx_softmax(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y;
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_SOFTMAX);
    int                axis;
    pdl_status_t       st =
        pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", o->opset < 13 ? 1 : -1), x->view.rank, &axis);

    if (st) return st;
    if (x->kind == PDL__ONNX_SCORES) {
        if (axis != x->view.rank - 1)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                                  "the softmax of attention must be over its last dimension");
        y = pdl__onnx_copy(o, x);
        if (y != NULL) y->kind = PDL__ONNX_PROBABILITIES;
        return pdl__onnx_output(o, 0, y);
    }
    /* The loss contains the softmax of the class scores. */
    if (is_output(o)) return pdl__onnx_pass(o);
    if (strcmp(o->node->op_type, "Softmax") != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a log softmax must be the output of the network");
    st = pdl__onnx_materialise(o, x);
    if (!st && axis == x->view.rank - 1) st = pdl__onnx_as_rows(o, x);
    if (st) return st;
    if (!pdl__onnx_dim_is_channels(&x->view, axis, pdl__onnx_shape(o, x)->channels))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a softmax must be over channels");
    return add_on(o, x, &layer, NULL);
}
