/*
 * Parts of tensors: slice, split and gather. Of an activation, channels can be cut for an attention and one
 * position of a sequence can be selected.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* One position of a sequence; the dimension keeps its place with one element. */
static pdl_status_t select_position(pdl__onnx_t *o, pdl__onnx_value_t *x, int dim, int64_t index,
                                    pdl__onnx_value_t *y)
{
    pdl_layer_t        layer = pdl__layer_default(PDL_LAYER_SELECT);
    const pdl_shape_t *shape;
    pdl_status_t       st = pdl__onnx_materialise(o, x);

    if (st) return st;
    shape = pdl__onnx_shape(o, x);
    if (!shape->sequence || !pdl__onnx_dim_is_axis(&x->view, dim, PDL__AXIS_SPACE, shape->extent[0]))
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "only one position of a sequence, or channels for an attention, "
                              "can be cut out of an activation");
    layer.index = index;
    y->kind = PDL__ONNX_ACTIVATION;
    y->view = x->view;
    pdl__onnx_view_set(&y->view, dim, PDL__AXIS_SPACE, 1);
    return pdl__onnx_add(o, &layer, o->node, NULL, &x->layer, 1, &y->layer);
}

static pdl_status_t cut(pdl__onnx_t *o, pdl__onnx_value_t *x, int dim, int64_t begin, int64_t count,
                        pdl__onnx_value_t **result)
{
    pdl__onnx_value_t *y;
    pdl_status_t       st;

    if (count < 1) return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "nothing is left of an activation");
    if (x->kind != PDL__ONNX_ACTIVATION) return pdl__onnx_settle(o, x);
    st = pdl__onnx_settle(o, x);
    if (st) return st;
    y = pdl__onnx_copy(o, x);
    if (y == NULL) return PDL_ERR_NOMEM;
    *result = y;
    if (pdl__onnx_view_cut(&y->view, dim, begin, count)) return PDL_OK;
    if (count != 1)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "only one position of a sequence, or channels for an attention, "
                              "can be cut out of an activation");
    *result = pdl__onnx_new(o, PDL__ONNX_ACTIVATION);
    return *result != NULL ? select_position(o, x, dim, begin, *result) : PDL_ERR_NOMEM;
}

typedef struct range {
    int64_t begin[PDL__ONNX_MAX_RANK], step[PDL__ONNX_MAX_RANK], count[PDL__ONNX_MAX_RANK];
} range_t;

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static pdl_status_t read_range(pdl__onnx_t *o, const pdl__onnx_view_t *view, range_t *range)
{
    int64_t      starts[PDL__ONNX_MAX_RANK], ends[PDL__ONNX_MAX_RANK], axes[PDL__ONNX_MAX_RANK];
    int64_t      steps[PDL__ONNX_MAX_RANK];
    int          start_count, end_count, axis_count, step_count, axis;
    pdl_status_t st = pdl__onnx_ints(o, "starts", 1, starts, PDL__ONNX_MAX_RANK, &start_count);

    if (!st) st = pdl__onnx_ints(o, "ends", 2, ends, PDL__ONNX_MAX_RANK, &end_count);
    if (!st) st = pdl__onnx_ints(o, "axes", 3, axes, PDL__ONNX_MAX_RANK, &axis_count);
    if (!st) st = pdl__onnx_ints(o, "steps", 4, steps, PDL__ONNX_MAX_RANK, &step_count);
    if (st) return st;
    if (start_count < 0 || end_count != start_count || (axis_count >= 0 && axis_count != start_count) ||
        (step_count >= 0 && step_count != start_count))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "starts, ends, axes and steps differ in length");
    for (int i = 0; i < view->rank; i++) {
        range->begin[i] = 0;
        range->step[i] = 1;
        range->count[i] = view->dims[i];
    }
    for (int i = 0; i < start_count; i++) {
        int64_t n, begin, end, step = step_count >= 0 ? steps[i] : 1;

        st = pdl__onnx_normal_axis(o, axis_count >= 0 ? axes[i] : i, view->rank, &axis);
        if (st) return st;
        n = view->dims[axis];
        if (step == 0 || step < -n - 1) return pdl__onnx_fail(o, PDL_ERR_INPUT, "a step of %lld", (long long)step);
        begin = starts[i] < 0 && starts[i] >= -n ? starts[i] + n : starts[i];
        end = ends[i] < 0 && ends[i] >= -n ? ends[i] + n : ends[i];
        begin = step > 0 ? clamp(begin, 0, n) : clamp(begin, 0, n - 1);
        end = step > 0 ? clamp(end, 0, n) : clamp(end, -1, n - 1);
        range->begin[axis] = begin;
        range->step[axis] = step;
        if (step > 0)
            range->count[axis] = end > begin ? (end - begin - 1) / step + 1 : 0;
        else
            range->count[axis] = begin > end ? (begin - end - 1) / -step + 1 : 0;
    }
    return PDL_OK;
}

pdl_status_t pdl__onnx_slice(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *y = x;
    int                order[PDL__ONNX_MAX_RANK];
    range_t            range;
    pdl_status_t       st = read_range(o, &x->view, &range);

    if (st) return st;
    if (x->kind == PDL__ONNX_CONSTANT) {
        y = pdl__onnx_copy(o, x);
        if (y == NULL) return PDL_ERR_NOMEM;
        for (int i = 0; i < x->view.rank; i++) {
            order[i] = i;
            y->view.dims[i] = range.count[i];
        }
        st = pdl__onnx_fold_pick(o, x, y, order, range.begin, range.step);
        return st ? st : pdl__onnx_output(o, 0, y);
    }
    for (int i = 0; i < x->view.rank; i++) {
        if (range.step[i] == 1 && range.begin[i] == 0 && range.count[i] == x->view.dims[i]) continue;
        if (range.step[i] != 1 && range.count[i] != 1)
            return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "every second element of an activation cannot be taken");
        st = cut(o, y, i, range.begin[i], range.count[i], &y);
        if (st) return st;
    }
    return y == x ? pdl__onnx_pass(o) : pdl__onnx_output(o, 0, y);
}

static pdl_status_t split_part(pdl__onnx_t *o, pdl__onnx_value_t *x, int axis, int64_t begin, int64_t count,
                               size_t i)
{
    int64_t            origin[PDL__ONNX_MAX_RANK] = {0}, step[PDL__ONNX_MAX_RANK];
    int                order[PDL__ONNX_MAX_RANK];
    pdl__onnx_value_t *y = NULL;
    pdl_status_t       st;

    if (x->kind != PDL__ONNX_CONSTANT) {
        st = cut(o, x, axis, begin, count, &y);
        return st ? st : pdl__onnx_output(o, i, y);
    }
    y = pdl__onnx_copy(o, x);
    if (y == NULL) return PDL_ERR_NOMEM;
    for (int d = 0; d < x->view.rank; d++) {
        order[d] = d;
        step[d] = 1;
    }
    origin[axis] = begin;
    y->view.dims[axis] = count;
    st = pdl__onnx_fold_pick(o, x, y, order, origin, step);
    return st ? st : pdl__onnx_output(o, i, y);
}

pdl_status_t pdl__onnx_split(pdl__onnx_t *o)
{
    enum { MAX_PARTS = 64 };
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0);
    int64_t            parts[MAX_PARTS], begin = 0;
    int                axis, count, n = (int)o->node->n_output;
    pdl_status_t       st = pdl__onnx_ints(o, "split", 1, parts, MAX_PARTS, &count);

    if (!st) st = pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", 0), x->view.rank, &axis);
    if (st) return st;
    if (count < 0 && pdl__onnx_attribute(o, "num_outputs") != NULL && pdl__onnx_int(o, "num_outputs", 0) != n)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "num_outputs is not the number of results");
    if (n < 1 || n > MAX_PARTS || (count >= 0 && count != n))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%d parts for %d results", count, n);
    if (count < 0 && o->opset < 18 && x->view.dims[axis] % n != 0)
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "%lld elements cannot be split into %d equal parts",
                              (long long)x->view.dims[axis], n);
    for (int i = 0; i < n; i++) {
        int64_t all = x->view.dims[axis], each = all / n + (all % n != 0), left = all - begin;
        int64_t part = count >= 0 ? parts[i] : each < left ? each : left;

        if (part < 0 || part > left) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the parts do not sum to the whole");
        st = split_part(o, x, axis, begin, part, (size_t)i);
        if (st) return st;
        begin += part;
    }
    if (begin != x->view.dims[axis]) return pdl__onnx_fail(o, PDL_ERR_INPUT, "the parts do not sum to the whole");
    return PDL_OK;
}

/* x: token indices, weight: [vocabulary][channels] */
static pdl_status_t embed(pdl__onnx_t *o, pdl__onnx_value_t *weight, pdl__onnx_value_t *x)
{
    pdl_layer_t      layer = pdl__layer_default(PDL_LAYER_EMBEDDING);
    pdl__onnx_view_t view;
    int              added;
    pdl_status_t     st;

    if (weight->view.rank != 2 || pdl__onnx_int(o, "axis", 0) != 0)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "an embedding needs a table of two dimensions");
    st = pdl__onnx_materialise(o, x);
    if (st) return st;
    if (x->view.rank + 1 > PDL__ONNX_MAX_RANK)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED, "the result has more than %d dimensions", PDL__ONNX_MAX_RANK);
    layer.vocabulary = weight->view.dims[0];
    layer.out.channels = weight->view.dims[1];
    st = pdl__onnx_add(o, &layer, o->node, weight->label, &x->layer, 1, &added);
    if (!st) st = pdl__onnx_bind(o, added, &(pdl__onnx_parts_t){.part = {weight}});
    if (st) return st;
    view = x->view;
    pdl__onnx_view_insert(&view, view.rank);
    pdl__onnx_view_set(&view, view.rank - 1, PDL__AXIS_CHANNEL, layer.out.channels);
    weight->layer = added; /* a head that uses the same table is tied to this layer */
    return pdl__onnx_output_view(o, added, &view);
}

pdl_status_t pdl__onnx_gather(pdl__onnx_t *o)
{
    pdl__onnx_value_t *x = pdl__onnx_input(o, 0), *at = pdl__onnx_input(o, 1), *y;
    double             index;
    int                axis;
    pdl_status_t       st;

    if (x->kind == PDL__ONNX_CONSTANT) return embed(o, x, at);
    st = pdl__onnx_normal_axis(o, pdl__onnx_int(o, "axis", 0), x->view.rank, &axis);
    if (st) return st;
    if (!pdl__onnx_scalar(o, at, &index) || at->view.rank > 1)
        return pdl__onnx_fail(o, PDL_ERR_UNSUPPORTED,
                              "only one element, known in advance, can be gathered from an "
                              "activation");
    if (index < 0) index += (double)x->view.dims[axis];
    if (!(index >= 0 && index < (double)x->view.dims[axis]))
        return pdl__onnx_fail(o, PDL_ERR_INPUT, "index %g is outside a dimension of %lld", index,
                              (long long)x->view.dims[axis]);
    st = cut(o, x, axis, (int64_t)index, 1, &y);
    if (st) return st;
    if (at->view.rank == 0) pdl__onnx_view_drop(&y->view, axis);
    return pdl__onnx_output(o, 0, y);
}
