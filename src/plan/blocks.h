/*
 * Checking, reading and writing blocks of layers with a memory policy each.
 */
#ifndef PDL_PLAN_BLOCKS_H
#define PDL_PLAN_BLOCKS_H

#include <paradl/base/yaml.h>
#include <paradl/plan/plan.h>

/* *wrong: the block that the message is about; -1: all of them. */
pdl_status_t pdl__blocks_check(const pdl_plan_t *plan, int *wrong);

/* The key `blocks` of `memory` in a plan file. Stages must have been read: blocks end where they do. */
pdl_status_t pdl__blocks_read(const pdl_yaml_t *memory, pdl_plan_t *plan);
/* Nothing is written where there are none. */
void pdl__blocks_write(const pdl_plan_t *plan, FILE *stream);

#endif
