/*
 * The values that tests of ops are filled with: a formula, so that nothing but results need to be stored.
 */
#ifndef PDL_TEST_OP_VALUE_H
#define PDL_TEST_OP_VALUE_H

#include <math.h>
#include <stdint.h>

/* Tensors have numbers, so that each gets values of its own. */
enum {
    OP_INPUT = 0,
    OP_WEIGHT = 16,
    OP_GRADIENT = 32,
    OP_TARGET = 40,
    OP_SAMPLE_WEIGHT = 41,
    OP_START = 48 /* of weight gradients that are added to */
};

/* In [-1, 1), a multiple of 2^-23: the same in float and double, and in make_ops.py. */
static inline double op_value(unsigned seed, int tensor, int64_t index)
{
    uint32_t x = (uint32_t)index + 1000003u * (uint32_t)tensor + 7919u * seed;

    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    return (double)(x >> 8) / 8388608.0 - 1;
}

static inline int32_t op_index(unsigned seed, int tensor, int64_t index, int64_t limit)
{
    return (int32_t)((op_value(seed, tensor, index) + 1) / 2 * (double)limit);
}

/* Largest difference, relative to the largest value expected, which counts as at least 1e-3: some gradients are
   zero but for rounding. NaN in `a` is infinitely wrong. */
__attribute__((unused)) static double op_difference(const double *a, const double *expected, int64_t count)
{
    double largest = 1e-3, difference = 0;

    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        difference = isnan(a[i]) ? INFINITY : fmax(difference, fabs(a[i] - expected[i]));
    }
    return difference / largest;
}

#endif
