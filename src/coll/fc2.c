/*
 * Bandwidth-optimal all-to-all on a two-dimensional fully connected network of rows x columns nodes, rank
 * row*columns + column. Every block has two halves, blocks 2(sP + d) and 2(sP + d) + 1: where source and
 * destination differ in both coordinates the first half goes along the row and then the column, the second half the
 * other way. In two steps every link of a square network carries the same load, and no schedule can do with less.
 */
#include "coll/internal.h"

static int64_t half_of(const pdl_schedule_t *schedule, int source, int destination, int half)
{
    return 2 * ((int64_t)source * schedule->ranks + destination) + half;
}

/* Step 0 from `from` to `to`: the block for `to`, and a half of each block that turns the corner there. */
static void add_first(const pdl_schedule_t *schedule, int from, int to, bool along_row, pdl_moves_t *moves)
{
    int columns = schedule->columns, turns = along_row ? schedule->rows : columns;

    pdl__add_range(moves, half_of(schedule, from, to, 0), 2);
    for (int k = 0; k < turns; k++) {
        int destination = along_row ? k * columns + to % columns : to / columns * columns + k;
        if (destination == to) continue;
        pdl__add_range(moves, half_of(schedule, from, destination, along_row ? 0 : 1), 1);
    }
}

/* Step 1 from `from` to `to`: the halves for `to` that others brought to `from` in the other dimension. */
static void add_second(const pdl_schedule_t *schedule, int from, int to, bool along_row, pdl_moves_t *moves)
{
    int columns = schedule->columns, turns = along_row ? schedule->rows : columns;

    for (int k = 0; k < turns; k++) {
        int source = along_row ? k * columns + from % columns : from / columns * columns + k;
        if (source == from) continue;
        pdl__add_range(moves, half_of(schedule, source, to, along_row ? 1 : 0), 1);
    }
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int columns = schedule->columns, row = rank / columns, column = rank % columns;

    pdl__clear(moves);
    for (int k = 0; k < columns + schedule->rows; k++) {
        bool along_row = k < columns;
        int  peer = along_row ? row * columns + k : (k - columns) * columns + column;
        int  from = view == PDL__SENDS ? rank : peer, to = view == PDL__SENDS ? peer : rank;

        if (peer == rank) continue;
        pdl__add_move(moves, peer, PDL_MOVE_COPY);
        if (step == 0) {
            add_first(schedule, from, to, along_row, moves);
        } else {
            add_second(schedule, from, to, along_row, moves);
        }
        pdl__drop_if_empty(moves);
    }
}

pdl_status_t pdl__setup_fc2(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int64_t rows = spec->rows, columns = spec->columns;

    if (rows < 1 || columns < 1 || rows > schedule->ranks || columns > schedule->ranks ||
        rows * columns != schedule->ranks) {
        return pdl__unsupported(schedule, "rows x columns; give both");
    }
    if (rows + columns > PDL_MAX_MOVES || 2 * rows * columns > PDL_MAX_RANGES) {
        return pdl__unsupported(schedule, "up to 2048, with rows and columns at most 512 together");
    }
    schedule->rows = (int)rows;
    schedule->columns = (int)columns;
    schedule->steps = rows > 1 && columns > 1 ? 2 : schedule->ranks > 1 ? 1 : 0;
    schedule->blocks = 2 * (int64_t)schedule->ranks * schedule->ranks;
    schedule->multiport = true;
    schedule->emit = emit;
    return PDL_OK;
}
