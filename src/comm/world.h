/*
 * The communicator behind the ranks.
 */
#ifndef PDL_COMM_WORLD_H
#define PDL_COMM_WORLD_H

#include "comm/inside.h"

#include <mpi.h>

struct pdl__world {
    MPI_Comm         comm;    /* a duplicate of all ranks, of which errors are returned */
    bool             started; /* MPI was started here, and is to be ended here */
    pdl__watch_t    *watch;   /* or NULL */
    pdl__progress_t *progress;
};

/* Waits for a request of a world, which fails without it once ranks are lost. */
pdl_status_t pdl__wait_mpi(const pdl__world_t *world, MPI_Request *request, MPI_Status *arrived);

#endif
