/*
 * Which part of a tensor a rank holds.
 */
#include <paradl/plan/layout.h>

int64_t pdl_region_extent(const pdl_region_t *region, int dim)
{
    int64_t extent = 0;

    for (int s = 0; s < region->segments[dim]; s++)
        extent += region->range[dim][s].high - region->range[dim][s].low;
    return extent;
}

int64_t pdl_region_elements(const pdl_region_t *region)
{
    int64_t elements = 1;

    for (int d = 0; d < region->rank; d++) elements *= pdl_region_extent(region, d);
    return elements;
}

pdl_region_t pdl_region_permute(const pdl_region_t *region, const int *order, int rank)
{
    pdl_region_t result = {.rank = rank};

    for (int d = 0; d < rank; d++) {
        result.segments[d] = region->segments[order[d]];
        for (int s = 0; s < PDL_REGION_SEGMENTS; s++) result.range[d][s] = region->range[order[d]][s];
    }
    return result;
}

void pdl_layout_plain(const pdl_shape_t *shape, pdl_layout_t *layout)
{
    *layout = (pdl_layout_t){.segments = 1, .segment = {{0, shape->channels, 1}}};
}

/* Block b of `blocks` of what is left of a range, in whole units. */
static pdl_range_t narrow(pdl_range_t range, int64_t unit, int64_t blocks, int64_t b)
{
    int64_t low, high;

    pdl_block_range((range.high - range.low) / unit, blocks, b, &low, &high);
    return (pdl_range_t){range.low + low * unit, range.low + high * unit};
}

static pdl_region_t whole_region(const pdl_layout_t *layout, const pdl_shape_t *shape, int64_t samples)
{
    pdl_region_t region = {.rank = PDL_DIM_COUNT};

    for (int d = 0; d < PDL_DIM_COUNT; d++) region.segments[d] = 1;
    region.range[PDL_DIM_SAMPLE][0].high = samples;
    region.segments[PDL_DIM_CHANNEL] = layout->segments;
    for (int s = 0; s < layout->segments; s++)
        region.range[PDL_DIM_CHANNEL][s] = (pdl_range_t){layout->segment[s].low, layout->segment[s].high};
    for (int k = 0; k < PDL_MAX_SPACE; k++) region.range[PDL_DIM_SPACE + k][0].high = shape->extent[k];
    return region;
}

/* The cut that one axis makes. */
static pdl_status_t cut(const pdl_layout_t *layout, const pdl_axis_t *axis, pdl_placement_t on, int64_t coordinate,
                        pdl_region_t *region)
{
    int dim = on == PDL_SPLIT_N   ? PDL_DIM_SAMPLE
              : on == PDL_SPLIT_C ? PDL_DIM_CHANNEL
                                  : PDL_DIM_SPACE + on - PDL_SPLIT_S0;

    for (int s = 0; s < region->segments[dim]; s++) {
        pdl_range_t *range = &region->range[dim][s];
        int64_t      unit = dim == PDL_DIM_CHANNEL ? layout->segment[s].unit : 1;
        if ((range->high - range->low) / unit < axis->size)
            return pdl_error(PDL_ERR_LIMIT, "%lld pieces of %s cannot be made of %lld: use a smaller axis",
                             (long long)axis->size, pdl_placement_names[on],
                             (long long)((range->high - range->low) / unit));
        *range = narrow(*range, unit, axis->size, coordinate);
    }
    return PDL_OK;
}

int pdl_layout_nesting(const pdl_mesh_t *mesh, bool channels, int axis[PDL_MAX_AXES])
{
    const pdl_axis_kind_t made = channels ? PDL_AXIS_TENSOR : PDL_AXIS_SPATIAL;
    const pdl_axis_kind_t turn[] = {PDL_AXIS_DATA, made, channels ? PDL_AXIS_SPATIAL : PDL_AXIS_TENSOR};
    int                   count = 0;

    for (size_t t = 0; t < sizeof(turn) / sizeof(turn[0]); t++)
        for (int a = 0; a < mesh->axis_count; a++)
            if (mesh->axis[a].kind == turn[t]) axis[count++] = a;
    return count;
}

pdl_status_t pdl_layout_region(const pdl_layout_t *layout, const pdl_mesh_t *mesh, const pdl_shape_t *shape,
                               int64_t samples, const int64_t coordinates[PDL_MAX_AXES], pdl_region_t *region)
{
    pdl_status_t status = PDL_OK;

    *region = whole_region(layout, shape, samples);
    for (int channels = 0; channels < 2; channels++) {
        int axis[PDL_MAX_AXES], count = pdl_layout_nesting(mesh, channels, axis);
        for (int i = 0; i < count && !status; i++) {
            int             a = axis[i];
            pdl_placement_t on = layout->on[a];
            if (on < PDL_SPLIT_N || (on == PDL_SPLIT_C) != channels) continue;
            status = cut(layout, &mesh->axis[a], on, coordinates[a], region);
        }
    }
    return status;
}
