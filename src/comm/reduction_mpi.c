/*
 * Sums over the ranks, by a schedule or by MPI's own collective, each in the communicator of its lane.
 */
#include "comm/check.h"
#include "comm/world.h"

#include <paradl/comm.h>

#include <stdlib.h>
#include <string.h>

/* At most one sum at a time: its messages meet no others, and what arrives needs one place. */
typedef struct lane {
    MPI_Comm       comm;
    pdl_scratch_t *scratch;
} lane_t;

struct pdl__lanes {
    lane_t *lane;
    int     count, ranks;
    double *counted; /* of the ranks: bytes that exchanges have sent */
};

struct pdl__reduction {
    lane_t          lane;
    pdl_executor_t *executor; /* NULL: MPI's own */
    MPI_Request     request;
    int             elements; /* of MPI's own */
    int64_t         bytes;
    double         *counted;
};

pdl_status_t pdl__lanes_create(const pdl_ranks_t *ranks, int count, pdl__lanes_t **result)
{
    pdl__lanes_t *lanes = calloc(1, sizeof(*lanes));
    pdl_status_t  status = PDL_OK;

    if (lanes != NULL) lanes->lane = calloc((size_t)count, sizeof(*lanes->lane));
    if (lanes == NULL || lanes->lane == NULL) {
        free(lanes);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    lanes->ranks = ranks->size;
    lanes->counted = &ranks->counted[PDL_SENT_EXCHANGE];
    while (!status && lanes->count < count) {
        lane_t *lane = &lanes->lane[lanes->count];

        status = pdl_scratch_create(&lane->scratch);
        if (!status) status = PDL_MPI(PMPI_Comm_dup(ranks->world->comm, &lane->comm));
        if (status)
            pdl_scratch_destroy(lane->scratch);
        else
            lanes->count++;
    }
    if (status) {
        pdl__lanes_destroy(lanes);
        return status;
    }
    *result = lanes;
    return PDL_OK;
}

void pdl__lanes_destroy(pdl__lanes_t *lanes)
{
    if (lanes == NULL) return;
    for (int i = 0; i < lanes->count; i++) {
        PMPI_Comm_free(&lanes->lane[i].comm);
        pdl_scratch_destroy(lanes->lane[i].scratch);
    }
    free(lanes->lane);
    free(lanes);
}

size_t pdl__lanes_bytes(const pdl__lanes_t *lanes)
{
    size_t bytes = 0;

    for (int i = 0; i < lanes->count; i++) bytes += pdl_scratch_bytes(lanes->lane[i].scratch);
    return bytes;
}

/* MPI keeps its ways to itself; every allreduce of least volume sends as much as a ring. */
static pdl_status_t use_library(const pdl__lanes_t *lanes, int64_t elements, pdl__reduction_t *reduction)
{
    reduction->bytes = 2 * elements * (int64_t)sizeof(float) / lanes->ranks * (lanes->ranks - 1);
    return pdl__mpi_count(elements, &reduction->elements);
}

static pdl_status_t use_schedule(const pdl__lanes_t *lanes, const char *algorithm, int64_t elements,
                                 int64_t chunk_bytes, pdl__reduction_t *reduction)
{
    pdl_schedule_spec_t wanted = {.collective = PDL_COLL_ALLREDUCE, .algorithm = algorithm, .ranks = lanes->ranks};
    pdl_schedule_t     *schedule;
    pdl_status_t        status = pdl_schedule_create(&wanted, &schedule);

    if (status) return status;
    status = pdl_executor_create(&(pdl_executor_spec_t){.schedule = schedule,
                                                        .comm = reduction->lane.comm,
                                                        .type = MPI_FLOAT,
                                                        .op = MPI_SUM,
                                                        .elements = elements,
                                                        .chunk_bytes = chunk_bytes,
                                                        .scratch = reduction->lane.scratch},
                                 &reduction->executor);
    pdl_schedule_destroy(schedule);
    if (!status) reduction->bytes = pdl_executor_sent(reduction->executor);
    return status;
}

pdl_status_t pdl__reduction_create(const pdl__lanes_t *lanes, int lane, const char *algorithm, int64_t elements,
                                   int64_t chunk_bytes, pdl__reduction_t **result)
{
    pdl__reduction_t *reduction = calloc(1, sizeof(*reduction));
    pdl_status_t      status;

    if (reduction == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    reduction->lane = lanes->lane[lane];
    reduction->request = MPI_REQUEST_NULL;
    reduction->counted = lanes->counted;
    if (strcmp(algorithm, "library") == 0)
        status = use_library(lanes, elements, reduction);
    else
        status = use_schedule(lanes, algorithm, elements, chunk_bytes, reduction);
    if (status) {
        free(reduction);
        return status;
    }
    *result = reduction;
    return PDL_OK;
}

void pdl__reduction_destroy(pdl__reduction_t *reduction)
{
    if (reduction == NULL) return;
    pdl_executor_destroy(reduction->executor);
    free(reduction);
}

pdl_status_t pdl__reduction_start(pdl__reduction_t *reduction, float *data)
{
    if (reduction->executor != NULL) return pdl_executor_start(reduction->executor, NULL, data);
    *reduction->counted += (double)reduction->bytes;
    return PDL_MPI(PMPI_Iallreduce(MPI_IN_PLACE, data, reduction->elements, MPI_FLOAT, MPI_SUM,
                                   reduction->lane.comm, &reduction->request));
}

pdl_status_t pdl__reduction_test(pdl__reduction_t *reduction, bool *done)
{
    int          flag = 0;
    pdl_status_t status;

    if (reduction->executor != NULL) {
        int64_t before = pdl_executor_posted(reduction->executor);

        status = pdl_executor_test(reduction->executor, done);
        *reduction->counted += (double)(pdl_executor_posted(reduction->executor) - before);
        return status;
    }
    status = PDL_MPI(PMPI_Test(&reduction->request, &flag, MPI_STATUS_IGNORE));
    *done = flag != 0;
    return status;
}

int64_t pdl__reduction_bytes(const pdl__reduction_t *reduction)
{
    return reduction->bytes;
}
