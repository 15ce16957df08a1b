/*
 * Memory that is counted, not modelled: where the request says how, the plans that are shown are counted. One that turns out
 * not to fit is cut into more micro-batches and recomputed; so is one that the model, but perhaps not the count, finds too
 * large. What does not fit then is not possible, and the next takes its place.
 */
#include "base/memory.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <paradl/oracle/chain.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PARTS = 24 }; /* ways to cut a batch that are tried */

static void refuse(pdl_candidate_t *c, const char *reason)
{
    c->possible = false;
    snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

/* What plans may use. Where memory is counted, what a process needs besides is not part of it. */
static double capacity_of(const pdl__searcher_t *s)
{
    const pdl_device_t *device = &s->oracle->system->device;

    return s->request->max_memory > 0 ? s->request->max_memory : device->memory_bytes - device->reserved_bytes;
}

/* Nearly all of the host's memory can be pinned, and a system has some for itself. */
static double host_capacity(const pdl__searcher_t *s)
{
    return 0.94 * s->oracle->system->device.host_bytes;
}

static bool fits_host(const pdl__searcher_t *s, const pdl_candidate_t *c)
{
    return host_capacity(s) <= 0 || c->projection.host_bytes <= host_capacity(s);
}

/* Counts the memory of a candidate's plan. One that is refused is not possible; one of which nothing is known
   (!compiled) keeps the model's figures. */
static pdl_status_t count_memory(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = pdl_oracle_settle(s->oracle, c->plan);

    if (!status) status = s->request->memory(s->request->memory_context, c->plan, &c->projection);

    if (status == PDL_ERR_UNSUPPORTED || status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) {
        refuse(c, pdl_error_message());
        return PDL_OK;
    }
    if (status || !c->projection.compiled) return status;
    c->projection.fits = c->projection.memory_bytes <= capacity_of(s) && fits_host(s, c);
    pdl__score_candidate(s, c);
    return PDL_OK;
}

/* The least that was found to do: of a device, and of the host for it. */
typedef struct need {
    double device, host;
} need_t;

static void note_need(const pdl__searcher_t *s, const pdl_candidate_t *trial, need_t *least)
{
    const pdl_projection_t *p = &trial->projection;

    if (!trial->possible) return;
    least->device = fmin(least->device, p->memory_bytes);
    if (p->memory_bytes <= capacity_of(s)) least->host = fmin(least->host, p->host_bytes);
}

static void refuse_memory(const pdl__searcher_t *s, const need_t *least, pdl_candidate_t *c)
{
    char need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], host[PDL_FORMAT_SIZE], reason[sizeof(c->reason)];

    snprintf(reason, sizeof(reason), "needs %s per device at the least (compiled), of %s",
             pdl_format_bytes(least->device, need), pdl_format_bytes(capacity_of(s), have));
    if (least->device <= capacity_of(s))
        snprintf(reason, sizeof(reason), "needs %s of host memory for what a device of %s does not hold, of %s",
                 pdl_format_bytes(least->host, need), pdl_format_bytes(capacity_of(s), have),
                 pdl_format_bytes(host_capacity(s), host));
    refuse(c, reason);
}

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
    refuse(trial, pdl_error_message());
    return PDL_OK;
}

/* With its time. */
static pdl_status_t vary(const pdl__searcher_t *s, const pdl_candidate_t *c, int64_t micro_batches,
                         pdl_recompute_t recompute, pdl_candidate_t *trial)
{
    pdl_status_t status = vary_plan(c, micro_batches, recompute, trial);

    if (status || !trial->possible) return status;
    status = pdl_oracle_replay(s->oracle, trial->plan, s->request->dataset, &trial->projection);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) {
        refuse(trial, pdl_error_message());
        return PDL_OK;
    }
    if (status) return status;
    pdl__score_candidate(s, trial);
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
                               need_t *least, bool *fits)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary_plan(c, ladder->parts[rung], ladder->recompute, &trial);

    if (!status && trial.possible) status = count_memory(s, &trial);
    *fits = !status && trial.possible && trial.projection.fits;
    if (!status) note_need(s, &trial, least);
    pdl_plan_destroy(trial.plan);
    return status;
}

/* The candidate on one rung; *fits says whether it does, and then *best is it. */
static pdl_status_t try_rung(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder, int rung,
                             pdl_candidate_t *best, bool *fits)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary(s, c, ladder->parts[rung], ladder->recompute, &trial);

    if (!status) status = trial.possible ? count_memory(s, &trial) : PDL_OK;
    *fits = !status && trial.possible && trial.projection.fits;
    if (!status) replace(best, &trial);
    pdl_plan_destroy(trial.plan);
    return status;
}

/* More parts take less memory: the fewest that fit, when the most do. */
static pdl_status_t fewest_parts(const pdl__searcher_t *s, const pdl_candidate_t *c, const ladder_t *ladder,
                                 need_t *least, int *rung)
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

/* The fastest way to fit under one recompute policy; *found says whether there is one, and then it replaces *c. Where state is
   not on the device, gradients are there when there are several parts: then one is tried first. */
static pdl_status_t climb(const pdl__searcher_t *s, pdl_candidate_t *c, pdl_recompute_t recompute, need_t *least,
                          bool *found)
{
    ladder_t        ladder = ladder_of(s, c->plan, recompute);
    pdl_candidate_t best = {.plan = NULL};
    int             rung = ladder.count - 1;
    bool            one = c->plan->optimizer_tier != PDL_TIER_DEVICE && ladder.parts[0] == 1 &&
               pdl_mesh_extent(&c->plan->mesh, PDL_AXIS_PIPELINE) == 1;
    pdl_status_t status = weigh_rung(s, c, &ladder, one ? 0 : rung, least, found);

    if (!status && one && *found) rung = 0;
    if (!status && one && !*found) status = weigh_rung(s, c, &ladder, rung, least, found);
    if (!status && *found && rung > 0) status = fewest_parts(s, c, &ladder, least, &rung);
    if (!status) status = try_rung(s, c, &ladder, rung, &best, found);
    if (!status && one && rung == 0) ladder.count = 1;
    if (!status && *found && pdl_mesh_extent(&c->plan->mesh, PDL_AXIS_PIPELINE) > 1)
        status = fastest_parts(s, c, &ladder, rung, &best);
    if (!status && *found)
        replace(c, &best);
    else if (!status && !best.possible)
        refuse(c, best.reason);
    pdl_plan_destroy(best.plan);
    return status;
}

/* Some blocks recomputed or swapped, as far as memory asks for it: the candidate as it came, with its time and memory. */
static pdl_status_t choose_blocks(const pdl__searcher_t *s, pdl_candidate_t *trial, need_t *least)
{
    pdl_chain_result_t chain;
    double             counted = trial->projection.memory.saved_activations;
    double             others = trial->projection.memory_bytes - counted;
    pdl_block_limit_t  limit = {.bytes = capacity_of(s) - others, .counted_bytes = counted};
    pdl_status_t       status = pdl_oracle_choose_blocks(s->oracle, trial->plan, &limit, &chain);

    if (limit.least_bytes > 0) least->device = fmin(least->device, others + limit.least_bytes);
    if (!status) status = pdl_plan_check(trial->plan);
    if (!status) status = pdl_oracle_replay(s->oracle, trial->plan, s->request->dataset, &trial->projection);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED) {
        refuse(trial, pdl_error_message());
        return PDL_OK;
    }
    if (status) return status;
    /* Programs have the copies in them. */
    if (!trial->projection.replayed)
        trial->projection.total_s += chain.stall_s * (double)trial->plan->micro_batches;
    return count_memory(s, trial);
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
    if (!status) status = pdl_oracle_replay(s->oracle, trial->plan, s->request->dataset, &trial->projection);
    free(block);
    return status ? status : count_memory(s, trial);
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
        if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT || status == PDL_ERR_UNSUPPORTED)
            status = PDL_OK;
        else if (!status)
            keep_better(&trial, c, found);
        pdl_plan_destroy(trial.plan);
    }
    return status;
}

static pdl_status_t try_blocks(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl_candidate_t *c,
                               need_t *least, bool *found)
{
    pdl_candidate_t trial = {.plan = NULL};
    pdl_status_t    status = vary(s, original, original->plan->micro_batches, PDL_RECOMPUTE_NONE, &trial);

    /* With all kept it takes least: what does not win then wins with no policy. */
    if (!status && trial.possible && !(*found && too_slow(&trial, c))) {
        status = count_memory(s, &trial);
        if (!status && trial.possible && trial.projection.compiled) status = choose_blocks(s, &trial, least);
        if (!status) keep_better(&trial, c, found);
    }
    pdl_plan_destroy(trial.plan);
    return status;
}

/* In smaller parts, with recomputation, and with policies for its blocks. */
static pdl_status_t try_policies(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl_candidate_t *c,
                                 need_t *least, bool *found)
{
    pdl_status_t status = climb(s, c, PDL_RECOMPUTE_NONE, least, found);

    if (!status && !*found && c->possible) status = climb(s, c, PDL_RECOMPUTE_FULL, least, found);
    if (status || !c->possible) return status;
    return pdl_plan_stage_count(original->plan) == 1 ? try_blocks(s, original, c, least, found)
                                                     : try_stages(s, original, c, found);
}

enum { LOWER_ROUNDS = 6 };

/* The least that was found depends on what was asked for: what is a little below it is asked for too, as long as that works. */
static pdl_status_t lower_need(const pdl__searcher_t *s, const pdl_candidate_t *original, need_t *least)
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
        if (!status && found) note_need(&lower, &trial, least);
        pdl_plan_destroy(trial.plan);
    }
    return status;
}

/* Where the optimizer's state and weights are, in the order in which that is tried. */
typedef struct tiers {
    pdl_tier_t optimizer, weights;
} tiers_t;

/* Disks are slower than memory: they are asked for where that of the host is known, and too small. */
static bool may_try(const pdl__searcher_t *s, const pdl_plan_t *plan, const tiers_t *tiers)
{
    if (tiers->optimizer == PDL_TIER_DISK && host_capacity(s) <= 0) return false;
    if (tiers->weights == PDL_TIER_HOST)
        return plan->sharding == PDL_SHARDING_NONE || plan->sharding == PDL_SHARDING_ZERO3;
    return plan->optimizer != PDL_OPTIMIZER_SGD;
}

/* Refuses a plan whose weights alone are more than devices have, and than the host has where they may be there: no policy helps,
   and programs of such networks take minutes to compile. */
static bool exceeds_all(const pdl__searcher_t *s, const pdl_plan_t *plan, pdl_candidate_t *c)
{
    pdl_model_totals_t totals;
    int64_t            ranks = pdl_mesh_size(&plan->mesh);
    double             bytes;
    char need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], host[PDL_FORMAT_SIZE], reason[sizeof(c->reason)];

    pdl_model_totals(plan->model, &totals);
    bytes = (double)totals.weights * pdl_precision_bytes(plan->precision) / (double)ranks;
    if (s->request->max_memory > 0 || bytes <= capacity_of(s) || host_capacity(s) <= 0 || bytes <= host_capacity(s))
        return false;
    snprintf(reason, sizeof(reason), "weights alone take %s per device, of %s, and of the host's %s",
             pdl_format_bytes(bytes, need), pdl_format_bytes(capacity_of(s), have),
             pdl_format_bytes(host_capacity(s), host));
    refuse(c, reason);
    return true;
}

/* What a plan does that does not fit; if nothing else helps, the optimizer's state leaves the device, then weights do. */
static pdl_status_t squeeze(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    static const tiers_t all[] = {{PDL_TIER_HOST, PDL_TIER_DEVICE},
                                  {PDL_TIER_DISK, PDL_TIER_DEVICE},
                                  {PDL_TIER_HOST, PDL_TIER_HOST},
                                  {PDL_TIER_DISK, PDL_TIER_HOST}};
    bool                 found = false, linked = s->oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH] > 0;
    need_t               least = {c->projection.memory_bytes, INFINITY};
    pdl_candidate_t      original = *c;
    pdl_status_t         status = pdl_plan_copy(c->plan, &original.plan);

    if (!status && exceeds_all(s, original.plan, c)) {
        pdl_plan_destroy(original.plan);
        return PDL_OK;
    }
    if (status) return status;
    status = try_policies(s, &original, c, &least, &found);
    for (size_t t = 0; t < sizeof(all) / sizeof(*all) && !status && !found && c->possible && linked; t++) {
        if (!may_try(s, original.plan, &all[t])) continue;
        original.plan->optimizer_tier = c->plan->optimizer_tier = all[t].optimizer;
        original.plan->weights_tier = c->plan->weights_tier = all[t].weights;
        status = try_policies(s, &original, c, &least, &found);
    }
    if (!status && !found && c->possible) status = lower_need(s, &original, &least);
    pdl_plan_destroy(original.plan);
    if (!status && !found && c->possible) refuse_memory(s, &least, c);
    return status;
}

/* Whether policies were chosen that a model which errs on the large side may not have had to choose. */
static bool is_plain(const pdl_plan_t *plan)
{
    return plan->recompute == PDL_RECOMPUTE_NONE &&
           (plan->micro_batches == 1 || pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE) > 1);
}

static pdl_status_t settle(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = count_memory(s, c);

    if (status || !c->possible || (c->projection.fits && (!(s->request->max_memory > 0) || is_plain(c->plan))))
        return status;
    if (s->request->run_mode == PDL_TRAINING) return squeeze(s, c);
    if (!c->projection.fits) refuse_memory(s, &(need_t){c->projection.memory_bytes, c->projection.host_bytes}, c);
    return PDL_OK;
}

/* A strategy that the model finds too large, though the count may not. */
static pdl_status_t rescue(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    if (c->projection.memory_bytes <= 0 || c->config.batch <= 0 || c->config.strategy->per_layer) return PDL_OK;
    pdl_status_t status = pdl_oracle_plan(s->oracle, &c->config, &c->plan);
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) return PDL_OK;
    if (!status) status = pdl_oracle_replay(s->oracle, c->plan, s->request->dataset, &c->projection);
    if (status) return status;
    pdl__score_candidate(s, c);
    c->possible = true;
    status = settle(s, c);
    if (!c->projection.compiled) c->possible = false;
    return status;
}

/* The first of those shown that has not been counted, or NULL. */
static pdl_candidate_t *next_of(const pdl__searcher_t *s, const pdl_search_t *search)
{
    for (int i = 0; i < search->possible && (s->request->top == 0 || i < s->request->top); i++)
        if (!search->candidates[i].projection.compiled) return &search->candidates[i];
    return NULL;
}

pdl_status_t pdl__count_memory(const pdl__searcher_t *s, pdl_search_t *search)
{
    pdl_status_t     status = PDL_OK;
    pdl_candidate_t *next;
    bool             rescues = s->request->max_memory > 0 || search->possible == 0;

    for (int i = search->possible; i < search->count && rescues && !status; i++)
        status = rescue(s, &search->candidates[i]);
    if (!status) pdl_search_rank(search);
    while (!status && (next = next_of(s, search)) != NULL) {
        status = settle(s, next);
        if (next->possible && !next->projection.compiled) break;
        if (!status) pdl_search_rank(search);
    }
    return status;
}
