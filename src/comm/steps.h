/*
 * The messages of a collective on one rank, step after step. How a message is sent, and where elements are added, is the
 * caller's: MPI on memory of the host (mpi/executor.c), or a transport on memory of a device (device/reduction.c).
 *
 * In a step all sends are started at once, receives in their fixed order, as many at a time as there are slots.
 * The oldest receive is completed first, added to its place and its slot given to the next: while a chunk is
 * reduced the following ones arrive. Arrival never decides the order of the reductions, so results do not vary
 * from run to run.
 */
#ifndef PDL_COMM_STEPS_H
#define PDL_COMM_STEPS_H

#include "comm/messages.h"

#include <paradl/base/status.h>

typedef struct pdl__steps pdl__steps_t;

typedef struct pdl__steps_ops {
    /* Message of `count` elements; `i` counts the sends of a step, and the receives in flight. */
    pdl_status_t (*send)(pdl__steps_t *steps, int i, const char *from, int64_t count, int peer);
    pdl_status_t (*receive)(pdl__steps_t *steps, int i, char *to, int64_t count, int peer);
    /* Waits for it, or only looks at it; one that was complete before is complete. */
    pdl_status_t (*complete)(pdl__steps_t *steps, bool send, int i, bool block, bool *done);
    pdl_status_t (*add)(pdl__steps_t *steps, const char *from, char *to, int64_t count);
    pdl_status_t (*copy)(pdl__steps_t *steps, const char *from, char *to, int64_t count);
    /* Where a message that was to go to a slot is, once it is complete, and that it has been used; NULL: in its slot. */
    const char *(*arrived)(pdl__steps_t *steps, int i, const char *slot);
    void (*release)(pdl__steps_t *steps, int i);
    /* Around the messages that a step begins with. */
    pdl_status_t (*group)(pdl__steps_t *steps, bool begin);
} pdl__steps_ops_t;

struct pdl__steps {
    const pdl__steps_ops_t *ops;
    int64_t                 extent; /* bytes of an element */
    pdl__layout_t           layout;
    pdl__messages_t         messages;
    char                   *area[PDL__AREA_COUNT];
    char                   *slots, *pack; /* the caller's: messages->slot_elements and pack_elements */
    /* Where a run stands. */
    int     step;
    int     receive;    /* of the step, the oldest that is not complete */
    int     sends_done; /* of the step */
    bool    in_step;    /* its messages have been started */
    int64_t posted;     /* bytes of all sends since creation, and ... */
    int64_t sends;      /* ... their number */
};

/* Layout and messages; ops, extent and memory are the caller's. Chunks of at most `chunk_bytes`; slots of at most `slot_bytes`
   where there is a choice. */
pdl_status_t pdl__steps_init(pdl__steps_t *steps, const pdl_schedule_t *schedule, int rank, int64_t elements,
                             const int64_t *counts, int64_t chunk_bytes, int64_t slot_bytes);
void         pdl__steps_fini(pdl__steps_t *steps);
void         pdl__steps_start(pdl__steps_t *steps);
/* Goes on until all is done, or with `block` false until it would have to wait. */
pdl_status_t pdl__steps_advance(pdl__steps_t *steps, bool block, bool *done);
/* Bytes that this rank sends in one run. */
int64_t pdl__steps_sent(const pdl__steps_t *steps);

#endif
