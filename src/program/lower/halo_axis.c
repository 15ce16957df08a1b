/*
 * Which halo a convolution over a part in space gets by itself: answered from the plan alone.
 */
#include "program/lower/halo.h"
#include <paradl/plan/border.h>
#include <paradl/plan/rules.h>

static int dim_of(const pdl__layouts_t *l, int layer, int axis)
{
    return (int)(l->layer[layer].reads.on[axis] - PDL_SPLIT_S0);
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

/* Whether a member of the axis needs other rows than its own. */
static bool is_needed(const pdl_window_t *window, int64_t members)
{
    for (int64_t m = 0; m < members; m++) {
        pdl_border_t b;
        pdl_border_find(window, members, m, &b);
        pdl_range_t need = {b.own.low - b.pad_low, b.own.high + b.pad_high};
        if ((need.low > 0 ? need.low : 0) != b.own.low ||
            (need.high < window->in ? need.high : window->in) != b.own.high)
            return true;
    }
    return false;
}

int pdl__halo_axis(const pdl__layouts_t *l, int index)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    unsigned           axes = pdl__layouts_axes(l, index, PDL_MODE_SPACE);

    if (l->trivial || !pdl_layer_is_convolution(layer)) return -1;
    for (int a = l->plan->mesh.axis_count - 1; a >= 0; a--) {
        int64_t members = l->plan->mesh.axis[a].size;
        if (!(axes >> a & 1)) continue;
        if (!cuts_alone(l, index, a)) return -1;
        pdl_window_t window = pdl_layer_window(layer, dim_of(l, index, a));
        if (is_needed(&window, members))
            return pdl_borders_apart(&window, members, pdl_border_part(layer)) ? a : -1;
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

static pdl_range_t common(pdl_range_t a, pdl_range_t b)
{
    return (pdl_range_t){a.low > b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}

/* Low halos are the last rows of members before, high ones the first rows of members behind. */
static void find_gifts(pdl__halo_rows_t *rows, int64_t members)
{
    for (int64_t m = 0; m < members; m++) {
        const pdl_range_t own = rows[m].at.own;
        pdl_range_t      *gives = rows[m].gives;
        gives[0] = (pdl_range_t){own.high, own.high};
        gives[1] = (pdl_range_t){own.low, own.low};
        for (int64_t k = 0; k < members; k++) {
            pdl_range_t low = common(rows[k].at.halo[0], own), high = common(rows[k].at.halo[1], own);
            if (low.low < low.high && low.low < gives[0].low) gives[0].low = low.low;
            if (high.low < high.high && high.high > gives[1].high) gives[1].high = high.high;
        }
    }
}

void pdl__halo_members(const pdl__layouts_t *l, int index, int axis, pdl__halo_rows_t *rows)
{
    pdl_window_t window = pdl_layer_window(pdl_model_layer(l->plan->model, index), dim_of(l, index, axis));
    int64_t      members = l->plan->mesh.axis[axis].size;

    for (int64_t m = 0; m < members; m++) pdl_border_find(&window, members, m, &rows[m].at);
    find_gifts(rows, members);
}
