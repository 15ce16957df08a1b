/*
 * Random groups of workers and the way of models in them.
 */
#include "train/rounds/tour.h"
#include <paradl/base/random.h>
#include <stdlib.h>

pdl_status_t pdl__tour_init(pdl__tour_t *tour, int64_t workers, int64_t hops)
{
    *tour = (pdl__tour_t){.workers = workers, .hops = hops};
    tour->order = malloc((size_t)workers * 2 * sizeof(*tour->order));
    if (!tour->order) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld workers", (long long)workers);
    tour->place = tour->order + workers;
    return PDL_OK;
}

void pdl__tour_fini(pdl__tour_t *tour)
{
    free(tour->order);
}

void pdl__tour_draw(pdl__tour_t *tour, uint64_t seed, int64_t round)
{
    pdl_random_permutation(seed, pdl_random_stream("tour", (uint64_t)round, 0), tour->workers, tour->order);
    for (int64_t p = 0; p < tour->workers; p++) tour->place[tour->order[p]] = p;
}

int64_t pdl__tour_after(const pdl__tour_t *tour, int64_t worker, int64_t steps)
{
    int64_t place = tour->place[worker], first = place / tour->hops * tour->hops;
    int64_t size = tour->workers - first < tour->hops ? tour->workers - first : tour->hops;

    return tour->order[first + ((place - first + steps) % size + size) % size];
}
