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
    out->axes = l->partition->local[layer].gradient_axes;
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

bool pdl__rank_weights_local(const pdl__rank_weights_t *w)
{
    return w->weights_pass || w->gradients_pass;
}

/* Whole buckets come and go. */
static bool come_and_go(const pdl__rank_weights_t *w)
{
    return w->sharding >= PDL_SHARDING_ZERO2 || pdl__rank_weights_local(w);
}

/* Elements of a bucket. Where whole buckets come and go on a rank that keeps parts only, a few of them must be little
   beside the parts: of what a rank has in the mean, since all must come to the same figure. */
static int64_t wanted_elements(const pdl__graph_spec_t *spec, const pdl__rank_weights_t *w)
{
    const pdl__layouts_t *l = spec->layouts;
    int64_t               wanted = (int64_t)(spec->bucket_bytes / sizeof(float)), share = 0;

    for (int i = 0; i < w->trainable; i++) share += w->weight[i].elements;
    share /=
        SHARDED_BUCKETS * pdl__layouts_members(l, l->stage_axes) / pdl_mesh_extent(&l->plan->mesh, PDL_AXIS_DATA);
    if (share < LEAST_ELEMENTS) share = LEAST_ELEMENTS;
    return come_and_go(w) && share < wanted ? share : wanted;
}

static int64_t in_lines(int64_t elements)
{
    return (elements + PDL__PART_UNIT - 1) / PDL__PART_UNIT * PDL__PART_UNIT;
}

/* Whether a bucket may end after a weight of a set that ends at `last`. Those of one unit stay together where buckets come
   and go. */
static bool may_end(const pdl__rank_weights_t *w, int last, int i)
{
    return !come_and_go(w) || i + 1 == last || w->weight[i + 1].unit != w->weight[i].unit;
}

/* Buckets of the set [first, last) end with a weight, as soon as they are large enough. */
static void cut_set(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w, int first, int last, int set)
{
    int64_t  wanted = wanted_elements(spec, w), elements = 0;
    unsigned axes = w->weight[first].axes, data = pdl__data_axes(&spec->plan->mesh);
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
        elements += pdl__rank_weights_local(w) ? in_lines(w->weight[i].storage) : w->weight[i].storage;
        if ((elements < wanted || !may_end(w, last, i)) && i + 1 < last) continue;
        bucket->bytes = (size_t)elements * sizeof(float);
        w->bucket_count++;
        elements = 0;
    }
}

static pdl_status_t cut_buckets(const pdl__graph_spec_t *spec, pdl__rank_weights_t *w)
{
    int sets = 0;

    w->bucket = calloc((size_t)w->trainable + 1, sizeof(*w->bucket));
    if (w->bucket == NULL) return no_memory();
    if ((pdl_mesh_size(&spec->plan->mesh) == 1 && !pdl__rank_weights_local(w)) || !spec->training) return PDL_OK;
    for (int i = 0, first = 0; i < w->trainable; first = i) {
        while (i < w->trainable && same_buckets(&w->weight[i], &w->weight[first])) i++;
        if (w->weight[first].axes != 0 || pdl__rank_weights_local(w)) cut_set(spec, w, first, i, sets++);
    }
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

int64_t pdl__rank_weights_state(const pdl__layouts_t *l, const pdl__rank_weights_t *w)
{
    int64_t all = 0;

    for (int i = 0; i < w->trainable; i++)
        if (w->weight[i].bucket < 0 || w->bucket[w->weight[i].bucket].sharded == 0)
            all += in_lines(w->weight[i].storage);
    for (int b = 0; b < w->bucket_count; b++) {
        int64_t ranks = pdl__layouts_members(l, w->bucket[b].sharded);
        int64_t lines = in_lines((int64_t)(w->bucket[b].bytes / sizeof(float))) / PDL__PART_UNIT;
        if (w->bucket[b].sharded != 0) all += (lines + ranks - 1) / ranks * PDL__PART_UNIT;
    }
    return all;
}

pdl_status_t pdl__rank_weights_state_at(const pdl__rank_weights_t *w, int64_t **at)
{
    *at = calloc((size_t)w->trainable + 1, sizeof(**at));
    if (*at == NULL) return no_memory();
    for (int i = 0; i < w->trainable; i++) (*at)[i + 1] = (*at)[i] + in_lines(w->weight[i].storage);
    return PDL_OK;
}

pdl_status_t pdl__rank_weights_create(const pdl__graph_spec_t *spec, pdl__graph_t *graph)
{
    pdl__rank_weights_t *w = calloc(1, sizeof(*w));

    if (w == NULL) return no_memory();
    graph->weights = w;
    if (spec->training && pdl__data_axes(&spec->plan->mesh) != 0) w->sharding = spec->plan->sharding;
    w->weights_pass = spec->training && spec->plan->weights_tier != PDL_TIER_DEVICE;
    /* Each is updated during backward. A norm needs all of them at once; those of several micro-batches are added up. */
    w->gradients_pass = spec->training && spec->plan->optimizer_tier != PDL_TIER_DEVICE && spec->overlap &&
                        pdl_mesh_size(&spec->plan->mesh) == 1 && !spec->clips && !spec->tensor_norms &&
                        spec->plan->micro_batches == 1 && (spec->state_arrays > 0 || w->weights_pass) &&
                        spec->backend->weight_type == PDL_DTYPE_F32;
    pdl_status_t status = list_weights(spec, graph, w);
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
