/*
 * What schedules of collectives take for groups of ranks, as far as an oracle was asked before: counting those of 65,536 ranks takes
 * milliseconds, and the winners of a search mostly have the same groups.
 */
#ifndef PDL_ORACLE_KEPT_SCHEDULES_H
#define PDL_ORACLE_KEPT_SCHEDULES_H

#include "oracle/internal.h"

#include <paradl/plan/collectives.h>

/* A named schedule for what a plan has it for; *serves says whether there is one for it, and else it costs nothing. */
pdl_status_t pdl__schedule_of(pdl_oracle_t *oracle, const pdl_group_query_t *query, const pdl_plan_use_t *use,
                              const pdl_plan_collective_t *named, bool *serves, pdl_algorithm_t *algorithm);
/* The schedule that a plan names for all collectives of a group, or leaves open; borrows the name. */
pdl_status_t pdl__schedules_of(pdl_oracle_t *oracle, const pdl_group_query_t *query,
                               const pdl_plan_collective_t *named, pdl_algorithm_t *algorithm);

#endif
