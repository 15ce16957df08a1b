/*
 * Pairwise all-to-all: in step k every rank sends one block to the rank k+1 further on.
 */
#include "coll/internal.h"

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int     ranks = schedule->ranks;
    int     peer = pdl__mod(view == PDL__SENDS ? rank + step + 1 - ranks : rank - step - 1, ranks);
    int64_t from = view == PDL__SENDS ? rank : peer, to = view == PDL__SENDS ? peer : rank;

    pdl__clear(moves);
    pdl__add_move(moves, peer, PDL_MOVE_COPY);
    pdl__add_range(moves, from * ranks + to, 1);
}

pdl_status_t pdl__setup_pairwise(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    schedule->steps = schedule->ranks - 1;
    schedule->blocks = (int64_t)schedule->ranks * schedule->ranks;
    schedule->emit = emit;
    return PDL_OK;
}
