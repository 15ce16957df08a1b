/*
 * Virtual stages of a pipeline: the borders that a plan has before a machine is known.
 */
#include <paradl/plan/plan.h>

int64_t pdl_plan_stage_count(const pdl_plan_t *plan)
{
    return pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE) * plan->virtual_stages;
}

static double work_of(const pdl_layer_t *layer)
{
    return 1 + (double)layer->flop_forward + (double)layer->flop_backward_data +
           (double)layer->flop_backward_weight;
}

/* Every virtual stage ends where its share of the operations is done, but each has a layer. The input comes with the first. */
static void cut_by_work(pdl_plan_t *plan, int stages)
{
    int    layers = pdl_model_layer_count(plan->model), stage = 0;
    double total = 0, done = 0;

    for (int i = 1; i < layers; i++) total += work_of(pdl_model_layer(plan->model, i));
    plan->stage_first[0] = 0;
    for (int i = 1; i < layers; i++) {
        bool begun = i > (stage > 0 ? plan->stage_first[stage] : 1);
        bool enough = done >= total * (stage + 1) / stages, last_chance = layers - i == stages - stage - 1;

        if (stage + 1 < stages && begun && (enough || last_chance)) plan->stage_first[++stage] = i;
        done += work_of(pdl_model_layer(plan->model, i));
    }
    plan->stage_first[stages] = layers;
}

pdl_status_t pdl_plan_set_virtual_stages(pdl_plan_t *plan, int64_t count)
{
    int64_t ranks = pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE), layers = pdl_model_layer_count(plan->model);

    if (count < 1) return pdl_error(PDL_ERR_INPUT, "%lld virtual stages: at least 1", (long long)count);
    if (count > (layers - 1) / ranks)
        return pdl_error(PDL_ERR_LIMIT, "%lld pipeline stages%s, but model %s has only %lld layers",
                         (long long)(count > 1 ? ranks * count : ranks),
                         count > 1 ? " with all virtual stages" : "", pdl_model_name(plan->model),
                         (long long)layers - 1);
    plan->virtual_stages = (int)count;
    plan->stages_given = false;
    cut_by_work(plan, (int)(ranks * count));
    return PDL_OK;
}
