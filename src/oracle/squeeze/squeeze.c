/*
 * Plans that have to do with less memory: state that is sharded in other ways, state and weights on the host or on disk, each with the
 * policies of policies.c. The fastest that fits is taken.
 */
#include "oracle/squeeze/counted.h"
#include "oracle/squeeze/policies.h"
#include <math.h>
#include <stdio.h>

/* Where the optimizer's state and weights are, in the order in which that is tried. */
typedef struct tiers {
    pdl_tier_t optimizer, weights;
} tiers_t;

/* Disks are slower than memory: they are asked for where that of the host is known, and too small. */
static bool may_try(const pdl__searcher_t *s, const pdl_plan_t *plan, const tiers_t *tiers)
{
    if (tiers->optimizer == PDL_TIER_DISK && pdl__host_capacity(s) <= 0) return false;
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
    if (s->request->max_memory > 0 || bytes <= pdl__counted_capacity(s) || pdl__host_capacity(s) <= 0 ||
        bytes <= pdl__host_capacity(s))
        return false;
    snprintf(reason, sizeof(reason), "weights alone take %s per device, of %s, and of the host's %s",
             pdl_format_bytes(bytes, need), pdl_format_bytes(pdl__counted_capacity(s), have),
             pdl_format_bytes(pdl__host_capacity(s), host));
    pdl__refuse_candidate(c, reason);
    return true;
}

/* Blocks are looked at where nothing fits yet, and of what is the fastest so far. */
static bool is_tried(const pdl_plan_t *plan, pdl__effort_t effort, const pdl_candidate_t *c, bool found)
{
    return effort == PDL__EFFORT_PARTS || !found ||
           (plan->sharding == c->plan->sharding && plan->optimizer_tier == c->plan->optimizer_tier &&
            plan->weights_tier == c->plan->weights_tier);
}

/* A plan on the device, then with the optimizer's state elsewhere, then with weights too, where that is all that helps, or faster than
   what makes room on the device. */
static pdl_status_t try_tiers(const pdl__searcher_t *s, pdl_candidate_t *original, const tiers_t *given,
                              pdl__effort_t effort, pdl_candidate_t *c, pdl__need_t *least, bool *found)
{
    const tiers_t all[] = {*given,
                           {PDL_TIER_HOST, PDL_TIER_DEVICE},
                           {PDL_TIER_DISK, PDL_TIER_DEVICE},
                           {PDL_TIER_HOST, PDL_TIER_HOST},
                           {PDL_TIER_DISK, PDL_TIER_HOST}};
    bool          linked = s->oracle->system->device.host_link.bytes_per_s[PDL_HOST_BOTH] > 0;
    pdl_status_t  status = PDL_OK;

    for (size_t t = 0; t < sizeof(all) / sizeof(*all) && !status && c->possible; t++) {
        bool loses = false;
        if (t > 0 && (!linked || !may_try(s, original->plan, &all[t]))) continue;
        if ((*found && pdl__is_lightest(s, c)) || pdl__search_stopped(s)) break;
        original->plan->optimizer_tier = original->config.optimizer_tier = all[t].optimizer;
        original->plan->weights_tier = all[t].weights;
        if (!is_tried(original->plan, effort, c, *found)) continue;
        if (*found) status = pdl__cannot_win(s, original, c, &loses);
        if (!status && !loses) status = pdl__try_policies(s, original, effort, c, least, found);
    }
    return status;
}

/* The model may have found room for more than there is, or for less: state is sharded in other ways too. */
static pdl_status_t try_shardings(const pdl__searcher_t *s, pdl_candidate_t *original, pdl__effort_t effort,
                                  pdl_candidate_t *c, pdl__need_t *least, bool *found)
{
    const tiers_t  tiers = {original->plan->optimizer_tier, original->plan->weights_tier};
    pdl_sharding_t given = original->plan->sharding;
    int            ways = pdl_mesh_extent(&original->plan->mesh, PDL_AXIS_DATA) > 1 ? PDL_SHARDING_COUNT : 0;
    pdl_status_t   status = try_tiers(s, original, &tiers, effort, c, least, found);

    if (!c->possible) return status;
    for (int z = 0; z < ways && !status; z++) {
        if (z == (int)given) continue;
        original->plan->sharding = original->config.sharding = (pdl_sharding_t)z;
        status = try_tiers(s, original, &tiers, effort, c, least, found);
        /* What the trainer does not run with it may do without. */
        c->possible = true;
    }
    original->plan->sharding = original->config.sharding = given;
    original->plan->optimizer_tier = original->config.optimizer_tier = tiers.optimizer;
    original->plan->weights_tier = tiers.weights;
    return status;
}

/* Not possible at the least memory that is found. */
static pdl_status_t refuse_all(const pdl__searcher_t *s, pdl_candidate_t *original, pdl__need_t *least,
                               pdl_candidate_t *c)
{
    if (pdl_mesh_extent(&original->plan->mesh, PDL_AXIS_DATA) > 1)
        original->plan->sharding = original->config.sharding = PDL_SHARDING_ZERO3;
    pdl_status_t status = pdl__lower_need(s, original, least);
    if (!status) pdl__refuse_memory(s, least, c);
    return status;
}

pdl_status_t pdl__squeeze_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    bool            found = false;
    pdl__need_t     least = {c->projection.memory_bytes, INFINITY};
    pdl_candidate_t original = *c;
    pdl_status_t    status = pdl_plan_copy(c->plan, &original.plan);

    if (status) return status;
    if (!exceeds_all(s, original.plan, c)) {
        for (int e = 0; e < PDL__EFFORT_COUNT && !status && c->possible; e++)
            status = try_shardings(s, &original, (pdl__effort_t)e, c, &least, &found);
        if (!status && found) status = pdl__try_host_update(s, c);
        if (!status && !found && c->possible && pdl__search_stopped(s))
            pdl__refuse_candidate(c, "the search was ended before a plan that fits was found");
        else if (!status && !found && c->possible)
            status = refuse_all(s, &original, &least, c);
    }
    pdl_plan_destroy(original.plan);
    return status;
}
