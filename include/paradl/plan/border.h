/*
 * The borders of a window over pieces: the outputs for which a piece lacks inputs. A runtime that computes them
 * apart exchanges their halo while it computes the rest, and copies nothing else.
 */
#ifndef PARADL_PLAN_BORDER_H
#define PARADL_PLAN_BORDER_H

#include <paradl/model/model.h>
#include <paradl/plan/layout.h>
#include <paradl/plan/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of one piece; low and high side. */
typedef struct pdl_border {
    pdl_range_t own, out;
    int64_t     pad_low, pad_high; /* of the window over own rows alone; negative: own rows beyond all windows */
    pdl_range_t border[2];         /* of the outputs; empty: nothing is missing there */
    pdl_range_t strip[2];          /* of the inputs that the border needs */
    pdl_range_t halo[2];           /* of the strip, what other pieces have */
} pdl_border_t;

void pdl_border_find(const pdl_window_t *window, int64_t pieces, int64_t piece, pdl_border_t *border);

/* Whether the borders of all pieces can be computed apart, and are at most 1/part of their outputs. */
bool pdl_borders_apart(const pdl_window_t *window, int64_t pieces, int64_t part);

/* The part up to which it pays that borders of a convolution are computed twice. */
int64_t pdl_border_part(const pdl_layer_t *layer);

#ifdef __cplusplus
}
#endif
#endif
