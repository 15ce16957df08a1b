/*
 * The blocking collectives that take the place of the MPI library's.
 *
 * Whether a call is ours depends only on what MPI requires to be the same on every rank: the communicator, the
 * operation and its type in reductions, and elsewhere the number of bytes, because types may differ between ranks
 * that agree on the bytes. Data of types that are not plain are packed before and unpacked after. What is wrong
 * in a call is left for the library to report.
 */
#include "comm/interpose/interpose.h"

#include "comm/mpi/check.h"
#include "comm/mpi/reduce.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* Ends a call that failed the way the communicator wants it. */
static int end_call(MPI_Comm comm, const char *call, pdl_status_t status)
{
    int code = status == PDL_ERR_NOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;

    if (status == PDL_OK) return MPI_SUCCESS;
    fprintf(stderr, "paradl-mpi: %s: %s\n", call, pdl_error_message());
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

/* A communicator on which the collective is ours. */
static bool is_ours(pdl_collective_t collective, const char *call, MPI_Comm comm)
{
    int inter = 0, ranks = 0;

    if (comm == MPI_COMM_NULL || strcmp(pdl__settings()->algorithm[collective], "mpi") == 0) return false;
    if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS || PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS)
        return false;
    if (inter) pdl__say_why(comm, call, PDL__INTERCOMMUNICATOR);
    return !inter && ranks > 1;
}

static bool is_predefined(MPI_Op op)
{
    const MPI_Op known[] = {MPI_SUM,  MPI_PROD, MPI_MIN, MPI_MAX,  MPI_LAND,   MPI_LOR,
                            MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i] == op) return true;
    }
    return false;
}

static bool is_our_reduction(pdl_collective_t collective, const char *call, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    if (!is_ours(collective, call, comm)) return false;
    if (pdl__reducer_defined(type, op)) return true;
    pdl__say_why(comm, call, is_predefined(op) ? PDL__DERIVED_TYPE : PDL__USER_OPERATION);
    return false;
}

static pdl_status_t find_plan(MPI_Comm comm, const char *call, const pdl__plan_t *wanted, pdl__state_t **state,
                              pdl__plan_t **plan)
{
    pdl_status_t status;

    *state = pdl__state(comm);
    if (*state == NULL) return PDL_ERR_IO;
    status = pdl__plan(*state, wanted, plan);
    if (!status && !(*plan)->tried && (*plan)->executor == NULL) pdl__say_why(comm, call, PDL__NO_SCHEDULE);
    return status;
}

/* The executor of a call, or the reason why there is none: *executor NULL with PDL_OK leaves it to the library. */
static pdl_status_t find_executor(MPI_Comm comm, const char *call, const pdl__plan_t *wanted, pdl__state_t **state,
                                  pdl_executor_t **executor)
{
    pdl__plan_t *plan = NULL;
    pdl_status_t status = find_plan(comm, call, wanted, state, &plan);

    *executor = status ? NULL : plan->executor;
    return status;
}

static pdl_status_t allreduce(pdl__state_t *state, pdl__plan_t *plan, const void *input, void *data)
{
    if (plan->tried) return pdl__ways_run(state, plan, input, data);
    return pdl_executor_run(plan->executor, input == MPI_IN_PLACE ? NULL : input, data);
}

/* The last allreduce of a thread, which the next one is like in most programs: looking for its plan takes a sixth of a short one. */
typedef struct last {
    MPI_Comm      comm;
    pdl__state_t *state;
    pdl__plan_t  *plan;
    unsigned      forgotten;
} last_t;

static bool is_like(const last_t *last, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    return last->plan != NULL && last->forgotten == pdl__plans_forgotten() && last->comm == comm &&
           last->plan->elements == count && last->plan->type == type && last->plan->op == op;
}

EXPORT int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                         MPI_Comm comm)
{
    static const char call[] = "MPI_Allreduce";
    pdl__plan_t       wanted = {.collective = PDL_COLL_ALLREDUCE, .elements = count, .type = datatype, .op = op};
    static _Thread_local last_t last;
    pdl__state_t               *state = NULL;
    pdl__plan_t                *plan = NULL;
    pdl_status_t                status;

    if (count > 0 && sendbuf != recvbuf && is_like(&last, count, datatype, op, comm))
        return end_call(comm, call, allreduce(last.state, last.plan, sendbuf, recvbuf));
    if (count <= 0 || sendbuf == recvbuf || !is_our_reduction(wanted.collective, call, datatype, op, comm))
        return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    status = find_plan(comm, call, &wanted, &state, &plan);
    if (!status && !plan->tried && plan->executor == NULL)
        return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    if (!status) last = (last_t){comm, state, plan, pdl__plans_forgotten()};
    if (!status) status = allreduce(state, plan, sendbuf, recvbuf);
    return end_call(comm, call, status);
}

/* Both kinds of reduce-scatter: the vector is worked on in memory of ours, since the result is shorter than it. */
static pdl_status_t reduce_scatter(pdl__state_t *state, pdl_executor_t *executor, const void *sendbuf,
                                   void *recvbuf, const pdl__plan_t *plan)
{
    MPI_Aint     low, extent;
    int64_t      first, count;
    pdl_status_t status = PDL_MPI(PMPI_Type_get_extent(plan->type, &low, &extent));
    char        *vector;

    if (status) return status;
    vector = pdl__scratch(state, (size_t)plan->elements * (size_t)extent);
    if (vector == NULL) return PDL_ERR_NOMEM;
    status = pdl_executor_run(executor, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, vector);
    if (status) return status;
    pdl_executor_part(executor, state->rank, &first, &count);
    if (count > 0) memcpy(recvbuf, vector + first * extent, (size_t)(count * extent));
    return PDL_OK;
}

EXPORT int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int recvcount, MPI_Datatype datatype,
                                    MPI_Op op, MPI_Comm comm)
{
    static const char call[] = "MPI_Reduce_scatter_block";
    pdl__plan_t       wanted = {.collective = PDL_COLL_REDUCE_SCATTER, .type = datatype, .op = op};
    pdl__state_t     *state = NULL;
    pdl_executor_t   *executor;
    pdl_status_t      status;
    int               ranks;

    if (recvcount <= 0 || sendbuf == recvbuf || !is_our_reduction(wanted.collective, call, datatype, op, comm))
        return PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
    PMPI_Comm_size(comm, &ranks);
    wanted.elements = (int64_t)recvcount * ranks;
    status = find_executor(comm, call, &wanted, &state, &executor);
    if (!status && executor == NULL)
        return PMPI_Reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm);
    if (!status) status = reduce_scatter(state, executor, sendbuf, recvbuf, &wanted);
    return end_call(comm, call, status);
}

/* The sum of the counts, which are copied to `wide`; negative when one of them is. */
static int64_t add_counts(const int counts[], int ranks, int64_t *wide)
{
    int64_t sum = 0;

    for (int r = 0; r < ranks; r++) {
        if (counts[r] < 0) return -1;
        wide[r] = counts[r];
        sum += counts[r];
    }
    return sum;
}

EXPORT int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int recvcounts[], MPI_Datatype datatype,
                              MPI_Op op, MPI_Comm comm)
{
    static const char call[] = "MPI_Reduce_scatter";
    pdl__plan_t       wanted = {.collective = PDL_COLL_REDUCE_SCATTER, .type = datatype, .op = op};
    pdl__state_t     *state = NULL;
    pdl_executor_t   *executor = NULL;
    pdl_status_t      status = PDL_OK;
    int               ranks;

    if (recvcounts == NULL || sendbuf == recvbuf || !is_our_reduction(wanted.collective, call, datatype, op, comm))
        return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
    PMPI_Comm_size(comm, &ranks);
    wanted.counts = malloc((size_t)ranks * sizeof(*wanted.counts));
    if (wanted.counts == NULL) return end_call(comm, call, pdl_error(PDL_ERR_NOMEM, "out of memory"));
    wanted.elements = add_counts(recvcounts, ranks, wanted.counts);
    if (wanted.elements > 0) status = find_executor(comm, call, &wanted, &state, &executor);
    if (!status && executor != NULL) status = reduce_scatter(state, executor, sendbuf, recvbuf, &wanted);
    free(wanted.counts);
    if (!status && executor == NULL) return PMPI_Reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm);
    return end_call(comm, call, status);
}

/* Elements that are contiguous in memory, as they are sent. */
static bool is_plain(MPI_Datatype type)
{
    int      integers, addresses, types, combiner;
    MPI_Aint low, extent;
    int      size;

    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS) return false;
    PMPI_Type_get_extent(type, &low, &extent);
    PMPI_Type_size(type, &size);
    return combiner == MPI_COMBINER_NAMED && low == 0 && extent == size;
}

/* Bytes of `count` elements; -1 for a call in which something is wrong. */
static int64_t bytes_of(int count, MPI_Datatype type)
{
    MPI_Count size;

    if (count < 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS) return -1;
    return size == MPI_UNDEFINED ? -1 : (int64_t)size * count;
}

/* Elements at `index` groups of `count` elements from `base`. */
static char *group_at(const void *base, int64_t index, int count, MPI_Datatype type)
{
    MPI_Aint low, extent;

    PMPI_Type_get_extent(type, &low, &extent);
    return (char *)(uintptr_t)base + index * count * extent;
}

static pdl_status_t pack(const void *from, int count, MPI_Datatype type, char *to, int64_t bytes, MPI_Comm comm)
{
    int position = 0;

    return PDL_MPI(PMPI_Pack(from, count, type, to, (int)bytes, &position, comm));
}

static pdl_status_t unpack(const char *from, int64_t bytes, void *to, int count, MPI_Datatype type, MPI_Comm comm)
{
    int position = 0;

    return PDL_MPI(PMPI_Unpack(from, (int)bytes, &position, to, count, type, comm));
}

static pdl_status_t unpack_all(const pdl__state_t *state, const char *from, int64_t bytes, void *to, int count,
                               MPI_Datatype type)
{
    pdl_status_t status = PDL_OK;

    for (int r = 0; !status && r < state->ranks; r++)
        status = unpack(from + r * bytes, bytes, group_at(to, r, count, type), count, type, state->comm);
    return status;
}

/* Whether an allgather or all-to-all of so many bytes between two ranks is ours. */
static bool is_our_exchange(pdl_collective_t collective, const char *call, int64_t bytes, MPI_Comm comm)
{
    if (bytes <= 0 || !is_ours(collective, call, comm)) return false;
    if (bytes <= INT_MAX) return true;
    pdl__say_why(comm, call, PDL__TOO_LARGE);
    return false;
}

static pdl_status_t allgather(pdl__state_t *state, pdl_executor_t *executor, const void *sendbuf, int sendcount,
                              MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                              int64_t bytes)
{
    bool         plain = is_plain(recvtype), in_place = sendbuf == MPI_IN_PLACE;
    char        *vector = plain ? recvbuf : pdl__scratch(state, (size_t)bytes * (size_t)state->ranks);
    pdl_status_t status = PDL_OK;

    if (vector == NULL) return PDL_ERR_NOMEM;
    if (plain && in_place) return pdl_executor_run(executor, NULL, vector);
    if (in_place) {
        sendbuf = group_at(recvbuf, state->rank, recvcount, recvtype);
        sendcount = recvcount;
        sendtype = recvtype;
    }
    if (is_plain(sendtype))
        memcpy(vector + state->rank * bytes, sendbuf, (size_t)bytes);
    else
        status = pack(sendbuf, sendcount, sendtype, vector + state->rank * bytes, bytes, state->comm);
    if (!status) status = pdl_executor_run(executor, NULL, vector);
    if (!status && !plain) status = unpack_all(state, vector, bytes, recvbuf, recvcount, recvtype);
    return status;
}

static pdl_status_t all_to_all(pdl__state_t *state, pdl_executor_t *executor, const void *sendbuf, int sendcount,
                               MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                               int64_t bytes)
{
    bool         in_place = sendbuf == MPI_IN_PLACE, plain = is_plain(recvtype);
    size_t       total = (size_t)bytes * (size_t)state->ranks;
    char        *scratch = pdl__scratch(state, 2 * total), *result = plain ? recvbuf : scratch + total;
    const char  *input = scratch;
    pdl_status_t status = PDL_OK;

    if (scratch == NULL) return PDL_ERR_NOMEM;
    if (in_place) {
        sendbuf = recvbuf;
        sendcount = recvcount;
        sendtype = recvtype;
    }
    if (!is_plain(sendtype)) {
        for (int r = 0; !status && r < state->ranks; r++)
            status = pack(group_at(sendbuf, r, sendcount, sendtype), sendcount, sendtype, scratch + r * bytes,
                          bytes, state->comm);
    } else if (in_place) {
        memcpy(scratch, sendbuf, total);
    } else {
        input = sendbuf;
    }
    if (!status) status = pdl_executor_run(executor, input, result);
    if (!status && !plain) status = unpack_all(state, result, bytes, recvbuf, recvcount, recvtype);
    return status;
}

/* What MPI_Allgather and MPI_Alltoall differ in. */
typedef struct swap {
    const char      *call;
    pdl_collective_t collective;
    int (*theirs)(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
    pdl_status_t (*ours)(pdl__state_t *, pdl_executor_t *, const void *, int, MPI_Datatype, void *, int,
                         MPI_Datatype, int64_t);
} swap_t;

static int run_swap(const swap_t *swap, const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                    int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    int64_t         bytes = bytes_of(recvcount, recvtype);
    pdl__plan_t     wanted = {.collective = swap->collective, .type = MPI_BYTE, .op = MPI_OP_NULL};
    pdl__state_t   *state = NULL;
    pdl_executor_t *executor;
    pdl_status_t    status;
    int             ranks;

    if ((sendbuf != MPI_IN_PLACE && bytes_of(sendcount, sendtype) != bytes) ||
        !is_our_exchange(wanted.collective, swap->call, bytes, comm))
        return swap->theirs(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    PMPI_Comm_size(comm, &ranks);
    wanted.elements = bytes * ranks;
    status = find_executor(comm, swap->call, &wanted, &state, &executor);
    if (!status && executor == NULL)
        return swap->theirs(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    if (!status)
        status = swap->ours(state, executor, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, bytes);
    return end_call(comm, swap->call, status);
}

EXPORT int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                         MPI_Datatype recvtype, MPI_Comm comm)
{
    static const swap_t swap = {"MPI_Allgather", PDL_COLL_ALLGATHER, PMPI_Allgather, allgather};

    return run_swap(&swap, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}

EXPORT int MPI_Alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount,
                        MPI_Datatype recvtype, MPI_Comm comm)
{
    static const swap_t swap = {"MPI_Alltoall", PDL_COLL_ALLTOALL, PMPI_Alltoall, all_to_all};

    return run_swap(&swap, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
}
