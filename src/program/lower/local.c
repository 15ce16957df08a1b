/*
 * Layers and weights as one rank sees them.
 */
#include "program/lower/layouts.h"
#include <string.h>

bool pdl__is_window(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->positions == PDL_POSITIONS_WINDOW;
}

pdl_range_t pdl__window_needs(const pdl_layer_t *layer, int dim, pdl_range_t out, int64_t *low, int64_t *high)
{
    pdl_range_t need = out;

    *low = *high = 0;
    if (!pdl__is_window(layer) || dim >= layer->in.rank) return need;
    need.low = out.low * layer->stride[dim] - layer->pad_low[dim];
    need.high = (out.high - 1) * layer->stride[dim] - layer->pad_low[dim] +
                (layer->kernel[dim] - 1) * layer->dilation[dim] + 1;
    if (need.low < 0) {
        *low = -need.low;
        need.low = 0;
    }
    if (need.high > layer->in.extent[dim]) {
        *high = need.high - layer->in.extent[dim];
        need.high = layer->in.extent[dim];
    }
    return need;
}

static void set_shape(pdl_shape_t *shape, const pdl_region_t *region)
{
    shape->channels = pdl_region_extent(region, PDL_DIM_CHANNEL);
    for (int k = 0; k < shape->rank; k++) shape->extent[k] = pdl_region_extent(region, PDL_DIM_SPACE + k);
}

pdl_status_t pdl__local_layer(const pdl__layouts_t *l, int index, const pdl_region_t *in, const pdl_region_t *out,
                              pdl_layer_t *local)
{
    const pdl_layer_t  *layer = pdl_model_layer(l->plan->model, index);
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    *local = *layer;
    set_shape(&local->in, in);
    set_shape(&local->out, out);
    if (pdl__is_window(layer))
        for (int k = 0; k < layer->in.rank; k++) {
            if (local->out.extent[k] == layer->out.extent[k] && local->in.extent[k] == layer->in.extent[k])
                continue;
            pdl__window_needs(layer, k, out->range[PDL_DIM_SPACE + k][0], &local->pad_low[k], &local->pad_high[k]);
        }
    if (layer->groups > 1) local->groups = layer->groups * local->out.channels / layer->out.channels;
    if (traits->shared == PDL_SHARED_HEADS) {
        local->heads = layer->heads * local->out.channels / layer->out.channels;
        local->kv_heads = layer->kv_heads * local->out.channels / layer->out.channels;
    }
    if (traits->kernel == PDL_KERNEL_TABLE) {
        pdl_range_t rows = pdl__vocabulary_rows(l, index, l->coordinates);
        local->vocabulary = rows.high - rows.low;
    }
    if (traits->kernel == PDL_KERNEL_EXPERTS) {
        pdl_range_t experts = pdl__experts(l, index, l->coordinates);
        local->experts = experts.high - experts.low;
    }
    return PDL_OK;
}

/* A block of each of these axes inside of that of the one before it. */
static pdl_range_t block_over(const pdl__layouts_t *l, unsigned axes, const int *order, int axis_count,
                              int64_t count, const int64_t *coordinates)
{
    pdl_range_t range = {0, count};

    for (int i = 0; i < axis_count; i++) {
        int     a = order[i];
        int64_t low, high;
        if (!(axes >> a & 1)) continue;
        pdl_block_range(range.high - range.low, l->plan->mesh.axis[a].size, coordinates[a], &low, &high);
        range = (pdl_range_t){range.low + low, range.low + high};
    }
    return range;
}

/* Nests as channels do, which a table that is tied to a head is cut by. */
pdl_range_t pdl__vocabulary_rows(const pdl__layouts_t *l, int index, const int64_t *coordinates)
{
    int axis[PDL_MAX_AXES], count = pdl_layout_nesting(&l->plan->mesh, true, axis);

    return block_over(l, pdl__layouts_axes(l, index, PDL_MODE_VOCABULARY), axis, count,
                      pdl_model_layer(l->plan->model, index)->vocabulary, coordinates);
}

/* In mesh order, so that the experts of a group's ranks follow one another. */
pdl_range_t pdl__experts(const pdl__layouts_t *l, int index, const int64_t *coordinates)
{
    int axis[PDL_MAX_AXES];

    for (int a = 0; a < l->plan->mesh.axis_count; a++) axis[a] = a;
    return block_over(l, pdl__layouts_axes(l, index, PDL_MODE_EXPERT), axis, l->plan->mesh.axis_count,
                      pdl_model_layer(l->plan->model, index)->experts, coordinates);
}

/* The channels a rank reads or writes, as the indices of a weight's dimension. */
static pdl_status_t channels_of(const pdl__layouts_t *l, const pdl_layout_t *layout, const pdl_shape_t *shape,
                                const int64_t *coordinates, pdl_region_t *region, int dim)
{
    pdl_region_t piece;
    pdl_status_t status = pdl_layout_region(layout, &l->plan->mesh, shape, l->samples, coordinates, &piece);

    region->segments[dim] = piece.segments[PDL_DIM_CHANNEL];
    memcpy(region->range[dim], piece.range[PDL_DIM_CHANNEL], sizeof(region->range[dim]));
    return status;
}

/* Which dimension of a weight holds outputs, and which inputs; -1: none. */
static void weight_dims(const pdl_layer_t *layer, int rank, int *outputs, int *inputs)
{
    bool matrix = rank > 1, transposed = pdl_layer_traits(layer)->transposed;

    *outputs = *inputs = -1;
    switch (pdl_layer_traits(layer)->kernel) {
    case PDL_KERNEL_MATRIX:
        *outputs = matrix && transposed ? 1 : 0;
        if (matrix && (transposed || layer->groups <= 1)) *inputs = transposed ? 0 : 1;
        break;
    case PDL_KERNEL_TABLE:
    case PDL_KERNEL_POSITIONS: *outputs = rank - 1; break;
    case PDL_KERNEL_SCALE: *outputs = 0; break;
    case PDL_KERNEL_NONE:
    case PDL_KERNEL_EXPERTS: break;
    }
}

void pdl__weight_whole(const pdl__layouts_t *l, int index, int rank, const int64_t *local, int64_t *whole)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    pdl_kernel_t       kernel = pdl_layer_traits(layer)->kernel;
    int                outputs, inputs;

    weight_dims(layer, rank, &outputs, &inputs);
    for (int d = 0; d < rank; d++) whole[d] = local[d];
    if (outputs >= 0 && pdl__layouts_axes(l, index, PDL_MODE_FILTER)) whole[outputs] = layer->out.channels;
    if (inputs >= 0 && pdl__layouts_axes(l, index, PDL_MODE_CHANNEL)) whole[inputs] = layer->in.channels;
    if (kernel == PDL_KERNEL_POSITIONS && rank == 2 && pdl__layouts_axes(l, index, PDL_MODE_SPACE))
        whole[0] = layer->out.extent[0];
    if (kernel == PDL_KERNEL_TABLE) whole[0] = layer->vocabulary;
    if (kernel == PDL_KERNEL_EXPERTS) whole[0] = layer->experts; /* of the router too */
}

pdl_status_t pdl__weight_region(const pdl__layouts_t *l, int index, int rank, const int64_t *dims,
                                const int64_t *coordinates, pdl_region_t *region)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    pdl_kernel_t       kernel = pdl_layer_traits(layer)->kernel;
    int                outputs, inputs;
    pdl_status_t       status = PDL_OK;

    *region = (pdl_region_t){.rank = rank};
    for (int d = 0; d < rank; d++) {
        region->segments[d] = 1;
        region->range[d][0].high = dims[d];
    }
    weight_dims(layer, rank, &outputs, &inputs);
    if (outputs >= 0 && pdl__layouts_axes(l, index, PDL_MODE_FILTER))
        status = channels_of(l, &l->layer[index].out, &layer->out, coordinates, region, outputs);
    if (!status && inputs >= 0 && pdl__layouts_axes(l, index, PDL_MODE_CHANNEL))
        status = channels_of(l, &l->layer[index].reads, &layer->in, coordinates, region, inputs);
    if (kernel == PDL_KERNEL_TABLE) region->range[0][0] = pdl__vocabulary_rows(l, index, coordinates);
    if (kernel == PDL_KERNEL_EXPERTS && rank == 3) region->range[0][0] = pdl__experts(l, index, coordinates);
    /* A row of positions for every token this rank sees; the class token's weight has one dimension. */
    if (!status && kernel == PDL_KERNEL_POSITIONS && rank == 2) {
        pdl_region_t piece;
        status =
            pdl_layout_region(&l->layer[index].out, &l->plan->mesh, &layer->out, l->samples, coordinates, &piece);
        region->range[0][0] = piece.range[PDL_DIM_SPACE][0];
    }
    return status;
}

bool pdl__same_region(const pdl_region_t *a, const pdl_region_t *b)
{
    for (int d = 0; d < a->rank; d++) {
        if (a->segments[d] != b->segments[d]) return false;
        for (int s = 0; s < a->segments[d]; s++)
            if (a->range[d][s].low != b->range[d][s].low || a->range[d][s].high != b->range[d][s].high)
                return false;
    }
    return true;
}

pdl_status_t pdl__check_tied(const pdl__layouts_t *l, int index)
{
    const pdl_layer_t *layer = pdl_model_layer(l->plan->model, index);
    const int64_t      dims[2] = {layer->out.channels, layer->in.channels};
    pdl_region_t       mine, owners;

    if (layer->tied_to < 0 || l->trivial) return PDL_OK;
    pdl_status_t status = pdl__weight_region(l, index, 2, dims, l->coordinates, &mine);
    if (!status) status = pdl__weight_region(l, layer->tied_to, 2, dims, l->coordinates, &owners);
    if (status) return status;
    const pdl_local_t *local = l->partition->local;
    if (pdl__same_region(&mine, &owners) && local[index].gradient_axes == local[layer->tied_to].gradient_axes)
        return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED,
                     "layers %s and %s share a weight, but the plan splits it differently for the two: split the "
                     "vocabulary of the one and the filters of the other over the same axes, or replicate both",
                     pdl_model_layer(l->plan->model, layer->tied_to)->name, layer->name);
}
