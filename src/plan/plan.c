/*
 * Making, copying and checking plans.
 */
#include "plan/blocks.h"
#include <paradl/model/traits.h>
#include <paradl/plan/collectives.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_schedule_names[PDL_SCHEDULE_COUNT] = {"gpipe", "1f1b", "interleaved", "zero-bubble"};
const char *const pdl_recompute_names[PDL_RECOMPUTE_COUNT] = {"none", "selective", "full"};
const char *const pdl_tier_names[PDL_TIER_COUNT] = {"device", "host", "disk"};
const char *const pdl_sharding_names[PDL_SHARDING_COUNT] = {"none", "zero1", "zero2", "zero3"};
const char *const pdl_optimizer_names[PDL_OPTIMIZER_COUNT] = {"sgd", "momentum", "adam"};

static pdl_status_t allocate(pdl_plan_t *plan)
{
    size_t layers = (size_t)pdl_model_layer_count(plan->model);

    plan->modes = calloc(layers, sizeof(*plan->modes));
    plan->stage_first = calloc(layers + 1, sizeof(*plan->stage_first)); /* no virtual stage is empty */
    if (!plan->modes || !plan->stage_first) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    return PDL_OK;
}

static pdl_status_t check_mesh(const pdl_mesh_t *mesh)
{
    int64_t size = 1;

    if (mesh->axis_count < 0 || mesh->axis_count > PDL_MAX_AXES)
        return pdl_error(PDL_ERR_INPUT, "a mesh has at most %d axes", PDL_MAX_AXES);
    for (int i = 0; i < mesh->axis_count; i++) {
        const pdl_axis_t *axis = &mesh->axis[i];
        if (axis->size < 1 || axis->size > INT32_MAX || size > INT32_MAX / axis->size)
            return pdl_error(PDL_ERR_INPUT, "%s axis of %lld: sizes start at 1 and their product ends at %d",
                             pdl_axis_names[axis->kind], (long long)axis->size, INT32_MAX);
        if (axis->kind == PDL_AXIS_SPATIAL && (axis->dim < 0 || axis->dim >= PDL_MAX_SPACE))
            return pdl_error(PDL_ERR_INPUT, "spatial axis cuts extent %d: extents are 0 to %d", axis->dim,
                             PDL_MAX_SPACE - 1);
        size *= axis->size;
    }
    return PDL_OK;
}

pdl_status_t pdl_plan_create(const pdl_model_t *model, const pdl_mesh_t *mesh, int64_t batch, pdl_plan_t **out)
{
    pdl_status_t status = check_mesh(mesh);
    if (status) return status;
    pdl_plan_t *plan = calloc(1, sizeof(*plan));
    if (!plan) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *plan = (pdl_plan_t){.model = model,
                         .mesh = *mesh,
                         .batch = batch,
                         .micro_batches = 1,
                         .schedule = PDL_SCHEDULE_1F1B,
                         .optimizer = PDL_OPTIMIZER_MOMENTUM,
                         .precision = PDL_FP32,
                         .data_policy = pdl_data_policy_default()};
    status = allocate(plan);
    if (!status) status = pdl_plan_set_virtual_stages(plan, 1);
    if (status) {
        pdl_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return PDL_OK;
}

pdl_status_t pdl_plan_copy(const pdl_plan_t *plan, pdl_plan_t **out)
{
    pdl_plan_t *copy = malloc(sizeof(*copy));
    if (!copy) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    *copy = *plan;
    copy->modes = NULL;
    copy->stage_first = NULL;
    copy->block = NULL;
    pdl_status_t status = allocate(copy);
    if (!status) status = pdl_plan_set_blocks(copy, plan->block, plan->block_count);
    if (status) {
        pdl_plan_destroy(copy);
        return status;
    }
    size_t layers = (size_t)pdl_model_layer_count(plan->model);
    memcpy(copy->modes, plan->modes, layers * sizeof(*copy->modes));
    memcpy(copy->stage_first, plan->stage_first, (layers + 1) * sizeof(*copy->stage_first));
    *out = copy;
    return PDL_OK;
}

void pdl_plan_destroy(pdl_plan_t *plan)
{
    if (!plan) return;
    free(plan->modes);
    free(plan->stage_first);
    free(plan->block);
    free(plan);
}

void pdl_plan_drop_unit_axes(pdl_plan_t *plan)
{
    int layers = pdl_model_layer_count(plan->model), kept = 0;

    for (int a = 0; a < plan->mesh.axis_count; a++) {
        if (plan->mesh.axis[a].size == 1) continue;
        plan->mesh.axis[kept] = plan->mesh.axis[a];
        plan->collective[kept] = plan->collective[a];
        for (int i = 0; i < layers; i++) plan->modes[i].on[kept] = plan->modes[i].on[a];
        kept++;
    }
    for (int a = kept; a < plan->mesh.axis_count; a++) {
        plan->collective[a] = (pdl_plan_collective_t){.ranks_per_node = 0};
        for (int i = 0; i < layers; i++) plan->modes[i].on[a] = PDL_MODE_PASS;
    }
    plan->mesh.axis_count = kept;
}

static pdl_status_t check_modes(const pdl_plan_t *plan)
{
    char why[128];

    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        for (int a = 0; a < plan->mesh.axis_count; a++) {
            const pdl_axis_t *axis = &plan->mesh.axis[a];
            pdl_mode_t        mode = (pdl_mode_t)plan->modes[i].on[a];
            if (axis->size == 1 || axis->kind == PDL_AXIS_PIPELINE || axis->kind == PDL_AXIS_DATA) continue;
            if (mode >= PDL_MODE_COUNT)
                return pdl_error(PDL_ERR_INPUT, "layer %s has mode %d on the %s axis; there are only %d",
                                 layer->name, (int)mode, pdl_axis_names[axis->kind], PDL_MODE_COUNT);
            if (!pdl_mode_allowed(layer, mode, axis, why, sizeof(why)))
                return pdl_error(PDL_ERR_LIMIT, "%s axis of %lld: layer %s %s, so mode %s is not possible",
                                 pdl_axis_names[axis->kind], (long long)axis->size, layer->name, why,
                                 pdl_mode_names[mode]);
        }
    }
    return PDL_OK;
}

bool pdl_plan_shares_experts(const pdl_plan_t *plan, int layer, int axis)
{
    return plan->mesh.axis[axis].kind == PDL_AXIS_DATA && plan->mesh.axis[axis].size > 1 &&
           plan->modes[layer].on[axis] == PDL_MODE_EXPERT &&
           pdl_layer_traits(pdl_model_layer(plan->model, layer))->shared == PDL_SHARED_EXPERTS;
}

int pdl_plan_expert_axis(const pdl_plan_t *plan)
{
    for (int a = plan->mesh.axis_count - 1; a >= 0; a--)
        for (int i = 0; plan->mesh.axis[a].kind == PDL_AXIS_DATA && i < pdl_model_layer_count(plan->model); i++)
            if (pdl_plan_shares_experts(plan, i, a)) return a;
    return -1;
}

int64_t pdl_plan_expert_ranks(const pdl_plan_t *plan, pdl_axis_kind_t kind)
{
    int64_t ranks = 1;

    for (int a = 0; a < plan->mesh.axis_count; a++)
        for (int i = 0; plan->mesh.axis[a].kind == kind && i < pdl_model_layer_count(plan->model); i++) {
            if (plan->modes[i].on[a] != PDL_MODE_EXPERT) continue;
            ranks *= plan->mesh.axis[a].size;
            break;
        }
    return ranks;
}

/* Heads and experts that several axes share out: none of their ranks together may be left without. */
static pdl_status_t check_shared(const pdl_plan_t *plan)
{
    int axes = 0;

    for (int a = 0; a < plan->mesh.axis_count; a++)
        axes += plan->mesh.axis[a].size > 1 && plan->mesh.axis[a].kind != PDL_AXIS_PIPELINE;
    for (int i = 0; axes > 0 && i < pdl_model_layer_count(plan->model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        int64_t            heads = 1, experts = 1;
        for (int a = 0; a < plan->mesh.axis_count; a++) {
            pdl_mode_t mode = (pdl_mode_t)plan->modes[i].on[a];
            bool       splits = pdl_axis_splits(&plan->mesh.axis[a]);
            if (splits && mode == PDL_MODE_HEADS) heads *= plan->mesh.axis[a].size;
            if ((splits && mode == PDL_MODE_EXPERT) || pdl_plan_shares_experts(plan, i, a))
                experts *= plan->mesh.axis[a].size;
        }
        if (heads > 1 && heads > layer->kv_heads)
            return pdl_error(
                PDL_ERR_LIMIT,
                "layer %s has %lld key-value heads, so mode heads over %lld ranks of all axes is not possible",
                layer->name, (long long)layer->kv_heads, (long long)heads);
        if (experts > 1 && experts > layer->experts)
            return pdl_error(
                PDL_ERR_LIMIT,
                "layer %s has %lld experts, so mode expert over %lld ranks of all axes is not possible",
                layer->name, (long long)layer->experts, (long long)experts);
    }
    return PDL_OK;
}

/* A layer that splits samples beyond the data axis needs one for every rank. */
static pdl_status_t check_samples(const pdl_plan_t *plan)
{
    int64_t replicas = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    int64_t samples = ((plan->batch + replicas - 1) / replicas + plan->micro_batches - 1) / plan->micro_batches;

    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        int64_t pieces = 1;
        for (int a = 0; a < plan->mesh.axis_count; a++) {
            pdl_axis_kind_t kind = plan->mesh.axis[a].kind;
            if (kind != PDL_AXIS_DATA && kind != PDL_AXIS_PIPELINE && plan->modes[i].on[a] == PDL_MODE_SAMPLE)
                pieces *= plan->mesh.axis[a].size;
        }
        if (pieces > samples)
            return pdl_error(PDL_ERR_LIMIT,
                             "layer %s splits samples over %lld ranks, but a micro-batch has only %lld",
                             pdl_model_layer(plan->model, i)->name, (long long)pieces, (long long)samples);
    }
    return PDL_OK;
}

static pdl_status_t check_stages(const pdl_plan_t *plan)
{
    int64_t stages = pdl_plan_stage_count(plan), layers = pdl_model_layer_count(plan->model);

    if (plan->virtual_stages < 1 || (plan->virtual_stages > 1 && plan->schedule != PDL_SCHEDULE_INTERLEAVED))
        return pdl_error(PDL_ERR_INPUT, "%d virtual stages need the interleaved schedule", plan->virtual_stages);
    if (stages >= layers)
        return pdl_error(PDL_ERR_LIMIT,
                         "%lld pipeline stages with all virtual stages, but model %s has only %lld layers",
                         (long long)stages, pdl_model_name(plan->model), (long long)layers - 1);
    if (plan->stage_first[0] != 0)
        return pdl_error(PDL_ERR_INPUT, "the first stage must begin with the first layer");
    if (plan->stage_first[stages] != layers)
        return pdl_error(PDL_ERR_INPUT, "the last stage must end with the last layer");
    for (int64_t s = 0; s < stages; s++)
        if (plan->stage_first[s] >= plan->stage_first[s + 1])
            return pdl_error(PDL_ERR_INPUT, "pipeline stage %lld is empty", (long long)s);
    return PDL_OK;
}

/* Micro-batches are as large as the largest of them has to be; none may be empty, as it would cost as much as the others. */
pdl_status_t pdl_plan_check_micro_batches(int64_t parts, int64_t samples)
{
    if (parts > samples)
        return pdl_error(PDL_ERR_LIMIT, "%lld micro-batches, but a replica has only %lld samples", (long long)parts,
                         (long long)samples);
    int64_t size = (samples + parts - 1) / parts, filled = (samples + size - 1) / size;
    if (filled == parts) return PDL_OK;
    return pdl_error(
        PDL_ERR_LIMIT,
        "%lld micro-batches of %lld samples: %lld of %lld samples each hold them all; use a number that "
        "divides %lld",
        (long long)parts, (long long)samples, (long long)filled, (long long)size, (long long)samples);
}

/* Weights on the host take their state along, and are there as their state is: all of them, or a part. */
static pdl_status_t check_tiers(const pdl_plan_t *plan)
{
    if (plan->update_tier == PDL_TIER_HOST &&
        (plan->weights_tier != PDL_TIER_HOST || plan->optimizer_tier != PDL_TIER_HOST))
        return pdl_error(PDL_ERR_INPUT,
                         "processors of the host update what is there: memory.update: host goes with "
                         "memory.weights: host and memory.optimizer: host");
    if (plan->weights_tier == PDL_TIER_DEVICE) return PDL_OK;
    if (plan->optimizer_tier == PDL_TIER_DEVICE)
        return pdl_error(PDL_ERR_INPUT, "weights on the host have their optimizer's state there or on disk: use "
                                        "memory.optimizer: host");
    if ((plan->sharding == PDL_SHARDING_ZERO1 || plan->sharding == PDL_SHARDING_ZERO2) &&
        pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA) > 1)
        return pdl_error(
            PDL_ERR_UNSUPPORTED,
            "weights on the host are divided as their optimizer's state is, and with %s they are whole: "
            "use memory.sharding: zero3 or none",
            pdl_sharding_names[plan->sharding]);
    return PDL_OK;
}

pdl_status_t pdl_plan_check(const pdl_plan_t *plan)
{
    int64_t replicas = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    int     block;

    if (plan->batch < 1) return pdl_error(PDL_ERR_INPUT, "batch of %lld: at least 1", (long long)plan->batch);
    if (plan->micro_batches < 1)
        return pdl_error(PDL_ERR_INPUT, "%lld micro-batches: at least 1", (long long)plan->micro_batches);
    if (replicas > plan->batch)
        return pdl_error(PDL_ERR_LIMIT, "data axis of %lld is larger than the batch of %lld", (long long)replicas,
                         (long long)plan->batch);
    pdl_status_t status =
        pdl_plan_check_micro_batches(plan->micro_batches, (plan->batch + replicas - 1) / replicas);
    if (!status) status = pdl_data_policy_check(&plan->data_policy);
    if (!status) status = check_tiers(plan);
    if (!status) status = check_stages(plan);
    if (!status) status = pdl__blocks_check(plan, &block);
    if (!status) status = check_modes(plan);
    if (!status) status = check_shared(plan);
    if (!status) status = check_samples(plan);
    return status ? status : pdl_plan_check_collectives(plan);
}
