/*
 * Which host has which rank. A network is measured with rank r on host r, and what was measured is right for jobs alone that
 * start in the same order of hosts.
 */
#ifndef PDL_COMM_HOSTS_H
#define PDL_COMM_HOSTS_H

#include <paradl/base/status.h>
#include <paradl/topo/topo.h>
#include <stdint.h>

/* Of the name of this host. */
uint64_t pdl__host_hash(void);
/* Of those of all ranks in their order; never 0. */
uint64_t pdl__host_order(const uint64_t *hashes, int ranks);
/* Refuses a network that was measured with other hosts, or with these in another order. */
pdl_status_t pdl__host_order_check(const pdl_topology_t *network, uint64_t order);

#endif
