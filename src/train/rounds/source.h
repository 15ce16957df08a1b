/*
 * Batches for rounds out of a loader: those of a rank's workers in the order in which pdl__rounds_run() asks for
 * them, prepared ahead.
 */
#ifndef PDL_TRAIN_ROUNDS_SOURCE_H
#define PDL_TRAIN_ROUNDS_SOURCE_H

#include "train/rounds/rounds.h"
#include <paradl/data/data.h>

typedef struct pdl__round_source_spec {
    pdl_loader_spec_t loader;         /* its order, steps and gate are set here; samples: the batch of one worker */
    int64_t           first, workers; /* of this rank */
    uint64_t          seed;
} pdl__round_source_spec_t;

typedef struct pdl__round_source pdl__round_source_t;

pdl_status_t pdl__round_source_create(const pdl__round_source_spec_t *spec, pdl__round_source_t **source);
void         pdl__round_source_destroy(pdl__round_source_t *source); /* NULL is allowed */

/* A cycle from its round `skip` on; ids[i] are the samples of the i-th worker here, count[i] of them, in the order
   of the first local epoch. Later ones have orders of their own. Copied. */
pdl_status_t pdl__round_source_begin(pdl__round_source_t *source, int64_t cycle, const pdl__rounds_plan_t *plan,
                                     int64_t skip, const int64_t *const *ids, const int64_t *count);
/* A pdl__next_fn_t. */
pdl_status_t pdl__round_source_next(void *source, int64_t worker, pdl_batch_t *batch);

#endif
