/*
 * How many threads a rank computes with.
 */
#include "cli/train/threads.h"

#include <paradl/tensor/threads.h>

#include <paradl/base/units.h>

#include <stdlib.h>
#include <unistd.h>

int pdl__compute_threads(int64_t asked, const pdl_ranks_t *ranks)
{
    const char *variable = getenv("OMP_NUM_THREADS");
    int         allowed = pdl_threads_allowed(), ranks_here = pdl_ranks_node_size(ranks);
    int64_t     wanted;

    if (asked > 0) return (int)asked;
    if (variable && pdl_parse_int(variable, 1, 4096, &wanted) == PDL_OK) return (int)wanted;
    /* Ranks that a launcher has bound have masks of their own; the others share one. */
    if (ranks_here > 1 && (long)allowed * ranks_here > sysconf(_SC_NPROCESSORS_ONLN)) allowed /= ranks_here;
    return allowed > 1 ? allowed : 1;
}
