/*
 * Bruck's algorithms, ceil(log2 P) steps for any P. Allgather: step k passes on the first 2^k blocks held (fewer in
 * the last step). All-to-all: a block for the rank delta further on moves by 2^k in step k when bit k of delta is
 * set.
 */
#include "coll/internal.h"

void pdl__gather_bruck(const pdl__level_t *level, int step, int index, int host, pdl__view_t view,
                       pdl__part_t *part)
{
    int size = level->size, stride = 1 << step;

    (void)host;
    part->peer = pdl__mod(view == PDL__SENDS ? index - stride : index + stride, size);
    part->base = 0;
    part->first = view == PDL__SENDS ? index : part->peer;
    part->count = stride < size - stride ? stride : size - stride;
    part->modulus = size;
}

pdl_status_t pdl__setup_bruck_allgather(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl__level_add(schedule, 0, 0, pdl__gather_bruck, schedule->ranks, 1, pdl__rounds(schedule->ranks));
    return pdl__levels_finish(schedule, spec, 1);
}

static void emit_alltoall(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int ranks = schedule->ranks, stride = 1 << step;
    int from = view == PDL__SENDS ? rank : pdl__mod(rank - stride, ranks);

    pdl__clear(moves);
    pdl__add_move(moves, view == PDL__SENDS ? (rank + stride) % ranks : from, PDL_MOVE_COPY);
    for (int delta = stride; delta < ranks; delta++) {
        int source;
        if ((delta & stride) == 0) continue;
        source = pdl__mod(from - (delta & (stride - 1)), ranks);
        pdl__add_range(moves, (int64_t)source * ranks + (source + delta) % ranks, 1);
    }
}

pdl_status_t pdl__setup_bruck_alltoall(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    if (schedule->ranks > PDL_MAX_RANGES) return pdl__unsupported(schedule, "up to 4096; pairwise takes more");
    schedule->steps = pdl__rounds(schedule->ranks);
    schedule->blocks = (int64_t)schedule->ranks * schedule->ranks;
    schedule->emit = emit_alltoall;
    return PDL_OK;
}
