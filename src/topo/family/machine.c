/*
 * The machine tree of a system as a topology: a device is a host, a group of a level is a switch, and the links and
 * routes are those of self-contention (paradl/contention.h), so that the simulator and the oracle see one network.
 *
 * The start-up of a message is that of the highest level it crosses. It is given to links so that the sum over the
 * route is just that: half of level 0's to each link of level 0, and to those of a higher level half of what
 * the level adds to the one below. Where a network of another kind joins the outermost groups, its links and switches follow those of
 * the tree, with latencies of their own, and its hosts are one vertex each, as the routers of ports.
 */
#include "topo/contention/network.h"
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct machine {
    pdl__tree_t  tree;
    pdl__links_t links;
    int          first_vertex
        [PDL_MAX_LEVELS]; /* of the groups of a level, the outermost being the network where there is one */
    int levels;           /* that join the hosts */
} machine_t;

static int route_machine(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const machine_t *machine = topology->data;
    int              way[PDL__WAY_MAX], count = pdl__links_route(&machine->links, src, dst, way);

    memcpy(links, way, (size_t)count * sizeof(*links));
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
    bool                     ports = machine->tree.network != NULL && level == machine->tree.level_count - 1;

    for (int64_t s = 0; s < spans; s++) {
        int above = machine->first_vertex[level] + (int)(s * at->span / group);
        int below = level == 0 ? (int)s : machine->first_vertex[level - 1] + (int)s;

        if (at->shared) below = above;
        for (int64_t i = 0; i < at->links; i++) {
            if (ports) above = machine->first_vertex[level] + (int)(s * at->links + i);
            pdl__add_link(topology, below, above, at->shared ? PDL_LINK_INTERNAL : kind, share * at->capacity,
                          latency_s);
            pdl__add_link(topology, above, below, at->shared ? PDL_LINK_INTERNAL : kind, share * at->capacity,
                          latency_s);
            topology->links[topology->link_count - 1].way_back = !at->shared;
        }
    }
}

static void add_network(pdl_topology_t *topology, const pdl_machine_speed_t *speed)
{
    const machine_t      *machine = topology->data;
    const pdl_topology_t *network = machine->tree.network;
    int                   first = machine->first_vertex[machine->levels - 1];

    for (int i = 0; i < pdl_topology_link_count(network); i++) {
        pdl_link_t *link = &topology->links[topology->link_count++];

        *link = pdl_topology_links(network)[i];
        link->src += first;
        link->dst += first;
        link->bytes_per_s = speed->network_share * pdl__tree_network_capacity(&machine->tree, i);
    }
}

static pdl_status_t build(pdl_topology_t *topology, const pdl_system_t *system, int64_t hosts,
                          const pdl_machine_speed_t *speed)
{
    machine_t   *machine = calloc(1, sizeof(*machine));
    int64_t      switches = 0;
    bool         network;
    pdl_status_t status;

    topology->data = machine;
    if (machine == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for the network of %s", system->name);
    status = pdl__tree_init(&machine->tree, system, false);
    machine->levels = pdl_system_level_of_span(system, hosts) + 1;
    network = machine->tree.network != NULL && machine->levels == system->level_count;
    if (!status) status = pdl__links_init(&machine->links, &machine->tree, hosts, machine->levels);
    if (status) return status;
    for (int l = 0; l < machine->levels; l++) {
        const pdl__tree_level_t *at = &machine->tree.level[l];

        machine->first_vertex[l] = (int)(hosts + switches);
        switches += network && l == machine->levels - 1 ? pdl_topology_vertices(machine->tree.network)
                                                        : pieces(hosts, at->child * at->fanout);
        if (switches > PDL__MOST_VERTICES) break;
    }
    status = pdl__topology_reserve(topology, hosts, switches, machine->links.count);
    if (status) return status;
    topology->group = (int)pdl_system_group_size(system, 0);
    for (int l = 0; l < machine->levels; l++) add_level(topology, system, speed, l);
    if (network) add_network(topology, speed);
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
