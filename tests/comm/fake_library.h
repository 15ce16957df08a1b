/*
 * A library that sends between devices, as NCCL does, for ranks that have none: made of MPI and copies to the host. What is sent
 * leaves at once; what is received is waited for when the group ends. So all that a real one orders by streams is in order here,
 * and a message that nobody sends shows as a test that does not end.
 */
#ifndef PDL_TEST_FAKE_LIBRARY_H
#define PDL_TEST_FAKE_LIBRARY_H

#include <mpi.h>
#include <paradl/tensor/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_RANKS   16
#define FAKE_PENDING 64

typedef struct fake_id {
    int root, number; /* rank of the job that made it, and which one of its */
} fake_id_t;

typedef struct fake_communicator {
    int rank, ranks, tag, member[FAKE_RANKS];
} fake_communicator_t;

/* A receive of the group at hand. */
typedef struct fake_pending {
    pdl_tensor_stream_t *stream;
    void                *data;
    size_t               bytes;
    int                  peer, tag;
} fake_pending_t;

static fake_pending_t fake_pending[FAKE_PENDING];
static int            fake_count, fake_made, fake_sent;
static bool           fake_grouping;

static pdl_status_t fake_available(pdl_tensor_device_t *device)
{
    (void)device;
    return PDL_OK;
}

static pdl_status_t fake_identify(pdl_tensor_device_t *device, char id[PDL_LIBRARY_ID])
{
    fake_id_t made = {.number = fake_made++};

    (void)device;
    MPI_Comm_rank(MPI_COMM_WORLD, &made.root);
    memcpy(id, &made, sizeof(made));
    return PDL_OK;
}

/* The root hears of all members, and tells them of each other. */
static pdl_status_t fake_join(pdl_tensor_device_t *device, const char bytes[PDL_LIBRARY_ID], int rank, int ranks,
                              void **communicator)
{
    fake_communicator_t *made = calloc(1, sizeof(*made));
    fake_id_t            id;
    int                  here;

    (void)device;
    if (made == NULL || ranks > FAKE_RANKS) return pdl_error(PDL_ERR_NOMEM, "no room for %d ranks", ranks);
    memcpy(&id, bytes, sizeof(id));
    MPI_Comm_rank(MPI_COMM_WORLD, &here);
    *made = (fake_communicator_t){rank, ranks, 1000 + id.root * 1000 + id.number, {0}};
    if (here == id.root) {
        made->member[rank] = here;
        for (int i = 1; i < ranks; i++) {
            MPI_Status status;
            int        who;

            MPI_Recv(&who, 1, MPI_INT, MPI_ANY_SOURCE, made->tag, MPI_COMM_WORLD, &status);
            made->member[who] = status.MPI_SOURCE;
        }
        for (int i = 0; i < ranks; i++)
            if (i != rank) MPI_Send(made->member, FAKE_RANKS, MPI_INT, made->member[i], made->tag, MPI_COMM_WORLD);
    } else {
        MPI_Send(&rank, 1, MPI_INT, id.root, made->tag, MPI_COMM_WORLD);
        MPI_Recv(made->member, FAKE_RANKS, MPI_INT, id.root, made->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    *communicator = made;
    return PDL_OK;
}

static pdl_status_t fake_ready(pdl_tensor_device_t *device, void *communicator, bool *ready)
{
    (void)device, (void)communicator;
    *ready = true;
    return PDL_OK;
}

static void fake_leave(pdl_tensor_device_t *device, void *communicator)
{
    (void)device;
    free(communicator);
}

static pdl_status_t fake_begin(pdl_tensor_device_t *device)
{
    (void)device;
    fake_grouping = true;
    return PDL_OK;
}

static pdl_status_t fake_end(pdl_tensor_device_t *device)
{
    pdl_status_t status = PDL_OK;

    fake_grouping = false;
    for (int i = 0; i < fake_count && !status; i++) {
        const fake_pending_t *p = &fake_pending[i];
        void                 *home = malloc(p->bytes);

        MPI_Recv(home, (int)p->bytes, MPI_BYTE, p->peer, p->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        status = device->ops->copy(device, p->stream, p->data, home, p->bytes);
        if (!status) status = device->ops->synchronise(device, p->stream);
        free(home);
    }
    fake_count = 0;
    return status;
}

/* The copy is left alone for as long as MPI may want it. */
static pdl_status_t fake_send(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                              const void *data, size_t bytes, int peer)
{
    const fake_communicator_t *c = communicator;
    void                      *home = malloc(bytes);
    pdl_status_t               status = pdl_device_fetch(device, stream, home, data, bytes);
    MPI_Request                request;

    MPI_Isend(home, (int)bytes, MPI_BYTE, c->member[peer], c->tag, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    fake_sent++;
    return status;
}

static pdl_status_t fake_receive(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                                 void *data, size_t bytes, int peer)
{
    const fake_communicator_t *c = communicator;

    if (fake_count == FAKE_PENDING) return pdl_error(PDL_ERR_LIMIT, "too many messages in a group");
    fake_pending[fake_count++] = (fake_pending_t){stream, data, bytes, c->member[peer], c->tag};
    return fake_grouping ? PDL_OK : fake_end(device);
}

/* To all and from all, added in the order of the ranks. */
static pdl_status_t fake_collective(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, void *communicator,
                                    pdl_library_collective_t collective, float *data, int64_t count)
{
    const fake_communicator_t *c = communicator;
    size_t                     bytes = (size_t)count * sizeof(float);
    float       *mine = malloc(bytes), *others = malloc(bytes), *sum = calloc((size_t)count, sizeof(*sum));
    int64_t      part = count / c->ranks;
    pdl_status_t status = pdl_device_fetch(device, stream, mine, data, bytes);

    for (int r = 0; r < c->ranks && !status; r++) {
        const float *from = r == c->rank ? mine : others;

        for (int i = 0; i < c->ranks; i++)
            if (i != c->rank && r == c->rank) status = fake_send(device, stream, communicator, data, bytes, i);
        if (r != c->rank)
            MPI_Recv(others, (int)bytes, MPI_BYTE, c->member[r], c->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int64_t i = 0; i < count; i++)
            if (collective != PDL_LIBRARY_GATHER || i / part == r)
                sum[i] = collective == PDL_LIBRARY_GATHER ? from[i] : sum[i] + from[i];
    }
    if (!status) status = device->ops->copy(device, stream, data, sum, bytes);
    if (!status) status = device->ops->synchronise(device, stream);
    free(mine);
    free(others);
    free(sum);
    return status;
}

static void fake_identity(pdl_tensor_device_t *device, char text[PDL_SHARED_HANDLE])
{
    int here;

    (void)device;
    MPI_Comm_rank(MPI_COMM_WORLD, &here);
    snprintf(text, PDL_SHARED_HANDLE, "device %d", here);
}

/* The calls of a device with the library beside them; they are the caller's. */
static pdl_device_ops_t with_library(const pdl_device_ops_t *ops)
{
    static const pdl_library_ops_t library = {.name = "fake",
                                              .available = fake_available,
                                              .identify = fake_identify,
                                              .join = fake_join,
                                              .ready = fake_ready,
                                              .leave = fake_leave,
                                              .begin = fake_begin,
                                              .end = fake_end,
                                              .send = fake_send,
                                              .receive = fake_receive,
                                              .collective = fake_collective};
    pdl_device_ops_t               made = *ops;

    made.library = &library;
    made.identity = fake_identity;
    return made;
}

#endif
