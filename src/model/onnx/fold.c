/*
 * Operators on constants. What cannot be worked out (numbers not in the file, or too many) keeps its shape.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

/* Floating-point tables beyond this are weights: nobody asks for their numbers. */
#define WEIGHT_LIMIT 4096

/* Identity of a weight: equal weights are stored once and given their other names this way. */
pdl_status_t pdl__onnx_fold_identity(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y = pdl__onnx_copy(o, pdl__onnx_input(o, 0));

    if (y == NULL) return PDL_ERR_NOMEM;
    if (y->label != NULL && o->node->n_output > 0 && strchr(o->node->output[0], '.') != NULL)
        y->label = o->node->output[0];
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_fold_constant(pdl__onnx_t *o)
{
    const Onnx__AttributeProto *a = o->node->n_attribute == 1 ? o->node->attribute[0] : NULL;
    const char                 *name = a != NULL && a->name != NULL ? a->name : "";
    pdl__onnx_value_t          *value;
    pdl_status_t                st = PDL_OK;
    size_t                      count;

    if (strcmp(name, "value") == 0 && a->t != NULL) {
        st = pdl__onnx_from_tensor(o, a->t, &value);
        return st ? st : pdl__onnx_output(o, 0, value);
    }
    if (strncmp(name, "value_", 6) != 0 || strstr(name, "string") != NULL)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "a constant needs one of the attributes value, value_int(s), "
                              "value_float(s)");
    value = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    if (value == NULL) return PDL_ERR_NOMEM;
    count = a->n_floats > 0 ? a->n_floats : a->n_ints;
    value->real = a->n_floats > 0 || a->has_f;
    value->view.rank = a->has_f || a->has_i ? 0 : 1;
    value->view.dims[0] = (int64_t)count;
    st = pdl__onnx_make_room(o, value);
    if (st) return st;
    if (value->data != NULL && value->view.rank == 0) value->data[0] = a->has_f ? (double)a->f : (double)a->i;
    for (size_t i = 0; value->data != NULL && value->view.rank == 1 && i < count; i++)
        value->data[i] = a->n_floats > 0 ? (double)a->floats[i] : (double)a->ints[i];
    return pdl__onnx_output(o, 0, value);
}

bool pdl__onnx_integer_type(int64_t type)
{
    return type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && type != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
           type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 && type != ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

static double cast(double x, int64_t to)
{
    if (to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL) return x != 0;
    return pdl__onnx_integer_type(to) ? trunc(x) : x;
}

static bool worth_decoding(const pdl__onnx_value_t *value)
{
    return value->data != NULL || !value->real || pdl__onnx_elements(&value->view) <= WEIGHT_LIMIT;
}

pdl_status_t pdl__onnx_fold_unary(pdl__onnx_t *o)
{
    pdl__onnx_value_t       *x = pdl__onnx_input(o, 0), *y = pdl__onnx_copy(o, x);
    bool                     casts = strcmp(o->node->op_type, "Cast") == 0;
    int64_t                  to = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    const pdl__onnx_unary_t *fn = pdl__onnx_unary(o->node->op_type);
    double                   parameter[2] = {pdl__onnx_string_is(o, "approximate", "tanh"), 0};
    const double            *numbers;
    pdl_status_t             st;

    if (y == NULL) return PDL_ERR_NOMEM;
    if (casts) {
        st = pdl__onnx_cast_target(o, &to);
        if (st) return st;
        y->real = !pdl__onnx_integer_type(to);
    }
    numbers = worth_decoding(x) ? pdl__onnx_numbers(o, x) : NULL;
    y->data = NULL;
    y->tensor = NULL;
    if (!casts || !x->real || !y->real) y->stored = NULL;
    if (numbers != NULL) {
        st = pdl__onnx_make_room(o, y);
        if (st) return st;
        for (int64_t i = 0; y->data != NULL && i < pdl__onnx_elements(&y->view); i++)
            y->data[i] = casts ? cast(numbers[i], to) : pdl__onnx_apply(fn, numbers[i], parameter);
    }
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_fold_binary(pdl__onnx_t *o)
{
    pdl__onnx_value_t    *a = pdl__onnx_input(o, 0), *b = pdl__onnx_input(o, 1);
    pdl__onnx_value_t    *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    pdl__onnx_binary_fn_t fn = pdl__onnx_binary(o->node->op_type);
    int64_t               index[PDL__ONNX_MAX_RANK] = {0};
    const double         *p, *q;
    bool                  whole;
    pdl_status_t          st;

    if (y == NULL) return PDL_ERR_NOMEM;
    st = pdl__onnx_broadcast(o, &a->view, &b->view, &y->view);
    if (st) return st;
    y->real = a->real || b->real;
    y->origin = a->origin != NULL ? a->origin : b->origin;
    y->label = a->label != NULL ? a->label : b->label;
    if (strcmp(o->node->op_type, "Mod") == 0 && pdl__onnx_int(o, "fmod", 0) != 0) fn = fmod;
    whole = !y->real && strcmp(o->node->op_type, "Div") == 0;
    p = worth_decoding(a) ? pdl__onnx_numbers(o, a) : NULL;
    q = p != NULL && worth_decoding(b) ? pdl__onnx_numbers(o, b) : NULL;
    if (q != NULL) {
        st = pdl__onnx_make_room(o, y);
        if (st) return st;
    }
    for (int64_t i = 0; q != NULL && y->data != NULL && i < pdl__onnx_elements(&y->view); i++) {
        double x = fn(p[pdl__onnx_offset(&a->view, index, y->view.rank)],
                      q[pdl__onnx_offset(&b->view, index, y->view.rank)]);

        y->data[i] = whole ? trunc(x) : x;
        pdl__onnx_next(&y->view, index);
    }
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_fold_where(pdl__onnx_t *o)
{
    pdl__onnx_value_t *c = pdl__onnx_input(o, 0), *a = pdl__onnx_input(o, 1), *b = pdl__onnx_input(o, 2);
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    int64_t            index[PDL__ONNX_MAX_RANK] = {0};
    pdl__onnx_view_t   both = {0};
    const double      *r, *p, *q;
    pdl_status_t       st;

    if (y == NULL) return PDL_ERR_NOMEM;
    st = pdl__onnx_broadcast(o, &a->view, &b->view, &both);
    if (!st) st = pdl__onnx_broadcast(o, &both, &c->view, &y->view);
    if (st) return st;
    y->real = a->real || b->real;
    r = pdl__onnx_numbers(o, c);
    p = r != NULL ? pdl__onnx_numbers(o, a) : NULL;
    q = p != NULL ? pdl__onnx_numbers(o, b) : NULL;
    if (q != NULL) {
        st = pdl__onnx_make_room(o, y);
        if (st) return st;
    }
    for (int64_t i = 0; q != NULL && y->data != NULL && i < pdl__onnx_elements(&y->view); i++) {
        bool first = r[pdl__onnx_offset(&c->view, index, y->view.rank)] != 0;

        y->data[i] = first ? p[pdl__onnx_offset(&a->view, index, y->view.rank)]
                           : q[pdl__onnx_offset(&b->view, index, y->view.rank)];
        pdl__onnx_next(&y->view, index);
    }
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_fold_pick(pdl__onnx_t *o, pdl__onnx_value_t *from, pdl__onnx_value_t *to, const int *order,
                                 const int64_t *origin, const int64_t *step)
{
    const double *numbers = worth_decoding(from) ? pdl__onnx_numbers(o, from) : NULL;
    int64_t       index[PDL__ONNX_MAX_RANK] = {0}, source[PDL__ONNX_MAX_RANK] = {0};
    pdl_status_t  st;

    to->data = NULL;
    to->tensor = to->stored = NULL;
    to->real = from->real;
    to->origin = from->origin;
    to->label = from->label;
    if (numbers == NULL) return PDL_OK;
    st = pdl__onnx_make_room(o, to);
    if (st) return st;
    for (int64_t i = 0; to->data != NULL && i < pdl__onnx_elements(&to->view); i++) {
        for (int d = 0; d < to->view.rank; d++) source[order[d]] = origin[d] + step[d] * index[d];
        to->data[i] = numbers[pdl__onnx_offset(&from->view, source, from->view.rank)];
        pdl__onnx_next(&to->view, index);
    }
    return PDL_OK;
}

static pdl_status_t gather_numbers(pdl__onnx_t *o, pdl__onnx_value_t *x, pdl__onnx_value_t *at, int axis,
                                   pdl__onnx_value_t *y)
{
    const double *numbers = worth_decoding(x) ? pdl__onnx_numbers(o, x) : NULL;
    const double *which = numbers != NULL ? pdl__onnx_numbers(o, at) : NULL;
    int64_t       count = pdl__onnx_elements(&at->view), inner = 1, n, extent = x->view.dims[axis];
    pdl_status_t  st;

    if (which == NULL) return PDL_OK;
    st = pdl__onnx_make_room(o, y);
    if (st || y->data == NULL) return st;
    for (int i = axis + 1; i < x->view.rank; i++) inner *= x->view.dims[i];
    n = pdl__onnx_elements(&y->view);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = pdl__onnx_to_int(which[i / inner % count]);

        if (k < 0) k += extent;
        if (k < 0 || k >= extent)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "index %lld is outside a dimension of %lld", (long long)k,
                                  (long long)extent);
        y->data[i] = numbers[(i / inner / count * extent + k) * inner + i % inner];
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_fold_gather(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *at = pdl__onnx_input(o, 1);
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    pdl_status_t       st;
    int                axis;

    if (y == NULL) return PDL_ERR_NOMEM;
    st = pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", 0), x->view.rank, &axis);
    if (st) return st;
    if (x->view.rank + at->view.rank - 1 > PDL__ONNX_MAX_RANK)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the result has more than %d dimensions", PDL__ONNX_MAX_RANK);
    for (int i = 0; i < axis; i++) y->view.dims[y->view.rank++] = x->view.dims[i];
    for (int i = 0; i < at->view.rank; i++) y->view.dims[y->view.rank++] = at->view.dims[i];
    for (int i = axis + 1; i < x->view.rank; i++) y->view.dims[y->view.rank++] = x->view.dims[i];
    y->real = x->real;
    y->origin = x->origin;
    y->label = x->label;
    st = gather_numbers(o, x, at, axis, y);
    return st ? st : pdl__onnx_output(o, 0, y);
}

/* Copies one operand into its place along `axis` of the result. */
static void concat_part(const pdl__onnx_value_t *part, const double *numbers, int axis, int64_t begin,
                        pdl__onnx_value_t *y)
{
    int64_t inner = 1, outer = 1, rows = part->view.dims[axis], all = y->view.dims[axis];

    for (int i = 0; i < axis; i++) outer *= y->view.dims[i];
    for (int i = axis + 1; i < y->view.rank; i++) inner *= y->view.dims[i];
    for (int64_t i = 0; i < outer; i++)
        memcpy(y->data + (i * all + begin) * inner, numbers + i * rows * inner,
               (size_t)(rows * inner) * sizeof *numbers);
}

pdl_status_t pdl__onnx_fold_concat(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y = pdl__onnx_copy(o, pdl__onnx_input(o, 0));
    bool               known = true;
    int64_t            at = 0;
    pdl_status_t       st;
    int                axis;

    if (y == NULL) return PDL_ERR_NOMEM;
    y->tensor = y->stored = NULL;
    y->data = NULL;
    st = pdl__onnx_concat_axis(o, y->view.rank, &axis);
    if (st) return st;
    y->view.dims[axis] = 0;
    for (size_t i = 0; i < o->node->n_input; i++) {
        pdl__onnx_value_t *part = pdl__onnx_input(o, i);

        if (part == NULL) return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu is missing", i + 1);
        for (int d = 0; d < y->view.rank; d++)
            if (part->view.rank != y->view.rank || (d != axis && part->view.dims[d] != y->view.dims[d]))
                return pdl__onnx_fail(o, PDL_ERR_INPUT, "operand %zu does not have the shape of the others", i + 1);
        if (__builtin_add_overflow(y->view.dims[axis], part->view.dims[axis], &y->view.dims[axis]))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the result is too large");
        known = known && worth_decoding(part) && pdl__onnx_numbers(o, part) != NULL;
    }
    if (known) st = pdl__onnx_make_room(o, y);
    for (size_t i = 0; !st && y->data != NULL && i < o->node->n_input; i++) {
        pdl__onnx_value_t *part = pdl__onnx_input(o, i);

        concat_part(part, pdl__onnx_numbers(o, part), axis, at, y);
        at += part->view.dims[axis];
    }
    return st ? st : pdl__onnx_output(o, 0, y);
}
