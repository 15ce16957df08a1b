/*
 * Hierarchical allreduce over n nodes of g ranks, rank i*g + c. Multi-leader forms: every rank leads one segment,
 * ring inside the node, then ring, halving-doubling or recursive doubling between the ranks of equal c. Single
 * leader: the vector is reduced to rank 0 of every node, a ring joins the leaders, and the result is broadcast.
 *
 * "levels:ring/4,hd_far/8" composes any nesting, innermost level first.
 */
#include "coll/internal.h"

#include <stdlib.h>
#include <string.h>

pdl_status_t pdl__setup_ring_ring(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    pdl__level_add_ring(schedule, 0, schedule->hosts, 1);
    pdl__level_add_ring(schedule, 1, schedule->ranks / schedule->hosts, schedule->hosts);
    return pdl__levels_finish(schedule, spec, 2);
}

/* Where the nodes are not a power of two the circulant algorithm takes the place of halving-doubling: the same
   number of rounds (rounded up) and no folding. */
pdl_status_t pdl__setup_ring_rab(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_status_t status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    pdl__level_add_ring(schedule, 0, schedule->hosts, 1);
    pdl__level_add_halving(schedule, 0, 1, schedule->ranks / schedule->hosts, schedule->hosts);
    return pdl__levels_finish(schedule, spec, 2);
}

static void emit_ring_rdb(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int              ring = schedule->gather_steps, middle = schedule->between;
    int              hosts = schedule->hosts;
    pdl_block_span_t own = {rank % hosts, 1};

    pdl__clear(moves);
    if (step < ring) {
        pdl__levels_phase(schedule, false, step, 0, rank, view, moves);
    } else if (step < ring + middle) {
        pdl__doubling_emit(schedule, step - ring, rank / hosts, hosts, rank % hosts, own, view, moves);
    } else {
        pdl__levels_phase(schedule, true, step - ring - middle, 0, rank, view, moves);
    }
}

pdl_status_t pdl__setup_ring_rdb(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_schedule_spec_t whole = *spec;
    pdl_status_t        status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    whole.segments = 1;
    pdl__level_add_ring(schedule, 0, schedule->hosts, 1);
    status = pdl__levels_finish(schedule, &whole, 1);
    pdl__doubling_setup(schedule, schedule->ranks / schedule->hosts, 2);
    schedule->between = pdl__doubling_steps(schedule);
    schedule->steps += schedule->between;
    schedule->emit = emit_ring_rdb;
    return status;
}

static void emit_leader(const pdl_schedule_t *schedule, int step, int rank, pdl__view_t view, pdl_moves_t *moves)
{
    int  hosts = schedule->hosts, rounds = schedule->before, ring = schedule->gather_steps, peer;
    bool reduce = step < rounds;

    pdl__clear(moves);
    if (!reduce && step < rounds + 2 * ring) {
        bool gather = step >= rounds + ring;
        if (rank % hosts != 0) return;
        pdl__levels_phase(schedule, gather, step - rounds - (gather ? ring : 0), 0, rank, view, moves);
        return;
    }
    if (reduce) {
        peer = pdl__binomial_peer(hosts, rounds - 1 - step, rank % hosts,
                                  view == PDL__SENDS ? PDL__RECEIVES : PDL__SENDS);
    } else {
        peer = pdl__binomial_peer(hosts, step - rounds - 2 * ring, rank % hosts, view);
    }
    if (peer < 0) return;
    pdl__add_move(moves, rank - rank % hosts + peer, reduce ? PDL_MOVE_REDUCE : PDL_MOVE_COPY);
    pdl__add_range(moves, 0, schedule->blocks);
}

pdl_status_t pdl__setup_leader(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    pdl_schedule_spec_t whole = *spec;
    pdl_status_t        status = pdl__hosts(schedule, spec);

    if (status != PDL_OK) return status;
    whole.segments = 1;
    pdl__level_add_ring(schedule, 0, schedule->ranks / schedule->hosts, schedule->hosts);
    status = pdl__levels_finish(schedule, &whole, 1);
    schedule->before = pdl__rounds(schedule->hosts);
    schedule->steps += 2 * schedule->before;
    schedule->emit = emit_leader;
    return status;
}

/* Adds the level that `text` names, "ring/4"; its end is written to *end. */
static pdl_status_t parse_level(pdl_schedule_t *schedule, const char *text, int at, int64_t *stride,
                                const char **end)
{
    static const char *const names[] = {"ring", "hd_far", "hd_near", "circulant", "swing"};
    size_t                   length = strcspn(text, "/,");
    int                      kind = 0;
    long                     size;
    char                    *rest;

    while (kind < 5 && (strlen(names[kind]) != length || strncmp(text, names[kind], length) != 0)) kind++;
    if (kind == 5 || text[length] != '/') {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: level %d should read KIND/RANKS, for example ring/4; the kinds are ring, "
                         "hd_far, hd_near, circulant and swing",
                         schedule->name, at + 1);
    }
    size = strtol(text + length + 1, &rest, 10);
    if (size < 1 || size > schedule->ranks / *stride || (*rest != ',' && *rest != '\0')) {
        return pdl_error(PDL_ERR_INPUT,
                         "%s: the ranks of level %d are not a number whose product with the levels "
                         "before is at most %d",
                         schedule->name, at + 1, schedule->ranks);
    }
    if ((kind == 1 || kind == 2 || kind == 4) && !pdl__is_power_of_two(size)) {
        return pdl__unsupported(schedule, "powers of two in the levels hd_far, hd_near and swing");
    }
    if (kind == 0) {
        pdl__level_add_ring(schedule, at, (int)size, (int)*stride);
    } else if (kind == 3) {
        pdl__level_add_circulant(schedule, at, (int)size, (int)*stride);
    } else {
        pdl__level_add(schedule, 0, at,
                       kind == 1   ? pdl__gather_far
                       : kind == 2 ? pdl__gather_near
                                   : pdl__gather_swing,
                       (int)size, (int)*stride, pdl__log2(size));
        if (kind == 2) schedule->level[0][at].label = pdl__label_near;
    }
    *stride *= size;
    *end = rest;
    return PDL_OK;
}

pdl_status_t pdl__setup_levels(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    const char *text = strchr(spec->algorithm, ':');
    int64_t     stride = 1;
    int         count = 0;

    while (text != NULL && *text != '\0') {
        pdl_status_t status;
        if (count == PDL__MAX_LEVELS) {
            return pdl_error(PDL_ERR_LIMIT, "%s has more than %d levels", schedule->name, PDL__MAX_LEVELS);
        }
        status = parse_level(schedule, text + 1, count++, &stride, &text);
        if (status != PDL_OK) return status;
    }
    if (stride != schedule->ranks) {
        return pdl_error(PDL_ERR_INPUT, "%s: the levels give %lld ranks, not %d", schedule->name, (long long)stride,
                         schedule->ranks);
    }
    return pdl__levels_finish(schedule, spec, count);
}
