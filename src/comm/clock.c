/*
 * Clocks of ranks beside that of rank 0. A rank asks for the time and notes when it asked and when the answer came: the answer was
 * made in between, and the shortest of several exchanges says best when.
 */
#include <paradl/comm/ranks.h>

#include "base/clock.h"

#include <math.h>

#define EXCHANGES 16
#define TAG       0

static pdl_status_t pass(pdl_ranks_request_t *request, double *time_s, int peer, bool sends)
{
    pdl_status_t status = sends ? pdl_ranks_send_start(request, time_s, sizeof(*time_s), peer, TAG)
                                : pdl_ranks_receive_start(request, time_s, sizeof(*time_s), peer, TAG);

    return status ? status : pdl_ranks_request_wait(request);
}

static pdl_status_t answer(pdl_ranks_request_t *request, int peer)
{
    pdl_status_t status = PDL_OK;
    double       time_s;

    for (int i = 0; i < EXCHANGES && !status; i++) {
        status = pass(request, &time_s, peer, false);
        time_s = pdl__seconds();
        if (!status) status = pass(request, &time_s, peer, true);
    }
    return status;
}

static pdl_status_t ask(pdl_ranks_request_t *request, pdl_clock_t *clock)
{
    pdl_status_t status = PDL_OK;

    clock->error_s = INFINITY;
    for (int i = 0; i < EXCHANGES && !status; i++) {
        double begin_s = pdl__seconds(), its_s = begin_s, half_s;

        status = pass(request, &its_s, 0, true);
        if (!status) status = pass(request, &its_s, 0, false);
        half_s = (pdl__seconds() - begin_s) / 2;
        if (!status && half_s < clock->error_s)
            *clock =
                (pdl_clock_t){.at_s = begin_s + half_s, .offset_s = its_s - begin_s - half_s, .error_s = half_s};
    }
    return status;
}

pdl_status_t pdl_ranks_clock(pdl_ranks_t *ranks, pdl_clock_t *clock)
{
    pdl_ranks_request_t *request = NULL;
    pdl_status_t         status;

    *clock = (pdl_clock_t){.at_s = pdl__seconds()};
    if (pdl_ranks_size(ranks) == 1 || pdl_ranks_dry(ranks)) return PDL_OK;
    status = pdl_ranks_agree(ranks, pdl_ranks_request_create(ranks, sizeof(double), &request));
    if (!status && pdl_ranks_rank(ranks) > 0) status = ask(request, clock);
    for (int r = 1; r < pdl_ranks_size(ranks) && pdl_ranks_rank(ranks) == 0 && !status; r++)
        status = answer(request, r);
    pdl_ranks_request_destroy(request);
    return pdl_ranks_agree(ranks, status);
}

double pdl_clock_common(const pdl_clock_t *first, const pdl_clock_t *last, double time_s)
{
    double apart_s = last->at_s - first->at_s,
           part = apart_s > 0 ? fmin(1, fmax(0, (time_s - first->at_s) / apart_s)) : 0;

    return time_s + first->offset_s + part * (last->offset_s - first->offset_s);
}
