/*
 * Halving-doubling (Rabenseifner) in both orders. Any number of ranks for the allreduce: P = 2^q + e, ranks 2i+1,
 * i < e, first fold into 2i and get the result at the end.
 */
#include "coll/internal.h"

/* Step t: exchange the 2^t blocks held, from a multiple of 2^t, with i XOR 2^t. */
void pdl__gather_far(const pdl__level_t *level, int step, int index, int host, pdl__view_t view, pdl__part_t *part)
{
    int stride = 1 << step, peer = index ^ stride;

    (void)host;
    part->peer = peer;
    part->base = 0;
    part->first = (view == PDL__SENDS ? index : peer) & ~(stride - 1);
    part->count = stride;
    part->modulus = level->size;
}

int pdl__label_near(const pdl__level_t *level, int index, int host)
{
    (void)host;
    return pdl__reverse_bits(index, level->bits);
}

/* The same with bit-reversed labels: the last step, which carries half of the vector, is with the nearest rank. */
void pdl__gather_near(const pdl__level_t *level, int step, int index, int host, pdl__view_t view, pdl__part_t *part)
{
    int label = pdl__label_near(level, index, host);

    pdl__gather_far(level, step, label, host, view, part);
    part->peer = index ^ (level->size >> (step + 1));
}

void pdl__level_add_halving(pdl_schedule_t *schedule, int order, int at, int size, int stride)
{
    if (pdl__is_power_of_two(size)) {
        pdl__level_add(schedule, order, at, pdl__gather_far, size, stride, pdl__log2(size));
    } else {
        pdl__level_add_circulant(schedule, at, size, stride);
    }
}

static pdl_status_t setup(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, bool near)
{
    int bits = pdl__log2(schedule->ranks), survivors = 1 << bits;

    if (survivors != schedule->ranks && schedule->collective != PDL_COLL_ALLREDUCE) {
        return pdl__unsupported(schedule, "a power of two; circulant takes any number");
    }
    schedule->survivors = survivors;
    schedule->extra = schedule->ranks - survivors;
    schedule->fold_ranks = schedule->extra > 0;
    pdl__level_add(schedule, 0, 0, near ? pdl__gather_near : pdl__gather_far, survivors, 1, bits);
    if (near) schedule->level[0][0].label = pdl__label_near;
    return pdl__levels_finish(schedule, spec, 1);
}

pdl_status_t pdl__setup_hd_near(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, true);
}

pdl_status_t pdl__setup_hd_far(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, false);
}
