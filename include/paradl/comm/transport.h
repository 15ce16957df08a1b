/*
 * How messages go between ranks from and to memory of a device, in the order of its streams. Exchanges, redistributions,
 * channels between stages and routes of experts are made of such messages.
 *
 *     pdl_transport_create(ranks, backend->device, PDL_TRANSPORT_AUTO, &transport);
 *     pdl_wire_create(transport, group, PDL_SENT_MESSAGES, bytes, &wire);
 *     pdl_wire_send(wire, stream, data, bytes, peer, tag);      // behind what `stream` has been given so far
 *     ...
 *     pdl_wire_wait(wire);                                      // later work of `stream` may overwrite `data`
 *
 *     mpi    MPI uses the memory where it is: the processor's
 *     host   through pinned memory and MPI: works everywhere
 *     ipc    ranks of one machine copy from each other's memory, in order by events that they share
 *     nccl   the library's sends and receives between devices, one for every rank
 *
 * All of them move the same bytes and leave sums to the device, in an order that schedules and ranks fix: results have the
 * same bits whichever it is, but for collectives of a library ("library" in exchange.h).
 */
#ifndef PARADL_TRANSPORT_H
#define PARADL_TRANSPORT_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <paradl/tensor/device.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_transport_kind {
    PDL_TRANSPORT_AUTO, /* mpi, or the fastest of the others that all ranks can use */
    PDL_TRANSPORT_HOST,
    PDL_TRANSPORT_IPC,
    PDL_TRANSPORT_NCCL,
    PDL_TRANSPORT_COUNT
} pdl_transport_kind_t;
extern const char *const pdl_transport_names[PDL_TRANSPORT_COUNT + 1]; /* NULL at the end */

typedef struct pdl_transport pdl_transport_t;

/* Collective. `ranks` and `device` are borrowed. A wanted transport that some rank cannot use is refused with the reason. */
pdl_status_t pdl_transport_create(pdl_ranks_t *ranks, pdl_tensor_device_t *device, pdl_transport_kind_t wanted,
                                  pdl_transport_t **transport);
/* Collective, after what was made with it and before memory that was sent is released. NULL is allowed. */
void pdl_transport_destroy(pdl_transport_t *transport);
/* Collective over the group, before anything is made for it. The group stays until the transport is destroyed. */
pdl_status_t pdl_transport_join(pdl_transport_t *transport, pdl_ranks_t *group);
/* "mpi", "host", "ipc" or "nccl". */
const char *pdl_transport_name(const pdl_transport_t *transport);
/* Whose memory it moves. In this and the following a transport of NULL is that of the processor's memory. */
pdl_tensor_device_t *pdl_transport_device(const pdl_transport_t *transport);
/* The ranks that have the same device as this one, for as long as the transport; those of NULL have a device each. */
pdl_ranks_t *pdl_transport_sharers(const pdl_transport_t *transport);
/* Memory that messages are sent from and received into, of the device unless the host can use it too. */
pdl_status_t pdl_transport_take(const pdl_transport_t *transport, size_t bytes, void **memory);
void         pdl_transport_give(pdl_transport_t *transport, void *memory, size_t bytes); /* NULL is allowed */
/* Moves what can be moved; cheap. */
pdl_status_t pdl_transport_poll(pdl_transport_t *transport);

/* One message at a time between this rank and another of a group. Messages of the same two ranks and tag arrive in the order
   in which they were sent. Only creation allocates. */
typedef struct pdl_wire pdl_wire_t;

/* Local. For messages of up to `most_bytes`, counted as `kind`. */
pdl_status_t pdl_wire_create(pdl_transport_t *transport, pdl_ranks_t *group, pdl_sent_t kind, int64_t most_bytes,
                             pdl_wire_t **wire);
/* Local. NULL is allowed; what has been started has been waited for, unless something failed. */
void pdl_wire_destroy(pdl_wire_t *wire);
/* What is sent is what `data` has behind the work of `stream` so far. The memory is left alone until the wait. */
pdl_status_t pdl_wire_send(pdl_wire_t *wire, pdl_tensor_stream_t *stream, const void *data, int64_t bytes, int peer,
                           int tag);
pdl_status_t pdl_wire_receive(pdl_wire_t *wire, pdl_tensor_stream_t *stream, void *data, int64_t bytes, int peer,
                              int tag);
/* Later work of the stream finds what was received, and may overwrite what was sent; the host need not. At once where
   nothing was started. */
pdl_status_t pdl_wire_wait(pdl_wire_t *wire);
/* Whether that is so already; once it is, there is nothing left to wait for. */
pdl_status_t pdl_wire_test(pdl_wire_t *wire, bool *done);

/* Messages that are started between these two wait for no order among each other. Every rank of a group begins with all that
   it starts before it waits for any of them. */
pdl_status_t pdl_transport_begin(pdl_transport_t *transport);
pdl_status_t pdl_transport_end(pdl_transport_t *transport);

#ifdef __cplusplus
}
#endif
#endif
