/*
 * Names of vertices as people see and type them: hosts h0, h1, .., then switches s0, s1, ..
 */
#ifndef PDL_REPORT_VERTEX_H
#define PDL_REPORT_VERTEX_H

#include <paradl/topo/topo.h>
#include <stdio.h>

#define PDL__VERTEX_SIZE 16

static inline const char *pdl__vertex_name(const pdl_topology_t *topology, int vertex, char name[PDL__VERTEX_SIZE])
{
    int hosts = pdl_topology_hosts(topology);

    snprintf(name, PDL__VERTEX_SIZE, "%c%d", vertex < hosts ? 'h' : 's', vertex < hosts ? vertex : vertex - hosts);
    return name;
}

#endif
