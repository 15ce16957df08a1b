/*
 * What a plan leaves open is decided once, for a machine: the borders of stages by the times of layers, the schedules of
 * collectives by their prices for the messages that the plan has.
 */
#include "oracle/cost/kept_schedules.h"
#include "oracle/cost/places.h"

#include <paradl/plan/collectives.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIE 1.02 /* prices that differ by less are equal: then the simpler schedule is taken */

static pdl_status_t settle_stages(pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    pdl_projection_t projection;

    if (plan->stages_given || pdl_plan_stage_count(plan) == 1) return PDL_OK;
    pdl_status_t status = pdl_oracle_project(oracle, plan, NULL, &projection);
    plan->stages_given = !status;
    return status;
}

/* A plan that does not say on which parts of a machine its ranks are has them as the machine does. */
static pdl_status_t settle_parts(const pdl_system_t *system, pdl_plan_t *plan)
{
    int          order;
    pdl_status_t status =
        pdl_system_find_order(system, (const char(*)[PDL_PART_NAME])plan->part, plan->part_count, &order);

    if (status) return status;
    pdl__name_parts(system, order, plan);
    pdl_oracle_places(system, order, &plan->mesh, plan->stage_devices, sizeof(plan->stage_devices));
    return PDL_OK;
}

/* Collectives of one axis, as the oracle prices them. */
typedef struct question {
    pdl_oracle_t          *oracle;
    const pdl_plan_t      *plan;
    const pdl_plan_uses_t *uses;
    int                    axis;
    double                 item_bytes;
} question_t;

static bool belongs(const question_t *q, const pdl_plan_use_t *use)
{
    return use->axis == q->axis && use->elements > 0;
}

/* Groups over several axes lie one after the other where these are neighbours; the innermost says how far apart ranks are. Where not all
   ranks of the axes take part, as of stages only two share weights, neighbours stand for them, and the others are not there. */
static pdl_group_query_t group_of(const question_t *q, const pdl_plan_use_t *use)
{
    const pdl_mesh_t *mesh = &q->plan->mesh;
    int               innermost = q->axis;
    int64_t           all = 1;

    for (int a = 0; a < mesh->axis_count; a++)
        if (use->axes & 1u << a) {
            innermost = a;
            all *= mesh->axis[a].size;
        }
    return (pdl_group_query_t){pdl_mesh_size(mesh) / all * use->ranks, use->ranks, pdl_mesh_stride(mesh, innermost),
                               false, PDL_PATTERN_RING};
}

/* Vectors in which it is exchanged: gradients in buckets, where they are overlapped, of what a stage has. */
static double vectors_of(const question_t *q, const pdl_plan_use_t *use, double *bytes)
{
    const pdl_parameters_t *p = &q->oracle->p;

    *bytes = use->elements * q->item_bytes;
    if (!use->gradient) return fmax(1, use->times);
    *bytes /= (double)pdl_mesh_extent(&q->plan->mesh, PDL_AXIS_PIPELINE);
    return p->overlap_gradients && p->bucket_bytes > 0 ? fmax(1, ceil(*bytes / p->bucket_bytes)) : 1;
}

static pdl_primitive_t primitive_of(pdl_collective_t collective)
{
    return collective == PDL_COLL_ALLREDUCE        ? PDL_ALLREDUCE
           : collective == PDL_COLL_REDUCE_SCATTER ? PDL_REDUCE_SCATTER
                                                   : PDL_ALLGATHER;
}

/* Adds what a use takes with a schedule; *serves becomes false where there is none for it. */
static pdl_status_t price_use(const question_t *q, const pdl_plan_use_t *use, const pdl_plan_collective_t *named,
                              bool *serves, double *seconds)
{
    pdl_group_query_t query = group_of(q, use);
    pdl_algorithm_t   algorithm;
    pdl_group_t       group;
    double            bytes, vectors = vectors_of(q, use, &bytes);
    pdl_status_t      status = pdl_oracle_group(q->oracle, &query, &group);

    if (!status) status = pdl__schedule_of(q->oracle, &query, use, named, serves, &algorithm);
    if (!status && *serves)
        *seconds += vectors * pdl_collective_seconds(&group, primitive_of(use->collective), &algorithm,
                                                     q->oracle->p.ring_only, bytes / vectors);
    return status;
}

/* Ranks of the axis' largest group that share a node, where several nodes have as many of them; else 0. */
static pdl_status_t nested_ranks(const question_t *q, int64_t *ranks_per_node)
{
    const pdl_plan_use_t *largest = NULL;
    pdl_group_t           group;

    *ranks_per_node = 0;
    for (int i = 0; i < q->uses->count; i++)
        if (belongs(q, &q->uses->use[i]) && (largest == NULL || q->uses->use[i].ranks > largest->ranks))
            largest = &q->uses->use[i];
    if (largest == NULL) return PDL_OK;
    pdl_group_query_t query = group_of(q, largest);
    pdl_status_t      status = pdl_oracle_group(q->oracle, &query, &group);
    if (status) return status;
    int64_t node = (int64_t)group.ranks_per_node;
    if (node > 1 && node < largest->ranks && largest->ranks % node == 0) *ranks_per_node = node;
    return PDL_OK;
}

/* Inside nodes on which collectives were measured nothing is known of other schedules than the one that was. */
static pdl_status_t only_rings(const question_t *q, bool *only)
{
    pdl_status_t status = PDL_OK;

    *only = true;
    for (int i = 0; i < q->uses->count && !status && *only; i++) {
        pdl_group_query_t query = group_of(q, &q->uses->use[i]);
        pdl_group_t       group;

        if (!belongs(q, &q->uses->use[i])) continue;
        status = pdl_oracle_group(q->oracle, &query, &group);
        if (!status) *only = group.fabric_per_byte > 0;
    }
    *only = *only || q->oracle->p.ring_only;
    return status;
}

/* Schedules and their prices, the simplest first. */
enum { MOST = 24 };
typedef struct candidates {
    pdl_plan_collective_t named[MOST];
    double                seconds[MOST], least;
    int                   count;
} candidates_t;

/* Where the schedule serves all collectives of the axis. */
static pdl_status_t add_candidate(const question_t *q, const char *name, int64_t ranks_per_node, candidates_t *list)
{
    pdl_plan_collective_t named = {.ranks_per_node = ranks_per_node,
                                   .density = q->plan->collective[q->axis].density};
    double                seconds = 0;
    bool                  serves = list->count < MOST;
    pdl_status_t          status = PDL_OK;

    snprintf(named.algorithm, sizeof(named.algorithm), "%s", name);
    for (int i = 0; i < q->uses->count && serves && !status; i++)
        if (belongs(q, &q->uses->use[i])) status = price_use(q, &q->uses->use[i], &named, &serves, &seconds);
    if (status || !serves) return status;
    list->named[list->count] = named;
    list->seconds[list->count++] = seconds;
    list->least = fmin(list->least, seconds);
    return PDL_OK;
}

/* The first of the schedules that cost no more than the cheapest. */
static pdl_status_t choose(const question_t *q, pdl_plan_collective_t *chosen)
{
    double       density = q->plan->collective[q->axis].density;
    candidates_t list = {.least = INFINITY};
    int64_t      stride = pdl_mesh_stride(&q->plan->mesh, q->axis), node;
    int64_t      at_switch = pdl__switch_ranks(q->oracle->system, stride);
    bool         rings = false;
    pdl_status_t status = nested_ranks(q, &node);

    if (!status) status = only_rings(q, &rings);
    for (const char *const *name = density > 0 ? pdl_sparse_algorithms : pdl_coll_common();
         !status && *name != NULL; name++) {
        bool nested = density > 0 ? strcmp(*name, "sparse_ring_ring") == 0 : pdl_coll_nested(*name);

        if ((nested && node == 0) || (rings && list.count > 0)) continue;
        status = add_candidate(q, *name, nested ? node : 0, &list);
    }
    for (const char *const *name = pdl_coll_direct(); !status && *name != NULL; name++) {
        char shaped[PDL__DIRECT_NAME];

        if (q->oracle->system->network == NULL || rings || density > 0) continue;
        status = pdl__direct_name(q->oracle->system, stride, *name, shaped);
        if (!status) status = add_candidate(q, shaped, at_switch, &list);
    }
    for (int i = list.count - 1; i >= 0 && !status; i--)
        if (list.seconds[i] <= TIE * list.least) *chosen = list.named[i];
    return status;
}

/* Gradients over several axes have the schedule of one; the others price their share of the sums. */
static void add_shares(const pdl_plan_t *plan, pdl_plan_uses_t *uses)
{
    for (int i = uses->count - 1; i >= 0; i--)
        for (int a = 0; a < plan->mesh.axis_count && uses->count < PDL_PLAN_COLLECTIVES; a++) {
            pdl_plan_use_t share = uses->use[i];

            if (a == share.axis || !(share.axes & 1u << a)) continue;
            share.axis = a;
            share.axes = 1u << a;
            share.ranks = plan->mesh.axis[a].size;
            uses->use[uses->count++] = share;
        }
}

static bool is_open(const pdl_plan_t *plan)
{
    for (int a = 0; a < plan->mesh.axis_count; a++)
        if (plan->mesh.axis[a].size > 1 && plan->collective[a].algorithm[0] == '\0') return true;
    return false;
}

static pdl_status_t settle_collectives(pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    double             samples = (double)plan->batch / (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    pdl_partition_t   *partition = NULL;
    pdl_plan_uses_t   *uses = NULL;
    pdl_compute_cost_t cost;
    pdl_status_t       status = PDL_OK;

    if (!is_open(plan)) return PDL_OK;
    pdl__compute_cost(oracle->system, &oracle->system->device, &oracle->p, plan->precision, &cost);
    uses = malloc(sizeof(*uses));
    if (uses == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the collectives of a plan");
    status = pdl_partition_create(plan, ceil(samples / (double)plan->micro_batches), &partition);
    if (!status) pdl_plan_list_collectives(partition, uses);
    if (!status) add_shares(plan, uses);
    for (int a = 0; a < plan->mesh.axis_count && !status; a++) {
        question_t q = {oracle, plan, uses, a, cost.item_bytes};

        if (plan->mesh.axis[a].size > 1 && plan->collective[a].algorithm[0] == '\0')
            status = choose(&q, &plan->collective[a]);
    }
    pdl_partition_destroy(partition);
    free(uses);
    return status;
}

pdl_status_t pdl_oracle_settle(pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    pdl_status_t status = settle_parts(oracle->system, plan);

    if (!status) status = settle_stages(oracle, plan);
    return status ? status : settle_collectives(oracle, plan);
}
