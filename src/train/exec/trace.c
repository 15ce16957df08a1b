/*
 * Times of a session: by class, and its timeline for Perfetto and chrome://tracing.
 */
#include "base/clock.h"
#include "train/exec/session.h"
#include <paradl/base/output.h>
#include <paradl/base/trace.h>
#include <stdio.h>

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

void pdl__trace_moment(pdl_session_t *s, const pdl__moment_t *moment)
{
    if (!s->observer.timeline || s->observer.timeline_count == PDL__TIMELINE_CAPACITY) return;
    s->observer.timeline[s->observer.timeline_count++] = *moment;
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

/* On a track of its own: what is not of the stream that computes. */
static bool is_communication(const pdl_session_t *s, const pdl__moment_t *moment)
{
    if (moment->op < 0) return moment->op == PDL__MOMENT_MEAN || moment->op == PDL__MOMENT_MOVE;
    return s->program->op[moment->op].stream != PDL_STREAM_COMPUTE;
}

void pdl__trace_span(pdl_session_t *s, int op, double start_s)
{
    pdl__trace_moment(s, &(pdl__moment_t){start_s, pdl__seconds(), 0, op, false});
}

void pdl_session_classes(const pdl_session_t *s, double seconds[PDL_OP_CLASS_COUNT])
{
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) seconds[i] = s->observer.class_s[i];
}

/* Tracks of session `number`: what it computes, and what it waits for. */
static void write_events(pdl_trace_t *trace, const pdl_session_t *s, int number, double zero_s)
{
    char name[256];

    for (int i = 0; i < s->observer.timeline_count; i++) {
        const pdl__moment_t *moment = &s->observer.timeline[i];
        bool                 waits = is_communication(s, moment);
        pdl_trace_slice(trace,
                        &(pdl_trace_slice_t){.process = pdl_ranks_rank(s->spec.ranks),
                                             .thread = 2 * number + waits,
                                             .name = event_name(s, moment, name, sizeof(name)),
                                             .category = waits ? "communication" : "compute",
                                             .start_s = moment->start_s - zero_s,
                                             .end_s = moment->end_s - zero_s,
                                             .micro_batch =
                                                 moment->op >= 0 ? s->program->op[moment->op].micro_batch : -1});
    }
}

/* What the tracks are called: a rank, and of each of its sessions computation and communication. */
static void write_names(pdl_trace_t *trace, const pdl_session_t *s, int number, int count)
{
    int  rank = pdl_ranks_rank(s->spec.ranks);
    char name[64];

    snprintf(name, sizeof(name), "rank %d", rank);
    if (number == 0) pdl_trace_name(trace, rank, -1, name);
    for (int waits = 0; waits < 2; waits++) {
        const char *what = waits ? "communication" : "computation";
        if (count > 1)
            snprintf(name, sizeof(name), "%s of net %d", what, number);
        else
            snprintf(name, sizeof(name), "%s", what);
        pdl_trace_name(trace, rank, 2 * number + waits, name);
    }
}

static pdl_status_t write_trace(const pdl_session_t *const *sessions, int count, const char *path)
{
    pdl_output_t *output;
    pdl_trace_t   trace;

    for (int i = 0; i < count; i++)
        if (!sessions[i]->observer.timeline) return pdl_error(PDL_ERR_INPUT, "%s: the session kept no times", path);
    pdl_status_t status = pdl_output_open(path, &output);
    if (status) return status;
    pdl_trace_begin(&trace, pdl_output_stream(output));
    for (int i = 0; i < count; i++) write_names(&trace, sessions[i], i, count);
    for (int i = 0; i < count; i++) write_events(&trace, sessions[i], i, sessions[0]->observer.timeline_zero_s);
    pdl_trace_end(&trace);
    return pdl_output_close(output);
}

pdl_status_t pdl_session_trace(const pdl_session_t *s, const char *path)
{
    return write_trace(&s, 1, path);
}

pdl_status_t pdl__trace_write(const pdl_session_t *const *sessions, int count, const char *path)
{
    int  rank = pdl_ranks_rank(sessions[0]->spec.ranks);
    char own[4096];

    snprintf(own, sizeof(own), rank ? "%s.%d" : "%s", path, rank);
    return write_trace(sessions, count, own);
}
