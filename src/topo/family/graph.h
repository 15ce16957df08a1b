/*
 * Graphs from files. Internal to topo.
 */
#ifndef PDL_TOPO_GRAPH_H
#define PDL_TOPO_GRAPH_H

#include "topo/network.h"

#include <paradl/base/yaml.h>

/* The graph described by a "paradl: topology/1" document without a "topology" key. */
pdl_status_t pdl__graph_read(const pdl_yaml_t *root, pdl_topology_t **topology);

#endif
