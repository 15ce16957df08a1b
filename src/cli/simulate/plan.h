/*
 * `paradl simulate PLAN.yaml`.
 */
#ifndef PDL_CLI_SIMULATE_PLAN_H
#define PDL_CLI_SIMULATE_PLAN_H

#include "cli/options.h"

#include <paradl/sim/plan_sim.h>

/* What the command line says beside the plan; NULL and 0: nothing. */
typedef struct pdl__plan_values {
    const char         *path, *system, *framework, *parameters, *slow, *trace;
    const pdl__texts_t *set, *with;
    pdl_engine_t        engine;
    int64_t             trace_ranks;
    bool                ignore_memory, json;
} pdl__plan_values_t;

pdl_status_t pdl__simulate_plan(const pdl__plan_values_t *values);

#endif
