/*
 * The least, the median and the mean of rounds of one measurement.
 */
#include "comm/rounds.h"

#include "base/sorted.h"

pdl__rounds_t pdl__rounds_sum_up(double *seconds, int count)
{
    pdl__rounds_t rounds = {0};

    rounds.median_s = pdl__median(seconds, (size_t)count);
    rounds.least_s = seconds[0];
    for (int i = 0; i < count; i++) rounds.mean_s += seconds[i] / count;
    return rounds;
}
