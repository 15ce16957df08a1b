/*
 * Two ranks of one machine try the ways of an allreduce in turns, and stay with the fastest. Which one that is depends on how the cores
 * of a machine share caches, which no limit written down here could know. A sum of two numbers has the same bits in either order, so the
 * choice changes no result.
 *
 * Sizes between two powers of two are tried together: a program with many sizes is done after a few calls, and plans that are made anew
 * know what is best.
 */
#include "comm/choose.h"
#include "comm/interpose/interpose.h"

#include "base/clock.h"
#include "comm/mpi/check.h"
#include "comm/mpi/mailbox.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 6, RANGES = 64 };

/* With one message, or with two of half the bytes. */
static const struct {
    pdl__way_t  way;
    const char *algorithm, *words;
} candidates[PDL__TRIED] = {{PDL__WAY_LIBRARY, NULL, "left to the MPI library"},
                            {PDL__WAY_SHARED, "rdb", "rdb through memory that they share"},
                            {PDL__WAY_SHARED, "ring", "ring through memory that they share"},
                            {PDL__WAY_MESSAGES, "ring", "ring by messages of MPI"}};

/* Sizes from one power of two to the next. */
typedef struct range {
    double moment_s[2][PDL__TRIED][TRIES]; /* of beginning and end */
    double bytes[PDL__TRIED][TRIES];
    int    calls;
    bool   settled;
    int    way; /* once they are settled: a candidate */
} range_t;

typedef struct pdl__ways {
    range_t range[RANGES];
} pdl__ways_t;

static double bytes_of(const pdl__plan_t *plan)
{
    MPI_Count size = 0;

    PMPI_Type_size_x(plan->type, &size);
    return (double)plan->elements * (double)size;
}

bool pdl__ways_are_tried(const pdl__state_t *state, pdl__plan_t *plan)
{
    plan->range = ilogb(fmax(bytes_of(plan), 1));
    return plan->collective == PDL_COLL_ALLREDUCE && state->network == NULL &&
           strcmp(pdl__settings()->algorithm[PDL_COLL_ALLREDUCE], "auto") == 0 &&
           (plan->op == MPI_SUM || plan->op == MPI_PROD) &&
           pdl__ways_differ(state->ranks, pdl__mailbox_limit(state->mailbox), bytes_of(plan));
}

/* The executor of a candidate, which the library does not need. */
static pdl_status_t make_way(pdl__state_t *state, pdl__plan_t *plan, int candidate)
{
    bool            shared = candidates[candidate].way == PDL__WAY_SHARED;
    pdl_schedule_t *schedule = NULL;
    pdl_status_t    status;

    if (candidates[candidate].way == PDL__WAY_LIBRARY || plan->way[candidate] != NULL) return PDL_OK;
    status = pdl__choose(state, plan->collective, candidates[candidate].algorithm, bytes_of(plan), &schedule);
    if (!status && schedule != NULL)
        status = pdl_executor_create(&(pdl_executor_spec_t){.schedule = schedule,
                                                            .comm = state->comm,
                                                            .type = plan->type,
                                                            .op = plan->op,
                                                            .elements = plan->elements,
                                                            .chunk_bytes = pdl__settings()->chunk_bytes,
                                                            .mailbox = shared ? state->mailbox : NULL,
                                                            .all_shared = shared},
                                     &plan->way[candidate]);
    pdl_schedule_destroy(schedule);
    return status;
}

static pdl_status_t run_way(const pdl__state_t *state, const pdl__plan_t *plan, int way, const void *input,
                            void *data)
{
    if (plan->way[way] != NULL) return pdl_executor_run(plan->way[way], input == MPI_IN_PLACE ? NULL : input, data);
    return PDL_MPI(PMPI_Allreduce(input, data, (int)plan->elements, plan->type, plan->op, state->comm));
}

static void say_choice(const pdl__state_t *state, double bytes, int candidate)
{
    char text[PDL_FORMAT_SIZE];

    if (pdl__settings()->verbose && state->rank == 0)
        fprintf(stderr,
                "paradl-mpi: allreduce of about %s on 2 ranks: %s, the fastest of %d ways in %d calls each\n",
                pdl_format_bytes(bytes, text), candidates[candidate].words, PDL__TRIED, TRIES);
}

/* Of each call what passes from the last rank's beginning to the last one's end: both read the same clock. The shortest counts, since all
   else that a call may wait for makes it longer. */
static pdl_status_t settle(const pdl__state_t *state, range_t *range, double bytes)
{
    double       least = INFINITY;
    pdl_status_t status = PDL_MPI(
        PMPI_Allreduce(MPI_IN_PLACE, range->moment_s, 2 * PDL__TRIED * TRIES, MPI_DOUBLE, MPI_MAX, state->comm));

    for (int i = 0; i < PDL__TRIED * TRIES && !status; i++) {
        int    w = i / TRIES, t = i % TRIES;
        double seconds = (range->moment_s[1][w][t] - range->moment_s[0][w][t]) / range->bytes[w][t];

        if (seconds >= least) continue;
        least = seconds;
        range->way = w;
    }
    range->settled = !status;
    if (!status) say_choice(state, bytes, range->way);
    return status;
}

static pdl_status_t try_way(pdl__state_t *state, pdl__plan_t *plan, range_t *range, const void *input, void *data)
{
    int          way = range->calls % PDL__TRIED, try = range->calls / PDL__TRIED;
    pdl_status_t status = make_way(state, plan, way);

    if (status) return status;
    range->bytes[way][try] = bytes_of(plan);
    range->moment_s[0][way][try] = pdl__seconds();
    status = run_way(state, plan, way, input, data);
    range->moment_s[1][way][try] = pdl__seconds();
    if (!status && ++range->calls == PDL__TRIED * TRIES) status = settle(state, range, bytes_of(plan));
    return status;
}

pdl_status_t pdl__ways_run(pdl__state_t *state, pdl__plan_t *plan, const void *input, void *data)
{
    range_t     *range;
    pdl_status_t status;

    if (state->ways == NULL) state->ways = calloc(1, sizeof(*state->ways));
    if (state->ways == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    range = &state->ways->range[plan->range];
    if (!range->settled) return try_way(state, plan, range, input, data);
    status = make_way(state, plan, range->way);
    return status ? status : run_way(state, plan, range->way, input, data);
}
