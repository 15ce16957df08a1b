/*
 * A dynamic programme over (bytes kept, how far the link is behind the device), both in 64 steps.
 */
#include "oracle/chain/beam.h"

#include "base/memory.h"

#include <stdlib.h>

enum { STEPS = 64, STATES = STEPS * STEPS };

typedef struct state {
    double              compute_s, link_s; /* when the device and the link are done with the blocks so far */
    double              kept;              /* bytes between forward and backward */
    int                 from;              /* state of the block before, in backward order; -1: there is none */
    pdl_memory_policy_t policy;
    bool                reached;
} state_t;

typedef struct beam {
    const pdl_chain_t *chain;
    double             span_s; /* of backlog that is told apart */
    state_t           *state;  /* [blocks][STATES], last block first */
} beam_t;

static int step_of(double share)
{
    int step = (int)(share * STEPS);

    return step < 0 ? 0 : step >= STEPS ? STEPS - 1 : step;
}

/* Backlogs lie in [-span, span]. */
static int place_of(const beam_t *b, const state_t *state)
{
    double backlog = (state->link_s - state->compute_s) / b->span_s;

    return step_of(state->kept / b->chain->memory_bytes) * STEPS + step_of((backlog + 1) / 2);
}

/* One more block, in backward order; false when memory does not suffice. */
static bool extend(const beam_t *b, const state_t *before, int i, pdl_memory_policy_t policy, state_t *after)
{
    const pdl_chain_block_t *block = &b->chain->block[i];
    bool                     swaps = pdl_memory_swaps(policy);
    double                   bytes = pdl_chain_held_bytes(block, policy);

    *after = *before;
    after->policy = policy;
    after->reached = true;
    if (!pdl__chain_allows(b->chain, policy)) return false;
    if (swaps)
        after->link_s += b->chain->latency_s + bytes / b->chain->in_rate;
    else
        after->kept += bytes;
    if (after->kept + block->bytes - (swaps ? 0 : bytes) > b->chain->memory_bytes) return false;
    if (swaps && after->link_s > after->compute_s) after->compute_s = after->link_s;
    after->compute_s += block->backward_s + pdl_chain_repeated_s(block, policy);
    return true;
}

static void advance(const beam_t *b, int i)
{
    int      depth = b->chain->count - 1 - i;
    state_t *now = b->state + (size_t)depth * STATES, *before = now - STATES, start = {.from = -1, .reached = true};

    for (int k = 0; k < (depth > 0 ? STATES : 1); k++) {
        const state_t *from = depth > 0 ? &before[k] : &start;
        if (!from->reached) continue;
        for (int policy = 0; policy < PDL_MEMORY_POLICY_COUNT; policy++) {
            state_t next;
            if (!extend(b, from, i, (pdl_memory_policy_t)policy, &next)) continue;
            next.from = depth > 0 ? k : -1;
            state_t *place = &now[place_of(b, &next)];
            if (!place->reached || next.compute_s < place->compute_s) *place = next;
        }
    }
}

static void trace_back(const beam_t *b, int end, pdl_memory_policy_t *policy)
{
    for (int i = 0, k = end; i < b->chain->count; i++) {
        const state_t *state = &b->state[(size_t)(b->chain->count - 1 - i) * STATES + (size_t)k];
        policy[i] = state->policy;
        k = state->from;
    }
}

/* The fastest end that is left; it counts as not reached from then on. */
static int take_fastest(state_t *ends)
{
    int best = -1;

    for (int k = 0; k < STATES; k++)
        if (ends[k].reached && (best < 0 || ends[k].compute_s < ends[best].compute_s)) best = k;
    if (best >= 0) ends[best].reached = false;
    return best;
}

pdl_status_t pdl__chain_beam(const pdl_chain_t *chain, pdl_memory_policy_t *policies, int *found)
{
    beam_t b = {.chain = chain, .state = calloc((size_t)chain->count * STATES, sizeof(state_t))};

    *found = 0;
    if (b.state == NULL) return pdl__no_memory("while choosing what is kept");
    for (int i = 0; i < chain->count; i++) b.span_s += chain->block[i].forward_s + chain->block[i].backward_s;
    if (!(b.span_s > 0)) b.span_s = 1;
    for (int i = chain->count - 1; i >= 0; i--) advance(&b, i);
    for (int end; *found < PDL__BEAM_RESULTS; (*found)++) {
        end = take_fastest(b.state + (size_t)(chain->count - 1) * STATES);
        if (end < 0) break;
        trace_back(&b, end, policies + (size_t)*found * (size_t)chain->count);
    }
    free(b.state);
    return PDL_OK;
}
