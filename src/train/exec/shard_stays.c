/*
 * When whole buckets are there, of gradients and of weights, worked out by going through the program: it is the same
 * on all ranks of the data axes, and so is the order of what they exchange.
 */
#include "train/exec/shard.h"
#include <stdlib.h>

#define ALIGNMENT 64

static pdl_status_t no_memory(void)
{
    return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing to train");
}

/* A walk through a program. */
typedef struct walk {
    const pdl_session_t *session;
    const pdl_program_t *program;
    pdl__stays_t        *stays;
    int                  capacity;
    int                **latest; /* by group and bucket: the stay that is open or was last, or -1 */
    int                 *made;   /* gradients of every entry */
} walk_t;

static void end_walk(walk_t *w)
{
    for (int g = 0; w->latest && g < w->session->bucket_groups; g++) free(w->latest[g]);
    free(w->latest);
    free(w->made);
}

static pdl_status_t begin_walk(const pdl_session_t *s, const pdl_program_t *program, pdl__stays_t *stays, walk_t *w)
{
    *w = (walk_t){.session = s, .program = program, .stays = stays};
    w->latest = calloc((size_t)s->bucket_groups + 1, sizeof(*w->latest));
    w->made = calloc((size_t)s->entry_count + 1, sizeof(*w->made));
    bool enough = w->latest && w->made;
    for (int g = 0; g < s->bucket_groups && enough; g++) {
        w->latest[g] = malloc((size_t)s->buckets[g].count * sizeof(**w->latest));
        enough = w->latest[g] != NULL;
        for (int b = 0; b < s->buckets[g].count && enough; b++) w->latest[g][b] = -1;
    }
    if (enough) return PDL_OK;
    end_walk(w);
    return no_memory();
}

static pdl_status_t add_stay(walk_t *w, const pdl__trace_entry_t *entry, int op)
{
    pdl__stays_t *stays = w->stays;

    if (stays->count == w->capacity) {
        int          more = w->capacity ? 2 * w->capacity : 64;
        pdl__stay_t *grown = realloc(stays->stay, (size_t)more * sizeof(*grown));
        if (!grown) return no_memory();
        stays->stay = grown;
        w->capacity = more;
    }
    w->latest[entry->group][entry->bucket] = stays->count;
    stays->stay[stays->count++] = (pdl__stay_t){.group = entry->group,
                                                .bucket = entry->bucket,
                                                .begin = op,
                                                .first = op,
                                                .last = op,
                                                .end = w->program->op_count};
    return PDL_OK;
}

static const pdl__trace_entry_t *sharded_entry(const pdl_session_t *s, const pdl__unit_t *unit, int k)
{
    const pdl__trace_entry_t *entry = &s->entry[unit->weight[k]];

    return entry->info.trainable && entry->group >= 0 && s->buckets[entry->group].shard_ranks ? entry : NULL;
}

/* Groups take turns, so the latest bucket of each is still there. */
static int sharded_groups(const pdl_session_t *s)
{
    int count = 0;

    for (int g = 0; g < s->bucket_groups; g++) count += s->buckets[g].shard_ranks != NULL;
    return count;
}

/* Weights: a bucket comes when it is needed and is not there any more. The next one is on its way meanwhile. */
static pdl_status_t walk_weights(walk_t *w)
{
    const pdl_session_t *s = w->session;
    int                  recent = sharded_groups(s);
    pdl_status_t         status = PDL_OK;

    for (int i = 0; i < w->program->op_count && !status; i++) {
        const pdl_program_op_t *op = &w->program->op[i];
        if (op->kind != PDL_OP_FORWARD && op->kind != PDL_OP_BACKWARD && op->kind != PDL_OP_BACKWARD_REST) continue;
        const pdl__unit_t *unit = &s->graph->unit[op->node];
        for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count && !status; k++) {
            const pdl__trace_entry_t *entry = sharded_entry(s, unit, k);
            if (!entry) continue;
            int stay = w->latest[entry->group][entry->bucket];
            if (stay < 0 || stay + recent < w->stays->count)
                status = add_stay(w, entry, i);
            else
                w->stays->stay[stay].last = i;
        }
    }
    for (int j = 0; j < w->stays->count; j++) w->stays->stay[j].begin = j ? w->stays->stay[j - 1].first : 0;
    return status;
}

/* Every weight of a bucket has its gradient, of as many micro-batches as the others. */
static bool is_complete(const walk_t *w, const pdl__bucket_t *bucket)
{
    const pdl__trace_entry_t *entry = w->session->entry;
    int                       rounds = w->made[bucket->first] / entry[bucket->first].users;

    for (int i = bucket->first; i < bucket->last; i++)
        if (w->made[i] != rounds * entry[i].users) return false;
    return true;
}

/* Gradients: a bucket opens with the first that is written, and leaves when it is complete. */
static pdl_status_t walk_backward(walk_t *w, int i)
{
    const pdl_session_t *s = w->session;
    const pdl__unit_t   *unit = &s->graph->unit[w->program->op[i].node];
    pdl_status_t         status = PDL_OK;

    for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count && !status; k++) {
        const pdl__trace_entry_t *entry = sharded_entry(s, unit, k);
        if (!entry) continue;
        int *latest = &w->latest[entry->group][entry->bucket];
        if (*latest < 0) status = add_stay(w, entry, i);
        if (!status) w->stays->stay[*latest].last = i;
        w->made[unit->weight[k]]++;
    }
    for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count && !status; k++) {
        const pdl__trace_entry_t *entry = sharded_entry(s, unit, k);
        if (entry && is_complete(w, &s->buckets[entry->group].bucket[entry->bucket]))
            w->latest[entry->group][entry->bucket] = -1;
    }
    return status;
}

/* The sum of a bucket must have arrived before the second one after it opens, and before it opens again itself. */
static void end_stays(pdl__stays_t *stays)
{
    for (int j = 0; j < stays->count; j++) {
        pdl__stay_t *stay = &stays->stay[j];
        int          later = 0;
        for (int m = j + 1; m < stays->count && later < 2; m++) {
            const pdl__stay_t *next = &stays->stay[m];
            if (next->begin <= stay->last) continue;
            bool same = next->group == stay->group && next->bucket == stay->bucket;
            later = same ? 2 : later + 1;
            if (later == 2) stay->end = next->begin;
        }
    }
}

static pdl_status_t walk_gradients(walk_t *w)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < w->program->op_count && !status; i++) {
        const pdl_program_op_t *op = &w->program->op[i];
        if ((op->kind == PDL_OP_BACKWARD && !op->partly) || op->kind == PDL_OP_BACKWARD_REST)
            status = walk_backward(w, i);
    }
    end_stays(w->stays);
    return status;
}

/* Places of the buckets such that those that are there together do not overlap. */
static pdl_status_t place_stays(const pdl_session_t *s, pdl__stays_t *stays, bool gradients)
{
    pdl_program_buffer_t *buffer = calloc((size_t)stays->count + 1, sizeof(*buffer));

    if (!buffer) return no_memory();
    for (int j = 0; j < stays->count; j++) {
        const pdl__stay_t   *stay = &stays->stay[j];
        const pdl__bucket_t *bucket = &s->buckets[stay->group].bucket[stay->bucket];
        buffer[j] = (pdl_program_buffer_t){.bytes = (size_t)(bucket->high - bucket->low) * sizeof(float),
                                           .first = stay->begin,
                                           .last = gradients ? stay->end - 1 : stay->last};
    }
    stays->bytes = 0;
    pdl_status_t status =
        stays->count ? pdl_colour_intervals(buffer, stays->count, ALIGNMENT, &stays->bytes) : PDL_OK;
    for (int j = 0; j < stays->count && !status; j++) stays->stay[j].offset = buffer[j].offset;
    free(buffer);
    return status;
}

static pdl_status_t find_stays(const pdl_session_t *s, const pdl_program_t *program, bool gradients,
                               pdl__stays_t *stays)
{
    walk_t       w;
    pdl_status_t status = begin_walk(s, program, stays, &w);

    if (status) return status;
    status = gradients ? walk_gradients(&w) : walk_weights(&w);
    if (!status) status = place_stays(s, stays, gradients);
    end_walk(&w);
    return status;
}

static int compare_events(const void *a, const void *b)
{
    const pdl__shard_event_t *x = a, *y = b;

    if (x->op != y->op) return x->op < y->op ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->stay > y->stay) - (x->stay < y->stay);
}

static pdl_status_t list_events(pdl__shard_t *shard)
{
    int count = shard->gradients.count;

    shard->event = calloc(3 * (size_t)count + 1, sizeof(*shard->event));
    if (!shard->event) return no_memory();
    for (int j = 0; j < count; j++) {
        const pdl__stay_t *stay = &shard->gradients.stay[j];
        shard->event[shard->event_count++] = (pdl__shard_event_t){stay->begin, PDL__SHARD_OPEN, j};
        shard->event[shard->event_count++] = (pdl__shard_event_t){stay->last, PDL__SHARD_SEND, j};
        shard->event[shard->event_count++] = (pdl__shard_event_t){stay->end, PDL__SHARD_ARRIVE, j};
    }
    qsort(shard->event, (size_t)shard->event_count, sizeof(*shard->event), compare_events);
    return PDL_OK;
}

static pdl_status_t take(pdl_session_t *s, size_t bytes, char **arena)
{
    void        *memory = NULL;
    pdl_status_t status = bytes > 0 ? s->device->ops->alloc(s->device, PDL_SPACE_DEVICE, bytes, &memory) : PDL_OK;

    *arena = memory;
    return status;
}

pdl_status_t pdl__shard_place(pdl_session_t *s)
{
    pdl__shard_t *shard = s->shard;
    pdl_status_t  status = PDL_OK;

    if (s->sharding >= PDL_SHARDING_ZERO2) status = find_stays(s, s->program, true, &shard->gradients);
    if (!status) status = list_events(shard);
    if (!status && s->sharding >= PDL_SHARDING_ZERO3)
        status = find_stays(s, s->forward_program, false, &shard->weights[0]);
    if (!status && s->sharding >= PDL_SHARDING_ZERO3) status = find_stays(s, s->program, false, &shard->weights[1]);
    shard->gradient_bytes = shard->gradients.bytes;
    shard->weight_bytes = shard->weights[0].bytes;
    if (shard->weights[1].bytes > shard->weight_bytes) shard->weight_bytes = shard->weights[1].bytes;
    if (status || s->dry) return status;
    status = take(s, shard->gradient_bytes, &shard->gradient_arena);
    if (!status) status = take(s, shard->weight_bytes, &shard->weight_arena);
    return status;
}
