/*
 * Which rows of a convolution over a part in space miss something, and where computing them apart is possible and
 * pays: answered from the plan alone, for every member of the axis.
 */
#include "train/halo.h"
#include <stdlib.h>

/* At most this part of the output rows of a member is computed twice. */
#define MOST_BORDER 4

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool is_empty(pdl_range_t range)
{
    return range.low >= range.high;
}

static int64_t extent(pdl_range_t range)
{
    return range.high - range.low;
}

static pdl_range_t common(pdl_range_t a, pdl_range_t b)
{
    return (pdl_range_t){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

/* The outputs whose windows reach over own rows, and what they need. */
static void find_borders(const pdl_layer_t *layer, int dim, pdl__halo_rows_t *r)
{
    int64_t stride = layer->stride[dim], pad = layer->pad_low[dim];
    int64_t window = (layer->kernel[dim] - 1) * layer->dilation[dim] + 1;
    int64_t first = r->out.low * stride - pad, last = (r->out.high - 1) * stride - pad + window, low, high;

    r->pad_low = r->own.low - first;
    r->pad_high = last - r->own.high;
    if (r->own.low > 0 && first < r->own.low)
        r->border[0] = common(r->out, (pdl_range_t){r->out.low, -floor_divide(-(r->own.low + pad), stride)});
    if (r->own.high < layer->in.extent[dim] && last > r->own.high)
        r->border[1] =
            common(r->out, (pdl_range_t){floor_divide(r->own.high + pad - window, stride) + 1, r->out.high});
    for (int side = 0; side < 2; side++)
        if (!is_empty(r->border[side]))
            r->strip[side] = pdl__window_needs(layer, dim, r->border[side], &low, &high);
    r->halo[0] = (pdl_range_t){r->strip[0].low, is_empty(r->border[0]) ? r->strip[0].low : r->own.low};
    r->halo[1] = (pdl_range_t){is_empty(r->border[1]) ? r->strip[1].high : r->own.high, r->strip[1].high};
}

/* Low halos are the last rows of members before, high ones the first rows of members behind. */
static void find_gifts(pdl__halo_rows_t *rows, int64_t members)
{
    for (int64_t m = 0; m < members; m++) {
        pdl__halo_rows_t *r = &rows[m];
        r->gives[0] = (pdl_range_t){r->own.high, r->own.high};
        r->gives[1] = (pdl_range_t){r->own.low, r->own.low};
        for (int64_t k = 0; k < members; k++) {
            pdl_range_t low = common(rows[k].halo[0], r->own), high = common(rows[k].halo[1], r->own);
            if (!is_empty(low) && low.low < r->gives[0].low) r->gives[0].low = low.low;
            if (!is_empty(high) && high.high > r->gives[1].high) r->gives[1].high = high.high;
        }
    }
}

static int dim_of(const pdl__layouts_t *l, int layer, int axis)
{
    return (int)(l->layer[layer].reads.on[axis] - PDL_SPLIT_S0);
}

pdl_status_t pdl__halo_members(const pdl__layouts_t *l, int index, int axis, pdl__halo_rows_t *rows)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    int64_t            members = l->plan->mesh.axis[axis].size;
    int                dim = dim_of(l, index, axis);

    for (int64_t m = 0; m < members; m++) {
        pdl_region_t in, out;
        pdl_status_t status = pdl__layouts_region(l, &l->layer[index].reads, &layer->in, axis, m, &in);
        if (!status) status = pdl__layouts_region(l, &l->layer[index].out, &layer->out, axis, m, &out);
        if (status) return status;
        rows[m] =
            (pdl__halo_rows_t){.own = in.range[PDL_DIM_SPACE + dim][0], .out = out.range[PDL_DIM_SPACE + dim][0]};
        find_borders(layer, dim, &rows[m]);
    }
    find_gifts(rows, members);
    return PDL_OK;
}

/* Whether the layer can run on a member's own rows, and both borders apart from each other and from most of it. */
static bool is_possible(const pdl_layer_t *layer, int dim, const pdl__halo_rows_t *r)
{
    if (r->pad_low < 0 || r->pad_high <= -layer->stride[dim]) return false;
    if (MOST_BORDER * (extent(r->border[0]) + extent(r->border[1])) > extent(r->out)) return false;
    if (!is_empty(r->border[0]) && r->strip[0].high > r->own.high) return false;
    return is_empty(r->border[1]) || r->strip[1].low >= r->own.low;
}

/* Whether no other axis cuts the same extent: then what members have depends on this axis only. */
static bool cuts_alone(const pdl__layouts_t *l, int layer, int axis)
{
    const pdl_layout_t *reads = &l->layer[layer].reads, *out = &l->layer[layer].out;

    if (reads->on[axis] != out->on[axis] || reads->on[axis] < PDL_SPLIT_S0) return false;
    for (int a = 0; a < l->plan->mesh.axis_count; a++)
        if (a != axis && l->plan->mesh.axis[a].size > 1 &&
            (reads->on[a] == reads->on[axis] || out->on[a] == reads->on[axis]))
            return false;
    return true;
}

/* Of the members of an axis: whether any needs other rows than its own, and whether all can do so. */
static void study_axis(const pdl__layouts_t *l, int index, int axis, bool *needed, bool *possible)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    int64_t            members = l->plan->mesh.axis[axis].size, low, high;
    pdl__halo_rows_t  *rows = malloc((size_t)members * sizeof(*rows));
    int                dim = dim_of(l, index, axis);

    *possible = rows && cuts_alone(l, index, axis) && !pdl__halo_members(l, index, axis, rows);
    *needed = true;
    if (*possible) {
        *needed = false;
        for (int64_t m = 0; m < members; m++) {
            pdl_range_t need = pdl__window_needs(layer, dim, rows[m].out, &low, &high);
            *needed |= need.low != rows[m].own.low || need.high != rows[m].own.high;
            *possible &= is_possible(layer, dim, &rows[m]);
        }
    }
    free(rows);
}

int pdl__halo_axis(const pdl__layouts_t *l, int index)
{
    unsigned axes = pdl__layouts_axes(l, index, PDL_MODE_SPACE);
    bool     needed = false, possible = false;

    if (l->trivial || pdl_model_layer(l->plan->model, index)->type != PDL_LAYER_CONV) return -1;
    for (int a = l->plan->mesh.axis_count - 1; a >= 0; a--) {
        if (!(axes >> a & 1)) continue;
        study_axis(l, index, a, &needed, &possible);
        if (needed) return possible ? a : -1;
    }
    return -1;
}

pdl_status_t pdl__halo_arrives(const pdl__layouts_t *l, int index, int axis, pdl_region_t *region)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    unsigned           axes = pdl__layouts_axes(l, index, PDL_MODE_SPACE);
    int64_t            low, high;
    pdl_region_t       out;
    pdl_status_t       status = pdl__layouts_region(l, &l->layer[index].reads, &layer->in, -1, 0, region);

    if (!status) status = pdl__layouts_region(l, &l->layer[index].out, &layer->out, -1, 0, &out);
    for (int a = 0; a < l->plan->mesh.axis_count && !status; a++) {
        if (!(axes >> a & 1) || a == axis) continue;
        int dim = dim_of(l, index, a);
        region->range[PDL_DIM_SPACE + dim][0] =
            pdl__window_needs(layer, dim, out.range[PDL_DIM_SPACE + dim][0], &low, &high);
    }
    return status;
}
