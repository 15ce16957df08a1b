/*
 * The halo of a convolution over a part in space, exchanged while the part itself is computed.
 *
 * The layer runs on the rows that the rank has, with zeros in the place of those it lacks: all of its output but
 * the rows at the borders is right. Meanwhile the halo is in flight. Then the same layer runs on a strip at each side,
 * the halo and the rows of its own that the border needs, and what it gives takes the place of the border.
 *
 *     own rows          [  a  b  c  d  e  f  ]      halo of the low side: h
 *     main                 0  a  b  c  d  e  f  ->  x  B  C  D  E  F
 *     strip             h  a  b                 ->  A,  written over x
 *
 * Backward, the main layer gives what own rows contribute to the gradients of weights and what all outputs
 * contribute to those of own rows; the strip, with zeros for own rows, gives what the halo does. So no piece is
 * copied as a whole.
 */
#ifndef PDL_PROGRAM_HALO_H
#define PDL_PROGRAM_HALO_H

#include "program/lower/planned_move.h"
#include <paradl/plan/border.h>
#include <paradl/plan/boxes.h>
#include <paradl/tensor/backend.h>

/* Rows along the extent that the axis cuts, of one member of its group. */
typedef struct pdl__halo_rows {
    pdl_border_t at;
    pdl_range_t  gives[2]; /* of its own rows, those in the low or high halos of others */
} pdl__halo_rows_t;

typedef struct pdl__halo_side {
    pdl__planned_move_t *move;  /* NULL: no member lacks anything on this side */
    pdl_layer_t         *local; /* on the strip; NULL where this member lacks nothing */
    pdl_op_description_t description;
    pdl_op_t            *op; /* made by a runtime; or NULL */
    pdl_boxes_t          boxes[PDL_SIDE_BOXES_COUNT];
    size_t               gives_bytes, strip_bytes, halo_bytes, border_bytes;
    size_t               packed_at; /* copies of weights, behind the workspace of its op */
} pdl__halo_side_t;

typedef struct pdl__halo {
    pdl_backend_t     *backend;
    pdl__halo_side_t   side[2];
    pdl_program_side_t said[2]; /* as the program has them */
    size_t             item;    /* bytes of an element */
} pdl__halo_t;

typedef struct pdl__halo_spec {
    const pdl__layouts_t *layouts;
    pdl_backend_t        *backend;
    int                   layer, axis;
    pdl_op_spec_t         op;      /* but for layer and inputs */
    pdl_region_t          in, out; /* of this rank, without the halo */
} pdl__halo_spec_t;

/* halo_axis.c: the axis whose halo a layer gets by itself, or -1; the same on all ranks. It is the last with a
   halo, such that corners have come with those before. */
int pdl__halo_axis(const pdl__layouts_t *layouts, int layer);
/* The rows of all members of that axis. */
void pdl__halo_members(const pdl__layouts_t *layouts, int layer, int axis, pdl__halo_rows_t *rows);
/* What a rank reads then, the halos of other axes included. */
pdl_status_t pdl__halo_arrives(const pdl__layouts_t *layouts, int layer, int axis, pdl_region_t *region);

/* halo.c: whether this rank can do it so, and then the format in which it reads. All ranks of a stage do, with one
   format, or none. */
pdl_status_t pdl__halo_possible(const pdl__halo_spec_t *spec, bool *possible, pdl_format_t *format);
/* The layer on own rows with its description, and the halo, NULL if no rank lacks anything. */
pdl_status_t pdl__halo_create(const pdl__halo_spec_t *spec, pdl_op_description_t *description, pdl_layer_t **local,
                              pdl__halo_t **halo);
/* The spec of a side's op, of which `main` is that on own rows. */
pdl_op_spec_t pdl__halo_side_spec(const pdl__halo_side_t *side, const pdl_op_spec_t *main,
                                  const pdl_op_description_t *like);
void          pdl__halo_destroy(pdl__halo_t *halo); /* NULL is allowed */

/* Bytes of buffers that moves hold. */
size_t pdl__halo_buffers(const pdl__halo_t *halo);

#endif
