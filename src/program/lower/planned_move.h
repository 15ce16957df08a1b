/*
 * A move between ranks as a program knows it: who takes part, and how many bytes it sends and holds. A runtime makes it.
 */
#ifndef PDL_PROGRAM_PLANNED_MOVE_H
#define PDL_PROGRAM_PLANNED_MOVE_H

#include "program/lower/layouts.h"
#include <paradl/tensor/backend.h>

typedef struct pdl__planned_move {
    unsigned         axes; /* in which its members differ; 0: only this rank */
    int              members;
    pdl_region_t    *own, *need; /* of every member, in memory order; owned */
    pdl_dtype_t      type;       /* of the elements */
    double           sent[2];    /* bytes this rank sends, forward and backward */
    size_t           buffers;    /* bytes of messages that a runtime holds */
    struct pdl_move *made;       /* by a runtime; or NULL */
} pdl__planned_move_t;

/* Takes over own and need, also when it fails. */
pdl_status_t pdl__planned_move_create(const pdl__layouts_t *layouts, unsigned axes, pdl_dtype_t type,
                                      pdl_region_t *own, pdl_region_t *need, pdl__planned_move_t **move);
void         pdl__planned_move_destroy(pdl__planned_move_t *move); /* NULL is allowed */

#endif
