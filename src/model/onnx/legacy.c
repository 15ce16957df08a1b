/*
 * What operators meant before operator set 7. Most did not change: attributes that became operands are read where
 * either is read. What remains is how two operands of different shape are brought together, and how types are named.
 */
#include "model/onnx/graph.h"

#include <string.h>

static bool broadcasts(const char *op)
{
    static const char *const names[] = {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Equal", "Less", "Greater"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(op, names[i]) == 0) return true;
    return false;
}

static bool same_dims(const pdl__onnx_view_t *a, const pdl__onnx_view_t *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

/* [3] at axis 1 of [1, 3, 8, 8] is [3, 1, 1]; without an axis it is aligned at the end, as now. */
pdl_status_t pdl__onnx_align_second(pdl__onnx_t *o)
{
    pdl__onnx_value_t *a, *b;
    int64_t            axis, ones;
    pdl_status_t       st;

    o->second = NULL;
    if (o->opset >= 7) {
        if (broadcasts(o->node->op_type) && pdl__onnx_attribute(o, "axis") != NULL)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the attribute axis is one of operator sets before 7");
        return PDL_OK;
    }
    if (!broadcasts(o->node->op_type)) return PDL_OK;
    a = pdl__onnx_input(o, 0);
    b = pdl__onnx_input(o, 1);
    if (pdl__onnx_int(o, "broadcast", 0) == 0) {
        if (same_dims(&a->view, &b->view)) return PDL_OK;
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "operands of different shape, and broadcast is not set");
    }
    axis = pdl__onnx_int(o, "axis", -1);
    if (axis < 0) axis = a->view.rank - b->view.rank;
    ones = a->view.rank - b->view.rank - axis;
    if (axis < 0 || ones < 0)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the second operand does not fit into the first at axis %lld",
                              (long long)axis);
    if (ones == 0) return PDL_OK;
    if (b->kind == PDL__ONNX_ACTIVATION) {
        st = pdl__onnx_settle(o, b);
        if (st) return st;
    }
    o->second = pdl__onnx_copy(o, b);
    if (o->second == NULL) return PDL_ERR_NOMEM;
    o->second->uses = b->uses;
    for (; ones > 0; ones--) pdl__onnx_view_insert(&o->second->view, o->second->view.rank);
    return PDL_OK;
}

/* A number, or before operator set 6 a name. */
pdl_status_t pdl__onnx_cast_target(pdl__onnx_t *o, int64_t *type)
{
    static const struct {
        const char *name;
        int64_t     type;
    } types[] = {{"FLOAT", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT},
                 {"DOUBLE", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE},
                 {"FLOAT16", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16},
                 {"INT32", ONNX__TENSOR_PROTO__DATA_TYPE__INT32},
                 {"INT64", ONNX__TENSOR_PROTO__DATA_TYPE__INT64},
                 {"BOOL", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL}};
    const Onnx__AttributeProto *a = pdl__onnx_attribute(o, "to");

    if (a == NULL) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the attribute to is missing");
    *type = a->i;
    if (!a->has_s) return PDL_OK;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        *type = types[i].type;
        if (pdl__onnx_string_is(o, "to", types[i].name)) return PDL_OK;
    }
    return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the type is not supported");
}
