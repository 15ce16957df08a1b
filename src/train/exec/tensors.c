/*
 * Whole tensors to and from the pieces that ranks hold.
 */
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include "train/state/state.h"
#include <paradl/comm/regions.h>
#include <stdlib.h>
#include <string.h>

/* Copies the elements of a region out of a whole tensor, one after the other. */
static void copy_piece(const pdl_region_t *region, const int64_t *dims, int dim, const float *whole, float **piece)
{
    int64_t stride = 1;

    for (int d = dim + 1; d < region->rank; d++) stride *= dims[d];
    for (int s = 0; s < region->segments[dim]; s++)
        for (int64_t i = region->range[dim][s].low; i < region->range[dim][s].high; i++) {
            if (dim + 1 < region->rank && dim + 1 < PDL_REGION_DIMS) {
                copy_piece(region, dims, dim + 1, whole + i * stride, piece);
                continue;
            }
            *(*piece)++ = whole[i];
        }
}

static pdl_status_t no_memory(const pdl__trace_entry_t *entry)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory for %s", entry->info.name);
}

/* Collective over the ranks of a stage: everyone gets the whole. */
static pdl_status_t gather(const pdl_session_t *s, const pdl__trace_entry_t *entry, const float *piece,
                           float *whole)
{
    pdl_ranks_t  *group = s->groups->stage;
    int           ranks = pdl_ranks_size(group), layer = s->graph->unit[entry->unit].layer;
    pdl_region_t *own = calloc((size_t)ranks, 2 * sizeof(*own)), *need = own + ranks;
    pdl_move_t   *move = NULL;
    pdl_status_t  status = own ? PDL_OK : no_memory(entry);

    for (int r = 0; r < ranks && !status; r++) {
        int64_t coordinates[PDL_MAX_AXES];
        pdl__layouts_member(s->layouts, s->layouts->stage_axes, r, coordinates);
        status = pdl__weight_region(s->layouts, layer, entry->info.rank, entry->info.dims, coordinates, &own[r]);
        need[r] = (pdl_region_t){.rank = entry->info.rank};
        for (int d = 0; d < entry->info.rank; d++) {
            need[r].segments[d] = 1;
            need[r].range[d][0].high = entry->info.dims[d];
        }
    }
    pdl_move_spec_t spec = {.group = group, .own = own, .need = need};
    if (!status) status = pdl_move_create(&spec, &move);
    if (!status) status = pdl_move_forward(move, NULL, piece, whole);
    pdl_move_destroy(move);
    free(own);
    return status;
}

bool pdl__shard_cuts(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    /* With zero1 there is room for all gradients, but only this rank's part is the sum. */
    bool cut =
        pdl__shard_divides(s, array) || (array == PDL_ARRAY_GRADIENT && s->weights.sharding != PDL_SHARDING_NONE);

    return cut && entry->info.trainable && entry->group >= 0 && s->exchange.buckets[entry->group].shard_ranks;
}

/* The elements of a weight that are this rank's, counted in its arrays; how many. */
static int64_t own_range(const pdl__bucket_t *bucket, const pdl__trace_entry_t *entry, int64_t *low)
{
    int64_t high = entry->offset + entry->storage;

    *low = entry->offset > bucket->part_low ? entry->offset : bucket->part_low;
    if (high > bucket->part_high) high = bucket->part_high;
    return high > *low ? high - *low : 0;
}

/* Whether an array is in a file. */
static bool on_disk(const pdl_session_t *s, pdl_session_array_t array)
{
    return pdl__array_tier(s, array) == PDL_TIER_DISK;
}

/* `count` elements of this rank's part of a bucket, from element `low` of its tensors on. */
static pdl_status_t get_part(const pdl_session_t *s, pdl_session_array_t array, const pdl__bucket_t *bucket,
                             int64_t low, int64_t count, float *values)
{
    if (on_disk(s, array)) return pdl__state_read(s, array, bucket->held + low - bucket->part_low, count, values);
    return s->executor.device->ops->copy(s->executor.device, NULL, values,
                                         pdl__shard_part(s, array, bucket) + low - bucket->part_low,
                                         (size_t)count * sizeof(float));
}

pdl_status_t pdl__shard_collect(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                                float *storage)
{
    const pdl__buckets_t *group = &s->exchange.buckets[entry->group];
    const pdl__bucket_t  *bucket = &group->bucket[entry->bucket];
    pdl_status_t          status = PDL_OK;

    /* Ranks tell each other places in the weight: in their arrays it begins elsewhere where some have more experts. */
    for (int r = 0; r < pdl_ranks_size(group->shard_ranks) && !status; r++) {
        int64_t range[2] = {0, 0}, low;
        if (r == pdl_ranks_rank(group->shard_ranks)) {
            range[1] = own_range(bucket, entry, &low);
            range[0] = low - entry->offset;
            if (range[1] > 0) status = get_part(s, array, bucket, low, range[1], storage + range[0]);
        }
        if (!status) status = pdl_ranks_broadcast(group->shard_ranks, range, sizeof(range), r);
        if (!status && range[1] > 0)
            status =
                pdl_ranks_broadcast(group->shard_ranks, storage + range[0], range[1] * (int64_t)sizeof(float), r);
    }
    return status;
}

pdl_status_t pdl__shard_spread(pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                               const float *storage)
{
    const pdl__bucket_t *bucket = &s->exchange.buckets[entry->group].bucket[entry->bucket];
    int64_t              low, count = own_range(bucket, entry, &low);

    if (on_disk(s, array))
        return pdl__state_write(s, array, bucket->held + low - bucket->part_low, count,
                                storage + low - entry->offset);
    return s->executor.device->ops->copy(s->executor.device, NULL,
                                         pdl__shard_part(s, array, bucket) + low - bucket->part_low,
                                         storage + low - entry->offset, (size_t)count * sizeof(float));
}

/* What this rank's op has of a weight, from its storage. */
static pdl_status_t export_entry(const pdl_session_t *s, const pdl__trace_entry_t *entry, const void *storage,
                                 float *plain)
{
    pdl_op_t *op = s->graph->unit[entry->unit].op;

    if (entry->whole) return s->spec.backend->ops->weight_export(op, entry->k, storage, plain);
    float *piece = malloc((size_t)pdl_region_elements(&entry->region) * sizeof(*piece));
    if (!piece) return no_memory(entry);
    pdl_status_t status = s->spec.backend->ops->weight_export(op, entry->k, storage, piece);
    if (!status) status = gather(s, entry, piece, plain);
    free(piece);
    return status;
}

/* Where an entry that is not cut begins in the file. */
static int64_t place_on_disk(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    return pdl__shard_divides(s, array) ? entry->held : entry->offset;
}

/* Where an entry is that is not cut. */
static void *entry_of(const pdl_session_t *s, pdl_session_array_t array, const pdl__trace_entry_t *entry)
{
    return s->weights.passes ? pdl__entry_home(s, array, entry) : pdl__entry_at(s, array, entry);
}

pdl_status_t pdl_session_get(const pdl_session_t *s, int i, pdl_session_array_t array, float *plain)
{
    const pdl__trace_entry_t *entry = &s->weights.entry[i];
    pdl_status_t              status = pdl__session_await(s);
    bool                      cut = pdl__shard_cuts(s, array, entry);

    if (status) return status;
    if (!cut && !on_disk(s, array)) return export_entry(s, entry, entry_of(s, array, entry), plain);
    void *storage = malloc((size_t)entry->storage * pdl_dtype_bytes(s->spec.backend->weight_type));
    if (!storage) return no_memory(entry);
    status = cut ? pdl__shard_collect(s, array, entry, storage)
                 : pdl__state_read(s, array, place_on_disk(s, array, entry), entry->storage, storage);
    if (!status) status = export_entry(s, entry, storage, plain);
    free(storage);
    return status;
}

static pdl_status_t import_entry(const pdl_session_t *s, const pdl__trace_entry_t *entry, const float *plain,
                                 void *storage)
{
    pdl_op_t *op = s->graph->unit[entry->unit].op;

    if (entry->whole) return s->spec.backend->ops->weight_import(op, entry->k, plain, storage);
    float *piece = malloc((size_t)pdl_region_elements(&entry->region) * sizeof(*piece)), *at = piece;
    if (!piece) return no_memory(entry);
    copy_piece(&entry->region, entry->info.dims, 0, plain, &at);
    pdl_status_t status = s->spec.backend->ops->weight_import(op, entry->k, piece, storage);
    free(piece);
    return status;
}

pdl_status_t pdl_session_set(pdl_session_t *s, int i, pdl_session_array_t array, const float *plain)
{
    const pdl__trace_entry_t *entry = &s->weights.entry[i];
    pdl_status_t              status = pdl__session_await(s);
    bool                      cut = pdl__shard_cuts(s, array, entry);

    if (status) return status;
    if (!cut && !on_disk(s, array)) return import_entry(s, entry, plain, entry_of(s, array, entry));
    void *storage = malloc((size_t)entry->storage * pdl_dtype_bytes(s->spec.backend->weight_type));
    if (!storage) return no_memory(entry);
    status = import_entry(s, entry, plain, storage);
    if (!status)
        status = cut ? pdl__shard_spread(s, array, entry, storage)
                     : pdl__state_write(s, array, place_on_disk(s, array, entry), entry->storage, storage);
    free(storage);
    return status;
}
