/*
 * Inside the module: what liveness knows of a partition.
 */
#ifndef PDL_PLAN_LIVENESS_H
#define PDL_PLAN_LIVENESS_H

#include <paradl/plan/partition.h>

/* Finds out once what liveness needs to know of all layers; partition->local must be filled. */
pdl_status_t pdl__walk_create(pdl_partition_t *partition);

#endif
