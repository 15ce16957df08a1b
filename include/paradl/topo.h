/* Network topologies and contention. */
#ifndef PARADL_TOPO_MODULE_H
#define PARADL_TOPO_MODULE_H

#include <paradl/topo/contention.h>
#include <paradl/topo/topo.h>

#endif
