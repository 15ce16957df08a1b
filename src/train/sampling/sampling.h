/*
 * The samples of a run: partitions and their exchange, hidden samples, and the loader that prepares what is left.
 */
#ifndef PDL_TRAIN_SAMPLING_H
#define PDL_TRAIN_SAMPLING_H

#include "train/checkpoint/save.h"
#include <paradl/train/train.h>

typedef struct pdl__sampling pdl__sampling_t;

/* Updates of an epoch in which nothing is hidden: as long as schedules take every epoch to be. */
int64_t pdl__sampling_full_steps(const pdl_train_options_t *options);

/* Collective, as all of the following. `epochs` is the length of the run. */
pdl_status_t pdl__sampling_create(const pdl_train_options_t *options, pdl_session_t *session, int64_t epochs,
                                  pdl__sampling_t **sampling);
void         pdl__sampling_destroy(pdl__sampling_t *sampling); /* NULL is allowed */

/* Decides what epoch `epoch` trains on and opens it at step `first`; *rate is a factor of the learning rate. */
pdl_status_t pdl__sampling_begin(pdl__sampling_t *sampling, int64_t epoch, int64_t first, int64_t *steps,
                                 double *rate);
pdl_status_t pdl__sampling_next(pdl__sampling_t *sampling, pdl_batch_t *batch);
/* Before the session's step: the batch of the step after it, where it is prepared, goes to the device meanwhile. */
pdl_status_t pdl__sampling_ahead(pdl__sampling_t *sampling);
/* After the session's step on this batch. */
pdl_status_t pdl__sampling_after(pdl__sampling_t *sampling, const pdl_batch_t *batch);
/* After the last step: the exchange is completed, hidden samples are looked at again. Fills its part of `epoch`. */
pdl_status_t pdl__sampling_end(pdl__sampling_t *sampling, pdl_train_epoch_t *epoch);

/* Whether there is none: seed and place in the epoch say which samples come next. */
bool pdl__sampling_plain(const pdl__sampling_t *sampling);
/* State for a checkpoint, to be freed with pdl__extras_free(); inside an epoch or between two. */
pdl_status_t pdl__sampling_save(pdl__sampling_t *sampling, pdl__extras_t *extras);
pdl_status_t pdl__sampling_restore(pdl__sampling_t *sampling, const pdl_checkpoint_t *checkpoint, bool inside);

#endif
