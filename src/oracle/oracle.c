/*
 * The oracle object: keeps prices of groups and cost profiles of cuts between projections.
 */
#include "oracle/cost/kept_schedules.h"
#include "oracle/cost/places.h"
#include "oracle/internal.h"
#include <math.h>
#include <paradl/tensor/backend.h>
#include <paradl/topo/topo.h>
#include <stdlib.h>
#include <string.h>

pdl_status_t pdl_oracle_create(const pdl_model_t *model, const pdl_system_t *system,
                               const pdl_parameters_t *parameters, pdl_oracle_t **out)
{
    pdl_oracle_t         *oracle;
    const pdl_topology_t *network;
    pdl_status_t          status = pdl_topology_network(system, &network);

    if (status) return status;
    oracle = calloc(1, sizeof(*oracle));
    if (!oracle) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    oracle->groups = calloc(PDL_GROUP_SLOTS, sizeof(*oracle->groups));
    if (!oracle->groups) {
        free(oracle);
        return pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    oracle->model = model;
    oracle->system = system;
    oracle->p = *parameters;
    *out = oracle;
    return PDL_OK;
}

void pdl__oracle_forget_profiles(pdl_oracle_t *oracle)
{
    for (int i = 0; i < PDL_PROFILE_SLOTS; i++) pdl__profile_destroy(oracle->profiles[i].profile);
    memset(oracle->profiles, 0, sizeof(oracle->profiles));
    oracle->profile_count = 0;
    oracle->passes.profile = NULL;
    memset(oracle->bounds, 0, sizeof(oracle->bounds));
}

void pdl__oracle_forget(pdl_oracle_t *oracle)
{
    pdl__oracle_forget_profiles(oracle);
    for (int i = 0; i < PDL_PLAN_SLOTS; i++) pdl_plan_destroy(oracle->plans[i].plan);
    memset(oracle->plans, 0, sizeof(oracle->plans));
    oracle->plan_count = 0;
}

void pdl_oracle_destroy(pdl_oracle_t *oracle)
{
    if (!oracle) return;
    pdl__oracle_forget(oracle);
    pdl__sends_free(oracle->sends);
    pdl__kept_replays_free(oracle->replays);
    pdl__kept_schedules_free(oracle->schedules);
    pdl_backend_destroy(oracle->backend);
    free(oracle->groups);
    free(oracle);
}

void pdl_oracle_set_parameters(pdl_oracle_t *oracle, const pdl_parameters_t *parameters)
{
    pdl__oracle_forget(oracle);
    memset(oracle->groups, 0, PDL_GROUP_SLOTS * sizeof(*oracle->groups));
    oracle->group_count = 0;
    pdl__kept_replays_free(oracle->replays);
    oracle->replays = NULL;
    pdl__kept_schedules_free(oracle->schedules);
    oracle->schedules = NULL;
    oracle->p = *parameters;
}

void pdl_oracle_set_memory_cap(pdl_oracle_t *oracle, double bytes)
{
    oracle->memory_cap = bytes;
}

const pdl_system_t *pdl_oracle_system(const pdl_oracle_t *oracle)
{
    return oracle->system;
}

const pdl_parameters_t *pdl_oracle_parameters(const pdl_oracle_t *oracle)
{
    return &oracle->p;
}

pdl_status_t pdl_oracle_group(pdl_oracle_t *oracle, const pdl_group_query_t *q, pdl_group_t *group)
{
    uint64_t hash =
        pdl__mix(pdl__mix(pdl__mix(UINT64_C(0xcbf29ce484222325), (uint64_t)q->pe_count), (uint64_t)q->size),
                 (uint64_t)q->stride * 8 + (uint64_t)q->pattern * 2 + q->host_path);

    for (uint64_t i = hash;; i++) {
        pdl_group_slot_t *slot = &oracle->groups[i % PDL_GROUP_SLOTS];
        if (slot->used && slot->query.pe_count == q->pe_count && slot->query.size == q->size &&
            slot->query.stride == q->stride && slot->query.pattern == q->pattern &&
            slot->query.host_path == q->host_path) {
            *group = slot->group;
            return PDL_OK;
        }
        if (slot->used) continue;
        pdl_status_t status = pdl__group(oracle->system, &oracle->p, q, group);
        if (status || oracle->group_count >= PDL_GROUP_SLOTS / 2) return status;
        *slot = (pdl_group_slot_t){*q, *group, true};
        oracle->group_count++;
        return PDL_OK;
    }
}

/* The innermost axis that splits tensors, or -1. */
static int inner_axis(const pdl_mesh_t *mesh)
{
    for (int a = mesh->axis_count - 1; a >= 0; a--)
        if (mesh->axis[a].size > 1 && mesh->axis[a].kind != PDL_AXIS_DATA &&
            mesh->axis[a].kind != PDL_AXIS_PIPELINE)
            return a;
    return -1;
}

/* The distance of neighbours among replicas, which may have several axes. */
static int64_t data_stride(const pdl_mesh_t *mesh)
{
    for (int a = mesh->axis_count - 1; a >= 0; a--)
        if (mesh->axis[a].size > 1 && mesh->axis[a].kind == PDL_AXIS_DATA) return pdl_mesh_stride(mesh, a);
    return 1;
}

/* One spatial and one tensor axis, as strategies have them. */
static void set_outer(const pdl_mesh_t *mesh, pdl_case_t *c)
{
    int spatial = -1, tensor = -1, others = 0;

    for (int a = 0; a < mesh->axis_count; a++) {
        if (!pdl_axis_splits(&mesh->axis[a])) continue;
        if (mesh->axis[a].kind == PDL_AXIS_SPATIAL && spatial < 0)
            spatial = a;
        else if (mesh->axis[a].kind == PDL_AXIS_TENSOR && tensor < 0)
            tensor = a;
        else
            others++;
    }
    if (spatial < 0 || tensor < 0 || others > 0) return;
    c->outer = mesh->axis[spatial].size;
    c->outer_stride = pdl_mesh_stride(mesh, spatial);
}

static pdl_status_t set_algorithms(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_case_t *c)
{
    int               data = pdl_mesh_find(&plan->mesh, PDL_AXIS_DATA), inner = inner_axis(&plan->mesh);
    pdl_group_query_t replicas = {c->pe, c->data, c->data_stride, false, PDL_PATTERN_RING};
    pdl_group_query_t inside = {c->pe, c->inner, c->inner_stride, false, PDL_PATTERN_RING};
    int               outer = pdl_mesh_find(&plan->mesh, PDL_AXIS_SPATIAL);
    pdl_group_query_t across = {c->pe, c->outer, c->outer_stride, false, PDL_PATTERN_RING};
    pdl_status_t      status = PDL_OK;

    if (data >= 0 && c->data > 1)
        status = pdl__schedules_of(oracle, &replicas, &plan->collective[data], &c->data_algorithm);
    if (!status && inner >= 0)
        status = pdl__schedules_of(oracle, &inside, &plan->collective[inner], &c->inner_algorithm);
    if (!status && c->outer > 1)
        status = pdl__schedules_of(oracle, &across, &plan->collective[outer], &c->outer_algorithm);
    return status;
}

pdl_status_t pdl__case_of_plan(pdl_oracle_t *oracle, const pdl_plan_t *plan, const pdl_dataset_t *dataset,
                               pdl_case_t *c)
{
    int pipeline = pdl_mesh_find(&plan->mesh, PDL_AXIS_PIPELINE);

    *c = (pdl_case_t){.pe = pdl_mesh_size(&plan->mesh),
                      .batch = plan->batch,
                      .micro_batches = plan->micro_batches,
                      .schedule = plan->schedule,
                      .virtual_stages = plan->virtual_stages,
                      .recompute = plan->recompute,
                      .block_segments = oracle->p.block_segments,
                      .sharding = plan->sharding,
                      .optimizer_tier = plan->optimizer_tier,
                      .weights_tier = plan->weights_tier,
                      .optimizer = plan->optimizer,
                      .precision = plan->precision,
                      .run_mode = plan->run_mode,
                      .dataset = dataset};
    c->pipeline = pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
    c->data = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    c->inner = c->pe / c->pipeline / c->data;
    c->inner_stride = inner_axis(&plan->mesh) >= 0 ? pdl_mesh_stride(&plan->mesh, inner_axis(&plan->mesh)) : 1;
    c->data_stride = data_stride(&plan->mesh);
    c->experts = pdl_plan_expert_axis(plan) < 0 ? 1 : plan->mesh.axis[pdl_plan_expert_axis(plan)].size;
    c->pipeline_stride = pipeline >= 0 ? pdl_mesh_stride(&plan->mesh, pipeline) : 1;
    c->spatial = pdl_mesh_extent(&plan->mesh, PDL_AXIS_SPATIAL) > 1;
    c->hybrid = c->data > 1 && c->inner > 1;
    set_outer(&plan->mesh, c);
    c->micro_batch = ceil((double)plan->batch / (double)c->data / (double)plan->micro_batches);
    pdl_status_t status = pdl_system_find_order(oracle->system, (const char(*)[PDL_PART_NAME])plan->part,
                                                plan->part_count, &c->part_order);
    c->places = pdl__places_key(oracle->system, c);
    return status ? status : set_algorithms(oracle, plan, c);
}

pdl_status_t pdl_oracle_project(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_dataset_t *dataset,
                                pdl_projection_t *projection)
{
    pdl_case_t          c;
    pdl_profile_t      *profile;
    pdl__pipeline_cut_t cut;
    const int          *given = plan->stages_given ? plan->stage_first : NULL;

    pdl_status_t status = pdl__case_of_plan(oracle, plan, dataset, &c);
    if (!status) status = pdl_system_check_devices(oracle->system, c.pe);
    if (status) return status;
    status = pdl__profile_create(oracle, plan, c.micro_batch, &profile);
    if (status) return status;
    status = pdl__case_stages(&c, profile, given, &cut);
    if (!status) status = pdl__project_case(oracle, &c, profile, &cut, projection);
    if (!status) {
        memcpy(plan->stage_first, cut.virtual_stages->first, ((size_t)cut.virtual_stages->count + 1) * sizeof(int));
        pdl_oracle_places(oracle->system, c.part_order, &plan->mesh, plan->stage_devices,
                          sizeof(plan->stage_devices));
        pdl__find_limits(oracle, &c, projection);
    }
    pdl__profile_destroy(profile);
    oracle->passes.profile = NULL;
    return status;
}

pdl_status_t pdl_oracle_layer_seconds(const pdl_oracle_t *oracle, int index, double samples,
                                      pdl_precision_t precision, double seconds[2])
{
    const pdl_layer_t *layer = pdl_model_layer(oracle->model, index);
    pdl_local_t        local = {.samples = samples,
                                .share_forward = 1,
                                .share_backward_data = 1,
                                .share_backward_weight = 1,
                                .x_elements = (double)pdl_shape_elements(&layer->in) * layer->input_count,
                                .y_elements = (double)pdl_shape_elements(&layer->out),
                                .weights = (double)layer->weights,
                                .out_channels = (double)layer->out.channels,
                                .in_channels = (double)layer->in.channels,
                                .experts_over = 1,
                                .replication = 1};
    pdl_compute_cost_t cost;
    pdl_status_t       status = pdl_system_check_precision(oracle->system, precision);

    if (status) return status;
    pdl__compute_cost(oracle->system, &oracle->system->device, &oracle->p, precision, &cost);
    cost.model = oracle->model;
    pdl__layer_seconds(&cost, layer, &local, &seconds[0], &seconds[1]);
    return PDL_OK;
}
