/*
 * Which models change places in a round, and where they go: the workers in random groups of `hops`, in each of
 * which models go round. Two make pairs. The last group has what is left; a worker alone keeps its model. Drawn
 * from the seed and the round on every rank alike.
 */
#ifndef PDL_TRAIN_TOUR_H
#define PDL_TRAIN_TOUR_H

#include <paradl/base/status.h>
#include <stdint.h>

typedef struct pdl__tour {
    int64_t  workers, hops;
    int64_t *order, *place; /* worker at a place, and place of a worker */
} pdl__tour_t;

pdl_status_t pdl__tour_init(pdl__tour_t *tour, int64_t workers, int64_t hops);
void         pdl__tour_fini(pdl__tour_t *tour);
void         pdl__tour_draw(pdl__tour_t *tour, uint64_t seed, int64_t round);

/* The worker that a model comes to after `steps` more (or, negative, came from as many before). */
int64_t pdl__tour_after(const pdl__tour_t *tour, int64_t worker, int64_t steps);

#endif
