/*
 * paradl train without a plan file: from strategy and ranks to a plan.
 */
#ifndef PDL_CLI_TRAIN_PLAN_H
#define PDL_CLI_TRAIN_PLAN_H

#include "cli/train/options.h"

#include <paradl/oracle/oracle.h>

/* The kind of optimizer that the oracle's memory model tells apart. */
pdl_optimizer_t pdl__train_memory_kind(const pdl__train_values_t *values);

/* The preset of --strategy, on the mesh of --mesh or on the one that is projected to be fastest. `said` takes a line about what
   was decided and not asked for, or nothing. */
pdl_status_t pdl__train_plan(const pdl__train_values_t *values, const pdl_model_t *model, int64_t ranks,
                             pdl_plan_t **plan, char *said, size_t size);

#endif
