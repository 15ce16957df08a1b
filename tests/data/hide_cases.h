/*
 * Losses of samples that tests of hiding share.
 */
#ifndef PDL_TEST_HIDE_CASES_H
#define PDL_TEST_HIDE_CASES_H

#include "random.h"

#include <math.h>
#include <stdlib.h>

/* Kinds of losses. */
enum { RANDOM, CONSTANT, SORTED, REVERSED, DENORMAL, SOME_NAN, ZEROS, MIXED, KINDS };

static inline float make_loss(int kind, int64_t i, int64_t count)
{
    double u = (double)(draw() >> 11) * 0x1p-53;

    switch (kind) {
    case RANDOM: return (float)exp(6 * u - 4);
    case CONSTANT: return 0.5F;
    case SORTED: return (float)i;
    case REVERSED: return (float)(count - i);
    case DENORMAL: return (float)(u * 1e-39);
    case SOME_NAN: return i % 3 == 0 ? NAN : (float)u;
    case ZEROS: return i % 2 ? -0.0F : i % 7 ? 0.0F : (float)u;
    default: {
        static const float special[] = {INFINITY, -INFINITY, NAN,     -NAN,  0.0F,
                                        -0.0F,    1e-45F,    -1e-45F, 3e38F, -3e38F};

        return draw() % 2 ? special[draw() % 10] : (float)between(-3, 3);
    }
    }
}

#endif
