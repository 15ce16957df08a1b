/*
 * Whole weights to and from the parts that ranks keep.
 */
#include "train/exec/shard.h"

bool pdl__shard_cuts(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    /* With zero1 there is room for all gradients, but only this rank's part is the sum. */
    bool cut = pdl__shard_divides(s, array) || (array == PDL_ARRAY_GRADIENT && s->sharding != PDL_SHARDING_NONE);

    return cut && entry->info.trainable && entry->group >= 0 && s->buckets[entry->group].shard_ranks;
}

/* The elements of a weight that are this rank's; how many. */
static int64_t own_range(const pdl__bucket_t *bucket, const pdl__trace_entry_t *entry, int64_t *low)
{
    int64_t high = entry->offset + entry->storage;

    *low = entry->offset > bucket->part_low ? entry->offset : bucket->part_low;
    if (high > bucket->part_high) high = bucket->part_high;
    return high > *low ? high - *low : 0;
}

pdl_status_t pdl__shard_collect(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                                float *storage)
{
    const pdl__buckets_t *group = &s->buckets[entry->group];
    const pdl__bucket_t  *bucket = &group->bucket[entry->bucket];
    pdl_status_t          status = PDL_OK;

    for (int r = 0; r < pdl_ranks_size(group->shard_ranks) && !status; r++) {
        int64_t range[2] = {0, 0};
        if (r == pdl_ranks_rank(group->shard_ranks)) {
            range[1] = own_range(bucket, entry, &range[0]);
            if (range[1] > 0)
                status = s->device->ops->copy(s->device, NULL, storage + range[0] - entry->offset,
                                              pdl__shard_part(s, array, bucket) + range[0] - bucket->part_low,
                                              (size_t)range[1] * sizeof(float));
        }
        if (!status) status = pdl_ranks_broadcast(group->shard_ranks, range, sizeof(range), r);
        if (!status && range[1] > 0)
            status = pdl_ranks_broadcast(group->shard_ranks, storage + range[0] - entry->offset,
                                         range[1] * (int64_t)sizeof(float), r);
    }
    return status;
}

pdl_status_t pdl__shard_spread(pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                               const float *storage)
{
    const pdl__bucket_t *bucket = &s->buckets[entry->group].bucket[entry->bucket];
    int64_t              low, count = own_range(bucket, entry, &low);

    return s->device->ops->copy(s->device, NULL, pdl__shard_part(s, array, bucket) + low - bucket->part_low,
                                storage + low - entry->offset, (size_t)count * sizeof(float));
}
