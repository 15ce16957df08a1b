/*
 * The partition of a plan: what every layer reads, writes and holds on every axis, which redistributions stand in front
 * of it, and which collectives exchange its gradients, for one class of ranks. A program (program.h) is made from it.
 */
#ifndef PARADL_PARTITION_H
#define PARADL_PARTITION_H

#include <paradl/plan/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_phase { PDL_PHASE_FORWARD, PDL_PHASE_BACKWARD, PDL_PHASE_GRADIENT, PDL_PHASE_COUNT } pdl_phase_t;

/* One movement of data, for one micro-batch (gradients: for one update). */
typedef struct pdl_transfer {
    int             layer; /* whose input, output or gradient moves */
    int             input; /* redistributions: which of its inputs; -1 for all others */
    pdl_phase_t     phase;
    pdl_primitive_t primitive;
    int             axis;      /* axis of the group; gradients: see axis_mask */
    unsigned        axis_mask; /* gradients: all axes over which the weight's gradient is partial */
    double          elements;  /* of the complete vector of one group; halo: sent by the busiest rank to one side */
    int             neighbours;     /* halo: sides */
    int             tensors;        /* gradients: weight tensors in it */
    bool            input_gradient; /* an allreduce or reduce-scatter of dx */
} pdl_transfer_t;

/* What the busiest rank holds and computes of one layer, for one micro-batch. */
typedef struct pdl_local {
    double   samples;
    double   share_forward; /* of the layer's flop per sample */
    double   share_backward_data, share_backward_weight;
    double   x_elements, y_elements;    /* local, per sample; x as it is read, all inputs */
    double   gathered_elements;         /* of x, per sample: copies made by gathering what other ranks hold */
    unsigned gathered_inputs;           /* bit per input of which there is such a copy */
    double   weights;                   /* local elements */
    double   out_channels, in_channels; /* local, for the efficiency of narrow kernels */
    double   experts_over; /* replicas that share the experts out, and each other's tokens; 1: every one has all */
    bool     split;        /* in filter, channel, heads, vocabulary or expert mode on some axis */
    bool     split_space;  /* in space mode on some axis */
    double   replication;  /* ranks (over non-data axes) that compute the same thing */
    int      first_transfer, transfer_count; /* its forward and backward transfers in `transfers` */
    unsigned gradient_axes;                  /* axes over which its dw is partial */
    pdl_placement_t out[PDL_MAX_AXES];       /* placement of y */
    pdl_placement_t reads[PDL_MAX_AXES];     /* of every input, when the operation starts */
    pdl_placement_t dx[PDL_MAX_AXES];        /* of their gradients, as the operation leaves them */
    uint8_t         mode[PDL_MAX_AXES];      /* pdl_mode_t on each axis; PASS is resolved */
} pdl_local_t;

typedef struct pdl_partition {
    const pdl_plan_t *plan;
    int               layer_count;
    pdl_local_t      *local;     /* one per layer */
    int              *twin;      /* the layer whose entry this one's equals, itself where it is the first */
    pdl_transfer_t   *transfers; /* forward and backward, in layer order; then gradients, in backward order */
    int               transfer_count, first_gradient;
    double            micro_batch; /* samples per data-parallel replica and micro-batch */
    struct pdl_walk  *walk;        /* scratch of the two questions below: ask them from one thread at a time */
} pdl_partition_t;

/* Compiles the layers of all stages (stage borders are priced apart); `micro_batch` samples in each
   data-parallel replica. */
pdl_status_t pdl_partition_create(const pdl_plan_t *plan, double micro_batch, pdl_partition_t **partition);
void         pdl_partition_destroy(pdl_partition_t *partition);

/* borders[i]: elements that cross the border in front of layer i, one rank and micro-batch: every tensor
   made before it and used at or after it. `borders` has layer_count + 1 entries. */
void pdl_partition_borders(const pdl_partition_t *partition, double *borders);

/* Activation memory of the layers [first, last) for one micro-batch, in elements of the activation type. */
typedef struct pdl_activation_memory {
    double saved;     /* kept from forward to backward */
    double transient; /* highest additional amount while a forward or backward pass runs */
    double input;     /* the stage's input: all that is kept under full recompute */
} pdl_activation_memory_t;
void pdl_partition_memory(const pdl_partition_t *partition, int first, int last, pdl_activation_memory_t *memory);

#ifdef __cplusplus
}
#endif
#endif
