/*
 * Messages of MPI. Its counts are int, so a long message is several, which the order of messages keeps together.
 */
#include "comm/mpi/check.h"
#include "comm/world.h"

#include <stdlib.h>

#define PIECE_BYTES ((int64_t)1 << 30)

struct pdl__pieces {
    pdl__world_t *world;
    int           count; /* in flight */
    int           peer;
    int64_t       receiving; /* bytes; -1: this is a send */
    MPI_Request   request[];
};

static int64_t pieces_of(int64_t bytes)
{
    return bytes > 0 ? (bytes - 1) / PIECE_BYTES + 1 : 1;
}

static int piece_bytes(int64_t bytes, int piece)
{
    int64_t left = bytes - piece * PIECE_BYTES;

    return (int)(left < PIECE_BYTES ? left : PIECE_BYTES);
}

pdl_status_t pdl__pieces_create(int64_t most_bytes, pdl__pieces_t **result)
{
    int            capacity;
    pdl_status_t   status = pdl__mpi_count(pieces_of(most_bytes), &capacity);
    pdl__pieces_t *pieces;

    if (status) return status;
    pieces = malloc(sizeof(*pieces) + (size_t)capacity * sizeof(pieces->request[0]));
    if (pieces == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *pieces = (pdl__pieces_t){.receiving = -1};
    *result = pieces;
    return PDL_OK;
}

void pdl__pieces_destroy(pdl__pieces_t *pieces)
{
    free(pieces);
}

pdl_status_t pdl__pieces_send(pdl__pieces_t *pieces, pdl__world_t *world, const void *data, int64_t bytes, int peer,
                              int tag)
{
    int          count = (int)pieces_of(bytes);
    pdl_status_t status = PDL_OK;

    pieces->world = world;
    pieces->count = 0;
    pieces->peer = peer;
    pieces->receiving = -1;
    for (int i = 0; !status && i < count; i++) {
        status = PDL_MPI(pdl__mpi->Isend((const char *)data + i * PIECE_BYTES, piece_bytes(bytes, i),
                                         pdl__mpi->byte, peer, tag, world->comm, &pieces->request[i]));
        if (!status) pieces->count++;
    }
    return status;
}

pdl_status_t pdl__pieces_receive(pdl__pieces_t *pieces, pdl__world_t *world, void *data, int64_t bytes, int peer,
                                 int tag)
{
    int          count = (int)pieces_of(bytes);
    pdl_status_t status = PDL_OK;

    pieces->world = world;
    pieces->count = 0;
    pieces->peer = peer;
    pieces->receiving = bytes;
    for (int i = 0; !status && i < count; i++) {
        status = PDL_MPI(pdl__mpi->Irecv((char *)data + i * PIECE_BYTES, piece_bytes(bytes, i), pdl__mpi->byte,
                                         peer, tag, world->comm, &pieces->request[i]));
        if (!status) pieces->count++;
    }
    return status;
}

/* A message that is too long is an error of MPI, one that is too short is found here. */
static pdl_status_t wait_piece(pdl__pieces_t *pieces, int i)
{
    MPI_Status   arrived;
    int          bytes;
    pdl_status_t status = pdl__wait_mpi(pieces->world, &pieces->request[i], &arrived);

    if (status || pieces->receiving < 0) return status;
    status = PDL_MPI(pdl__mpi->Get_count(&arrived, pdl__mpi->byte, &bytes));
    if (status || bytes == piece_bytes(pieces->receiving, i)) return status;
    return pdl_error(PDL_ERR_INPUT, "rank %d sent %d bytes where %d were expected", pieces->peer, bytes,
                     piece_bytes(pieces->receiving, i));
}

pdl_status_t pdl__pieces_wait(pdl__pieces_t *pieces)
{
    pdl_status_t first = PDL_OK;

    /* Also after a failure: nothing is in flight when this returns, unless ranks are lost. */
    for (int i = 0; i < pieces->count; i++) {
        pdl_status_t status =
            first ? pdl__wait_mpi(pieces->world, &pieces->request[i], MPI_STATUS_IGNORE) : wait_piece(pieces, i);

        if (!first) first = status;
    }
    pieces->count = 0;
    return first;
}

/* Requests are looked at and left as they are, so that the wait finds how long each message was. */
pdl_status_t pdl__pieces_test(pdl__pieces_t *pieces, bool *done)
{
    *done = false;
    for (int i = 0; i < pieces->count; i++) {
        int          moved;
        pdl_status_t status = PDL_MPI(pdl__mpi->Request_get_status(pieces->request[i], &moved, MPI_STATUS_IGNORE));

        if (status || !moved) return status;
    }
    *done = true;
    return pdl__pieces_wait(pieces);
}
