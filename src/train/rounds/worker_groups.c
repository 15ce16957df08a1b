/*
 * Random groups of workers, and the order of the workers in them.
 */
#include "train/rounds/worker_groups.h"
#include <paradl/base/random.h>
#include <stdlib.h>

pdl_status_t pdl__worker_groups_init(pdl__worker_groups_t *groups, int64_t workers, int64_t hops)
{
    *groups = (pdl__worker_groups_t){.workers = workers, .hops = hops};
    groups->order = malloc((size_t)workers * 2 * sizeof(*groups->order));
    if (!groups->order) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld workers", (long long)workers);
    groups->place = groups->order + workers;
    return PDL_OK;
}

void pdl__worker_groups_fini(pdl__worker_groups_t *groups)
{
    free(groups->order);
}

/* The stream is still called "tour": another name would draw other groups. */
void pdl__worker_groups_draw(pdl__worker_groups_t *groups, uint64_t seed, int64_t round)
{
    pdl_random_permutation(seed, pdl_random_stream("tour", (uint64_t)round, 0), groups->workers, groups->order);
    for (int64_t p = 0; p < groups->workers; p++) groups->place[groups->order[p]] = p;
}

int64_t pdl__worker_groups_after(const pdl__worker_groups_t *groups, int64_t worker, int64_t steps)
{
    int64_t place = groups->place[worker], first = place / groups->hops * groups->hops;
    int64_t size = groups->workers - first < groups->hops ? groups->workers - first : groups->hops;

    return groups->order[first + ((place - first + steps) % size + size) % size];
}
