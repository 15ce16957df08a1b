/*
 * From strategy and ranks to a plan: on the mesh that was asked for, on the only one that there is, or on the one that is
 * projected to be fastest.
 */
#include "cli/train/plan.h"

#include <paradl/oracle/search.h>

#include <stdarg.h>
#include <string.h>

/* What is said of a plan, sentence by sentence. */
typedef struct said {
    char  *text;
    size_t size;
} said_t;

PDL_PRINTF(2, 3) static void say(const said_t *said, const char *format, ...)
{
    size_t  length = strlen(said->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(said->text + length, said->size - length, format, arguments);
    va_end(arguments);
}

pdl_optimizer_t pdl__train_memory_kind(const pdl__train_values_t *v)
{
    if (v->optimizer == PDL_METHOD_ADAMW || v->optimizer == PDL_METHOD_LAMB) return PDL_OPTIMIZER_ADAM;
    return v->momentum > 0 ? PDL_OPTIMIZER_MOMENTUM : PDL_OPTIMIZER_SGD;
}

/* Whether a layer is whole on an axis where the plain preset, which would be refused, splits it. */
static bool stays_whole(const pdl_plan_t *plan, const pdl_plan_t *plain, int i)
{
    for (int a = 0; a < plan->mesh.axis_count; a++)
        if (plan->modes[i].on[a] == PDL_MODE_REPLICATE && plain->modes[i].on[a] != PDL_MODE_REPLICATE) return true;
    return false;
}

static pdl_status_t say_whole(const pdl_plan_t *plan, const char *strategy, const said_t *said)
{
    pdl_plan_t  *plain;
    int          whole = 0;
    pdl_status_t status = pdl_plan_copy(plan, &plain);

    if (status) return status;
    status = pdl_plan_apply_preset(plain, strategy, NULL);
    for (int i = 0; i < pdl_model_layer_count(plan->model) && !status; i++)
        if (stays_whole(plan, plain, i) && whole++ < 3)
            say(said, "%s%s", whole > 1 ? ", " : "", pdl_model_layer(plan->model, i)->name);
    if (whole > 3) say(said, " and %d more", whole - 3);
    if (whole > 0) say(said, ": whole on every rank, as too small for the axis");
    pdl_plan_destroy(plain);
    return status;
}

static pdl_status_t plan_on_mesh(const pdl__train_values_t *v, const pdl_model_t *model, const pdl_mesh_t *mesh,
                                 pdl_plan_t **plan, const said_t *said)
{
    const pdl_preset_options_t options = {.keep_small = true};
    pdl_status_t               status = pdl_plan_create(model, mesh, v->batch, plan);

    if (!status) status = pdl_plan_apply_preset(*plan, v->strategy, &options);
    return status ? status : say_whole(*plan, v->strategy, said);
}

/* The only mesh of a strategy with one axis that splits channels or layers; false: there is a choice, or it is asked for
   rarely enough to be told. */
static bool only_mesh(const pdl_strategy_t *strategy, int64_t ranks, pdl_mesh_t *mesh)
{
    bool pipeline = pdl_strategy_has(strategy, PDL_AXIS_PIPELINE);

    if (pdl_strategy_is_hybrid(strategy) || !(pipeline || pdl_strategy_has(strategy, PDL_AXIS_TENSOR)))
        return false;
    *mesh = (pdl_mesh_t){{{pipeline ? PDL_AXIS_PIPELINE : PDL_AXIS_TENSOR, ranks, 0}}, 1};
    return true;
}

/* More ranks than the system has PEs share its cores, which is the same for every mesh: they are compared on a system with
   as many of them in its innermost groups. */
static pdl_system_t widen(const pdl_system_t *system, int64_t ranks)
{
    pdl_system_t wide = *system;

    if (ranks <= system->pe_count) return wide;
    wide.level[0].fanout = wide.host_level[0].fanout = ranks;
    wide.pe_count = ranks * (system->pe_count / system->level[0].fanout);
    return wide;
}

static void say_mesh(const pdl_mesh_t *mesh, const said_t *said)
{
    const char *before = "mesh ";

    for (int a = 0; a < mesh->axis_count; a++) {
        if (mesh->axis[a].size == 1) continue;
        say(said, "%s%s", before, pdl_axis_names[mesh->axis[a].kind]);
        if (mesh->axis[a].kind == PDL_AXIS_SPATIAL) say(said, "_%d", mesh->axis[a].dim);
        say(said, ":%lld", (long long)mesh->axis[a].size);
        before = ",";
    }
    if (*before == ',') say(said, ", projected to be the fastest; --mesh chooses another");
}

/* The mesh on which the strategy is projected to be fastest here. */
static pdl_status_t plan_by_search(const pdl__train_values_t *v, const pdl_strategy_t *strategy,
                                   const pdl_model_t *model, int64_t ranks, pdl_plan_t **plan, const said_t *said)
{
    pdl_request_t       request = pdl_request_default();
    const pdl_system_t *system = NULL;
    pdl_system_t        wide;
    pdl_parameters_t    parameters;
    pdl_oracle_t       *oracle = NULL;
    pdl_search_t       *search = NULL;
    pdl_mesh_t          only;
    pdl_status_t        status = pdl_system_load(v->system, &system);

    request.pe = ranks;
    request.batch = v->batch;
    request.strategy = strategy;
    request.optimizer = pdl__train_memory_kind(v);
    if (!status) wide = widen(system, ranks);
    if (!status) status = pdl_parameters_choose(NULL, system, &parameters);
    if (!status) status = pdl_oracle_create(model, &wide, &parameters, &oracle);
    if (!status) status = pdl_search_run(oracle, &request, &search);
    if (status) status = pdl_error(status, "%s; or name the axes with --mesh", pdl_error_message());
    if (!status && search->possible == 0)
        status = pdl_error(PDL_ERR_LIMIT, "%s on %lld ranks is not possible: %s", v->strategy,
                           (long long)request.pe, search->candidates[0].reason);
    if (!status) status = pdl_plan_copy(search->candidates[0].plan, plan);
    if (!status && !only_mesh(strategy, ranks, &only)) say_mesh(&(*plan)->mesh, said);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    return status;
}

/* Where the search finds nothing, small layers may be all that is in the way. */
static pdl_status_t search_or_keep(const pdl__train_values_t *v, const pdl_strategy_t *strategy,
                                   const pdl_model_t *model, int64_t ranks, pdl_plan_t **plan, const said_t *said)
{
    char         reason[1024];
    pdl_mesh_t   mesh;
    pdl_status_t status = plan_by_search(v, strategy, model, ranks, plan, said);

    if (status != PDL_ERR_LIMIT || !only_mesh(strategy, ranks, &mesh)) return status;
    snprintf(reason, sizeof(reason), "%s", pdl_error_message());
    status = plan_on_mesh(v, model, &mesh, plan, said);
    if (!status) status = pdl_plan_check(*plan);
    return status ? pdl_error(PDL_ERR_LIMIT, "%s", reason) : PDL_OK;
}

pdl_status_t pdl__train_plan(const pdl__train_values_t *v, const pdl_model_t *model, int64_t ranks,
                             pdl_plan_t **plan, char *text, size_t size)
{
    pdl_mesh_t            mesh = {{{PDL_AXIS_DATA, ranks, 0}}, 1};
    const pdl_strategy_t *strategy = pdl_strategy_find(v->strategy);
    said_t                said = {text, size};
    pdl_status_t          status = strategy == NULL ? PDL_ERR_INPUT : PDL_OK;

    text[0] = '\0';
    if (!status && v->mesh != NULL) status = pdl__train_mesh(v->mesh, &mesh);
    if (status) return status;
    bool plain = (strategy->axes & ~(1u << PDL_AXIS_DATA)) == 0;
    return v->mesh || plain ? plan_on_mesh(v, model, &mesh, plan, &said)
                            : search_or_keep(v, strategy, model, ranks, plan, &said);
}
