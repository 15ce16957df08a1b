/*
 * Nodes of an exact search: bounds first, then what is left is evaluated. Every bound is below what the closed form gives.
 */
#include "oracle/search/exact_walk.h"
#include <math.h>
#include <string.h>

/* Sums that are taken in another order differ in their last digits. */
#define ROUNDING (1 - 1e-9)

/* A node that is looked at. */
typedef struct visit {
    pdl__exact_walk_t *walk;
    int                node;
    pdl__choices_t     choices;
    pdl_config_t       config;
    pdl_case_t         c;
    pdl_profile_t     *profile;
    int64_t            leaf;
} visit_t;

/* The score of so many seconds, where these decide. */
static double score_of(const visit_t *v, double seconds, const pdl_projection_t *p)
{
    const pdl_request_t *r = v->walk->request;
    double               batch = (double)v->config.batch, pe = (double)r->pe;
    bool                 epochs = r->dataset != NULL && r->dataset->samples > 0;
    double               time = seconds / batch * (epochs ? (double)r->dataset->samples : 1);

    switch (r->goal) {
    case PDL_GOAL_MEMORY: return p != NULL ? p->memory_bytes : 0;
    case PDL_GOAL_COST: return epochs ? pe * ceil(time / 60) : pe * time;
    case PDL_GOAL_ENERGY: return p != NULL ? p->energy_j / batch : 0;
    default: return time;
    }
}

/* What a score must not be above. */
static double threshold_of(const pdl__exact_walk_t *walk)
{
    bool full = walk->count == walk->top;

    return full && walk->best[walk->top - 1].point.score < walk->threshold ? walk->best[walk->top - 1].point.score
                                                                           : walk->threshold;
}

static bool beyond(const visit_t *v, double seconds)
{
    return !v->walk->exhaustive && score_of(v, seconds * ROUNDING, NULL) > threshold_of(v->walk);
}

/* Of one micro-batch through all layers. */
static double run_seconds(const visit_t *v)
{
    const pdl_sums_t nothing = {.forward = 0};

    return pdl__run_seconds(&v->c, &nothing, &v->profile->prefix[v->profile->partition->layer_count]);
}

/* No stage has less than its share of the weights, and the heaviest exchanges them within the step; known where all of them are
   exchanged over the data axis alone. */
static double exchange_seconds(const visit_t *v)
{
    const pdl_sums_t    *all = &v->profile->prefix[v->profile->partition->layer_count];
    double               stages = (double)v->c.pipeline;
    pdl_sums_t           share = {.data_weights = all->data_weights / stages};
    pdl__gradient_cost_t exchange;

    if (v->c.data == 1 || v->c.run_mode == PDL_INFERENCE || all->wide_weights > 0 ||
        all->data_weights < all->weights * (1 - 1e-9) || (v->c.hybrid && v->walk->oracle->p.full_gradients))
        return 0;
    if (pdl__gradient_total(v->walk->oracle, &v->c, &share, v->profile->compute.item_bytes, &exchange)) return 0;
    return exchange.total_s;
}

static bool states_fit(const visit_t *v)
{
    const pdl_sums_t *all = &v->profile->prefix[v->profile->partition->layer_count];
    double            bytes = pdl__least_state_bytes(&v->c) * all->weights / (double)v->c.pipeline;

    return bytes * ROUNDING <= pdl__memory_room(v->walk->oracle, v->c.pipeline);
}

static void remove_by(visit_t *v, pdl_exact_bound_t bound, int64_t leaves)
{
    v->walk->removed[bound] += leaves;
    v->leaf += leaves;
}

static void note(visit_t *v, const pdl_projection_t *projection)
{
    pdl__exact_walk_t *walk = v->walk;
    pdl__exact_entry_t found = {.node = v->node, .leaf = v->leaf};
    double             score = score_of(v, projection->total_s, projection);

    if (!projection->fits) {
        walk->too_large++;
        return;
    }
    if (!walk->exhaustive && score > threshold_of(walk)) return;
    found.point = (pdl_exact_point_t){.config = v->config, .projection = *projection, .score = score};
    pdl__exact_keep(walk, &found);
    if (walk->exhaustive) walk->status = pdl__exact_offer(walk, &found);
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT;
}

/* Whether a bound would have been wrong about it. */
static bool breaks_bounds(visit_t *v, const pdl_projection_t *projection)
{
    double       passes = run_seconds(v) * (double)v->c.micro_batches / (double)v->c.pipeline, bubble = 0;
    pdl_config_t config = v->config;

    config.order = PDL_ORDER_PIPELINE_DATA_INNER;
    config.sharding = PDL_SHARDING_NONE;
    if (v->c.pipeline > 1 && pdl__replay_bound(v->walk->oracle, &config, &bubble)) bubble = 0;
    return fmax(fmax(passes, bubble), exchange_seconds(v)) * ROUNDING > projection->total_s ||
           (projection->fits && !states_fit(v));
}

static void evaluate(visit_t *v)
{
    pdl__pipeline_cut_t cut;
    pdl_projection_t    projection;
    pdl_status_t        status = pdl__case_stages(&v->c, v->profile, NULL, &cut);

    if (!status) status = pdl__project_case(v->walk->oracle, &v->c, v->profile, &cut, &projection);
    v->walk->evaluated++;
    if (!status && v->walk->checks) v->walk->broken += breaks_bounds(v, &projection);
    if (!status)
        note(v, &projection);
    else if (is_refusal(status))
        v->walk->impossible++;
    else
        v->walk->status = status;
    v->leaf++;
}

/* One recomputation and schedule: what is left are orders and shardings. */
static void visit_schedule(visit_t *v, pdl_pipeline_schedule_t schedule, int virtual_stages)
{
    pdl__exact_walk_t *walk = v->walk;
    double             seconds = 0;

    v->config.schedule = schedule;
    v->config.virtual_stages = virtual_stages;
    v->config.order = PDL_ORDER_PIPELINE_DATA_INNER;
    v->config.sharding = PDL_SHARDING_NONE;
    if (!walk->exhaustive && v->config.pipeline > 1 && !pdl__replay_bound(walk->oracle, &v->config, &seconds) &&
        beyond(v, seconds)) {
        remove_by(v, PDL_BOUND_BUBBLE, v->choices.orders * v->choices.shardings);
        return;
    }
    for (int order = 0; order < v->choices.orders; order++)
        for (int sharding = 0; sharding < v->choices.shardings && !walk->status; sharding++) {
            v->config.order = (pdl_order_t)order;
            v->config.sharding = (pdl_sharding_t)sharding;
            pdl__case_of_config(walk->oracle, &v->config, walk->request->dataset, &v->c);
            if (!walk->exhaustive && !states_fit(v))
                remove_by(v, PDL_BOUND_MEMORY, 1);
            else if (!walk->exhaustive && beyond(v, exchange_seconds(v)))
                remove_by(v, PDL_BOUND_COMMUNICATION, 1);
            else
                evaluate(v);
        }
}

static int64_t schedules_of(const pdl__choices_t *choices)
{
    return choices->plain + (choices->virtual_stages > 1 ? choices->virtual_stages - 1 : 0);
}

static void visit_recompute(visit_t *v, pdl_recompute_t recompute)
{
    static const pdl_pipeline_schedule_t plain[] = {PDL_SCHEDULE_1F1B, PDL_SCHEDULE_GPIPE};
    const pdl__choices_t                *choices = &v->choices;

    v->config.recompute = v->c.recompute = recompute;
    if (beyond(v, run_seconds(v) * (double)v->config.micro_batches / (double)v->config.pipeline)) {
        remove_by(v, PDL_BOUND_COMPUTE, schedules_of(choices) * choices->orders * choices->shardings);
        return;
    }
    for (int i = 0; i < choices->plain && !v->walk->status; i++) visit_schedule(v, plain[i], 1);
    for (int k = 2; k <= choices->virtual_stages && !v->walk->status; k++)
        visit_schedule(v, PDL_SCHEDULE_INTERLEAVED, k);
}

/* The node with its costs; false: it is not possible, or there was an error. */
static bool prepare(visit_t *v)
{
    pdl__exact_walk_t *walk = v->walk;

    v->config = walk->list->node[v->node].config;
    v->choices = pdl__choices_of(walk->oracle, walk->list->runs, &v->config);
    pdl__case_of_config(walk->oracle, &v->config, walk->request->dataset, &v->c);
    pdl_status_t status = pdl__check_config(walk->oracle, &v->config, &v->c);
    if (!status) status = pdl__config_profile(walk->oracle, &v->config, &v->c, &v->profile);
    if (!status) return true;
    if (is_refusal(status)) {
        walk->evaluated += walk->list->node[v->node].leaves;
        walk->impossible += walk->list->node[v->node].leaves;
    } else {
        walk->status = status;
    }
    return false;
}

/* Where smaller micro-batches take no less time for a sample, what a larger one takes bounds them, before their costs are known. */
static bool too_slow_in_parts(const visit_t *v, const pdl__node_t *node)
{
    double samples = (double)node->config.micro_batches * node->micro_batch / (double)node->config.pipeline;

    return v->walk->rate_s > 0 && beyond(v, v->walk->rate_s * samples);
}

void pdl__exact_visit(pdl__exact_walk_t *walk, int node)
{
    visit_t v = {.walk = walk, .node = node, .config = walk->list->node[node].config};

    if (too_slow_in_parts(&v, &walk->list->node[node])) {
        remove_by(&v, PDL_BOUND_COMPUTE, walk->list->node[node].leaves);
        return;
    }
    if (!prepare(&v)) return;
    if (pdl__parts_take_longer(walk->oracle, v.config.precision)) {
        double rate = run_seconds(&v) / v.c.micro_batch;
        walk->rate_s = rate > walk->rate_s ? rate : walk->rate_s;
    }
    for (int r = 0; r < v.choices.recomputes && !walk->status; r++) visit_recompute(&v, v.choices.recompute[r]);
}

bool pdl__exact_likely(const pdl__exact_walk_t *walk, int node)
{
    const pdl__node_t *n = &walk->list->node[node];
    int64_t            inner = n->config.spatial * n->config.tensor;

    return n->micro_batch <= 2 && inner <= pdl_system_group_size(walk->oracle->system, 0);
}

void pdl__exact_glance(pdl__exact_walk_t *walk, int node)
{
    visit_t v = {.walk = walk, .node = node};

    if (!prepare(&v)) return;
    v.config.sharding = v.choices.shardings > 1 ? PDL_SHARDING_ZERO1 : PDL_SHARDING_NONE;
    for (int r = 0; r < v.choices.recomputes; r++) {
        v.config.recompute = v.choices.recompute[r];
        pdl__case_of_config(walk->oracle, &v.config, walk->request->dataset, &v.c);
        evaluate(&v);
    }
}
