/*
 * Swing: a butterfly whose partners stay near on a ring or torus. In step t even ranks talk to r + rho(t), odd ones
 * to r - rho(t), rho = 1, -1, 3, -5, 11, ... What a rank holds before step t is a run of 2^t blocks that grows
 * upwards in even steps and downwards in odd ones (the other way for odd ranks).
 */
#include "coll/internal.h"

static int first_of(int index, int t, int size)
{
    int below = 0x2aaaaaaa & ((1 << t) - 1); /* grown downwards: the sum of 2^s over odd s < t */

    if ((index & 1) != 0) below = (1 << t) - 1 - below;
    return (index - below) & (size - 1);
}

void pdl__gather_swing(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                       pdl__part_t *part)
{
    int64_t power = (int64_t)2 << step;
    int     rho = (int)(((step & 1) != 0 ? 1 - power : 1 + power) / 3);
    int     peer = ((index & 1) != 0 ? index - rho : index + rho) & (level->size - 1);

    (void)host;
    part->peer = peer;
    part->base = 0;
    part->first = first_of(view == PDL__SENDS ? index : peer, step, level->size);
    part->count = 1 << step;
    part->modulus = level->size;
}

pdl_status_t pdl__setup_swing(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    if (!pdl__is_power_of_two(schedule->ranks)) {
        return pdl__unsupported(schedule, "a power of two; circulant takes any number");
    }
    pdl__level_add(schedule, 0, 0, pdl__gather_swing, schedule->ranks, 1, pdl__log2(schedule->ranks));
    return pdl__levels_finish(schedule, spec, 1);
}
