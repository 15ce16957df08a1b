/*
 * Recursive doubling and its generalisation to radix k: whole vectors are exchanged inside groups of k members
 * whose numbers differ in one digit. Any number of members: the largest k^q f, f < k, take part, the others fold.
 */
#include "coll/internal.h"

#define DEFAULT_RADIX 4
#define MAX_RADIX     256

void pdl__doubling_setup(pdl_schedule_t *schedule, int members, int radix)
{
    int power = 1, rounds = 0;

    while (power <= members / radix) {
        power *= radix;
        rounds++;
    }
    schedule->radix = radix;
    schedule->survivors = power * (members / power);
    schedule->extra = members - schedule->survivors;
    schedule->rounds = rounds + (schedule->survivors > power ? 1 : 0);
}

int pdl__doubling_steps(const pdl_schedule_t *schedule)
{
    return schedule->rounds + (schedule->extra > 0 ? 2 : 0);
}

void pdl__doubling_emit(const pdl_schedule_t *schedule, int step, int member, int stride, int offset,
                        pdl_block_span_t range, pdl__view_t view, pdl_moves_t *moves)
{
    int extra = schedule->extra, survivor, power = 1, size, digit;

    if (extra > 0 && (step == 0 || step == schedule->rounds + 1)) {
        bool back = step > 0;
        if (member >= 2 * extra || pdl__is_folded(extra, member) != ((view == PDL__SENDS) != back)) return;
        pdl__add_move(moves, (member ^ 1) * stride + offset, back ? PDL_MOVE_COPY : PDL_MOVE_REDUCE);
        pdl__add_range(moves, range.first, range.count);
        return;
    }
    if (pdl__is_folded(extra, member)) return;
    if (extra > 0) step--;
    survivor = pdl__fold(extra, member);
    for (int t = 0; t < step; t++) power *= schedule->radix;
    size = schedule->survivors / power < schedule->radix ? schedule->survivors / power : schedule->radix;
    digit = survivor / power % size;
    for (int k = 1; k < size; k++) {
        int peer = survivor + ((digit + k) % size - digit) * power;
        pdl__add_move(moves, pdl__unfold(extra, peer) * stride + offset, PDL_MOVE_REDUCE);
        pdl__add_range(moves, range.first, range.count);
    }
}

static void emit(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    pdl_block_span_t all = {0, 1};

    pdl__clear(moves);
    pdl__doubling_emit(schedule, step, rank, 1, 0, all, view, moves);
}

static pdl_status_t setup(pdl_schedule_t *schedule, int radix)
{
    pdl__doubling_setup(schedule, schedule->ranks, radix);
    schedule->steps = pdl__doubling_steps(schedule);
    schedule->blocks = 1;
    schedule->emit = emit;
    return PDL_OK;
}

pdl_status_t pdl__setup_rdb(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    (void)spec;
    return setup(schedule, 2);
}

pdl_status_t pdl__setup_recmul(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    int64_t radix = spec->radix == 0 ? DEFAULT_RADIX : spec->radix;

    if (radix < 2 || radix > MAX_RADIX) {
        return pdl_error(PDL_ERR_LIMIT, "recmul does not take radix %lld; it takes 2 to %d", (long long)radix,
                         MAX_RADIX);
    }
    return setup(schedule, (int)radix);
}
