/*
 * Padding in a node of its own: it waits for the window that slides over it.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* The number that padding is filled with: an attribute, or operand 2. */
static pdl_status_t read_fill(pdl__onnx_t *o, double *fill)
{
    const Onnx__AttributeProto *a = pdl__onnx_attribute(o, "value");
    pdl__onnx_value_t          *operand = pdl__onnx_input(o, 2);
    const char                 *mode = pdl__onnx_string(o, "mode", "constant");

    if (mode == NULL) return PDL_ERR_NOMEM;
    if (strcmp(mode, "constant") != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "padding by %.40s; only constant padding is supported", mode);
    *fill = a != NULL && a->has_f ? (double)a->f : 0;
    if (operand != NULL && !pdl__onnx_scalar(o, operand, fill))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "the number to pad with is not in the file");
    return PDL_OK;
}

/* Padding per dimension: all beginnings, then all ends. Operand 3 may name the dimensions. */
static pdl_status_t read_paddings(pdl__onnx_t *o, int rank, int64_t *pads)
{
    const char  *name = pdl__onnx_attribute(o, "paddings") != NULL ? "paddings" : "pads"; /* operator set 1 */
    int64_t      given[2 * PDL__ONNX_MAX_RANK], axes[PDL__ONNX_MAX_RANK];
    int          count, axis_count, axis;
    pdl_status_t st = pdl__onnx_ints(o, name, 1, given, 2 * PDL__ONNX_MAX_RANK, &count);

    if (!st) st = pdl__onnx_ints(o, NULL, 3, axes, PDL__ONNX_MAX_RANK, &axis_count);
    if (st) return st;
    if (axis_count < 0) axis_count = rank;
    if (count != 2 * axis_count)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%d paddings for %d dimensions", count, axis_count);
    memset(pads, 0, 2 * PDL__ONNX_MAX_RANK * sizeof *pads);
    for (int i = 0; i < axis_count; i++) {
        st = pdl__onnx_normal_axis(o, pdl__onnx_input(o, 3) != NULL ? axes[i] : i, rank, &axis);
        if (st) return st;
        pads[axis] = given[i];
        pads[rank + axis] = given[axis_count + i];
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_pad(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y;
    int64_t            pads[2 * PDL__ONNX_MAX_RANK];
    int                rank = x->view.rank;
    bool               any = false;
    pdl_status_t       st = read_paddings(o, rank, pads);

    if (st) return st;
    for (int i = 0; i < 2 * rank; i++) any = any || pads[i] != 0;
    if (!any) return pdl__onnx_pass(o);
    st = pdl__onnx_materialise(o, x);
    if (st) return st;
    y = pdl__onnx_copy(o, x);
    if (y == NULL) return PDL_ERR_NOMEM;
    st = read_fill(o, &y->pad_value);
    if (st) return st;
    for (int i = 0; i < rank; i++) {
        int64_t low = pads[i], high = pads[rank + i];

        if (low < 0 || high < 0 || low > INT32_MAX || high > INT32_MAX || (i < 2 && (low != 0 || high != 0)) ||
            (i >= 2 + PDL_MAX_SPACE && (low != 0 || high != 0)))
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "only space can be padded, and not be cropped");
        if (i < 2 || i >= 2 + PDL_MAX_SPACE) continue;
        y->pad_low[i - 2] = low;
        y->pad_high[i - 2] = high;
        y->view.dims[i] += low + high;
    }
    y->padded = true;
    return pdl__onnx_output(o, 0, y);
}
