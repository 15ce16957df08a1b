/*
 * Compositions of levels: P = p_0 p_1 ... p_{L-1}, reduce-scatter inside level 0, then 1, ..., allgather in
 * reverse, each level with its own kind of steps.
 *
 * Blocks are numbered so that what a rank owns after the levels 0..l is one run of blocks: the digit of level 0
 * says which of p_0 large segments, the digit of level 1 which part of it, and so on. With S pipeline segments the
 * vector is S such numberings one after another, and the allgather of segment k runs in the steps of the
 * reduce-scatter of segment k+1.
 */
#include "base/integer.h"
#include "coll/internal.h"

static int digit_of(const pdl__level_t *level, int rank)
{
    unsigned int quotient;

    if (level->shift >= 0) {
        quotient = (unsigned int)rank >> level->shift;
    } else {
        quotient = (unsigned int)rank / (unsigned int)level->stride;
    }
    if (level->bits >= 0) return (int)(quotient & (unsigned int)(level->size - 1));
    return (int)(quotient % (unsigned int)level->size);
}

/* Blocks of the vector before those that a member owns, as far as this level tells. */
static int64_t offset_of(const pdl__level_t *level, int member, int host)
{
    int digit = digit_of(level, member);

    return (level->label != NULL ? level->label(level, digit, host) : digit) * level->segment;
}

static const pdl__level_t *levels_of(const pdl_schedule_t *schedule, int rank)
{
    return schedule->level[schedule->two_orders && (rank % schedule->hosts & 2) != 0];
}

/* The rank as the levels count it, and back: a place in a permuted ring, a survivor of the folding, or the rank. */
static int member_of(const pdl_schedule_t *schedule, int rank)
{
    if (schedule->position != NULL) return schedule->position[rank];
    return schedule->fold_ranks ? pdl__fold(schedule->extra, rank) : rank;
}

static int rank_of(const pdl_schedule_t *schedule, int member)
{
    if (schedule->order != NULL) return schedule->order[member];
    return schedule->fold_ranks ? pdl__unfold(schedule->extra, member) : member;
}

/* Writes the blocks of a part as one range, or as two when they wrap round inside a piece of the vector. */
static void add_ranges(const pdl_schedule_t *schedule, const pdl__part_t *part, int64_t base, int64_t segment,
                       pdl_moves_t *moves)
{
    int beyond = part->first + part->count - part->modulus;

    base += part->base * segment;
    if (beyond <= 0 || part->modulus * segment == schedule->blocks) {
        pdl__add_range(moves, base + part->first * segment, part->count * segment);
        return;
    }
    pdl__add_range(moves, base + part->first * segment, (part->count - beyond) * segment);
    pdl__add_range(moves, base, beyond * segment);
}

/* One step of the allgather, or of the reduce-scatter, of one pipeline segment. */
void pdl__levels_phase(const pdl_schedule_t *schedule, bool gather, int step, int segment, int rank,
                       pdl__view_t view, pdl_moves_t *moves)
{
    int                 member = member_of(schedule, rank);
    const pdl__level_t *levels = levels_of(schedule, member), *level;
    int                 at = schedule->level_count - 1, host = member % schedule->hosts;
    int                 back = gather ? step : schedule->gather_steps - 1 - step;
    int64_t             base = segment * (schedule->blocks / schedule->segments);
    int                 digit;
    pdl__part_t         part;

    while (back >= levels[at].steps) back -= levels[at--].steps;
    level = &levels[at];
    for (int l = 0; l < at; l++) base += offset_of(&levels[l], member, host);
    digit = digit_of(level, member);
    if (gather || !level->forward) {
        if (!gather) view = view == PDL__SENDS ? PDL__RECEIVES : PDL__SENDS;
        level->gather(level, back, digit, host, view, &part);
    } else {
        /* A ring that keeps its direction sends in the reduce-scatter the block before the one of the allgather. */
        level->gather(level, level->steps - 1 - back, digit, host, view, &part);
        part.first = part.first == 0 ? level->size - 1 : part.first - 1;
    }
    pdl__add_move(moves, rank_of(schedule, member + (part.peer - digit) * level->stride),
                  gather ? PDL_MOVE_COPY : PDL_MOVE_REDUCE);
    add_ranges(schedule, &part, base, level->segment, moves);
}

int64_t pdl__levels_owned(const pdl_schedule_t *schedule, int rank)
{
    int                 member = member_of(schedule, rank);
    const pdl__level_t *levels = levels_of(schedule, member);
    int64_t             block = 0;

    for (int l = 0; l < schedule->level_count; l++)
        block += offset_of(&levels[l], member, member % schedule->hosts);
    return block;
}

/* The first and the last step of an allreduce whose extra ranks fold. */
static void emit_folding(const pdl_schedule_t *schedule, bool back, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    bool folded = pdl__is_folded(schedule->extra, rank);

    if (rank >= 2 * schedule->extra || folded != ((view == PDL__SENDS) != back)) return;
    pdl__add_move(moves, rank ^ 1, back ? PDL_MOVE_COPY : PDL_MOVE_REDUCE);
    pdl__add_range(moves, 0, schedule->blocks);
}

static void emit_allreduce(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int half = schedule->gather_steps;

    pdl__clear(moves);
    if (schedule->fold_ranks) {
        if (step == 0 || step == schedule->steps - 1) {
            emit_folding(schedule, step > 0, rank, view, moves);
            return;
        }
        if (pdl__is_folded(schedule->extra, rank)) return;
        step--;
    }
    if (schedule->segments == 1) {
        bool gather = step >= half;
        pdl__levels_phase(schedule, gather, gather ? step - half : step, 0, rank, view, moves);
        return;
    }
    if (step >= half) pdl__levels_phase(schedule, true, step % half, step / half - 1, rank, view, moves);
    if (step / half < schedule->segments) {
        pdl__levels_phase(schedule, false, step % half, step / half, rank, view, moves);
    }
}

static void emit_reduce_scatter(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view,
                                pdl_moves_t *moves)
{
    pdl__clear(moves);
    pdl__levels_phase(schedule, false, step, 0, rank, view, moves);
}

static void emit_allgather(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    pdl__clear(moves);
    pdl__levels_phase(schedule, true, step, 0, rank, view, moves);
}

void pdl__level_add(pdl_schedule_t *schedule, int order, int at, pdl__gather_fn_t gather, int size, int stride,
                    int steps)
{
    pdl__level_t *level = &schedule->level[order][at];

    level->gather = gather;
    level->size = size;
    level->stride = stride;
    level->steps = steps;
    level->bits = pdl__is_power_of_two(size) ? pdl__log2(size) : -1;
    level->shift = pdl__is_power_of_two(stride) ? pdl__log2(stride) : -1;
}

/* Called when all levels are there: numbers the blocks and chooses how to emit. */
pdl_status_t pdl__levels_finish(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec, int level_count)
{
    bool allreduce = schedule->collective == PDL_COLL_ALLREDUCE;
    int  members = 1;

    schedule->level_count = level_count;
    schedule->segments = allreduce && spec->segments > 0 ? (int)spec->segments : 1;
    if (schedule->fold_ranks) schedule->segments = 1;
    for (int l = 0; l < level_count; l++) {
        schedule->gather_steps += schedule->level[0][l].steps;
        members *= schedule->level[0][l].size;
    }
    for (int order = 0; order <= (schedule->two_orders ? 1 : 0); order++) {
        int64_t segment = members;
        for (int l = 0; l < level_count; l++) {
            segment /= schedule->level[order][l].size;
            schedule->level[order][l].segment = segment;
        }
    }
    schedule->blocks = (int64_t)members * schedule->segments;
    schedule->steps = schedule->gather_steps;
    if (allreduce) {
        schedule->steps = schedule->gather_steps * (schedule->segments + 1);
        if (schedule->fold_ranks) schedule->steps += 2;
    }
    schedule->emit = allreduce                                         ? emit_allreduce
                     : schedule->collective == PDL_COLL_REDUCE_SCATTER ? emit_reduce_scatter
                                                                       : emit_allgather;
    return PDL_OK;
}

/* The rings of a schedule, as groups of steps; NULL where the answer is not wanted. */
static int find_rings(const pdl_schedule_t *schedule, int first[], int last[], const pdl__level_t *ring[])
{
    bool allreduce = schedule->collective == PDL_COLL_ALLREDUCE;
    int  groups = 0, step = schedule->before;

    if (schedule->segments != 1 || schedule->fold_ranks) return 0;
    for (int k = 0; k < 2 * schedule->level_count; k++) {
        bool                gather = k >= schedule->level_count;
        int                 at = gather ? 2 * schedule->level_count - 1 - k : k;
        const pdl__level_t *level = &schedule->level[0][at];

        if (!allreduce && gather != (schedule->collective == PDL_COLL_ALLGATHER)) continue;
        if (k == schedule->level_count) step += schedule->between;
        if (level->forward && level->steps > 1 && groups < PDL_MAX_PERIODS) {
            if (first != NULL) first[groups] = step;
            if (last != NULL) last[groups] = step + level->steps;
            if (ring != NULL) ring[groups] = level;
            groups++;
        }
        step += level->steps;
    }
    return groups;
}

int pdl__levels_period(const pdl_schedule_t *schedule, int first[], int last[])
{
    return find_rings(schedule, first, last, NULL);
}

/* Sizes of blocks repeat every `apart` blocks (pdl__first_element()). A ring goes on by one segment of blocks in a step
   and begins again behind the last of its own blocks, which must not disturb the pattern. */
int64_t pdl__levels_size_period(const pdl_schedule_t *schedule, int group, int64_t elements)
{
    const pdl__level_t *ring[PDL_MAX_PERIODS];
    int64_t             apart = schedule->blocks / pdl__common_divisor(schedule->blocks, elements);

    if (group < 0 || group >= find_rings(schedule, NULL, NULL, ring)) return 0;
    if (ring[group]->size * ring[group]->segment % apart != 0) return 0;
    return apart / pdl__common_divisor(apart, ring[group]->segment);
}
