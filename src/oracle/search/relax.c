/*
 * Plans in which all blocks are recomputed that need not be: of every virtual stage the fewest first blocks that have to be are recomputed, or
 * copied to the host and back.
 */
#include "base/memory.h"
#include "oracle/search/searcher.h"
#include <stdlib.h>

/* Where the blocks of a network begin that are recomputed as a whole, ascending; behind `end` are logits and loss, which never are. */
typedef struct natural {
    int *begin;
    int  count, end;
} natural_t;

static pdl_status_t find_natural(const pdl__searcher_t *s, const pdl_plan_t *plan, natural_t *n)
{
    pdl_profile_t *profile;
    double         micro_batch = (double)plan->batch / (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    pdl_status_t status = pdl__profile_create(s->oracle, plan, micro_batch / (double)plan->micro_batches, &profile);

    *n = (natural_t){.end = 0};
    if (status) return status;
    int layers = profile->partition->layer_count;
    n->begin = calloc((size_t)layers + 1, sizeof(*n->begin));
    if (n->begin == NULL) status = pdl__no_memory("for the blocks of a network");
    for (int i = 0; i < layers && !status && !pdl__outside_blocks(plan->model, i); i++) n->end = i + 1;
    bool attention = profile->prefix[layers].attentions > 0;
    for (int i = 0; i < profile->single_count && !status && !attention; i++)
        if (profile->single[i] < n->end) n->begin[n->count++] = profile->single[i];
    for (int i = 0; i < n->end && !status && attention; i++) {
        if (profile->prefix[i + 1].attentions - profile->prefix[i].attentions < 0.5) continue;
        int begin = pdl__block_begin(profile, i);
        if (n->count == 0 || begin > n->begin[n->count - 1]) n->begin[n->count++] = begin;
    }
    pdl__profile_destroy(profile);
    return status;
}

/* The blocks that begin in the layers [first, last): from *from on, so many. */
static int blocks_between(const natural_t *n, int first, int last, int *from)
{
    int count = 0;

    for (*from = 0; *from < n->count && n->begin[*from] < first;) ++*from;
    while (*from + count < n->count && n->begin[*from + count] < last) count++;
    return count;
}

static int most_blocks(const natural_t *n, const pdl_plan_t *plan)
{
    int most = 0, from;

    for (int64_t k = 0; k < pdl_plan_stage_count(plan); k++) {
        int count = blocks_between(n, plan->stage_first[k], plan->stage_first[k + 1], &from);
        if (count > most) most = count;
    }
    return most;
}

static void add_part(pdl_plan_block_t *block, int *count, int first, int last, pdl_memory_policy_t policy)
{
    if (last >= first) block[(*count)++] = (pdl_plan_block_t){.last = last, .policy = policy};
}

/* What is recomputed is one block of the plan; what is copied is one each, of which two are on the device at a time. */
static void add_chosen(const natural_t *n, pdl_plan_block_t *block, int *count, int from, int chosen, int end,
                       pdl_memory_policy_t policy)
{
    for (int i = 1; i < chosen && policy == PDL_MEMORY_SWAP; i++)
        add_part(block, count, n->begin[from + i - 1], n->begin[from + i] - 1, policy);
    if (chosen > 0)
        add_part(block, count, n->begin[policy == PDL_MEMORY_SWAP ? from + chosen - 1 : from], end - 1, policy);
}

/* Of every virtual stage the first `some` blocks have the policy, all else is kept. */
static pdl_status_t set_blocks(const natural_t *n, int some, pdl_memory_policy_t policy, pdl_plan_t *plan)
{
    int64_t           stages = pdl_plan_stage_count(plan);
    pdl_plan_block_t *block = calloc(2 * (size_t)stages + (size_t)n->count + 1, sizeof(*block));
    int               parts = 0, from;

    if (block == NULL) return pdl__no_memory("for the blocks of a plan");
    for (int64_t k = 0; k < stages; k++) {
        int first = plan->stage_first[k], last = plan->stage_first[k + 1];
        int count = blocks_between(n, first, last, &from), chosen = some < count ? some : count;
        int begin = count > 0 ? n->begin[from] : last, end = last < n->end ? last : n->end;
        if (chosen < count) end = n->begin[from + chosen];
        if (end < begin) end = begin;
        add_part(block, &parts, first, begin - 1, PDL_MEMORY_KEEP);
        add_chosen(n, block, &parts, from, chosen, end, policy);
        add_part(block, &parts, end, last - 1, PDL_MEMORY_KEEP);
    }
    pdl_status_t status = pdl_plan_set_blocks(plan, block, parts);
    plan->recompute = PDL_RECOMPUTE_NONE;
    plan->stages_given = true;
    free(block);
    return status ? status : pdl_plan_check(plan);
}

static pdl_status_t try_blocks(const pdl__searcher_t *s, const natural_t *n, int some, pdl_memory_policy_t policy,
                               pdl_plan_t *plan, bool *fits)
{
    pdl_projection_t projection;
    pdl_status_t     status = set_blocks(n, some, policy, plan);

    if (!status) status = pdl_oracle_project(s->oracle, plan, s->request->dataset, &projection);
    *fits = !status && projection.fits;
    return status;
}

/* The fewest that fit; `most`, all of them, where no fewer do. */
static pdl_status_t fewest(const pdl__searcher_t *s, const natural_t *n, int most, pdl_memory_policy_t policy,
                           pdl_plan_t *plan, int *some)
{
    int          low = 1, high = most;
    bool         fits;
    pdl_status_t status = PDL_OK;

    while (low < high && !status) {
        int middle = (low + high) / 2;
        status = try_blocks(s, n, middle, policy, plan, &fits);
        *(fits ? &high : &low) = fits ? middle : middle + 1;
    }
    *some = high;
    return status || high == most ? status : set_blocks(n, high, policy, plan);
}

static bool may_relax(const pdl__searcher_t *s, const pdl_candidate_t *c)
{
    return c->plan->recompute == PDL_RECOMPUTE_FULL && c->plan->block_count == 0 &&
           c->plan->run_mode == PDL_TRAINING && s->oracle->system->backend == NULL &&
           !c->config.strategy->per_layer;
}

/* Scores of attention that is not fused are too many. */
static bool may_offload(const pdl__searcher_t *s)
{
    return s->oracle->p.offload_activations && s->oracle->p.fused_attention && s->oracle->system->part_count == 0 &&
           s->oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH] > 0;
}

/* Whether the host of a device has room for what is copied of all micro-batches in flight, beside state that is there. */
static bool host_has_room(const pdl__searcher_t *s, const pdl_candidate_t *trial)
{
    const pdl_device_t *device = &s->oracle->system->device;
    pdl_projection_t    all;
    pdl_plan_t         *plan;

    if (device->host_bytes <= 0) return true;
    if (pdl_plan_copy(trial->plan, &plan)) return false;
    pdl_status_t status = pdl_plan_set_blocks(plan, NULL, 0);
    if (!status) status = pdl_oracle_project(s->oracle, plan, s->request->dataset, &all);
    double state = plan->optimizer_tier == PDL_TIER_DEVICE ? 0 : all.memory.optimizer;
    pdl_plan_destroy(plan);
    return !status &&
           all.memory.saved_activations - trial->projection.memory.saved_activations + state <= device->host_bytes;
}

/* *trial becomes the candidate with state sharded so and the fewest blocks of this policy; its plan is NULL where that is not possible. */
static pdl_status_t relax(const pdl__searcher_t *s, const natural_t *natural, const pdl_candidate_t *c,
                          int sharding, pdl_memory_policy_t policy, pdl_candidate_t *trial)
{
    int          most = most_blocks(natural, c->plan), some = 0;
    pdl_status_t status = PDL_OK;

    *trial = *c;
    trial->plan = NULL;
    if (most > 1) status = pdl_plan_copy(c->plan, &trial->plan);
    if (status || trial->plan == NULL) return status;
    trial->plan->sharding = trial->config.sharding = (pdl_sharding_t)sharding;
    status = fewest(s, natural, most, policy, trial->plan, &some);
    if (!status && some > 0 && some < most) {
        trial->config.recomputed_blocks = some;
        trial->config.offloaded = policy == PDL_MEMORY_SWAP;
        return pdl__time_candidate(s, trial);
    }
    pdl_plan_destroy(trial->plan);
    trial->plan = NULL;
    return status;
}

static int weight_of(const pdl_candidate_t *c)
{
    return (int)c->config.sharding + c->config.offloaded;
}

/* Takes the trial in place of the best of those of c where it is better, and frees the other. */
static void compare(const pdl_candidate_t *c, const pdl_candidate_t *trial, pdl_candidate_t *best)
{
    bool better = trial->plan != NULL && trial->projection.fits &&
                  trial->score < best->score * (weight_of(trial) > weight_of(best) ? PDL__HEAVIER : 1);

    if (!better) {
        pdl_plan_destroy(trial->plan);
        return;
    }
    if (best->plan != c->plan) pdl_plan_destroy(best->plan);
    *best = *trial;
}

pdl_status_t pdl__relax_recompute(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    static const pdl_memory_policy_t policies[] = {PDL_MEMORY_RECOMPUTE, PDL_MEMORY_SWAP};
    pdl_candidate_t                  best = *c, trial;
    natural_t                        natural;
    int last = c->config.data > 1 ? PDL_SHARDING_COUNT - 1 : (int)c->config.sharding, ways = may_offload(s) ? 2 : 1;

    if (!may_relax(s, c)) return PDL_OK;
    pdl_status_t status = find_natural(s, c->plan, &natural);
    /* What is sharded more leaves room for more blocks. */
    for (int way = 0; way < ways; way++)
        for (int sharding = (int)c->config.sharding; sharding <= last && status != PDL_ERR_NOMEM; sharding++) {
            status = relax(s, &natural, c, sharding, policies[way], &trial);
            if (status || (way > 0 && trial.plan != NULL && !host_has_room(s, &trial))) {
                pdl_plan_destroy(trial.plan);
                trial.plan = NULL;
            }
            compare(c, &trial, &best);
        }
    if (best.plan != c->plan) pdl_plan_destroy(c->plan);
    *c = best;
    free(natural.begin);
    return status == PDL_ERR_NOMEM ? status : PDL_OK;
}
