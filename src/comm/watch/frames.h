/*
 * What ranks that watch each other send: frames of one size, so that a reader knows where one ends.
 */
#ifndef PDL_COMM_WATCH_FRAMES_H
#define PDL_COMM_WATCH_FRAMES_H

#include "comm/watch/judge.h"

#define PDL__FRAME_BYTES 512
#define PDL__TOKEN_BYTES 32

typedef enum pdl__frame_kind {
    PDL__FRAME_HELLO = 1, /* the first one of a connection: with the token */
    PDL__FRAME_BEAT,      /* with a record */
    PDL__FRAME_BYE,       /* the rank leaves on purpose */
    PDL__FRAME_LOST       /* from rank 0: ranks are lost, with the message and who speaks */
} pdl__frame_kind_t;

/* A process, and the space in which its number means something. */
typedef struct pdl__process {
    uint64_t space; /* 0: not known */
    int32_t  pid;
} pdl__process_t;

typedef struct pdl__frame {
    pdl__frame_kind_t kind;
    int               rank; /* the sender; of LOST: the one that speaks */
    unsigned char     token[PDL__TOKEN_BYTES];
    pdl__process_t    process; /* of HELLO: the sender */
    pdl__record_t     record;
    char              text[320];
} pdl__frame_t;

void pdl__frame_pack(const pdl__frame_t *frame, unsigned char bytes[PDL__FRAME_BYTES]);
/* False: these bytes are no frame. */
bool pdl__frame_unpack(const unsigned char bytes[PDL__FRAME_BYTES], pdl__frame_t *frame);

/* Frames that arrive in pieces. */
typedef struct pdl__inbox {
    unsigned char bytes[PDL__FRAME_BYTES];
    size_t        have;
} pdl__inbox_t;

typedef enum pdl__arrival { PDL__ARRIVAL_NONE, PDL__ARRIVAL_FRAME, PDL__ARRIVAL_CLOSED } pdl__arrival_t;

/* The next frame of a socket that does not block. Garbage counts as the end of the connection. */
pdl__arrival_t pdl__inbox_read(int socket, pdl__inbox_t *inbox, pdl__frame_t *frame);

/* A frame that has left in part. */
typedef struct pdl__outbox {
    unsigned char bytes[PDL__FRAME_BYTES];
    size_t        left; /* bytes at its end */
} pdl__outbox_t;

/* Sends a frame without waiting; one that finds no room, since nobody reads at the other end, is dropped as a whole. */
void pdl__outbox_send(int socket, pdl__outbox_t *outbox, const pdl__frame_t *frame);

#endif
