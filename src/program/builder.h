/*
 * Inside the module: a program under construction. order.c emits the operations of layers, update.c
 * those from gradients to new weights, waits.c finds what waits for what,
 * place.c how long buffers live and where.
 */
#ifndef PDL_PROGRAM_BUILDER_H
#define PDL_PROGRAM_BUILDER_H

#include <paradl/program/program.h>

/* A gradient that has been made and waits for the backward pass of its owner. */
typedef struct pdl__pending {
    int owner, micro_batch, buffer;
} pdl__pending_t;

/* A copy out, and the blocks that are computed before its memory is released. */
typedef struct pdl__leaving {
    int op, micro_batch, blocks;
} pdl__leaving_t;

/* What a node holds of one micro-batch. */
typedef struct pdl__held {
    int  value, saved;  /* buffers */
    int  halo[2];       /* buffers: the halos of its sides */
    int  forward;       /* operation that made it */
    int  contributions; /* gradients that wait for it */
    bool there;         /* its output and saved state are held */
    int  host[2];       /* buffers: both while they are swapped out */
} pdl__held_t;

typedef struct pdl__builder {
    const pdl_program_options_t *options;
    const pdl_program_node_t    *nodes;
    int                          node_count, micro_batch; /* the latter of the pass at hand */
    pdl__held_t                 *all_held, *held;         /* of all micro-batches; of the one at hand */
    pdl_program_t               *program;
    int                          op_capacity, buffer_capacity, wait_capacity, whole_capacity;
    /* per node */
    int            *root;        /* the node whose storage its output is */
    int            *last_reader; /* in forward order */
    int            *issued;      /* moves of it that have been issued in the pass at hand */
    int            *reached;     /* the buffer to which these have brought it */
    bool           *kept;        /* backward reads its output */
    int             block;       /* of the pass at hand */
    pdl__leaving_t *leaving;     /* copies out whose memory is to be released */
    int             leaving_count, leaving_capacity;
    int             waiting; /* operation whose weight gradients are made later in its pass, or -1 */
    int            *left;    /* operations whose weight gradients are left to another pass */
    int             left_count, left_capacity;
    bool            leaves; /* the pass at hand leaves them */
    pdl__pending_t *pending;
    int             pending_count, pending_capacity;
    pdl_status_t    status; /* the first failure */
} pdl__builder_t;

pdl_status_t pdl__program_no_memory(void);
/* Room for one more item. */
pdl_status_t pdl__program_grow(void **array, int count, int *capacity, size_t item);

/* A new buffer, or -1 where nothing is to be stored or memory is out (then the builder's status says so). */
int pdl__program_buffer(pdl__builder_t *builder, int node, size_t bytes);
/* An operation without buffers; and one at the end of the list: the pointer holds until the next, NULL where memory is out. */
pdl_program_op_t  pdl__program_blank(pdl_op_kind_t kind, int node, bool backward);
pdl_program_op_t *pdl__program_emit(pdl__builder_t *builder, const pdl_program_op_t *op);

/* sides.c: around the interior of a convolution whose halo is in flight meanwhile. Forward is all of it; `halo` gets the
   buffers of the halos. Backward comes in parts: gradients of halos before the interior, which are sent back into `back`;
   what halos contribute to the gradients of weights; and the gradients that have come back, added to those of own rows. */
void pdl__program_sides_forward(pdl__builder_t *builder, const pdl_program_op_t *interior, int halo[2]);
void pdl__program_sides_dgrad(pdl__builder_t *builder, const pdl_program_op_t *interior, int back[2]);
void pdl__program_sides_wgrad(pdl__builder_t *builder, const pdl_program_op_t *interior, const int halo[2]);
void pdl__program_sides_add(pdl__builder_t *builder, const pdl_program_op_t *interior, const int back[2]);

/* swap.c: copies to the host and back. Before a node of a pass: what is due at the boundary of a block. Behind a node of a
   forward pass: what nobody reads any more in it is copied out. Brings back what backward needs. */
void pdl__program_enter_block(pdl__builder_t *builder, int node, bool backward);
void pdl__program_copy_out(pdl__builder_t *builder, int node);
void pdl__program_copy_in(pdl__builder_t *builder, int owner);
/* Tensors of swapped nodes are not on the device at the end of a forward pass. */
bool pdl__program_leaves(const pdl__builder_t *builder, int node);

/* state.c: the update, where the optimizer's state passes through the device in pieces. */
enum { PDL__STATE_SLOTS = 4 }; /* one updated, two copied in, one copied out */
typedef struct pdl__state_pieces {
    int count, issued, updated;
    /* Of the piece in a slot: its copy, and the operation that is done with it, a copy out or the update by the host. */
    int buffer[PDL__STATE_SLOTS], out[PDL__STATE_SLOTS];
} pdl__state_pieces_t;
/* Pieces of the buckets in this order. */
void pdl__state_begin(pdl__builder_t *builder, const int *order, pdl__state_pieces_t *state);
void pdl__state_prefetch(pdl__builder_t      *builder,
                         pdl__state_pieces_t *state); /* copies in, as far as there are slots */
/* The next piece; the buffer of its gradients, or -1 where all are on the device. */
void pdl__state_update(pdl__builder_t *builder, pdl__state_pieces_t *state, int gradients);
/* What the host has not been given yet, of those. */
void pdl__state_finish(pdl__builder_t *builder, pdl__state_pieces_t *state);

void         pdl__program_order(pdl__builder_t *builder);
pdl_status_t pdl__program_update(pdl__builder_t *builder);
pdl_status_t pdl__program_wait(pdl__builder_t *builder);
pdl_status_t pdl__program_place(pdl_program_t *program, int micro_batches, bool unplaced);

/* Calls visit for every buffer of an operation that it reads, or writes; the workspace is written. */
typedef enum pdl__use { PDL__READS, PDL__WRITES } pdl__use_t;
void pdl__program_visit(const pdl_program_t *program, const pdl_program_op_t           *op,
                        void (*visit)(void *context, int buffer, pdl__use_t use), void *context);

/* Marks the nodes whose output is made again in backward, or swapped, by the plan's blocks. */
pdl_status_t pdl__program_choose_policies(pdl_program_node_t *nodes, int count, const pdl_plan_t *plan);

#endif
