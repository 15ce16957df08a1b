/*
 * How many threads a rank computes with, and how many prepare its samples.
 */
#ifndef PDL_CLI_THREADS_H
#define PDL_CLI_THREADS_H

#include <paradl/comm/ranks.h>
#include <paradl/tensor/backend.h>

/* What was asked for; else OMP_NUM_THREADS; else this rank's share of the cores of its node. */
int pdl__compute_threads(int64_t asked, const pdl_ranks_t *ranks);
/* Threads that prepare samples: what was asked for; else one, or where a device computes and the cores have nothing else to do this
   rank's share of them, up to 8. */
int pdl__loader_threads(int64_t asked, const pdl_backend_t *backend, const pdl_ranks_t *ranks);

#endif
