/*
 * The events of one step. Resources are the device, which computes, a link to the host and one back, and memory.
 */
#include "oracle/chain/simulate.h"

#include <math.h>

enum { NOTHING = -1 };

static const pdl_chain_block_t *block_of(const pdl__chain_run_t *run, int i)
{
    return &run->chain->block[i];
}

double pdl_chain_held_bytes(const pdl_chain_block_t *block, pdl_memory_policy_t policy)
{
    bool cheap = pdl_memory_recomputes_cheap(policy) && block->cheap_bytes > 0;

    return pdl_memory_recomputes(policy) ? block->boundary_bytes : cheap ? block->cheap_bytes : block->bytes;
}

double pdl_chain_repeated_s(const pdl_chain_block_t *block, pdl_memory_policy_t policy)
{
    return pdl_memory_recomputes(policy)         ? block->forward_s
           : pdl_memory_recomputes_cheap(policy) ? block->cheap_s
                                                 : 0;
}

/* Bytes of a block that are copied out and in. */
static double copied(const pdl__chain_run_t *run, int i)
{
    return pdl_memory_swaps(run->policy[i]) ? pdl_chain_held_bytes(block_of(run, i), run->policy[i]) : 0;
}

/* What recomputing a block takes besides what was held of it. */
static double inner(const pdl__chain_run_t *run, int i)
{
    return block_of(run, i)->bytes - pdl_chain_held_bytes(block_of(run, i), run->policy[i]);
}

/* Rounding of sums must not make a plan impossible that fits exactly. */
static bool fits(const pdl__chain_run_t *run, double bytes)
{
    return run->used + bytes <= run->chain->memory_bytes * (1 + 1e-12);
}

static void take(pdl__chain_run_t *run, double bytes)
{
    run->used += bytes;
    if (run->used > run->result.peak_bytes) run->result.peak_bytes = run->used;
}

/* The block whose copy out is complete next, from `from` on; the number of blocks when there is none. */
static int next_out(const pdl__chain_run_t *run, int from)
{
    while (from < run->chain->count && !pdl_memory_swaps(run->policy[from])) from++;
    return from;
}

/* Releases the memory of copies out that are complete, up to block `last`; the block that starts next is the
   `starting`-th of those computed, backward behind forward. */
static void release_out(pdl__chain_run_t *run, int last, int starting)
{
    while (run->leaving <= last && run->out_end[run->leaving] <= run->now) {
        int *after = run->detail != NULL ? run->detail->release_after : NULL;
        if (after != NULL) after[run->leaving] = starting > run->leaving ? starting - run->leaving : 1;
        run->used -= copied(run, run->leaving);
        run->leaving = next_out(run, run->leaving + 1);
    }
}

static void copy_out(pdl__chain_run_t *run, int i)
{
    double seconds = run->chain->latency_s + copied(run, i) / run->chain->out_rate;
    double start = run->now > run->out_free ? run->now : run->out_free;

    run->out_free = run->out_end[i] = start + seconds;
    run->result.out_s += seconds;
}

static void note_stall(pdl__chain_run_t *run, int i, double seconds)
{
    run->result.stall_s += seconds;
    if (run->detail != NULL && run->detail->stall_s != NULL) run->detail->stall_s[i] += seconds;
}

/* False when block i never fits. */
static bool forward(pdl__chain_run_t *run, int i)
{
    const pdl_chain_block_t *block = block_of(run, i);
    double                   wanted_at = run->now;

    release_out(run, i - 1, i);
    while (!fits(run, block->bytes)) {
        if (run->leaving >= i) return false;
        run->now = run->out_end[run->leaving];
        release_out(run, i - 1, i);
    }
    note_stall(run, i, run->now - wanted_at);
    take(run, block->bytes);
    run->now += block->forward_s;
    run->used -= inner(run, i);
    if (pdl_memory_swaps(run->policy[i])) copy_out(run, i);
    return true;
}

/* The next block in backward order whose activations are to be copied in. */
static int next_in(const pdl__chain_run_t *run, int from)
{
    while (from >= 0 && !pdl_memory_swaps(run->policy[from])) from--;
    return from;
}

static bool starts(pdl__chain_run_t *run, int i)
{
    if (pdl_memory_swaps(run->policy[i]) && run->coming >= i) return false;
    return inner(run, i) <= 0 || fits(run, inner(run, i));
}

static void start(pdl__chain_run_t *run, int i)
{
    double repeated_s = pdl_chain_repeated_s(block_of(run, i), run->policy[i]);

    take(run, inner(run, i));
    note_stall(run, i, run->now - run->idle_since);
    run->computes = true;
    run->compute_start = run->now;
    run->compute_end = run->now + repeated_s + block_of(run, i)->backward_s;
    run->result.recompute_s += repeated_s;
}

/* Room that must be left for blocks which are recomputed before block j is used: without it a copy could take the room of
   one of them, and neither would go on. */
static double reserve(const pdl__chain_run_t *run, int j)
{
    double most = 0;

    for (int k = j + 1; k <= run->next - run->computes; k++)
        if (inner(run, k) > most) most = inner(run, k);
    return most;
}

/* Where a program issues the copy that starts now: at the block that begins with it, or the next one. */
static void note_prefetch(pdl__chain_run_t *run, int j)
{
    int block = run->next - (run->computes && run->compute_start < run->now);

    if (run->detail == NULL || run->detail->prefetch == NULL) return;
    run->detail->prefetch[j] = block - j > 1 ? block - j : 1;
}

static void copy_in(pdl__chain_run_t *run)
{
    int j = run->coming;

    if (run->copies_in || j < 0 || run->out_end[j] > run->now || !fits(run, copied(run, j) + reserve(run, j)))
        return;
    double seconds = run->chain->latency_s + copied(run, j) / run->chain->in_rate;
    take(run, copied(run, j));
    note_prefetch(run, j);
    run->copies_in = true;
    run->in_end = run->now + seconds;
    run->result.in_s += seconds;
}

/* What is complete at this time. */
static void complete(pdl__chain_run_t *run)
{
    if (run->copies_in && run->in_end <= run->now) {
        run->copies_in = false;
        run->coming = next_in(run, run->coming - 1);
    }
    if (run->computes && run->compute_end <= run->now) {
        run->computes = false;
        run->used -= block_of(run, run->next)->bytes;
        run->next--;
        run->idle_since = run->now;
    }
    /* The turn from forward to backward is no boundary of blocks. */
    int n = run->chain->count;
    release_out(run, n - 1, n - 1 + (n - 1 - run->next) + (run->computes || run->next == n - 1));
}

/* The next time at which something is complete; infinite when nothing goes on. */
static double next_event(const pdl__chain_run_t *run)
{
    double next = INFINITY;

    if (run->computes) next = run->compute_end;
    if (run->copies_in && run->in_end < next) next = run->in_end;
    if (run->leaving < run->chain->count && run->out_end[run->leaving] < next) next = run->out_end[run->leaving];
    return next;
}

/* The block that cannot go on, or NOTHING. */
static int backward(pdl__chain_run_t *run)
{
    run->next = run->chain->count - 1;
    run->coming = next_in(run, run->next);
    run->idle_since = run->now;
    for (;;) {
        complete(run);
        if (run->next < 0) return NOTHING;
        if (!run->computes && starts(run, run->next)) start(run, run->next);
        copy_in(run);
        double next = next_event(run);
        if (isinf(next)) return run->next;
        run->now = next;
    }
}

static void clear(const pdl_chain_detail_t *detail, int i)
{
    if (detail->stall_s != NULL) detail->stall_s[i] = 0;
    if (detail->release_after != NULL) detail->release_after[i] = 1;
    if (detail->prefetch != NULL) detail->prefetch[i] = 1;
}

int pdl__chain_run(const pdl_chain_t *chain, const pdl_memory_policy_t *policy, double *out_end,
                   const pdl_chain_detail_t *detail, pdl_chain_result_t *result)
{
    pdl__chain_run_t run = {.chain = chain, .policy = policy, .out_end = out_end, .detail = detail};

    run.leaving = next_out(&run, 0);
    for (int i = 0; i < chain->count; i++) {
        if (detail != NULL) clear(detail, i);
        run.result.in_core_s += chain->block[i].forward_s + chain->block[i].backward_s;
    }
    for (int i = 0; i < chain->count; i++)
        if (!forward(&run, i)) return i;
    int stuck = backward(&run);
    run.result.step_s = run.now;
    *result = run.result;
    return stuck;
}
