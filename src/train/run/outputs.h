/*
 * Where a run will write: looked at before it begins, so that hours of training are not lost on a misspelled folder.
 */
#ifndef PDL_TRAIN_OUTPUTS_H
#define PDL_TRAIN_OUTPUTS_H

#include <paradl/train/train.h>

/* Makes the folder of checkpoints on the rank that writes them and claims it for this run, and looks for the folder of
   the timeline on all. A folder with checkpoints of another run is refused. */
pdl_status_t pdl__outputs_check(const pdl_train_options_t *options);
/* At the end of the run, also after an error. */
void pdl__outputs_release(void);
/* When all else is ready: the observer learns after which update the run begins, and the checkpoints of a run that is
   replaced are set aside. Collective, as the others. */
pdl_status_t pdl__outputs_begin(const pdl_train_options_t *options, int64_t updates);
/* Before a checkpoint: what was told of the updates before it has reached the disk. */
pdl_status_t pdl__outputs_settle(const pdl_train_options_t *options);

#endif
