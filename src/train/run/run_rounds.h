/*
 * A run whose workers come together now and then instead of after every step.
 */
#ifndef PDL_TRAIN_RUN_ROUNDS_H
#define PDL_TRAIN_RUN_ROUNDS_H

#include <paradl/train/train.h>

/* pdl_train_run() for every kind of aggregation but steps. */
pdl_status_t pdl__run_rounds(const pdl_train_options_t *options, pdl_train_summary_t *summary);

#endif
