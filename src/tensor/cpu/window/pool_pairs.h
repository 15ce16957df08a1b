/*
 * The maximum over windows of 2x2 that do not overlap, on PLAIN images in single precision.
 */
#ifndef PDL_TENSOR_CPU_POOL_PAIRS_H
#define PDL_TENSOR_CPU_POOL_PAIRS_H

#include "tensor/cpu/cpu.h"

bool pdl__pairs_suit(const pdl_op_t *op);

/* `place` takes 0 to 3 for each output, the element of the window; NULL: not wanted. */
void pdl__pairs_forward(const pdl_op_t *op, const float *x, float *y, uint8_t *place);
void pdl__pairs_backward(const pdl_op_t *op, const float *dy, const uint8_t *place, float *dx);

#endif
