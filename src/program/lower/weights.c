/*
 * Lists the weights of a rank, and cuts those whose gradients are summed into buckets.
 */
#include "program/lower/weights.h"
#include "base/memory.h"
#include "program/lower/graph.h"
#include <stdlib.h>
#include <string.h>

#define SHARDED_BUCKETS 16
#define LEAST_ELEMENTS  16384

static pdl_status_t no_memory(void)
{
    return pdl__no_memory("while preparing a model of this size");
}

/* The part of a weight on this rank, and the axes over which its gradient is a partial sum. */
static pdl_status_t place_weight(const pdl__graph_spec_t *spec, pdl_sharding_t sharding, int layer,
                                 const pdl_weight_t *weight, pdl__rank_weight_t *out)
{
    const pdl__layouts_t *l = spec->layouts;

    pdl__weight_whole(l, layer, weight->rank, weight->dims, out->dims);
    pdl_status_t status = pdl__weight_region(l, layer, weight->rank, out->dims, l->coordinates, &out->region);
    out->whole = true;
    out->elements = 1;
    for (int d = 0; d < weight->rank; d++) {
        out->elements *= out->dims[d];
        out->whole &= out->dims[d] == weight->dims[d];
    }
    out->axes = pdl_mesh_size(&l->plan->mesh) > 1 ? l->partition->local[layer].gradient_axes : 0;
    if (spec->separate) out->axes &= ~pdl__data_axes(&l->plan->mesh);
    /* What several stages hold is cut alike on all of them. */
    if (sharding != PDL_SHARDING_NONE && out->k == 0 && pdl__pipe_holders(l->stages, out->owner) > 1)
        out->tie = out->owner;
    /* A router is whole everywhere, with gradients of the tokens here. */
    if (out->k == 0) out->axes |= pdl__layouts_axes(l, layer, PDL_MODE_EXPERT);
    /* Every rank has the rows of its own positions. */
    if (pdl_layer_traits(pdl_model_layer(l->plan->model, layer))->kernel == PDL_KERNEL_POSITIONS &&
        weight->rank == 2)
        out->axes &= ~pdl__layouts_axes(l, layer, PDL_MODE_SPACE);
    return status;
}

/* Adds the weights of one unit; those it shares with another unit are that one's. */
static pdl_status_t add_unit(const pdl__graph_spec_t *spec, const pdl__graph_t *graph, int u, bool trainable,
                             pdl__rank_weights_t *w)
{
    const pdl__unit_t *unit = &graph->unit[u];
    pdl_status_t       status = PDL_OK;

    for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count && !status; k++) {
        const pdl_weight_t *weight = &unit->description.weight[k];
        if (weight->trainable != trainable || (k == 0 && unit->tied_to >= 0)) continue;
        int                 tied = pdl_model_layer(spec->plan->model, unit->layer)->tied_to;
        pdl__rank_weight_t *out = &w->weight[w->count++];
        *out = (pdl__rank_weight_t){.unit = u,
                                    .k = k,
                                    .owner = k == 0 && tied >= 0 ? tied : unit->layer,
                                    .tie = -1,
                                    .rank = weight->rank,
                                    .trainable = trainable,
                                    .storage = weight->elements,
                                    .bucket = -1};
        status = place_weight(spec, w->sharding, unit->layer, weight, out);
    }
    return status;
}

/* Whether two weights may be in the same bucket. */
static bool same_buckets(const pdl__rank_weight_t *a, const pdl__rank_weight_t *b)
{
    return a->axes == b->axes && a->tie == b->tie;
}

/* Those that are exchanged over the same ranks come together, each set in the order in which backward ends. */
static pdl_status_t sort_weights(pdl__rank_weights_t *w)
{
    pdl__rank_weight_t *sorted = calloc((size_t)w->trainable + 1, sizeof(*sorted));
    int                 placed = 0;

    if (sorted == NULL) return no_memory();
    for (int i = 0; i < w->trainable; i++) {
        bool seen = false;
        for (int k = 0; k < placed && !seen; k++) seen = same_buckets(&sorted[k], &w->weight[i]);
        for (int k = i; k < w->trainable && !seen; k++)
            if (same_buckets(&w->weight[k], &w->weight[i])) sorted[placed++] = w->weight[k];
    }
    memcpy(w->weight, sorted, (size_t)w->trainable * sizeof(*sorted));
    free(sorted);
    return PDL_OK;
}

static pdl_status_t list_weights(const pdl__graph_spec_t *spec, pdl__graph_t *graph, pdl__rank_weights_t *w)
{
    int          count = 0;
    pdl_status_t status = PDL_OK;

    for (int u = 0; u < graph->unit_count; u++) count += graph->unit[u].description.weight_count;
    w->weight = calloc((size_t)count + 1, sizeof(*w->weight));
    if (w->weight == NULL) return no_memory();
    for (int pass = 0; pass < 2 && !status; pass++) {
        for (int u = graph->unit_count - 1; u >= 0 && !status; u--) status = add_unit(spec, graph, u, pass == 0, w);
        if (pass == 0) w->trainable = w->count;
        if (pass == 0 && !status) status = sort_weights(w);
    }
    for (int i = 0; i < w->count; i++) graph->unit[w->weight[i].unit].weight[w->weight[i].k] = i;
    for (int u = 0; u < graph->unit_count; u++) {
        pdl__unit_t *unit = &graph->unit[u];
        if (unit->tied_to >= 0) unit->weight[0] = graph->unit[unit->tied_to].weight[0];
        w->packs |= unit->description.packed_bytes > 0 && w->sharding < PDL_SHARDING_ZERO3 && !w->weights_pass;
    }
    return status;
}

/* Whole buckets of weights with these axes come and go. Those of one rank are cut only where they pass, or their state does. */
static bool come_and_go(const pdl__rank_weights_t *w, unsigned axes)
{
    return w->sharding >= PDL_SHARDING_ZERO2 || axes == 0;
}

/* Elements of a bucket. Where whole buckets come and go on a rank that keeps parts only, a few of them must be little
   beside the parts: of what a rank has in the mean, since all must come to the same figure. */
static int64_t wanted_elements(const pdl__graph_spec_t *spec, const pdl__rank_weights_t *w, unsigned axes)
{
    const pdl__layouts_t *l = spec->layouts;
    int64_t               wanted = (int64_t)(spec->bucket_bytes / sizeof(float)), share = 0;

    for (int i = 0; i < w->trainable; i++) share += w->weight[i].elements;
    share /=
        SHARDED_BUCKETS * pdl__layouts_members(l, l->stage_axes) / pdl_mesh_extent(&l->plan->mesh, PDL_AXIS_DATA);
    if (share < LEAST_ELEMENTS) share = LEAST_ELEMENTS;
    return come_and_go(w, axes) && share < wanted ? share : wanted;
}

static int64_t in_lines(int64_t elements)
{
    return (elements + PDL__PART_UNIT - 1) / PDL__PART_UNIT * PDL__PART_UNIT;
}

/* Whether a bucket may end after a weight of a set that ends at `last`. Those of one unit stay together where buckets come
   and go. */
static bool may_end(const pdl__rank_weights_t *w, int last, int i)
{
    return !come_and_go(w, w->weight[i].axes) || i + 1 == last || w->weight[i + 1].unit != w->weight[i].unit;
}

/* Buckets of the set [first, last) end with a weight, as soon as they are large enough. */
static void cut_set(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w, int first, int last, int set)
{
    unsigned axes = w->weight[first].axes, data = pdl__data_axes(&spec->plan->mesh);
    int64_t  wanted = wanted_elements(spec, w, axes), elements = 0;
    int      begin = w->bucket_count;

    for (int i = first; i < last; i++) {
        pdl_program_bucket_t *bucket = &w->bucket[w->bucket_count];
        if (elements == 0)
            *bucket = (pdl_program_bucket_t){.set = set,
                                             .index = w->bucket_count - begin,
                                             .first = i,
                                             .axes = axes,
                                             .sharded = w->sharding != PDL_SHARDING_NONE ? axes & data : 0};
        w->weight[i].bucket = w->bucket_count;
        bucket->last = i + 1;
        elements += axes == 0 ? in_lines(w->weight[i].storage) : w->weight[i].storage;
        if ((elements < wanted || !may_end(w, last, i)) && i + 1 < last) continue;
        bucket->bytes = (size_t)elements * sizeof(float);
        w->bucket_count++;
        elements = 0;
    }
}

/* What this rank has of the optimizer's state: of every bucket, in their order. */
static void place_state(const pdl__layouts_t *l, pdl__rank_weights_t *w)
{
    int64_t at = 0;

    for (int b = 0; b < w->bucket_count; b++) {
        pdl_program_bucket_t *bucket = &w->bucket[b];
        int64_t               low = 0, high = (int64_t)(bucket->bytes / sizeof(float));
        if (bucket->sharded != 0)
            pdl__bucket_part(high, pdl__layouts_members(l, bucket->sharded), pdl__layouts_place(l, bucket->sharded),
                             &low, &high);
        bucket->part_bytes = (size_t)(high - low) * sizeof(float);
        bucket->state_low = at;
        bucket->state_high = at += in_lines(high - low);
    }
}

static pdl_status_t cut_buckets(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w)
{
    int sets = 0;

    w->bucket = calloc((size_t)w->trainable + 1, sizeof(*w->bucket));
    if (w->bucket == NULL) return no_memory();
    if (!spec->training) return PDL_OK;
    for (int i = 0, first = 0; i < w->trainable; first = i) {
        while (i < w->trainable && same_buckets(&w->weight[i], &w->weight[first])) i++;
        if (w->weight[first].axes != 0 || w->state_passes) cut_set(spec, w, first, i, sets++);
    }
    place_state(spec->layouts, w);
    return PDL_OK;
}

/* The trained weight 0 of a layer, its own or that of the layer it is tied to. */
static int weight_of(const pdl__rank_weights_t *w, int owner)
{
    for (int i = 0; i < w->trainable; i++)
        if (w->weight[i].owner == owner && w->weight[i].k == 0) return i;
    return -1;
}

static bool is_owner(const pdl_model_t *model, int layer)
{
    for (int i = layer + 1; i < pdl_model_layer_count(model); i++)
        if (pdl_model_layer(model, i)->tied_to == layer) return true;
    return false;
}

static pdl_status_t find_ties(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w)
{
    const pdl__pipe_t *stages = spec->layouts->stages;
    const pdl_model_t *model = spec->plan->model;

    w->tie = calloc((size_t)w->trainable + 1, sizeof(*w->tie));
    if (w->tie == NULL) return no_memory();
    for (int i = 0; i < pdl_model_layer_count(model) && stages->count > 1 && spec->training; i++) {
        int weight = is_owner(model, i) && pdl__pipe_holders(stages, i) > 1 ? weight_of(w, i) : -1;
        if (weight >= 0) w->tie[w->tie_count++] = weight;
    }
    return PDL_OK;
}

void pdl__bucket_part(int64_t elements, int ranks, int rank, int64_t *low, int64_t *high)
{
    pdl_block_range((elements + PDL__PART_UNIT - 1) / PDL__PART_UNIT, ranks, rank, low, high);
    /* The last line of a bucket may be a part of one. */
    *low = *low * PDL__PART_UNIT < elements ? *low * PDL__PART_UNIT : elements;
    *high = *high * PDL__PART_UNIT < elements ? *high * PDL__PART_UNIT : elements;
}

/* Sums of parts over axes that are no data axes come last. */
static bool sums_parts(const pdl__graph_spec_t *spec, const pdl__rank_weights_t *w)
{
    unsigned data = pdl__data_axes(&spec->plan->mesh);
    bool     sums = false;

    for (int i = 0; i < w->trainable && w->sharding != PDL_SHARDING_NONE; i++)
        sums |= (w->weight[i].axes & data) != 0 && (w->weight[i].axes & ~data) != 0;
    return sums;
}

/* Where the update of a bucket needs nothing but its own gradients, it is made during backward: a norm needs those of all, tied ones
   those of other stages. Then gradients need no memory of their own, unless those of several micro-batches are added up. */
static void choose_passing(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w)
{
    w->early = w->state_passes && spec->overlap && !spec->clips && !spec->tensor_norms &&
               spec->layouts->stages->count == 1 && !sums_parts(spec, w);
    w->gradients_pass = w->early && spec->plan->micro_batches == 1 && spec->backend->weight_type == PDL_DTYPE_F32;
}

pdl_status_t pdl__rank_weights_create(const pdl__graph_spec_t *spec, pdl__graph_t *graph)
{
    pdl__rank_weights_t *w = calloc(1, sizeof(*w));

    if (w == NULL) return no_memory();
    graph->weights = w;
    if (spec->training && pdl__data_axes(&spec->plan->mesh) != 0) w->sharding = spec->plan->sharding;
    w->weights_pass = spec->training && spec->plan->weights_tier != PDL_TIER_DEVICE;
    w->state_passes = spec->training && spec->plan->optimizer_tier != PDL_TIER_DEVICE &&
                      (spec->state_arrays > 0 || w->weights_pass);
    pdl_status_t status = list_weights(spec, graph, w);
    if (!status) choose_passing(spec, w);
    if (!status) status = cut_buckets(spec, w);
    return status ? status : find_ties(spec, w);
}

void pdl__rank_weights_destroy(pdl__rank_weights_t *w)
{
    if (w == NULL) return;
    free(w->weight);
    free(w->bucket);
    free(w->tie);
    free(w);
}
