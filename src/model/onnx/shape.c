/*
 * Operators that only rearrange: reshape, transpose, squeeze, slice, split. They change the view of an activation
 * and the dimensions of a constant.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* A copy of operand 0 for the result. What several nodes read becomes a layer first, or each would make its own. */
static pdl_status_t start_view(pdl__onnx_t *o, pdl__onnx_value_t **result)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_RELU);
    pdl_status_t       st = PDL_OK;

    if (x->kind == PDL__ONNX_ACTIVATION && x->uses > 1) {
        st = pdl__onnx_settle(o, x);
        if (!st && x->expression && !x->normalises && pdl__onnx_recognise(x, &layer) == PDL__FORM_LAYER)
            st = pdl__onnx_materialise(o, x);
    }
    if (st) return st;
    *result = pdl__onnx_copy(o, x);
    return *result != NULL ? PDL_OK : PDL_ERR_NOMEM;
}

static pdl_status_t set_dims(pdl__onnx_t *o, pdl__onnx_value_t *y, const int64_t *dims, int rank)
{
    pdl__onnx_view_t view = {.rank = rank};

    memcpy(view.dims, dims, (size_t)rank * sizeof *dims);
    if (y->kind == PDL__ONNX_ACTIVATION) return pdl__onnx_view_reshape(o, &y->view, dims, rank);
    if (y->kind != PDL__ONNX_CONSTANT && (rank < 2 || dims[rank - 1] != y->view.dims[y->view.rank - 1] ||
                                          dims[rank - 2] != y->view.dims[y->view.rank - 2]))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "attention scores are reshaped beyond their heads");
    if (pdl__onnx_elements(&view) != pdl__onnx_elements(&y->view))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%lld elements cannot be reshaped to %lld",
                              (long long)pdl__onnx_elements(&y->view), (long long)pdl__onnx_elements(&view));
    y->view = view;
    if (y->flipped) y->stored = NULL;
    return PDL_OK;
}

pdl_status_t pdl__onnx_reshape(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y;
    int64_t            dims[PDL__ONNX_MAX_RANK], known = 1, all;
    int                rank, open = -1;
    bool               zero = pdl__onnx_int(o, "allowzero", 0) != 0;
    pdl_status_t       st = pdl__onnx_ints(o, "shape", 1, dims, PDL__ONNX_MAX_RANK, &rank);

    if (!st) st = start_view(o, &y);
    if (st) return st;
    if (rank < 0) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new shape is missing");
    all = pdl__onnx_elements(&y->view);
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0 && !zero && i < y->view.rank) dims[i] = y->view.dims[i];
        if (dims[i] == -1 && open < 0)
            open = i;
        else if (dims[i] < 0 || (dims[i] == 0 && y->kind != PDL__ONNX_CONSTANT))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new shape has a dimension of %lld", (long long)dims[i]);
        else if (__builtin_mul_overflow(known, dims[i], &known))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new shape is too large");
    }
    if (open >= 0) {
        if (known == 0 || all % known != 0)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "%lld elements do not fill the new shape", (long long)all);
        dims[open] = all / known;
    }
    st = set_dims(o, y, dims, rank);
    return st ? st : pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_flatten(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y;
    int64_t            dims[2] = {1, 1}, axis = pdl__onnx_int(o, "axis", 1);
    pdl_status_t       st = start_view(o, &y);

    if (st) return st;
    if (axis < 0) axis += y->view.rank;
    if (axis < 0 || axis > y->view.rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "there is no axis %lld", (long long)axis);
    for (int i = 0; i < y->view.rank; i++)
        if (__builtin_mul_overflow(dims[i >= axis], y->view.dims[i], &dims[i >= axis]))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the tensor is too large");
    st = set_dims(o, y, dims, 2);
    return st ? st : pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_transpose(pdl__onnx_t *o)
{
    static const int64_t origin[PDL__ONNX_MAX_RANK], step[PDL__ONNX_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    pdl__onnx_value_t   *x = pdl__onnx_input(o, 0), *y;
    int64_t              perm[PDL__ONNX_MAX_RANK];
    int                  order[PDL__ONNX_MAX_RANK], count, rank = x->view.rank;
    bool                 taken[PDL__ONNX_MAX_RANK] = {false};
    pdl_status_t         st = pdl__onnx_ints(o, "perm", -1, perm, PDL__ONNX_MAX_RANK, &count);

    if (!st) st = start_view(o, &y);
    if (st) return st;
    if (y->kind == PDL__ONNX_SCORES || y->kind == PDL__ONNX_PROBABILITIES) return pdl__onnx_settle(o, y);
    if (count >= 0 && count != rank)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "perm has %d elements for %d dimensions", count, rank);
    for (int i = 0; i < rank; i++) {
        st = pdl__onnx_normal_axis(o, count < 0 ? rank - 1 - i : perm[i], rank, &order[i]);
        if (st) return st;
        if (taken[order[i]]) return pdl__onnx_fail(o, PDL_ERR_INPUT, "perm names dimension %d twice", order[i]);
        taken[order[i]] = true;
    }
    pdl__onnx_view_transpose(&y->view, order);
    if (y->kind == PDL__ONNX_CONSTANT) st = pdl__onnx_fold_pick(o, x, y, order, origin, step);
    if (y->kind == PDL__ONNX_CONSTANT && rank == 2) {
        y->stored = x->stored;
        y->flipped = x->flipped != (order[0] == 1);
    }
    return st ? st : pdl__onnx_output(o, 0, y);
}

static pdl_status_t wanted_axes(pdl__onnx_t *o, int rank, bool *wanted, int *count)
{
    int64_t      axes[PDL__ONNX_MAX_RANK];
    int          axis;
    pdl_status_t st = pdl__onnx_ints(o, "axes", 1, axes, PDL__ONNX_MAX_RANK, count);

    for (int i = 0; !st && i < *count; i++) {
        st = pdl__onnx_normal_axis(o, axes[i], rank, &axis);
        if (!st) wanted[axis] = true;
    }
    return st;
}

pdl_status_t pdl__onnx_squeeze(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y;
    bool               wanted[PDL__ONNX_MAX_RANK] = {false};
    int                count;
    pdl_status_t       st = start_view(o, &y);

    if (!st) st = wanted_axes(o, y->view.rank, wanted, &count);
    for (int i = st ? -1 : y->view.rank - 1; i >= 0; i--) {
        if (count >= 0 && !wanted[i]) continue;
        if (y->view.dims[i] == 1)
            pdl__onnx_view_drop(&y->view, i);
        else if (count >= 0)
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "dimension %d has %lld elements and cannot be left out", i,
                                  (long long)y->view.dims[i]);
    }
    return st ? st : pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_unsqueeze(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y;
    int64_t            axes[PDL__ONNX_MAX_RANK];
    bool               wanted[PDL__ONNX_MAX_RANK] = {false};
    int                count, rank;
    pdl_status_t       st = pdl__onnx_ints(o, "axes", 1, axes, PDL__ONNX_MAX_RANK, &count);

    if (!st) st = start_view(o, &y);
    if (st) return st;
    if (count < 0) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the axes are missing");
    rank = y->view.rank + count;
    if (rank > PDL__ONNX_MAX_RANK)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the result has more than %d dimensions", PDL__ONNX_MAX_RANK);
    st = wanted_axes(o, rank, wanted, &count);
    for (int i = 0; !st && i < rank && y->view.rank < rank; i++)
        if (wanted[i]) pdl__onnx_view_insert(&y->view, i);
    if (!st && y->view.rank != rank) return pdl__onnx_fail(o, PDL_ERR_INPUT, "an axis is named twice");
    return st ? st : pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_expand(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y;
    pdl__onnx_view_t   shape = {0}, out = {0};
    int64_t            origin[PDL__ONNX_MAX_RANK] = {0}, step[PDL__ONNX_MAX_RANK];
    int                order[PDL__ONNX_MAX_RANK];
    pdl_status_t       st = pdl__onnx_ints(o, NULL, 1, shape.dims, PDL__ONNX_MAX_RANK, &shape.rank);

    if (!st) st = start_view(o, &y);
    if (st) return st;
    for (int i = 0; i < shape.rank; i++)
        if (shape.dims[i] < 0) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the new shape has a negative dimension");
    st = pdl__onnx_broadcast(o, &x->view, &shape, &out);
    if (st) return st;
    if (x->kind != PDL__ONNX_CONSTANT) {
        if (pdl__onnx_elements(&out) != pdl__onnx_elements(&x->view))
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "repeating an activation is not supported");
        st = set_dims(o, y, out.dims, out.rank);
        return st ? st : pdl__onnx_output(o, 0, y);
    }
    y->view = out;
    while (x->view.rank < out.rank) pdl__onnx_view_insert(&x->view, 0); /* leading ones change nothing */
    for (int i = 0; i < out.rank; i++) {
        order[i] = i;
        step[i] = x->view.dims[i] == 1 ? 0 : 1;
    }
    st = pdl__onnx_fold_pick(o, x, y, order, origin, step);
    return st ? st : pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_shape_of(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    int64_t            begin = pdl__onnx_int(o, "start", 0), end = pdl__onnx_int(o, "end", x->view.rank);
    bool               size = strcmp(o->node->op_type, "Size") == 0;
    pdl_status_t       st;

    if (y == NULL) return PDL_ERR_NOMEM;
    if (begin < 0) begin += x->view.rank;
    if (end < 0) end += x->view.rank;
    if (begin < 0) begin = 0;
    if (end > x->view.rank) end = x->view.rank;
    y->view.rank = size ? 0 : 1;
    y->view.dims[0] = end > begin ? end - begin : 0;
    st = pdl__onnx_make_room(o, y);
    if (st) return st;
    if (y->data == NULL) return pdl__onnx_fail(o, PDL_ERR_LIMIT, "too many constants to work out");
    if (size) y->data[0] = (double)pdl__onnx_elements(&x->view);
    for (int64_t i = 0; !size && i < y->view.dims[0]; i++) y->data[i] = (double)x->view.dims[begin + i];
    return pdl__onnx_output(o, 0, y);
}
