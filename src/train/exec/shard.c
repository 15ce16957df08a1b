/*
 * Who keeps which part of every bucket, and where.
 */
#include "train/exec/shard.h"
#include "base/memory.h"
#include <stdlib.h>

bool pdl__shard_divides(const pdl_session_t *s, pdl_session_array_t array)
{
    switch (array) {
    case PDL_ARRAY_WEIGHT: return s->weights.sharding >= PDL_SHARDING_ZERO3;
    case PDL_ARRAY_GRADIENT: return s->weights.sharding >= PDL_SHARDING_ZERO2;
    default: return s->weights.sharding >= PDL_SHARDING_ZERO1;
    }
}

float *pdl__shard_part(const pdl_session_t *s, pdl_session_array_t array, const pdl__bucket_t *bucket)
{
    return (float *)s->weights.array[array] + (pdl__shard_divides(s, array) ? bucket->held : bucket->part_low);
}

static int64_t in_units(int64_t elements)
{
    return (elements + PDL__PART_UNIT - 1) / PDL__PART_UNIT;
}

static void cut_bucket(const pdl__bucket_t *bucket, int ranks, int rank, int64_t *low, int64_t *high)
{
    pdl__bucket_part(bucket->high - bucket->low, ranks, rank, low, high);
    *low += bucket->low;
    *high += bucket->low;
}

/* The place of this rank's part of a bucket in arrays of parts. */
static void hold_bucket(pdl_session_t *s, pdl__bucket_t *bucket)
{
    bucket->held = s->weights.held;
    s->weights.held += in_units(bucket->part_high - bucket->part_low) * PDL__PART_UNIT;
}

/* Parts of the buckets of one group. */
static pdl_status_t divide_group(pdl_session_t *s, pdl__buckets_t *group)
{
    pdl_status_t status =
        pdl__groups_get(s->groups, group->axes & pdl__data_axes(&s->spec.plan->mesh), &group->shard_ranks);

    for (int b = 0; b < group->count && !status; b++) {
        pdl__bucket_t *bucket = &group->bucket[b];
        cut_bucket(bucket, pdl_ranks_size(group->shard_ranks), pdl_ranks_rank(group->shard_ranks),
                   &bucket->part_low, &bucket->part_high);
        hold_bucket(s, bucket);
    }
    return status;
}

/* Where everything lies in arrays of parts: weights that nobody shares are there as a whole. */
static pdl_status_t hold_parts(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    s->weights.held = 0;
    for (int i = 0; i < s->weights.entry_count && s->weights.entry[i].info.trainable && !status; i++) {
        pdl__trace_entry_t *entry = &s->weights.entry[i];
        pdl__buckets_t     *group = entry->group < 0 ? NULL : &s->exchange.buckets[entry->group];
        if (group && (group->axes & pdl__data_axes(&s->spec.plan->mesh))) {
            if (i == group->first) status = divide_group(s, group);
            continue;
        }
        if (group && i == group->bucket[entry->bucket].first) hold_bucket(s, &group->bucket[entry->bucket]);
        entry->held = group ? group->bucket[entry->bucket].held + entry->offset - group->bucket[entry->bucket].low
                            : s->weights.held;
        if (group == NULL) s->weights.held += in_units(entry->storage) * PDL__PART_UNIT;
    }
    return status;
}

/* What this rank updates of a weight, if anything. */
static void add_parameter(pdl_session_t *s, int i)
{
    const pdl__trace_entry_t *entry = &s->weights.entry[i];
    const pdl__buckets_t     *group = entry->group < 0 ? NULL : &s->exchange.buckets[entry->group];
    int64_t                   low = entry->offset, high = low + entry->storage, held = entry->held;
    int                       n = s->weights.parameter_count;

    int64_t copies = entry->copies;
    bool    in_parts = pdl__shard_divides(s, PDL_ARRAY_GRADIENT) && !s->graph->weights->gradients_pass;

    if (group && group->shard_ranks) {
        const pdl__bucket_t *bucket = &group->bucket[entry->bucket];
        if (low < bucket->part_low) low = bucket->part_low;
        if (high > bucket->part_high) high = bucket->part_high;
        held = bucket->held + low - bucket->part_low;
        copies /= pdl_ranks_size(group->shard_ranks);
    }
    if (low >= high) return;
    s->weights.parameter[n] =
        (pdl_parameter_t){.range = {.elements = high - low,
                                    .weights = pdl__shard_divides(s, PDL_ARRAY_WEIGHT) ? held : low,
                                    .gradients = in_parts ? held : low,
                                    .state = held,
                                    .packed = -1,
                                    .decays = entry->info.rank > 1 || s->spec.optimizer.decay_all},
                          .copies = copies};
    s->weights.parameter_entry[n] = i;
    s->weights.parameter_count++;
}

pdl_status_t pdl__shard_divide(pdl_session_t *s)
{
    if (s->weights.sharding == PDL_SHARDING_NONE) return PDL_OK;
    if (s->spec.backend->weight_type != PDL_DTYPE_F32)
        return pdl_error(PDL_ERR_UNSUPPORTED, "weights of 64 bits are not sharded: plan with sharding none");
    pdl_status_t status = hold_parts(s);
    if (status) return status;
    s->weights.parameter_count = 0;
    for (int i = 0; i < s->weights.entry_count && s->weights.entry[i].info.trainable; i++) add_parameter(s, i);
    return PDL_OK;
}

/* Sums of this rank's parts over the axes of the group that are no data axes. */
static pdl_status_t connect_rest(pdl_session_t *s, pdl__buckets_t *group, int64_t *bound)
{
    pdl_exchange_spec_t spec = {.transport = s->executor.transport,
                                .stream = s->executor.stream[PDL_STREAM_GRADIENT],
                                .bound = bound,
                                .buckets = group->count};
    unsigned            axes = group->axes & ~pdl__data_axes(&s->spec.plan->mesh);

    if (axes == 0) return PDL_OK;
    for (int b = 0; b < group->count; b++)
        bound[b + 1] = bound[b] + group->bucket[b].part_high - group->bucket[b].part_low;
    pdl_status_t status = pdl__groups_get(s->groups, axes, &spec.ranks);
    pdl__name_exchange(s, axes, &spec);
    if (!status) status = pdl_exchange_create(&spec, &group->rest);
    for (int b = 0; b < group->count && !status && !s->dry; b++)
        status = pdl_exchange_place(group->rest, b, pdl__shard_part(s, PDL_ARRAY_GRADIENT, &group->bucket[b]));
    return status;
}

/* Buckets of an array that every rank has as a whole stay where they are. */
static pdl_status_t place_whole(pdl_session_t *s, pdl_session_array_t array, const pdl__buckets_t *group,
                                pdl_exchange_t *exchange)
{
    pdl_status_t status = PDL_OK;

    if (s->weights.array[array] == NULL || pdl__shard_divides(s, array)) return PDL_OK;
    for (int b = 0; b < group->count && !status; b++)
        status = pdl_exchange_place(exchange, b, pdl__bucket_at(s, array, &group->bucket[b]));
    return status;
}

static pdl_status_t connect_parts(pdl_session_t *s, pdl__buckets_t *group, int64_t *bound, int64_t *part)
{
    int                 ranks = pdl_ranks_size(group->shard_ranks);
    pdl_exchange_spec_t spec = {.transport = s->executor.transport,
                                .stream = s->executor.stream[PDL_STREAM_GRADIENT],
                                .ranks = group->shard_ranks,
                                .bound = bound,
                                .buckets = group->count,
                                .part = part,
                                .overlap = s->spec.overlap};

    for (int b = 0; b < group->count; b++) {
        bound[b + 1] = bound[b] + group->bucket[b].high - group->bucket[b].low;
        for (int r = 0; r < ranks; r++) {
            int64_t low, high;
            cut_bucket(&group->bucket[b], ranks, r, &low, &high);
            part[b * ranks + r] = high - low;
        }
    }
    spec.collective = PDL_COLL_REDUCE_SCATTER;
    pdl__name_exchange(s, group->axes & pdl__data_axes(&s->spec.plan->mesh), &spec);
    pdl_status_t status = pdl_exchange_create(&spec, &group->exchange);
    spec.collective = PDL_COLL_ALLGATHER;
    pdl__name_exchange(s, group->axes & pdl__data_axes(&s->spec.plan->mesh), &spec);
    if (!status) status = pdl_exchange_create(&spec, &group->gather);
    if (!status) status = place_whole(s, PDL_ARRAY_GRADIENT, group, group->exchange);
    return status ? status : place_whole(s, PDL_ARRAY_WEIGHT, group, group->gather);
}

pdl_status_t pdl__shard_connect(pdl_session_t *s, pdl__buckets_t *group)
{
    size_t       parts = (size_t)group->count * (size_t)pdl_ranks_size(group->shard_ranks);
    int64_t     *bound = calloc((size_t)group->count + 1 + parts, sizeof(*bound));
    pdl_status_t status = bound ? PDL_OK : pdl__no_memory("while preparing to train");

    if (!status) status = connect_parts(s, group, bound, bound + group->count + 1);
    if (!status) status = connect_rest(s, group, bound);
    free(bound);
    return status;
}

pdl_status_t pdl__shard_gather(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    if (s->weights.sharding == PDL_SHARDING_NONE || pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) return PDL_OK;
    for (int way = 0; way < 2; way++)
        for (int g = 0; g < s->exchange.bucket_groups; g++)
            for (int b = 0; s->exchange.buckets[g].gather && b < s->exchange.buckets[g].count && !status; b++)
                status = way == 0 ? pdl__bucket_ready(s, s->exchange.buckets[g].gather, b)
                                  : pdl__bucket_wait(s, s->exchange.buckets[g].gather, b);
    return status;
}
