/*
 * The one place where codes and counts of MPI become ours.
 */
#ifndef PDL_COMM_CHECK_H
#define PDL_COMM_CHECK_H

#include "comm/plugin/mpi.h"

#include <paradl/base/status.h>
#include <stdint.h>

/* MPI, once pdl__mpi_load() has succeeded. */
extern const pdl__mpi_t *pdl__mpi;
pdl_status_t             pdl__mpi_load(void);

/* The status of an MPI call; the message names the call. It is of use where the communicator's error handler
   returns. */
#define PDL_MPI(call) pdl__mpi_status((call), #call)
pdl_status_t pdl__mpi_status(int code, const char *call);

/* MPI counts with int: PDL_ERR_LIMIT for a number that does not fit. */
pdl_status_t pdl__mpi_count(int64_t count, int *narrow);

#endif
