/*
 * Inside the tape builder.
 */
#ifndef PDL_PLAN_TAPE_H
#define PDL_PLAN_TAPE_H

#include <paradl/tape.h>

/* A gradient that has been made and waits for the backward pass of its owner. */
typedef struct pdl__pending {
    int owner, buffer;
} pdl__pending_t;

typedef struct pdl__builder {
    const pdl_tape_node_t *nodes;
    int                    node_count, micro_batches, micro_batch;
    pdl_tape_t            *tape;
    int                    op_capacity, buffer_capacity;
    /* per node */
    int            *root;          /* the node whose storage its output is */
    int            *last_reader;   /* in forward order */
    int            *value, *saved; /* buffers of the micro-batch at hand */
    int            *contributions; /* gradients that wait for it */
    bool           *kept;          /* backward reads its output */
    bool           *there;         /* its output and saved state are held */
    pdl__pending_t *pending;
    int             pending_count, pending_capacity;
    pdl_status_t    status; /* the first failure */
} pdl__builder_t;

#endif
