/*
 * The messages of one rank, step by step: the moves of a schedule cut into chunks.
 */
#ifndef PDL_COMM_MESSAGES_H
#define PDL_COMM_MESSAGES_H

#include "comm/layout.h"

#define PDL__CHUNK_BYTES (256 * 1024) /* two of them fit into the second-level cache of common processors */
#define PDL__SLOT_BYTES  (8 * 1024 * 1024)

typedef struct pdl__message {
    int     peer;
    bool    reduce;
    int64_t key;   /* its first element in the global view: with the peer it orders the messages of a step */
    int64_t count; /* elements */
    int     segment_first, segment_count;
    /* Sends of several segments. */
    int64_t pack_first; /* its place in the packing buffer; -1: sent from its place in the vector */
    /* Receives. */
    bool staged;       /* through a slot; else straight to its place */
    bool folds;        /* into the slot of the next one, which holds the same elements of the next rank */
    int  sends_before; /* so many sends of the step must be complete before the place may change */
} pdl__message_t;

typedef struct pdl__message_list {
    pdl__message_t *message;
    int             count, capacity;
} pdl__message_list_t;

typedef struct pdl__step {
    int     send_first, send_count;
    int     receive_first, receive_count;
    int     window;        /* receives in flight at once, each with a slot */
    int64_t slot_elements; /* of each slot; 0: no receive is staged */
    int64_t pack_elements;
} pdl__step_t;

typedef struct pdl__messages {
    pdl__message_list_t sends, receives;
    pdl__piece_t       *segment;
    int                 segment_count, segment_capacity;
    pdl__step_t        *step;
    int                 step_count;
    int                 most_sends, most_window;      /* of any step */
    int64_t             slot_elements, pack_elements; /* to reserve: of the step that needs most */
} pdl__messages_t;

/* Chunks have at most `chunk_elements` elements; `slot_limit` elements of slots are enough where there is a
   choice. */
pdl_status_t pdl__messages_init(const pdl_schedule_t *schedule, const pdl__layout_t *layout, int64_t chunk_elements,
                                int64_t slot_limit, pdl_moves_t *scratch, pdl__messages_t *messages);
void         pdl__messages_fini(pdl__messages_t *messages);

#endif
