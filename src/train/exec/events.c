/*
 * Times of operations on a device that works while the host goes on: by events, read when the step has been waited for.
 *
 * They are recorded where a timeline is wanted, and else in a few steps only, of which the others are taken to be like. What
 * communicates takes the host's time and is measured by its clock everywhere.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "train/exec/session.h"
#include <stdlib.h>
#include <string.h>

#define PERIOD      50    /* updates between two that are measured */
#define MOST_EVENTS 16384 /* operations behind them are not measured */

static bool computes(const pdl_program_op_t *op)
{
    return op->stream == PDL_STREAM_COMPUTE && op->kind != PDL_OP_RESULT;
}

pdl_status_t pdl__events_create(pdl_session_t *s)
{
    int          wanted = 1;
    pdl_status_t status = PDL_OK;

    if (!s->executor.device->asynchronous || s->program == NULL || s->dry) return PDL_OK;
    for (int i = 0; i < s->program->op_count && wanted < MOST_EVENTS; i++) wanted += computes(&s->program->op[i]);
    s->observer.event = calloc((size_t)wanted, sizeof(*s->observer.event));
    if (s->observer.event == NULL) return pdl__no_memory("while preparing to train");
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
}

static pdl_status_t record(pdl_session_t *s, int event)
{
    return s->executor.device->ops->record(s->executor.device, s->executor.stream[PDL_STREAM_COMPUTE],
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
    return record(s, 0);
}

pdl_status_t pdl__events_mark(pdl_session_t *s, int op)
{
    if (!s->observer.measures || !computes(&s->program->op[op]) ||
        s->observer.marked + 1 >= s->observer.event_count)
        return PDL_OK;
    return record(s, ++s->observer.marked);
}

static void read_times(pdl_session_t *s)
{
    const pdl_device_ops_t *ops = s->executor.device->ops;
    int                     at = 0;

    memset(s->observer.measured_s, 0, sizeof(s->observer.measured_s));
    for (int i = 0; i < s->program->op_count && at < s->observer.marked; i++) {
        if (!computes(&s->program->op[i])) continue;
        double from = ops->elapsed(s->executor.device, s->observer.event[0], s->observer.event[at]);
        double to = ops->elapsed(s->executor.device, s->observer.event[0], s->observer.event[++at]);
        if (s->program->op[i].kind == PDL_OP_LOAD) continue;
        s->observer.measured_s[pdl_program_op_class(s->program, &s->program->op[i])] += to - from;
        pdl__trace_moment(s, &(pdl__moment_t){s->observer.begun_s + from, s->observer.begun_s + to, 0, i, false});
    }
}

void pdl__events_end(pdl_session_t *s)
{
    if (s->observer.measures) read_times(s);
    s->observer.measures = false;
    for (int i = 0; i < PDL_OP_CLASS_COUNT; i++) s->observer.class_s[i] += s->observer.measured_s[i];
}
