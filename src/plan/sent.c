/*
 * What the ranks of a plan send, in the mean of all of them. Pieces differ in size, so ranks send different
 * amounts; but pieces of one dimension add up to it and axes are independent, so that the sum over all ranks is a
 * product of sums over the pieces of each axis. It is what the trainer sends, to the byte.
 */
#include "plan/compile.h"
#include "plan/rules.h"
#include <math.h>

#define COUNT_ELEMENTS 2 /* a number of copies is sent in 64 bits */

double pdl__mean_elements(const pdl_compiler_t *c, const pdl_shape_t *shape, const pdl_placement_t *on, int skip)
{
    const pdl_mesh_t *mesh = &c->plan->mesh;
    double            elements = (double)pdl_shape_elements(shape) * c->partition->micro_batch;

    for (int a = 0; a < mesh->axis_count; a++)
        if (a != skip && pdl_axis_splits(&mesh->axis[a]) && on[a] >= PDL_SPLIT_N)
            elements /= (double)mesh->axis[a].size;
    return elements;
}

/* Elements along the dimension that a placement cuts; 0 where that is not a whole number. */
static int64_t extent_of(const pdl_compiler_t *c, const pdl_shape_t *shape, pdl_placement_t placement)
{
    double samples = c->partition->micro_batch;

    if (placement == PDL_SPLIT_N) return samples == floor(samples) ? (int64_t)samples : 0;
    return placement == PDL_SPLIT_C ? shape->channels : shape->extent[placement - PDL_SPLIT_S0];
}

double pdl__staying_share(int64_t from, int64_t to, int64_t pieces)
{
    double share = 0;

    if (from == 0 || to == 0) return 1 / (double)pieces;
    for (int64_t r = 0; r < pieces; r++) {
        int64_t low, high, next_low, next_high;
        pdl_block_range(from, pieces, r, &low, &high);
        pdl_block_range(to, pieces, r, &next_low, &next_high);
        share += (double)(high - low) / (double)from * ((double)(next_high - next_low) / (double)to);
    }
    return share;
}

double pdl__mean_sent(const pdl_compiler_t *c, const pdl_shape_t *shape, const pdl_placement_t *now, int axis,
                      pdl_placement_t to)
{
    double elements = pdl__mean_elements(c, shape, now, axis), size = (double)c->plan->mesh.axis[axis].size;

    switch (pdl_redistribution(now[axis], to)) {
    case PDL_ALLGATHER:
    case PDL_REDUCE_SCATTER: return elements * (size - 1) / size;
    case PDL_ALLREDUCE: return 2 * elements * (size - 1) / size;
    case PDL_ALLTOALL:
        return elements / size *
               (1 - pdl__staying_share(extent_of(c, shape, now[axis]), extent_of(c, shape, to), (int64_t)size));
    default: return 0;
    }
}

void pdl__routed_sent(const pdl_compiler_t *c, int index, int axis, double sent[4])
{
    const pdl_layer_t *layer = pdl_model_layer(c->plan->model, index);
    const pdl_local_t *local = &c->partition->local[index];
    double             ranks = (double)c->plan->mesh.axis[axis].size;
    double             in = (double)layer->in.channels, out = (double)layer->out.channels;
    double             copies = pdl__mean_elements(c, &layer->in, local->reads, -1) / in * (double)layer->top_k;

    copies *= 1 - pdl__staying_share(extent_of(c, &layer->in, local->reads[axis]), layer->experts, (int64_t)ranks);
    sent[0] = copies * in + COUNT_ELEMENTS * (double)layer->experts * (ranks - 1) / ranks;
    sent[1] = copies * out;
    sent[2] = copies * (out + 1);
    sent[3] = copies * (layer->needs_input_gradient ? in + 1 : 1);
}

void pdl__count_weights(const pdl_layer_t *layer, pdl__weight_count_t *count)
{
    pdl_kernel_t kernel = pdl_layer_traits(layer)->kernel;
    double       whole = 0;

    /* A router is whole wherever experts are; of positions every rank has those that it has tokens of. */
    if (kernel == PDL_KERNEL_EXPERTS) whole = (double)(layer->experts * layer->in.channels);
    if (kernel == PDL_KERNEL_POSITIONS)
        whole = (double)(layer->weights - (layer->class_token ? layer->out.channels : 0));
    *count = (pdl__weight_count_t){.most = (double)(layer->weights - layer->bias_weights) - whole,
                                   .bias = (double)layer->bias_weights,
                                   .apart = whole,
                                   .ranks = 1,
                                   .apart_ranks = 1};
}

void pdl__cut_weights(const pdl_layer_t *layer, const pdl_rule_t *rule, pdl_mode_t mode, int64_t ranks,
                      pdl__weight_count_t *count)
{
    bool   split = rule->weight == PDL_SPLIT_C, partial = rule->dw == PDL_PARTIAL, rows;
    double size = (double)ranks;

    rows = pdl_layer_traits(layer)->kernel == PDL_KERNEL_POSITIONS && mode == PDL_MODE_SPACE;
    if (split) count->most /= size;
    if (split && mode != PDL_MODE_CHANNEL) count->bias /= size;
    if ((split && mode != PDL_MODE_EXPERT) || rows) count->apart /= size;
    if (partial) count->ranks *= size;
    if ((partial && !rows) || mode == PDL_MODE_EXPERT) count->apart_ranks *= size;
}
