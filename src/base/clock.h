/*
 * Seconds since some moment, for differences.
 */
#ifndef PDL_BASE_CLOCK_H
#define PDL_BASE_CLOCK_H

#include <time.h>

static inline double pdl__seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
