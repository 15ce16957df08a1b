/*
 * The least, the median and the mean of rounds of one measurement.
 */
#include "comm/rounds.h"

#include <stdlib.h>

static int compare_seconds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

pdl__rounds_t pdl__rounds_sum_up(double *seconds, int count)
{
    pdl__rounds_t rounds = {0};

    qsort(seconds, (size_t)count, sizeof(*seconds), compare_seconds);
    rounds.least_s = seconds[0];
    rounds.median_s = (seconds[count / 2] + seconds[(count - 1) / 2]) / 2;
    for (int i = 0; i < count; i++) rounds.mean_s += seconds[i] / count;
    return rounds;
}
