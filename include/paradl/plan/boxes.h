/*
 * Boxes: what two regions have in common, as places in the memory of both.
 */
#ifndef PARADL_BOXES_H
#define PARADL_BOXES_H

#include <paradl/plan/layout.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element (i_0, i_1, ...) of a box is element first[side] + sum of i_d stride[side][d] of either side. Dimensions
   that follow one another on both sides are one. */
typedef struct pdl_box {
    int     rank;
    int64_t extent[PDL_REGION_DIMS];
    int64_t first[2], stride[2][PDL_REGION_DIMS];
} pdl_box_t;

typedef struct pdl_boxes {
    pdl_box_t *box;
    int        count;
    int64_t    elements; /* of all together */
} pdl_boxes_t;

/* The second side may be a message, in which the boxes follow one another. Its order depends only on the two
   regions, not on which of them comes first. */
typedef enum pdl_sides { PDL_BOXES_A_B, PDL_BOXES_A_MESSAGE, PDL_BOXES_B_MESSAGE } pdl_sides_t;

/* Same indices, with ranges that touch made one and empty ones left out; memory is the same. */
void pdl_region_tidy(pdl_region_t *region);
/* Of tidy regions. Empty ones share nothing. */
bool pdl_region_equal(const pdl_region_t *a, const pdl_region_t *b);
bool pdl_region_meet(const pdl_region_t *a, const pdl_region_t *b);

/* What tidy regions a and b have in common. */
pdl_status_t pdl_boxes_init(const pdl_region_t *a, const pdl_region_t *b, pdl_sides_t sides, pdl_boxes_t *boxes);
void         pdl_boxes_fini(pdl_boxes_t *boxes);
/* Whether both place the same elements of the first side in the same order. */
bool pdl_boxes_equal(const pdl_boxes_t *a, const pdl_boxes_t *b);
/* Whether it is one run of memory on the first side; its place is that of the box. */
bool pdl_boxes_run(const pdl_boxes_t *boxes);

#ifdef __cplusplus
}
#endif
#endif
