/*
 * Random numbers for tests: the same sequence everywhere.
 */
#ifndef PDL_TEST_RANDOM_H
#define PDL_TEST_RANDOM_H

#include <stdint.h>

static uint64_t random_seed = 1;

/* splitmix64 */
__attribute__((unused)) static uint64_t draw(void)
{
    uint64_t z = random_seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* low .. high, both included. */
__attribute__((unused)) static int64_t between(int64_t low, int64_t high)
{
    return low + (int64_t)(draw() % (uint64_t)(high - low + 1));
}

#endif
