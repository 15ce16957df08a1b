/*
 * Copies between the two sides of boxes.
 */
#ifndef PDL_COMM_REGIONS_COPY_H
#define PDL_COMM_REGIONS_COPY_H

#include <paradl/plan/boxes.h>

/* From one side to the other. Elements have 2 or 4 bytes; what is added is float or bf16, to float. */
void pdl__boxes_copy(const pdl_boxes_t *boxes, int from, size_t item, const void *source, void *target);
void pdl__boxes_add(const pdl_boxes_t *boxes, int from, size_t item, const void *source, float *target);

#endif
