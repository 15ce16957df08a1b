/*
 * The search for policies: single rules, improved by changing one block or exchanging two, each plan judged by the
 * simulator. Long chains begin with a beam too (beam.c).
 */
#include "oracle/chain/beam.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Above this many blocks pairs are exchanged only near each other, and the beam gives more to begin with. */
enum { LONG_CHAIN = 80, NEAR = 6, STARTS = 4 };

typedef struct search {
    const pdl_chain_t   *chain;
    double              *out_end; /* of the simulator */
    pdl_memory_policy_t *now, *best;
    pdl_chain_result_t   found; /* of `best`; peak_bytes 0: nothing fits so far */
    double               computing_s;
} search_t;

static bool is_long(const search_t *s)
{
    return s->chain->count > LONG_CHAIN;
}

/* No plan is faster than all that the device computes. */
static double computing(const search_t *s, const pdl_memory_policy_t *policy)
{
    double seconds = s->computing_s;

    for (int i = 0; i < s->chain->count; i++) seconds += pdl_chain_repeated_s(&s->chain->block[i], policy[i]);
    return seconds;
}

/* Seconds of a step, or `limit` when it is not below that. */
static double judge(const search_t *s, const pdl_memory_policy_t *policy, double limit, pdl_chain_result_t *result)
{
    if (computing(s, policy) >= limit) return limit;
    if (pdl__chain_run(s->chain, policy, s->out_end, NULL, result) >= 0) return limit;
    return result->step_s < limit ? result->step_s : limit;
}

/* Less than rounding is no gain. */
static double limit_of(double step_s)
{
    return step_s * (1 - 1e-9);
}

typedef struct move {
    int                 a, b; /* b below 0: only a changes */
    pdl_memory_policy_t to;
} move_t;

static void apply(pdl_memory_policy_t *policy, const move_t *move, pdl_memory_policy_t undo[2])
{
    undo[0] = policy[move->a];
    policy[move->a] = move->to;
    if (move->b >= 0) {
        undo[1] = policy[move->b];
        policy[move->b] = undo[0];
    }
}

static void revert(pdl_memory_policy_t *policy, const move_t *move, const pdl_memory_policy_t undo[2])
{
    policy[move->a] = undo[0];
    if (move->b >= 0) policy[move->b] = undo[1];
}

/* What a round of moves has found: the best one, which is made afterwards; in long chains every gain is made at once. */
typedef struct round {
    pdl_chain_result_t best;
    move_t             chosen;
    bool               gained;
} round_t;

static void try_move(search_t *s, move_t move, round_t *round)
{
    pdl_memory_policy_t undo[2];
    pdl_chain_result_t  result;
    double              limit = limit_of(round->best.step_s);

    apply(s->now, &move, undo);
    bool gains = judge(s, s->now, limit, &result) < limit;
    if (gains) {
        round->best = result;
        round->chosen = move;
        round->gained = true;
    }
    if (!gains || !is_long(s)) revert(s->now, &move, undo);
}

bool pdl__chain_allows(const pdl_chain_t *chain, pdl_memory_policy_t policy)
{
    bool cheap = false;

    for (int i = 0; i < chain->count && pdl_memory_recomputes_cheap(policy); i++)
        cheap |= chain->block[i].cheap_bytes > 0;
    return (cheap || !pdl_memory_recomputes_cheap(policy)) &&
           (!pdl_memory_swaps(policy) || (chain->out_rate > 0 && chain->in_rate > 0));
}

static void try_changes(search_t *s, round_t *round)
{
    for (int i = 0; i < s->chain->count; i++)
        for (int to = 0; to < PDL_MEMORY_POLICY_COUNT; to++)
            if ((int)s->now[i] != to && pdl__chain_allows(s->chain, (pdl_memory_policy_t)to))
                try_move(s, (move_t){i, -1, (pdl_memory_policy_t)to}, round);
}

static void try_exchanges(search_t *s, round_t *round)
{
    int n = s->chain->count, far = is_long(s) ? NEAR : n;

    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n && j <= i + far; j++)
            if (s->now[i] != s->now[j]) try_move(s, (move_t){i, j, s->now[j]}, round);
}

/* From s->now downhill; the end is kept if it is the best of all. */
static void descend(search_t *s)
{
    round_t round;

    if (pdl__chain_run(s->chain, s->now, s->out_end, NULL, &round.best) >= 0) return;
    do {
        pdl_memory_policy_t undo[2];

        round.gained = false;
        try_changes(s, &round);
        if (!round.gained) try_exchanges(s, &round);
        if (round.gained && !is_long(s)) apply(s->now, &round.chosen, undo);
    } while (round.gained);
    if (s->found.peak_bytes > 0 && round.best.step_s >= limit_of(s->found.step_s)) return;
    s->found = round.best;
    memcpy(s->best, s->now, (size_t)s->chain->count * sizeof(*s->best));
}

/* A plan to begin with: the first blocks alike, and the others alike. */
typedef struct start {
    int                 count;
    pdl_memory_policy_t first, others;
    double              step_s;
} start_t;

static void set_blocks(search_t *s, const start_t *start)
{
    for (int i = 0; i < s->chain->count; i++) s->now[i] = i < start->count ? start->first : start->others;
}

/* The best number of first blocks, if any fits. */
static bool best_start(search_t *s, start_t *start)
{
    start_t best = {.count = -1};

    for (start->count = 0; start->count <= s->chain->count; start->count++) {
        pdl_chain_result_t result;
        set_blocks(s, start);
        if (pdl__chain_run(s->chain, s->now, s->out_end, NULL, &result) >= 0) continue;
        start->step_s = result.step_s;
        if (best.count < 0 || start->step_s < best.step_s) best = *start;
    }
    *start = best;
    return best.count >= 0;
}

static int by_seconds(const void *a, const void *b)
{
    const start_t *x = a, *y = b;

    return x->step_s < y->step_s ? -1 : x->step_s > y->step_s;
}

/* Every policy for the first blocks, the others kept or, where that is cheap, partly computed again. Downhill from the best of
   these, and from all blocks alike, which lead elsewhere. */
static void search_rules(search_t *s)
{
    static const pdl_memory_policy_t others[] = {PDL_MEMORY_KEEP, PDL_MEMORY_RECOMPUTE_CHEAP};
    start_t                          start[2 * PDL_MEMORY_POLICY_COUNT];
    int                              count = 0;

    for (size_t k = 0; k < sizeof(others) / sizeof(*others); k++)
        for (int policy = 1; policy < PDL_MEMORY_POLICY_COUNT; policy++) {
            start[count] = (start_t){.first = (pdl_memory_policy_t)policy, .others = others[k]};
            if (start[count].first != others[k] && pdl__chain_allows(s->chain, start[count].first) &&
                pdl__chain_allows(s->chain, others[k]) && best_start(s, &start[count]))
                count++;
        }
    qsort(start, (size_t)count, sizeof(*start), by_seconds);
    for (int k = 0; k < count && k < STARTS; k++) {
        set_blocks(s, &start[k]);
        descend(s);
    }
    for (int policy = 1; policy < PDL_MEMORY_RECOMPUTE_CHEAP; policy++) {
        if (!pdl__chain_allows(s->chain, (pdl_memory_policy_t)policy)) continue;
        set_blocks(s, &(start_t){.count = s->chain->count, .first = (pdl_memory_policy_t)policy});
        descend(s);
    }
}

static pdl_status_t check(const pdl_chain_t *chain)
{
    bool sensible = chain->count > 0 && chain->latency_s >= 0;

    if (!sensible) return pdl_error(PDL_ERR_INPUT, "a chain needs at least one block");
    if (!(chain->out_rate >= 0) || !(chain->in_rate >= 0))
        return pdl_error(PDL_ERR_INPUT, "the link between device and host cannot have a negative rate");
    for (int i = 0; i < chain->count; i++) {
        const pdl_chain_block_t *block = &chain->block[i];
        if (!(block->forward_s >= 0 && block->backward_s >= 0 && block->boundary_bytes >= 0 &&
              block->bytes >= block->boundary_bytes && block->cheap_bytes >= 0 &&
              block->bytes >= block->cheap_bytes && block->cheap_s >= 0))
            return pdl_error(PDL_ERR_INPUT,
                             "block %d of the chain: times must not be negative, nor the boundary larger than all",
                             i + 1);
    }
    return PDL_OK;
}

pdl_status_t pdl_chain_simulate(const pdl_chain_t *chain, const pdl_memory_policy_t *policy,
                                pdl_chain_result_t *result, const pdl_chain_detail_t *detail)
{
    pdl_status_t status = check(chain);

    if (status) return status;
    double *out_end = malloc((size_t)chain->count * sizeof(*out_end));
    if (out_end == NULL) return pdl__no_memory("while simulating a step");
    int stuck = pdl__chain_run(chain, policy, out_end, detail, result);
    free(out_end);
    if (stuck < 0) return PDL_OK;
    return pdl_error(PDL_ERR_UNSUPPORTED, "block %d of %d does not fit in %.0f bytes with these policies",
                     stuck + 1, chain->count, chain->memory_bytes);
}

double pdl_chain_least_bytes(const pdl_chain_t *chain)
{
    double most = 0;

    for (int i = 0; i < chain->count; i++)
        if (chain->block[i].bytes > most) most = chain->block[i].bytes;
    return most;
}

/* From every end of the beam. */
static pdl_status_t search_beam(search_t *s)
{
    size_t               count = (size_t)s->chain->count;
    pdl_memory_policy_t *ends = malloc(PDL__BEAM_RESULTS * count * sizeof(*ends));
    int                  found = 0;
    pdl_status_t         status =
        ends != NULL ? pdl__chain_beam(s->chain, ends, &found) : pdl__no_memory("while choosing what is kept");

    for (int k = 0; k < found; k++) {
        memcpy(s->now, ends + (size_t)k * count, count * sizeof(*s->now));
        descend(s);
    }
    free(ends);
    return status;
}

pdl_status_t pdl_chain_solve(const pdl_chain_t *chain, pdl_memory_policy_t *policy, pdl_chain_result_t *result)
{
    search_t     s = {.chain = chain, .best = policy};
    pdl_status_t status = check(chain);

    if (status) return status;
    s.out_end = malloc((size_t)chain->count * sizeof(*s.out_end));
    s.now = malloc((size_t)chain->count * sizeof(*s.now));
    if (s.out_end == NULL || s.now == NULL) {
        status = pdl__no_memory("while choosing what is kept");
    } else {
        for (int i = 0; i < chain->count; i++)
            s.computing_s += chain->block[i].forward_s + chain->block[i].backward_s;
        search_rules(&s);
        if (is_long(&s)) status = search_beam(&s);
    }
    free(s.out_end);
    free(s.now);
    if (status) return status;
    if (s.found.peak_bytes > 0) {
        *result = s.found;
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_UNSUPPORTED, "no policy fits in %.0f bytes: the least is %.0f", chain->memory_bytes,
                     pdl_chain_least_bytes(chain));
}
