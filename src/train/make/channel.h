/*
 * A one-way channel between two stages: the same tensor of one micro-batch after the other. What is sent is copied, so that
 * the sender goes on at once; what is received is asked for ahead.
 */
#ifndef PDL_TRAIN_CHANNEL_H
#define PDL_TRAIN_CHANNEL_H

#include <paradl/comm/transport.h>
#include <stddef.h>

typedef struct pdl__channel_spec {
    pdl_ranks_t     *ranks;
    pdl_transport_t *transport;
    int              peer, tag;
    size_t           bytes; /* of a message */
    int              slots; /* messages that may be in flight */
} pdl__channel_spec_t;

typedef struct pdl__channel pdl__channel_t;

pdl_status_t pdl__channel_create(const pdl__channel_spec_t *spec, pdl__channel_t **channel);
void         pdl__channel_destroy(pdl__channel_t *channel); /* NULL is allowed */

/* The copy is made in `stream`, which the caller has put behind what fills `data`, and what overwrites it behind `stream`. */
pdl_status_t pdl__channel_send(pdl__channel_t *channel, pdl_tensor_stream_t *stream, const void *data);
/* All that was sent has left. */
pdl_status_t pdl__channel_flush(pdl__channel_t *channel);

/* So many messages will be received, in `stream`. */
pdl_status_t pdl__channel_expect(pdl__channel_t *channel, pdl_tensor_stream_t *stream, int messages);
pdl_status_t pdl__channel_receive(pdl__channel_t *channel, pdl_tensor_stream_t *stream, void *data);

/* Bytes of a message, and of the copies held. */
size_t pdl__channel_message(const pdl__channel_t *channel);
size_t pdl__channel_bytes(const pdl__channel_t *channel);

#endif
