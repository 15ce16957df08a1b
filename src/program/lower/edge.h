/*
 * What happens to a tensor between the layer that writes it and one that reads it, when they lay it out differently: a
 * redistribution, then the exchange of halos; and the way back of its gradient.
 */
#ifndef PDL_PROGRAM_EDGE_H
#define PDL_PROGRAM_EDGE_H

#include "program/lower/planned_move.h"
#include <paradl/tensor/device.h>

typedef enum pdl__step_action {
    PDL__STEP_MOVE,      /* from owners to those who need it */
    PDL__STEP_TRANSPOSE, /* back, and added at the owners */
    PDL__STEP_SUM        /* both: every rank gets the sum of all */
} pdl__step_action_t;

typedef struct pdl__edge_step {
    pdl__planned_move_t *move;
    pdl__step_action_t   action;
    int64_t              before, after, block; /* elements on this rank: given, made, and in between for a sum */
    bool                 alone;                /* no other rank takes part */
} pdl__edge_step_t;

#define PDL__EDGE_STEPS (2 * PDL_MAX_AXES)

/* What an edge that has been started works with until it is finished. */
typedef struct pdl__edge_trip {
    pdl_tensor_stream_t *stream;
    bool                 back;
    const void          *source;
    void                *target;
    char                *scratch;
} pdl__edge_trip_t;

typedef struct pdl__edge {
    pdl__edge_step_t     forward[PDL__EDGE_STEPS], backward[PDL__EDGE_STEPS];
    int                  forward_count, backward_count;
    pdl_region_t         arrives;                    /* what the reader gets on this rank, halo included */
    int64_t              scratch;                    /* elements needed while steps run */
    pdl_dtype_t          type;                       /* of the elements, as pdl_move_spec_t has it */
    pdl__planned_move_t *moves[2 * PDL__EDGE_STEPS]; /* owned */
    int                  move_count;
    pdl__edge_trip_t     trip;
} pdl__edge_t;

/* Whether every rank has all channels of an image on the whole way: then blocks of channels can stay together. */
bool pdl__edge_keeps_channels(const pdl__layouts_t *layouts, int producer, int layer);
/* The edge from layer `producer` to its reader `layer`. `without`:
   the axis whose halo is left out, since the reader gets it by itself (halo.h), or -1. `gradient`: the way back is
   wanted. `block`: channels that lie together at every position, 1 for tensors in plain order; the same on all
   ranks. */
pdl_status_t pdl__edge_create(const pdl__layouts_t *layouts, int producer, int layer, int without, pdl_dtype_t type,
                              bool gradient, int64_t block, pdl__edge_t **edge);
/* Channels that lie together at every position of an image in this arrangement. */
int64_t pdl__edge_block(const pdl_backend_t *backend, pdl_format_t format);
/* A region of a tensor of this shape with its dimensions as they lie in memory. */
pdl_region_t pdl__edge_in_memory(const pdl_shape_t *shape, int64_t block, const pdl_region_t *region);
/* Where the tensor arrives as it was written, and only its gradient is to be summed over these axes: in place, on the
   storage of this many elements, in whatever order they lie. */
pdl_status_t pdl__edge_create_sum(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type, int64_t elements,
                                  pdl__edge_t **edge);
size_t       pdl__edge_scratch_bytes(const pdl__edge_t *edge);
/* The axes over which the gradient that `layer` leaves of its input is a partial sum that its producer wants whole. */
unsigned pdl__edge_sums(const pdl__layouts_t *layouts, int producer, int layer);
void     pdl__edge_destroy(pdl__edge_t *edge); /* NULL is allowed */

/* What lies between the first step's source and the last one's target, in elements: two buffers that take turns, and the
   block of a sum. */
void pdl__edge_scratch(const pdl__edge_step_t *steps, int count, int64_t *half, int64_t *block);
/* How often an edge waits for other ranks: the same on all of them. */
int pdl__edge_waits(const pdl__edge_t *edge, bool backward);
/* Bytes that stay on this rank, copied or added, in one forward or backward. */
double pdl__edge_kept_bytes(const pdl__edge_t *edge, bool backward);
/* Bytes this rank sends in one forward and one backward. */
void pdl__edge_bytes(const pdl__edge_t *edge, double *forward, double *backward);

#endif
