/*
 * From strategy and ranks to a plan, and what is said about it.
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

pdl_status_t pdl__train_plan(const pdl__train_values_t *v, const pdl_model_t *model, int64_t ranks,
                             pdl_plan_t **plan, char *text, size_t size)
{
    pdl_request_t       request = pdl_request_default();
    const pdl_system_t *system = NULL;
    pdl_mesh_t          mesh;
    said_t              said = {text, size};
    pdl_status_t        status = v->mesh != NULL ? pdl__train_mesh(v->mesh, &mesh) : PDL_OK;

    text[0] = '\0';
    request.pe = ranks;
    request.batch = v->batch;
    request.optimizer = pdl__train_memory_kind(v);
    request.strategy = pdl_strategy_find(v->strategy);
    if (!status && request.strategy == NULL) status = PDL_ERR_INPUT;
    if (!status && v->mesh == NULL && !pdl_strategy_is_data(request.strategy))
        status = pdl_system_load(v->system, &system);
    if (!status) status = pdl_search_plan(model, system, &request, v->mesh != NULL ? &mesh : NULL, plan);
    pdl_system_destroy(system);
    if (status == PDL_ERR_LIMIT || (status && v->mesh != NULL)) return status;
    if (status) return pdl_error(status, "%s; or name the axes with --mesh", pdl_error_message());
    if (v->mesh == NULL && pdl_strategy_is_hybrid(request.strategy)) say_mesh(&(*plan)->mesh, &said);
    return request.strategy->per_layer ? PDL_OK : say_whole(*plan, v->strategy, &said);
}
