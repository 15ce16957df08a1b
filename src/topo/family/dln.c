/*
 * Distributed loop network: switches on a ring with cables over the strides of a list, all powers of two by
 * default. DLN-x of the literature is the list 1, N/2, N/4, .. of x - 1 strides. Routes: see loop.c.
 */
#include "topo/network.h"

#include <stdio.h>
#include <stdlib.h>

static pdl_status_t create_dln(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    pdl__loop_t *loop = calloc(1, sizeof(*loop));
    int64_t      routers, cables = 0;
    pdl_status_t st;

    topology->data = loop;
    if (loop == NULL) return pdl_error(PDL_ERR_NOMEM, "no memory for a dln");
    st = pdl__direct_routers(spec, 0, &routers);
    if (st) return st;
    st = pdl__loop_init(loop, spec->name, routers, spec->strides, spec->stride_count);
    if (st) return st;
    for (int k = 0; k < loop->stride_count; k++) cables += 2 * loop->stride[k] == loop->n ? routers / 2 : routers;
    st = pdl__direct_begin(topology, spec, routers, cables);
    if (st) return st;
    topology->transitive = true;
    for (int k = 0; k < loop->stride_count; k++) {
        int stride = loop->stride[k], owners = 2 * stride == loop->n ? loop->n / 2 : loop->n;
        for (int i = 0; i < owners; i++) pdl__direct_cable(topology, i, (i + stride) % loop->n);
    }
    snprintf(topology->description, sizeof(topology->description), "%d %s, %d strides%s", loop->n,
             topology->hosts_per_router > 0 ? "switches" : "nodes", loop->stride_count,
             loop->powers ? ": all powers of two" : "");
    return PDL_OK;
}

static int route_dln(const pdl_topology_t *topology, int src, int dst, int *links)
{
    const pdl__loop_t *loop = topology->data;
    int8_t             hops[PDL_MAX_ROUTE];
    int                count = pdl__loop_hops(loop, src, dst, hops), at = src, reverse;

    for (int i = 0; i < count; i++) {
        int cable = pdl__loop_step(loop, hops[i], &at, &reverse);
        links[i] = pdl__router_link(topology, cable, reverse);
    }
    return count;
}

static void destroy_dln(pdl_topology_t *topology)
{
    pdl__loop_free(topology->data);
}

const pdl__topology_ops_t pdl__topology_dln = {
    .name = "dln",
    .summary = "distributed loop network: a ring with shortcuts, by default over all powers of two",
    .direct = true,
    .create = create_dln,
    .route = route_dln,
    .destroy = destroy_dln,
};
