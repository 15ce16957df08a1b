/*
 * Routes between hosts, with those of the latest partner of each host kept where partners stay the same (rings).
 */
#ifndef PDL_SIM_ROUTES_H
#define PDL_SIM_ROUTES_H

#include <paradl/topo/topo.h>

typedef struct pdl__route {
    int32_t dst, hops;
    double  bytes;
    double  latency_s; /* of all links */
    int32_t links[];
} pdl__route_t;

typedef struct pdl__routes {
    const pdl_topology_t *topology;
    char                 *route;     /* one for each source, or one in all */
    size_t                size;      /* of a route */
    double               *latency_s; /* of each link, close together */
    bool                  keep;
    int                   stride; /* longest route that fits */
} pdl__routes_t;

/* `keep`: the same pairs will be asked for again and again. */
pdl_status_t pdl__routes_create(pdl__routes_t *routes, const pdl_topology_t *topology, int stride, bool keep);
void         pdl__routes_destroy(pdl__routes_t *routes);

/* The route of a message between two different hosts; one of more than `stride` hops comes without its links.
   Valid until the next call. */
const pdl__route_t *pdl__routes_find(pdl__routes_t *routes, int32_t src, int32_t dst, double bytes);

#endif
