/*
 * Inside the program builder.
 */
#ifndef PDL_PROGRAM_BUILDER_H
#define PDL_PROGRAM_BUILDER_H

#include <paradl/program/program.h>

/* A gradient that has been made and waits for the backward pass of its owner. */
typedef struct pdl__pending {
    int owner, micro_batch, buffer;
} pdl__pending_t;

/* What a node holds of one micro-batch. */
typedef struct pdl__held {
    int  value, saved;  /* buffers */
    int  contributions; /* gradients that wait for it */
    bool there;         /* its output and saved state are held */
} pdl__held_t;

typedef struct pdl__builder {
    const pdl_program_node_t *nodes;
    int                       node_count, micro_batch; /* the latter of the pass at hand */
    bool                      last;                    /* no backward pass of this chunk follows */
    pdl__held_t              *all_held, *held;         /* of all micro-batches; of the one at hand */
    pdl_program_t            *program;
    int                       op_capacity, buffer_capacity;
    /* per node */
    int            *root;        /* the node whose storage its output is */
    int            *last_reader; /* in forward order */
    int            *begun;       /* the operation that started it in the pass at hand, or -1 */
    bool           *kept;        /* backward reads its output */
    int             waiting;     /* operation whose weight gradients are made later, or -1 */
    pdl__pending_t *pending;
    int             pending_count, pending_capacity;
    pdl_status_t    status; /* the first failure */
} pdl__builder_t;

/* Marks the nodes whose output is made again in backward under full recompute. */
pdl_status_t pdl__program_choose_recompute(pdl_program_node_t *nodes, int count);

#endif
