/*
 * Ops in phases: between two of them their ranks meet.
 *
 * Where the host may not use memory of the device, numbers come home, meet in pinned memory and go back. Of rows only their
 * number comes home.
 */
#include "base/clock.h"
#include "train/exec/execute.h"
#include "train/exec/session.h"

/* Pinned memory for a meeting: numbers, or how many bytes are sent to and come from every rank. */
static size_t meeting_bytes(const pdl__unit_t *unit, const pdl_meeting_t *meeting)
{
    if (meeting->kind != PDL_MEETING_ROUTE) return (size_t)meeting->count * sizeof(double);
    return 2 * (size_t)unit->routes->members * sizeof(int64_t);
}

size_t pdl__phases_bytes(const pdl_session_t *s)
{
    size_t most = 0;

    for (int u = 0; u < s->graph->unit_count && !s->executor.device->host_access; u++) {
        const pdl__unit_t *unit = &s->graph->unit[u];
        for (int way = 0; way < 2; way++)
            for (int m = 0; m < unit->description.meetings[way]; m++)
                if (meeting_bytes(unit, &unit->description.meeting[way][m]) > most)
                    most = meeting_bytes(unit, &unit->description.meeting[way][m]);
    }
    return most;
}

static pdl_status_t reduce(pdl_session_t *s, const pdl__unit_t *unit, const pdl_op_run_t *run,
                           const pdl_meeting_t *meeting)
{
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    char                *numbers = (char *)run->workspace + meeting->at;
    int64_t              count = meeting->count - (run->label_smoothing > 0 ? 0 : meeting->smoothed);
    size_t               bytes = (size_t)count * sizeof(double);
    double      *home = s->executor.device->host_access ? (double *)(void *)numbers : s->executor.meeting_home;
    pdl_status_t status = PDL_OK;

    if (!s->executor.device->host_access)
        status = pdl_device_fetch(s->executor.device, compute, home, numbers, bytes);
    if (!status && meeting->kind == PDL_MEETING_MAX) status = pdl_ranks_max(unit->statistics, home, count);
    if (!status && meeting->kind == PDL_MEETING_SUM) status = pdl_ranks_sum(unit->statistics, home, count);
    if (status || s->executor.device->host_access) return status;
    return s->executor.device->ops->copy(s->executor.device, compute, numbers, home, bytes);
}

/* Rows go to experts of other ranks, and back. */
static pdl_status_t dispatch(pdl_session_t *s, pdl__unit_t *unit, const void *send, const int64_t *to,
                             void *receive, const int64_t *from)
{
    double       start_s = pdl__seconds(), before = unit->routes->sent;
    pdl_status_t status =
        pdl__dispatch_run(unit->routes, s->executor.stream[PDL_STREAM_COMPUTE], send, to, receive, from);

    s->exchange.sent_bytes += unit->routes->sent - before;
    s->observer.moved_s += pdl__seconds() - start_s;
    return status;
}

static pdl_status_t route(pdl_session_t *s, pdl__unit_t *unit, const pdl_op_run_t *run,
                          const pdl_meeting_t *meeting)
{
    pdl_tensor_stream_t *compute = s->executor.stream[PDL_STREAM_COMPUTE];
    int                  ranks = unit->routes->members;
    char                *send = (char *)run->workspace + meeting->at, *to = (char *)run->workspace + meeting->to;
    char                *from = (char *)run->workspace + meeting->from;
    char                *receive = (char *)(meeting->into_saved ? run->saved : run->workspace) + meeting->receive;
    int64_t             *bytes = (int64_t *)(void *)s->executor.meeting_home;

    if (s->executor.device->host_access)
        return dispatch(s, unit, send, (int64_t *)(void *)to, receive, (int64_t *)(void *)from);
    pdl_status_t status =
        s->executor.device->ops->copy(s->executor.device, compute, bytes, to, (size_t)ranks * sizeof(*bytes));
    if (!status)
        status = pdl_device_fetch(s->executor.device, compute, bytes + ranks, from, (size_t)ranks * sizeof(*bytes));
    return status ? status : dispatch(s, unit, send, bytes, receive, bytes + ranks);
}

static pdl_status_t meet(pdl_session_t *s, pdl__unit_t *unit, const pdl_op_run_t *run, bool backward, int m)
{
    const pdl_meeting_t *meeting = &unit->description.meeting[backward][m];

    return meeting->kind == PDL_MEETING_ROUTE ? route(s, unit, run, meeting) : reduce(s, unit, run, meeting);
}

pdl_status_t pdl__run_forward(pdl_session_t *s, pdl__unit_t *unit, pdl_op_t *op, pdl_op_run_t *run)
{
    const pdl_backend_ops_t *ops = s->spec.backend->ops;
    int                      meetings = pdl_op_meetings(op, run, false);
    pdl_status_t             status = PDL_OK;

    for (run->phase = 0; run->phase <= meetings && !status; run->phase++) {
        status = ops->forward(op, s->executor.stream[PDL_STREAM_COMPUTE], run);
        if (!status && run->phase < meetings) status = meet(s, unit, run, false, run->phase);
    }
    return status;
}

pdl_status_t pdl__run_backward(pdl_session_t *s, pdl__unit_t *unit, pdl_op_t *op, pdl_op_run_t *run, unsigned what)
{
    const pdl_backend_ops_t *ops = s->spec.backend->ops;
    int                      meetings = pdl_op_meetings(op, run, true);
    pdl_status_t             status = PDL_OK;

    for (run->phase = 0; run->phase <= meetings && !status; run->phase++) {
        status = ops->backward(op, s->executor.stream[PDL_STREAM_COMPUTE], run, what);
        if (!status && run->phase < meetings) status = meet(s, unit, run, true, run->phase);
    }
    return status;
}
