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

    (void)backend->ops->sum_squares(backend, NULL, values, &(pdl_slice_t){0, count}, 1, &sum);
    return sum;
}

/* An update of one range; returns the sum of squares that LAMB wants. Without norms the rate is that of the update. */
__attribute__((unused)) static double update_range(pdl_backend_t *backend, pdl_update_t update, double scale,
                                                   int64_t count, void *w, const void *g, void *m, void *v)
{
    double             sums[2] = {0};
    pdl_update_range_t range = {.elements = count, .packed = -1, .decays = true};

    update.scale = &scale;
    update.sums = sums;
    update.weights = w;
    update.gradients = g;
    update.moment[0] = m;
    update.moment[1] = v;
    (void)backend->ops->update(backend, NULL, &update, &range, 1);
    return sums[1];
}

#endif
