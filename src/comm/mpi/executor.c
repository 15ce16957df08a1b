/*
 * Runs the messages of one rank over MPI.
 *
 * In a step all sends are started at once, receives in their fixed order, as many at a time as there are slots.
 * The oldest receive is completed first, added to its place and its slot given to the next: while a chunk is
 * reduced the following ones arrive. Arrival never decides the order of the reductions, so results do not vary
 * from run to run.
 */
#include <paradl/comm/comm.h>

#include "base/memory.h"
#include "comm/messages.h"
#include "comm/mpi/check.h"
#include "comm/mpi/reduce.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TAGS 32768 /* every MPI has at least so many */

struct pdl_scratch {
    char  *slots, *pack;
    size_t slots_bytes, pack_bytes;
};

struct pdl_executor {
    MPI_Comm         comm;
    MPI_Datatype     type;
    pdl_collective_t collective;
    int64_t          elements;
    pdl__reducer_t   reducer;
    pdl__layout_t    layout;
    pdl__messages_t  messages;
    MPI_Request     *send_request;    /* of the current step */
    MPI_Request     *receive_request; /* by slot */
    pdl_scratch_t   *scratch;         /* `own`, or shared */
    pdl_scratch_t    own;
    char            *area[PDL__AREA_COUNT]; /* the relay is ours, the others come with each run */
    /* Where a run stands. */
    int     step;
    int     receive;    /* of the step, the oldest that is not complete */
    int     sends_done; /* of the step */
    bool    in_step;    /* its messages have been started */
    int64_t posted;     /* bytes of all sends since creation, and ... */
    int64_t sends;      /* ... their number */
};

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
    int64_t      extent = executor->reducer.extent;
    int64_t      chunk = (spec->chunk_bytes > 0 ? spec->chunk_bytes : PDL__CHUNK_BYTES) / extent;
    pdl_moves_t *scratch = malloc(sizeof(*scratch));
    pdl_status_t status;
    int          narrow;

    if (scratch == NULL) return pdl__no_memory("for the buffers of a collective");
    if (chunk < 1) chunk = 1;
    status = pdl__mpi_count(chunk, &narrow);
    if (!status)
        status = pdl__layout_init(spec->schedule, rank, spec->elements, spec->counts, scratch, &executor->layout);
    if (!status)
        status = pdl__messages_init(spec->schedule, &executor->layout, chunk, PDL__SLOT_BYTES / extent, scratch,
                                    &executor->messages);
    free(scratch);
    return status;
}

static pdl_status_t make_buffers(pdl_executor_t *executor)
{
    const pdl__messages_t *messages = &executor->messages;
    const pdl__layout_t   *layout = &executor->layout;
    pdl_scratch_t         *scratch = executor->scratch;

    executor->send_request = malloc(((size_t)messages->most_sends + 1) * sizeof(MPI_Request));
    executor->receive_request = malloc(((size_t)messages->most_window + 1) * sizeof(MPI_Request));
    executor->area[PDL__AREA_RELAY] = reserve(executor, layout->relay_count * layout->pair_elements);
    if (executor->send_request == NULL || executor->receive_request == NULL ||
        executor->area[PDL__AREA_RELAY] == NULL ||
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
    executor->step = executor->messages.step_count;
    *result = executor;
    return PDL_OK;
}

void pdl_executor_destroy(pdl_executor_t *executor)
{
    if (executor == NULL) return;
    pdl__layout_fini(&executor->layout);
    pdl__messages_fini(&executor->messages);
    free(executor->send_request);
    free(executor->receive_request);
    free(executor->own.slots);
    free(executor->own.pack);
    free(executor->area[PDL__AREA_RELAY]);
    free(executor);
}

static char *place_of(const pdl_executor_t *executor, const pdl__piece_t *segment)
{
    return executor->area[segment->area] + segment->first * executor->reducer.extent;
}

static char *slot_of(const pdl_executor_t *executor, const pdl__step_t *step, int receive)
{
    return executor->scratch->slots + receive % step->window * step->slot_elements * executor->reducer.extent;
}

static const pdl__message_t *receive_of(const pdl_executor_t *executor, const pdl__step_t *step, int receive)
{
    return &executor->messages.receives.message[step->receive_first + receive];
}

static pdl_status_t post_receive(pdl_executor_t *executor, const pdl__step_t *step, int receive)
{
    const pdl__message_t *message;
    pdl_status_t          status;
    char                 *place;
    int                   count;

    if (receive >= step->receive_count) return PDL_OK;
    message = receive_of(executor, step, receive);
    place = message->staged ? slot_of(executor, step, receive)
                            : place_of(executor, &executor->messages.segment[message->segment_first]);
    status = pdl__mpi_count(message->count, &count);
    if (status) return status;
    return PDL_MPI(pdl__mpi->Irecv(place, count, executor->type, message->peer, executor->step % TAGS,
                                   executor->comm, &executor->receive_request[receive % step->window]));
}

/* Brings the segments of a send together. */
static void pack_message(const pdl_executor_t *executor, const pdl__message_t *message)
{
    int64_t extent = executor->reducer.extent;
    char   *next = executor->scratch->pack + message->pack_first * extent;

    for (int i = 0; i < message->segment_count; i++) {
        const pdl__piece_t *segment = &executor->messages.segment[message->segment_first + i];

        memcpy(next, place_of(executor, segment), (size_t)(segment->count * extent));
        next += segment->count * extent;
    }
}

static pdl_status_t post_send(pdl_executor_t *executor, const pdl__step_t *step, int send)
{
    const pdl__message_t *message = &executor->messages.sends.message[step->send_first + send];
    pdl_status_t          status;
    const char           *from;
    int                   count;

    if (message->pack_first >= 0)
        from = executor->scratch->pack + message->pack_first * executor->reducer.extent;
    else
        from = place_of(executor, &executor->messages.segment[message->segment_first]);
    status = pdl__mpi_count(message->count, &count);
    if (status) return status;
    executor->posted += message->count * executor->reducer.extent;
    executor->sends++;
    return PDL_MPI(pdl__mpi->Isend(from, count, executor->type, message->peer, executor->step % TAGS,
                                   executor->comm, &executor->send_request[send]));
}

/* Packs before anything of the step can arrive. */
static pdl_status_t begin_step(pdl_executor_t *executor, const pdl__step_t *step)
{
    pdl_status_t status = PDL_OK;

    executor->receive = 0;
    executor->sends_done = 0;
    executor->in_step = true;
    for (int s = 0; s < step->send_count; s++) {
        const pdl__message_t *message = &executor->messages.sends.message[step->send_first + s];

        if (message->pack_first >= 0) pack_message(executor, message);
    }
    for (int r = 0; !status && r < step->window; r++) status = post_receive(executor, step, r);
    for (int s = 0; !status && s < step->send_count; s++) status = post_send(executor, step, s);
    return status;
}

/* Waits for a request, or only looks at it; one that was complete before is complete. */
static pdl_status_t complete(MPI_Request *request, bool block, bool *done)
{
    pdl_status_t status;
    int          flag = 1;

    if (block)
        status = PDL_MPI(pdl__mpi->Wait(request, MPI_STATUS_IGNORE));
    else
        status = PDL_MPI(pdl__mpi->Test(request, &flag, MPI_STATUS_IGNORE));
    *done = flag != 0;
    return status;
}

static pdl_status_t complete_sends(pdl_executor_t *executor, int count, bool block, bool *done)
{
    pdl_status_t status = PDL_OK;

    *done = true;
    while (!status && *done && executor->sends_done < count) {
        status = complete(&executor->send_request[executor->sends_done], block, done);
        if (!status && *done) executor->sends_done++;
    }
    return status;
}

/* Adds or copies what has arrived in a slot to its place. */
static pdl_status_t apply(pdl_executor_t *executor, const pdl__message_t *message, const char *slot)
{
    int64_t      extent = executor->reducer.extent;
    pdl_status_t status = PDL_OK;

    for (int i = 0; !status && i < message->segment_count; i++) {
        const pdl__piece_t *segment = &executor->messages.segment[message->segment_first + i];
        char               *place = place_of(executor, segment);

        if (message->reduce)
            status = pdl__reducer_apply(&executor->reducer, slot, place, segment->count);
        else
            memcpy(place, slot, (size_t)(segment->count * extent));
        slot += segment->count * extent;
    }
    return status;
}

/* The oldest receive: when it and the sends from its place are complete, its slot is emptied and posted again. */
static pdl_status_t advance_receive(pdl_executor_t *executor, const pdl__step_t *step, bool block, bool *done)
{
    int                   r = executor->receive;
    const pdl__message_t *message = receive_of(executor, step, r);
    pdl_status_t          status = complete(&executor->receive_request[r % step->window], block, done);

    if (!status && *done) status = complete_sends(executor, message->sends_before, block, done);
    if (status || !*done) return status;
    if (r > 0 && receive_of(executor, step, r - 1)->folds) {
        status = pdl__reducer_apply(&executor->reducer, slot_of(executor, step, r - 1), slot_of(executor, step, r),
                                    message->count);
        if (!status) status = post_receive(executor, step, r - 1 + step->window);
    }
    executor->receive++;
    if (status || message->folds) return status;
    if (message->staged) status = apply(executor, message, slot_of(executor, step, r));
    return status ? status : post_receive(executor, step, r + step->window);
}

static pdl_status_t advance(pdl_executor_t *executor, bool block, bool *done)
{
    pdl_status_t status = PDL_OK;

    *done = true;
    while (executor->step < executor->messages.step_count) {
        const pdl__step_t *step = &executor->messages.step[executor->step];

        if (!executor->in_step) status = begin_step(executor, step);
        while (!status && *done && executor->receive < step->receive_count)
            status = advance_receive(executor, step, block, done);
        if (!status && *done) status = complete_sends(executor, step->send_count, block, done);
        if (status || !*done) return status;
        executor->step++;
        executor->in_step = false;
    }
    return PDL_OK;
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
    const pdl__layout_t *layout = &executor->layout;
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
    executor->area[PDL__AREA_INPUT] = (char *)(uintptr_t)input;
    executor->area[PDL__AREA_DATA] = data;
    executor->step = 0;
    executor->in_step = false;
    return PDL_OK;
}

pdl_status_t pdl_executor_test(pdl_executor_t *executor, bool *done)
{
    return advance(executor, false, done);
}

pdl_status_t pdl_executor_run(pdl_executor_t *executor, const void *input, void *data)
{
    bool         done;
    pdl_status_t status = pdl_executor_start(executor, input, data);

    return status ? status : advance(executor, true, &done);
}

void pdl_executor_part(const pdl_executor_t *executor, int rank, int64_t *first, int64_t *count)
{
    *first = executor->layout.part[rank];
    *count = executor->layout.part[rank + 1] - *first;
}

int64_t pdl_executor_sent(const pdl_executor_t *executor)
{
    const pdl__message_list_t *sends = &executor->messages.sends;
    int64_t                    elements = 0;

    for (int i = 0; i < sends->count; i++) elements += sends->message[i].count;
    return elements * executor->reducer.extent;
}

int64_t pdl_executor_posted(const pdl_executor_t *executor)
{
    return executor->posted;
}

int64_t pdl_executor_messages(const pdl_executor_t *executor)
{
    return executor->sends;
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
