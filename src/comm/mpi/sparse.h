/*
 * Sparse sums over MPI.
 */
#ifndef PDL_COMM_MPI_SPARSE_H
#define PDL_COMM_MPI_SPARSE_H

#include "comm/inside.h"

#include <mpi.h>

/* In memory of the host; nothing else is in flight in `comm` while it runs. Bytes sent are added to *counted. */
pdl_status_t pdl__sparse_create(MPI_Comm comm, double *counted, const pdl__reduction_spec_t *spec,
                                pdl__reduction_t **reduction);

#endif
