/*
 * The one place where codes and counts of MPI become ours.
 *
 * The library calls MPI by its PMPI names: tools that watch a program see the collectives that the program asked
 * for, and the profiling-interface library can interpose them without meeting itself.
 */
#ifndef PDL_COMM_CHECK_H
#define PDL_COMM_CHECK_H

#include <mpi.h>
#include <paradl/base/status.h>
#include <stdint.h>

/* The status of an MPI call; the message names the call. It is of use where the communicator's error handler
   returns. */
#define PDL_MPI(call) pdl__mpi_status((call), #call)
pdl_status_t pdl__mpi_status(int code, const char *call);

/* MPI counts with int: PDL_ERR_LIMIT for a number that does not fit. */
pdl_status_t pdl__mpi_count(int64_t count, int *narrow);

#endif
