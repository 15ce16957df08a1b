/*
 * Hybrid network: every host has a link into a fat tree and k optical ports on a circuit switch.
 *
 * A circuit takes one optical output port of its source and one input port of its destination. Its two fibres
 * have half the latency of a link each, and the circuit switch adds none. Fibres are one way whatever the duplex
 * of the cables. A message goes over a circuit where there is one, otherwise through the tree. Output port p of
 * host x is link first + 2 (x k + p), input port p the one after it. The circuit switch is the last vertex.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hybrid {
    pdl__xgft_t tree;
    int         ports, first;
    int        *to;   /* [host][port] the other end of the circuit from an output port, or -1 */
    int        *into; /* [host][port] the input port it goes into */
} hybrid_t;

static pdl_status_t allocate(pdl_topology_t *topology, hybrid_t *hybrid)
{
    size_t ports = (size_t)topology->hosts * (size_t)hybrid->ports;

    hybrid->to = malloc(ports * sizeof(*hybrid->to));
    hybrid->into = calloc(ports, sizeof(*hybrid->into));
    if (hybrid->to == NULL || hybrid->into == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for optical ports");
    for (size_t i = 0; i < ports; i++) hybrid->to[i] = -1;
    return PDL_OK;
}

static pdl_status_t create_hybrid(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    hybrid_t    *hybrid = calloc(1, sizeof(*hybrid));
    int64_t      fibres;
    pdl_status_t st;
    int          ocs;

    topology->data = hybrid;
    if (hybrid == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a hybrid network");
    st = pdl__fat_tree_shape(spec, &hybrid->tree);
    if (st) return st;
    if (spec->optical_ports < 1)
        return pdl_error(PDL_ERR_INPUT, "a hybrid network needs at least one optical port per host, not %lld",
                         (long long)spec->optical_ports);
    if (!(spec->reconfigure_s >= 0 && spec->optical_min_bytes >= 0))
        return pdl_error(PDL_ERR_INPUT,
                         "reconfiguration time and least circuit size of a hybrid network are not negative");
    fibres = pdl__product(spec->hosts, spec->optical_ports, PDL__MOST_LINKS);
    if (fibres < 0) fibres = PDL__MOST_LINKS; /* refused with the next line */
    st = pdl__topology_reserve(topology, spec->hosts, hybrid->tree.switches + 1,
                               (hybrid->tree.cables << topology->full) + 2 * fibres);
    if (st) return st;
    hybrid->ports = (int)spec->optical_ports;
    topology->group = hybrid->tree.m[0];
    st = allocate(topology, hybrid);
    if (st) return st;
    pdl__xgft_add(topology, &hybrid->tree);
    hybrid->first = topology->link_count;
    ocs = topology->vertices - 1;
    for (int i = 0; i < (int)fibres; i++) {
        int host = i / hybrid->ports;
        pdl__add_link(topology, host, ocs, PDL_LINK_OPTICAL, spec->optical_bytes_per_s, spec->link_latency_s / 2);
        pdl__add_link(topology, ocs, host, PDL_LINK_OPTICAL, spec->optical_bytes_per_s, spec->link_latency_s / 2);
    }
    snprintf(topology->description, sizeof(topology->description),
             "%d leaf switches with %d hosts and %d uplinks each; %d optical port%s per host", hybrid->tree.m[1],
             hybrid->tree.m[0], hybrid->tree.w[1], hybrid->ports, hybrid->ports == 1 ? "" : "s");
    return PDL_OK;
}

/* Puts the circuit on the first free ports; false when there are none. */
static bool connect(hybrid_t *hybrid, int *to, int *into, int *used_in, int src, int dst)
{
    for (int p = 0; p < hybrid->ports && used_in[dst] < hybrid->ports; p++) {
        int i = src * hybrid->ports + p;
        if (to[i] >= 0) continue;
        to[i] = dst;
        into[i] = used_in[dst]++;
        return true;
    }
    return false;
}

static pdl_status_t connect_all(pdl_topology_t *topology, hybrid_t *hybrid, int *to, int *into, int *used_in,
                                const int *pairs, int count)
{
    for (int i = 0; i < topology->hosts * hybrid->ports; i++) to[i] = -1;
    for (int i = 0; i < count; i++) {
        int src = pairs[2 * i], dst = pairs[2 * i + 1];
        if (src < 0 || src >= topology->hosts || dst < 0 || dst >= topology->hosts || src == dst)
            return pdl_error(PDL_ERR_INPUT, "no circuit is possible from host %d to host %d: there are hosts 0..%d",
                             src, dst, topology->hosts - 1);
        if (!connect(hybrid, to, into, used_in, src, dst))
            return pdl_error(PDL_ERR_LIMIT, "no optical port is left for a circuit from host %d to host %d", src,
                             dst);
    }
    return PDL_OK;
}

pdl_status_t pdl_topology_set_circuits(pdl_topology_t *topology, const int *pairs, int count)
{
    hybrid_t    *hybrid = topology->data;
    size_t       ports;
    int         *to, *into, *used_in;
    pdl_status_t st;

    if (topology->ops != &pdl__topology_hybrid)
        return pdl_error(PDL_ERR_INPUT, "%s has no optical circuits; a hybrid network has", topology->name);
    ports = (size_t)topology->hosts * (size_t)hybrid->ports;
    to = malloc(ports * sizeof(*to));
    into = calloc(ports, sizeof(*into));
    used_in = calloc((size_t)topology->hosts, sizeof(*used_in));
    if (to == NULL || into == NULL || used_in == NULL)
        st = pdl_error(PDL_ERR_NOMEM, "no memory for %d circuits", count);
    else
        st = connect_all(topology, hybrid, to, into, used_in, pairs, count);
    if (st == PDL_OK) {
        memcpy(hybrid->to, to, ports * sizeof(*to));
        memcpy(hybrid->into, into, ports * sizeof(*into));
    }
    free(to);
    free(into);
    free(used_in);
    return st;
}

int pdl__hybrid_electrical(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const hybrid_t *hybrid = topology->data;

    return pdl__xgft_route(topology, &hybrid->tree, src, dst, links);
}

static int route_hybrid(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const hybrid_t *hybrid = topology->data;

    for (int i = src * hybrid->ports; i < (src + 1) * hybrid->ports; i++) {
        if (hybrid->to[i] != dst) continue;
        links[0] = hybrid->first + 2 * i;
        links[1] = hybrid->first + 2 * (dst * hybrid->ports + hybrid->into[i]) + 1;
        return 2;
    }
    return pdl__hybrid_electrical(topology, src, dst, links);
}

static void destroy_hybrid(pdl_topology_t *topology)
{
    hybrid_t *hybrid = topology->data;

    free(hybrid->to);
    free(hybrid->into);
}

const pdl__topology_ops_t pdl__topology_hybrid = {
    .name = "hybrid",
    .summary = "a fat tree, and optical ports on a circuit switch",
    .create = create_hybrid,
    .route = route_hybrid,
    .destroy = destroy_hybrid,
};
