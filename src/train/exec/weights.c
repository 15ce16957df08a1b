/*
 * The weights of a session lie in flat arrays, one each for values, gradients and optimizer state, in the order in
 * which backward completes the gradients: a bucket of the exchange is a range, and an optimizer step is a few long loops.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include "train/state/state.h"
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

void *pdl__entry_home(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    int64_t at = pdl__shard_divides(s, array) ? entry->held : entry->offset;

    if (s->weights.passes && !entry->info.trainable)
        return (char *)s->weights.statistics + (size_t)(entry->offset - s->weights.trainable) * weight_bytes(s);
    return (char *)s->weights.array[array] + (size_t)at * weight_bytes(s);
}

/* Whether whole buckets of an array are there for a while. */
static bool passes(const pdl_session_t *s, pdl_session_array_t array)
{
    return array == PDL_ARRAY_WEIGHT     ? s->weights.passes
           : array == PDL_ARRAY_GRADIENT ? s->graph->weights->gradients_pass
                                         : false;
}

void *pdl__entry_at(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    int64_t at = entry->offset;

    if (passes(s, array) && entry->info.trainable) {
        const pdl__bucket_t *bucket = &s->exchange.buckets[entry->group].bucket[entry->bucket];
        return (array == PDL_ARRAY_WEIGHT ? bucket->weights : bucket->gradients) + at - bucket->low;
    }
    if (pdl__shard_divides(s, array) && !passes(s, array)) {
        const pdl__buckets_t *group = entry->group < 0 ? NULL : &s->exchange.buckets[entry->group];
        if (group && group->shard_ranks) {
            const pdl__bucket_t *bucket = &group->bucket[entry->bucket];
            return (array == PDL_ARRAY_WEIGHT ? bucket->weights : bucket->gradients) + at - bucket->low;
        }
        at = entry->info.trainable ? entry->held : s->weights.held + at - s->weights.trainable;
        return (char *)s->weights.array[array] + (size_t)at * weight_bytes(s);
    }
    return pdl__entry_home(s, array, entry);
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

static pdl_status_t add_entry(pdl_session_t *s, const pdl__rank_weight_t *w)
{
    const pdl__unit_t  *unit = &s->graph->unit[w->unit];
    const char         *weight = unit->description.weight[w->k].name;
    const char         *layer = pdl_model_layer(s->spec.plan->model, w->owner)->name;
    size_t              length = strlen(layer) + strlen(weight) + 2;
    char               *name = malloc(length);
    pdl__trace_entry_t *entry = &s->weights.entry[s->weights.entry_count];

    if (!name) return no_memory(s);
    snprintf(name, length, "%s.%s", layer, weight);
    *entry = (pdl__trace_entry_t){
        .info = {.name = name, .rank = w->rank, .elements = w->elements, .trainable = w->trainable},
        .unit = w->unit,
        .k = w->k,
        .region = w->region,
        .whole = w->whole,
        .owner = w->owner,
        .axes = w->axes,
        .storage = w->storage,
        .group = -1};
    memcpy(entry->info.dims, w->dims, sizeof(w->dims));
    s->weights.entry_count++;
    pdl_status_t status = count_copies(s->layouts, unit->layer, entry);
    if (s->spec.separate) entry->copies /= pdl_mesh_extent(&s->spec.plan->mesh, PDL_AXIS_DATA);
    return status;
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

/* A bucket is what is in flight, so there are no gaps in it. Weights that fill cache lines come first: of these every
   one begins at a line all the same. One of this rank `alone` has its weights where they would be without it. */
static void place_bucket(pdl_session_t *s, bool alone, pdl__bucket_t *bucket)
{
    align(s);
    bucket->low = s->weights.elements;
    for (int i = bucket->first; i < bucket->last && alone; i++) {
        place_next(s, i);
        align(s);
    }
    for (int pass = 0; pass < 2 && !alone; pass++)
        for (int i = bucket->first; i < bucket->last; i++)
            if ((s->weights.entry[i].storage % ALIGNED_ELEMENTS != 0) == (pass == 1)) place_next(s, i);
    bucket->high = s->weights.elements;
    bucket->part_low = bucket->low;
    bucket->part_high = bucket->high;
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
            place_bucket(s, s->exchange.buckets[entry->group].axes == 0, bucket);
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
    const pdl__rank_weights_t *w = s->graph->weights;
    size_t                     count = (size_t)w->count;
    pdl_status_t               status = PDL_OK;

    s->weights.sharding = w->sharding;
    s->weights.passes = w->weights_pass;
    if (w->weights_pass && s->spec.backend->weight_type != PDL_DTYPE_F32)
        return pdl_error(PDL_ERR_UNSUPPORTED, "weights of 64 bits are not on the host: use memory.weights: device");
    s->weights.entry = calloc(count + 1, sizeof(*s->weights.entry));
    s->weights.parameter = calloc(count + 1, sizeof(*s->weights.parameter));
    s->weights.parameter_entry = calloc(count + 1, sizeof(*s->weights.parameter_entry));
    s->weights.sums = calloc(2 * count + 1, sizeof(*s->weights.sums));
    if (!s->weights.entry || !s->weights.parameter || !s->weights.parameter_entry || !s->weights.sums)
        return no_memory(s);
    for (int i = 0; i < w->count && !status; i++) status = add_entry(s, &w->weight[i]);
    return status;
}

size_t pdl__statistics_bytes(const pdl_session_t *s)
{
    return s->weights.passes
               ? (size_t)(s->weights.workers * (s->weights.elements - s->weights.trainable)) * weight_bytes(s)
               : 0;
}

int64_t pdl__session_elements(const pdl_session_t *s, pdl_session_array_t array)
{
    int64_t trainable = pdl__shard_divides(s, array) ? s->weights.held : s->weights.trainable;

    if (array == PDL_ARRAY_WEIGHT && s->weights.passes) return trainable;
    if (array == PDL_ARRAY_WEIGHT)
        return trainable + s->weights.elements - s->weights.trainable + pdl__worker_elements(s);
    return pdl__session_keeps(s, array) ? trainable : 0;
}

/* Copies of weights that change with every use are made for one unit at a time. */
static pdl_status_t place_packed(pdl_session_t *s)
{
    s->weights.packed_at = calloc((size_t)s->graph->unit_count + 1, sizeof(*s->weights.packed_at));
    s->weights.updated = calloc((size_t)s->graph->unit_count + 1, sizeof(*s->weights.updated));
    if (!s->weights.packed_at || !s->weights.updated) return no_memory(s);
    for (int u = 0; u < s->graph->unit_count; u++) {
        size_t bytes = (s->graph->unit[u].description.packed_bytes + 63) / 64 * 64;
        if (pdl__shard_divides(s, PDL_ARRAY_WEIGHT) || s->weights.passes) {
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

/* Those of another session, which are the same but for the samples that are computed with them. */
static pdl_status_t share_arrays(pdl_session_t *s)
{
    const pdl__weights_t *other = &s->spec.like->weights, *own = &s->weights;

    for (int i = 0; i < own->entry_count; i++)
        if (own->entry_count != other->entry_count || own->entry[i].offset != other->entry[i].offset ||
            own->entry[i].storage != other->entry[i].storage ||
            strcmp(own->entry[i].info.name, other->entry[i].info.name) != 0)
            return pdl_error(PDL_ERR_UNSUPPORTED, "weight %s is stored in another way for other numbers of tokens",
                             own->entry[i].info.name);
    s->weights.array[PDL_ARRAY_WEIGHT] = other->array[PDL_ARRAY_WEIGHT];
    if (s->weights.packed_bytes == 0) return PDL_OK;
    return take(s, s->weights.packed_bytes, &s->weights.packed) ? no_memory(s) : PDL_OK;
}

static pdl_status_t take_arrays(pdl_session_t *s)
{
    for (int a = 0; a < PDL_ARRAY_COUNT; a++) {
        int64_t elements = pdl__session_elements(s, (pdl_session_array_t)a);
        if (elements == 0 || pdl__array_tier(s, (pdl_session_array_t)a) != PDL_TIER_DEVICE) continue;
        if (take(s, (size_t)elements * weight_bytes(s), &s->weights.array[a])) return no_memory(s);
    }
    if (s->weights.packed_bytes > 0 && take(s, s->weights.packed_bytes, &s->weights.packed)) return no_memory(s);
    if (pdl__statistics_bytes(s) > 0 && take(s, pdl__statistics_bytes(s), &s->weights.statistics))
        return no_memory(s);
    return pdl__state_take(s);
}

/* They are drawn in memory that a device copies at the speed of its link. */
static pdl_status_t fill_weights(pdl_session_t *s)
{
    pdl_tensor_device_t *device = s->executor.device;
    const pdl_model_t   *model = s->spec.plan->model;
    int64_t              most = 1;
    void                *plain = NULL;

    for (int i = 0; i < s->weights.entry_count; i++)
        if (s->weights.entry[i].info.elements > most) most = s->weights.entry[i].info.elements;
    pdl_status_t status = device->ops->alloc(device, PDL_SPACE_PINNED, (size_t)most * sizeof(float), &plain);
    if (status) return no_memory(s);
    for (int i = 0; i < s->weights.entry_count && !status; i++) {
        const pdl__trace_entry_t *entry = &s->weights.entry[i];
        const pdl__unit_t        *unit = &s->graph->unit[entry->unit];
        status = pdl_init_weight(pdl_model_layer(model, entry->owner), unit->description.weight[entry->k].name,
                                 entry->info.rank, entry->info.dims, s->spec.seed, plain);
        if (!status) status = pdl_session_set(s, i, PDL_ARRAY_WEIGHT, plain);
        if (!status && pdl__session_keeps(s, PDL_ARRAY_EMA) && entry->info.trainable)
            status = pdl_session_set(s, i, PDL_ARRAY_EMA, plain);
    }
    device->ops->release(device, PDL_SPACE_PINNED, plain, (size_t)most * sizeof(float));
    return status ? status : pdl__spread_statistics(s);
}

/* The parameter that is all of an entry, or NULL. */
static pdl_parameter_t *parameter_of(const pdl_session_t *s, int entry)
{
    for (int i = 0; i < s->weights.parameter_count; i++)
        if (s->weights.parameter_entry[i] == entry) return &s->weights.parameter[i];
    return NULL;
}

/* An update writes the copies that are like the weights. Of several units with the same weight it writes those of one; and
   where ranks update parts of weights, copies are made of the whole. */
static void find_copies(pdl_session_t *s)
{
    size_t item = pdl_dtype_bytes(s->spec.backend->activation_type);

    for (int u = 0; u < s->graph->unit_count && s->weights.sharding == PDL_SHARDING_NONE && !s->weights.passes;
         u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        bool               all = unit->description.packed_bytes > 0 && !unit->zero_bias;

        for (int k = 0; k < unit->description.weight_count; k++) {
            const pdl_weight_t *weight = &unit->description.weight[k];
            pdl_parameter_t    *p = weight->copied ? parameter_of(s, unit->weight[k]) : NULL;

            all = all && p != NULL && p->range.packed < 0 && p->range.elements == weight->elements;
            if (all) p->range.packed = (int64_t)((s->weights.packed_at[u] + weight->copied_at) / item);
        }
        s->weights.updated[u] = all;
    }
}

pdl_status_t pdl__session_refresh(pdl_session_t *s, bool updated)
{
    const pdl_backend_ops_t *ops = s->spec.backend->ops;

    if (pdl__shard_divides(s, PDL_ARRAY_WEIGHT) || s->weights.passes)
        return PDL_OK; /* they come before every use */
    for (int u = 0; u < s->graph->unit_count; u++) {
        pdl__unit_t *unit = &s->graph->unit[u];
        if (!unit->op || unit->description.packed_bytes == 0 || (updated && s->weights.updated[u])) continue;
        pdl_op_run_t run = {.packed = (char *)s->weights.packed + s->weights.packed_at[u]};
        for (int k = 0; k < unit->description.weight_count; k++) {
            const pdl__trace_entry_t *entry = &s->weights.entry[unit->weight[k]];
            bool                      zero = unit->zero_bias && entry->info.rank == 1;
            run.weight[k] = zero ? s->executor.zeros : pdl__entry_at(s, PDL_ARRAY_WEIGHT, entry);
        }
        pdl_status_t status = ops->refresh(unit->op, s->executor.stream[PDL_STREAM_COMPUTE], &run);
        if (status) return status;
    }
    return PDL_OK;
}

pdl_status_t pdl__weights_plan(pdl_session_t *s)
{
    pdl_status_t status = list_entries(s);

    if (!status) status = pdl__buckets_take(s);
    if (!status) place_entries(s);
    if (!status) status = pdl__shard_divide(s);
    if (!status) status = place_packed(s);
    if (status) return status;
    find_copies(s);
    return pdl_optimizer_table_create(&s->spec.optimizer, s->weights.parameter, s->weights.parameter_count,
                                      &s->weights.table);
}

pdl_status_t pdl__weights_take(pdl_session_t *s)
{
    if (s->dry) return PDL_OK;
    pdl_status_t status = s->spec.like ? share_arrays(s) : take_arrays(s);
    if (!status && !s->spec.like) status = fill_weights(s);
    return status ? status : pdl__session_refresh(s, false);
}

void pdl__session_free_weights(pdl_session_t *s)
{
    for (int a = 0; a < PDL_ARRAY_COUNT; a++)
        if (s->weights.array[a] && !s->spec.like)
            s->executor.device->ops->release(
                s->executor.device,
                pdl__array_tier(s, (pdl_session_array_t)a) == PDL_TIER_DEVICE ? PDL_SPACE_DEVICE : PDL_SPACE_PINNED,
                s->weights.array[a], (size_t)pdl__session_elements(s, (pdl_session_array_t)a) * weight_bytes(s));
    pdl__state_give(s);
    if (s->weights.statistics)
        s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->weights.statistics,
                                         pdl__statistics_bytes(s));
    s->executor.device->ops->release(s->executor.device, PDL_SPACE_DEVICE, s->weights.packed,
                                     s->weights.packed_bytes);
    for (int i = 0; i < s->weights.entry_count; i++) free((char *)(uintptr_t)s->weights.entry[i].info.name);
    free(s->weights.entry);
    free(s->weights.parameter);
    pdl_optimizer_table_destroy(s->weights.table);
    free(s->weights.parameter_entry);
    free(s->weights.sums);
    free(s->weights.packed_at);
    free(s->weights.updated);
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
