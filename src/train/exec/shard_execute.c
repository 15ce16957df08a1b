/*
 * Sharded state while a program is executed: weights come before they are used, gradients leave when they are complete.
 */
#include "train/exec/shard.h"

static size_t part_bytes(const pdl__bucket_t *bucket)
{
    return (size_t)(bucket->part_high - bucket->part_low) * sizeof(float);
}

void pdl__shard_begin(pdl_session_t *s)
{
    for (int g = 0; g < s->bucket_groups; g++)
        for (int b = 0; b < s->buckets[g].count; b++) s->buckets[g].bucket[b].begun = false;
    s->shard->next_event = s->shard->started = s->shard->arrived = 0;
}

/* Asks for the weights of a bucket, of which this rank gives its part. */
static pdl_status_t start_gather(pdl_session_t *s, const pdl__stay_t *stay)
{
    pdl__buckets_t      *group = &s->buckets[stay->group];
    const pdl__bucket_t *bucket = &group->bucket[stay->bucket];
    float               *place = (float *)(void *)(s->shard->weight_arena + stay->offset);

    pdl_status_t status = pdl__session_order(s, PDL__STREAM_COMPUTE, PDL__STREAM_EXCHANGE);
    if (!status)
        status =
            s->device->ops->copy(s->device, s->stream[PDL__STREAM_EXCHANGE], place + bucket->part_low - bucket->low,
                                 pdl__shard_part(s, PDL_ARRAY_WEIGHT, bucket), part_bytes(bucket));
    if (!status) status = pdl_exchange_place(group->gather, stay->bucket, place);
    return status ? status : pdl_exchange_ready(group->gather, stay->bucket);
}

/* The weights of an operation are there when this returns, and the next ones are on their way. */
static pdl_status_t bring_weights(pdl_session_t *s, const pdl__stays_t *stays, int op)
{
    pdl__shard_t *shard = s->shard;
    pdl_status_t  status = PDL_OK;

    if (op == 0 && stays->count > 0) status = start_gather(s, &stays->stay[shard->started++]);
    while (!status && shard->arrived < stays->count && stays->stay[shard->arrived].first == op) {
        const pdl__stay_t *stay = &stays->stay[shard->arrived++];
        pdl__buckets_t    *group = &s->buckets[stay->group];
        status = pdl__bucket_wait(s, group->gather, stay->bucket);
        group->bucket[stay->bucket].weights = (float *)(void *)(shard->weight_arena + stay->offset);
        if (!status && shard->started < stays->count) status = start_gather(s, &stays->stay[shard->started++]);
    }
    return status;
}

/* Padding inside of weights stays zero, as backward expects. */
static pdl_status_t open_bucket(pdl_session_t *s, const pdl__stay_t *stay)
{
    pdl__bucket_t *bucket = &s->buckets[stay->group].bucket[stay->bucket];

    bucket->gradients = (float *)(void *)(s->shard->gradient_arena + stay->offset);
    for (int i = bucket->first; i < bucket->last; i++) s->entry[i].written = false;
    return s->device->ops->fill(s->device, s->stream[PDL__STREAM_COMPUTE], bucket->gradients,
                                (size_t)(bucket->high - bucket->low) * sizeof(float));
}

static pdl_status_t send_bucket(pdl_session_t *s, const pdl__stay_t *stay)
{
    pdl__buckets_t *group = &s->buckets[stay->group];
    pdl_status_t status = pdl_exchange_place(group->exchange, stay->bucket, group->bucket[stay->bucket].gradients);
    return status ? status : pdl__bucket_ready(s, group->exchange, stay->bucket);
}

/* The sum of this rank's part has come: it is kept, or added to that of earlier micro-batches. */
static pdl_status_t keep_part(pdl_session_t *s, const pdl__stay_t *stay)
{
    pdl__buckets_t      *group = &s->buckets[stay->group];
    pdl__bucket_t       *bucket = &group->bucket[stay->bucket];
    pdl_tensor_stream_t *compute = s->stream[PDL__STREAM_COMPUTE];
    pdl_status_t         status = pdl__bucket_wait(s, group->exchange, stay->bucket);
    const float         *from = (const float *)(const void *)(s->shard->gradient_arena + stay->offset);
    float               *to = pdl__shard_part(s, PDL_ARRAY_GRADIENT, bucket);
    int64_t              count = bucket->part_high - bucket->part_low;

    if (status) return status;
    from += bucket->part_low - bucket->low;
    status = bucket->begun ? s->device->ops->reduce(s->device, compute, PDL_DTYPE_F32, from, to, count)
                           : s->device->ops->copy(s->device, compute, to, from, part_bytes(bucket));
    bucket->begun = true;
    return status;
}

/* Everything up to an operation and a kind of event. */
static pdl_status_t handle_events(pdl_session_t *s, int op, pdl__shard_event_kind_t kind)
{
    pdl__shard_t *shard = s->shard;
    pdl_status_t  status = PDL_OK;

    while (!status && shard->next_event < shard->event_count) {
        const pdl__shard_event_t *event = &shard->event[shard->next_event];
        const pdl__stay_t        *stay = &shard->gradients.stay[event->stay];
        if (event->op > op || (event->op == op && event->kind > kind)) break;
        shard->next_event++;
        if (event->kind == PDL__SHARD_OPEN)
            status = open_bucket(s, stay);
        else
            status = event->kind == PDL__SHARD_SEND ? send_bucket(s, stay) : keep_part(s, stay);
    }
    return status;
}

/* Time of the exchange that is not hidden. */
static void count_time(pdl_session_t *s, double start_s)
{
    s->class_s[PDL_CLASS_GRADIENT] += pdl__now_s() - start_s;
}

pdl_status_t pdl__shard_before(pdl_session_t *s, const pdl_program_t *program, int op, bool training)
{
    double       start_s = pdl__now_s();
    pdl_status_t status = PDL_OK;

    if (s->sharding >= PDL_SHARDING_ZERO3) status = bring_weights(s, &s->shard->weights[program == s->program], op);
    if (!status && training) status = handle_events(s, op, PDL__SHARD_OPEN);
    if (training) count_time(s, start_s);
    return status;
}

pdl_status_t pdl__shard_after(pdl_session_t *s, int op)
{
    return handle_events(s, op, PDL__SHARD_SEND);
}

pdl_status_t pdl__shard_poll(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    for (int g = 0; g < s->bucket_groups && !status; g++)
        if (s->buckets[g].gather) status = pdl_exchange_poll(s->buckets[g].gather);
    return status;
}

/* Sums over axes that are no data axes. */
static pdl_status_t sum_rest(pdl_session_t *s, pdl__buckets_t *group)
{
    pdl_status_t status = PDL_OK;

    for (int b = 0; b < group->count && !status; b++) status = pdl__bucket_ready(s, group->rest, b);
    for (int b = 0; b < group->count && !status; b++) status = pdl__bucket_wait(s, group->rest, b);
    return status;
}

pdl_status_t pdl__shard_finish(pdl_session_t *s)
{
    pdl_status_t status = handle_events(s, s->program->op_count, PDL__SHARD_SEND);

    for (int g = 0; g < s->bucket_groups && !status; g++)
        if (s->buckets[g].rest) status = sum_rest(s, &s->buckets[g]);
    return status;
}

pdl_status_t pdl__shard_gather(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    if (s->sharding == PDL_SHARDING_NONE || pdl__shard_divides(s, PDL_ARRAY_WEIGHT)) return PDL_OK;
    for (int way = 0; way < 2; way++)
        for (int g = 0; g < s->bucket_groups; g++)
            for (int b = 0; s->buckets[g].gather && b < s->buckets[g].count && !status; b++)
                status = way == 0 ? pdl__bucket_ready(s, s->buckets[g].gather, b)
                                  : pdl__bucket_wait(s, s->buckets[g].gather, b);
    return status;
}
