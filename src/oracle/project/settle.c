/*
 * What a plan leaves open is decided once, for a machine.
 */
#include "oracle/internal.h"
#include <string.h>

static pdl_status_t settle_stages(pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    pdl_projection_t projection;

    if (plan->stages_given || pdl_plan_stage_count(plan) == 1) return PDL_OK;
    pdl_status_t status = pdl_oracle_project(oracle, plan, NULL, &projection);
    plan->stages_given = !status;
    return status;
}

pdl_status_t pdl_oracle_settle(pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    return settle_stages(oracle, plan);
}
