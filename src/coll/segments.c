/*
 * How many segments a pipelined schedule cuts its vector into. Its steps grow with the segments, a + b S, while a step
 * takes a start-up and the time of one segment:
 *
 *     T(S) = (a + b S) (startup + segment(S) / rate),   segment(S) = c bytes / S,
 *
 * which is least at S = sqrt(a c bytes / (b startup rate)). Everything in it follows from the schedule itself.
 */
#include "coll/internal.h"

#include <math.h>

#define MEMORY_STARTUP_S   2e-6
#define MEMORY_BYTES_PER_S 5e9

int64_t pdl_schedule_segments(const pdl_schedule_t *schedule)
{
    return schedule->segments;
}

static pdl_status_t look_at(const pdl_schedule_spec_t *spec, int64_t segments, int64_t *steps, int64_t *blocks,
                            int64_t *cut)
{
    pdl_schedule_spec_t asked = *spec;
    pdl_schedule_t     *schedule;
    pdl_status_t        status;

    asked.segments = segments;
    status = pdl_schedule_create(&asked, &schedule);
    if (status) return status;
    *steps = schedule->steps;
    *blocks = schedule->blocks;
    *cut = schedule->segments;
    pdl_schedule_destroy(schedule);
    return PDL_OK;
}

/* The nearest power of two: the optimum is flat, and round numbers are easier to compare. */
static int64_t round_segments(double best, double most)
{
    double power = exp2(floor(log2(fmax(fmin(best, most), 1)) + 0.5));

    while (power > 1 && power > most) power /= 2;
    return (int64_t)power;
}

pdl_status_t pdl_schedule_create_sized(const pdl_schedule_spec_t *spec, double bytes, pdl_schedule_t **schedule)
{
    pdl_schedule_spec_t tuned = *spec;
    pdl_status_t        status = pdl_schedule_tune(&tuned, bytes, 0, 0);

    return status ? status : pdl_schedule_create(&tuned, schedule);
}

pdl_status_t pdl_schedule_tune(pdl_schedule_spec_t *spec, double bytes, double startup_s, double bytes_per_s)
{
    int64_t      one, two, blocks, segments;
    double       most, grows;
    pdl_status_t status;

    if (spec->segments != 0) return PDL_OK;
    if (startup_s <= 0) startup_s = MEMORY_STARTUP_S;
    if (bytes_per_s <= 0) bytes_per_s = MEMORY_BYTES_PER_S;
    status = look_at(spec, 0, &one, &blocks, &segments);
    /* What has one segment by default is not pipelined. */
    if (status || segments <= 1 || spec->ranks < 2) return status;
    status = look_at(spec, 1, &one, &blocks, &segments);
    if (!status) status = look_at(spec, 2, &two, &segments, &segments);
    if (status) return status;
    grows = (double)(two - one);
    /* A block is at least an element of four bytes; the second limit is that of pdl_schedule_create(). */
    most = fmin(fmin(bytes / 4 / (double)blocks, (double)PDL__MAX_SEGMENTS), INT32_MAX / 4 / (double)spec->ranks);
    spec->segments =
        round_segments(sqrt(((double)one - grows) * bytes / (double)blocks / grows / (startup_s * bytes_per_s)),
                       most);
    return PDL_OK;
}
