/*
 * Whole numbers. Internal to the library.
 */
#ifndef PDL_BASE_INTEGER_H
#define PDL_BASE_INTEGER_H

#include <stdint.h>

/* The greatest common divisor of two numbers that are not negative; of 0 and n it is n. */
static inline int64_t pdl__common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
