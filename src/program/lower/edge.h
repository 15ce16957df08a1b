/*
 * What happens to a tensor between the layer that writes it and one that reads it, when they lay it out differently: a
 * redistribution, then the exchange of halos; and the way back of its gradient.
 */
#ifndef PDL_PROGRAM_EDGE_H
#define PDL_PROGRAM_EDGE_H

#include "program/lower/planned_move.h"
#include <paradl/program/program.h>

/* How a move of the program is made. */
typedef struct pdl__edge_step {
    pdl__planned_move_t *move;
    bool                 transpose;     /* back, and added at the owners */
    int64_t              before, after; /* elements on this rank */
    int64_t              kept;          /* of these, how many stay */
} pdl__edge_step_t;

/* A sum over an axis is two moves: blocks are summed at their owners, which then give them to all. */
#define PDL__EDGE_STEPS (4 * PDL_MAX_AXES)

typedef struct pdl__edge {
    pdl_program_move_t   said[PDL_DIRECTIONS][PDL__EDGE_STEPS]; /* as the program has them */
    pdl__edge_step_t     step[PDL_DIRECTIONS][PDL__EDGE_STEPS];
    int                  count[PDL_DIRECTIONS];
    pdl_region_t         arrives;                    /* what the reader gets on this rank, halo included */
    pdl_dtype_t          type;                       /* of the elements, as pdl_move_spec_t has it */
    pdl__planned_move_t *moves[2 * PDL__EDGE_STEPS]; /* owned */
    int                  move_count;
} pdl__edge_t;

/* Whether every rank has all channels of an image on the whole way: then blocks of channels can stay together. */
bool pdl__edge_keeps_channels(const pdl__layouts_t *layouts, int producer, int layer);
/* The edge from layer `producer` to its reader `layer`. `without`:
   the axis whose halo is left out, since the reader gets it by itself (halo.h), or -1. `gradient`: the way back is
   wanted. `block`: channels that lie together at every position, 1 for tensors in plain order; the same on all
   ranks. */
pdl_status_t pdl__edge_create(const pdl__layouts_t *layouts, int producer, int layer, int without, pdl_dtype_t type,
                              bool gradient, int64_t block, pdl__edge_t **edge);
/* Channels that are together at every position of an image of so many channels in this format. */
int64_t pdl__edge_block(const pdl_backend_t *backend, pdl_format_t format, int64_t channels);
/* A region of a tensor of this shape with its dimensions as they lie in memory. */
pdl_region_t pdl__edge_in_memory(const pdl_shape_t *shape, int64_t block, const pdl_region_t *region);
/* Where the tensor arrives as it was written, and only its gradient is to be summed over these axes: in place, on the
   storage of this many elements, in whatever order they lie. */
pdl_status_t pdl__edge_create_sum(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type, int64_t elements,
                                  pdl__edge_t **edge);
/* The axes over which the gradient that `layer` leaves of its input is a partial sum that its producer wants whole. */
unsigned pdl__edge_sums(const pdl__layouts_t *layouts, int producer, int layer);
void     pdl__edge_destroy(pdl__edge_t *edge); /* NULL is allowed */

/* Bytes of one move that stay on this rank, copied or added. */
double pdl__edge_kept_bytes(const pdl__edge_t *edge, int direction, int step);

#endif
