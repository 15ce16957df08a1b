/*
 * How many threads a rank computes with.
 */
#ifndef PDL_CLI_THREADS_H
#define PDL_CLI_THREADS_H

#include <paradl/comm/ranks.h>

/* What was asked for; else OMP_NUM_THREADS; else this rank's share of the cores of its node. */
int pdl__compute_threads(int64_t asked, const pdl_ranks_t *ranks);

#endif
