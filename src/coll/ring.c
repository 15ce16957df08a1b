/*
 * Ring: P-1 steps of one block to the next rank. The blocks carry the number of the rank that owns them at the end
 * of the reduce-scatter (and so at the start of the allgather).
 */
#include "coll/internal.h"

#include <stdlib.h>

/* Step s: send block i-s to i+1, receive block i-1-s from i-1. */
void pdl__gather_ring(const pdl__level_t *level, int step, int index, int host, pdl__view_t view, pdl__part_t *part)
{
    int size = level->size, block = index - step;

    (void)host;
    if (view == PDL__SENDS) {
        part->peer = index + 1 == size ? 0 : index + 1;
    } else {
        part->peer = index == 0 ? size - 1 : index - 1;
        block--;
    }
    part->base = 0;
    part->first = block < 0 ? block + size : block;
    part->count = 1;
    part->modulus = size;
}

void pdl__level_add_ring(pdl_schedule_t *schedule, int at, int size, int stride)
{
    pdl__level_add(schedule, 0, at, pdl__gather_ring, size, stride, size - 1);
    schedule->level[0][at].forward = true;
}

static pdl_status_t copy_order(pdl_schedule_t *schedule, const int *order)
{
    int ranks = schedule->ranks;

    schedule->order = malloc((size_t)ranks * sizeof(int));
    schedule->position = malloc((size_t)ranks * sizeof(int));
    if (schedule->order == NULL || schedule->position == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int k = 0; k < ranks; k++) schedule->position[k] = -1;
    for (int k = 0; k < ranks; k++) {
        if (order[k] < 0 || order[k] >= ranks || schedule->position[order[k]] >= 0) {
            return pdl_error(PDL_ERR_INPUT, "order of the ring is not a permutation of the ranks: entry %d is %d",
                             k, order[k]);
        }
        schedule->order[k] = order[k];
        schedule->position[order[k]] = k;
    }
    return PDL_OK;
}

pdl_status_t pdl__setup_ring(pdl_schedule_t *schedule, const pdl_schedule_spec_t *spec)
{
    if (spec->order != NULL) {
        pdl_status_t status = copy_order(schedule, spec->order);
        if (status != PDL_OK) return status;
    }
    pdl__level_add_ring(schedule, 0, schedule->ranks, 1);
    return pdl__levels_finish(schedule, spec, 1);
}
