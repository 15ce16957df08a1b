/*
 * Numbers in rising order, and what is in their middle.
 */
#ifndef PDL_BASE_SORTED_H
#define PDL_BASE_SORTED_H

#include <stddef.h>

void pdl__sort_numbers(double *numbers, size_t count);

/* The q-quantile of sorted numbers, 0 <= q <= 1: between two of them in proportion. NAN where there are none. */
double pdl__quantile(const double *sorted, size_t count, double q);

/* Sorts the numbers. Of an even count the mean of the middle two; NAN where there are none. */
double pdl__median(double *numbers, size_t count);

#endif
