/*
 * The circulant algorithm: reduce-scatter and allgather in ceil(log2 P) steps with the least possible volume for
 * every P. The skips are P halved and rounded up until 1: a rank passes to the member one skip away what that one,
 * with the skips still to come, can deliver.
 *
 * With several hosts per switch, odd host classes run the mirror image, so that both directions of every cable
 * work.
 */
#include "coll/internal.h"

void pdl__gather_circulant(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                           pdl__part_t *part)
{
    int  round = level->steps - 1 - step;
    int  before = level->skip[round], skip = level->skip[round + 1], count = before - skip;
    bool mirror = level->mirrored && (host & 1) != 0, sends = view == PDL__SENDS;
    int  peer = mirror == sends ? index + skip : index - skip;
    int  first = mirror ? index - (sends ? count : before) + 1 : index + (sends ? 0 : skip);

    part->peer = peer < 0 ? peer + level->size : peer >= level->size ? peer - level->size : peer;
    part->base = 0;
    part->first = first < 0 ? first + level->size : first >= level->size ? first - level->size : first;
    part->count = count;
    part->modulus = level->size;
}

void pdl__level_add_circulant(pdl_schedule_t *schedule, int at, int size, int stride)
{
    pdl__level_t *level = &schedule->level[0][at];
    int           steps = 0;

    level->skip[0] = size;
    while (level->skip[steps] > 1) {
        level->skip[steps + 1] = level->skip[steps] - level->skip[steps] / 2;
        steps++;
    }
    pdl__level_add(schedule, 0, at, pdl__gather_circulant, size, stride, steps);
}

pdl_status_t pdl__setup_circulant(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    pdl__level_add_halving(schedule, 0, 0, schedule->hosts, 1);
    pdl__level_add_circulant(schedule, 1, schedule->ranks / schedule->hosts, schedule->hosts);
    schedule->level[0][1].mirrored = true;
    return pdl__levels_finish(schedule, spec, 2);
}
