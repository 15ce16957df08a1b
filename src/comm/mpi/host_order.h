/*
 * The order of hosts (comm/hosts.h) over a communicator. Collective.
 */
#ifndef PDL_COMM_HOST_ORDER_H
#define PDL_COMM_HOST_ORDER_H

#include "comm/plugin/mpi.h"

#include <paradl/base/status.h>
#include <stdint.h>

/* The same on every rank. */
pdl_status_t pdl__host_order_find(MPI_Comm comm, uint64_t *order);

#endif
