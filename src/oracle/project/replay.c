/*
 * Lists of operations side by side in time. Every rank goes through its list; one that waits for a tensor lets the others go on.
 */
#include "oracle/project/replay.h"
#include <paradl/base/trace.h>
#include <stdlib.h>

static const char *const stage_tracks[] = {"stage transfer", "stage transfer, gradients", "receive",
                                           "receive, gradients"};

static int track_of(const pdl_program_op_t *op)
{
    if (op->stream != PDL_STREAM_STAGE) return (int)op->stream;
    return (op->kind == PDL_OP_RECV ? PDL__TRACK_RECEIVE : PDL__TRACK_SEND) + op->backward;
}

/* No argument is a NaN, which fmax() has to look for. */
static inline double later(double a, double b)
{
    return a > b ? a : b;
}

/* What so many seconds of computation take from `start` on: kernels are slower while gradients are exchanged. */
static inline double slowed(const pdl__lane_t *lane, double start, double seconds)
{
    double window = lane->free_s[PDL_STREAM_GRADIENT] - start, slowdown = lane->slowdown;

    if (window <= 0 || slowdown <= 1) return seconds;
    return seconds * slowdown <= window ? seconds * slowdown : window + (seconds - window / slowdown);
}

/* When a step can begin, and what it receives apart: behind those on its track, those that compute before it in the list, and
   those it waits for. */
static inline double ready_s(const pdl__lane_t *lane, const pdl__replay_step_t *step)
{
    double start = later(lane->free_s[step->track], lane->free_s[PDL_STREAM_COMPUTE]);

    for (int w = 0; w < step->wait_count; w++) start = later(start, lane->end_s[lane->wait[step->first_wait + w]]);
    return start;
}

/* Puts a step in time; false when what it needs is not sent yet. */
static inline bool place(pdl__lane_t *lane, const pdl__replay_step_t *step, double *sent_s)
{
    double arrival = step->flags & PDL__STEP_NEEDS ? sent_s[lane->tensor + step->tensor] : 0,
           seconds = lane->seconds[step->price];
    bool computes = step->flags & PDL__STEP_COMPUTES;

    if (arrival == PDL__TENSOR_PENDING) return false;
    double start = ready_s(lane, step);
    if (computes) start = later(start, arrival);
    if (lane->queue_s != NULL) {
        lane->host_s += lane->queue_s[step->price];
        if (computes) lane->host_wait_s += later(lane->host_s - start, 0);
        start = later(start, lane->host_s);
    }
    if (computes && lane->free_s[PDL_STREAM_GRADIENT] > start) {
        double taken = slowed(lane, start, seconds);
        lane->slowed_s += taken - seconds;
        seconds = taken;
    }
    double end = later(start + seconds, arrival);
    if (step->flags & PDL__STEP_SENDS) sent_s[lane->tensor + step->tensor] = end;
    if (step->flags & PDL__STEP_HOLDS) lane->free_s[PDL_STREAM_COMPUTE] = end;
    if (lane->start_s != NULL) lane->start_s[step->price] = start;
    lane->end_s[step->price] = lane->free_s[step->track] = end;
    return true;
}

/* Goes through a list until it ends or waits for another; `moved` says whether there was anything to do. */
static bool go_on(pdl__lane_t *lane, double *sent_s, bool *moved)
{
    for (;;) {
        for (; lane->next < lane->count; lane->next++, *moved = true)
            if (!place(lane, &lane->steps[lane->next], sent_s)) return false;
        lane->next = lane->count = 0;
        pdl__more_t more = lane->more == NULL ? PDL__MORE_NEVER : lane->more(lane, moved);
        if (more == PDL__MORE_LATER) return false;
        if (more == PDL__MORE_NEVER) break;
    }
    lane->more = NULL;
    return true;
}

pdl_status_t pdl__replay(pdl__lane_t *lanes, size_t size, int count, double *sent_s, double *total_s)
{
    bool moved = true, done = false;

    /* From the last stage of a pipeline down: what goes back through it goes all the way in one turn, and every stage can go
       forward again behind that. */
    while (moved && !done) {
        moved = false;
        done = true;
        for (int k = count - 1; k >= 0; k--)
            if (!go_on((pdl__lane_t *)((char *)lanes + (size_t)k * size), sent_s, &moved)) done = false;
    }
    if (!done) return pdl_error(PDL_ERR_INPUT, "the programs of %d ranks wait for each other", count);
    *total_s = 0;
    for (int k = 0; k < count; k++)
        for (int t = 0; t < PDL__TRACK_COUNT; t++)
            *total_s = later(*total_s, ((pdl__lane_t *)((char *)lanes + (size_t)k * size))->free_s[t]);
    return PDL_OK;
}

/* Tensors that go between the stages of a plan, by layer and micro-batch, there and back. */
typedef struct tensors {
    int layers, micro_batches;
} tensors_t;

static tensors_t count_tensors(const pdl_replay_rank_t *ranks, int count)
{
    tensors_t t = {0, 0};

    for (int k = 0; k < count; k++) {
        const pdl_program_t *program = ranks[k].program;

        for (int n = 0; n < program->node_count; n++)
            if (program->node[n].layer >= t.layers) t.layers = program->node[n].layer + 1;
        for (int i = 0; i < program->op_count; i++)
            if (program->op[i].micro_batch >= t.micro_batches) t.micro_batches = program->op[i].micro_batch + 1;
    }
    return t;
}

static pdl__replay_step_t step_of(const pdl_replay_rank_t *rank, const tensors_t *t, int i)
{
    const pdl_program_op_t *op = &rank->program->op[i];
    bool                    sends = op->kind == PDL_OP_SEND, needs = op->kind == PDL_OP_RECV;
    bool                    holds = rank->held >> op->stream & 1 && !needs;
    unsigned flags = (op->stream == PDL_STREAM_COMPUTE ? PDL__STEP_COMPUTES : 0u) | (holds ? PDL__STEP_HOLDS : 0u) |
                     (sends ? PDL__STEP_SENDS : 0u) | (needs ? PDL__STEP_NEEDS : 0u);
    int tensor = sends || needs
                     ? (rank->program->node[op->node].layer * t->micro_batches + op->micro_batch) * 2 + op->backward
                     : 0;

    return (pdl__replay_step_t){.price = i,
                                .tensor = tensor,
                                .first_wait = op->first_wait,
                                .wait_count = op->wait_count,
                                .track = (uint8_t)track_of(op),
                                .flags = (uint8_t)flags};
}

/* The steps of a program are its operations. */
static pdl__replay_step_t *list_steps(const pdl_replay_rank_t *rank, const tensors_t *t, double *sent_s)
{
    int                 count = rank->program->op_count;
    pdl__replay_step_t *steps = malloc(((size_t)count + 1) * sizeof(*steps));

    for (int i = 0; i < count && steps != NULL; i++) {
        steps[i] = step_of(rank, t, i);
        if (steps[i].flags & PDL__STEP_SENDS) sent_s[steps[i].tensor] = PDL__TENSOR_PENDING;
    }
    return steps;
}

pdl_status_t pdl_program_replay(pdl_replay_rank_t *ranks, int count, double *total_s)
{
    tensors_t    t = count_tensors(ranks, count);
    size_t       tensors = (size_t)t.layers * (size_t)t.micro_batches * 2;
    pdl__lane_t *lanes = calloc((size_t)count + 1, sizeof(*lanes));
    double      *sent_s = malloc((tensors + 1) * sizeof(*sent_s));
    bool         there = lanes != NULL && sent_s != NULL;

    for (size_t i = 0; i < tensors && there; i++) sent_s[i] = PDL__TENSOR_NOBODY;
    for (int k = 0; k < count && there; k++) {
        lanes[k] = (pdl__lane_t){.steps = list_steps(&ranks[k], &t, sent_s),
                                 .count = ranks[k].program->op_count,
                                 .wait = ranks[k].program->wait,
                                 .seconds = ranks[k].seconds,
                                 .queue_s = ranks[k].queue_s,
                                 .start_s = ranks[k].start_s,
                                 .end_s = ranks[k].end_s,
                                 .slowdown = ranks[k].slowdown};
        there = lanes[k].steps != NULL;
    }
    pdl_status_t status = there ? pdl__replay(lanes, sizeof(*lanes), count, sent_s, total_s)
                                : pdl_error(PDL_ERR_NOMEM, "out of memory for a timeline");
    for (int k = 0; k < count && lanes != NULL; k++) free((pdl__replay_step_t *)(uintptr_t)lanes[k].steps);
    free(lanes);
    free(sent_s);
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
    for (int t = 0; t < PDL__TRACK_COUNT; t++)
        if (uses_track(rank->program, t))
            pdl_trace_name(trace, rank->rank, t,
                           t < PDL__TRACK_SEND ? pdl_op_stream_names[t] : stage_tracks[t - PDL__TRACK_SEND]);
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
