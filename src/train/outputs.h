/*
 * Where a run will write: looked at before it begins, so that hours of training are not lost on a misspelled folder.
 */
#ifndef PDL_TRAIN_OUTPUTS_H
#define PDL_TRAIN_OUTPUTS_H

#include <paradl/train.h>

/* Makes the folder of checkpoints on the rank that writes them, and looks for the folder of the timeline on all. */
pdl_status_t pdl__outputs_check(const pdl_train_options_t *options);

#endif
