/*
 * The ranks of MPI.
 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "comm/launch.h"
#include "comm/mpi/check.h"
#include "comm/watch/watch.h"
#include "comm/world.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Before MPI is loaded only the program itself can have it running. */
bool pdl__world_running(void)
{
    int (*initialized)(int *) = pdl__mpi != NULL ? pdl__mpi->Initialized : NULL;
    void *symbol = pdl__mpi == NULL ? dlsym(RTLD_DEFAULT, "PMPI_Initialized") : NULL;
    int   running = 0;

    if (symbol != NULL) memcpy(&initialized, &symbol, sizeof(symbol));
    return initialized != NULL && initialized(&running) == MPI_SUCCESS && running;
}

static pdl_status_t start_mpi(pdl__world_t *world)
{
    int          provided;
    pdl_status_t status;

    if (pdl__world_running()) return PDL_OK;
    status = PDL_MPI(pdl__mpi->Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided));
    if (status) return status;
    world->started = true;
    pdl__launch_started();
    if (provided < MPI_THREAD_SERIALIZED)
        return pdl_error(PDL_ERR_UNSUPPORTED, "this MPI does not allow calls from a second thread: it was built "
                                              "without support for threads");
    return PDL_OK;
}

/* A launcher of another MPI starts processes that do not find each other. */
static pdl_status_t check_size(const pdl_ranks_t *ranks)
{
    int expected = pdl__launch_size();

    if (ranks->size > 1 || expected <= 1) return PDL_OK;
    return pdl_error(PDL_ERR_LIMIT,
                     "%d processes were started but MPI knows only one: start them with the mpirun of "
                     "the MPI that paradl was built with, or with srun --mpi=pmix",
                     expected);
}

/* The world's communicator has just been made. */
static pdl_status_t find_place(pdl_ranks_t *ranks, pdl__world_t *world)
{
    MPI_Comm     node = pdl__mpi->comm_null;
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_set_errhandler(world->comm, pdl__mpi->errors_return));

    if (!status) status = PDL_MPI(pdl__mpi->Comm_rank(world->comm, &ranks->rank));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(world->comm, &ranks->size));
    if (!status)
        status =
            PDL_MPI(pdl__mpi->Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, 0, pdl__mpi->info_null, &node));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_rank(node, &ranks->node_rank));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(node, &ranks->node_size));
    if (node != pdl__mpi->comm_null) pdl__mpi->Comm_free(&node);
    return status;
}

pdl_status_t pdl__world_reserve(pdl_ranks_t *ranks)
{
    ranks->world = calloc(1, sizeof(*ranks->world));
    if (ranks->world == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    ranks->world->comm = pdl__mpi->comm_null;
    return PDL_OK;
}

pdl_status_t pdl__world_start(pdl_ranks_t *ranks)
{
    pdl_status_t status = pdl__mpi_load();

    if (!status) status = pdl__world_reserve(ranks);
    if (!status) status = start_mpi(ranks->world);
    if (!status) status = PDL_MPI(pdl__mpi->Comm_dup(pdl__mpi->comm_world, &ranks->world->comm));
    if (!status) status = find_place(ranks, ranks->world);
    return status ? status : check_size(ranks);
}

pdl_status_t pdl__world_split(const pdl_ranks_t *ranks, int colour, int key, pdl_ranks_t *group)
{
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_split(ranks->world->comm, colour, key, &group->world->comm));

    group->world->watch = ranks->world->watch;
    group->world->progress = ranks->world->progress;
    return status ? status : find_place(group, group->world);
}

void pdl__world_stop(pdl__world_t *world)
{
    if (world->comm != pdl__mpi->comm_null) pdl__mpi->Comm_free(&world->comm);
    if (world->started) {
        pdl__mpi->Finalize();
        pdl__launch_finished();
    }
    free(world);
}

pdl_status_t pdl__world_gather(pdl__world_t *world, const void *mine, void *all, int bytes)
{
    MPI_Request  request;
    pdl_status_t status;

    if (world->watch == NULL && world->progress->transport == NULL)
        return PDL_MPI(pdl__mpi->Allgather(mine, bytes, pdl__mpi->byte, all, bytes, pdl__mpi->byte, world->comm));
    status = PDL_MPI(
        pdl__mpi->Iallgather(mine, bytes, pdl__mpi->byte, all, bytes, pdl__mpi->byte, world->comm, &request));
    return status ? status : pdl__wait_mpi(world, &request, MPI_STATUS_IGNORE);
}

pdl_status_t pdl__world_gather_some(pdl__world_t *world, const void *mine, void *all, const int *bytes,
                                    const int *first, int rank)
{
    MPI_Request  request;
    pdl_status_t status = PDL_MPI(pdl__mpi->Iallgatherv(mine, bytes[rank], pdl__mpi->byte, all, bytes, first,
                                                        pdl__mpi->byte, world->comm, &request));

    return status ? status : pdl__wait_mpi(world, &request, MPI_STATUS_IGNORE);
}

pdl_status_t pdl__world_broadcast(pdl__world_t *world, void *data, int bytes, int root)
{
    MPI_Request  request;
    pdl_status_t status;

    if (world->watch == NULL && world->progress->transport == NULL)
        return PDL_MPI(pdl__mpi->Bcast(data, bytes, pdl__mpi->byte, root, world->comm));
    status = PDL_MPI(pdl__mpi->Ibcast(data, bytes, pdl__mpi->byte, root, world->comm, &request));
    return status ? status : pdl__wait_mpi(world, &request, MPI_STATUS_IGNORE);
}

pdl_status_t pdl__world_barrier(pdl__world_t *world)
{
    MPI_Request  request;
    pdl_status_t status = PDL_MPI(pdl__mpi->Ibarrier(world->comm, &request));

    return status ? status : pdl__wait_mpi(world, &request, MPI_STATUS_IGNORE);
}

void pdl__world_progress(pdl__world_t *world, pdl__progress_t *progress)
{
    world->progress = progress;
}

void pdl__world_watch(pdl__world_t *world, pdl__watch_t *watch)
{
    world->watch = watch;
}

void pdl__world_abort(int exit_status)
{
    pdl__mpi->Abort(pdl__mpi->comm_world, exit_status);
}
