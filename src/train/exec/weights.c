/*
 * The weights of a session lie in flat arrays, one each for values, gradients and optimizer state, in the order in
 * which backward completes the gradients: a bucket of the exchange is a range, and an optimizer step is a few long loops.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <paradl/train/init.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNED_ELEMENTS 16 /* of a cache line */

static pdl_status_t no_memory(const pdl_session_t *s)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for the weights of %s: use a smaller model or more ranks",
                     pdl_model_name(s->spec.plan->model));
}

static size_t weight_bytes(const pdl_session_t *s)
{
    return pdl_dtype_bytes(s->spec.backend->weight_type);
}

void *pdl__entry_at(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    int64_t at = entry->offset;

    if (pdl__shard_divides(s, array)) {
        const pdl__buckets_t *group = entry->group < 0 ? NULL : &s->exchange.buckets[entry->group];
        if (group && group->shard_ranks) {
            const pdl__bucket_t *bucket = &group->bucket[entry->bucket];
            return (array == PDL_ARRAY_WEIGHT ? bucket->weights : bucket->gradients) + at - bucket->low;
        }
        at = entry->info.trainable ? entry->held : s->weights.held + at - s->weights.trainable;
    }
    return (char *)s->weights.array[array] + (size_t)at * weight_bytes(s);
}

/* How many ranks hold the same part: of this stage, and of others where it is tied. */
static pdl_status_t count_copies(const pdl__layouts_t *l, int layer, pdl__trace_entry_t *entry)
{
    int          members = pdl__layouts_members(l, l->stage_axes);
    pdl_status_t status = PDL_OK;

    entry->copies = 0;
    for (int m = 0; m < members && !status; m++) {
        int64_t      coordinates[PDL_MAX_AXES];
        pdl_region_t region;
        pdl__layouts_member(l, l->stage_axes, m, coordinates);
        status = pdl__weight_region(l, layer, entry->info.rank, entry->info.dims, coordinates, &region);
        entry->copies += pdl__same_region(&region, &entry->region);
    }
    if (entry->k == 0) entry->copies *= pdl__pipe_holders(l->stages, entry->owner);
    return status;
}

/* The part of a weight on this rank, and the axes over which its gradient is a partial sum. */
static pdl_status_t place_entry(const pdl_session_t *s, int layer, const pdl_weight_t *weight,
                                pdl__trace_entry_t *entry)
{
    const pdl__layouts_t *l = s->layouts;
    int64_t              *whole = entry->info.dims;

    pdl__weight_whole(l, layer, weight->rank, weight->dims, whole);
    pdl_status_t status = pdl__weight_region(l, layer, weight->rank, whole, l->coordinates, &entry->region);
    entry->whole = true;
    entry->info.elements = 1;
    for (int d = 0; d < weight->rank; d++) {
        entry->info.elements *= whole[d];
        entry->whole &= whole[d] == weight->dims[d];
    }
    entry->axes = l->partition->local[layer].gradient_axes;
    if (!status) status = count_copies(l, layer, entry);
    if (s->spec.separate) {
        entry->axes &= ~pdl__data_axes(&l->plan->mesh);
        entry->copies /= pdl_mesh_extent(&l->plan->mesh, PDL_AXIS_DATA);
    }
    /* What several stages hold is cut alike on all of them. */
    if (s->weights.sharding != PDL_SHARDING_NONE && entry->k == 0 && pdl__pipe_holders(l->stages, entry->owner) > 1)
        entry->tie = entry->owner;
    /* A router is whole everywhere, with gradients of the tokens here. */
    if (entry->k == 0) entry->axes |= pdl__layouts_axes(l, layer, PDL_MODE_EXPERT);
    /* Every rank has the rows of its own positions. */
    if (pdl_layer_traits(pdl_model_layer(l->plan->model, layer))->kernel == PDL_KERNEL_POSITIONS &&
        weight->rank == 2)
        entry->axes &= ~pdl__layouts_axes(l, layer, PDL_MODE_SPACE);
    return status;
}

/* Adds the weights of one unit; those it shares with another unit are that one's. */
static pdl_status_t add_entries(pdl_session_t *s, int u, bool trainable)
{
    const pdl__unit_t *unit = &s->graph->unit[u];

    for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count; k++) {
        const pdl_weight_t *weight = &unit->description.weight[k];
        if (weight->trainable != trainable || (k == 0 && unit->tied_to >= 0)) continue;
        pdl__trace_entry_t *entry = &s->weights.entry[s->weights.entry_count];
        int                 tied = pdl_model_layer(s->spec.plan->model, unit->layer)->tied_to;
        int                 owner = k == 0 && tied >= 0 ? tied : unit->layer;
        const char         *layer = pdl_model_layer(s->spec.plan->model, owner)->name;
        size_t              length = strlen(layer) + strlen(weight->name) + 2;
        char               *name = malloc(length);
        if (!name) return no_memory(s);
        snprintf(name, length, "%s.%s", layer, weight->name);
        *entry = (pdl__trace_entry_t){.info = {.name = name, .rank = weight->rank, .trainable = trainable},
                                      .unit = u,
                                      .k = k,
                                      .owner = owner,
                                      .tie = -1,
                                      .storage = weight->elements,
                                      .users = 1};
        s->weights.entry_count++;
        pdl_status_t status = place_entry(s, unit->layer, weight, entry);
        if (status) return status;
    }
    return PDL_OK;
}

/* Entries that are exchanged over the same ranks come together, each group in the order in which backward ends. */
static pdl_status_t group_entries(pdl_session_t *s, int count)
{
    pdl__trace_entry_t *sorted = calloc((size_t)count + 1, sizeof(*sorted));
    int                 placed = 0;

    if (!sorted) return no_memory(s);
    for (int i = 0; i < count; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++) seen |= pdl__same_buckets(&s->weights.entry[k], &s->weights.entry[i]);
        for (int k = i; k < count && !seen; k++)
            if (pdl__same_buckets(&s->weights.entry[k], &s->weights.entry[i]))
                sorted[placed++] = s->weights.entry[k];
    }
    memcpy(s->weights.entry, sorted, (size_t)count * sizeof(*sorted));
    free(sorted);
    return PDL_OK;
}

static void align(pdl_session_t *s)
{
    s->weights.elements = (s->weights.elements + ALIGNED_ELEMENTS - 1) / ALIGNED_ELEMENTS * ALIGNED_ELEMENTS;
}

/* Behind what has been placed. */
static void place_next(pdl_session_t *s, int i)
{
    pdl__trace_entry_t *entry = &s->weights.entry[i];

    entry->offset = s->weights.elements;
    s->weights.elements += entry->storage;
    if (!entry->info.trainable) return;
    s->weights.parameter_entry[s->weights.parameter_count] = i;
    s->weights.parameter[s->weights.parameter_count++] =
        (pdl_parameter_t){.range = {.elements = entry->storage,
                                    .weights = entry->offset,
                                    .gradients = entry->offset,
                                    .state = entry->offset,
                                    .packed = -1,
                                    .decays = entry->info.rank > 1 || s->spec.optimizer.decay_all},
                          .copies = entry->copies};
}

/* A bucket is what travels, so there are no gaps in it. Weights that fill cache lines come first: of these every
   one begins at a line all the same. */
static void place_bucket(pdl_session_t *s, pdl__bucket_t *bucket)
{
    align(s);
    bucket->low = s->weights.elements;
    for (int pass = 0; pass < 2; pass++)
        for (int i = bucket->first; i < bucket->last; i++)
            if ((s->weights.entry[i].storage % ALIGNED_ELEMENTS != 0) == (pass == 1)) place_next(s, i);
    bucket->high = s->weights.elements;
}

/* Weights that nobody exchanges begin at cache lines. */
static void place_entries(pdl_session_t *s)
{
    for (int i = 0; i < s->weights.entry_count; i++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[i];
        pdl__bucket_t *bucket = entry->group < 0 ? NULL : &s->exchange.buckets[entry->group].bucket[entry->bucket];
        if (bucket == NULL) {
            align(s);
            place_next(s, i);
        } else if (i == bucket->first) {
            place_bucket(s, bucket);
        }
        if (entry->info.trainable) {
            align(s);
            s->weights.trainable = s->weights.elements;
        }
    }
    align(s);
}

static pdl_status_t list_entries(pdl_session_t *s)
{
    int          count = 0;
    pdl_status_t status = PDL_OK;

    for (int u = 0; u < s->graph->unit_count; u++) count += s->graph->unit[u].description.weight_count;
    s->weights.entry = calloc((size_t)count + 1, sizeof(*s->weights.entry));
    s->weights.parameter = calloc((size_t)count + 1, sizeof(*s->weights.parameter));
    s->weights.parameter_entry = calloc((size_t)count + 1, sizeof(*s->weights.parameter_entry));
    s->weights.sums = calloc(2 * (size_t)count + 1, sizeof(*s->weights.sums));
    if (!s->weights.entry || !s->weights.parameter || !s->weights.parameter_entry || !s->weights.sums)
        return no_memory(s);
    for (int pass = 0; pass < 2 && !status; pass++) {
        for (int u = s->graph->unit_count - 1; u >= 0 && !status; u--) status = add_entries(s, u, pass == 0);
        if (pass == 0 && !status) status = group_entries(s, s->weights.entry_count);
    }
    if (status) return status;
    for (int i = 0; i < s->weights.entry_count; i++)
        s->graph->unit[s->weights.entry[i].unit].weight[s->weights.entry[i].k] = i;
    for (int u = 0; u < s->graph->unit_count; u++) {
        pdl__unit_t *unit = &s->graph->unit[u];
        if (unit->tied_to < 0) continue;
        unit->weight[0] = s->graph->unit[unit->tied_to].weight[0];
        s->weights.entry[unit->weight[0]].users++;
    }
    return PDL_OK;
}

int64_t pdl__session_elements(const pdl_session_t *s, pdl_session_array_t array)
{
    int64_t trainable = pdl__shard_divides(s, array) ? s->weights.held : s->weights.trainable;

    if (array == PDL_ARRAY_WEIGHT)
        return trainable + s->weights.elements - s->weights.trainable + pdl__worker_elements(s);
    return pdl__session_keeps(s, array) ? trainable : 0;
}

/* Copies of weights that change with every use are made for one unit at a time. */
static pdl_status_t place_packed(pdl_session_t *s)
{
    s->weights.packed_at = calloc((size_t)s->graph->unit_count + 1, sizeof(*s->weights.packed_at));
    if (!s->weights.packed_at) return no_memory(s);
    for (int u = 0; u < s->graph->unit_count; u++) {
        size_t bytes = (s->graph->unit[u].description.packed_bytes + 63) / 64 * 64;
        if (pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) {
            if (bytes > s->weights.packed_bytes) s->weights.packed_bytes = bytes;
            continue;
        }
        s->weights.packed_at[u] = s->weights.packed_bytes;
        s->weights.packed_bytes += bytes;
    }
    return PDL_OK;
}

static pdl_status_t take(pdl_session_t *s, size_t bytes, void **memory)
{
    return s->executor.device->ops->alloc(s->executor.device, PDL_SPACE_DEVICE, bytes, memory);
}

static pdl_status_t take_arrays(pdl_session_t *s)
{
    for (int a = 0; a < PDL_ARRAY_COUNT; a++) {
        int64_t elements = pdl__session_elements(s, (pdl_session_array_t)a);
        if (elements == 0) continue;
        if (take(s, (size_t)elements * weight_bytes(s), &s->weights.array[a])) return no_memory(s);
    }
    if (s->weights.packed_bytes == 0) return PDL_OK;
    return take(s, s->weights.packed_bytes, &s->weights.packed) ? no_memory(s) : PDL_OK;
}

static pdl_status_t fill_weights(pdl_session_t *s)
{
    const pdl_model_t *model = s->spec.plan->model;
    int64_t            most = 0;
    pdl_status_t       status = PDL_OK;

    for (int i = 0; i < s->weights.entry_count; i++)
        if (s->weights.entry[i].info.elements > most) most = s->weights.entry[i].info.elements;
    float *plain = malloc((size_t)most * sizeof(*plain) + 1);
    if (!plain) return no_memory(s);
    for (int i = 0; i < s->weights.entry_count && !status; i++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[i];
        const pdl__unit_t        *unit = &s->graph->unit[entry->unit];
        status = pdl_init_weight(pdl_model_layer(model, entry->owner), unit->description.weight[entry->k].name,
                                 entry->info.rank, entry->info.dims, s->spec.seed, plain);
        if (!status) status = pdl_session_set(s, i, PDL_ARRAY_WEIGHT, plain);
        if (!status && pdl__session_keeps(s, PDL_ARRAY_EMA) && entry->info.trainable)
            status = pdl_session_set(s, i, PDL_ARRAY_EMA, plain);
    }
    free(plain);
    return status ? status : pdl__spread_statistics(s);
}

pdl_status_t pdl__session_refresh(pdl_session_t *s)
{
    const pdl_backend_ops_t *ops = s->spec.backend->ops;

    if (pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) return PDL_OK; /* they come before every use */
    for (int u = 0; u < s->graph->unit_count; u++) {
        pdl__unit_t *unit = &s->graph->unit[u];
        if (!unit->op || unit->description.packed_bytes == 0) continue;
        pdl_op_run_t run = {.packed = (char *)s->weights.packed + s->weights.packed_at[u]};
        for (int k = 0; k < unit->description.weight_count; k++)
            run.weight[k] = pdl__entry_at(s, PDL_ARRAY_WEIGHT, &s->weights.entry[unit->weight[k]]);
        pdl_status_t status = ops->refresh(unit->op, s->executor.stream[PDL_STREAM_COMPUTE], &run);
        if (status) return status;
    }
    return PDL_OK;
}

pdl_status_t pdl__weights_plan(pdl_session_t *s)
{
    pdl_status_t status = list_entries(s);

    if (!status) status = pdl__buckets_cut(s);
    if (!status) place_entries(s);
    if (!status) status = pdl__shard_divide(s);
    if (!status)
        status = pdl_optimizer_table_create(&s->spec.optimizer, s->weights.parameter, s->weights.parameter_count,
                                            &s->weights.table);
    return status ? status : place_packed(s);
}

pdl_status_t pdl__weights_take(pdl_session_t *s)
{
    if (s->dry) return PDL_OK;
    pdl_status_t status = take_arrays(s);
    if (!status) status = fill_weights(s);
    return status ? status : pdl__session_refresh(s);
}

void pdl__session_free_weights(pdl_session_t *s)
{
    for (int a = 0; a < PDL_ARRAY_COUNT; a++)
        if (s->weights.array[a])
            s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->weights.array[a],
                                             (size_t)pdl__session_elements(s, (pdl_session_array_t)a) *
                                                 weight_bytes(s));
    s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->weights.packed,
                                     s->weights.packed_bytes);
    for (int i = 0; i < s->weights.entry_count; i++) free((char *)(uintptr_t)s->weights.entry[i].info.name);
    free(s->weights.entry);
    free(s->weights.parameter);
    pdl_optimizer_table_destroy(s->weights.table);
    free(s->weights.parameter_entry);
    free(s->weights.sums);
    free(s->weights.packed_at);
}

int pdl_session_tensor_count(const pdl_session_t *s)
{
    return s->weights.entry_count;
}

const pdl_session_tensor_t *pdl_session_tensor(const pdl_session_t *s, int i)
{
    return &s->weights.entry[i].info;
}

int pdl_session_find(const pdl_session_t *s, const char *name)
{
    for (int i = 0; i < s->weights.entry_count; i++)
        if (strcmp(s->weights.entry[i].info.name, name) == 0) return i;
    return -1;
}

bool pdl_session_has(const pdl_session_t *s, int i, pdl_session_array_t array)
{
    return pdl__session_keeps(s, array) && (array == PDL_ARRAY_WEIGHT || s->weights.entry[i].info.trainable);
}
