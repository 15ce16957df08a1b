/*
 * From gradients to new weights. A walk through the operations of the layers inserts the exchange of every bucket of
 * gradients behind the last operation that adds to it, then the result and the update.
 *
 * Where state is sharded, buckets are cut into parts. With whole gradients or weights nowhere (zero2, zero3) a bucket is a
 * buffer for a while: one of gradients is cleared before it is written to, exchanged when it is complete, and this rank's
 * part of the sum is kept before the second bucket after it opens; one of weights is put together while the bucket
 * before it is in use. All of it is the same on all ranks of the data axes, and so is the order of what they exchange.
 *
 * Weights on the host come in the same way: by copies, or a part by a copy and the others from the ranks that keep them. Where state
 * passes through the device and nothing but the gradients of a bucket is needed, its update is made during backward, when their sum
 * has arrived: when the bucket after it is sent. Then these gradients are gone.
 */
#include "program/walk.h"
#include <stdlib.h>
#include <string.h>

static pdl_program_op_t *append(pdl__update_walk_t *w, pdl_op_kind_t kind, int bucket, bool backward)
{
    pdl_program_op_t op = pdl__program_blank(kind, -1, backward);

    op.bucket = bucket;
    return pdl__program_emit(w->builder, &op);
}

static void append_collective(pdl__update_walk_t *w, pdl_collective_role_t role, int bucket, unsigned group,
                              pdl_primitive_t primitive, int buffer)
{
    pdl_program_op_t *op = append(w, PDL_OP_COLLECTIVE, bucket, role != PDL_ROLE_WEIGHTS);

    if (op == NULL) return;
    op->stream = PDL_STREAM_GRADIENT;
    op->role = role;
    op->group = group;
    op->primitive = primitive;
    op->output = buffer;
    if (role == PDL_ROLE_GRADIENTS) op->input[0] = buffer;
}

static void exchange_gradients(pdl__update_walk_t *w, int bucket, int buffer)
{
    unsigned axes = w->update->bucket[bucket].axes, sharded = w->update->bucket[bucket].sharded;

    append_collective(w, PDL_ROLE_GRADIENTS, bucket, sharded ? sharded : axes,
                      sharded ? PDL_REDUCE_SCATTER : PDL_ALLREDUCE, buffer);
}

static void gather_weights(pdl__update_walk_t *w, int bucket, int buffer)
{
    append_collective(w, PDL_ROLE_WEIGHTS, bucket, w->update->bucket[bucket].sharded, PDL_ALLGATHER, buffer);
}

static int whole_buffer(pdl__update_walk_t *w, int bucket, bool weights)
{
    int buffer = pdl__program_buffer(w->builder, -1, w->update->bucket[bucket].bytes);

    if (buffer < 0) return -1;
    w->builder->program->buffer[buffer].bucket = bucket;
    w->builder->program->buffer[buffer].weights = weights;
    return buffer;
}

/* This rank's part of a sum is kept, or added to that of earlier micro-batches. */
static void keep_part(pdl__update_walk_t *w, const pdl__stay_t *stay)
{
    pdl_program_op_t *op = append(w, w->kept[stay->bucket] ? PDL_OP_SUM : PDL_OP_COPY, stay->bucket, true);

    w->kept[stay->bucket] = true;
    if (op != NULL) op->input[0] = stay->buffer;
}

/* Padding inside of weights stays zero, as backward expects. */
static void open_bucket(pdl__update_walk_t *w, pdl__stay_t *stay)
{
    stay->buffer = whole_buffer(w, stay->bucket, false);
    pdl_program_op_t *op = append(w, PDL_OP_COPY, stay->bucket, true);
    if (op != NULL) op->output = stay->buffer;
    if (w->update->gradients_pass) w->gradients_at[stay->bucket] = stay->buffer;
    for (int i = w->update->bucket[stay->bucket].first; i < w->update->bucket[stay->bucket].last; i++)
        w->written[i] = false;
}

static void add_whole(pdl__update_walk_t *w, pdl_program_op_t *op, int buffer)
{
    pdl__builder_t *b = w->builder;
    pdl_program_t  *program = b->program;

    if (b->status) return;
    for (int k = 0; k < op->whole_count; k++)
        if (program->whole[op->first_whole + k] == buffer) return;
    b->status = pdl__program_grow((void **)&program->whole, program->whole_count, &b->whole_capacity,
                                  sizeof(*program->whole));
    if (b->status) return;
    program->whole[program->whole_count++] = buffer;
    op->whole_count++;
}

/* A place for the next bucket of weights, with what this rank's host has of them. */
static void fetch_weights(pdl__update_walk_t *w)
{
    pdl__stay_t      *stay = &w->weights.stay[w->fetched++];
    pdl_program_op_t *op;

    stay->buffer = whole_buffer(w, stay->bucket, true);
    if (!w->update->weights_pass || (op = append(w, PDL_OP_COPY_IN, stay->bucket, false)) == NULL) return;
    op->stream = PDL_STREAM_COPY_IN;
    op->output = stay->buffer;
    op->bytes = (double)w->update->bucket[stay->bucket].part_bytes;
}

/* Weights whose turn it is to be put together before operation i, and those that are used from there on. A part of the next ones is
   copied meanwhile, where it is on the host. */
static void bring_weights(pdl__update_walk_t *w, int i)
{
    pdl__stays_t *stays = &w->weights;
    int           ahead = w->update->weights_pass && w->update->sharding >= PDL_SHARDING_ZERO3;

    for (; stays->issued < stays->count && stays->stay[stays->issued].begin <= i; stays->issued++) {
        const pdl__stay_t *stay = &stays->stay[stays->issued];
        if (w->fetched <= stays->issued) fetch_weights(w);
        if (w->update->bucket[stay->bucket].sharded != 0) gather_weights(w, stay->bucket, stay->buffer);
        if (ahead && w->fetched < stays->count) fetch_weights(w);
    }
    for (; stays->used < stays->count && stays->stay[stays->used].first == i; stays->used++)
        stays->latest[stays->stay[stays->used].bucket] = stays->used;
}

/* Gradients that are kept before operation i, since others will take their place. */
static void keep_parts(pdl__update_walk_t *w, int i)
{
    int left = 0;

    for (int k = 0; k < w->sent_count; k++) {
        const pdl__stay_t *stay = &w->gradients.stay[w->sent[k]];
        if (stay->end <= i) {
            keep_part(w, stay);
            w->summed[stay->bucket] = stay->last == w->last[stay->bucket];
        } else {
            w->sent[left++] = w->sent[k];
        }
    }
    w->sent_count = left;
}

static void open_buckets(pdl__update_walk_t *w, int i)
{
    pdl__stays_t *stays = &w->gradients;

    for (; stays->used < stays->count && stays->stay[stays->used].begin == i; stays->used++) {
        open_bucket(w, &stays->stay[stays->used]);
        stays->latest[stays->stay[stays->used].bucket] = stays->used;
    }
}

/* Operation i itself, with the buckets that it uses. */
static void copy_op(pdl__update_walk_t *w, int i)
{
    const int        *use;
    int               uses = pdl__update_uses_weights(&w->op[i]) ? pdl__update_uses(w, &w->op[i], &use) : 0;
    bool              makes = pdl__update_makes_gradients(&w->op[i]);
    pdl_program_op_t *op = pdl__program_emit(w->builder, &w->op[i]);

    if (op == NULL) return;
    op->first_whole = w->builder->program->whole_count;
    for (int k = 0; k < uses; k++) {
        int gradients = makes ? pdl__update_passing(w, use[k], false) : -1,
            weights = pdl__update_passing(w, use[k], true);
        if (makes) op->adds |= w->written[use[k]];
        if (weights >= 0) add_whole(w, op, w->weights.stay[w->weights.latest[weights]].buffer);
        if (gradients >= 0) add_whole(w, op, w->gradients.stay[w->gradients.latest[gradients]].buffer);
    }
    for (int k = 0; k < uses && makes; k++) w->written[use[k]] = true;
}

/* Of the sums of a bucket, parts are kept: those of several micro-batches are added up. */
static bool keeps_parts(const pdl__update_walk_t *w, int bucket)
{
    return !w->update->gradients_pass && w->update->sharding >= PDL_SHARDING_ZERO2 &&
           w->update->bucket[bucket].sharded != 0;
}

/* The gradients of a bucket are complete. The sum of the one before it is taken to be there. */
static void send_last(pdl__update_walk_t *w, int bucket, int buffer)
{
    w->last[bucket] = -1;
    if (w->update->bucket[bucket].axes == 0) {
        w->summed[bucket] = true;
        return;
    }
    exchange_gradients(w, bucket, buffer);
    if (w->in_flight >= 0) w->summed[w->in_flight] = true;
    w->in_flight = bucket;
}

/* Buckets whose last gradient operation i has made: of this micro-batch where parts of sums are kept, else of all. */
static void send_buckets(pdl__update_walk_t *w, int i)
{
    const int *use;
    int        uses = pdl__update_makes_gradients(&w->op[i]) ? pdl__update_uses(w, &w->op[i], &use) : 0;

    for (int k = 0; k < uses; k++) {
        int bucket = w->bucket_of[use[k]];
        int stay = bucket >= 0 && keeps_parts(w, bucket) ? w->gradients.latest[bucket] : -1;
        if (stay >= 0 && w->gradients.stay[stay].last == i) {
            exchange_gradients(w, bucket, w->gradients.stay[stay].buffer);
            w->gradients.latest[bucket] = -1;
            w->sent[w->sent_count++] = stay;
        } else if (bucket >= 0 && w->last[bucket] == i && !keeps_parts(w, bucket)) {
            send_last(w, bucket, w->gradients_at[bucket]);
        }
    }
}

/* The next pieces of state, as far as their gradients are summed. */
static void update_pieces(pdl__update_walk_t *w)
{
    const pdl_program_piece_t *piece = w->builder->program->piece;

    while (w->state.updated < w->state.count && w->summed[piece[w->state.updated].bucket] && !w->builder->status)
        pdl__state_update(w->builder, &w->state, w->gradients_at[piece[w->state.updated].bucket]);
}

/* What is left of an update when the layers are done. */
static void append_update(pdl__update_walk_t *w)
{
    const pdl_program_update_t *u = w->update;
    bool                        gathers = false;

    keep_parts(w, w->op_count);
    for (int b = 0; b < u->bucket_count; b++)
        if (u->bucket[b].sharded != 0 && (u->bucket[b].axes & ~u->bucket[b].sharded) != 0)
            append_collective(w, PDL_ROLE_PARTS, b, u->bucket[b].axes & ~u->bucket[b].sharded, PDL_ALLREDUCE, -1);
    for (int t = 0; t < u->ties; t++) append_collective(w, PDL_ROLE_TIED, t, u->tie_group, PDL_ALLREDUCE, -1);
    append(w, PDL_OP_RESULT, -1, false);
    if (u->state_arrays == 0) append(w, PDL_OP_UPDATE, -1, false);
    for (int b = 0; b < u->bucket_count; b++) w->summed[b] = true;
    update_pieces(w);
    pdl__state_finish(w->builder, &w->state);
    for (int b = 0; b < u->bucket_count && u->sharding < PDL_SHARDING_ZERO3; b++)
        if (u->bucket[b].sharded != 0) {
            gather_weights(w, b, -1);
            gathers = true;
        }
    if (gathers || u->packs || u->state_arrays > 0) append(w, PDL_OP_CONVERT, -1, false);
}

static pdl_status_t begin_stays(const pdl__update_walk_t *w, pdl__stays_t *stays)
{
    stays->latest = malloc(((size_t)w->update->bucket_count + 1) * sizeof(*stays->latest));
    if (stays->latest == NULL) return pdl__program_no_memory();
    for (int b = 0; b < w->update->bucket_count; b++) stays->latest[b] = -1;
    return PDL_OK;
}

static pdl_status_t begin_walk(pdl__update_walk_t *w)
{
    size_t       weights = (size_t)w->update->weight_count, buckets = (size_t)w->update->bucket_count;
    pdl_status_t status = begin_stays(w, &w->gradients);

    if (!status) status = begin_stays(w, &w->weights);
    w->bucket_of = calloc(3 * weights + 2 * buckets + 1, sizeof(int));
    w->kept = calloc(2 * buckets + weights + 1, sizeof(bool));
    if (status || w->bucket_of == NULL || w->kept == NULL) return pdl__program_no_memory();
    w->users = w->bucket_of + weights;
    w->made = w->users + weights;
    w->last = w->made + weights;
    w->gradients_at = w->last + buckets;
    w->summed = w->kept + buckets;
    w->written = w->summed + buckets;
    w->in_flight = -1;
    for (size_t i = 0; i < weights; i++) w->bucket_of[i] = -1;
    for (int b = 0; b < w->update->bucket_count; b++) {
        w->last[b] = w->gradients_at[b] = -1;
        for (int i = w->update->bucket[b].first; i < w->update->bucket[b].last; i++) w->bucket_of[i] = b;
    }
    return PDL_OK;
}

static void end_walk(pdl__update_walk_t *w)
{
    free(w->gradients.stay);
    free(w->gradients.latest);
    free(w->weights.stay);
    free(w->weights.latest);
    free(w->bucket_of);
    free(w->kept);
    free(w->sent);
    free(w->op);
}

/* Pieces of state are updated in the order in which the gradients of their buckets are complete. */
static void begin_state(pdl__update_walk_t *w)
{
    int *order = malloc(((size_t)w->update->bucket_count + 1) * sizeof(*order));

    if (order == NULL) {
        w->builder->status = pdl__program_no_memory();
        return;
    }
    for (int b = 0; b < w->update->bucket_count; b++) {
        int k = b;
        if (w->last[b] < 0) w->last[b] = w->op_count; /* nobody has gradients for it */
        for (; k > 0 && w->last[order[k - 1]] > w->last[b]; k--) order[k] = order[k - 1];
        order[k] = b;
    }
    pdl__state_begin(w->builder, order, &w->state);
    free(order);
}

/* The operations of the layers once more, with what belongs between them. */
static void rewrite(pdl__update_walk_t *w)
{
    const int *use;

    for (int b = 0; b < w->update->bucket_count; b++) w->gradients.latest[b] = w->weights.latest[b] = -1;
    if (w->builder->options->training) begin_state(w);
    for (int i = 0; i < w->op_count && !w->builder->status; i++) {
        bring_weights(w, i);
        keep_parts(w, i);
        open_buckets(w, i);
        copy_op(w, i);
        send_buckets(w, i);
        if (!w->update->early || !pdl__update_makes_gradients(&w->op[i]) ||
            pdl__update_uses(w, &w->op[i], &use) == 0)
            continue;
        pdl__state_prefetch(w->builder, &w->state);
        update_pieces(w);
    }
    if (w->builder->options->training)
        append_update(w);
    else
        append(w, PDL_OP_RESULT, -1, false);
}

static pdl_status_t copy_buckets(pdl_program_t *program, const pdl_program_update_t *update)
{
    size_t bytes = (size_t)update->bucket_count * sizeof(*program->bucket);

    program->bucket = malloc(bytes + 1);
    if (program->bucket == NULL) return pdl__program_no_memory();
    memcpy(program->bucket, update->bucket, bytes);
    program->bucket_count = update->bucket_count;
    return PDL_OK;
}

pdl_status_t pdl__program_update(pdl__builder_t *b)
{
    pdl_program_t     *program = b->program;
    pdl__update_walk_t w = {.builder = b,
                            .update = b->options->update,
                            .op = program->op,
                            .op_count = program->op_count};

    if (w.update == NULL) return PDL_OK;
    program->op = NULL;
    program->op_count = b->op_capacity = 0;
    b->status = begin_walk(&w);
    if (!b->status) b->status = copy_buckets(program, w.update);
    if (!b->status) b->status = pdl__update_find_gradients(&w);
    if (!b->status) b->status = pdl__update_find_weights(&w);
    if (!b->status) {
        w.sent = malloc(((size_t)w.gradients.count + 1) * sizeof(*w.sent));
        if (w.sent == NULL) b->status = pdl__program_no_memory();
    }
    if (!b->status) rewrite(&w);
    end_walk(&w);
    return b->status;
}
