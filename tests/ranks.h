/*
 * The frame of a test program that runs under mpirun:
 *
 *     int main(void)
 *     {
 *         if (!begin_ranks()) return 1;
 *         RUN(...);
 *         return end_ranks();
 *     }
 */
#ifndef PDL_TEST_RANKS_H
#define PDL_TEST_RANKS_H

#include <paradl/comm/ranks.h>

#include "test.h"

static pdl_ranks_t *ranks; /* those of the test under way */
static int          rank, size;

static bool begin_ranks(void)
{
    if (pdl_ranks_create(&ranks) != PDL_OK) {
        fprintf(stderr, "%s\n", pdl_error_message());
        return false;
    }
    rank = pdl_ranks_rank(ranks);
    size = pdl_ranks_size(ranks);
    return true;
}

static int end_ranks(void)
{
    printf("%d ranks\n", size);
    pdl_ranks_destroy(ranks);
    return test_done();
}

#endif
