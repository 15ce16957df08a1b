/*
 * Which host has which rank. A network is measured with rank r on host r, and what was measured is right for jobs alone that
 * start in the same order of hosts.
 */
#ifndef PDL_COMM_HOSTS_H
#define PDL_COMM_HOSTS_H

#include "comm/plugin/mpi.h"

#include <paradl/base/status.h>
#include <paradl/topo/topo.h>
#include <stdint.h>

/* The names of the hosts in the order of ranks as one number, never 0; the same on every rank. */
pdl_status_t pdl__host_order(MPI_Comm comm, uint64_t *order);

/* Refuses a network that was measured with other hosts, or with these in another order. Collective. */
pdl_status_t pdl__host_order_check(MPI_Comm comm, const pdl_topology_t *network);

#endif
