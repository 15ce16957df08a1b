/*
 * Hypercube(Q): i <-> i XOR 2^k. Routes correct differing bits from bit 0 upward (e-cube). The cable of bit k at
 * router i is number k N/2 + (i without bit k).
 */
#include "topo/network.h"

#include <stdio.h>

static int without_bit(int i, int k)
{
    int low = (1 << k) - 1;

    return (i >> (k + 1) << k) | (i & low);
}

static pdl_status_t create_hypercube(pdl_topology_t *topology, const pdl_topology_spec_t *spec)
{
    int64_t      routers, bits = 0;
    pdl_status_t st = pdl__direct_routers(spec, 0, &routers);

    if (st) return st;
    while ((INT64_C(1) << bits) < routers) bits++;
    if (routers != INT64_C(1) << bits)
        return pdl_error(PDL_ERR_INPUT, "a hypercube has a power of two of switches, not %lld", (long long)routers);
    st = pdl__direct_begin(topology, spec, routers, bits * (routers / 2));
    if (st) return st;
    topology->transitive = true;
    for (int k = 0; k < (int)bits; k++)
        for (int i = 0; i < topology->routers; i++)
            if ((i >> k & 1) == 0) pdl__direct_cable(topology, i, i | 1 << k);
    snprintf(topology->description, sizeof(topology->description),
             topology->hosts_per_router > 0 ? "%d dimensions, %d switches with %d hosts each"
                                            : "%d dimensions, %d nodes",
             (int)bits, topology->routers, topology->hosts_per_router);
    return PDL_OK;
}

static int route_hypercube(const pdl_topology_t *topology, int src, int dst, int *links)
{
    int count = 0, half = topology->routers / 2;

    for (unsigned rest = (unsigned)(src ^ dst); rest != 0; rest &= rest - 1) {
        int k = __builtin_ctz(rest);
        links[count++] = pdl__router_link(topology, k * half + without_bit(src, k), src >> k & 1);
        src ^= 1 << k;
    }
    return count;
}

const pdl__topology_ops_t pdl__topology_hypercube = {
    .name = "hypercube",
    .summary = "a power of two of switches, joined where their numbers differ in one bit",
    .direct = true,
    .create = create_hypercube,
    .route = route_hypercube,
};
