/*
 * Reads and writes by io_uring. Containers may forbid it, and then there is no ring.
 */
#define _GNU_SOURCE /* liburing.h asks for it */
#include "data/plugin/uring.h"

#include "base/plugin.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

struct pdl__ring {
    struct io_uring queue;
};

static pdl__ring_t *ring_open(int depth)
{
    pdl__ring_t *ring = calloc(1, sizeof(*ring));

    if (ring != NULL && io_uring_queue_init((unsigned)depth, &ring->queue, 0) == 0) return ring;
    free(ring);
    return NULL;
}

static void ring_close(pdl__ring_t *ring)
{
    if (ring == NULL) return;
    io_uring_queue_exit(&ring->queue);
    free(ring);
}

static int ring_start(pdl__ring_t *ring, int file, pdl__transfer_t *transfer)
{
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring->queue);
    const int64_t        left = transfer->bytes - transfer->done;
    const unsigned       bytes = left < 1 << 30 ? (unsigned)left : 1u << 30;
    const uint64_t       offset = (uint64_t)(transfer->offset + transfer->done);
    int                  submitted;

    if (entry == NULL) return EBUSY;
    if (transfer->writes) {
        io_uring_prep_write(entry, file, transfer->data + transfer->done, bytes, offset);
    } else {
        io_uring_prep_read(entry, file, transfer->data + transfer->done, bytes, offset);
    }
    io_uring_sqe_set_data(entry, transfer);
    do {
        submitted = io_uring_submit(&ring->queue);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    return submitted < 0 ? -submitted : 0; /* the entry stays in the queue, which is not to be used again */
}

static int ring_wait(pdl__ring_t *ring, pdl__transfer_t **ended, int64_t *moved)
{
    struct io_uring_cqe *entry;
    int                  error;

    do {
        error = io_uring_wait_cqe(&ring->queue, &entry);
    } while (error == -EINTR);
    *ended = NULL;
    if (error < 0) return -error;
    *ended = io_uring_cqe_get_data(entry);
    *moved = entry->res;
    error = entry->res < 0 ? -entry->res : 0;
    io_uring_cqe_seen(&ring->queue, entry);
    return error;
}

static const pdl__uring_t functions = {ring_open, ring_close, ring_start, ring_wait};
PDL__PLUGIN(uring, functions)
