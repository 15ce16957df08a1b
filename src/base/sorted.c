#include "base/sorted.h"

#include <math.h>
#include <stdlib.h>

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void pdl__sort_numbers(double *numbers, size_t count)
{
    if (count > 1) qsort(numbers, count, sizeof(*numbers), rising);
}

double pdl__quantile(const double *sorted, size_t count, double q)
{
    if (count == 0) return NAN;
    double place = q * (double)(count - 1);
    size_t low = (size_t)place;

    return low + 1 < count ? sorted[low] + (place - (double)low) * (sorted[low + 1] - sorted[low])
                           : sorted[count - 1];
}

double pdl__median(double *numbers, size_t count)
{
    pdl__sort_numbers(numbers, count);
    return pdl__quantile(numbers, count, 0.5);
}
