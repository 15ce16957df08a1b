/*
 * Times of a session: by class, and its timeline for Perfetto and chrome://tracing.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/exec/session.h"
#include <paradl/base/output.h>
#include <paradl/base/trace.h>
#include <paradl/comm/ranks.h>
#include <stdio.h>
#include <stdlib.h>

void pdl__session_note(pdl_session_t *s, int op, bool waits, double start_s)
{
    const pdl_program_op_t *entry = &s->program->op[op];
    double                  end_s = pdl__seconds(), moved_s = s->observer.moved_s;

    s->observer.class_s[PDL_CLASS_MOVE] += moved_s;
    s->observer.moved_s = 0;
    bool copies = entry->kind == PDL_OP_COPY_OUT || entry->kind == PDL_OP_COPY_IN;

    if (s->observer.event_count > 0 && (copies || (!waits && entry->stream == PDL_STREAM_COMPUTE)))
        return; /* by events */
    /* Results are small: what they take is the time until the last rank has its own. */
    if (entry->kind != PDL_OP_RESULT)
        s->observer.class_s[pdl_program_op_class(s->program, entry)] += end_s - start_s - moved_s;
    pdl__trace_moment(s, &(pdl__moment_t){start_s, end_s, moved_s, op, waits});
}

/* The latest ones are kept. */
void pdl__trace_moment(pdl_session_t *s, const pdl__moment_t *moment)
{
    if (s->observer.timeline != NULL)
        s->observer.timeline[s->observer.timeline_count++ % PDL__TIMELINE_CAPACITY] = *moment;
}

static const char *event_name(const pdl_session_t *s, const pdl__moment_t *moment, char *text, size_t size)
{
    char name[224];

    switch (moment->op) {
    case PDL__MOMENT_MEAN: return "mean of models";
    case PDL__MOMENT_MOVE: return "models change places";
    default: break;
    }
    if (moment->op < 0)
        snprintf(text, size, "worker %d", PDL__MOMENT_TURN - moment->op);
    else
        snprintf(text, size, "%s%s", moment->waits ? "wait for " : "",
                 pdl_program_op_name(s->program, moment->op, name, sizeof(name)));
    return text;
}

/* A track for every stream, and one for what rounds do with models. */
enum { TRACK_MODELS = PDL_STREAM_COUNT, TRACK_COUNT };

static int track_of(const pdl_session_t *s, const pdl__moment_t *moment)
{
    if (moment->op < 0)
        return moment->op == PDL__MOMENT_MEAN || moment->op == PDL__MOMENT_MOVE ? TRACK_MODELS : PDL_STREAM_COMPUTE;
    return (int)s->program->op[moment->op].stream;
}

void pdl__trace_span(pdl_session_t *s, int op, double start_s)
{
    pdl__trace_moment(s, &(pdl__moment_t){start_s, pdl__seconds(), 0, op, false});
}

void pdl_session_classes(const pdl_session_t *s, double seconds[PDL_OP_CLASS_COUNT])
{
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) seconds[i] = s->observer.class_s[i];
}

/* What is written of a rank: its sessions, and when they were by the clock of rank 0, from zero_s on. */
typedef struct timelines {
    const pdl_session_t *const *sessions;
    int                         count;
    pdl_clock_t                 clock; /* now */
    double                      zero_s;
    pdl_trace_t                 trace;
} timelines_t;

static int rank_of(const timelines_t *t)
{
    return pdl_ranks_rank(t->sessions[0]->spec.ranks);
}

static double at(const timelines_t *t, double time_s)
{
    return pdl_clock_common(&t->sessions[0]->observer.clock, &t->clock, time_s) - t->zero_s;
}

static int64_t kept(const pdl_session_t *s)
{
    return s->observer.timeline_count < PDL__TIMELINE_CAPACITY ? s->observer.timeline_count
                                                               : PDL__TIMELINE_CAPACITY;
}

/* The i-th of the moments that are kept, the oldest first. */
static const pdl__moment_t *moment_of(const pdl_session_t *s, int64_t i)
{
    int64_t first = s->observer.timeline_count - kept(s);

    return &s->observer.timeline[(first + i) % PDL__TIMELINE_CAPACITY];
}

static void write_slices(timelines_t *t, int number)
{
    const pdl_session_t *s = t->sessions[number];
    char                 name[256];

    for (int64_t i = 0; i < kept(s); i++) {
        const pdl__moment_t *moment = moment_of(s, i);
        int                  track = track_of(s, moment);

        pdl_trace_slice(&t->trace,
                        &(pdl_trace_slice_t){.process = rank_of(t),
                                             .thread = TRACK_COUNT * number + track,
                                             .name = event_name(s, moment, name, sizeof(name)),
                                             .category = track == PDL_STREAM_COMPUTE ? "compute" : "communication",
                                             .start_s = at(t, moment->start_s),
                                             .end_s = at(t, moment->end_s),
                                             .micro_batch =
                                                 moment->op >= 0 ? s->program->op[moment->op].micro_batch : -1});
    }
}

/* Tensors that are alive, where that changes. */
static pdl_status_t write_memory(timelines_t *t, int number)
{
    const pdl_session_t *s = t->sessions[number];
    double              *bytes = malloc(((size_t)s->program->op_count + 1) * sizeof(*bytes)), last = -1;
    char                 name[64] = "memory of tensors";

    if (bytes == NULL) return pdl__no_memory("for a timeline");
    if (t->count > 1) snprintf(name, sizeof(name), "memory of tensors of net %d", number);
    pdl_program_alive(s->program, bytes);
    for (int64_t i = 0; i < kept(s); i++) {
        const pdl__moment_t *moment = moment_of(s, i);

        if (moment->op < 0 || track_of(s, moment) != PDL_STREAM_COMPUTE || bytes[moment->op] == last) continue;
        last = bytes[moment->op];
        pdl_trace_counter(&t->trace, rank_of(t), name, at(t, moment->start_s), last);
    }
    free(bytes);
    return PDL_OK;
}

/* Names of the tracks that a session uses. */
static void write_names(timelines_t *t, int number)
{
    const pdl_session_t *s = t->sessions[number];
    bool                 used[TRACK_COUNT] = {false};
    char                 name[64];

    for (int64_t i = 0; i < kept(s); i++) used[track_of(s, moment_of(s, i))] = true;
    for (int track = 0; track < TRACK_COUNT; track++) {
        const char *what = track == TRACK_MODELS ? "models" : pdl_op_stream_names[track];

        if (!used[track]) continue;
        if (t->count > 1)
            snprintf(name, sizeof(name), "%s of net %d", what, number);
        else
            snprintf(name, sizeof(name), "%s", what);
        pdl_trace_name(&t->trace, rank_of(t), TRACK_COUNT * number + track, name);
    }
}

/* What a reader has to know of a rank's times. */
static void write_label(timelines_t *t)
{
    int64_t left_out = t->sessions[0]->observer.timeline_count - kept(t->sessions[0]);
    char    text[160] = "";
    int     length = 0;

    if (t->clock.error_s > 0)
        length = snprintf(text, sizeof(text), "clock of rank 0 is %+.1f us, known to %.1f us%s",
                          1e6 * t->clock.offset_s, 1e6 * t->clock.error_s, left_out > 0 ? "; " : "");
    if (left_out > 0)
        snprintf(text + length, sizeof(text) - (size_t)length, "%lld earlier operations are left out",
                 (long long)left_out);
    if (text[0] != '\0') pdl_trace_label(&t->trace, rank_of(t), text);
}

static pdl_status_t write_rank(timelines_t *t)
{
    pdl_status_t status = PDL_OK;
    char         name[32];

    snprintf(name, sizeof(name), "rank %d", rank_of(t));
    pdl_trace_name(&t->trace, rank_of(t), -1, name);
    write_label(t);
    for (int i = 0; i < t->count; i++) write_names(t, i);
    for (int i = 0; i < t->count && !status; i++) {
        write_slices(t, i);
        status = write_memory(t, i);
    }
    return status;
}

static pdl_status_t check_kept(const timelines_t *t, const char *path)
{
    for (int i = 0; i < t->count; i++)
        if (t->sessions[i]->observer.timeline == NULL)
            return pdl_error(PDL_ERR_INPUT, "%s: the session kept no times", path);
    return PDL_OK;
}

/* The events of this rank as text, to be freed. */
static pdl_status_t make_part(timelines_t *t, char **text, size_t *length)
{
    FILE        *memory = open_memstream(text, length);
    pdl_status_t status = memory != NULL ? PDL_OK : pdl__no_memory("for a timeline");

    if (status) return status;
    pdl_trace_begin_part(&t->trace, memory);
    status = write_rank(t);
    pdl_trace_end(&t->trace);
    if (fclose(memory) != 0 && !status) status = pdl__no_memory("for a timeline");
    return status;
}

/* A message of any length from rank `from` to rank 0. */
static pdl_status_t pass(pdl_ranks_t *ranks, char *text, size_t length, int from)
{
    pdl_ranks_request_t *request = NULL;
    bool                 receives = pdl_ranks_rank(ranks) == 0;
    pdl_status_t         status = pdl_ranks_request_create(ranks, (int64_t)length, &request);

    if (!status)
        status = receives ? pdl_ranks_receive_start(request, text, (int64_t)length, from, 0)
                          : pdl_ranks_send_start(request, text, (int64_t)length, 0, 0);
    if (!status) status = pdl_ranks_request_wait(request);
    pdl_ranks_request_destroy(request);
    return status;
}

/* Rank 0 puts the others' events behind its own, one rank after the other. */
static pdl_status_t join(timelines_t *t, pdl_ranks_t *ranks, const int64_t *sizes, FILE *stream)
{
    pdl_status_t status;

    pdl_trace_begin(&t->trace, stream);
    status = write_rank(t);
    for (int r = 1; r < pdl_ranks_size(ranks) && !status; r++) {
        char *text = malloc((size_t)sizes[r] + 1);

        status = text != NULL ? pass(ranks, text, (size_t)sizes[r], r) : pdl__no_memory("for a timeline");
        if (!status) pdl_trace_append(&t->trace, text, (size_t)sizes[r]);
        free(text);
    }
    pdl_trace_end(&t->trace);
    return status;
}

/* Rank 0 sends nothing and the others write nothing. A rank 0 that fails in the middle leaves others that send: then all end. */
static pdl_status_t collect(timelines_t *t, pdl_ranks_t *ranks, const char *text, size_t length,
                            const pdl_output_t *output)
{
    int64_t     *sizes = calloc((size_t)pdl_ranks_size(ranks), sizeof(*sizes));
    pdl_status_t status = pdl_ranks_agree(ranks, sizes != NULL ? PDL_OK : pdl__no_memory("for a timeline"));

    if (!status) status = pdl_ranks_gather_all(ranks, text, (int64_t)length, NULL, sizes);
    if (!status && output == NULL) {
        status = pass(ranks, (char *)(uintptr_t)text, length, pdl_ranks_rank(ranks));
    } else if (!status) {
        status = join(t, ranks, sizes, pdl_output_stream(output));
        if (status && pdl_ranks_size(ranks) > 1) pdl_ranks_abort(ranks, status);
    }
    free(sizes);
    return status;
}

pdl_status_t pdl__trace_write(const pdl_session_t *const *sessions, int count, const char *path)
{
    pdl_ranks_t  *ranks = sessions[0]->spec.ranks;
    timelines_t   t = {.sessions = sessions, .count = count, .zero_s = sessions[0]->observer.timeline_zero_s};
    pdl_output_t *output = NULL;
    char         *text = NULL;
    size_t        length = 0;
    pdl_status_t  status = pdl_ranks_agree(ranks, check_kept(&t, path));

    if (!status) status = pdl_ranks_clock(ranks, &t.clock);
    if (!status) status = pdl_ranks_broadcast(ranks, &t.zero_s, sizeof(t.zero_s), 0);
    if (status) return status;
    status = pdl_ranks_rank(ranks) == 0 ? pdl_output_open(path, &output) : make_part(&t, &text, &length);
    status = pdl_ranks_agree(ranks, status);
    if (!status) status = collect(&t, ranks, text, length, output);
    free(text);
    if (output == NULL) return status;
    if (!status) return pdl_output_close(output);
    pdl_output_discard(output);
    return status;
}

pdl_status_t pdl_session_trace(const pdl_session_t *s, const char *path)
{
    return pdl__trace_write(&s, 1, path);
}
