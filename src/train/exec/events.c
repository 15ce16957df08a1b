/*
 * Times of operations on a device that works while the host goes on: by events, read when the step has been waited for.
 *
 * They are recorded where a timeline is wanted, and else in a few steps only, of which the others are taken to be like. What
 * communicates takes the host's time and is measured by its clock everywhere. An event behind every copy says when it is
 * complete; what the operation that needs it has waited for it is no time of that operation.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/exec/session.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD      50    /* updates between two that are measured */
#define MOST_EVENTS 16384 /* operations behind them are not measured */

static bool is_timed(const pdl_program_op_t *op)
{
    return (op->stream == PDL_STREAM_COMPUTE && op->kind != PDL_OP_RESULT) || op->kind == PDL_OP_COPY_OUT ||
           op->kind == PDL_OP_COPY_IN;
}

pdl_status_t pdl__events_create(pdl_session_t *s)
{
    int          wanted = 1;
    pdl_status_t status = PDL_OK;

    if (!s->executor.device->asynchronous || s->program == NULL || s->dry) return PDL_OK;
    for (int i = 0; i < s->program->op_count && wanted < MOST_EVENTS; i++) wanted += is_timed(&s->program->op[i]);
    s->observer.event = calloc((size_t)wanted, sizeof(*s->observer.event));
    s->observer.end_s = calloc((size_t)s->program->op_count + 1, sizeof(*s->observer.end_s));
    if (s->observer.event == NULL || s->observer.end_s == NULL) return pdl__no_memory("while preparing to train");
    for (; s->observer.event_count < wanted && !status; s->observer.event_count++)
        status =
            s->executor.device->ops->event_create(s->executor.device, &s->observer.event[s->observer.event_count]);
    return status;
}

void pdl__events_destroy(pdl_session_t *s)
{
    for (int i = 0; i < s->observer.event_count; i++)
        s->executor.device->ops->event_destroy(s->executor.device, s->observer.event[i]);
    free(s->observer.event);
    free(s->observer.end_s);
}

static pdl_status_t record(pdl_session_t *s, pdl_op_stream_t stream, int event)
{
    return s->executor.device->ops->record(s->executor.device, s->executor.stream[stream],
                                           s->observer.event[event]);
}

/* The second update is measured, and the first until then: it may have waited for kernels to be loaded. */
pdl_status_t pdl__events_begin(pdl_session_t *s)
{
    int64_t step = s->observer.steps++ % PERIOD;

    s->observer.measures =
        s->observer.event_count > 0 && (s->observer.timeline || step == 1 || s->observer.steps == 1);
    s->observer.marked = 0;
    if (!s->observer.measures) return PDL_OK;
    s->observer.begun_s = pdl__seconds();
    return record(s, PDL_STREAM_COMPUTE, 0);
}

pdl_status_t pdl__events_mark(pdl_session_t *s, int op)
{
    if (!s->observer.measures || !is_timed(&s->program->op[op]) ||
        s->observer.marked + 1 >= s->observer.event_count)
        return PDL_OK;
    return record(s, s->program->op[op].stream, ++s->observer.marked);
}

/* The time at which the copies are complete that an operation waits for; 0: it waits for none. */
static double copied_s(const pdl_session_t *s, const pdl_program_op_t *op)
{
    double last = 0;

    for (int k = 0; k < op->wait_count; k++) {
        int w = s->program->wait[op->first_wait + k];
        if (s->program->op[w].kind == PDL_OP_COPY_OUT || s->program->op[w].kind == PDL_OP_COPY_IN)
            last = fmax(last, s->observer.end_s[w]);
    }
    return last;
}

static void read_times(pdl_session_t *s)
{
    const pdl_device_ops_t *ops = s->executor.device->ops;
    double                  computed = 0, link[PDL_STREAM_COUNT] = {0};
    int                     at = 0;

    memset(s->observer.measured_s, 0, sizeof(s->observer.measured_s));
    for (int i = 0; i < s->program->op_count; i++) {
        const pdl_program_op_t *op = &s->program->op[i];
        s->observer.end_s[i] = computed;
        if (!is_timed(op) || at >= s->observer.marked) continue;
        bool   copies = op->stream != PDL_STREAM_COMPUTE;
        double to = ops->elapsed(s->executor.device, s->observer.event[0], s->observer.event[++at]);
        double from = copies ? fmax(link[op->stream], computed) : fmin(fmax(computed, copied_s(s, op)), to);
        s->observer.end_s[i] = to;
        if (!copies) s->observer.measured_s[PDL_CLASS_COPY] += from - computed;
        *(copies ? &link[op->stream] : &computed) = to;
        if (op->kind == PDL_OP_LOAD) continue;
        if (!copies) s->observer.measured_s[pdl_program_op_class(s->program, op)] += to - from;
        pdl__trace_moment(s, &(pdl__moment_t){s->observer.begun_s + from, s->observer.begun_s + to, 0, i, false});
    }
    /* Figures for the summary; without memory for them they stay those of the step before. */
    (void)pdl_program_count_copies(s->program, s->observer.end_s, &s->observer.copies);
}

/* Computation waits for a copy, not for the event that is recorded behind the copy. */
pdl_status_t pdl__events_end(pdl_session_t *s)
{
    bool         copies = s->observer.measures && s->executor.copied_count > 0;
    pdl_status_t status = copies ? pdl__session_await(s) : PDL_OK;

    if (s->observer.measures && !status) read_times(s);
    s->observer.measures = false;
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) s->observer.class_s[i] += s->observer.measured_s[i];
    return status;
}
