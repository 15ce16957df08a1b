/*
 * Operators that make constants from a few numbers: ranges, fills, triangles, sums.
 */
#include "model/onnx/graph.h"

#include <math.h>
#include <string.h>

pdl_status_t pdl__onnx_fold_range(pdl__onnx_t *o)
{
    pdl__onnx_value_t *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT);
    double             limit[3] = {0, 0, 1}, count;
    pdl_status_t       st;

    if (y == NULL) return PDL_ERR_NOMEM;
    for (size_t i = 0; i < 3; i++) {
        pdl__onnx_value_t *x = pdl__onnx_input(o, i);

        if (x == NULL || !pdl__onnx_scalar(o, x, &limit[i]))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "the range is not known; export with fixed input sizes");
        y->real = y->real || x->real;
    }
    count = ceil((limit[1] - limit[0]) / limit[2]);
    if (!(count <= 1e9)) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the range does not end");
    y->view.rank = 1;
    y->view.dims[0] = count > 0 ? (int64_t)count : 0;
    st = pdl__onnx_make_room(o, y);
    if (st) return st;
    for (int64_t i = 0; y->data != NULL && i < y->view.dims[0]; i++) y->data[i] = limit[0] + (double)i * limit[2];
    return pdl__onnx_output(o, 0, y);
}

/* ConstantOfShape */
pdl_status_t pdl__onnx_fold_fill(pdl__onnx_t *o)
{
    const Onnx__AttributeProto *a = pdl__onnx_attribute(o, "value");
    pdl__onnx_value_t          *y = pdl__onnx_new(o, PDL__ONNX_CONSTANT), *fill;
    double                      number = 0;
    pdl_status_t                st;
    int                         rank;

    if (y == NULL) return PDL_ERR_NOMEM;
    st = pdl__onnx_ints(o, NULL, 0, y->view.dims, PDL__ONNX_MAX_RANK, &rank);
    if (st) return st;
    y->view.rank = rank > 0 ? rank : 0;
    for (int i = 0; i < rank; i++)
        if (y->view.dims[i] < 0) return pdl__onnx_fail(o, PDL_ERR_INPUT, "a dimension is negative");
    y->real = a == NULL;
    if (a != NULL && a->t != NULL) {
        st = pdl__onnx_from_tensor(o, a->t, &fill);
        if (st) return st;
        y->real = fill->real;
        if (!pdl__onnx_scalar(o, fill, &number))
            return pdl__onnx_fail(o, PDL_ERR_INPUT, "attribute value must be one number");
    }
    st = pdl__onnx_make_room(o, y);
    if (st) return st;
    for (int64_t i = 0; y->data != NULL && i < pdl__onnx_elements(&y->view); i++) y->data[i] = number;
    return pdl__onnx_output(o, 0, y);
}

pdl_status_t pdl__onnx_fold_trilu(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *shift = pdl__onnx_input(o, 1), *y = pdl__onnx_copy(o, x);
    const double      *numbers = pdl__onnx_numbers(o, x);
    bool               upper = pdl__onnx_int(o, "upper", 1) != 0;
    double             k = 0;
    pdl_status_t       st;

    if (y == NULL) return PDL_ERR_NOMEM;
    if (x->view.rank < 2) return pdl__onnx_fail(o, PDL_ERR_INPUT, "a triangle needs two dimensions");
    y->data = NULL;
    y->tensor = y->stored = NULL;
    if (numbers != NULL && (shift == NULL || pdl__onnx_scalar(o, shift, &k))) {
        int64_t columns = x->view.dims[x->view.rank - 1], rows = x->view.dims[x->view.rank - 2];

        st = pdl__onnx_make_room(o, y);
        if (st) return st;
        for (int64_t i = 0; y->data != NULL && i < pdl__onnx_elements(&y->view); i++) {
            double from_diagonal = (double)(i % columns) - (double)(i / columns % rows) - k;

            y->data[i] = (upper ? from_diagonal >= 0 : from_diagonal <= 0) ? numbers[i] : 0;
        }
    }
    return pdl__onnx_output(o, 0, y);
}

static double combine(const char *op, double sum, double x)
{
    if (strcmp(op, "ReduceProd") == 0) return sum * x;
    if (strcmp(op, "ReduceMax") == 0) return fmax(sum, x);
    if (strcmp(op, "ReduceMin") == 0) return fmin(sum, x);
    return sum + x;
}

static double neutral(const char *op)
{
    if (strcmp(op, "ReduceProd") == 0) return 1;
    if (strcmp(op, "ReduceMax") == 0) return -INFINITY;
    return strcmp(op, "ReduceMin") == 0 ? INFINITY : 0;
}

pdl_status_t pdl__onnx_fold_reduce(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y = pdl__onnx_copy(o, x);
    const double      *numbers = pdl__onnx_numbers(o, x);
    int64_t            axes[PDL__ONNX_MAX_RANK], index[PDL__ONNX_MAX_RANK] = {0};
    const char        *op = o->node->op_type;
    int                count, axis;
    bool               all, gone[PDL__ONNX_MAX_RANK] = {false};
    pdl_status_t       st = pdl__onnx_ints(o, "axes", 1, axes, PDL__ONNX_MAX_RANK, &count);

    if (y == NULL) return PDL_ERR_NOMEM;
    if (st) return st;
    all = count <= 0 && pdl__onnx_int(o, "noop_with_empty_axes", 0) == 0;
    for (int i = 0; i < (all ? x->view.rank : count); i++) {
        st = pdl__onnx_normal_axis(o, all ? i : axes[i], x->view.rank, &axis);
        if (st) return st;
        gone[axis] = true;
        y->view.dims[axis] = 1;
    }
    y->data = NULL;
    y->tensor = NULL;
    st = numbers != NULL ? pdl__onnx_make_room(o, y) : PDL_OK;
    if (st) return st;
    for (int64_t i = 0; y->data != NULL && i < pdl__onnx_elements(&y->view); i++) y->data[i] = neutral(op);
    for (int64_t i = 0; y->data != NULL && i < pdl__onnx_elements(&x->view); i++) {
        double *sum = &y->data[pdl__onnx_offset(&y->view, index, x->view.rank)];

        *sum = combine(op, *sum, numbers[i]);
        pdl__onnx_next(&x->view, index);
    }
    for (int i = x->view.rank - 1; i >= 0 && pdl__onnx_int(o, "keepdims", 1) == 0; i--) {
        if (!gone[i]) continue;
        for (int d = i; d + 1 < y->view.rank; d++) y->view.dims[d] = y->view.dims[d + 1];
        y->view.rank--;
    }
    return pdl__onnx_output(o, 0, y);
}
