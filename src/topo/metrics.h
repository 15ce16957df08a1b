/*
 * Parts of pdl_topology_metrics(). Internal to topo.
 */
#ifndef PDL_TOPO_METRICS_H
#define PDL_TOPO_METRICS_H

#include "topo/network.h"

/* Whether a link stands for its cable in counts: each cable of the machine room once. */
bool pdl__is_cable(const pdl_topology_t *topology, int link);

/* bisection.c: what can flow from the lower half of the hosts to the upper. */
pdl_status_t pdl__bisection(const pdl_topology_t *topology, double *bytes_per_s);

/* room.c: lengths and cost. */
pdl_status_t pdl__lay_cables(const pdl_topology_t *topology, const pdl_room_t *room,
                             pdl_topology_metrics_t *metrics);

#endif
