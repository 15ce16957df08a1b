/*
 * Random groups of `hops` workers, in which models are exchanged: every model goes to the next worker of its group, and
 * the last worker's model to the first. With two hops workers form pairs. The last group has the remaining workers; a
 * worker alone keeps its model. The groups follow from the seed and the round, so all ranks draw the same.
 */
#ifndef PDL_TRAIN_WORKER_GROUPS_H
#define PDL_TRAIN_WORKER_GROUPS_H

#include <paradl/base/status.h>
#include <stdint.h>

typedef struct pdl__worker_groups {
    int64_t  workers, hops;
    int64_t *order, *place; /* worker at a place, and place of a worker */
} pdl__worker_groups_t;

pdl_status_t pdl__worker_groups_init(pdl__worker_groups_t *groups, int64_t workers, int64_t hops);
void         pdl__worker_groups_fini(pdl__worker_groups_t *groups);
void         pdl__worker_groups_draw(pdl__worker_groups_t *groups, uint64_t seed, int64_t round);

/* The worker that gets the model of `worker` after `steps` exchanges; negative: that had it so many exchanges ago. */
int64_t pdl__worker_groups_after(const pdl__worker_groups_t *groups, int64_t worker, int64_t steps);

#endif
