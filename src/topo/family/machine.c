/*
 * The machine tree of a system as a topology: a device is a host, a group of a level is a switch, and the links and
 * routes are those of self-contention (paradl/contention.h), so that the simulator and the oracle see one network.
 *
 * The start-up of a message is that of the highest level it crosses. It is given to links so that the sum over the
 * route is just that: half of level 0's to each link of level 0, and to those of a higher level half of what
 * the level adds to the one below.
 */
#include "topo/contention/tree.h"
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct machine {
    pdl__tree_t tree;
    int         first_link[PDL_MAX_LEVELS];
    int         first_vertex[PDL_MAX_LEVELS]; /* of the groups of a level */
    int         levels;                       /* that join the hosts */
} machine_t;

static int link_number(const machine_t *machine, const pdl__hop_t *hop)
{
    int64_t within = hop->span * machine->tree.level[hop->level].links + hop->link;

    return machine->first_link[hop->level] + (int)(2 * within) + hop->down;
}

/* The way up, then the way down: the tree names the links of each level in pairs. */
static int route_machine(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const machine_t *machine = topology->data;
    pdl__hop_t       hops[PDL__ROUTE_MAX];
    int              count = pdl__tree_route(&machine->tree, src, dst, hops);

    for (int i = 0; i < count; i++)
        links[hops[i].down ? count - 1 - hops[i].level : hops[i].level] = link_number(machine, &hops[i]);
    return count;
}

static int64_t pieces(int64_t hosts, int64_t size)
{
    return (hosts + size - 1) / size;
}

static double level_latency(const pdl_system_t *system, const pdl_machine_speed_t *speed, int level)
{
    double step_s = level == 0 ? speed->fabric_step_s : speed->network_step_s;

    return step_s > 0 ? step_s : system->level[level].latency_s;
}

/* What a level adds to the start-up of the level below, half of it. */
static double link_latency(const pdl_system_t *system, const pdl_machine_speed_t *speed, int level)
{
    double below = level > 0 ? level_latency(system, speed, level - 1) : 0;
    double added = level_latency(system, speed, level) - below;

    return added > 0 ? added / 2 : 0;
}

static void add_level(pdl_topology_t *topology, const pdl_system_t *system, const pdl_machine_speed_t *speed,
                      int level)
{
    machine_t               *machine = topology->data;
    const pdl__tree_level_t *at = &machine->tree.level[level];
    int64_t                  spans = pieces(topology->hosts, at->span), group = at->child * at->fanout;
    double                   share = level == 0 ? speed->fabric_share : speed->network_share;
    double                   latency_s = link_latency(system, speed, level);
    pdl_link_kind_t          kind = level == 0 ? PDL_LINK_NVLINK : PDL_LINK_SWITCH;

    machine->first_link[level] = topology->link_count;
    for (int64_t s = 0; s < spans; s++) {
        int above = machine->first_vertex[level] + (int)(s * at->span / group);
        int below = level == 0 ? (int)s : machine->first_vertex[level - 1] + (int)s;

        if (at->shared) below = above;
        for (int64_t i = 0; i < at->links; i++) {
            pdl__add_link(topology, below, above, at->shared ? PDL_LINK_INTERNAL : kind, share * at->capacity,
                          latency_s);
            pdl__add_link(topology, above, below, at->shared ? PDL_LINK_INTERNAL : kind, share * at->capacity,
                          latency_s);
            topology->links[topology->link_count - 1].way_back = !at->shared;
        }
    }
}

static pdl_status_t build(pdl_topology_t *topology, const pdl_system_t *system, int64_t hosts,
                          const pdl_machine_speed_t *speed)
{
    machine_t *machine = calloc(1, sizeof(*machine));
    int64_t    switches = 0, links = 0;

    topology->data = machine;
    if (machine == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for the network of %s", system->name);
    pdl__tree_init(&machine->tree, system, false);
    machine->levels = pdl_system_level_of_span(system, hosts) + 1;
    for (int l = 0; l < machine->levels; l++) {
        const pdl__tree_level_t *at = &machine->tree.level[l];

        machine->first_vertex[l] = (int)(hosts + switches);
        switches += pieces(hosts, at->child * at->fanout);
        links += 2 * pieces(hosts, at->span) * at->links;
        if (links > PDL__MOST_LINKS || switches > PDL__MOST_VERTICES) break;
    }
    pdl_status_t status = pdl__topology_reserve(topology, hosts, switches, links);
    if (status) return status;
    topology->group = (int)pdl_system_group_size(system, 0);
    for (int l = 0; l < machine->levels; l++) add_level(topology, system, speed, l);
    topology->spec.hosts = hosts;
    snprintf(topology->description, sizeof(topology->description),
             "%d of the devices of %.60s, %d levels, %d links", topology->hosts, system->name, machine->levels,
             topology->link_count);
    return PDL_OK;
}

static const pdl__topology_ops_t machine_ops = {
    .name = "machine",
    .summary = "the levels of a system description",
    .route = route_machine,
};

pdl_status_t pdl_topology_of_system(const pdl_system_t *system, int64_t hosts, const pdl_machine_speed_t *speed,
                                    pdl_topology_t **topology)
{
    pdl_machine_speed_t full = {.fabric_share = 1, .network_share = 1};
    pdl_topology_t     *made;
    pdl_status_t        status;

    if (hosts < 1 || hosts > system->pe_count)
        return pdl_error(PDL_ERR_LIMIT, "%lld devices, but %s has %lld", (long long)hosts, system->name,
                         (long long)system->pe_count);
    made = pdl__topology_new(&machine_ops, system->name);
    if (made == NULL) return PDL_ERR_NOMEM;
    status = build(made, system, hosts, speed != NULL ? speed : &full);
    if (status) {
        pdl_topology_destroy(made);
        return status;
    }
    *topology = made;
    return PDL_OK;
}
