/*
 * From a plan to the program of a rank.
 */
#include "program/lower/graph.h"
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

/* Which trained weights every unit has: first[u] .. first[u + 1] of `use`, which follow. */
static pdl_status_t list_uses(const pdl__graph_t *graph, int **first)
{
    size_t units = (size_t)graph->unit_count;
    int   *use = calloc(units + 1 + units * PDL_MAX_WEIGHTS, sizeof(*use)), count = 0;

    *first = use;
    if (use == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory while preparing a model of this size");
    use += units + 1;
    for (int u = 0; u < graph->unit_count; u++) {
        const pdl__unit_t *unit = &graph->unit[u];
        (*first)[u] = count;
        for (int k = 0; unit->kind == PDL__UNIT_OP && k < unit->description.weight_count; k++)
            if (unit->weight[k] < graph->weights->trainable) use[count++] = unit->weight[k];
    }
    (*first)[units] = count;
    return PDL_OK;
}

static unsigned pipeline_axes(const pdl_mesh_t *mesh)
{
    unsigned axes = 0;

    for (int a = 0; a < mesh->axis_count; a++)
        if (mesh->axis[a].kind == PDL_AXIS_PIPELINE) axes |= 1u << a;
    return axes;
}

pdl_status_t pdl__graph_program(const pdl__graph_spec_t *spec, const pdl__graph_t *graph, int micro_batches,
                                bool training, pdl_program_t **program)
{
    const pdl__rank_weights_t *w = graph->weights;
    pdl_program_pass_t        *order = NULL;
    int                       *first_use = NULL;
    pdl_status_t               status = list_uses(graph, &first_use);
    pdl_program_update_t       update = {.first_use = first_use,
                                         .use = first_use + graph->unit_count + 1,
                                         .weight_count = w->count,
                                         .bucket = w->bucket,
                                         .bucket_count = w->bucket_count,
                                         .ties = w->tie_count,
                                         .tie_group = pipeline_axes(&spec->plan->mesh),
                                         .sharding = w->sharding,
                                         .packs = w->packs,
                                         .weights_pass = w->weights_pass,
                                         .gradients_pass = training && w->gradients_pass,
                                         .early = w->early,
                                         .state_item = pdl_dtype_bytes(spec->backend->weight_type)};
    pdl_program_options_t      options = {.micro_batches = micro_batches,
                                          .training = training,
                                          .overlap = spec->overlap,
                                          .unplaced = spec->unplaced,
                                          .model = spec->plan->model,
                                          .update = &update};

    if (training && w->state_passes) update.state_arrays = spec->state_arrays + w->weights_pass;
    update.by_host = update.state_arrays > 0 && spec->plan->update_tier == PDL_TIER_HOST;
    if (!status && spec->layouts->stages->count > 1) {
        status = pdl__pipe_order(spec->layouts->stages, training, &order, &options.order_count);
        options.order = order;
    }
    if (!status) status = pdl_program_create(graph->node, graph->unit_count, &options, program);
    free(order);
    free(first_use);
    if (status) return status;
    status = pdl__graph_count_bytes(spec, graph, training, *program);
    if (!status) return PDL_OK;
    pdl_program_destroy(*program);
    *program = NULL;
    return status;
}

static int state_arrays(pdl_optimizer_t optimizer)
{
    return optimizer == PDL_OPTIMIZER_ADAM ? 2 : optimizer == PDL_OPTIMIZER_MOMENTUM ? 1 : 0;
}

pdl_status_t pdl_program_compile(const pdl_program_spec_t *spec, pdl_program_t **program)
{
    int             micro_batches = spec->micro_batches > 0 ? spec->micro_batches : (int)spec->plan->micro_batches;
    int64_t         samples = spec->samples > 0 ? spec->samples : spec->plan->batch / micro_batches;
    pdl__layouts_t *layouts = NULL;
    pdl__graph_t   *graph = NULL;
    pdl_status_t    status = pdl__layouts_create(spec->plan, spec->rank, samples, &layouts);
    pdl__graph_spec_t lowering = {.plan = spec->plan,
                                  .layouts = layouts,
                                  .backend = spec->backend,
                                  .training = spec->training,
                                  .separate = spec->separate,
                                  .overlap = spec->overlap,
                                  .unplaced = spec->unplaced,
                                  .bucket_bytes = spec->bucket_bytes > 0 ? spec->bucket_bytes : PDL_BUCKET_BYTES,
                                  .smooths = spec->smooths,
                                  .clips = spec->clips,
                                  .tensor_norms = spec->tensor_norms,
                                  .state_arrays = state_arrays(spec->plan->optimizer)};

    if (!status) status = pdl__graph_create(&lowering, &graph);
    if (!status) status = pdl__graph_program(&lowering, graph, micro_batches, spec->training, program);
    pdl__graph_destroy(graph);
    pdl__layouts_destroy(layouts);
    return status;
}

static int64_t rank_at(const pdl_mesh_t *mesh, const int64_t *coordinates)
{
    int64_t rank = 0;

    for (int a = 0; a < mesh->axis_count; a++) rank = rank * mesh->axis[a].size + coordinates[a];
    return rank;
}

/* Appends the ranks of one stage, whose first rank is given. */
static pdl_status_t add_stage(const pdl_plan_t *plan, int64_t first, int64_t **ranks, int *count)
{
    int64_t         samples = plan->batch / plan->micro_batches;
    pdl__layouts_t *layouts, *classes;
    int             added;
    pdl_status_t    status = pdl__layouts_create(plan, first, samples, &layouts);

    if (status) return status;
    status = pdl__layouts_classes(layouts, false, &classes, &added);
    if (!status) {
        int64_t *grown = realloc(*ranks, (size_t)(*count + added) * sizeof(*grown));
        if (grown) *ranks = grown;
        for (int c = 0; c < added && grown; c++) grown[(*count)++] = rank_at(&plan->mesh, classes[c].coordinates);
        if (!grown) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
        free(classes);
    }
    pdl__layouts_destroy(layouts);
    return status;
}

pdl_status_t pdl_program_ranks(const pdl_plan_t *plan, int64_t **ranks, int *count)
{
    int          axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_PIPELINE);
    int64_t      stages = axis < 0 ? 1 : plan->mesh.axis[axis].size, coordinates[PDL_MAX_AXES] = {0};
    pdl_status_t status = PDL_OK;

    *ranks = NULL;
    *count = 0;
    for (int64_t s = 0; s < stages && !status; s++) {
        if (axis >= 0) coordinates[axis] = s;
        status = add_stage(plan, rank_at(&plan->mesh, coordinates), ranks, count);
    }
    if (!status) return PDL_OK;
    free(*ranks);
    *ranks = NULL;
    return status;
}

size_t pdl_program_saved_bytes(const pdl_program_t *program)
{
    size_t bytes = 0;
    int    turn = 0;

    while (turn < program->op_count && !program->op[turn].backward) turn++;
    if (turn == program->op_count) return 0;
    for (int k = 0; k < program->buffer_count; k++)
        if (program->buffer[k].first < turn && program->buffer[k].last >= turn) bytes += program->buffer[k].bytes;
    return bytes;
}
