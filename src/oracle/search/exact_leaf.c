/*
 * What configurations of a node share is computed once: costs of layers and stages for all of them, the exchange of gradients for
 * all schedules that have as many virtual stages or more than one, passes for all shardings, memory for all orders.
 */
#include "oracle/search/exact_leaf.h"
#include "oracle/project/pipeline_time.h"
#include <stddef.h>
#include <string.h>

/* Nothing that the choice decides is known any more. */
static void forget_exchange(pdl__visit_t *v)
{
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < PDL__EXCHANGES; i++)
            for (int s = 0; s < PDL_SHARDING_COUNT; s++) v->exchange[o][i][s].known = false;
}

static void forget_update(pdl__visit_t *v)
{
    for (int s = 0; s < PDL_SHARDING_COUNT; s++)
        for (int t = 0; t < PDL__TIERS; t++) v->update_s[s][t] = -1;
}

static void forget(pdl__stage_need_t table[PDL_SHARDING_COUNT][PDL__TIERS])
{
    for (int s = 0; s < PDL_SHARDING_COUNT; s++)
        for (int t = 0; t < PDL__TIERS; t++) table[s][t].bytes = -1;
}

void pdl__visit_node(pdl__exact_walk_t *walk, int node, pdl__visit_t *v)
{
    *v = (pdl__visit_t){.walk = walk, .node = &walk->list->node[node], .config = walk->list->node[node].config};
    v->choices = pdl__choices_of(walk->oracle, walk->list, &v->config);
    v->devices = pdl__devices_of(walk->oracle->system, walk->request, &v->config);
}

pdl_status_t pdl__visit_begin(pdl__visit_t *v)
{
    pdl_oracle_t        *oracle = v->walk->oracle;
    const pdl_dataset_t *dataset = v->walk->request->dataset;
    double               staging_s;
    pdl_status_t         status;

    for (int o = 0; o < v->node->orders; o++) {
        v->config.order = v->node->order[o];
        pdl__case_of_config(oracle, &v->config, dataset, &v->in_order[o]);
    }
    v->config.order = v->node->order[0];
    v->c = v->in_order[0];
    status = pdl__check_config(oracle, &v->config, &v->c);
    if (!status) status = pdl__config_profile(oracle, &v->config, &v->c, &v->profile);
    if (status) return status;
    v->input_s = pdl__input_seconds(oracle, &v->c, &staging_s);
    v->rooms = pdl__memory_rooms(oracle, &v->c);
    forget_update(v);
    return PDL_OK;
}

pdl_status_t pdl__visit_recompute(pdl__visit_t *v, pdl_recompute_t recompute)
{
    for (int o = 0; o < v->node->orders; o++) v->in_order[o].recompute = recompute;
    v->c.recompute = recompute;
    forget_exchange(v);
    forget(v->least_held);
    return pdl__visit_least(v);
}

pdl_status_t pdl__visit_schedule(pdl__visit_t *v, pdl_pipeline_schedule_t schedule, int virtual_stages)
{
    for (int o = 0; o < v->node->orders; o++) {
        v->in_order[o].schedule = schedule;
        v->in_order[o].virtual_stages = virtual_stages;
        v->passes[o].known = false;
    }
    pdl__visit_order(v, 0);
    forget(v->held);
    return pdl__case_stages(&v->c, v->profile, NULL, &v->cut);
}

void pdl__visit_order(pdl__visit_t *v, int order)
{
    v->order = order;
    v->c = v->in_order[order];
}

double pdl__visit_bubble(const pdl__visit_t *v, double enough_s)
{
    pdl__runs_t runs = {.c = &v->c, .profile = v->profile, .cut = v->cut.virtual_stages, .enough_s = enough_s};
    double      seconds;

    if (v->c.pipeline == 1 || pdl__pipeline_seconds(&runs, &seconds, NULL)) return 0;
    return seconds;
}

static const pdl__leaf_passes_t *passes_of(pdl__visit_t *v)
{
    pdl__leaf_passes_t *passes = &v->passes[v->order];
    pdl_projection_t    p;

    if (passes->known) return passes;
    memset(&p, 0, offsetof(pdl_projection_t, findings));
    passes->status = pdl__project_passes(v->walk->oracle, &v->c, v->profile, &v->cut, &passes->drain_s, &p);
    passes->parts = (pdl__parts_t){.compute_s = p.compute_s, .bubble_s = p.bubble_s, .input_s = v->input_s};
    memcpy(passes->parts.comm, p.comm, sizeof(p.comm));
    passes->known = true;
    return passes;
}

static const pdl__leaf_exchange_t *exchange_of(pdl__visit_t *v)
{
    int                   kind = v->c.virtual_stages > 1 ? 1 : pdl__divides_passes(&v->c) ? 2 : 0;
    pdl__leaf_exchange_t *e = &v->exchange[v->order][kind][v->c.sharding];

    if (e->known) return e;
    e->status = pdl__gradient_exchange(v->walk->oracle, &v->c, v->profile, v->cut.ranks, &e->cost);
    e->known = true;
    return e;
}

static double update_of(pdl__visit_t *v)
{
    double *seconds = &v->update_s[v->c.sharding][v->c.optimizer_tier];

    if (*seconds < 0) *seconds = pdl__longest_update(v->walk->oracle, &v->c, v->profile, v->cut.ranks);
    return *seconds;
}

static pdl_status_t measure(pdl__visit_t *v, const pdl_case_t *c, const pdl_stages_t *stages,
                            pdl__stage_need_t *held)
{
    pdl_projection_t p;
    pdl_status_t     status = pdl__project_memory(v->walk->oracle, c, v->profile, stages, &p);

    if (!status) *held = (pdl__stage_need_t){p.memory_bytes, p.memory_room};
    return status;
}

static pdl_status_t memory_of(pdl__visit_t *v, pdl__stage_need_t *held)
{
    pdl__stage_need_t *known = &v->held[v->c.sharding][v->c.optimizer_tier];
    pdl_status_t       status = known->bytes < 0 ? measure(v, &v->c, v->cut.ranks, known) : PDL_OK;

    *held = *known;
    return status;
}

pdl_status_t pdl__visit_least_memory(pdl__visit_t *v, pdl__stage_need_t *held)
{
    pdl__stage_need_t  *known = &v->least_held[v->c.sharding][v->c.optimizer_tier];
    pdl_case_t          c = v->c;
    const pdl_stages_t *stages;
    pdl_status_t        status = PDL_OK;

    if (known->bytes < 0) {
        c.schedule = PDL_SCHEDULE_1F1B;
        c.virtual_stages = 1;
        status = pdl__profile_stages(&c, v->profile, c.pipeline, NULL, &stages);
        if (!status) status = measure(v, &c, stages, known);
    }
    *held = *known;
    return status;
}

pdl_status_t pdl__visit_leaf(pdl__visit_t *v, pdl__leaf_t *leaf)
{
    const pdl_oracle_t         *oracle = v->walk->oracle;
    const pdl__leaf_passes_t   *passes = passes_of(v);
    const pdl__leaf_exchange_t *exchange = exchange_of(v);

    if (passes->status) return passes->status;
    if (exchange->status) return exchange->status;
    pdl__stage_need_t held;
    pdl_status_t      status = memory_of(v, &held);
    pdl__beside_t     beside = pdl__exchange_beside(oracle, v->cut.ranks, &exchange->cost, passes->drain_s);
    pdl__parts_t      parts = passes->parts;
    parts.compute_s += update_of(v);
    parts.compute_s += beside.slowdown_s;
    parts.comm[PDL_COMM_GRADIENT] += beside.exposed_s;
    pdl__sum_t sum = pdl__add_up(oracle, &v->c, &parts);
    leaf->total_s = sum.total_s;
    leaf->energy_j = sum.energy_j;
    leaf->memory_bytes = held.bytes;
    leaf->fits = held.bytes <= held.room;
    return status;
}
