/*
 * How many threads a rank computes with, and how many prepare its samples.
 */
#include "cli/train/threads.h"

#include <paradl/tensor/threads.h>

#include <paradl/base/units.h>

#include <stdlib.h>
#include <unistd.h>

#define MOST_LOADERS 8

/* Ranks that a launcher has bound have masks of their own; the others share one. */
static int share_of_cores(const pdl_ranks_t *ranks)
{
    int allowed = pdl_threads_allowed(), ranks_here = pdl_ranks_node_size(ranks);

    if (ranks_here > 1 && (long)allowed * ranks_here > sysconf(_SC_NPROCESSORS_ONLN)) allowed /= ranks_here;
    return allowed > 1 ? allowed : 1;
}

int pdl__compute_threads(int64_t asked, const pdl_ranks_t *ranks)
{
    const char *variable = getenv("OMP_NUM_THREADS");
    int64_t     wanted;

    if (asked > 0) return (int)asked;
    if (variable && pdl_parse_int(variable, 1, 4096, &wanted) == PDL_OK) return (int)wanted;
    return share_of_cores(ranks);
}

int pdl__loader_threads(int64_t asked, const pdl_backend_t *backend, const pdl_ranks_t *ranks)
{
    int cores = share_of_cores(ranks);

    if (asked > 0) return (int)asked;
    if (!backend->device->asynchronous) return 1;
    return cores < MOST_LOADERS ? cores : MOST_LOADERS;
}
