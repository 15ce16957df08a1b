/*
 * From gradients to new weights. A walk through the operations of the layers inserts the exchange of every bucket of
 * gradients behind the last operation that adds to it, then the result and the update.
 *
 * Where state is sharded, buckets are cut into parts. With whole gradients or weights nowhere (zero2, zero3) a bucket is a
 * buffer for a while: one of gradients is cleared before it is written to, exchanged when it is complete, and this rank's
 * part of the sum is kept before the second bucket after it opens; one of weights is put together while the bucket
 * before it is in use. All of it is the same on all ranks of the data axes, and so is the order of what they exchange.
 *
 * Weights on the host come in the same way, by copies. Gradients of a rank that updates during backward are gone behind the update.
 */
#include "program/builder.h"
#include <stdlib.h>
#include <string.h>

/* A whole bucket, during some operations of the layers. */
typedef struct stay {
    int bucket, buffer;
    int begin;       /* the operation before which it takes its place */
    int first, last; /* that use it */
    int end;         /* gradients: the operation before which the sum has arrived */
} stay_t;

typedef struct stays {
    stay_t *stay; /* in the order of `first` */
    int     count, capacity;
    int    *latest;       /* of every bucket: the stay that is open or was last, or -1 */
    int     issued, used; /* so many of them, while operations are inserted */
} stays_t;

typedef struct walk {
    pdl__builder_t             *builder;
    const pdl_program_update_t *update;
    pdl_program_op_t           *op; /* of the layers: those that are walked through */
    int                         op_count;
    stays_t                     gradients, weights;
    int                        *bucket_of; /* of every weight, or -1 */
    int                        *users;     /* of every weight: operations that add to its gradient, in all */
    int                        *made;      /* of these, how many have been seen */
    int                        *last;      /* of every bucket: the operation that completes its gradients, or -1 */
    bool                       *kept;      /* of every bucket: this rank's part holds gradients */
    bool                       *written;   /* of every weight: its gradient is there, and later ones are added */
    int                        *sent;      /* stays whose sum is in flight */
    int                         sent_count;
    pdl__state_pieces_t         state;
    int                        *left;     /* of every weight: operations that still add to its gradient */
    int                         complete; /* so many of the first weights have their gradients */
    int                         updating; /* bucket of the next piece, where gradients pass */
} walk_t;

static bool uses_weights(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_FORWARD || op->kind == PDL_OP_RECOMPUTE || op->kind == PDL_OP_BACKWARD ||
           op->kind == PDL_OP_DGRAD || op->kind == PDL_OP_WGRAD;
}

static bool makes_gradients(const pdl_program_op_t *op)
{
    return op->kind == PDL_OP_BACKWARD || op->kind == PDL_OP_WGRAD;
}

/* The weights of an operation's node. */
static int uses_of(const walk_t *w, const pdl_program_op_t *op, const int **use)
{
    if (op->node < 0 || w->update == NULL) return 0;
    *use = w->update->use + w->update->first_use[op->node];
    return w->update->first_use[op->node + 1] - w->update->first_use[op->node];
}

static bool has_local_buckets(const pdl_program_update_t *u)
{
    return u->weights_pass || u->gradients_pass;
}

/* The bucket of a weight if it comes and goes: of gradients from zero2 on, of weights with zero3; or of this rank alone. */
static int passing_bucket(const walk_t *w, int weight, bool of_weights)
{
    int bucket = w->bucket_of[weight];

    if (has_local_buckets(w->update))
        return (of_weights ? w->update->weights_pass : w->update->gradients_pass) ? bucket : -1;
    if (w->update->sharding < (of_weights ? PDL_SHARDING_ZERO3 : PDL_SHARDING_ZERO2)) return -1;
    return bucket >= 0 && w->update->bucket[bucket].sharded != 0 ? bucket : -1;
}

static pdl_status_t add_stay(walk_t *w, stays_t *stays, int bucket, int op)
{
    pdl_status_t status =
        pdl__program_grow((void **)&stays->stay, stays->count, &stays->capacity, sizeof(*stays->stay));

    if (status) return status;
    stays->latest[bucket] = stays->count;
    stays->stay[stays->count++] =
        (stay_t){.bucket = bucket, .buffer = -1, .begin = op, .first = op, .last = op, .end = w->op_count};
    return PDL_OK;
}

/* Sets of axes take turns, so the latest bucket of each is still there. What is on the host is far: the latest two are. */
static int count_sets(const pdl_program_update_t *update)
{
    int sets = 0;

    if (update->weights_pass) return 2;
    for (int b = 0; b < update->bucket_count; b++) {
        bool seen = update->bucket[b].sharded == 0;
        for (int k = 0; k < b; k++) seen |= update->bucket[k].set == update->bucket[b].set;
        sets += !seen;
    }
    return sets;
}

/* Weights: a bucket comes when it is needed and is not there any more, while the one before it is in use. */
static pdl_status_t find_weights(walk_t *w)
{
    stays_t     *stays = &w->weights;
    int          recent = count_sets(w->update);
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < w->op_count && !status; i++) {
        const int *use;
        int        uses = uses_weights(&w->op[i]) ? uses_of(w, &w->op[i], &use) : 0;
        for (int k = 0; k < uses && !status; k++) {
            int bucket = passing_bucket(w, use[k], true), latest = bucket < 0 ? -1 : stays->latest[bucket];
            if (bucket < 0) continue;
            if (latest < 0 || latest + recent < stays->count)
                status = add_stay(w, stays, bucket, i);
            else
                stays->stay[latest].last = i;
        }
    }
    for (int j = 0; j < stays->count; j++) stays->stay[j].begin = j > 0 ? stays->stay[j - 1].first : 0;
    return status;
}

/* Every weight of a bucket has its gradient, of as many micro-batches as the others. */
static bool is_complete(const walk_t *w, int bucket)
{
    int rounds = -1;

    for (int i = w->update->bucket[bucket].first; i < w->update->bucket[bucket].last; i++) {
        int each = w->users[i] / w->builder->options->micro_batches;
        if (each == 0) continue;
        if (rounds < 0) rounds = w->made[i] / each;
        if (w->made[i] != rounds * each) return false;
    }
    return true;
}

/* Gradients that come and go: a bucket opens with the first that is written, and is exchanged when it is complete. */
static pdl_status_t see_backward(walk_t *w, int i)
{
    stays_t     *stays = &w->gradients;
    const int   *use;
    int          uses = uses_of(w, &w->op[i], &use);
    pdl_status_t status = PDL_OK;

    for (int k = 0; k < uses && !status; k++) {
        int bucket = passing_bucket(w, use[k], false);
        w->made[use[k]]++;
        if (bucket < 0) continue;
        if (stays->latest[bucket] < 0) status = add_stay(w, stays, bucket, i);
        if (!status) stays->stay[stays->latest[bucket]].last = i;
    }
    for (int k = 0; k < uses && !status; k++) {
        int bucket = passing_bucket(w, use[k], false);
        if (bucket >= 0 && is_complete(w, bucket)) stays->latest[bucket] = -1;
    }
    return status;
}

/* The sum of a bucket has arrived before the second one after it opens, and before it opens again itself. */
static void end_stays(stays_t *stays)
{
    for (int j = 0; j < stays->count; j++) {
        stay_t *stay = &stays->stay[j];
        int     later = 0;
        for (int m = j + 1; m < stays->count && later < 2; m++) {
            const stay_t *next = &stays->stay[m];
            if (next->begin <= stay->last) continue;
            later = next->bucket == stay->bucket ? 2 : later + 1;
            if (later == 2) stay->end = next->begin;
        }
    }
}

static pdl_status_t find_gradients(walk_t *w)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < w->op_count; i++) {
        const int *use;
        int        uses = makes_gradients(&w->op[i]) ? uses_of(w, &w->op[i], &use) : 0;
        for (int k = 0; k < uses; k++) {
            w->users[use[k]]++;
            if (w->bucket_of[use[k]] >= 0) w->last[w->bucket_of[use[k]]] = i;
        }
    }
    for (int i = 0; i < w->op_count && !status; i++)
        if (makes_gradients(&w->op[i])) status = see_backward(w, i);
    end_stays(&w->gradients);
    return status;
}

static pdl_program_op_t *append(walk_t *w, pdl_op_kind_t kind, int bucket, bool backward)
{
    pdl_program_op_t op = pdl__program_blank(kind, -1, backward);

    op.bucket = bucket;
    return pdl__program_emit(w->builder, &op);
}

static void append_collective(walk_t *w, pdl_collective_role_t role, int bucket, unsigned group,
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

static void exchange_gradients(walk_t *w, int bucket, int buffer)
{
    unsigned axes = w->update->bucket[bucket].axes, sharded = w->update->bucket[bucket].sharded;

    append_collective(w, PDL_ROLE_GRADIENTS, bucket, sharded ? sharded : axes,
                      sharded ? PDL_REDUCE_SCATTER : PDL_ALLREDUCE, buffer);
}

static void gather_weights(walk_t *w, int bucket, int buffer)
{
    if (w->update->weights_pass) {
        pdl_program_op_t *op = append(w, PDL_OP_COPY_IN, bucket, false);
        if (op == NULL) return;
        op->stream = PDL_STREAM_COPY_IN;
        op->output = buffer;
        op->bytes = (double)w->update->bucket[bucket].bytes;
        return;
    }
    append_collective(w, PDL_ROLE_WEIGHTS, bucket, w->update->bucket[bucket].sharded, PDL_ALLGATHER, buffer);
}

static int whole_buffer(walk_t *w, int bucket, bool weights)
{
    int buffer = pdl__program_buffer(w->builder, -1, w->update->bucket[bucket].bytes);

    if (buffer < 0) return -1;
    w->builder->program->buffer[buffer].bucket = bucket;
    w->builder->program->buffer[buffer].weights = weights;
    return buffer;
}

/* This rank's part of a sum is kept, or added to that of earlier micro-batches. */
static void keep_part(walk_t *w, const stay_t *stay)
{
    pdl_program_op_t *op = append(w, w->kept[stay->bucket] ? PDL_OP_SUM : PDL_OP_COPY, stay->bucket, true);

    w->kept[stay->bucket] = true;
    if (op != NULL) op->input[0] = stay->buffer;
}

/* Padding inside of weights stays zero, as backward expects. */
static void open_bucket(walk_t *w, stay_t *stay)
{
    stay->buffer = whole_buffer(w, stay->bucket, false);
    pdl_program_op_t *op = append(w, PDL_OP_COPY, stay->bucket, true);
    if (op != NULL) op->output = stay->buffer;
    for (int i = w->update->bucket[stay->bucket].first; i < w->update->bucket[stay->bucket].last; i++)
        w->written[i] = false;
}

static void add_whole(walk_t *w, pdl_program_op_t *op, int buffer)
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

/* Weights whose turn it is to be put together before operation i, and those that are used from there on. */
static void bring_weights(walk_t *w, int i)
{
    stays_t *stays = &w->weights;

    for (; stays->issued < stays->count && stays->stay[stays->issued].begin <= i; stays->issued++) {
        stay_t *stay = &stays->stay[stays->issued];
        stay->buffer = whole_buffer(w, stay->bucket, true);
        gather_weights(w, stay->bucket, stay->buffer);
    }
    for (; stays->used < stays->count && stays->stay[stays->used].first == i; stays->used++)
        stays->latest[stays->stay[stays->used].bucket] = stays->used;
}

/* Gradients that are kept before operation i, since others will take their place. */
static void keep_parts(walk_t *w, int i)
{
    int left = 0;

    for (int k = 0; k < w->sent_count; k++) {
        const stay_t *stay = &w->gradients.stay[w->sent[k]];
        if (stay->end <= i)
            keep_part(w, stay);
        else
            w->sent[left++] = w->sent[k];
    }
    w->sent_count = left;
}

static void open_buckets(walk_t *w, int i)
{
    stays_t *stays = &w->gradients;

    for (; stays->used < stays->count && stays->stay[stays->used].begin == i; stays->used++) {
        open_bucket(w, &stays->stay[stays->used]);
        stays->latest[stays->stay[stays->used].bucket] = stays->used;
    }
}

/* Operation i itself, with the buckets that it uses. */
static void copy_op(walk_t *w, int i)
{
    const int        *use;
    int               uses = uses_weights(&w->op[i]) ? uses_of(w, &w->op[i], &use) : 0;
    bool              makes = makes_gradients(&w->op[i]);
    pdl_program_op_t *op = pdl__program_emit(w->builder, &w->op[i]);

    if (op == NULL) return;
    op->first_whole = w->builder->program->whole_count;
    for (int k = 0; k < uses; k++) {
        int gradients = makes ? passing_bucket(w, use[k], false) : -1, weights = passing_bucket(w, use[k], true);
        if (makes) op->adds |= w->written[use[k]];
        if (weights >= 0) add_whole(w, op, w->weights.stay[w->weights.latest[weights]].buffer);
        if (gradients >= 0) add_whole(w, op, w->gradients.stay[w->gradients.latest[gradients]].buffer);
    }
    for (int k = 0; k < uses && makes; k++) w->written[use[k]] = true;
}

/* Buckets whose last gradient operation i has made. */
static void send_buckets(walk_t *w, int i)
{
    const int *use;
    int        uses = makes_gradients(&w->op[i]) ? uses_of(w, &w->op[i], &use) : 0;

    for (int k = 0; k < uses; k++) {
        int bucket = w->bucket_of[use[k]], passing = passing_bucket(w, use[k], false);
        int stay = passing < 0 ? -1 : w->gradients.latest[passing];
        if (has_local_buckets(w->update)) continue;
        if (stay >= 0 && w->gradients.stay[stay].last == i) {
            exchange_gradients(w, bucket, w->gradients.stay[stay].buffer);
            w->gradients.latest[passing] = -1;
            w->sent[w->sent_count++] = stay;
        } else if (passing < 0 && bucket >= 0 && w->last[bucket] == i) {
            exchange_gradients(w, bucket, -1);
            w->last[bucket] = -1;
        }
    }
}

/* The next piece of state, with the gradients of its bucket where these pass. */
static void update_piece(walk_t *w)
{
    const pdl_program_update_t *u = w->update;
    int64_t                     at = w->builder->program->piece_at[w->state.updated];
    int                         stay = -1;

    while (u->gradients_pass && u->state_at[u->bucket[w->updating].last] <= at) w->updating++;
    if (u->gradients_pass) stay = w->gradients.latest[w->updating];
    pdl__state_update(w->builder, &w->state, stay < 0 ? -1 : w->gradients.stay[stay].buffer);
}

/* Pieces of state whose gradients operation i has completed. */
static void update_pieces(walk_t *w, int i)
{
    const pdl_program_update_t *u = w->update;
    const int                  *use;
    int                         uses = makes_gradients(&w->op[i]) ? uses_of(w, &w->op[i], &use) : 0;

    if (u->state_at == NULL || w->state.count == 0 || uses == 0) return;
    pdl__state_prefetch(w->builder, &w->state);
    for (int k = 0; k < uses; k++) w->left[use[k]]--;
    while (w->complete < u->state_weights && w->left[w->complete] == 0) w->complete++;
    while (w->state.updated < w->state.count && !w->builder->status &&
           w->builder->program->piece_at[w->state.updated + 1] <= u->state_at[w->complete])
        update_piece(w);
}

/* What is left of an update when the layers are done. */
static void append_update(walk_t *w)
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
    while (w->state.updated < w->state.count && !w->builder->status) update_piece(w);
    for (int b = 0; b < u->bucket_count && !has_local_buckets(u) && u->sharding < PDL_SHARDING_ZERO3; b++)
        if (u->bucket[b].sharded != 0) {
            gather_weights(w, b, -1);
            gathers = true;
        }
    if (gathers || u->packs || u->state_arrays > 0) append(w, PDL_OP_CONVERT, -1, false);
}

static pdl_status_t begin_stays(const walk_t *w, stays_t *stays)
{
    stays->latest = malloc(((size_t)w->update->bucket_count + 1) * sizeof(*stays->latest));
    if (stays->latest == NULL) return pdl__program_no_memory();
    for (int b = 0; b < w->update->bucket_count; b++) stays->latest[b] = -1;
    return PDL_OK;
}

static pdl_status_t begin_walk(walk_t *w)
{
    size_t       weights = (size_t)w->update->weight_count, buckets = (size_t)w->update->bucket_count;
    pdl_status_t status = begin_stays(w, &w->gradients);

    if (!status) status = begin_stays(w, &w->weights);
    w->bucket_of = calloc(4 * weights + buckets + 1, sizeof(int));
    w->kept = calloc(buckets + weights + 1, sizeof(bool));
    if (status || w->bucket_of == NULL || w->kept == NULL) return pdl__program_no_memory();
    w->users = w->bucket_of + weights;
    w->made = w->users + weights;
    w->left = w->made + weights;
    w->last = w->left + weights;
    w->written = w->kept + buckets;
    for (size_t i = 0; i < weights; i++) w->bucket_of[i] = -1;
    for (int b = 0; b < w->update->bucket_count; b++) {
        w->last[b] = -1;
        for (int i = w->update->bucket[b].first; i < w->update->bucket[b].last; i++) w->bucket_of[i] = b;
    }
    return PDL_OK;
}

static void end_walk(walk_t *w)
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

/* The operations of the layers once more, with what belongs between them. */
static void rewrite(walk_t *w)
{
    for (int b = 0; b < w->update->bucket_count; b++) w->gradients.latest[b] = w->weights.latest[b] = -1;
    if (w->builder->options->training) pdl__state_begin(w->builder, &w->state);
    for (int i = 0; i < w->update->weight_count; i++) w->left[i] = w->users[i];
    for (int i = 0; i < w->op_count && !w->builder->status; i++) {
        bring_weights(w, i);
        keep_parts(w, i);
        open_buckets(w, i);
        copy_op(w, i);
        send_buckets(w, i);
        update_pieces(w, i);
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
    pdl_program_t *program = b->program;
    walk_t w = {.builder = b, .update = b->options->update, .op = program->op, .op_count = program->op_count};

    if (w.update == NULL) return PDL_OK;
    program->op = NULL;
    program->op_count = b->op_capacity = 0;
    b->status = begin_walk(&w);
    if (!b->status) b->status = copy_buckets(program, w.update);
    if (!b->status) b->status = find_gradients(&w);
    if (!b->status) b->status = find_weights(&w);
    if (!b->status) {
        w.sent = malloc(((size_t)w.gradients.count + 1) * sizeof(*w.sent));
        if (w.sent == NULL) b->status = pdl__program_no_memory();
    }
    if (!b->status) rewrite(&w);
    end_walk(&w);
    return b->status;
}
