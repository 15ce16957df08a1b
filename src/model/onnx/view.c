/*
 * Views: which elements of a layer's output a reshaped or transposed tensor shows, and in which order.
 */
#include "model/onnx/graph.h"

#include <string.h>

/* Appends an atom to the dimension being written, joining it with a neighbour that continues it. */
static bool append(pdl__onnx_view_t *view, int dim, int axis, int64_t size, int64_t stride)
{
    int end = view->start[dim + 1];

    if (size == 1) return true;
    if (end > view->start[dim]) {
        pdl__onnx_atom_t *last = &view->atoms[end - 1];

        if (last->axis == axis && last->stride == stride * size) {
            last->size *= size;
            last->stride = stride;
            return true;
        }
    }
    if (end == PDL__ONNX_MAX_ATOMS) return false;
    view->atoms[end] = (pdl__onnx_atom_t){axis, size, stride};
    view->start[dim + 1] = end + 1;
    return true;
}

static void start_dim(pdl__onnx_view_t *view, int dim, int64_t size)
{
    view->dims[dim] = size;
    view->start[dim + 1] = view->start[dim];
}

void pdl__onnx_view_of(const pdl_shape_t *shape, int64_t batch, bool channels_last, pdl__onnx_view_t *view)
{
    int channel_dim = channels_last ? shape->rank + 1 : 1;

    memset(view, 0, sizeof *view);
    view->rank = shape->rank + 2;
    for (int i = 0; i < view->rank; i++) {
        int     space = i - (channels_last ? 1 : 2);
        bool    channels = i == channel_dim;
        int64_t size = i == 0 ? batch : channels ? shape->channels : shape->extent[space];

        start_dim(view, i, size);
        append(view, i, i == 0 ? PDL__AXIS_BATCH : channels ? PDL__AXIS_CHANNEL : PDL__AXIS_SPACE + space, size, 1);
    }
}

pdl_status_t pdl__onnx_view_reshape(const pdl__onnx_t *o, pdl__onnx_view_t *view, const int64_t *dims, int rank)
{
    pdl__onnx_view_t from = *view, to = {.rank = rank, .channel_begin = view->channel_begin};
    int              next = 0, end = from.start[from.rank];

    for (int i = 0; i < rank; i++) {
        int64_t need = dims[i];

        start_dim(&to, i, dims[i]);
        while (need > 1) {
            pdl__onnx_atom_t *atom = &from.atoms[next];
            int64_t           take;

            if (next == end) goto mixed;
            if (need % atom->size == 0)
                take = atom->size;
            else if (atom->size % need == 0)
                take = need;
            else
                goto mixed;
            if (!append(&to, i, atom->axis, take, atom->stride * (atom->size / take))) goto mixed;
            need /= take;
            atom->size /= take;
            if (atom->size == 1) next++;
        }
    }
    if (next != end) goto mixed;
    *view = to;
    return PDL_OK;

mixed:
    return pdl__onnx_fail(
        o, PDL_ERR_UNSUPPORTED,
        "the new shape mixes dimensions in a way that no layer has; export with the usual layers");
}

void pdl__onnx_view_transpose(pdl__onnx_view_t *view, const int *order)
{
    pdl__onnx_view_t from = *view;

    for (int i = 0; i < from.rank; i++) {
        start_dim(view, i, from.dims[order[i]]);
        for (int a = from.start[order[i]]; a < from.start[order[i] + 1]; a++)
            view->atoms[view->start[i + 1]++] = from.atoms[a];
    }
}

/* Rewrites the atoms of one dimension; the atoms of later ones move. */
static void replace(pdl__onnx_view_t *view, int dim, int64_t size, const pdl__onnx_atom_t *atom)
{
    pdl__onnx_view_t from = *view;
    int              shift;

    start_dim(view, dim, size);
    if (atom != NULL && atom->size > 1) append(view, dim, atom->axis, atom->size, atom->stride);
    shift = view->start[dim + 1] - from.start[dim + 1];
    for (int i = dim + 1; i < from.rank; i++) view->start[i + 1] = from.start[i + 1] + shift;
    for (int a = from.start[dim + 1]; a < from.start[from.rank]; a++) view->atoms[a + shift] = from.atoms[a];
}

bool pdl__onnx_view_cut(pdl__onnx_view_t *view, int dim, int64_t begin, int64_t count)
{
    pdl__onnx_atom_t atom = view->atoms[view->start[dim]];

    if (begin == 0 && count == view->dims[dim]) return true;
    if (view->start[dim + 1] - view->start[dim] != 1 || atom.axis != PDL__AXIS_CHANNEL) return false;
    view->channel_begin += begin * atom.stride;
    atom.size = count;
    replace(view, dim, count, &atom);
    return true;
}

void pdl__onnx_view_drop(pdl__onnx_view_t *view, int dim)
{
    for (int i = dim; i + 1 < view->rank; i++) {
        view->dims[i] = view->dims[i + 1];
        view->start[i + 1] = view->start[i + 2];
    }
    view->rank--;
}

void pdl__onnx_view_insert(pdl__onnx_view_t *view, int dim)
{
    for (int i = view->rank; i > dim; i--) {
        view->dims[i] = view->dims[i - 1];
        view->start[i + 1] = view->start[i];
    }
    view->rank++;
    start_dim(view, dim, 1);
}

void pdl__onnx_view_set(pdl__onnx_view_t *view, int dim, int axis, int64_t size)
{
    pdl__onnx_atom_t atom = {axis, size, 1};

    replace(view, dim, size, &atom);
}

bool pdl__onnx_view_equal(const pdl__onnx_view_t *a, const pdl__onnx_view_t *b)
{
    if (a->rank != b->rank || a->channel_begin != b->channel_begin) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] || a->start[i + 1] != b->start[i + 1]) return false;
    for (int i = 0; i < a->start[a->rank]; i++)
        if (a->atoms[i].axis != b->atoms[i].axis || a->atoms[i].size != b->atoms[i].size ||
            a->atoms[i].stride != b->atoms[i].stride)
            return false;
    return true;
}

bool pdl__onnx_dim_is_axis(const pdl__onnx_view_t *view, int dim, int axis, int64_t size)
{
    const pdl__onnx_atom_t *atom = &view->atoms[view->start[dim]];
    int                     count = view->start[dim + 1] - view->start[dim];

    if (view->dims[dim] != size) return false;
    return size == 1 ? count == 0 : count == 1 && atom->axis == axis && atom->stride == 1;
}

bool pdl__onnx_dim_is_channels(const pdl__onnx_view_t *view, int dim, int64_t channels)
{
    return view->channel_begin == 0 && pdl__onnx_dim_is_axis(view, dim, PDL__AXIS_CHANNEL, channels);
}

int64_t pdl__onnx_view_batch(const pdl__onnx_view_t *view)
{
    int64_t batch = 1;

    for (int i = 0; i < view->start[view->rank]; i++)
        if (view->atoms[i].axis == PDL__AXIS_BATCH) batch *= view->atoms[i].size;
    return batch;
}
