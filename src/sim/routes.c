/*
 * Finding and keeping routes.
 */
#include "sim/routes.h"

#include <stdlib.h>

pdl_status_t pdl__routes_create(pdl__routes_t *routes, const pdl_topology_t *topology, int stride, bool keep)
{
    const pdl_link_t *links = pdl_topology_links(topology);
    size_t            count = keep ? (size_t)pdl_topology_hosts(topology) : 1;
    size_t            fixed = sizeof(pdl__route_t), all = (size_t)pdl_topology_link_count(topology);

    routes->topology = topology;
    routes->stride = stride;
    routes->keep = keep;
    routes->size = fixed + ((size_t)stride * sizeof(int32_t) + fixed - 1) / fixed * fixed;
    routes->route = malloc(count * routes->size);
    routes->latency_s = malloc((all + 1) * sizeof(*routes->latency_s));
    if (routes->route == NULL || routes->latency_s == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the routes of the simulation");
    for (size_t i = 0; i < count; i++) ((pdl__route_t *)(void *)(routes->route + i * routes->size))->dst = -1;
    for (size_t i = 0; i < all; i++) routes->latency_s[i] = links[i].latency_s;
    return PDL_OK;
}

void pdl__routes_destroy(pdl__routes_t *routes)
{
    free(routes->route);
    free(routes->latency_s);
    routes->route = NULL;
    routes->latency_s = NULL;
}

const pdl__route_t *pdl__routes_find(pdl__routes_t *routes, int32_t src, int32_t dst, double bytes)
{
    size_t        at = routes->keep ? (size_t)src * routes->size : 0;
    pdl__route_t *route = (pdl__route_t *)(void *)(routes->route + at);
    int           way[PDL_MAX_ROUTE];

    if (routes->keep && route->dst == dst && route->bytes == bytes) return route;
    route->dst = dst;
    route->bytes = bytes;
    route->latency_s = 0;
    route->hops = pdl_topology_route_sized(routes->topology, src, dst, bytes, way);
    for (int h = 0; h < route->hops; h++) {
        route->latency_s += routes->latency_s[way[h]];
        if (h < routes->stride) route->links[h] = way[h];
    }
    return route;
}
