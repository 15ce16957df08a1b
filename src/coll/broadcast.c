/*
 * Broadcast from a root: binomial tree, pipelined chain, and scatter followed by a ring allgather. Ranks are
 * counted from the root.
 */
#include "coll/internal.h"

#define DEFAULT_SEGMENTS 16

static int from_root(const pdl_schedule_t *schedule, int rank)
{
    return rank >= schedule->root ? rank - schedule->root : rank - schedule->root + schedule->ranks;
}

static int to_rank(const pdl_schedule_t *schedule, int member)
{
    int rank = member + schedule->root;
    return rank >= schedule->ranks ? rank - schedule->ranks : rank;
}

static void emit_binomial(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int peer = pdl__binomial_peer(schedule->ranks, step, from_root(schedule, rank), view);

    pdl__clear(moves);
    if (peer < 0) return;
    pdl__add_move(moves, to_rank(schedule, peer), PDL_MOVE_COPY);
    pdl__add_range(moves, 0, 1);
}

pdl_status_t pdl__setup_binomial(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    schedule->steps = pdl__rounds(schedule->ranks);
    schedule->blocks = 1;
    schedule->emit = emit_binomial;
    return PDL_OK;
}

/* The member at distance p from the root passes segment s on in step p + s. */
static void emit_chain(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int sender = from_root(schedule, rank) - (view == PDL__SENDS ? 0 : 1);
    int segment = step - sender;

    pdl__clear(moves);
    if (sender < 0 || sender == schedule->ranks - 1 || segment < 0 || segment >= schedule->segments) return;
    pdl__add_move(moves, to_rank(schedule, view == PDL__SENDS ? sender + 1 : sender), PDL_MOVE_COPY);
    pdl__add_range(moves, segment, 1);
}

pdl_status_t pdl__setup_chain(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int64_t segments = spec->segments == 0 ? DEFAULT_SEGMENTS : spec->segments;

    if (segments < 1 || segments > PDL__MAX_SEGMENTS) {
        return pdl_error(PDL_ERR_LIMIT, "chain does not take %lld segments; it takes 1 to %d", (long long)segments,
                         PDL__MAX_SEGMENTS);
    }
    schedule->segments = (int)segments;
    schedule->blocks = segments;
    schedule->steps = schedule->ranks == 1 ? 0 : schedule->ranks - 2 + (int)segments;
    schedule->emit = emit_chain;
    return PDL_OK;
}

/* The scatter halves: member p, a multiple of 2^(t+1), hands the blocks from p + 2^t on to member p + 2^t. */
static void emit_scatter(const pdl_schedule_t *schedule, int step, int member, pdl__view_t view, pdl_moves_t *moves)
{
    int stride = 1 << (schedule->scatter_steps - 1 - step);
    int receiver = view == PDL__SENDS ? member + stride : member;
    int end = receiver + stride < schedule->ranks ? receiver + stride : schedule->ranks;

    if ((receiver & (2 * stride - 1)) != stride || receiver >= schedule->ranks) return;
    pdl__add_move(moves, to_rank(schedule, view == PDL__SENDS ? receiver : receiver - stride), PDL_MOVE_COPY);
    pdl__add_range(moves, receiver, end - receiver);
}

static void emit_scatter_allgather(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view,
                                   pdl_moves_t *moves)
{
    int ranks = schedule->ranks, member = from_root(schedule, rank), sender, block;

    pdl__clear(moves);
    if (step < schedule->scatter_steps) {
        emit_scatter(schedule, step, member, view, moves);
        return;
    }
    sender = view == PDL__SENDS ? member : pdl__mod(member - 1, ranks);
    block = pdl__mod(sender - (step - schedule->scatter_steps), ranks);
    pdl__add_move(moves, to_rank(schedule, view == PDL__SENDS ? (member + 1) % ranks : sender), PDL_MOVE_COPY);
    pdl__add_range(moves, block, 1);
}

pdl_status_t pdl__setup_scatter_allgather(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    schedule->scatter_steps = pdl__rounds(schedule->ranks);
    schedule->steps = schedule->scatter_steps + schedule->ranks - 1;
    schedule->blocks = schedule->ranks;
    schedule->emit = emit_scatter_allgather;
    return PDL_OK;
}
