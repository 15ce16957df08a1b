/*
 * Between images and sequences: [n][c][space] or [n][c/B][space][B] on one side, [n][position][c] on the other.
 */
#ifndef PDL_TENSOR_CPU_RESHAPE_H
#define PDL_TENSOR_CPU_RESHAPE_H

#include "tensor/cpu/cpu.h"

/* `size` is that of an element, 2 or 4 bytes. */
void pdl__cpu_to_rows(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, size_t size,
                      const void *image, void *rows);
void pdl__cpu_from_rows(const pdl_shape_t *shape, int64_t samples, pdl_format_t format, size_t size,
                        const void *rows, void *image);

#endif
