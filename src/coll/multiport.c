/*
 * All ports of a torus or hypercube at once: the vector is cut into as many parts as a node has ports, and every part goes through the
 * dimensions in an order of its own, beginning with another one, so that in each step every cable carries data both ways.
 *
 * A torus of D dimensions with k nodes each has 2 D parts: of two parts that begin with the same dimension one goes up, the other down. Inside a
 * dimension a part is reduced and scattered by a ring of k - 1 steps, and later gathered by one. With k = 2, the hypercube, up and
 * down are one cable, and there are D parts. Blocks of a part are numbered by the coordinates of their owner, those of the
 * dimension that comes first being the highest digit: then what a step moves is one range.
 */
#include "coll/internal.h"

#include <paradl/base/units.h>

#include <string.h>

static int power(int base, int exponent)
{
    int result = 1;

    while (exponent-- > 0) result *= base;
    return result;
}

/* Coordinate of a rank in a dimension. */
static int digit(const pdl_schedule_t *schedule, int rank, int dimension)
{
    return rank / power(schedule->degree, dimension) % schedule->degree;
}

/* The range of blocks that `rank` sends of a part, in ring step `step` of its phase-th dimension. */
static int64_t first_block(const pdl_schedule_t *schedule, int part, int phase, int block_digit, int rank)
{
    int     side = schedule->degree, dimensions = schedule->diameter, begin = part % dimensions;
    int64_t first = 0;

    for (int f = 0; f < phase; f++) first = first * side + digit(schedule, rank, (begin + f) % dimensions);
    first = first * side + block_digit;
    return part * (int64_t)schedule->ranks + first * power(side, dimensions - 1 - phase);
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int  side = schedule->degree, dimensions = schedule->diameter, half = schedule->steps / 2;
    bool gather = step >= half;
    int  within = gather ? step - half : step, phase = within / (side - 1), turn = within % (side - 1);
    int  parts = (int)(schedule->blocks / schedule->ranks);

    if (gather) phase = dimensions - 1 - phase;
    pdl__clear(moves);
    for (int part = 0; part < parts; part++) {
        int dimension = (part % dimensions + phase) % dimensions, way = part < dimensions ? 1 : -1;
        int mine = digit(schedule, rank, dimension), stride = power(side, dimension);
        int other = pdl__mod(mine + (view == PDL__SENDS ? way : -way), side);
        int sender = view == PDL__SENDS ? mine : other;

        pdl__add_move(moves, rank + (other - mine) * stride, gather ? PDL_MOVE_COPY : PDL_MOVE_REDUCE);
        pdl__add_range(moves,
                       first_block(schedule, part, phase, pdl__mod(sender - way * (gather ? turn : turn + 1), side),
                                   rank),
                       power(side, dimensions - 1 - phase));
    }
}

/* Dimensions of a torus of this side with so many nodes; 0: there is none. */
static int dimensions_of(int64_t ranks, int64_t side)
{
    int dimensions = 0;

    while (ranks % side == 0 && ranks > 1) {
        ranks /= side;
        dimensions++;
    }
    return ranks == 1 ? dimensions : 0;
}

pdl_status_t pdl__setup_multiport(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    const char *shape = strchr(schedule->name, ':');
    int64_t     side = spec->rows;

    if (shape != NULL && pdl_parse_int(shape + 1, 2, INT32_MAX, &side))
        return pdl_error(PDL_ERR_INPUT, "%s: expected multiport:K with K nodes on a side of the torus, from 2 on",
                         schedule->name);
    if (side == 0)
        for (side = 2; side < schedule->ranks && dimensions_of(schedule->ranks, side) == 0;) side++;
    if (side < 2 || (schedule->ranks > 1 && dimensions_of(schedule->ranks, side) == 0))
        return pdl__unsupported(schedule, "k to the power of D, on a torus of D dimensions with k nodes each");
    schedule->degree = (int)side;
    schedule->diameter = dimensions_of(schedule->ranks, side);
    schedule->steps = 2 * schedule->diameter * (schedule->degree - 1);
    schedule->blocks =
        (int64_t)schedule->ranks * (schedule->diameter > 0 ? schedule->diameter : 1) * (side > 2 ? 2 : 1);
    schedule->multiport = true;
    schedule->emit = emit;
    return PDL_OK;
}
