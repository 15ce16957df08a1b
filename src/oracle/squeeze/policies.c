/*
 * Plans with less memory on the same mesh, with state where it is: smaller micro-batches, recomputation, blocks that are recomputed or
 * swapped. The fastest that fits is taken, and a heavier policy where it is faster by 2 %.
 */
#include "oracle/squeeze/policies.h"
#include "base/memory.h"
#include "oracle/squeeze/counted.h"
#include <math.h>
#include <paradl/oracle/chain.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PARTS = 24 }; /* ways to cut a batch that are tried */

/* The candidate with other policies: its mesh and modes stay. *trial is not possible where the plan is refused. */
static pdl_status_t vary_plan(const pdl_candidate_t *c, int64_t micro_batches, pdl_recompute_t recompute,
                              pdl_candidate_t *trial)
{
    *trial = *c;
    trial->possible = true;
    pdl_status_t status = pdl_plan_copy(c->plan, &trial->plan);
    if (status) return status;
    trial->plan->micro_batches = trial->config.micro_batches = micro_batches;
    trial->plan->recompute = trial->config.recompute = recompute;
    trial->plan->stages_given = false; /* other times, other borders */
    status = pdl_plan_check(trial->plan);
    if (status != PDL_ERR_LIMIT && status != PDL_ERR_INPUT) return status;
    pdl__refuse_candidate(trial, pdl_error_message());
    return PDL_OK;
}

/* With its time. */
static pdl_status_t vary(const pdl__searcher_t *s, const pdl_candidate_t *c, int64_t micro_batches,
                         pdl_recompute_t recompute, pdl_candidate_t *trial)
{
    pdl_status_t status = vary_plan(c, micro_batches, recompute, trial);

    if (status || !trial->possible) return status;
    status = pdl__time_candidate(s, trial);
    if (status != PDL_ERR_LIMIT && status != PDL_ERR_INPUT) return status;
    pdl__refuse_candidate(trial, pdl_error_message());
    return PDL_OK;
}

static void replace(pdl_candidate_t *c, pdl_candidate_t *trial)
{
    pdl_plan_destroy(c->plan);
    *c = *trial;
    trial->plan = NULL;
}

/* Ways to do the same with less memory: a replica's samples in `parts` equal parts, the fewest first. */
typedef struct ladder {
    int64_t         parts[MOST_PARTS];
    int             count;
    pdl_recompute_t recompute;
} ladder_t;

static ladder_t ladder_of(const pdl__searcher_t *s, const pdl_plan_t *plan, pdl_recompute_t recompute)
{
    int64_t  samples = plan->batch / pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    ladder_t ladder = {.recompute = recompute};

    if (s->request->micro_batches > 0) ladder.parts[ladder.count++] = s->request->micro_batches;
    for (int64_t parts = 1; parts <= samples && s->request->micro_batches == 0; parts++) {
        if (samples % parts != 0) continue;
        if (ladder.count == MOST_PARTS) ladder.count--; /* the most parts are among them in any case */
        ladder.parts[ladder.count++] = parts;
    }
    return ladder;
}

/* Memory on one rung; what it takes in time is asked of the rung that is chosen. */
static pdl_status_t weigh_rung(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder, int rung,
                               pdl__need_t *least, bool *fits)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary_plan(c, ladder->parts[rung], ladder->recompute, &trial);

    if (!status && trial.possible) status = pdl__count_candidate(s, &trial);
    *fits = !status && trial.possible && trial.projection.fits;
    if (!status) pdl__note_need(s, &trial, least);
    pdl_plan_destroy(trial.plan);
    return status;
}

/* The candidate on one rung; *fits says whether it does, and then *best is it. */
static pdl_status_t try_rung(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder, int rung,
                             pdl_candidate_t *best, bool *fits)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary(s, c, ladder->parts[rung], ladder->recompute, &trial);

    if (!status) status = trial.possible ? pdl__count_candidate(s, &trial) : PDL_OK;
    *fits = !status && trial.possible && trial.projection.fits;
    if (!status) replace(best, &trial);
    pdl_plan_destroy(trial.plan);
    return status;
}

/* More parts take less memory: the fewest that fit, when the most do. */
static pdl_status_t fewest_parts(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder,
                                 pdl__need_t *least, int *rung)
{
    int          low = 0, high = ladder->count - 1;
    bool         fits;
    pdl_status_t status = PDL_OK;

    while (low < high && !status) {
        int middle = (low + high) / 2;
        status = weigh_rung(s, c, ladder, middle, least, &fits);
        if (fits)
            high = middle;
        else
            low = middle + 1;
    }
    *rung = high;
    return status;
}

/* A pipeline needs parts: more than the fewest that fit may be faster. */
static pdl_status_t fastest_parts(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder,
                                  int first, pdl_candidate_t *best)
{
    int  fastest = first;
    bool fits;

    for (int i = first + 1; i < ladder->count; i++) {
        pdl_candidate_t trial = {.plan = NULL};
        pdl_status_t    status = vary(s, c, ladder->parts[i], ladder->recompute, &trial);
        if (!status && trial.possible && trial.sample_s < best->sample_s) {
            fastest = i;
            replace(best, &trial);
        }
        pdl_plan_destroy(trial.plan);
        if (status) return status;
    }
    return fastest == first ? PDL_OK : try_rung(s, c, ladder, fastest, best, &fits);
}

/* The fastest way to fit under one recompute policy: *found says whether there is one, and then *best is it. Where state is not on the
   device, gradients are there when there are several parts: then one is tried first. */
static pdl_status_t climb(const pdl__searcher_t *s, const pdl_candidate_t *c, pdl_recompute_t recompute,
                          pdl__need_t *least, pdl_candidate_t *best, bool *found)
{
    ladder_t ladder = ladder_of(s, c->plan, recompute);
    int      rung = ladder.count - 1;
    bool     one = c->plan->optimizer_tier != PDL_TIER_DEVICE && ladder.parts[0] == 1 &&
               pdl_mesh_extent(&c->plan->mesh, PDL_AXIS_PIPELINE) == 1;
    pdl_status_t status = weigh_rung(s, c, &ladder, one ? 0 : rung, least, found);

    if (!status && one && *found) rung = 0;
    if (!status && one && !*found) status = weigh_rung(s, c, &ladder, rung, least, found);
    if (!status && *found && rung > 0) status = fewest_parts(s, c, &ladder, least, &rung);
    if (!status) status = try_rung(s, c, &ladder, rung, best, found);
    if (!status && one && rung == 0) ladder.count = 1;
    if (!status && *found && pdl_mesh_extent(&c->plan->mesh, PDL_AXIS_PIPELINE) > 1)
        status = fastest_parts(s, c, &ladder, rung, best);
    return status;
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED;
}

/* Some blocks recomputed or swapped, such that activations take so many bytes as estimated: the candidate that keeps everything, with its
   time and memory. *room becomes the least that an estimate was made for where that is more. */
static pdl_status_t choose_blocks(const pdl__searcher_t *s, const pdl_candidate_t *kept, double *room,
                                  pdl_candidate_t *trial)
{
    pdl_chain_result_t chain;
    pdl_block_limit_t  limit = {.bytes = *room, .counted_bytes = kept->projection.memory.saved_activations};

    *trial = *kept;
    pdl_status_t status = pdl_plan_copy(kept->plan, &trial->plan);
    if (!status) status = pdl_oracle_choose_blocks(s->oracle, trial->plan, &limit, &chain);
    *room = fmax(*room, limit.least_bytes);
    if (!status) status = pdl_plan_check(trial->plan);
    if (!status) status = pdl__time_candidate(s, trial);
    if (is_refusal(status)) {
        pdl__refuse_candidate(trial, pdl_error_message());
        return PDL_OK;
    }
    if (status) return status;
    /* Programs have the copies in them. */
    if (!trial->projection.replayed)
        trial->projection.total_s += chain.stall_s * (double)trial->plan->micro_batches;
    return pdl__count_candidate(s, trial);
}

enum { BLOCK_ROUNDS = 3 };

/* What is counted may be less than the estimate, or more: then it is made for so much more, or less. *best is the fastest that fits, with a
   plan where there is one. */
static pdl_status_t fit_blocks(const pdl__searcher_t *s, const pdl_candidate_t *kept, pdl__need_t *least,
                               pdl_candidate_t *best)
{
    const pdl_projection_t *all = &kept->projection;
    double                  capacity = pdl__counted_capacity(s);
    double                  room = capacity - (all->memory_bytes - all->memory.saved_activations);
    pdl_status_t            status = PDL_OK;
    bool                    goes_on = room > 0;

    for (int round = 0; round < BLOCK_ROUNDS && goes_on && !status; round++) {
        pdl_candidate_t trial = {.plan = NULL};
        double          asked = room;
        status = choose_blocks(s, kept, &room, &trial);
        if (!status && trial.possible) {
            double left = capacity - trial.projection.memory_bytes;
            pdl__note_need(s, &trial, least);
            room += left;
            goes_on = fabs(left) > 0.02 * capacity && trial.plan->block_count > 0;
            if (trial.projection.fits && (best->plan == NULL || trial.sample_s < best->sample_s))
                replace(best, &trial);
        } else {
            /* Policies are found a little above the least. */
            goes_on = room > asked;
            room *= 1.05;
        }
        pdl_plan_destroy(trial.plan);
    }
    return status;
}

enum { SWAPPED_PARTS = 4 }; /* of a stage: one is copied while the next is computed */

/* One policy for all stages of a pipeline, whose borders are settled before: each is a block, or some where it is swapped. */
static pdl_status_t choose_stages(const pdl__searcher_t *s, pdl_memory_policy_t policy, pdl_candidate_t *trial)
{
    int               stages = (int)pdl_plan_stage_count(trial->plan), count = 0;
    int               parts = pdl_memory_swaps(policy) ? SWAPPED_PARTS : 1;
    pdl_plan_block_t *block = calloc((size_t)stages * (size_t)parts, sizeof(*block));
    pdl_status_t      status =
        block != NULL ? pdl_oracle_settle(s->oracle, trial->plan) : pdl__no_memory("while choosing what is kept");

    for (int k = 0; k < stages * parts && !status; k++) {
        int first = trial->plan->stage_first[k / parts], layers = trial->plan->stage_first[k / parts + 1] - first;
        int last = first + layers * (k % parts + 1) / parts - 1;
        if (last >= (count > 0 ? block[count - 1].last + 1 : 0))
            block[count++] = (pdl_plan_block_t){.last = last, .policy = policy};
    }
    if (!status) status = pdl_plan_set_blocks(trial->plan, block, count);
    if (!status) trial->plan->stages_given = true;
    if (!status) status = pdl_plan_check(trial->plan);
    if (!status) status = pdl__time_candidate(s, trial);
    free(block);
    return status ? status : pdl__count_candidate(s, trial);
}

/* A heavier policy must win by 2 %. */
static bool too_slow(const pdl_candidate_t *trial, const pdl_candidate_t *c)
{
    return trial->sample_s >= 0.98 * c->sample_s;
}

static void keep_better(pdl_candidate_t *trial, pdl_candidate_t *c, bool *found)
{
    bool fits = trial->possible && trial->projection.compiled && trial->projection.fits;

    if (!fits || (*found && too_slow(trial, c))) return;
    replace(c, trial);
    *found = true;
}

/* The fewest parts are the fastest but for pipelines, and nothing recomputed is faster than something: what fits so needs no more. */
bool pdl__is_lightest(const pdl__searcher_t *s, const pdl_candidate_t *c)
{
    return c->plan->recompute == PDL_RECOMPUTE_NONE && c->plan->block_count == 0 &&
           c->plan->micro_batches == ladder_of(s, c->plan, PDL_RECOMPUTE_NONE).parts[0];
}

/* Smaller parts; with sharded weights, which every part gathers, recomputing larger ones may be faster. */
static pdl_status_t try_parts(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl_recompute_t recompute,
                              pdl_candidate_t *c, pdl__need_t *least, bool *found)
{
    pdl_candidate_t trial = {.plan = NULL};
    bool            fits = false;

    if (*found && pdl__is_lightest(s, c)) return PDL_OK;
    pdl_status_t status = climb(s, original, recompute, least, &trial, &fits);
    if (!status && fits && !(*found && too_slow(&trial, c))) {
        replace(c, &trial);
        *found = true;
    } else if (!status && !*found && !trial.possible) {
        pdl__refuse_candidate(c, trial.reason);
    }
    pdl_plan_destroy(trial.plan);
    return status;
}

static pdl_status_t try_stages(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl_candidate_t *c,
                               bool *found)
{
    static const pdl_memory_policy_t policies[] = {PDL_MEMORY_RECOMPUTE_CHEAP, PDL_MEMORY_SWAP_CHEAP,
                                                   PDL_MEMORY_SWAP};
    bool                             linked = s->oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH] > 0;
    pdl_status_t                     status = PDL_OK;

    for (size_t p = 0; p < sizeof(policies) / sizeof(*policies) && !status; p++) {
        pdl_candidate_t trial = {.plan = NULL};
        if (pdl_memory_swaps(policies[p]) && !linked) continue;
        status = vary(s, original, original->plan->micro_batches, PDL_RECOMPUTE_NONE, &trial);
        if (!status && trial.possible) status = choose_stages(s, policies[p], &trial);
        if (is_refusal(status))
            status = PDL_OK;
        else if (!status)
            keep_better(&trial, c, found);
        pdl_plan_destroy(trial.plan);
    }
    return status;
}

static pdl_status_t try_blocks_of(const pdl__searcher_t *s, const pdl_candidate_t *original, int64_t micro_batches,
                                  pdl_candidate_t *c, pdl__need_t *least, bool *found)
{
    pdl_candidate_t kept = {.plan = NULL}, best = {.plan = NULL};
    pdl_status_t    status = vary(s, original, micro_batches, PDL_RECOMPUTE_NONE, &kept);

    /* With all kept it takes least: what does not win then wins with no policy. */
    if (!status && kept.possible && !(*found && too_slow(&kept, c))) {
        status = pdl__count_candidate(s, &kept);
        if (!status && kept.possible && kept.projection.compiled) status = fit_blocks(s, &kept, least, &best);
        if (!status) keep_better(&best, c, found);
    }
    pdl_plan_destroy(kept.plan);
    pdl_plan_destroy(best.plan);
    return status;
}

/* Of the fewest parts, of those of the model's plan, and of those that fit. */
static pdl_status_t try_blocks(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl_candidate_t *c,
                               pdl__need_t *least, bool *found)
{
    int64_t      given = original->plan->micro_batches;
    int64_t      parts[] = {ladder_of(s, original->plan, PDL_RECOMPUTE_NONE).parts[0], given,
                       *found ? c->plan->micro_batches : given};
    pdl_status_t status = PDL_OK;

    for (int k = 0; k < 3 && !status; k++)
        if (k == 0 || (parts[k] != parts[k - 1] && parts[k] != parts[0]))
            status = try_blocks_of(s, original, parts[k], c, least, found);
    return status;
}

pdl_status_t pdl__try_policies(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl__effort_t effort,
                               pdl_candidate_t *c, pdl__need_t *least, bool *found)
{
    if (effort == PDL__EFFORT_BLOCKS)
        return pdl_plan_stage_count(original->plan) == 1 ? try_blocks(s, original, c, least, found)
                                                         : try_stages(s, original, c, found);
    pdl_status_t status = try_parts(s, original, PDL_RECOMPUTE_NONE, c, least, found);
    if (status || !c->possible) return status;
    return try_parts(s, original, PDL_RECOMPUTE_FULL, c, least, found);
}

pdl_status_t pdl__try_host_update(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_candidate_t trial = {.plan = NULL};
    bool            found = true;

    if (c->plan->weights_tier != PDL_TIER_HOST || c->plan->optimizer_tier != PDL_TIER_HOST ||
        !(s->oracle->system->device.host_update_bytes_per_s > 0))
        return PDL_OK;
    c->plan->update_tier = PDL_TIER_HOST;
    pdl_status_t status = vary(s, c, c->plan->micro_batches, c->plan->recompute, &trial);
    c->plan->update_tier = PDL_TIER_DEVICE;
    if (!status && trial.possible) status = pdl__count_candidate(s, &trial);
    if (!status) keep_better(&trial, c, &found);
    pdl_plan_destroy(trial.plan);
    return status;
}

enum { LOWER_ROUNDS = 6 };

pdl_status_t pdl__lower_need(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl__need_t *least)
{
    pdl_request_t   request = *s->request;
    pdl__searcher_t lower = *s;
    pdl_status_t    status = PDL_OK;
    bool            found = pdl_plan_stage_count(original->plan) == 1;

    lower.request = &request;
    for (int round = 0; round < LOWER_ROUNDS && found && !status; round++) {
        pdl_candidate_t trial = {.plan = NULL};
        request.max_memory = 0.97 * least->device;
        found = false;
        status = try_blocks(&lower, original, &trial, least, &found);
        if (!status && found) pdl__note_need(&lower, &trial, least);
        pdl_plan_destroy(trial.plan);
    }
    return status;
}

pdl_status_t pdl__cannot_win(const pdl__searcher_t *s, const pdl_candidate_t *original, const pdl_candidate_t *c,
                             bool *loses)
{
    int64_t parts[] = {ladder_of(s, original->plan, PDL_RECOMPUTE_NONE).parts[0], original->plan->micro_batches};
    pdl_status_t status = PDL_OK;

    *loses = true;
    for (int k = 0; k < 2 && !status && *loses; k++) {
        pdl_candidate_t trial = {.plan = NULL};
        status = vary(s, original, parts[k], PDL_RECOMPUTE_NONE, &trial);
        *loses = status || !trial.possible || too_slow(&trial, c);
        pdl_plan_destroy(trial.plan);
    }
    return status;
}
