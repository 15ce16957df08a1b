/*
 * Operations as they were timed one by one. Between two numbers of samples an operation takes what the straight line through
 * both says: a time to begin, and one for every sample. Beyond them the line goes on.
 */
#include "oracle/cost/cost.h"
#include <math.h>
#include <stdlib.h>

/* The rows of a key in a precision. */
static const pdl_timed_op_t *find(const pdl_system_t *system, uint64_t key, pdl_precision_t precision, int *count)
{
    pdl_timed_op_t wanted = {.hash = key, .precision = (int)precision, .samples = 0};
    int            low = 0, high = system->operation_count;

    while (low < high) {
        int middle = (low + high) / 2;

        if (pdl_timed_compare(&system->operation[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*count = 0; low + *count < system->operation_count; (*count)++) {
        const pdl_timed_op_t *row = &system->operation[low + *count];
        if (row->hash != key || row->precision != (int)precision) break;
    }
    return system->operation + low;
}

/* On the line through two points, which is not left for less than a share of the nearer one. */
static double on_line(double x, double x0, double y0, double x1, double y1)
{
    double slope = fmax(0, (y1 - y0) / (x1 - x0));

    if (x < x0) return fmax(y0 - slope * (x0 - x), y0 * x / x0);
    return x > x1 ? y1 + slope * (x - x1) : y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

bool pdl__timed(const pdl_system_t *system, uint64_t key, pdl_precision_t precision, double samples,
                pdl_timed_op_t *timed)
{
    int                   count, i = 0;
    const pdl_timed_op_t *row = key != 0 ? find(system, key, precision, &count) : NULL;

    if (row == NULL || count == 0) return false;
    *timed = row[0];
    timed->samples = samples;
    while (i + 2 < count && row[i + 1].samples < samples) i++;
    for (int p = 0; p < PDL_TIMED_PASSES; p++) {
        /* Of a single number of samples it is only known what more of them take at least. */
        timed->seconds[p] = count == 1 ? row[0].seconds[p] * fmax(1, samples / row[0].samples)
                                       : on_line(samples, row[i].samples, row[i].seconds[p], row[i + 1].samples,
                                                 row[i + 1].seconds[p]);
        if (count > 1)
            timed->queue_s[p] = on_line(fmin(fmax(samples, row[i].samples), row[i + 1].samples), row[i].samples,
                                        row[i].queue_s[p], row[i + 1].samples, row[i + 1].queue_s[p]);
    }
    return true;
}
