/*
 * A program is what one rank does in one update of the weights, operation after operation, with a place in one arena
 * for every buffer: no memory is taken while it is executed.
 *
 * It is made of *nodes*: layers as a backend computes them (possibly several fused), with the bytes they want. The
 * program knows nothing of layers; it orders forward, backward and recomputation, adds up gradients that come from several
 * readers, and colours the intervals during which buffers live. The highest mark is the memory the plan reports.
 *
 * Nodes that wait for other ranks are started early where something else can be computed meanwhile: forward as soon as
 * their input is there, backward before the weight gradients of the node that made what they send. They start in the
 * order of the nodes, whatever lies between them, which may differ from rank to rank.
 */
#ifndef PARADL_PROGRAM_H
#define PARADL_PROGRAM_H

#include <paradl/base/status.h>
#include <paradl/tensor/backend.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_PROGRAM_INPUTS 8

/* Directions in which a node moves. */
#define PDL_PROGRAM_THERE 1u
#define PDL_PROGRAM_BACK  2u

/* A node without inputs that is no source gets its output from elsewhere, another stage of a pipeline say, and its gradient goes
   there; one that sends its input away is a `loss` whose gradient comes from there, and has no output. */
typedef struct pdl_program_node {
    int      input[PDL_PROGRAM_INPUTS]; /* producers, all smaller than this node's index */
    int      input_count;
    bool     source;          /* its output is loaded, not computed */
    bool     view;            /* its output is the storage of input 0 under another shape */
    bool     backward;        /* takes part in backward */
    unsigned input_gradients; /* bit per input whose gradient backward makes */
    size_t   out_bytes, saved_bytes, workspace_bytes;
    unsigned keeps_inputs;
    bool     keeps_output, inplace, sums_gradients;
    bool     loss;       /* backward starts here: it reads no gradient */
    bool     recompute;  /* its output is not kept for backward, but made again when needed */
    unsigned moves;      /* PDL_PROGRAM_THERE, PDL_PROGRAM_BACK: it waits for other ranks, and may do so later */
    bool     stepwise;   /* forward it waits several times: it is not started early, and none behind it */
    bool     rearranges; /* its output is its input in another order */
    bool     divides;    /* backward may make the gradients of weights after those of inputs */
    int      chunk;      /* the pass it belongs to; 0 unless `order` tells passes apart */
    pdl_gradient_use_t gradient[PDL_PROGRAM_INPUTS];
} pdl_program_node_t;

typedef enum pdl_op_kind {
    PDL_OP_LOAD,          /* the next micro-batch into the sources */
    PDL_OP_FORWARD,       /* of a node; again when `again` */
    PDL_OP_SUM,           /* output = gradient[0] + gradient[1]; output may be one of them */
    PDL_OP_BACKWARD,      /* of a node */
    PDL_OP_GRADIENT_DONE, /* the node's weight gradients are final for this update */
    PDL_OP_FORWARD_REST,  /* of a node that moves: what was started before has arrived */
    PDL_OP_BACKWARD_REST, /* likewise; of another node: the gradients of its weights */
} pdl_op_kind_t;

/* Buffers are numbers; -1 means none. */
typedef struct pdl_program_op {
    pdl_op_kind_t kind;
    int           node;
    int           micro_batch;
    bool          again;
    bool          partly; /* a later operation does the rest, on the same buffers */
    int           input[PDL_PROGRAM_INPUTS];
    int           output, saved, workspace;
    int           gradient[2];                        /* of the output */
    int           input_gradient[PDL_PROGRAM_INPUTS]; /* where they go */
} pdl_program_op_t;

typedef struct pdl_program_buffer {
    size_t bytes, offset;
    int    first, last; /* operations that use it first and last */
    int    node;
} pdl_program_buffer_t;

typedef struct pdl_program {
    pdl_program_op_t     *op;
    int                   op_count;
    pdl_program_buffer_t *buffer;
    int                   buffer_count;
    size_t                arena_bytes; /* highest mark */
    size_t                live_bytes;  /* most bytes alive at once: the lower bound of arena_bytes */
} pdl_program_t;

/* Forward or backward of one micro-batch through the nodes of one chunk. */
typedef struct pdl_program_pass {
    bool backward;
    int  micro_batch, chunk;
} pdl_program_pass_t;

typedef struct pdl_program_options {
    int  micro_batches;
    bool training;
    /* Every forward pass, and when training every backward pass, once; NULL: of each micro-batch in turn, chunk 0. */
    const pdl_program_pass_t *order;
    int                       order_count;
} pdl_program_options_t;

pdl_status_t pdl_program_create(const pdl_program_node_t *nodes, int node_count,
                                const pdl_program_options_t *options, pdl_program_t **program);
void         pdl_program_destroy(pdl_program_t *program);

/* Places intervals [first, last] of the given sizes into one arena such that those alive together do not overlap;
   returns the highest mark. `alignment` is a power of two. */
pdl_status_t pdl_colour_intervals(pdl_program_buffer_t *buffers, int count, size_t alignment, size_t *arena_bytes);

#ifdef __cplusplus
}
#endif
#endif
