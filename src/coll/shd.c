/*
 * Shifted halving-doubling for distributed loop networks, and its rotated form.
 *
 * Rank i*h + c is host c of switch i. On a loop network with strides 1, 2, 4, ... plain halving-doubling uses half
 * of the cables of every stride: i and i + 2^t talk only when bit t of i is 0. Here odd host classes use the
 * pairing shifted by one stride, so that every cable carries half of the flows. The rotated form also starts every
 * class at another stride, so that with h <= log2 N classes no cable ever carries two flows.
 */
#include "coll/internal.h"

/* Member `index` with bit t equal to `odd` looks up the ring, others down. */
static int partner_of(int index, int t, int odd, int size)
{
    int stride = 1 << t;

    return ((index >> t & 1) == odd ? index + stride : index - stride) & (size - 1);
}

/* First of the 2^t consecutive blocks held before step t when strides ascend from 1. */
static int first_of(int index, int t, int odd, int size)
{
    int low = index & ((1 << t) - 1);

    return (odd ? index + low - (1 << t) + 1 : index - low) & (size - 1);
}

void pdl__gather_shifted(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                         pdl__part_t *part)
{
    int odd = host & 1, peer = partner_of(index, step, odd, level->size);

    part->peer = peer;
    part->base = 0;
    part->first = first_of(view == PDL__SENDS ? index : peer, step, odd, level->size);
    part->count = 1 << step;
    part->modulus = level->size;
}

/*
 * Strides in the order rot, rot+1, ..., Q-1, 0, ..., rot-1. Strides of at least 2^rot stay inside the residue of i
 * modulo 2^rot, a sub-ring of N/2^rot switches; when they are done every residue is complete and the small strides
 * combine whole residues. Blocks are numbered residue by residue, which makes every set of blocks consecutive:
 * inside the sub-ring at first, in residues later.
 */
void pdl__gather_rotated(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                         pdl__part_t *part)
{
    int bits = level->bits;
    int rot = host % bits, odd = host / bits & 1;
    int inner = bits - rot; /* steps inside a sub-ring */
    int t = step < inner ? step + rot : step - inner;
    int peer = partner_of(index, t, odd, level->size);
    int from = view == PDL__SENDS ? index : peer;

    part->peer = peer;
    part->count = 1 << step;
    if (step < inner) {
        part->base = (from & ((1 << rot) - 1)) << inner;
        part->first = first_of(from >> rot, step, odd, 1 << inner);
        part->modulus = 1 << inner;
    } else {
        part->base = 0;
        part->first = first_of(from & ((1 << rot) - 1), t, odd, 1 << rot) << inner;
        part->modulus = level->size;
    }
}

int pdl__label_rotated(const pdl__level_t *level, int index, int host)
{
    int rot = level->bits > 0 ? host % level->bits : 0;

    return (index & ((1 << rot) - 1)) << (level->bits - rot) | index >> rot;
}

static pdl_status_t check_shape(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    if (!pdl__is_power_of_two(schedule->hosts) || !pdl__is_power_of_two(schedule->ranks / schedule->hosts)) {
        return pdl__unsupported(schedule,
                                "powers of two for both switches and hosts per switch; circulant takes any number");
    }
    return PDL_OK;
}

static pdl_status_t setup(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, pdl__gather_fn_t gather,
                          bool switches_first)
{
    pdl_status_t status = check_shape(schedule, spec);
    int          hosts = schedule->hosts, switches;

    if (status != PDL_OK) return status;
    switches = schedule->ranks / hosts;
    pdl__level_add_halving(schedule, 0, switches_first ? 1 : 0, hosts, 1);
    pdl__level_add(schedule, 0, switches_first ? 0 : 1, gather, switches, hosts, pdl__log2(switches));
    return pdl__levels_finish(schedule, spec, 2);
}

pdl_status_t pdl__setup_shd_near(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, pdl__gather_shifted, false);
}

pdl_status_t pdl__setup_shd_far(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    return setup(schedule, spec, pdl__gather_shifted, true);
}

pdl_status_t pdl__setup_rshd(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = setup(schedule, spec, pdl__gather_rotated, false);

    schedule->level[0][1].label = pdl__label_rotated;
    return status;
}
