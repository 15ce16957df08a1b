/*
 * The number of segments of a pipelined algorithm on a network: the closed form of pdl_schedule_tune() with the start-up
 * and rate that its messages find there, then half and twice as many as long as that is faster.
 */
#include "sim/case.h"

#include <math.h>

#define MOST_TRIED    (1 << 18) /* messages of a case whose neighbours are simulated as well */
#define MOST_MESSAGES (1 << 25) /* messages of a case: some ten seconds */

static double messages_of(const pdl_sim_case_t *asked, int64_t segments, double blocks_per_segment)
{
    double ways = asked->collective == PDL_COLL_ALLREDUCE ? 2 : 1;

    return ways * pdl__case_ranks(asked) * blocks_per_segment * (double)segments *
           (asked->groups > 1 ? asked->groups : 1);
}

/* The closed form; start-up and rate are those of a mean step without contention. */
static pdl_status_t tune(const pdl_sim_case_t *asked, const char *algorithm, const pdl_schedule_t *schedule,
                         int64_t *segments)
{
    pdl_schedule_spec_t spec = pdl__case_spec(asked, algorithm);
    double              part_s[PDL_PART_COUNT] = {0}, steps = pdl_schedule_steps(schedule);
    double       bytes = (double)pdl__case_bytes(asked), block = bytes / (double)pdl_schedule_blocks(schedule);
    pdl_status_t status = pdl__sim_parts(asked, schedule, part_s);

    if (status) return status;
    status = pdl_schedule_tune(&spec, bytes, part_s[PDL_PART_LATENCY] / steps,
                               block * steps / part_s[PDL_PART_BANDWIDTH]);
    *segments = spec.segments;
    return status;
}

static pdl_status_t time_of(const pdl_sim_case_t *asked, const char *algorithm, int64_t segments, double *time_s)
{
    pdl_sim_case_t    one = *asked;
    pdl_sim_verdict_t verdict;
    pdl_status_t      status;

    one.segments = segments;
    one.options.trace = NULL;
    one.options.link_loads = false;
    if (one.options.engine == PDL_ENGINE_SIMGRID) one.options.engine = PDL_ENGINE_FLOW;
    status = pdl_sim_run_case(&one, algorithm, &verdict);
    if (status) return status;
    *time_s = verdict.result.time_s;
    pdl_sim_verdict_free(&verdict);
    return PDL_OK;
}

/* Goes on in one direction while it gets faster. */
static pdl_status_t climb(const pdl_sim_case_t *asked, const char *algorithm, double per_segment, bool up,
                          int64_t *best, double *best_s)
{
    for (;;) {
        int64_t      next = up ? 2 * *best : *best / 2;
        double       next_s;
        pdl_status_t status;

        if (next < 1 || messages_of(asked, next, per_segment) > MOST_TRIED ||
            (double)next * per_segment > (double)asked->bytes / 4)
            return PDL_OK;
        status = time_of(asked, algorithm, next, &next_s);
        if (status || next_s >= *best_s) return status;
        *best = next;
        *best_s = next_s;
    }
}

pdl_status_t pdl__sim_choose_segments(const pdl_sim_case_t *asked, const char *algorithm, int64_t *segments)
{
    pdl_schedule_t *schedule;
    double          per_segment, best_s;
    int64_t         closed;
    pdl_status_t    status = pdl_sim_schedule(asked, algorithm, &schedule);

    *segments = asked->segments;
    if (status) return status;
    if (asked->segments != 0 || pdl_schedule_segments(schedule) == 1 || pdl__case_ranks(asked) < 2) {
        pdl_schedule_destroy(schedule);
        return PDL_OK;
    }
    per_segment = (double)pdl_schedule_blocks(schedule) / (double)pdl_schedule_segments(schedule);
    status = tune(asked, algorithm, schedule, segments);
    pdl_schedule_destroy(schedule);
    while (*segments > 1 && messages_of(asked, *segments, per_segment) > MOST_MESSAGES) *segments /= 2;
    if (status || messages_of(asked, *segments, per_segment) > MOST_TRIED) return status;
    closed = *segments;
    status = time_of(asked, algorithm, closed, &best_s);
    if (!status) status = climb(asked, algorithm, per_segment, true, segments, &best_s);
    if (!status && *segments == closed) status = climb(asked, algorithm, per_segment, false, segments, &best_s);
    return status;
}
