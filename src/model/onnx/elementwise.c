/*
 * Element-wise operators on activations grow an expression; it becomes a layer when something reads it.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

/* Longer chains are cut into layers, so that recursion over an expression is bounded. */
#define DEPTH_LIMIT 24

pdl_status_t pdl__onnx_pass(pdl__onnx_t *o)
{
    if (o->node->n_output < 1 || o->node->output[0][0] == '\0') return PDL_OK;
    return pdl__onnx_define(o, o->node->output[0], pdl__onnx_input(o, 0));
}

/* Other floating-point types are the plan's to choose; integers are another function, but for tokens. */
pdl_status_t pdl__onnx_cast(pdl__onnx_t *o)
{
    const pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    bool                     tokens = x->layer == 0 && !x->expression && o->integer_input;
    int64_t                  to;
    pdl_status_t             st = pdl__onnx_cast_target(o, &to);

    if (st) return st;
    if (pdl__onnx_integer_type(to) != tokens)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "%s become %s (type %lld)", tokens ? "tokens" : "activations",
                              tokens ? "numbers" : "integers", (long long)to);
    return pdl__onnx_pass(o);
}

/* The result of applying the node to operands that are all based on one layer, or constant. */
static pdl_status_t express(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *a, pdl__onnx_value_t *b,
                            const double *parameter)
{
    pdl__onnx_binary_fn_t    binary = pdl__onnx_binary(o->node->op_type);
    const pdl__onnx_unary_t *unary = pdl__onnx_unary(o->node->op_type);
    pdl__onnx_value_t       *y = pdl__onnx_copy(o, x);
    double                   p = 0, q = 0;

    if (y == NULL) return PDL_ERR_NOMEM;
    y->node = o->node;
    y->expression = true;
    y->depth = 0;
    for (int k = 0; k < 2; k++) {
        pdl__onnx_value_t *operand = k == 0 ? a : b;

        y->operand[k] = operand;
        if (operand == NULL || operand->kind != PDL__ONNX_ACTIVATION) continue;
        y->normalises = y->normalises || operand->normalises;
        y->depth = operand->depth + 1 > y->depth ? operand->depth + 1 : y->depth;
    }
    for (int k = 0; parameter != NULL && k < 2; k++) y->parameter[k] = parameter[k];
    for (int i = 0; i < PDL__ONNX_PROBES; i++) {
        if (a->kind == PDL__ONNX_CONSTANT)
            pdl__onnx_scalar(o, a, &p);
        else
            p = a->probe[i];
        if (b != NULL && b->kind == PDL__ONNX_CONSTANT)
            pdl__onnx_scalar(o, b, &q);
        else if (b != NULL)
            q = b->probe[i];
        y->probe[i] = binary != NULL ? binary(p, q) : pdl__onnx_apply(unary, p, y->parameter);
    }
    return pdl__onnx_output(o, 0, y);
}

static pdl_status_t ready(pdl__onnx_t *o, pdl__onnx_value_t *x)
{
    pdl_status_t st = pdl__onnx_settle(o, x);

    if (!st && (x->depth >= DEPTH_LIMIT || x->padded)) st = pdl__onnx_materialise(o, x);
    return st;
}

pdl_status_t pdl__onnx_unary_value(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    bool               leaky = strcmp(o->node->op_type, "LeakyRelu") == 0;
    double             parameter[2];
    pdl_status_t       st = ready(o, x);

    if (pdl__onnx_string_is(o, "approximate", "tanh"))
        parameter[0] = 1;
    else if (strcmp(o->node->op_type, "Gelu") == 0)
        parameter[0] = 0;
    else
        parameter[0] = pdl__onnx_float(o, "alpha", leaky ? 0.01 : 0.2);
    parameter[1] = pdl__onnx_float(o, "beta", 0.5);
    return st ? st : express(o, x, x, NULL, parameter);
}

/* Limits that no probe reaches would not be seen: they must be beyond every number that matters. */
static pdl_status_t check_limit(const pdl__onnx_t *o, double limit)
{
    if (fabs(limit) > 1e30 || (limit > pdl__onnx_probe[0] && limit < pdl__onnx_probe[PDL__ONNX_PROBES - 1]))
        return PDL_OK;
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "no layer clips at %g; the activations known are relu and relu6",
                          limit);
}

pdl_status_t pdl__onnx_clip(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    double             limit[2] = {pdl__onnx_float(o, "min", -INFINITY), pdl__onnx_float(o, "max", INFINITY)};
    pdl_status_t       st = ready(o, x);

    for (size_t k = 0; !st && k < 2; k++) {
        pdl__onnx_value_t *bound = pdl__onnx_input(o, k + 1);

        if (bound != NULL && !pdl__onnx_scalar(o, bound, &limit[k]))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the bounds are not in the file");
        if (!st) st = check_limit(o, limit[k]);
    }
    return st ? st : express(o, x, x, NULL, limit);
}

bool pdl__onnx_is_sum(const char *op)
{
    return strcmp(op, "Add") == 0 || strcmp(op, "Sum") == 0;
}

/* Whether b has one number for each sample and channel of a, in the dimensions where a has them. */
static bool scales_channels(const pdl__onnx_t *o, const pdl__onnx_value_t *a, const pdl__onnx_value_t *b)
{
    const pdl_shape_t *whole = pdl__onnx_shape(o, a), *factor = pdl__onnx_shape(o, b);

    if (pdl_shape_positions(factor) != 1 || factor->channels != whole->channels || a->view.channel_begin != 0 ||
        b->view.rank > a->view.rank)
        return false;
    for (int i = 1; i <= b->view.rank; i++) {
        int at = a->view.rank - i, of = b->view.rank - i;

        if (b->view.dims[of] == 1) continue;
        if (b->view.dims[of] != a->view.dims[at]) return false;
        if (pdl__onnx_dim_is_channels(&b->view, of, factor->channels) !=
            pdl__onnx_dim_is_channels(&a->view, at, whole->channels))
            return false;
    }
    return true;
}

/* Two different layers: a sum or a product of layers; a product may scale whole channels. */
static pdl_status_t join(pdl__onnx_t *o, pdl__onnx_value_t *a, pdl__onnx_value_t *b)
{
    bool         product = strcmp(o->node->op_type, "Mul") == 0;
    pdl_layer_t  layer = pdl__layer_default(product ? PDL_LAYER_MUL : PDL_LAYER_ADD);
    int          inputs[2], added;
    pdl_status_t st;

    if (!product && !pdl__onnx_is_sum(o->node->op_type))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only sums and products of two layers are supported");
    st = pdl__onnx_materialise(o, a);
    if (!st) st = pdl__onnx_materialise(o, b);
    if (st) return st;
    if (product && pdl__onnx_elements(&a->view) < pdl__onnx_elements(&b->view)) {
        pdl__onnx_value_t *larger = b;

        b = a;
        a = larger;
    }
    if (!pdl__onnx_view_equal(&a->view, &b->view) && !(product && scales_channels(o, a, b)))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the operands show different layers in different ways");
    inputs[0] = a->layer;
    inputs[1] = b->layer;
    st = pdl__onnx_add(o, &layer, o->node, NULL, inputs, 2, &added);
    return st ? st : pdl__onnx_output_view(o, added, &a->view);
}

static bool shifts_or_scales(const char *op)
{
    return pdl__onnx_is_sum(op) || strcmp(op, "Sub") == 0 || strcmp(op, "Mul") == 0 || strcmp(op, "Div") == 0;
}

/* Subtracting the mean of the data and dividing by its deviation belongs to the data set. */
static bool prepares_data(const pdl__onnx_t *o, const pdl__onnx_value_t *x, const pdl__onnx_value_t *c)
{
    const pdl_shape_t *shape;

    if (x->layer != 0 || x->expression || x->padded || !shifts_or_scales(o->node->op_type)) return false;
    shape = pdl__onnx_shape(o, x);
    return !shape->sequence && pdl__onnx_elements(&c->view) <= shape->channels;
}

static pdl_status_t activation_and_constant(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *c,
                                            bool constant_first)
{
    const char  *op = o->node->op_type;
    double       scalar;
    bool         is_scalar = pdl__onnx_scalar(o, c, &scalar);
    pdl_status_t st;

    if (!constant_first && prepares_data(o, x, c)) {
        pdl__onnx_note_preparation(o);
        return pdl__onnx_output(o, 0, pdl__onnx_copy(o, x));
    }
    if (!is_scalar) {
        if (pdl__onnx_is_sum(op)) return pdl__onnx_with_constant(o, x, c, '+');
        if (strcmp(op, "Mul") == 0) return pdl__onnx_with_constant(o, x, c, '*');
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "only sums and products with a constant tensor are supported");
    }
    st = strcmp(op, "Min") == 0 || strcmp(op, "Max") == 0 ? check_limit(o, scalar) : PDL_OK;
    if (!st) st = ready(o, x);
    if (st) return st;
    return constant_first ? express(o, x, c, x, NULL) : express(o, x, x, c, NULL);
}

pdl_status_t pdl__onnx_binary_value(pdl__onnx_t *o)
{
    pdl__onnx_value_t *a = pdl__onnx_input(o, 0), *b = pdl__onnx_input(o, 1), *scores;
    double             scalar;
    pdl_status_t       st;

    if (a->kind >= PDL__ONNX_SCORES || b->kind >= PDL__ONNX_SCORES) {
        pdl__onnx_value_t *other = a->kind >= PDL__ONNX_SCORES ? b : a;

        scores = other == b ? a : b;
        if (other->kind != PDL__ONNX_CONSTANT || scores->kind != PDL__ONNX_SCORES)
            return pdl__onnx_settle(o, scores);
        if (pdl__onnx_scalar(o, other, &scalar)) return pdl__onnx_scale_scores(o, scores, scalar, other == a);
        return pdl__onnx_mask(o, scores, other, true);
    }
    if (b->kind == PDL__ONNX_CONSTANT) return activation_and_constant(o, a, b, false);
    if (a->kind == PDL__ONNX_CONSTANT) return activation_and_constant(o, b, a, true);

    st = ready(o, a);
    if (!st) st = ready(o, b);
    if (st) return st;
    if (a->layer == b->layer && (a->reduced || b->reduced || pdl__onnx_view_equal(&a->view, &b->view)))
        return express(o, a->reduced ? b : a, a, b, NULL);
    return join(o, a, b);
}

pdl_status_t pdl__onnx_dropout(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *ratio = pdl__onnx_input(o, 1), *y;
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_DROPOUT);
    pdl_status_t       st;
    int                added;

    layer.rate = pdl__onnx_float(o, "ratio", 0.5);
    if (ratio != NULL && !pdl__onnx_scalar(o, ratio, &layer.rate))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the ratio is not in the file");
    layer.rate = pdl__onnx_decimal(layer.rate, 7);
    if (layer.rate == 0) return pdl__onnx_pass(o);
    if (x->kind == PDL__ONNX_PROBABILITIES) {
        y = pdl__onnx_copy(o, x);
        if (y != NULL) y->parameter[0] = layer.rate;
        return pdl__onnx_output(o, 0, y);
    }
    st = pdl__onnx_materialise(o, x);
    if (!st) st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    return st ? st : pdl__onnx_output_view(o, added, &x->view);
}

/* A mean over channels is part of a normalization: the probes stand for the channels. */
static pdl_status_t mean_of_channels(pdl__onnx_t *o, pdl__onnx_value_t *x, int dim)
{
    pdl__onnx_value_t *y = pdl__onnx_copy(o, x);
    double             mean = 0;

    if (y == NULL) return PDL_ERR_NOMEM;
    if (pdl__onnx_int(o, "keepdims", 1) == 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a mean over channels outside a layer normalization");
    for (int i = 0; i < PDL__ONNX_PROBES; i++) mean += x->probe[i] / PDL__ONNX_PROBES;
    for (int i = 0; i < PDL__ONNX_PROBES; i++) y->probe[i] = mean;
    y->node = o->node;
    y->expression = true;
    y->normalises = true;
    y->reduced = true;
    y->depth = x->depth + 1;
    y->operand[0] = x;
    y->operand[1] = NULL;
    pdl__onnx_view_set(&y->view, dim, PDL__AXIS_CHANNEL, 1);
    return pdl__onnx_output(o, 0, y);
}

/* Whether the dimensions named hold all of space and nothing else. */
static bool all_of_space(const pdl__onnx_view_t *view, const bool *wanted, const pdl_shape_t *shape)
{
    int64_t positions = 1;

    for (int d = 0; d < view->rank; d++) {
        if (!wanted[d]) continue;
        for (int a = view->start[d]; a < view->start[d + 1]; a++) {
            if (view->atoms[a].axis < PDL__AXIS_SPACE) return false;
            positions *= view->atoms[a].size;
        }
    }
    return shape->rank > 0 && positions == pdl_shape_positions(shape);
}

pdl_status_t pdl__onnx_reduce_mean(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    int64_t            axes[PDL__ONNX_MAX_RANK];
    bool               wanted[PDL__ONNX_MAX_RANK] = {false};
    const pdl_shape_t *shape;
    pdl__onnx_view_t   view;
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_GLOBAL_AVG_POOL);
    int                count, axis = 0, added;
    pdl_status_t       st = pdl__onnx_ints(o, "axes", 1, axes, PDL__ONNX_MAX_RANK, &count);

    if (!st && count <= 0) {
        if (pdl__onnx_int(o, "noop_with_empty_axes", 0) != 0) return pdl__onnx_pass(o);
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a mean over all dimensions, samples included");
    }
    for (int i = 0; !st && i < count; i++) {
        st = pdl__onnx_normal_axis(o, axes[i], x->view.rank, &axis);
        if (!st) wanted[axis] = true;
    }
    if (!st) st = ready(o, x);
    if (!st && count == 1 && axis == x->view.rank - 1 && !x->expression &&
        pdl__onnx_dim_is_channels(&x->view, axis, pdl__onnx_shape(o, x)->channels))
        st = pdl__onnx_as_rows(o, x);
    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (count == 1 && pdl__onnx_dim_is_channels(&x->view, axis, shape->channels))
        return mean_of_channels(o, x, axis);
    if (!all_of_space(&x->view, wanted, shape))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "a mean must be over all channels or over all of space");
    st = pdl__onnx_materialise(o, x);
    if (!st) st = pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &added);
    if (st) return st;
    view = x->view;
    for (int d = view.rank - 1; d >= 0; d--) {
        if (!wanted[d]) continue;
        pdl__onnx_view_set(&view, d, PDL__AXIS_SPACE, 1);
        if (pdl__onnx_int(o, "keepdims", 1) == 0) pdl__onnx_view_drop(&view, d);
    }
    return pdl__onnx_output_view(o, added, &view);
}

/* Exporters guard a softmax against rows that are masked entirely; shapes do not depend on it. */
pdl_status_t pdl__onnx_is_nan(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);

    if (y == NULL) return PDL_ERR_NOMEM;
    y->view.rank = x->view.rank;
    memcpy(y->view.dims, x->view.dims, sizeof y->view.dims);
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_where_value(pdl__onnx_t *o)
{
    pdl__onnx_value_t *condition = pdl__onnx_input(o, 0), *a = pdl__onnx_input(o, 1), *b = pdl__onnx_input(o, 2);
    pdl__onnx_value_t *scores = a->kind != PDL__ONNX_CONSTANT ? a : b, *other = scores == a ? b : a;
    double             hidden;

    if (condition->kind != PDL__ONNX_CONSTANT || other->kind != PDL__ONNX_CONSTANT)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only the masks of attention may choose between tensors");
    /* The guard of exporters against rows that are masked entirely; a condition that is known is something else. */
    if (scores->kind == PDL__ONNX_PROBABILITIES && pdl__onnx_numbers(o, condition) == NULL)
        return pdl__onnx_output(o, 0, pdl__onnx_copy(o, scores));
    if (scores->kind != PDL__ONNX_SCORES)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only the scores of attention can be masked");
    if (pdl__onnx_scalar(o, other, &hidden) && hidden > -1e3)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "scores of attention are replaced by %g, which hides nothing",
                              hidden);
    return pdl__onnx_mask(o, scores, condition, scores == a);
}
