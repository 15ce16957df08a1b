/*
 * A move between ranks as a program knows it: who takes part, and how many bytes it sends and holds. A runtime makes it.
 *
 * Equal layers have equal moves, and what is to be said of one takes a time that grows with the ranks that take part. So
 * the layouts keep what they have once found, by what decides it.
 */
#ifndef PDL_PROGRAM_PLANNED_MOVE_H
#define PDL_PROGRAM_PLANNED_MOVE_H

#include "program/lower/layouts.h"
#include <paradl/tensor/backend.h>

typedef struct pdl__planned_move {
    unsigned            axes;           /* in which its members differ; 0: only this rank */
    int                 members, place; /* the latter of this rank */
    const pdl_region_t *own, *need;     /* of every member, in memory order; they are the layouts' */
    pdl_dtype_t         type;           /* of the elements */
    double              sent[2];        /* bytes this rank sends, forward and backward */
    size_t              buffers;        /* bytes of messages that a runtime holds */
    struct pdl_move    *made;           /* by a runtime; or NULL */
} pdl__planned_move_t;

/* What decides the regions of a move, besides the coordinates of the rank; without bytes that are not set. */
typedef struct pdl__move_key {
    int64_t         coordinates[PDL_MAX_AXES];
    int64_t         extent[PDL_MAX_SPACE + 1], block, elements;
    pdl_placement_t on[2][PDL_MAX_AXES];
    int64_t         segment[2][PDL_REGION_SEGMENTS][3];
    int             segments[2];
    int             rank, sequence, transpose;
    unsigned        axes;
    pdl_dtype_t     type;
} pdl__move_key_t;

/* A sum of `elements` over an axis; a change from one layout to another, or back. */
pdl__move_key_t pdl__move_key_sum(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type, int64_t elements);
pdl__move_key_t pdl__move_key_change(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type,
                                     const pdl_shape_t *shape, int64_t block, const pdl_layout_t *from,
                                     const pdl_layout_t *to, bool transpose);

/* *move is NULL where no move of this key was created. */
pdl_status_t pdl__planned_move_find(const pdl__layouts_t *layouts, const pdl__move_key_t *key,
                                    pdl__planned_move_t **move);
/* Takes over own and need, also when it fails. Without a key it will not be found. */
pdl_status_t pdl__planned_move_create(const pdl__layouts_t *layouts, const pdl__move_key_t *key, unsigned axes,
                                      pdl_dtype_t type, pdl_region_t *own, pdl_region_t *need,
                                      pdl__planned_move_t **move);
void         pdl__planned_move_destroy(pdl__planned_move_t *move); /* NULL is allowed */

#endif
