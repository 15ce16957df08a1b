/*
 * Batches for an ensemble out of loaders, one a net: the same samples in the same order, each net with random
 * changes of its own.
 */
#ifndef PDL_TRAIN_ENSEMBLE_VIEWS_H
#define PDL_TRAIN_ENSEMBLE_VIEWS_H

#include "train/rounds/ensemble.h"
#include <paradl/data/data.h>

typedef struct pdl__view_source_spec {
    pdl_loader_spec_t loader; /* its order, steps and gate are set here; samples: the batch of one worker */
    int               nets;
    int64_t           workers; /* of all ranks: any of them may have its turn here */
    uint64_t          seed;
} pdl__view_source_spec_t;

typedef struct pdl__view_source pdl__view_source_t;

pdl_status_t pdl__view_source_create(const pdl__view_source_spec_t *spec, pdl__view_source_t **source);
void         pdl__view_source_destroy(pdl__view_source_t *source); /* NULL is allowed */
/* What pdl__ensemble_spec_t wants. */
pdl__views_t pdl__view_source_views(pdl__view_source_t *source);

/* A round: `epochs` local epochs of each turn, of `steps` batches; ids[w] are the samples of worker w, count[w] of
   them, in the order of the first local epoch. Borrowed until the next round. */
pdl_status_t pdl__view_source_begin(pdl__view_source_t *source, int64_t round, int64_t epochs, int64_t steps,
                                    const int64_t *const *ids, const int64_t *count);

#endif
