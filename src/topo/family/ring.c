/*
 * Ring(N): i <-> i+1, the torus of one dimension.
 */
#include "topo/network.h"

static pdl_status_t create_ring(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    int64_t      routers;
    pdl_status_t st = pdl__direct_routers(spec, 0, &routers);

    if (st) return st;
    return pdl__torus_build(topology, spec, &routers, 1);
}

const pdl__topology_ops_t pdl__topology_ring = {
    .name = "ring",
    .summary = "every switch joined to the next and the one before",
    .direct = true,
    .create = create_ring,
    .route = pdl__torus_route,
};
