/*
 * Boxes: what two regions have in common, as places in the memory of both.
 */
#ifndef PDL_COMM_REGIONS_COPY_H
#define PDL_COMM_REGIONS_COPY_H

#include <paradl/plan/layout.h>
#include <stdbool.h>
#include <stddef.h>

/* Element (i_0, i_1, ...) of a box is element first[side] + sum of i_d stride[side][d] of either side. Dimensions
   that lie one behind the other on both sides are one. */
typedef struct pdl__box {
    int     rank;
    int64_t extent[PDL_REGION_DIMS];
    int64_t first[2], stride[2][PDL_REGION_DIMS];
} pdl__box_t;

typedef struct pdl__boxes {
    pdl__box_t *box;
    int         count;
    int64_t     elements; /* of all together */
} pdl__boxes_t;

/* The second side may be a message, in which the boxes lie one after the other. Its order depends only on the two
   regions, not on which of them comes first. */
typedef enum pdl__sides { PDL__A_B, PDL__A_MESSAGE, PDL__B_MESSAGE } pdl__sides_t;

/* Same indices, with ranges that touch made one and empty ones left out; memory is the same. */
void pdl__region_tidy(pdl_region_t *region);
/* Of tidy regions. Empty ones share nothing. */
bool pdl__region_equal(const pdl_region_t *a, const pdl_region_t *b);
bool pdl__region_meet(const pdl_region_t *a, const pdl_region_t *b);

/* What tidy regions a and b have in common. */
pdl_status_t pdl__boxes_init(const pdl_region_t *a, const pdl_region_t *b, pdl__sides_t sides, pdl__boxes_t *boxes);
void         pdl__boxes_fini(pdl__boxes_t *boxes);
/* Whether both place the same elements of the first side in the same order. */
bool pdl__boxes_equal(const pdl__boxes_t *a, const pdl__boxes_t *b);
/* Whether it is one run of memory on the first side; its place is that of the box. */
bool pdl__boxes_run(const pdl__boxes_t *boxes);

/* From one side to the other. Elements have 2 or 4 bytes; what is added is float or bf16, to float. */
void pdl__boxes_copy(const pdl__boxes_t *boxes, int from, size_t item, const void *source, void *target);
void pdl__boxes_add(const pdl__boxes_t *boxes, int from, size_t item, const void *source, float *target);

#endif
