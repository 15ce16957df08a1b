/*
 * Programs side by side in time. Every rank goes through its list; one that waits for a tensor lets the others go on.
 */
#include <paradl/base/trace.h>
#include <paradl/oracle/replay.h>
#include <stdlib.h>

/* Instead of a time: a tensor that none of the ranks sends, and one that is not sent yet. */
#define NOBODY  -2.0
#define PENDING -1.0

/* Streams, and for transfers between stages one for each direction, sent and received: messages do not wait for others that go
   elsewhere. */
enum { TRACK_STAGE = PDL_STREAM_COUNT, TRACK_COUNT = TRACK_STAGE + 4 };
static const char *const stage_tracks[] = {"stage transfer", "stage transfer, gradients", "receive",
                                           "receive, gradients"};

static int track_of(const pdl_program_op_t *op)
{
    if (op->stream != PDL_STREAM_STAGE) return (int)op->stream;
    return TRACK_STAGE + (op->kind == PDL_OP_RECV ? 2 : 0) + op->backward;
}

typedef struct place {
    int    next;   /* operation */
    double host_s; /* when the host has queued those before */
    double free_s[TRACK_COUNT];
} place_t;

typedef struct replay {
    pdl_replay_rank_t *ranks;
    place_t           *place; /* of each rank */
    int                count;
    double            *sent_s; /* of the tensor of a layer and micro-batch, there and back: when it arrives */
    int                micro_batches;
    double             total_s;
} replay_t;

static double *sent_by(const replay_t *r, const pdl_program_t *program, const pdl_program_op_t *op)
{
    size_t layer = (size_t)program->node[op->node].layer;

    return &r->sent_s[(layer * (size_t)r->micro_batches + (size_t)op->micro_batch) * 2 + op->backward];
}

static pdl_status_t prepare(replay_t *r)
{
    int layers = 0;

    for (int k = 0; k < r->count; k++) {
        const pdl_program_t *program = r->ranks[k].program;

        for (int n = 0; n < program->node_count; n++)
            if (program->node[n].layer >= layers) layers = program->node[n].layer + 1;
        for (int i = 0; i < program->op_count; i++)
            if (program->op[i].micro_batch >= r->micro_batches) r->micro_batches = program->op[i].micro_batch + 1;
    }
    size_t tensors = (size_t)layers * (size_t)r->micro_batches * 2;
    r->place = calloc(r->count > 0 ? (size_t)r->count : 1, sizeof(*r->place));
    r->sent_s = malloc((tensors + 1) * sizeof(*r->sent_s));
    bool there = r->place != NULL && r->sent_s != NULL;
    for (size_t i = 0; i < tensors && there; i++) r->sent_s[i] = NOBODY;
    for (int k = 0; k < r->count && there; k++) {
        const pdl_program_t *program = r->ranks[k].program;

        for (int i = 0; i < program->op_count; i++)
            if (program->op[i].kind == PDL_OP_SEND) *sent_by(r, program, &program->op[i]) = PENDING;
    }
    return there ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
}

/* What so many seconds of computation take from `start` on: kernels are slower while gradients are exchanged. */
static double slowed(const pdl_replay_rank_t *rank, const place_t *place, double start, double seconds)
{
    double window = place->free_s[PDL_STREAM_GRADIENT] - start, slowdown = rank->slowdown;

    if (window <= 0 || slowdown <= 1) return seconds;
    return seconds * slowdown <= window ? seconds * slowdown : window + (seconds - window / slowdown);
}

/* Puts the next operation of a rank in time; false when nothing is left, or what it receives is not sent yet. */
static bool step(replay_t *r, int k)
{
    pdl_replay_rank_t      *rank = &r->ranks[k];
    const pdl_program_t    *program = rank->program;
    place_t                *place = &r->place[k];
    int                     i = place->next;
    const pdl_program_op_t *op = &program->op[i];

    if (i == program->op_count) return false;
    double start = place->free_s[track_of(op)], arrival = op->kind == PDL_OP_RECV ? *sent_by(r, program, op) : 0;
    if (arrival == PENDING) return false;
    /* It is issued when all that stands before it in the list is computed. */
    if (place->free_s[PDL_STREAM_COMPUTE] > start) start = place->free_s[PDL_STREAM_COMPUTE];
    if (rank->queue_s != NULL) {
        place->host_s += rank->queue_s[i];
        if (place->host_s > start) start = place->host_s;
    }
    for (int w = 0; w < op->wait_count; w++) {
        double done = rank->end_s[program->wait[op->first_wait + w]];
        if (done > start) start = done;
    }
    double end = start + (op->stream == PDL_STREAM_COMPUTE ? slowed(rank, place, start, rank->seconds[i])
                                                           : rank->seconds[i]);
    if (arrival > end) end = arrival;
    if (op->kind == PDL_OP_SEND) *sent_by(r, program, op) = end;
    rank->start_s[i] = start;
    rank->end_s[i] = place->free_s[track_of(op)] = end;
    if (rank->held >> op->stream & 1 && op->kind != PDL_OP_RECV) place->free_s[PDL_STREAM_COMPUTE] = end;
    place->next++;
    if (end > r->total_s) r->total_s = end;
    return true;
}

static pdl_status_t check_complete(const replay_t *r)
{
    for (int k = 0; k < r->count; k++)
        if (r->place[k].next < r->ranks[k].program->op_count)
            return pdl_error(PDL_ERR_INPUT, "the programs of %d ranks wait for each other", r->count);
    return PDL_OK;
}

pdl_status_t pdl_program_replay(pdl_replay_rank_t *ranks, int count, double *total_s)
{
    replay_t     r = {.ranks = ranks, .count = count};
    pdl_status_t status = prepare(&r);

    for (bool moved = !status; moved;) {
        moved = false;
        for (int k = 0; k < count; k++)
            while (step(&r, k)) moved = true;
    }
    if (!status) status = check_complete(&r);
    if (!status) *total_s = r.total_s;
    free(r.place);
    free(r.sent_s);
    return status;
}

static bool uses_track(const pdl_program_t *program, int track)
{
    for (int i = 0; i < program->op_count; i++)
        if (track_of(&program->op[i]) == track) return true;
    return false;
}

static void name_tracks(pdl_trace_t *trace, const pdl_replay_rank_t *rank)
{
    char name[64];

    snprintf(name, sizeof(name), "rank %lld", (long long)rank->rank);
    pdl_trace_name(trace, rank->rank, -1, name);
    for (int t = 0; t < TRACK_COUNT; t++)
        if (uses_track(rank->program, t))
            pdl_trace_name(trace, rank->rank, t,
                           t < TRACK_STAGE ? pdl_op_stream_names[t] : stage_tracks[t - TRACK_STAGE]);
}

/* Memory where it changes; without memory for the sum itself the timeline goes without. */
static void trace_memory(pdl_trace_t *trace, const pdl_replay_rank_t *rank)
{
    double *bytes = malloc(((size_t)rank->program->op_count + 1) * sizeof(*bytes)), last = -1;

    if (bytes == NULL) return;
    pdl_program_alive(rank->program, bytes);
    for (int i = 0; i < rank->program->op_count; i++) {
        if (bytes[i] == last || rank->program->op[i].stream != PDL_STREAM_COMPUTE) continue;
        pdl_trace_counter(trace, rank->rank, "memory of tensors", rank->start_s[i], bytes[i]);
        last = bytes[i];
    }
    free(bytes);
}

void pdl_replay_trace(const pdl_replay_rank_t *ranks, int count, FILE *stream)
{
    pdl_trace_t trace;
    char        name[224];

    pdl_trace_begin(&trace, stream);
    for (int k = 0; k < count; k++) name_tracks(&trace, &ranks[k]);
    for (int k = 0; k < count; k++) {
        trace_memory(&trace, &ranks[k]);
        for (int i = 0; i < ranks[k].program->op_count; i++) {
            const pdl_program_op_t *op = &ranks[k].program->op[i];
            pdl_trace_slice(&trace, &(pdl_trace_slice_t){.process = ranks[k].rank,
                                                         .thread = track_of(op),
                                                         .name = pdl_program_op_name(ranks[k].program, i, name,
                                                                                     sizeof(name)),
                                                         .start_s = ranks[k].start_s[i],
                                                         .end_s = ranks[k].end_s[i],
                                                         .micro_batch = op->micro_batch});
        }
    }
    pdl_trace_end(&trace);
}
