/*
 * Two rings in opposite directions, with half of the vector each: both directions of every cable of a ring or torus carry
 * data at once, which halves the time of one ring there.
 *
 * Blocks 0 .. P-1 go up the ranks, blocks P .. 2P-1 down. Rank i owns blocks i and P + i after the reduce-scatter.
 */
#include "coll/internal.h"

/* The block of one direction that rank `index` sends in a step; `way` is 1 upwards and -1 downwards. */
static int block_sent(const pdl_schedule_t *schedule, int step, int index, int way)
{
    int half = schedule->ranks - 1, ranks = schedule->ranks;
    int block = step < half ? index - way * (step + 1) : index - way * (step - half);

    return pdl__mod(block, ranks) + (way < 0 ? ranks : 0);
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    pdl_move_op_t op = step < schedule->ranks - 1 ? PDL_MOVE_REDUCE : PDL_MOVE_COPY;
    int           last = -1;

    pdl__clear(moves);
    for (int way = 1; way >= -1; way -= 2) {
        int sends = view == PDL__SENDS, peer = pdl__mod(rank + (sends ? way : -way), schedule->ranks);
        int sender = sends ? rank : peer;
        if (peer != last) pdl__add_move(moves, peer, op); /* of two ranks each is the other's neighbour twice */
        pdl__add_range(moves, block_sent(schedule, step, sender, way), 1);
        last = peer;
    }
}

pdl_status_t pdl__setup_double_ring(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    schedule->steps = 2 * (schedule->ranks - 1);
    schedule->blocks = 2 * (int64_t)schedule->ranks;
    schedule->multiport = true;
    schedule->emit = emit;
    return PDL_OK;
}
