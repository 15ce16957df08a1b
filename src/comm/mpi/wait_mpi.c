/*
 * Waiting for MPI, which by itself would wait for ever for a rank that does not come.
 */
#include "comm/mpi/check.h"
#include "comm/watch/watch.h"
#include "comm/world.h"

#include <sched.h>

#define LOOKS 2000 /* after which a rank that still waits lets others have its core */

pdl_status_t pdl__wait_mpi(const pdl__world_t *world, MPI_Request *request, MPI_Status *arrived)
{
    pdl__watch_t *watch = world->watch;
    bool          others = world->progress->transport != NULL;
    pdl_status_t  status;
    int           done = 0;

    if (watch == NULL && !others) return PDL_MPI(pdl__mpi->Wait(request, arrived));
    status = PDL_MPI(pdl__mpi->Test(request, &done, arrived));
    if (status || done) return status;
    pdl__watch_waits(watch, true);
    for (int looks = 0; !status && !done;) {
        status = pdl__watch_check(watch);
        if (!status && others) status = pdl__progress(world->progress);
        if (!status) status = PDL_MPI(pdl__mpi->Test(request, &done, arrived));
        if (looks < LOOKS)
            looks++;
        else
            sched_yield();
    }
    pdl__watch_waits(watch, false);
    return status;
}
