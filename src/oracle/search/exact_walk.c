/*
 * Nodes of an exact search: bounds first, then what is left is evaluated. Every bound is below what the closed form gives.
 */
#include "oracle/search/exact_leaf.h"

#include <math.h>
#include <string.h>

/* Sums that are taken in another order differ in their last digits. */
#define ROUNDING (1 - 1e-9)

/* The score of so many seconds, where these decide. */
static double score_of(const pdl__visit_t *v, double seconds, const pdl__leaf_t *leaf)
{
    return pdl__goal_score(v->walk->request, &v->config, v->devices, seconds, leaf != NULL ? leaf->memory_bytes : 0,
                           leaf != NULL ? leaf->energy_j : 0);
}

/* What a score must not be above. */
static double threshold_of(const pdl__exact_walk_t *walk)
{
    bool full = walk->count == walk->top;

    return full && walk->best[walk->top - 1].score < walk->threshold ? walk->best[walk->top - 1].score
                                                                     : walk->threshold;
}

static bool beyond(const pdl__visit_t *v, double seconds)
{
    return !v->walk->exhaustive && score_of(v, seconds * ROUNDING, NULL) > threshold_of(v->walk);
}

/* A step that takes longer is beyond; 0: not known. */
static double enough_seconds(const pdl__visit_t *v)
{
    double threshold = threshold_of(v->walk);

    return v->walk->request->goal == PDL_GOAL_TIME && isfinite(threshold)
               ? threshold / (score_of(v, 1, NULL) * ROUNDING * ROUNDING)
               : 0;
}

static const pdl_sums_t *all_layers(const pdl__visit_t *v)
{
    return &v->profile->prefix[v->profile->partition->layer_count];
}

/* No stage has less than its share of the weights, and the heaviest exchanges them within the step; known where all of them are
   exchanged over the data axis alone. */
static double exchange_seconds(const pdl__visit_t *v)
{
    const pdl_sums_t    *all = all_layers(v);
    double               stages = (double)v->c.pipeline;
    pdl_sums_t           share = {.data_weights = all->data_weights / stages};
    pdl__gradient_cost_t exchange;

    if (v->c.data == 1 || v->c.run_mode == PDL_INFERENCE || all->wide_weights > 0 ||
        all->data_weights < all->weights * (1 - 1e-9) || (v->c.hybrid && v->walk->oracle->p.full_gradients))
        return 0;
    if (pdl__gradient_total(v->walk->oracle, &v->c, &share, v->profile->compute.item_bytes, &exchange)) return 0;
    return exchange.total_s;
}

static bool states_fit(const pdl__visit_t *v)
{
    const pdl_sums_t *all = all_layers(v);

    return (pdl__least_state_bytes(&v->c) * all->weights + pdl__weight_bytes(&v->c) * all->frozen) * ROUNDING <=
           v->rooms;
}

/* Whether the sharding and place of state fit with some schedule: none holds fewer micro-batches than 1F1B. */
static bool some_schedule_fits(pdl__visit_t *v)
{
    pdl__stage_need_t held;

    if (!states_fit(v)) return false;
    return pdl__visit_least_memory(v, &held) || held.bytes * ROUNDING <= held.room;
}

static bool nothing_fits(pdl__visit_t *v)
{
    for (int sharding = 0; sharding < v->choices.shardings; sharding++)
        for (int tier = 0; tier < v->choices.tiers; tier++) {
            v->c.sharding = (pdl_sharding_t)sharding;
            v->c.optimizer_tier = (pdl_tier_t)tier;
            if (some_schedule_fits(v)) return false;
        }
    return true;
}

static void remove_by(pdl__visit_t *v, pdl_exact_bound_t bound, int64_t leaves)
{
    v->walk->removed[bound] += leaves;
    v->leaf += leaves;
}

/* What is left open by a node, as the latest leaf has it. */
static pdl_config_t config_of(const pdl__visit_t *v)
{
    pdl_config_t config = v->config;

    config.order = v->node->order[v->order];
    config.schedule = v->c.schedule;
    config.virtual_stages = v->c.virtual_stages;
    config.recompute = v->c.recompute;
    config.sharding = v->c.sharding;
    config.optimizer_tier = v->c.optimizer_tier;
    return config;
}

static void note(pdl__visit_t *v, const pdl__leaf_t *leaf)
{
    pdl__exact_walk_t *walk = v->walk;
    pdl__exact_entry_t found;

    found.score = score_of(v, leaf->total_s, leaf);
    found.total_s = leaf->total_s;
    found.memory_bytes = leaf->memory_bytes;
    found.energy_j = leaf->energy_j;
    found.node = (int)(v->node - walk->list->node);
    found.leaf = v->leaf;
    if (!walk->exhaustive && found.score > threshold_of(walk)) return;
    bool better = pdl__exact_is_better(walk, &found);
    bool front = walk->exhaustive && pdl__exact_is_in_front(walk, &found);
    if (better || front) found.config = config_of(v);
    if (better) pdl__exact_keep(walk, &found);
    if (front) walk->status = pdl__exact_offer(walk, &found);
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT;
}

/* Whether a bound would have been wrong about it. */
static bool breaks_bounds(pdl__visit_t *v, const pdl__leaf_t *leaf)
{
    double passes = pdl__divides_passes(&v->c) ? v->least.divided_s
                    : v->c.virtual_stages > 1  ? v->least.interleaved_s
                                               : v->least.whole_s;

    return fmax(fmax(passes, pdl__visit_bubble(v, 0)), exchange_seconds(v)) * ROUNDING > leaf->total_s ||
           (leaf->fits && !some_schedule_fits(v));
}

static void evaluate(pdl__visit_t *v)
{
    pdl__exact_walk_t *walk = v->walk;
    pdl__leaf_t        leaf;
    pdl_status_t       status = pdl__visit_leaf(v, &leaf);

    walk->evaluated++;
    if (!status && walk->checks) walk->broken += breaks_bounds(v, &leaf);
    if (is_refusal(status))
        walk->impossible++;
    else if (status)
        walk->status = status;
    else if (!leaf.fits)
        walk->too_large++;
    else
        note(v, &leaf);
    v->leaf++;
}

/* One recomputation and schedule: what is left are orders, shardings and where state is. */
static void visit_schedule(pdl__visit_t *v, pdl_pipeline_schedule_t schedule, int virtual_stages)
{
    pdl__exact_walk_t    *walk = v->walk;
    const pdl__choices_t *choices = &v->choices;
    pdl_status_t          status = pdl__visit_schedule(v, schedule, virtual_stages);
    int64_t               leaves = (int64_t)v->node->orders * choices->shardings * choices->tiers;

    if (status) {
        walk->status = is_refusal(status) ? PDL_OK : status;
        walk->evaluated += leaves;
        walk->impossible += leaves;
        v->leaf += leaves;
        return;
    }
    if (v->config.pipeline > 1 && !walk->exhaustive && beyond(v, pdl__visit_bubble(v, enough_seconds(v)))) {
        remove_by(v, PDL_BOUND_BUBBLE, leaves);
        return;
    }
    for (int order = 0; order < v->node->orders && !walk->status; order++) {
        pdl__visit_order(v, order);
        for (int sharding = 0; sharding < choices->shardings; sharding++) {
            v->c.sharding = (pdl_sharding_t)sharding;
            v->c.optimizer_tier = (pdl_tier_t)(choices->tiers - 1);
            if (!walk->exhaustive && beyond(v, exchange_seconds(v))) {
                remove_by(v, PDL_BOUND_COMMUNICATION, choices->tiers);
                continue;
            }
            for (int tier = 0; tier < choices->tiers && !walk->status; tier++) {
                v->c.optimizer_tier = (pdl_tier_t)tier;
                if (!walk->exhaustive && !some_schedule_fits(v))
                    remove_by(v, PDL_BOUND_MEMORY, 1);
                else
                    evaluate(v);
            }
        }
    }
}

static void visit_recompute(pdl__visit_t *v, pdl_recompute_t recompute)
{
    static const pdl_pipeline_schedule_t plain[] = {PDL_SCHEDULE_1F1B, PDL_SCHEDULE_GPIPE};
    const pdl__choices_t                *choices = &v->choices;
    int64_t schedule = (int64_t)v->node->orders * choices->shardings * choices->tiers; /* configurations */

    v->walk->status = pdl__visit_recompute(v, recompute);
    if (v->walk->status) return;
    if (beyond(v, pdl__least_of_all(v, &v->least))) {
        remove_by(v, PDL_BOUND_COMPUTE, pdl__schedules_of(choices) * schedule);
        return;
    }
    if (!v->walk->exhaustive && nothing_fits(v)) {
        remove_by(v, PDL_BOUND_MEMORY, pdl__schedules_of(choices) * schedule);
        return;
    }
    if (beyond(v, v->least.whole_s))
        remove_by(v, PDL_BOUND_BUBBLE, choices->plain * schedule);
    else
        for (int i = 0; i < choices->plain && !v->walk->status; i++) visit_schedule(v, plain[i], 1);
    if (choices->divided > 0 && beyond(v, v->least.divided_s))
        remove_by(v, PDL_BOUND_BUBBLE, choices->divided * schedule);
    else if (choices->divided > 0 && !v->walk->status)
        visit_schedule(v, PDL_SCHEDULE_ZERO_BUBBLE, 1);
    for (int k = 2; k <= choices->virtual_stages && !v->walk->status; k++)
        visit_schedule(v, PDL_SCHEDULE_INTERLEAVED, k);
}

/* The node with its costs; false: it is not possible, or there was an error. */
static bool prepare(pdl__visit_t *v)
{
    pdl__exact_walk_t *walk = v->walk;
    pdl_status_t       status = pdl__visit_begin(v);

    if (!status) return true;
    if (is_refusal(status)) {
        walk->evaluated += v->node->leaves;
        walk->impossible += v->node->leaves;
    } else {
        walk->status = status;
    }
    return false;
}

void pdl__exact_visit(pdl__exact_walk_t *walk, int node)
{
    pdl__visit_t v;

    pdl__visit_node(walk, node, &v);
    /* Where smaller micro-batches take no less time for a sample, what a larger one takes bounds them, before their costs are known. */
    if (beyond(&v, pdl__rate_seconds(&v))) {
        remove_by(&v, PDL_BOUND_COMPUTE, v.node->leaves);
        return;
    }
    if (!prepare(&v)) return;
    walk->status = pdl__rate_remember(&v);
    for (int r = 0; r < v.choices.recomputes && !walk->status; r++) visit_recompute(&v, v.choices.recompute[r]);
}

bool pdl__exact_likely(const pdl__exact_walk_t *walk, int node)
{
    const pdl__node_t *n = &walk->list->node[node];
    int64_t            inner = n->config.spatial * n->config.tensor;

    /* Two inner axes are as many nodes again to price, and lower what has to be beaten by little. */
    return n->micro_batch <= 2 && n->stride == 1 && (n->config.spatial == 1 || n->config.tensor == 1) &&
           inner <= pdl_system_group_size(walk->oracle->system, 0);
}

void pdl__exact_glance(pdl__exact_walk_t *walk, int node)
{
    pdl__visit_t v;

    pdl__visit_node(walk, node, &v);
    if (!prepare(&v)) return;
    for (int r = 0; r < v.choices.recomputes; r++) {
        walk->status = pdl__visit_recompute(&v, v.choices.recompute[r]);
        if (walk->status) return;
        if (beyond(&v, v.least.whole_s)) continue;
        if (pdl__visit_schedule(&v, PDL_SCHEDULE_1F1B, 1)) continue;
        pdl__visit_order(&v, 0);
        v.c.sharding = v.choices.shardings > 1 ? PDL_SHARDING_ZERO1 : PDL_SHARDING_NONE;
        evaluate(&v);
    }
}
