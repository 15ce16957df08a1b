/*
 * ABCI (V): racks of 34 nodes with 4 GPUs. A GPU pair has an NVLink; GPUs 0, 1 and 2, 3 share a PCIe switch with
 * one InfiniBand port each. Two neighbouring nodes form a group whose four ports go to the four leaf switches of
 * the rack, port q to leaf q. Each leaf has 6 cables to each of the 3 FBB switches of the rack, each FBB 4 cables
 * to each of the 2 spines. For destination GPU d the FBB is d mod 3 and the spine (d / 3) mod 2.
 *
 * The time inside a switch (leaf and FBB 90 ns, spine 400 ns) is given half each to the links on both sides of
 * it, so that every path through it pays it once, in either direction.
 *
 * Vertices: GPUs, PCIe switches (two per node), per rack 4 leaf and 3 FBB switches, the spines.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

#define GPUS         4
#define PAIRS        6
#define RACK_NODES   34
#define LEAVES       4
#define FBBS         3
#define SPINES       2
#define PORT_RATE    12.5e9
#define CABLE_S      26e-9
#define HALF_LEAF_S  45e-9 /* FBB alike */
#define HALF_SPINE_S 200e-9

typedef struct abci {
    int nodes, racks;
    int first_pcie, first_port, first_trunk, first_spine; /* cables */
} abci_t;

static int leaf_of(int pcie)
{
    return pcie % LEAVES; /* two nodes have four ports */
}

static void add_racks(pdl_topology_t *topology, const abci_t *abci)
{
    int first = topology->hosts + 2 * abci->nodes, spine = first + abci->racks * (LEAVES + FBBS);

    for (int i = 0; i < abci->racks * LEAVES * FBBS; i++) {
        int rack = first + i / (LEAVES * FBBS) * (LEAVES + FBBS), leaf = i / FBBS % LEAVES, fbb = i % FBBS;
        pdl__add_cable(topology, rack + leaf, rack + LEAVES + fbb, PDL_LINK_SWITCH, 6 * PORT_RATE,
                       CABLE_S + HALF_LEAF_S + HALF_LEAF_S);
        pdl__set_trunk(topology, 6);
    }
    for (int i = 0; i < abci->racks * FBBS * SPINES; i++) {
        int rack = first + i / (FBBS * SPINES) * (LEAVES + FBBS), fbb = i / SPINES % FBBS;
        pdl__add_cable(topology, rack + LEAVES + fbb, spine + i % SPINES, PDL_LINK_SWITCH, 4 * PORT_RATE,
                       CABLE_S + HALF_LEAF_S + HALF_SPINE_S);
        pdl__set_trunk(topology, 4);
    }
}

static void add_nodes(pdl_topology_t *topology, const abci_t *abci)
{
    int pcie = topology->hosts, first = pcie + 2 * abci->nodes;

    for (int node = 0; node < abci->nodes; node++)
        for (int b = 1; b < GPUS; b++)
            for (int a = 0; a < b; a++)
                pdl__add_cable(topology, node * GPUS + a, node * GPUS + b, PDL_LINK_NVLINK, 100e9, 9e-6);
    for (int gpu = 0; gpu < topology->hosts; gpu++)
        pdl__add_cable(topology, gpu, pcie + gpu / 2, PDL_LINK_PCIE, 16e9, 7.5e-6);
    for (int i = 0; i < 2 * abci->nodes; i++)
        pdl__add_cable(topology, pcie + i, first + i / 2 / RACK_NODES * (LEAVES + FBBS) + leaf_of(i),
                       PDL_LINK_SWITCH, PORT_RATE, CABLE_S + HALF_LEAF_S);
}

static pdl_status_t create_abci(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    abci_t      *abci = calloc(1, sizeof(*abci));
    int64_t      hosts = spec->hosts == 0 ? 1088 * GPUS : spec->hosts, nodes = hosts / GPUS, racks, cables;
    pdl_status_t st;

    topology->data = abci;
    if (abci == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for abci-v");
    if (hosts % GPUS != 0)
        return pdl_error(PDL_ERR_INPUT, "abci-v has nodes of %d GPUs; %lld hosts are not a multiple", GPUS,
                         (long long)hosts);
    racks = (nodes + RACK_NODES - 1) / RACK_NODES;
    cables = hosts > PDL__MOST_VERTICES ? PDL__MOST_LINKS
                                        : nodes * (PAIRS + GPUS + 2) + racks * (LEAVES * FBBS + FBBS * SPINES);
    st = pdl__topology_reserve(topology, hosts, 2 * nodes + racks * (LEAVES + FBBS) + SPINES,
                               cables << topology->full);
    if (st) return st;
    *abci = (abci_t){.nodes = (int)nodes, .racks = (int)racks};
    abci->first_pcie = abci->nodes * PAIRS;
    abci->first_port = abci->first_pcie + topology->hosts;
    abci->first_trunk = abci->first_port + 2 * abci->nodes;
    abci->first_spine = abci->first_trunk + abci->racks * LEAVES * FBBS;
    topology->group = GPUS;
    topology->relay = true; /* over NVLink, where a port has failed */
    add_nodes(topology, abci);
    add_racks(topology, abci);
    snprintf(topology->description, sizeof(topology->description), "%d nodes of %d GPUs in %d racks", abci->nodes,
             GPUS, abci->racks);
    return PDL_OK;
}

static int route_abci(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const abci_t *abci = topology->data;
    int           a = src / 2, b = dst / 2, rack_a = src / GPUS / RACK_NODES, rack_b = dst / GPUS / RACK_NODES;
    int           fbb = dst % FBBS, spine = dst / FBBS % SPINES, count = 0;

    if (src / GPUS == dst / GPUS) {
        int i = src % GPUS, j = dst % GPUS, pair = i < j ? pdl__pair(i, j) : pdl__pair(j, i);
        links[0] = pdl__cable_link(topology, src / GPUS * PAIRS + pair, i > j);
        return 1;
    }
    links[count++] = pdl__cable_link(topology, abci->first_pcie + src, 0);
    links[count++] = pdl__cable_link(topology, abci->first_port + a, 0);
    if (rack_a != rack_b || leaf_of(a) != leaf_of(b)) {
        links[count++] =
            pdl__cable_link(topology, abci->first_trunk + (rack_a * LEAVES + leaf_of(a)) * FBBS + fbb, 0);
        if (rack_a != rack_b) {
            links[count++] =
                pdl__cable_link(topology, abci->first_spine + (rack_a * FBBS + fbb) * SPINES + spine, 0);
            links[count++] =
                pdl__cable_link(topology, abci->first_spine + (rack_b * FBBS + fbb) * SPINES + spine, 1);
        }
        links[count++] =
            pdl__cable_link(topology, abci->first_trunk + (rack_b * LEAVES + leaf_of(b)) * FBBS + fbb, 1);
    }
    links[count++] = pdl__cable_link(topology, abci->first_port + b, 1);
    links[count++] = pdl__cable_link(topology, abci->first_pcie + dst, 1);
    return count;
}

/* A rack is a cabinet, the spines another. */
static int cabinet_abci(const pdl_topology_t *topology, int vertex)
{
    const abci_t *abci = topology->data;
    int           pcie = topology->hosts, first = pcie + 2 * abci->nodes;

    if (vertex < pcie) return vertex / GPUS / RACK_NODES;
    if (vertex < first) return (vertex - pcie) / 2 / RACK_NODES;
    vertex -= first;
    return vertex < abci->racks * (LEAVES + FBBS) ? vertex / (LEAVES + FBBS) : abci->racks;
}

const pdl__topology_ops_t pdl__topology_abci = {
    .name = "abci-v",
    .summary = "ABCI: racks of 34 nodes with 4 GPUs, two ports per node, leaf, FBB and spine switches",
    .create = create_abci,
    .route = route_abci,
    .cabinet = cabinet_abci,
};
