/*
 * Numbers that a backend on the CPU writes to its memory, as values.
 */
#ifndef PDL_TEST_SCALARS_H
#define PDL_TEST_SCALARS_H

#include <paradl/tensor/backend.h>

__attribute__((unused)) static int64_t first_not_finite(pdl_backend_t *backend, const void *data, size_t bytes)
{
    int64_t index = -2;

    (void)backend->ops->find_not_finite(backend, NULL, data, bytes, &index);
    return index;
}

__attribute__((unused)) static double squares_of(pdl_backend_t *backend, const void *values, int64_t count)
{
    double sum = -1;

    (void)backend->ops->sum_squares(backend, NULL, values, count, &sum);
    return sum;
}

#endif
