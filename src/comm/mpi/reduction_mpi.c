/*
 * Sums over the ranks, and exchanges of parts, by a schedule or by MPI's own collective, each in the communicator
 * of its lane.
 */
#include "comm/dry.h"
#include "comm/mpi/check.h"
#include "comm/mpi/sparse.h"
#include "comm/world.h"

#include <paradl/comm/comm.h>

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

typedef struct mpi_reduction {
    pdl__reduction_t base; /* first: a pdl__reduction_t is cast to this */
    lane_t           lane;
    pdl_executor_t  *executor; /* NULL: MPI's own */
    MPI_Request      request;
    double          *counted;
    /* of MPI's own: */
    pdl_collective_t collective;
    int              elements, rank;
    int             *counts, *first; /* of each rank's part */
    float           *data;
} mpi_reduction_t;

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
        if (!status) status = PDL_MPI(pdl__mpi->Comm_dup(ranks->world->comm, &lane->comm));
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
        pdl__mpi->Comm_free(&lanes->lane[i].comm);
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

static pdl_status_t use_library(const pdl__lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                mpi_reduction_t *reduction)
{
    int          first = 0;
    pdl_status_t status = PDL_MPI(pdl__mpi->Comm_rank(reduction->lane.comm, &reduction->rank));

    reduction->collective = spec->collective;
    reduction->base.bytes = pdl__library_bytes(spec, lanes->ranks);
    if (!status) status = pdl__mpi_count(spec->elements, &reduction->elements);
    if (status || spec->collective == PDL_COLL_ALLREDUCE) return status;
    reduction->counts = calloc((size_t)lanes->ranks, 2 * sizeof(*reduction->counts));
    if (reduction->counts == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    reduction->first = reduction->counts + lanes->ranks;
    for (int r = 0; r < lanes->ranks; r++) {
        reduction->counts[r] = (int)spec->counts[r];
        reduction->first[r] = first;
        first += reduction->counts[r];
    }
    return PDL_OK;
}

static pdl_status_t use_schedule(const pdl__lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                 mpi_reduction_t *reduction)
{
    pdl_schedule_spec_t wanted = {.collective = spec->collective,
                                  .algorithm = spec->algorithm,
                                  .ranks = lanes->ranks,
                                  .hosts_per_switch = spec->ranks_per_node};
    pdl_schedule_t     *schedule;
    pdl_status_t status = pdl_schedule_create_sized(&wanted, (double)spec->elements * sizeof(float), &schedule);

    if (status) return status;
    status = pdl_executor_create(&(pdl_executor_spec_t){.schedule = schedule,
                                                        .comm = reduction->lane.comm,
                                                        .type = pdl__mpi->float32,
                                                        .op = spec->collective == PDL_COLL_ALLGATHER
                                                                  ? pdl__mpi->op_null
                                                                  : pdl__mpi->op[PDL__OP_SUM],
                                                        .elements = spec->elements,
                                                        .counts = spec->counts,
                                                        .chunk_bytes = spec->chunk_bytes,
                                                        .scratch = reduction->lane.scratch},
                                 &reduction->executor);
    pdl_schedule_destroy(schedule);
    if (!status) reduction->base.bytes = pdl_executor_sent(reduction->executor);
    return status;
}

static void reduction_destroy(pdl__reduction_t *base)
{
    mpi_reduction_t *reduction = (mpi_reduction_t *)base;

    pdl_executor_destroy(reduction->executor);
    free(reduction->counts);
    free(reduction);
}

static pdl_status_t reduction_start(pdl__reduction_t *base, float *data)
{
    mpi_reduction_t *reduction = (mpi_reduction_t *)base;

    if (reduction->executor != NULL) return pdl_executor_start(reduction->executor, NULL, data);
    *reduction->counted += (double)base->bytes;
    reduction->data = data;
    if (reduction->collective == PDL_COLL_REDUCE_SCATTER)
        return PDL_MPI(pdl__mpi->Ireduce_scatter(MPI_IN_PLACE, data, reduction->counts, pdl__mpi->float32,
                                                 pdl__mpi->op[PDL__OP_SUM], reduction->lane.comm,
                                                 &reduction->request));
    if (reduction->collective == PDL_COLL_ALLGATHER)
        return PDL_MPI(pdl__mpi->Iallgatherv(MPI_IN_PLACE, 0, pdl__mpi->type_null, data, reduction->counts,
                                             reduction->first, pdl__mpi->float32, reduction->lane.comm,
                                             &reduction->request));
    return PDL_MPI(pdl__mpi->Iallreduce(MPI_IN_PLACE, data, reduction->elements, pdl__mpi->float32,
                                        pdl__mpi->op[PDL__OP_SUM], reduction->lane.comm, &reduction->request));
}

static pdl_status_t reduction_test(pdl__reduction_t *base, bool *done)
{
    mpi_reduction_t *reduction = (mpi_reduction_t *)base;
    int              flag = 0;
    pdl_status_t     status;

    if (reduction->executor != NULL) {
        int64_t before = pdl_executor_posted(reduction->executor);

        status = pdl_executor_test(reduction->executor, done);
        *reduction->counted += (double)(pdl_executor_posted(reduction->executor) - before);
        return status;
    }
    status = PDL_MPI(pdl__mpi->Test(&reduction->request, &flag, MPI_STATUS_IGNORE));
    *done = flag != 0;
    /* MPI leaves a rank's part at the beginning. */
    if (!status && flag && reduction->collective == PDL_COLL_REDUCE_SCATTER)
        memmove(reduction->data + reduction->first[reduction->rank], reduction->data,
                (size_t)reduction->counts[reduction->rank] * sizeof(float));
    return status;
}

static int64_t reduction_messages(const pdl__reduction_t *base)
{
    const mpi_reduction_t *reduction = (const mpi_reduction_t *)base;

    return reduction->executor != NULL ? pdl_executor_messages(reduction->executor) : 0;
}

pdl_status_t pdl__reduction_create(const pdl__lanes_t *lanes, const pdl__reduction_spec_t *spec,
                                   pdl__reduction_t **result)
{
    static const pdl__reduction_ops_t ops = {.start = reduction_start,
                                             .test = reduction_test,
                                             .messages = reduction_messages,
                                             .destroy = reduction_destroy};
    mpi_reduction_t                  *reduction;
    pdl_status_t                      status;

    if (spec->density > 0) return pdl__sparse_create(lanes->lane[spec->lane].comm, lanes->counted, spec, result);
    reduction = calloc(1, sizeof(*reduction));
    if (reduction == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    reduction->base.ops = &ops;
    reduction->lane = lanes->lane[spec->lane];
    reduction->request = pdl__mpi->request_null;
    reduction->counted = lanes->counted;
    if (strcmp(spec->algorithm, "library") == 0)
        status = use_library(lanes, spec, reduction);
    else
        status = use_schedule(lanes, spec, reduction);
    if (status) {
        reduction_destroy(&reduction->base);
        return status;
    }
    *result = &reduction->base;
    return PDL_OK;
}
