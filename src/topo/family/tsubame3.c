/*
 * A cluster like TSUBAME3: nodes of 4 GPUs with NVLink between every pair and one PCIe switch for GPUs 0, 1 and
 * one for 2, 3; PCIe switch r of a node is cabled to leaf switch r of its group of nine nodes (rail r), and all
 * leaf switches to one root. Leaf switches and the root have an internal resource that a path crosses once on its
 * way up, once on the way down, and so twice where it turns round. Links are half duplex unless asked for
 * otherwise.
 *
 * Routes are the shortest. Between groups the rail changes, where it must, at the root. Inside a group that would
 * be a detour: the route stays on the sender's rail, and a receiver on the other rail gets its data through the
 * GPU of its node that has the sender's place, and over NVLink. The wiring is published, this rule is not: it was
 * chosen because it gives the reference time of the flat ring (10.926 ms on 256 GPUs), which neither a change of
 * rails at the root everywhere (5.71 ms) nor never (11.05 ms) does.
 *
 * Vertices: GPUs, PCIe switches (two per node), leaf switches (two per group), the root.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

#define GPUS        4
#define PAIRS       6
#define GROUP_NODES 9
#define CABLE_RATE  12.5e9
#define CABLE_S     26e-9
#define SWITCH_S    100e-9

/* In the order of pdl__pair(): (0,1) (0,2) (1,2) (0,3) (1,3) (2,3). */
static const int nvlink_lanes[PAIRS] = {1, 2, 1, 1, 2, 1};

typedef struct tsubame3 {
    int nodes, groups;
    int first_pcie, first_port, first_uplink, first_inside; /* cables; the last one links */
} tsubame3_t;

static void add_node(pdl_topology_t *topology, int node)
{
    for (int b = 1; b < GPUS; b++)
        for (int a = 0; a < b; a++) {
            pdl__add_cable(topology, node * GPUS + a, node * GPUS + b, PDL_LINK_NVLINK,
                           50e9 * nvlink_lanes[pdl__pair(a, b)], 0);
            pdl__set_power(topology, 19.04, 22.4);
        }
}

static void add_network(pdl_topology_t *topology, const tsubame3_t *cluster)
{
    int pcie = topology->hosts, leaf = pcie + 2 * cluster->nodes, root = leaf + 2 * cluster->groups;

    for (int gpu = 0; gpu < topology->hosts; gpu++) {
        pdl__add_cable(topology, gpu, pcie + gpu / 2, PDL_LINK_PCIE, 16e9, SWITCH_S);
        pdl__set_power(topology, 10.37, 12.2);
    }
    for (int i = 0; i < 2 * cluster->nodes; i++) {
        pdl__add_cable(topology, pcie + i, leaf + i / 2 / GROUP_NODES * 2 + i % 2, PDL_LINK_SWITCH, CABLE_RATE,
                       CABLE_S);
        pdl__set_power(topology, 8.27, 9.5);
    }
    for (int i = 0; i < 2 * cluster->groups; i++) {
        pdl__add_cable(topology, leaf + i, root, PDL_LINK_SWITCH, 18 * CABLE_RATE, CABLE_S);
        pdl__set_power(topology, 19.42, 23.5);
        pdl__set_trunk(topology, 18);
    }
    for (int i = 0; i <= 2 * cluster->groups; i++) {
        double share = i < 2 * cluster->groups ? 1 : 2.0 * cluster->groups;
        topology->internal[leaf + i] = topology->link_count;
        pdl__add_link(topology, leaf + i, leaf + i, PDL_LINK_INTERNAL, 18 * CABLE_RATE * share, SWITCH_S);
    }
}

static pdl_status_t create_tsubame3(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    tsubame3_t  *cluster = calloc(1, sizeof(*cluster));
    int64_t      hosts = spec->hosts == 0 ? 256 : spec->hosts, nodes = hosts / GPUS, groups, cables;
    pdl_status_t st;

    topology->data = cluster;
    if (cluster == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for tsubame3");
    if (hosts % GPUS != 0)
        return pdl_error(PDL_ERR_INPUT, "tsubame3 has nodes of %d GPUs; %lld hosts are not a multiple", GPUS,
                         (long long)hosts);
    groups = (nodes + GROUP_NODES - 1) / GROUP_NODES;
    cables = hosts > PDL__MOST_VERTICES ? PDL__MOST_LINKS : nodes * (PAIRS + GPUS + 2) + 2 * groups;
    st = pdl__topology_reserve(topology, hosts, 2 * nodes + 2 * groups + 1,
                               (cables << topology->full) + 2 * groups + 1);
    if (st) return st;
    *cluster = (tsubame3_t){.nodes = (int)nodes, .groups = (int)groups};
    cluster->first_pcie = (int)nodes * PAIRS;
    cluster->first_port = cluster->first_pcie + topology->hosts;
    cluster->first_uplink = cluster->first_port + 2 * cluster->nodes;
    cluster->first_inside = (int)cables << topology->full;
    topology->group = GPUS;
    topology->relay = true;
    topology->internal = malloc((size_t)topology->vertices * sizeof(*topology->internal));
    if (topology->internal == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for tsubame3");
    for (int v = 0; v < topology->vertices; v++) topology->internal[v] = -1;
    for (int node = 0; node < cluster->nodes; node++) add_node(topology, node);
    add_network(topology, cluster);
    snprintf(topology->description, sizeof(topology->description),
             "%d nodes of %d GPUs, %d leaf switches, one root", cluster->nodes, GPUS, 2 * cluster->groups);
    return PDL_OK;
}

static int nvlink(const pdl_topology_t *topology, int from, int to)
{
    int a = from % GPUS, b = to % GPUS, pair = a < b ? pdl__pair(a, b) : pdl__pair(b, a);

    return pdl__cable_link(topology, from / GPUS * PAIRS + pair, a > b);
}

static int route_tsubame3(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const tsubame3_t *cluster = topology->data;
    int               from = src / GPUS, to = dst / GPUS, count = 0;
    bool              same = from / GROUP_NODES == to / GROUP_NODES;
    int               rail_a = src % GPUS / 2, rail_b = same ? rail_a : dst % GPUS / 2;
    int               last = rail_b == dst % GPUS / 2 ? dst : to * GPUS + src % GPUS;
    int               leaf_a = from / GROUP_NODES * 2 + rail_a, leaf_b = to / GROUP_NODES * 2 + rail_b;

    if (from == to) {
        links[0] = nvlink(topology, src, dst);
        return 1;
    }
    links[count++] = pdl__cable_link(topology, cluster->first_pcie + src, 0);
    links[count++] = pdl__cable_link(topology, cluster->first_port + 2 * from + rail_a, 0);
    links[count++] = cluster->first_inside + leaf_a;
    if (!same) {
        links[count++] = pdl__cable_link(topology, cluster->first_uplink + leaf_a, 0);
        links[count++] = cluster->first_inside + 2 * cluster->groups;
        links[count++] = cluster->first_inside + 2 * cluster->groups;
        links[count++] = pdl__cable_link(topology, cluster->first_uplink + leaf_b, 1);
    }
    links[count++] = cluster->first_inside + leaf_b;
    links[count++] = pdl__cable_link(topology, cluster->first_port + 2 * to + rail_b, 1);
    links[count++] = pdl__cable_link(topology, cluster->first_pcie + last, 1);
    if (last != dst) links[count++] = nvlink(topology, last, dst);
    return count;
}

/* A group of nodes is a cabinet, the root another. */
static int cabinet_tsubame3(const pdl_topology_t *topology, int vertex)
{
    const tsubame3_t *cluster = topology->data;
    int               pcie = topology->hosts, leaf = pcie + 2 * cluster->nodes;

    if (vertex < pcie) return vertex / GPUS / GROUP_NODES;
    return vertex < leaf ? (vertex - pcie) / 2 / GROUP_NODES : (vertex - leaf) / 2;
}

const pdl__topology_ops_t pdl__topology_tsubame3 = {
    .name = "tsubame3",
    .summary = "nodes of 4 GPUs with NVLink, two rails, leaf switches of nine nodes and one root",
    .create = create_tsubame3,
    .route = route_tsubame3,
    .cabinet = cabinet_tsubame3,
};
