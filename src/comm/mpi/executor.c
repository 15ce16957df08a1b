/*
 * Runs the steps of one rank over MPI, in memory of the host.
 */
#include "comm/mpi/executor.h"

#include "base/memory.h"
#include "comm/mpi/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TAGS 32768 /* every MPI has at least so many */

static pdl_status_t send(pdl__steps_t *steps, int i, const char *from, int64_t count, int peer)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;
    int             narrow;
    pdl_status_t    status = pdl__mpi_count(count, &narrow);

    if (status) return status;
    return PDL_MPI(pdl__mpi->Isend(from, narrow, executor->type, peer, steps->step % TAGS, executor->comm,
                                   &executor->send_request[i]));
}

static pdl_status_t receive(pdl__steps_t *steps, int i, char *to, int64_t count, int peer)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;
    int             narrow;
    pdl_status_t    status = pdl__mpi_count(count, &narrow);

    if (status) return status;
    return PDL_MPI(pdl__mpi->Irecv(to, narrow, executor->type, peer, steps->step % TAGS, executor->comm,
                                   &executor->receive_request[i]));
}

static pdl_status_t complete(pdl__steps_t *steps, bool send, int i, bool block, bool *done)
{
    pdl_executor_t *executor = (pdl_executor_t *)steps;
    MPI_Request    *request = send ? &executor->send_request[i] : &executor->receive_request[i];
    pdl_status_t    status;
    int             flag = 1;

    if (block)
        status = PDL_MPI(pdl__mpi->Wait(request, MPI_STATUS_IGNORE));
    else
        status = PDL_MPI(pdl__mpi->Test(request, &flag, MPI_STATUS_IGNORE));
    *done = flag != 0;
    return status;
}

pdl_status_t pdl__executor_add(pdl__steps_t *steps, const char *from, char *to, int64_t count)
{
    return pdl__reducer_apply(&((pdl_executor_t *)steps)->reducer, from, to, count);
}

pdl_status_t pdl__executor_copy(pdl__steps_t *steps, const char *from, char *to, int64_t count)
{
    memcpy(to, from, (size_t)(count * steps->extent));
    return PDL_OK;
}

static const pdl__steps_ops_t ops = {
    .send = send, .receive = receive, .complete = complete, .add = pdl__executor_add, .copy = pdl__executor_copy};

/* malloc of elements, at least one byte so that NULL is a failure. */
static char *reserve(const pdl_executor_t *executor, int64_t elements)
{
    int64_t extent = executor->reducer.extent;

    if (elements > 0 && (uint64_t)elements > SIZE_MAX / 2 / (uint64_t)extent) return NULL;
    return malloc(elements > 0 ? (size_t)(elements * extent) : 1);
}

/* Makes a buffer hold so many elements at least; what is in it is lost. */
static bool enlarge(const pdl_executor_t *executor, int64_t elements, char **buffer, size_t *bytes)
{
    size_t wanted = (size_t)(elements * executor->reducer.extent);

    if (*buffer != NULL && *bytes >= wanted) return true;
    free(*buffer);
    *buffer = reserve(executor, elements);
    *bytes = *buffer != NULL ? wanted : 0;
    return *buffer != NULL;
}

static pdl_status_t make_messages(pdl_executor_t *executor, const pdl_executor_spec_t *spec, int rank)
{
    int64_t chunk = spec->chunk_bytes > 0 ? spec->chunk_bytes : PDL__CHUNK_BYTES;
    int     narrow;

    executor->steps.extent = executor->reducer.extent;
    int64_t bytes = spec->all_shared ? 0 : spec->elements * executor->steps.extent;

    if (pdl__mailbox_takes(spec->mailbox, bytes, executor->steps.extent)) executor->mailbox = spec->mailbox;
    if (executor->mailbox != NULL && chunk > PDL__MAILBOX_SLOT_BYTES) chunk = PDL__MAILBOX_SLOT_BYTES;
    executor->steps.ops = executor->mailbox != NULL ? &pdl__mailbox_ops : &ops;
    pdl_status_t status = pdl__mpi_count(chunk / executor->steps.extent, &narrow);
    if (status) return status;
    return pdl__steps_init(&executor->steps, spec->schedule, rank, spec->elements, spec->counts, chunk,
                           PDL__SLOT_BYTES);
}

static pdl_status_t make_buffers(pdl_executor_t *executor)
{
    const pdl__messages_t *messages = &executor->steps.messages;
    const pdl__layout_t   *layout = &executor->steps.layout;
    pdl_scratch_t         *scratch = executor->scratch;

    executor->send_request = malloc(((size_t)messages->most_sends + 1) * sizeof(MPI_Request));
    executor->receive_request = malloc(((size_t)messages->most_window + 1) * sizeof(MPI_Request));
    executor->steps.area[PDL__AREA_RELAY] = reserve(executor, layout->relay_count * layout->pair_elements);
    executor->outgoing = calloc((size_t)messages->most_sends + 1, sizeof(*executor->outgoing));
    executor->incoming = calloc((size_t)messages->most_window + 1, sizeof(*executor->incoming));
    if (executor->send_request == NULL || executor->receive_request == NULL || executor->outgoing == NULL ||
        executor->incoming == NULL || executor->steps.area[PDL__AREA_RELAY] == NULL ||
        !enlarge(executor, messages->slot_elements, &scratch->slots, &scratch->slots_bytes) ||
        !enlarge(executor, messages->pack_elements, &scratch->pack, &scratch->pack_bytes))
        return pdl__no_memory("for the buffers of a collective");
    return PDL_OK;
}

static pdl_status_t check_spec(const pdl_executor_spec_t *spec, int *rank)
{
    int          size;
    pdl_status_t status = pdl__mpi_load();

    if (!status) status = PDL_MPI(pdl__mpi->Comm_size(spec->comm, &size));
    if (!status) status = PDL_MPI(pdl__mpi->Comm_rank(spec->comm, rank));
    if (status) return status;
    if (size != pdl_schedule_ranks(spec->schedule))
        return pdl_error(PDL_ERR_INPUT, "the schedule is for %d ranks, the communicator has %d",
                         pdl_schedule_ranks(spec->schedule), size);
    if (spec->elements < 0)
        return pdl_error(PDL_ERR_INPUT, "a vector of %" PRId64 " elements: expected 0 or more", spec->elements);
    return PDL_OK;
}

pdl_status_t pdl_executor_create(const pdl_executor_spec_t *spec, pdl_executor_t **result)
{
    pdl_executor_t *executor;
    int             rank;
    pdl_status_t    status = check_spec(spec, &rank);

    if (status) return status;
    executor = calloc(1, sizeof(*executor));
    if (executor == NULL) return pdl__no_memory("for the buffers of a collective");
    executor->comm = spec->comm;
    executor->type = spec->type;
    executor->collective = pdl_schedule_collective(spec->schedule);
    executor->elements = spec->elements;
    executor->scratch = spec->scratch != NULL ? spec->scratch : &executor->own;
    status = pdl__reducer_init(spec->type, spec->op, &executor->reducer);
    if (!status) status = make_messages(executor, spec, rank);
    if (!status) status = make_buffers(executor);
    if (status) {
        pdl_executor_destroy(executor);
        return status;
    }
    *result = executor;
    return PDL_OK;
}

void pdl_executor_destroy(pdl_executor_t *executor)
{
    if (executor == NULL) return;
    pdl__steps_fini(&executor->steps);
    free(executor->send_request);
    free(executor->receive_request);
    free(executor->outgoing);
    free(executor->incoming);
    free(executor->own.slots);
    free(executor->own.pack);
    free(executor->steps.area[PDL__AREA_RELAY]);
    free(executor);
}

static void copy_elements(const pdl_executor_t *executor, char *data, int64_t first, const char *from,
                          int64_t count)
{
    char *to = data + first * executor->reducer.extent;

    if (count > 0 && from != to) memcpy(to, from, (size_t)(count * executor->reducer.extent));
}

/* Brings the contribution of this rank to where the schedule expects it. */
static void place_input(pdl_executor_t *executor, const char *input, char *data)
{
    const pdl__layout_t *layout = &executor->steps.layout;
    int64_t              first, count;

    switch (executor->collective) {
    case PDL_COLL_ALLREDUCE:
    case PDL_COLL_REDUCE_SCATTER: copy_elements(executor, data, 0, input, executor->elements); break;
    case PDL_COLL_ALLGATHER:
        pdl_executor_part(executor, layout->rank, &first, &count);
        copy_elements(executor, data, first, input, count);
        break;
    case PDL_COLL_ALLTOALL:
        first = layout->rank * layout->pair_elements;
        copy_elements(executor, data, first, input + first * executor->reducer.extent, layout->pair_elements);
        break;
    default: break;
    }
}

pdl_status_t pdl_executor_start(pdl_executor_t *executor, const void *input, void *data)
{
    if (executor->collective == PDL_COLL_ALLTOALL && input == NULL)
        return pdl_error(PDL_ERR_INPUT, "all-to-all needs an input apart from its result");
    if (input != NULL) place_input(executor, input, data);
    /* Messages are sent from the input of an all-to-all but never received there. */
    executor->steps.area[PDL__AREA_INPUT] = (char *)(uintptr_t)input;
    executor->steps.area[PDL__AREA_DATA] = data;
    executor->steps.slots = executor->scratch->slots;
    executor->steps.pack = executor->scratch->pack;
    pdl__steps_start(&executor->steps);
    return PDL_OK;
}

pdl_status_t pdl_executor_test(pdl_executor_t *executor, bool *done)
{
    return pdl__steps_advance(&executor->steps, false, done);
}

pdl_status_t pdl_executor_run(pdl_executor_t *executor, const void *input, void *data)
{
    bool         done;
    pdl_status_t status = pdl_executor_start(executor, input, data);

    return status ? status : pdl__steps_advance(&executor->steps, true, &done);
}

void pdl_executor_part(const pdl_executor_t *executor, int rank, int64_t *first, int64_t *count)
{
    *first = executor->steps.layout.part[rank];
    *count = executor->steps.layout.part[rank + 1] - *first;
}

int64_t pdl_executor_sent(const pdl_executor_t *executor)
{
    return pdl__steps_sent(&executor->steps);
}

int64_t pdl_executor_posted(const pdl_executor_t *executor)
{
    return executor->steps.posted;
}

int64_t pdl_executor_messages(const pdl_executor_t *executor)
{
    return executor->steps.sends;
}

pdl_status_t pdl_scratch_create(pdl_scratch_t **scratch)
{
    pdl_scratch_t *made = calloc(1, sizeof(*made));

    if (made == NULL) return pdl__no_memory("for the buffers of a collective");
    *scratch = made;
    return PDL_OK;
}

size_t pdl_scratch_bytes(const pdl_scratch_t *scratch)
{
    return scratch->slots_bytes + scratch->pack_bytes;
}

void pdl_scratch_destroy(pdl_scratch_t *scratch)
{
    if (scratch == NULL) return;
    free(scratch->slots);
    free(scratch->pack);
    free(scratch);
}
