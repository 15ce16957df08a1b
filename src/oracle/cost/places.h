/*
 * On machines with several kinds of devices, which stage is on which.
 */
#ifndef PDL_ORACLE_PLACES_H
#define PDL_ORACLE_PLACES_H

#include "oracle/internal.h"

/* What tells cases of the same stages on different devices apart; 0 where all are alike. */
uint64_t pdl__places_key(const pdl_system_t *system, const pdl_case_t *c);
/* The orders of parts that put the stages of a configuration on different devices, the first of each; how many there are. */
enum { PDL__MOST_PLACES = 24 };
int pdl__places_orders(const pdl_oracle_t *oracle, const pdl_config_t *config, int order[PDL__MOST_PLACES]);
/* A plan says in which order its ranks are on the parts of the machine. */
void pdl__name_parts(const pdl_system_t *system, int part_order, pdl_plan_t *plan);
/* What a micro-batch spends at the least in all layers, each on the stage that is fastest there. */
pdl_status_t pdl__least_run(const pdl_case_t *c, pdl_profile_t *profile, double *seconds);

#endif
