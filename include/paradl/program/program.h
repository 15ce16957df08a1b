/*
 * A program is what one rank does in one update of the weights, operation after operation, with a place in one arena
 * for every buffer: no memory is taken while it is executed.
 *
 * It is made of *nodes*: layers as a backend computes them (possibly several fused), with the bytes they want, and the
 * redistributions between them. Passes emit operations: forward, backward and recomputation in their order, with sums of
 * gradients that come from several readers. Then it is found which operations wait for which, and how long buffers live;
 * colouring these intervals places them. The highest mark is the memory the plan reports.
 *
 * An operation that communicates is issued at its place in the list, and complete where a later one waits for it; what
 * lies between is overlapped. Redistributions are issued early where something else can be computed meanwhile: forward as
 * soon as their input is there, backward before the weight gradients of the node that made what they move. They are issued
 * in the order of the nodes, whatever is between them, which may differ from rank to rank.
 */
#ifndef PARADL_PROGRAM_H
#define PARADL_PROGRAM_H

#include <paradl/base/status.h>
#include <paradl/model/model.h>
#include <paradl/plan/pipeline.h>
#include <paradl/plan/plan.h>
#include <paradl/tensor/backend.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL_PROGRAM_INPUTS 8

typedef enum pdl_node_kind {
    PDL_NODE_COMPUTE,
    PDL_NODE_SOURCE,       /* its output is loaded */
    PDL_NODE_CONVERT,      /* its output is its input in another format */
    PDL_NODE_VIEW,         /* its output is the storage of input 0 under another shape */
    PDL_NODE_REDISTRIBUTE, /* its output is its input as another layer wants it over the ranks */
    PDL_NODE_RECEIVE,      /* its output comes from another stage of a pipeline, and the gradient goes there */
    PDL_NODE_SEND          /* its input goes to another stage, and the gradient comes from there; no output */
} pdl_node_kind_t;

/* One move of a redistribution. */
typedef struct pdl_program_move {
    pdl_primitive_t primitive;
    unsigned        group; /* mask of mesh axes; 0: no other rank takes part */
    size_t          bytes; /* of what it makes on this rank */
    double          sent;  /* bytes */
} pdl_program_move_t;

enum { PDL_FORWARD, PDL_BACKWARD, PDL_DIRECTIONS };

/* One side of a convolution over a part in space. The layer on own rows, its interior, is computed while the rows that it
   lacks are in flight; then the same layer runs on a strip, these rows and some of its own, and gives the boundary. */
typedef struct pdl_program_side {
    pdl_program_move_t move[PDL_DIRECTIONS]; /* of the halo, and of its gradient; group 0: nobody lacks anything */
    bool               computes;             /* this rank lacks something */
    bool               keeps_output;
    size_t             gives, strip, border; /* bytes: rows that others get, of the strip, of the boundary */
    size_t             workspace;            /* of the layer on the strip, with its copies of weights */
} pdl_program_side_t;

typedef struct pdl_program_node {
    pdl_node_kind_t kind;
    int             layer, tail;               /* of the model: the first and the last of those fused */
    int             reader;                    /* of a redistribution: the layer for which it is made */
    int             chunk;                     /* the pass it belongs to; 0 unless `order` tells passes apart */
    int             input[PDL_PROGRAM_INPUTS]; /* producers, all smaller than this node's index */
    int             input_count;
    bool            backward;   /* takes part in backward */
    bool            loss;       /* backward starts here: it reads no gradient */
    bool            recompute;  /* its output is not kept for backward, but made again when needed */
    bool            from_saved; /* made again so: what it has saved is kept and read */
    bool            swap;       /* what backward reads of it is on the host meanwhile */
    int             block;      /* of the plan's memory policies, in the order of the layers */
    int      policy_block; /* of the policy for its tensors: the first other block that reads them, or its own */
    int      wanted_by;    /* swapped: the block whose backward reads it first, */
    int      release_after, prefetch; /* and its distances */
    unsigned input_gradients;         /* bit per input whose gradient backward makes */
    unsigned keeps_inputs;
    bool     keeps_output, inplace, sums_gradients, adds_gradient;
    bool     gradient_in_forward; /* of a loss: forward makes the gradient of input 0, over it if it can */
    bool     divides;             /* backward may make the gradients of weights after those of inputs */
    size_t   out_bytes, saved_bytes, workspace_bytes;
    uint64_t key;     /* of what it computes, converts or loads (pdl_timed_hash); 0: none of these */
    int64_t  samples; /* of a micro-batch, on this rank */
    pdl_gradient_use_t gradient[PDL_PROGRAM_INPUTS];
    /* Of a redistribution: its moves, one after the other, forward and backward. None backward where the gradient is right as
       it is. Borrowed while the program is made. */
    const pdl_program_move_t *move[PDL_DIRECTIONS];
    int                       move_count[PDL_DIRECTIONS];
    /* Of a convolution whose halo is in flight while it is computed: both sides, or NULL; borrowed. No redistribution behind it
       is issued before it. */
    const pdl_program_side_t *side;
    bool                      trains; /* it has weights whose gradients are made */
    /* Of other nodes: sums over ranks of the gradients of inputs, where they are made; in place. Borrowed too. */
    const pdl_program_move_t *sum[PDL_PROGRAM_INPUTS];
    int                       sum_count[PDL_PROGRAM_INPUTS];
} pdl_program_node_t;

typedef enum pdl_op_kind {
    PDL_OP_LOAD, /* the next micro-batch into the sources: their buffers are inputs */
    PDL_OP_FORWARD,
    PDL_OP_BACKWARD, /* gradients of inputs and weights, in one */
    PDL_OP_DGRAD,    /* gradients of inputs */
    PDL_OP_WGRAD,    /* gradients of weights, with the workspace that dgrad has left */
    PDL_OP_RECOMPUTE,
    PDL_OP_SUM,          /* output = input 0 + input 1; output may be one of them */
    PDL_OP_CONVERT,      /* input 0 in another format */
    PDL_OP_COPY,         /* boxes of input 0 into output, on the device; without input: zeros */
    PDL_OP_REDISTRIBUTE, /* input 0 to output, one move */
    PDL_OP_COLLECTIVE,
    PDL_OP_SEND,
    PDL_OP_RECV,
    PDL_OP_COPY_OUT,
    PDL_OP_COPY_IN,
    PDL_OP_UPDATE,
    PDL_OP_RESULT,
    PDL_OP_KIND_COUNT
} pdl_op_kind_t;
extern const char *const pdl_op_kind_names[PDL_OP_KIND_COUNT]; /* "forward", "dgrad", ... */

/* What is done in order, beside the other streams. */
typedef enum pdl_op_stream {
    PDL_STREAM_COMPUTE,
    PDL_STREAM_REDISTRIBUTION,
    PDL_STREAM_GRADIENT,
    PDL_STREAM_STAGE,
    PDL_STREAM_COPY_IN,
    PDL_STREAM_COPY_OUT,
    PDL_STREAM_HOST, /* processors of the host */
    PDL_STREAM_COUNT
} pdl_op_stream_t;
extern const char *const pdl_op_stream_names[PDL_STREAM_COUNT]; /* "computation", "gradient exchange", ... */

/* Numbers with which an update ends, summed over ranks: loss, accuracy, samples, whether to stop, whether one is not finite. */
#define PDL_RESULT_SUMS 5

/* What a collective is for. */
typedef enum pdl_collective_role {
    PDL_ROLE_GRADIENTS, /* of a bucket, summed over ranks; where state is sharded every rank gets a part of the sum */
    PDL_ROLE_PARTS,     /* these parts, summed over the other axes */
    PDL_ROLE_TIED,      /* the gradients of a weight that several stages hold */
    PDL_ROLE_WEIGHTS    /* of a bucket, put together from the parts that ranks keep */
} pdl_collective_role_t;

/* Boxes of a side that are copied: between own rows and those that others get, own rows and the strip, the strip and the
   halo, the output and the boundary. */
typedef enum pdl_side_boxes {
    PDL_BOXES_GIVES,
    PDL_BOXES_OWN,
    PDL_BOXES_HALO,
    PDL_BOXES_BORDER,
    PDL_SIDE_BOXES_COUNT
} pdl_side_boxes_t;

/* Buffers are numbers; -1 means none. */
typedef struct pdl_program_op {
    pdl_op_kind_t    kind;
    pdl_op_stream_t  stream;
    int              node; /* -1: of no node */
    int              micro_batch;
    bool             backward;   /* of the backward pass, or of gradients */
    bool             again;      /* what forward has done before */
    bool             from_saved; /* from what it has saved then */
    int              move;       /* redistribution: which of the node's moves */
    int              sums;       /* redistribution: the input whose gradient it sums, or -1 */
    int              part;    /* of a convolution: 0 all of it or its interior, 1 and 2 the boundary of its sides */
    pdl_side_boxes_t boxes;   /* copy: of that side, */
    bool             reverse; /* from the second of the two to the first */
    int              bucket;  /* of gradients or weights, or the number of a tie; -1: none */
    int              piece;   /* of state off the device, copied or updated; of gradients for the host; -1: none */
    bool             adds;    /* weight gradients are added to those that are there */
    int              input[PDL_PROGRAM_INPUTS];
    int              output, saved, workspace;
    int              gradient[2];                        /* of the output */
    int              input_gradient[PDL_PROGRAM_INPUTS]; /* where they go */
    int              first_whole, whole_count; /* buffers of whole buckets that it uses, in the program's list */
    /* Communication. */
    unsigned              group; /* mask of mesh axes; 0: none */
    pdl_primitive_t       primitive;
    pdl_collective_role_t role;
    double                bytes; /* this rank sends, by the schedules of the plan; of copies, what they copy */
    int until; /* copy out, update by the host: who waits for it, unless one before has to; 0: none */
    int first_wait, wait_count; /* in the program's list of waits */
} pdl_program_op_t;

typedef struct pdl_program_buffer {
    size_t      bytes, offset; /* the latter in the arena of its space */
    pdl_space_t space;         /* of the device, or pinned on the host */
    int         first, last;   /* operations that use it first, and use or wait for it last */
    int         node;          /* -1: it is a whole bucket */
    int         bucket;        /* -1: none */
    bool        weights;       /* or gradients */
} pdl_program_buffer_t;

/* Gradients that are exchanged together. */
typedef struct pdl_program_bucket {
    int      set, index;  /* buckets of one set are summed over the same ranks; the number in the set */
    int      first, last; /* its weights are [first, last) */
    unsigned axes;        /* over which they are summed */
    unsigned sharded;     /* of these, axes over which state is divided; 0: every rank has all of it */
    size_t   bytes;       /* of the whole bucket */
    size_t   part_bytes;  /* of these, what this rank updates */
    /* Elements of the arrays of state that are its own here. */
    int64_t state_low, state_high;
} pdl_program_bucket_t;

/* Of optimizer state that is not on the device: the elements [low, high) of every array, all of one bucket. */
typedef struct pdl_program_piece {
    int64_t low, high;
    int     bucket;
} pdl_program_piece_t;

typedef struct pdl_program {
    const pdl_model_t    *model; /* borrowed, for names; or NULL */
    pdl_program_node_t   *node;  /* without moves and sums */
    int                   node_count;
    pdl_program_op_t     *op;
    int                   op_count;
    int                  *wait; /* operations; those of op i are wait[first_wait .. first_wait + wait_count) */
    int                   wait_count;
    int                  *whole; /* buffers; those of op i are whole[first_whole .. first_whole + whole_count) */
    int                   whole_count;
    pdl_program_buffer_t *buffer;
    int                   buffer_count;
    size_t                arena_bytes; /* highest mark */
    size_t                live_bytes;  /* most bytes of tensors alive at once: the lower bound of what they take */
    size_t                whole_bytes[2]; /* of the arena: whole buckets of gradients, and of weights */
    size_t                host_bytes;     /* highest mark of the arena on the host */
    pdl_program_bucket_t *bucket;
    int                   bucket_count;
    pdl_program_piece_t  *piece; /* in the order in which they are updated */
    int                   piece_count;
    int64_t               piece_most; /* elements */
} pdl_program_t;

/* Forward or backward of one micro-batch through the nodes of one chunk. */
typedef struct pdl_program_pass {
    bool                 backward;
    int                  micro_batch, chunk;
    pdl_pass_gradients_t gradients;
} pdl_program_pass_t;

/* How the weights of nodes are updated. */
typedef struct pdl_program_update {
    const int *first_use; /* [nodes + 1]; node i has the trained weights use[first_use[i] .. first_use[i + 1]) */
    const int *use;
    int        weight_count;
    const pdl_program_bucket_t *bucket;
    int                         bucket_count;
    int                         ties;      /* weights that several stages hold */
    unsigned                    tie_group; /* axes of the stages */
    pdl_sharding_t              sharding;
    bool                        packs;        /* kernels have copies of weights, made again after an update */
    bool                        weights_pass; /* they are on the host: buckets of them come before they are used */
    bool                        gradients_pass; /* buckets of them are gone when their weights are updated */
    /* Optimizer state that is not on the device: so many arrays pass through it, that of weights among them where these are on the
       host. Then all trained weights are in buckets. */
    int    state_arrays; /* 0: it is */
    size_t state_item;   /* bytes of an element */
    bool   by_host;      /* what is there is updated there: gradients of pieces are copied out, and nothing in */
    bool   early;        /* an update needs nothing but the gradients of its bucket: it is made during backward */
} pdl_program_update_t;

typedef struct pdl_program_options {
    int                         micro_batches;
    bool                        training;
    bool                        overlap;  /* false: every communication is waited for at once */
    bool                        unplaced; /* buffers get no places, which takes long; the arena is what is alive */
    const pdl_model_t          *model;
    const pdl_program_update_t *update; /* NULL: forward and backward are all */
    /* Every forward pass, and when training every backward pass, once; NULL: of each micro-batch in turn, chunk 0. */
    const pdl_program_pass_t *order;
    int                       order_count;
} pdl_program_options_t;

pdl_status_t pdl_program_create(const pdl_program_node_t *nodes, int node_count,
                                const pdl_program_options_t *options, pdl_program_t **program);
void         pdl_program_destroy(pdl_program_t *program); /* NULL is allowed */

/* What operation i is called, in `text`: "forward conv1", "dgrad fc", "redistribute h.1.ln_1 -> h.1.attn". */
const char *pdl_program_op_name(const pdl_program_t *program, int i, char *text, size_t size);
/* Whether an operation is in flight behind its place, until another waits for it. */
bool pdl_program_op_in_flight(const pdl_program_op_t *op);
/* Whether an operation needs the host when it is executed: to communicate, to wait, or, unless this rank is `alone`, for what all
   ranks know together. And how many are before the first that does: a device can keep them and replay them at once. */
bool pdl_program_op_needs_host(const pdl_program_op_t *op, bool alone);
int  pdl_program_replayable(const pdl_program_t *program, bool alone);
/* What this rank sends, by what it is for. */
typedef enum pdl_traffic {
    PDL_TRAFFIC_REDISTRIBUTION, /* halos included */
    PDL_TRAFFIC_EXPERTS,        /* tokens there and back, if all experts are asked equally often */
    PDL_TRAFFIC_STATISTICS,     /* of batch norm and of split losses */
    PDL_TRAFFIC_STAGES,         /* to other stages of a pipeline */
    PDL_TRAFFIC_GRADIENTS,      /* those of tied weights included; and weights where these are sharded */
    PDL_TRAFFIC_RESULTS,        /* loss, and norms for an update */
    PDL_TRAFFIC_COUNT
} pdl_traffic_t;
/* Of an operation that sends something. */
pdl_traffic_t pdl_program_op_traffic(const pdl_program_op_t *op);
/* Bytes of all operations. */
void pdl_program_traffic(const pdl_program_t *program, double sent[PDL_TRAFFIC_COUNT]);
/* Bytes of the device's buffers that are alive at every operation: op_count of them. */
void pdl_program_alive(const pdl_program_t *program, double *bytes);
/* The buffer that an operation writes, the first where there are several; or -1. */
int pdl_program_op_output(const pdl_program_op_t *op);

/* Places intervals [first, last] of the given sizes into one arena such that those alive together do not overlap;
   returns the highest mark. `alignment` is a power of two. */
pdl_status_t pdl_colour_intervals(pdl_program_buffer_t *buffers, int count, size_t alignment, size_t *arena_bytes);

#ifdef __cplusplus
}
#endif
#endif
