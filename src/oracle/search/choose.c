/*
 * One plan of a strategy, for a run: on its only mesh, or on the one that is projected to be fastest.
 */
#include "oracle/search/searcher.h"
#include <stdio.h>

pdl_status_t pdl_search_settle(const pdl_system_t *system, const pdl_parameters_t *parameters, pdl_plan_t *plan)
{
    pdl_system_t  wide = pdl_system_widen(system, pdl_mesh_size(&plan->mesh));
    pdl_oracle_t *oracle = NULL;
    pdl_status_t  status = pdl_oracle_create(plan->model, &wide, parameters, &oracle);

    if (!status) status = pdl_oracle_settle(oracle, plan);
    pdl_oracle_destroy(oracle);
    return status;
}

static pdl_status_t search_mesh(const pdl_model_t *model, const pdl_system_t *system, const pdl_request_t *request,
                                pdl_plan_t **plan)
{
    pdl_system_t     wide = pdl_system_widen(system, request->pe);
    pdl_parameters_t parameters;
    pdl_oracle_t    *oracle = NULL;
    pdl_search_t    *search = NULL;
    pdl_status_t     status = pdl_parameters_choose(NULL, system, &parameters);

    if (!status) status = pdl_oracle_create(model, &wide, &parameters, &oracle);
    if (!status) status = pdl_search_run(oracle, request, &search);
    if (!status && search->possible == 0)
        status = pdl_error(PDL_ERR_LIMIT, "%s on %lld ranks is not possible: %s", request->strategy->name,
                           (long long)request->pe, search->candidates[0].reason);
    if (!status) status = pdl_plan_copy(search->candidates[0].plan, plan);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    return status;
}

/* The mesh of a strategy with one axis. */
static pdl_mesh_t only_mesh(const pdl_strategy_t *strategy, int64_t ranks)
{
    pdl_mesh_t mesh = {{{PDL_AXIS_DATA, ranks, 0}}, 1};

    for (int kind = 0; kind < PDL_AXIS_KIND_COUNT; kind++)
        if (pdl_strategy_has(strategy, (pdl_axis_kind_t)kind)) mesh.axis[0].kind = (pdl_axis_kind_t)kind;
    return mesh;
}

/* A plan that cannot be run is not the caller's. */
static pdl_status_t give_or_drop(pdl_plan_t **plan, pdl_status_t status)
{
    if (status) {
        pdl_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

static pdl_status_t plan_on(const pdl_model_t *model, const pdl_mesh_t *mesh, const pdl_request_t *request,
                            pdl_plan_t **plan)
{
    const pdl_preset_options_t options = {.keep_small = true};
    pdl_status_t               status = pdl_plan_create(model, mesh, request->batch, plan);

    if (status) return status;
    return give_or_drop(plan, pdl_plan_apply_preset(*plan, request->strategy->name, &options));
}

/* Without a choice of meshes, small layers may be all that is in the way. */
static pdl_status_t search_or_keep(const pdl_model_t *model, const pdl_system_t *system,
                                   const pdl_request_t *request, pdl_plan_t **plan)
{
    pdl_mesh_t   mesh = only_mesh(request->strategy, request->pe);
    char         reason[1024];
    pdl_status_t status = search_mesh(model, system, request, plan);

    if (status != PDL_ERR_LIMIT || pdl_strategy_is_hybrid(request->strategy)) return status;
    snprintf(reason, sizeof(reason), "%s", pdl_error_message());
    status = plan_on(model, &mesh, request, plan);
    if (!status) status = give_or_drop(plan, pdl_plan_check(*plan));
    return status ? pdl_error(PDL_ERR_LIMIT, "%s", reason) : PDL_OK;
}

pdl_status_t pdl_search_plan(const pdl_model_t *model, const pdl_system_t *system, const pdl_request_t *request,
                             const pdl_mesh_t *mesh, pdl_plan_t **plan)
{
    pdl_mesh_t only = only_mesh(request->strategy, request->pe);

    if (mesh == NULL && !pdl_strategy_is_data(request->strategy))
        return search_or_keep(model, system, request, plan);
    return plan_on(model, mesh != NULL ? mesh : &only, request, plan);
}
