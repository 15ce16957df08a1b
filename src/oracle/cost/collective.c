/*
 * Time of collectives on a group of the mesh: alpha-beta forms of ring, tree and hierarchical algorithms
 * (docs/oracle.md, "Collectives") with the self-contention that placement and routes give.
 */
#include "oracle/cost/cost.h"
#include <math.h>
#include <paradl/system/fabric.h>

/* Ports of a node that one group can drive at once: as many as it has members there, unless other groups
   of the same axis want them too. */
static double usable_rails(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *q,
                           int level)
{
    /* Neighbours have one message each, which takes one way. */
    if (q->pattern == PDL_PATTERN_NEIGHBOURS) return 1;
    /* A device with several links inside its node has one per partner. */
    if (level == 0) return fmax(1, fmin(system->level[0].ports, (double)q->size - 1));
    if (!p->multi_rail || q->host_path) return 1;
    double node = (double)pdl_system_group_size(system, 0);
    double stride = (double)q->stride;
    double members = stride < node ? fmin((double)q->size, floor(node / stride)) : 1;
    double groups = fmin(stride, node);
    double rails = fmin(members, floor(system->level[1].ports / groups));
    return rails > 1 ? rails : 1;
}

static void link_speed(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *q, int level,
                       double *step_s, double *seconds_per_byte)
{
    const pdl_level_t *l = q->host_path ? &system->host_level[level] : &system->level[level];
    double             efficiency = level == 0 ? p->fabric_efficiency : p->network_efficiency;
    double             step = level == 0 ? p->fabric_step_s : p->network_step_s;

    if (q->host_path) {
        efficiency = p->host_efficiency;
        step = p->host_step_s;
    }
    *step_s = step > 0 ? step : l->latency_s;
    *seconds_per_byte = 1.0 / (efficiency * l->bandwidth_bytes_per_s);
    /* Inside a node a rank drives all of its links at once. */
    if (level == 0 && !q->host_path) *seconds_per_byte /= usable_rails(system, p, q, 0);
}

/* Between nodes: a ring for each port that the group can drive, or, where groups that leave the node at neighbouring devices
   share a port, one that leaves it at each of its devices, so that all of them share all ports. Every ring passes through
   every device: together they are no faster than the link of a device. */
static void spread_over_ports(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *q,
                              const pdl_contention_answer_t *answer, pdl_group_t *group)
{
    double groups = fmin((double)q->stride, (double)pdl_system_group_size(system, 0));
    double shared = fmax(1 / group->ranks_per_node, groups / fmax(1, system->level[1].ports));

    if (answer->phi > 1 && answer->bottleneck_level == 1 && shared < answer->phi && group->ranks_per_node > 1 &&
        p->multi_rail && !q->host_path && q->pattern == PDL_PATTERN_RING) {
        group->rails = group->ranks_per_node;
        group->seconds_per_byte *= shared / answer->phi;
    } else {
        group->seconds_per_byte /= group->rails;
    }
    double link = 1 / (p->fabric_efficiency * system->level[0].bandwidth_bytes_per_s);
    if (group->rails <= 1 || link <= group->seconds_per_byte) return;
    group->lone_per_byte = group->seconds_per_byte;
    group->seconds_per_byte = link;
}

/* Groups inside a node on which collectives were measured. */
static void set_fabric(const pdl_system_t *system, const pdl_group_query_t *q, pdl_group_t *group)
{
    int64_t          node = pdl_system_group_size(system, 0), here = q->pe_count < node ? q->pe_count : node;
    pdl_fabric_use_t use = {(int)q->size, (int)q->stride, (int)(here / q->size), 2};
    double           at_none, term[PDL_FABRIC_TERMS];

    if (system->fabric == NULL || q->host_path || q->pattern != PDL_PATTERN_RING || group->level > 0 ||
        q->size < 2 || system->level[0].fanout != node)
        return;
    if (use.groups < 1) use.groups = 1;
    at_none = pdl_fabric_seconds(system->fabric, &use, 0);
    pdl_fabric_terms(system->fabric, &use, 1, term);
    group->fabric_startup_s = system->fabric->value[PDL_FABRIC_STARTUP];
    group->fabric_steps_s = at_none - group->fabric_startup_s;
    group->fabric_per_byte = term[PDL_FABRIC_LINK] * system->fabric->value[PDL_FABRIC_LINK] +
                             term[PDL_FABRIC_PASS] * system->fabric->value[PDL_FABRIC_PASS];
}

/* Between groups that a network of any kind joins: there, one ring takes one way, and what others do is counted. */
static bool on_network(const pdl_system_t *system, const pdl_group_t *group)
{
    return system->network != NULL && group->ranks > 1 && group->level == system->level_count - 1;
}

pdl_status_t pdl__group(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *query,
                        pdl_group_t *group)
{
    pdl_contention_query_t  contention = {query->pe_count, query->size,     query->stride, 0,
                                          query->pattern,  query->host_path};
    pdl_contention_answer_t answer = {.phi = 1};
    double                  node = (double)pdl_system_group_size(system, 0);

    if (query->size > 1) {
        pdl_status_t status = pdl_contention_explain(system, &contention, &answer);
        if (status) return status;
    }
    *group = (pdl_group_t){.ranks = (double)query->size, .phi = answer.phi, .level = answer.level};
    group->kappa = system->level[answer.level].congestion > 1 ? system->level[answer.level].congestion : 1;
    link_speed(system, p, query, answer.level, &group->step_s, &group->seconds_per_byte);
    /* Against its level's own links: phi, and more where the route to that level is narrower than they are. */
    const pdl_level_t *levels = query->host_path ? system->host_level : system->level;
    if (query->size > 1)
        group->seconds_per_byte *= answer.seconds_per_byte * levels[answer.level].bandwidth_bytes_per_s;
    group->ranks_per_node =
        (double)query->stride < node ? fmin(group->ranks, floor(node / (double)query->stride)) : 1;
    group->rails = answer.level == 0 || answer.phi <= 1 ? usable_rails(system, p, query, answer.level) : 1;
    if (on_network(system, group)) {
        group->step_s += answer.latency_s;
        group->rails = 1;
    } else if (answer.level > 0) {
        spread_over_ports(system, p, query, &answer, group);
    }
    group->nodes = ceil(group->ranks / group->ranks_per_node);
    link_speed(system, p, query, 0, &group->node_step_s, &group->node_seconds_per_byte);
    set_fabric(system, query, group);
    if (!on_network(system, group) || query->pattern != PDL_PATTERN_RING || query->host_path) return PDL_OK;
    return pdl__count_sums(system, p, query, group);
}

/* Several rings over the links of the same devices: while one starts a step the others move bytes, so that a step takes as long as
   one ring alone needs, or as the link is busy with all of them, but for the start-ups inside the node, which they share. */
static double ring_seconds(const pdl_group_t *g, double bytes)
{
    double piece = bytes / g->ranks, busy = piece * g->seconds_per_byte, step = g->step_s + busy;

    if (g->lone_per_byte > 0) {
        double inside = (g->ranks_per_node - 1) / g->rails * g->node_step_s;
        step = fmin(step, fmax(g->step_s + piece * g->lone_per_byte, busy + inside));
    }
    return (g->ranks - 1) * step;
}

/* Reduce-scatter or allgather (1), allreduce (2): as measured, or by rings. */
static double rings_seconds(const pdl_group_t *g, int vectors, double bytes)
{
    if (g->fabric_per_byte <= 0) return vectors * ring_seconds(g, bytes);
    return g->fabric_startup_s + 0.5 * vectors * (g->fabric_steps_s + bytes * g->fabric_per_byte);
}

/* Double binary tree over the nodes, chains inside them. */
static double tree_allreduce(const pdl_group_t *g, double bytes)
{
    return 2 * log2(g->nodes) * g->step_s + 2 * (g->ranks_per_node - 1) * g->node_step_s +
           2 * bytes * (g->ranks - 1) / g->ranks * g->seconds_per_byte;
}

/* Reduce-scatter inside the node, one per local rank over the nodes at once, and for an allreduce (2 vectors) all of it back; an
   allgather is the way back alone. The concurrent rings over the nodes share the ports that a single ring drives together, so their
   total is what counts. */
static double hierarchical_seconds(const pdl_group_t *g, int vectors, double bytes)
{
    double inside =
        (g->ranks_per_node - 1) * (g->node_step_s + bytes / g->ranks_per_node * g->node_seconds_per_byte);

    return vectors * (inside + (g->nodes - 1) * (g->step_s + bytes / g->nodes * g->seconds_per_byte));
}

const pdl_algorithm_t pdl_algorithm_auto = {.form = PDL_FORM_AUTO}, pdl_algorithm_ring = {.form = PDL_FORM_RING};

static double allreduce_seconds(const pdl_group_t *g, pdl_algorithm_form_t form, bool ring_only, double bytes)
{
    double ring = rings_seconds(g, 2, bytes);

    if (form == PDL_FORM_RING || (ring_only && form == PDL_FORM_AUTO)) return ring;
    if (form == PDL_FORM_AUTO && g->counted_count > 0) {
        for (int i = 0; i < g->counted_count; i++)
            ring = fmin(ring, g->counted[i].startup_s + bytes * g->counted[i].seconds_per_byte);
        return ring;
    }
    double tree = tree_allreduce(g, bytes), hierarchical = hierarchical_seconds(g, 2, bytes);
    if (form == PDL_FORM_TREE) return tree;
    if (form == PDL_FORM_HIERARCHICAL) return hierarchical;
    if (g->fabric_per_byte > 0) return ring; /* by whatever algorithm it was measured */
    return fmin(ring, fmin(tree, hierarchical));
}

double pdl_collective_seconds(const pdl_group_t *g, pdl_primitive_t primitive, const pdl_algorithm_t *algorithm,
                              bool ring_only, double bytes)
{
    bool counted = algorithm->form == PDL_FORM_COUNTED;

    if (g->ranks <= 1) return 0;
    switch (primitive) {
    case PDL_ALLREDUCE:
        return counted ? pdl__counted_seconds(algorithm, primitive, bytes)
                       : allreduce_seconds(g, algorithm->form, ring_only, bytes);
    case PDL_ALLGATHER:
    case PDL_REDUCE_SCATTER:
        if (counted) return pdl__counted_seconds(algorithm, primitive, bytes);
        return algorithm->form == PDL_FORM_HIERARCHICAL ? hierarchical_seconds(g, 1, bytes)
                                                        : rings_seconds(g, 1, bytes);
    case PDL_ALLTOALL: return ring_seconds(g, bytes);
    case PDL_HALO:
    case PDL_SENDRECV: return g->step_s + bytes * g->seconds_per_byte;
    default: return 0;
    }
}

pdl_status_t pdl_collective_price(const pdl_system_t *system, const pdl_parameters_t *parameters,
                                  pdl_collective_t collective, int64_t devices, double bytes, double *seconds)
{
    static const pdl_primitive_t primitives[PDL_COLL_COUNT] = {[PDL_COLL_ALLREDUCE] = PDL_ALLREDUCE,
                                                               [PDL_COLL_REDUCE_SCATTER] = PDL_REDUCE_SCATTER,
                                                               [PDL_COLL_ALLGATHER] = PDL_ALLGATHER,
                                                               [PDL_COLL_ALLTOALL] = PDL_ALLTOALL,
                                                               [PDL_COLL_BROADCAST] = PDL_LOCAL};
    pdl_group_query_t            query = {devices, devices, 1, false,
                               collective == PDL_COLL_ALLTOALL ? PDL_PATTERN_PAIRWISE : PDL_PATTERN_RING};
    pdl_group_t                  group;
    pdl_status_t                 status;

    if (primitives[collective] == PDL_LOCAL)
        return pdl_error(PDL_ERR_INPUT, "there is no price for a %s: ask for another collective, or simulate it",
                         pdl_collective_names[collective]);
    if (devices > system->pe_count)
        return pdl_error(PDL_ERR_INPUT, "%lld devices, but %s has only %lld", (long long)devices, system->name,
                         (long long)system->pe_count);
    status = pdl__group(system, parameters, &query, &group);
    if (!status)
        *seconds = pdl_collective_seconds(&group, primitives[collective], &pdl_algorithm_auto,
                                          parameters->ring_only, bytes);
    return status;
}

double pdl__collective_startup(const pdl_group_t *g, pdl_primitive_t primitive)
{
    if (g->ranks <= 1 || primitive == PDL_LOCAL) return 0;
    if (primitive == PDL_HALO || primitive == PDL_SENDRECV) return g->step_s;
    if (g->fabric_per_byte > 0)
        return g->fabric_startup_s + (primitive == PDL_ALLREDUCE ? 1 : 0.5) * g->fabric_steps_s;
    return (primitive == PDL_ALLREDUCE ? 2 : 1) * (g->ranks - 1) * g->step_s;
}

double pdl__host_seconds(const pdl_parameters_t *p, const pdl_group_t *group, double bytes)
{
    double seconds = bytes * group->seconds_per_byte;

    if (p->pinned_bytes > 0 && bytes > p->pinned_bytes && p->pageable_bytes_per_s > 0)
        seconds += (bytes - p->pinned_bytes) / p->pageable_bytes_per_s;
    return seconds;
}
