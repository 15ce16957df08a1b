/*
 * Direct networks: routers that all have the same number of hosts, and cables between them.
 */
#include "topo/network.h"

pdl_status_t pdl__direct_routers(const pdl_topology_spec_t *spec, int64_t routers, int64_t *count)
{
    int64_t h = spec->hosts_per_switch > 0 ? spec->hosts_per_switch : 1, hosts;

    if (routers == 0) {
        if (spec->hosts == 0) return pdl_error(PDL_ERR_INPUT, "a %s needs a number of hosts", spec->name);
        if (spec->hosts % h != 0)
            return pdl_error(PDL_ERR_INPUT, "%lld hosts cannot be spread over switches of %lld: not a multiple",
                             (long long)spec->hosts, (long long)h);
        routers = spec->hosts / h;
    }
    hosts = pdl__product(routers, h, PDL__MOST_VERTICES);
    if (hosts < 0)
        return pdl_error(PDL_ERR_LIMIT, "a %s of this size has more than %lld hosts", spec->name,
                         (long long)PDL__MOST_VERTICES);
    if (spec->hosts != 0 && hosts != spec->hosts)
        return pdl_error(PDL_ERR_INPUT, "this %s has %lld hosts (%lld switches of %lld), not %lld", spec->name,
                         (long long)hosts, (long long)routers, (long long)h, (long long)spec->hosts);
    *count = routers;
    return PDL_OK;
}

pdl_status_t pdl__direct_begin(pdl_topology_t *topology, const pdl_topology_spec_t *spec, int64_t routers,
                               int64_t cables)
{
    int64_t      h = spec->hosts_per_switch, hosts = routers * (h > 0 ? h : 1);
    pdl_status_t st;

    if (cables > PDL__MOST_LINKS) cables = PDL__MOST_LINKS + 1; /* refused below */
    st = pdl__topology_reserve(topology, hosts, h > 0 ? routers : 0,
                               ((h > 0 ? hosts : 0) + cables) << topology->full);
    if (st) return st;
    topology->routers = (int)routers;
    topology->hosts_per_router = (int)h;
    topology->group = h > 0 ? (int)h : 1;
    topology->relay = h == 0;
    topology->router_cables = h > 0 ? (int)hosts : 0;
    for (int i = 0; h > 0 && i < topology->hosts; i++)
        pdl__add_cable(topology, i, topology->hosts + i / (int)h, PDL_LINK_HOST, spec->host_link_bytes_per_s,
                       spec->host_link_latency_s);
    return PDL_OK;
}

void pdl__direct_cable(pdl_topology_t *topology, int router_a, int router_b)
{
    pdl__add_cable(topology, pdl__router_vertex(topology, router_a), pdl__router_vertex(topology, router_b),
                   PDL_LINK_SWITCH, topology->spec.link_bytes_per_s, topology->spec.link_latency_s);
}

pdl_status_t pdl__check_route_length(const char *name, int64_t hops)
{
    if (hops + 2 <= PDL_MAX_ROUTE) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT,
                     "routes of this %s have up to %lld hops between switches; at most %d can be handled", name,
                     (long long)hops, PDL_MAX_ROUTE - 2);
}
