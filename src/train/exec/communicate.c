/*
 * Operations that communicate: moves of redistributions, messages between stages, collectives of gradients and weights, and
 * copies to the host and back.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/exec/execute.h"
#include "train/exec/shard.h"
#include "train/state/state.h"
#include <paradl/comm/regions.h>
#include <stdlib.h>

/* The move of a redistribution or halo, and whether it goes back and is added at the owners. */
static pdl_move_t *move_of(const pdl_session_t *s, const pdl_program_op_t *op, bool *transpose)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];
    const pdl__edge_t *edge = op->sums >= 0 ? unit->after[op->sums] : unit->edge;

    if (op->part > 0) {
        *transpose = op->backward;
        return unit->halo->side[op->part - 1].move->made;
    }
    const pdl__edge_step_t *step = &edge->step[op->backward ? PDL_BACKWARD : PDL_FORWARD][op->move];
    *transpose = step->transpose;
    return step->move->made;
}

/* A move that no other rank takes part in is complete at once. */
static pdl_status_t issue_move(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    bool         transpose;
    pdl_move_t  *move = move_of(s, op, &transpose);
    pdl_status_t status =
        pdl_move_start(move, s->executor.stream[op->stream], pdl__buffer_at(s, execution, op->input[0]),
                       pdl__buffer_at(s, execution, op->output), transpose);

    return status || pdl_program_op_in_flight(op) ? status : pdl_move_finish(move);
}

/* The channel between stages of a send or receive. */
static pdl__channel_t *channel_of(const pdl_session_t *s, const pdl_program_op_t *op)
{
    const pdl__unit_t *unit = &s->graph->unit[op->node];

    return op->backward ? unit->back_channel : unit->there_channel;
}

static const pdl__bucket_t *bucket_of(const pdl_session_t *s, const pdl_program_t *program, int bucket)
{
    return &s->exchange.buckets[program->bucket[bucket].set].bucket[program->bucket[bucket].index];
}

pdl_exchange_t *pdl__exchange_of(const pdl_session_t *s, const pdl_program_t *program, const pdl_program_op_t *op,
                                 int *bucket)
{
    if (op->role == PDL_ROLE_TIED) {
        *bucket = 0;
        return s->exchange.ties[op->bucket].exchange;
    }
    const pdl__buckets_t *set = &s->exchange.buckets[program->bucket[op->bucket].set];
    *bucket = program->bucket[op->bucket].index;
    return op->role == PDL_ROLE_PARTS ? set->rest : op->role == PDL_ROLE_WEIGHTS ? set->gather : set->exchange;
}

static size_t part_bytes(const pdl__bucket_t *bucket)
{
    return (size_t)(bucket->part_high - bucket->part_low) * sizeof(float);
}

/* Whole buckets in the arena lie elsewhere every time; to one of weights this rank gives its part, which is there where it comes from
   the host. */
static pdl_status_t issue_collective(pdl_session_t *s, const pdl_program_op_t *op,
                                     const pdl__execution_t *execution)
{
    int             b;
    pdl_exchange_t *exchange = pdl__exchange_of(s, execution->program, op, &b);
    float          *place = pdl__buffer_at(s, execution, op->output);
    pdl_status_t    status = PDL_OK;

    if (place != NULL && op->role == PDL_ROLE_WEIGHTS && !s->weights.passes) {
        const pdl__bucket_t *bucket = bucket_of(s, execution->program, op->bucket);
        status = s->executor.device->ops->copy(s->executor.device, s->executor.stream[op->stream],
                                               place + bucket->part_low - bucket->low,
                                               pdl__shard_part(s, PDL_ARRAY_WEIGHT, bucket), part_bytes(bucket));
    }
    if (!status && place != NULL) status = pdl_exchange_place(exchange, b, place);
    return status ? status : pdl_exchange_ready(exchange, b);
}

static bool is_copy(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_COPY_OUT || op->kind == PDL_OP_COPY_IN;
}

/* Whoever waits for it waits for its own event. */
static bool has_event(const pdl_program_op_t *op)
{
    return is_copy(op) || (op->kind == PDL_OP_UPDATE && op->stream == PDL_STREAM_HOST);
}

pdl_status_t pdl__copies_create(pdl_session_t *s)
{
    const pdl_program_t *programs[] = {s->forward_program, s->program};
    pdl_status_t         status = PDL_OK;

    if (s->dry) return PDL_OK;
    for (int p = 0; p < 2; p++)
        for (int i = 0; programs[p] != NULL && i < programs[p]->op_count; i++)
            if (has_event(&programs[p]->op[i]) && i >= s->executor.copied_count) s->executor.copied_count = i + 1;
    s->executor.copied = calloc((size_t)s->executor.copied_count + 1, sizeof(*s->executor.copied));
    if (s->executor.copied == NULL) return pdl__no_memory("while preparing to train");
    for (int p = 0; p < 2; p++)
        for (int i = 0; programs[p] != NULL && i < programs[p]->op_count && !status; i++)
            if (has_event(&programs[p]->op[i]) && s->executor.copied[i] == NULL)
                status = s->executor.device->ops->event_create(s->executor.device, &s->executor.copied[i]);
    return status;
}

void pdl__copies_destroy(pdl_session_t *s)
{
    for (int i = 0; i < s->executor.copied_count && s->executor.copied != NULL; i++)
        s->executor.device->ops->event_destroy(s->executor.device, s->executor.copied[i]);
    free(s->executor.copied);
}

static pdl_tensor_event_t *copied(const pdl_session_t *s, const pdl_program_op_t *op,
                                  const pdl__execution_t *execution)
{
    return s->executor.copied[op - execution->program->op];
}

pdl_status_t pdl__record_done(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    return s->executor.device->ops->record(s->executor.device, s->executor.stream[op->stream],
                                           copied(s, op, execution));
}

/* Of a piece that the host updates: in the buffer of their bucket, or in the array of all. */
static const float *gradients_of(const pdl_session_t *s, const pdl_program_op_t *op,
                                 const pdl__execution_t *execution)
{
    const pdl_program_t *program = execution->program;
    const pdl__bucket_t *bucket = bucket_of(s, program, op->bucket);
    int64_t              into = program->piece[op->piece].low - program->bucket[op->bucket].state_low;

    if (op->input[0] < 0) return pdl__shard_part(s, PDL_ARRAY_GRADIENT, bucket) + into;
    return (const float *)pdl__buffer_at(s, execution, op->input[0]) + bucket->part_low - bucket->low + into;
}

/* Copies go on while those before them are waited for: each has an event of its own. */
static pdl_status_t issue_copy(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    pdl_tensor_device_t *device = s->executor.device;
    const void          *from = pdl__buffer_at(s, execution, op->input[0]);
    char                *to = pdl__buffer_at(s, execution, op->output);
    pdl_status_t         status;

    if (op->bucket >= 0 && op->kind == PDL_OP_COPY_IN) {
        const pdl__bucket_t *bucket = bucket_of(s, execution->program, op->bucket);
        from = pdl__shard_part(s, PDL_ARRAY_WEIGHT, bucket);
        to += (size_t)(bucket->part_low - bucket->low) * sizeof(float);
    } else if (op->bucket >= 0) {
        from = gradients_of(s, op, execution);
    }
    status = op->piece >= 0 && op->bucket < 0
                 ? pdl__state_copy(s, op, execution)
                 : device->ops->copy(device, s->executor.stream[op->stream], to, from, (size_t)op->bytes);
    return status ? status : pdl__record_done(s, op, execution);
}

/* Behind what the compute stream has been given so far: what is read is made there, and what is written may have been another
   tensor's. */
pdl_status_t pdl__issue(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    pdl_status_t status = op->stream == PDL_STREAM_COMPUTE || op->kind == PDL_OP_RECV
                              ? PDL_OK
                              : pdl__session_order(s, PDL_STREAM_COMPUTE, op->stream);

    if (status) return status;
    if (op->kind == PDL_OP_REDISTRIBUTE || op->kind == PDL_OP_SEND) s->exchange.sent_bytes += op->bytes;
    switch (op->kind) {
    case PDL_OP_REDISTRIBUTE: return issue_move(s, op, execution);
    case PDL_OP_SEND:
        status = pdl__channel_send(channel_of(s, op), s->executor.stream[op->stream],
                                   pdl__buffer_at(s, execution, op->input[0]));
        /* Nobody waits for a send: what comes next may overwrite its tensor behind the copy. */
        return status ? status : pdl__session_order(s, op->stream, PDL_STREAM_COMPUTE);
    case PDL_OP_COLLECTIVE: return issue_collective(s, op, execution);
    case PDL_OP_COPY_OUT:
    case PDL_OP_COPY_IN: return issue_copy(s, op, execution);
    default: return PDL_OK; /* what is received has been asked for already */
    }
}

static pdl_status_t finish(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    int             b;
    bool            transpose;
    pdl_exchange_t *exchange;
    pdl_status_t    status;

    switch (op->kind) {
    case PDL_OP_REDISTRIBUTE: return pdl_move_finish(move_of(s, op, &transpose));
    case PDL_OP_RECV:
        status = pdl__session_order(s, PDL_STREAM_COMPUTE, op->stream);
        return status ? status
                      : pdl__channel_receive(channel_of(s, op), s->executor.stream[op->stream],
                                             pdl__buffer_at(s, execution, op->output));
    default: exchange = pdl__exchange_of(s, execution->program, op, &b); return pdl_exchange_wait(exchange, b);
    }
}

pdl_status_t pdl__complete(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    if (has_event(op))
        return s->executor.device->ops->wait(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
                                             copied(s, op, execution));
    pdl_status_t status = finish(s, op, execution);

    return status ? status : pdl__session_order(s, op->stream, PDL_STREAM_COMPUTE);
}

pdl_status_t pdl__poll(pdl_session_t *s)
{
    pdl_status_t status = PDL_OK;

    if (s->exchange.bucket_groups == 0) return pdl_transport_poll(s->executor.transport);
    double start_s = pdl__seconds();
    for (int g = 0; g < s->exchange.bucket_groups && !status; g++) {
        if (s->exchange.buckets[g].exchange) status = pdl_exchange_poll(s->exchange.buckets[g].exchange);
        if (!status && s->exchange.buckets[g].gather) status = pdl_exchange_poll(s->exchange.buckets[g].gather);
    }
    if (!status) status = pdl_transport_poll(s->executor.transport);
    s->observer.class_s[PDL_CLASS_GRADIENT] += pdl__seconds() - start_s;
    return status;
}

pdl_status_t pdl__execute_bucket(pdl_session_t *s, const pdl_program_op_t *op, const pdl__execution_t *execution)
{
    const pdl__bucket_t *bucket = bucket_of(s, execution->program, op->bucket);
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];

    if (op->output >= 0)
        return s->executor.device->ops->fill(s->executor.device, compute, pdl__buffer_at(s, execution, op->output),
                                             (size_t)(bucket->high - bucket->low) * sizeof(float));
    const float *from = pdl__buffer_at(s, execution, op->input[0]);
    float       *to = pdl__shard_part(s, PDL_ARRAY_GRADIENT, bucket);
    from += bucket->part_low - bucket->low;
    if (op->kind == PDL_OP_COPY)
        return s->executor.device->ops->copy(s->executor.device, compute, to, from, part_bytes(bucket));
    return s->executor.device->ops->reduce(s->executor.device, compute, PDL_DTYPE_F32, from, to,
                                           bucket->part_high - bucket->part_low);
}
