/*
 * Plans and costs of layers of configurations, kept between questions: they depend on few sizes of a mesh.
 */
#include "oracle/internal.h"
#include <stdio.h>
#include <string.h>

/* Where replicas share experts, their distance counts as well: from the outermost axis whose ranks talk within layers on, all axes keep
   their sizes, a pipeline as if it were replicas, and one stands for all outside of it. Returns the place of the axis of experts. */
static int lay_out_experts(const pdl_config_t *config, int64_t pe, pdl_mesh_t *small)
{
    pdl_mesh_t mesh;
    int        experts = pdl__lay_out(config, &mesh), first = experts, moved = 0;
    int64_t    inside = 1;

    for (int a = experts - 1; a >= 0; a--)
        if (mesh.axis[a].kind == PDL_AXIS_SPATIAL || mesh.axis[a].kind == PDL_AXIS_TENSOR) first = a;
    for (int a = first; a < mesh.axis_count; a++) inside *= mesh.axis[a].size;
    *small = (pdl_mesh_t){.axis_count = 0};
    small->axis[small->axis_count++] = (pdl_axis_t){PDL_AXIS_DATA, pe / inside, 0};
    for (int a = first; a < mesh.axis_count; a++) {
        pdl_axis_kind_t kind = mesh.axis[a].kind;
        if (a == experts) moved = small->axis_count;
        small->axis[small->axis_count] = mesh.axis[a];
        if (kind == PDL_AXIS_PIPELINE) small->axis[small->axis_count].kind = PDL_AXIS_DATA;
        small->axis_count++;
    }
    return moved;
}

/* Layer costs depend on the rest of the mesh only through the distance of the ranks of a group and through contention inside the
   level that a group spans: a mesh just large enough to fill that level stands for all larger ones. */
static pdl_mesh_t profile_mesh(const pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_case_t *c,
                               int *experts)
{
    pdl_config_t small = *config;
    int64_t      span = c->inner * c->inner_stride;
    pdl_mesh_t   mesh;

    *experts = pdl__shares_experts(config) ? lay_out_experts(config, c->pe, &mesh) : 0;
    if (*experts > 0) return mesh;
    if (c->inner_stride > 1 && oracle->system->backend != NULL) return pdl_config_mesh(config);
    int64_t full = pdl_system_group_size(oracle->system, pdl_system_level_of_span(oracle->system, span));
    small.order = PDL_ORDER_PIPELINE_DATA_INNER;
    small.pipeline = 1;
    small.data = c->inner > 1 ? c->pe / span : 1;
    if (full % span == 0 && small.data > full / span) small.data = full / span;
    mesh = pdl_config_mesh(&small);
    if (c->inner_stride > 1) mesh.axis[mesh.axis_count++] = (pdl_axis_t){PDL_AXIS_DATA, c->inner_stride, 0};
    return mesh;
}

/* Of the plan of a configuration on its small mesh; without the sizes of data axes, of all that have its modes. */
static uint64_t key_of(const pdl_config_t *config, const pdl_mesh_t *mesh, bool data)
{
    uint64_t key = UINT64_C(0x9e3779b97f4a7c15);

    key =
        pdl__mix_text(pdl__mix(key, (uint64_t)pdl_strategy_place(config->strategy->family)), config->spatial_until);
    if (pdl__shares_experts(config)) key = pdl__mix(key, (uint64_t)config->experts * 8 + (uint64_t)config->order);
    for (int a = 0; a < mesh->axis_count; a++) {
        const pdl_axis_t *axis = &mesh->axis[a];
        key = pdl__mix(key, (uint64_t)(data || axis->kind != PDL_AXIS_DATA ? axis->size : 0) * 8 + axis->kind);
    }
    return pdl__mix(key,
                    (uint64_t)config->precision * 64 + (uint64_t)config->run_mode * 8 + config->sequence_parallel);
}

/* A kept plan that differs in the sizes of data axes alone has the same modes, and is checked. */
static pdl_status_t copy_alike(const pdl_oracle_t *oracle, uint64_t alike, const pdl_mesh_t *mesh,
                               pdl_plan_t **plan)
{
    *plan = NULL;
    for (int i = 0; i < PDL_PLAN_SLOTS; i++) {
        const pdl_plan_slot_t *kept = &oracle->plans[i];
        if (!kept->used || kept->plan == NULL || kept->alike != alike) continue;
        pdl_status_t status = pdl_plan_copy(kept->plan, plan);
        if (status) return status;
        (*plan)->mesh = *mesh;
        (*plan)->batch = pdl_mesh_extent(mesh, PDL_AXIS_DATA);
        return PDL_OK;
    }
    return PDL_OK;
}

static pdl_status_t make_plan(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_mesh_t *mesh, int experts,
                              uint64_t alike, pdl_plan_t **plan)
{
    pdl_config_t wide = *config;
    pdl_status_t status = copy_alike(oracle, alike, mesh, plan);

    if (status || *plan != NULL) return status;
    /* The batch stands for any: the configuration's own is checked already. */
    wide.strategy = config->strategy->family;
    wide.batch = pdl_mesh_extent(mesh, PDL_AXIS_DATA);
    wide.micro_batches = wide.virtual_stages = 1;
    status = pdl__plan_of_config(oracle, &wide, mesh, experts, plan);
    if (status) return status;
    status = pdl_plan_check(*plan);
    if (status) pdl_plan_destroy(*plan);
    return status;
}

/* The plan of a configuration on its small mesh, or why there is none; kept between calls. */
static pdl_status_t find_plan(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_mesh_t *mesh, int experts,
                              uint64_t key, const pdl_plan_t **out)
{
    uint64_t i = key;

    for (; oracle->plans[i % PDL_PLAN_SLOTS].used; i++) {
        const pdl_plan_slot_t *kept = &oracle->plans[i % PDL_PLAN_SLOTS];
        if (kept->key != key) continue;
        *out = kept->plan;
        return kept->plan ? PDL_OK : pdl_error(kept->status, "%s", kept->reason);
    }
    pdl_plan_slot_t *slot = &oracle->plans[i % PDL_PLAN_SLOTS];
    pdl_plan_t      *plan = NULL;
    uint64_t         alike = key_of(config, mesh, pdl__shares_experts(config));
    slot->status = make_plan(oracle, config, mesh, experts, alike, &plan);
    slot->plan = slot->status ? NULL : plan;
    slot->key = key;
    slot->alike = alike;
    slot->used = true;
    oracle->plan_count++;
    if (slot->status) snprintf(slot->reason, sizeof(slot->reason), "%s", pdl_error_message());
    *out = slot->plan;
    return slot->status;
}

pdl_status_t pdl__check_split(pdl_oracle_t *oracle, const pdl_config_t *config)
{
    pdl_case_t        c;
    const pdl_plan_t *plan;

    pdl__case_of_config(oracle, config, NULL, &c);
    int        experts;
    pdl_mesh_t mesh = profile_mesh(oracle, config, &c, &experts);
    if (oracle->plan_count >= PDL_PLAN_SLOTS / 2) pdl__oracle_forget(oracle);
    return find_plan(oracle, config, &mesh, experts, key_of(config, &mesh, true), &plan);
}

pdl_status_t pdl__config_profile(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_case_t *c,
                                 pdl_profile_t **out)
{
    double     micro_batch = c->micro_batch;
    int        experts;
    pdl_mesh_t mesh = profile_mesh(oracle, config, c, &experts);
    uint64_t   plan_key = key_of(config, &mesh, true), bits;

    memcpy(&bits, &micro_batch, sizeof(bits));
    uint64_t key = pdl__mix(plan_key, bits), i = key;
    for (; oracle->profiles[i % PDL_PROFILE_SLOTS].profile; i++)
        if (oracle->profiles[i % PDL_PROFILE_SLOTS].key == key) {
            *out = oracle->profiles[i % PDL_PROFILE_SLOTS].profile;
            return PDL_OK;
        }
    if (oracle->profile_count >= PDL_PROFILE_SLOTS / 2) {
        pdl__oracle_forget_profiles(oracle);
        i = key;
    }
    if (oracle->plan_count >= PDL_PLAN_SLOTS / 2) {
        pdl__oracle_forget(oracle);
        i = key;
    }
    pdl_profile_slot_t *slot = &oracle->profiles[i % PDL_PROFILE_SLOTS];
    const pdl_plan_t   *plan;
    pdl_status_t        status = find_plan(oracle, config, &mesh, experts, plan_key, &plan);
    if (!status) status = pdl__profile_create(oracle, plan, micro_batch, &slot->profile);
    if (status) return status;
    slot->key = key;
    oracle->profile_count++;
    *out = slot->profile;
    return PDL_OK;
}
