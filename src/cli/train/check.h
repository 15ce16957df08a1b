/*
 * Options of training that would have no effect together with others: refused instead of ignored.
 */
#ifndef PDL_CLI_TRAIN_CHECK_H
#define PDL_CLI_TRAIN_CHECK_H

#include "cli/train/options.h"

/* `options` are those that follow from the values, with what a plan says of samples. */
pdl_status_t pdl__train_check(const pdl__train_values_t *values, const pdl_train_options_t *options);

#endif
