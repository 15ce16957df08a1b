/*
 * Layouts of single layers on the meshes of a search, and the name of what comes out: a plan in which no layer differs
 * from a named strategy is that strategy.
 */
#include "oracle/cost/places.h"
#include "oracle/mixed/mixed.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double most_memory(const pdl_system_t *system)
{
    double most = system->device.memory_bytes;

    for (int i = 0; i < system->part_count; i++) most = fmax(most, system->part[i].device.memory_bytes);
    return most;
}

/* Weights, gradients and optimizer state of 1/t of the model, which no layout makes smaller. */
static bool states_fit(const pdl__searcher_t *s, int64_t t)
{
    pdl_model_totals_t totals;
    double             cap = s->oracle->memory_cap > 0 ? s->oracle->memory_cap : most_memory(s->oracle->system);
    double             item = pdl_precision_bytes(s->request->precision);

    pdl_model_totals(s->oracle->model, &totals);
    double gradients = s->request->run_mode == PDL_TRAINING ? (double)totals.trained : 0;
    return ((double)totals.weights + gradients) * item / (double)t <= cap;
}

/* One mesh and batch of per-layer layouts; true when it fits. */
static bool consider_mixed(pdl__searcher_t *s, const pdl_config_t *config)
{
    pdl_candidate_t trial = {.config = *config};
    pdl_status_t status = pdl_search_mixed(s->oracle, config, s->request->dataset, &trial.plan, &trial.projection);

    s->configurations++;
    if (status == PDL_ERR_NOMEM) s->status = status;
    if (status) {
        if (!s->best->possible) snprintf(s->best->reason, sizeof(s->best->reason), "%s", pdl_error_message());
        return false;
    }
    trial.possible = trial.projection.fits;
    if (trial.possible) status = pdl_oracle_replay(s->oracle, trial.plan, s->request->dataset, &trial.projection);
    if (status) s->status = status;
    pdl__score_candidate(s, &trial);
    if (trial.possible && (!s->best->possible || trial.score < s->best->score)) {
        pdl_plan_destroy(s->best->plan);
        *s->best = trial;
    } else {
        if (!trial.possible && !s->best->possible)
            snprintf(s->best->reason, sizeof(s->best->reason), "no layout of single layers fits in memory");
        pdl_plan_destroy(trial.plan);
    }
    return trial.possible;
}

/* Stages of a pipeline of single layers, and micro-batches of every stage from which on its bubble is short. */
enum { MOST_STAGES = 8, FILLING = 4 };

/* Where the whole does not fit, about four times as many micro-batches, all of them equal, until they do. */
static void consider_accumulation(pdl__searcher_t *s, pdl_config_t config)
{
    int64_t samples = (config.batch + config.data - 1) / config.data, asked = s->request->micro_batches;
    int64_t least = config.pipeline > 1 ? FILLING * config.pipeline : 1;

    config.micro_batches = asked > 0 ? asked : least < samples ? least : samples;
    while (asked == 0 && samples % config.micro_batches != 0) config.micro_batches++;
    while (!consider_mixed(s, &config) && !s->status && config.micro_batches < samples && asked == 0) {
        config.micro_batches = 4 * config.micro_batches < samples ? 4 * config.micro_batches : samples;
        while (samples % config.micro_batches != 0) config.micro_batches++;
    }
}

static void consider_orders(pdl__searcher_t *s, pdl_config_t config)
{
    int order[PDL__MOST_PLACES], orders = pdl__places_orders(s->oracle, &config, order);

    for (int i = 0; i < orders && !s->status; i++) {
        config.part_order = order[i];
        consider_accumulation(s, config);
    }
}

static pdl_config_t config_of(const pdl__searcher_t *s, int64_t pipeline, int64_t tensor)
{
    pdl_config_t config = pdl_config_default("mixed");

    config.pipeline = pipeline;
    config.data = s->request->pe / pipeline / tensor;
    config.tensor = tensor;
    config.batch = s->request->batch;
    config.optimizer = s->request->optimizer;
    config.precision = s->request->precision;
    config.run_mode = s->request->run_mode;
    return config;
}

/* Per-layer layouts on every data x inner mesh with the inner axis inside a node or just outside it, and of pipelines of 2, 4 and 8
   stages on those whose inner axis is inside. */
static void enumerate(pdl__searcher_t *s)
{
    int64_t p = s->request->pe, node = pdl_system_group_size(s->oracle->system, 0), most = 2 * node;
    bool    any = false;

    for (int64_t t = 2; t <= p && t <= most && !s->status; t++) {
        any |= p % t == 0;
        for (int64_t q = 1; p % (q * t) == 0 && q <= (t <= node ? MOST_STAGES : 1) && !s->status; q *= 2)
            if (states_fit(s, q * t)) consider_orders(s, config_of(s, q, t));
    }
    if (s->best->possible || s->best->reason[0] != '\0') return;
    if (any)
        snprintf(s->best->reason, sizeof(s->best->reason), "groups of up to %lld devices do not hold the weights",
                 (long long)most);
    else
        snprintf(s->best->reason, sizeof(s->best->reason), "no group of 2 to %lld devices shares out %lld evenly",
                 (long long)most, (long long)p);
}

/* Whether all layers run alike on one axis of two plans. Samples arrive at the input as its readers want them. */
static bool same_layouts(const pdl_partition_t *a, int axis, const pdl_partition_t *b, int other)
{
    for (int i = 0; i < a->layer_count; i++) {
        const pdl_local_t *x = &a->local[i], *y = &b->local[i];
        if (pdl_layer_traits(pdl_model_layer(a->plan->model, i))->source) continue;
        if (x->mode[axis] != y->mode[other] || x->out[axis] != y->out[other]) return false;
    }
    return true;
}

static bool splits_samples_alone(const pdl_partition_t *partition, int axis)
{
    for (int i = 0; i < partition->layer_count; i++)
        if (!pdl_layer_traits(pdl_model_layer(partition->plan->model, i))->source &&
            partition->local[i].mode[axis] != PDL_MODE_SAMPLE)
            return false;
    return true;
}

/* A named strategy on the mesh of the mixed plan; *plan is NULL where the layouts differ. */
static pdl_status_t compare_preset(pdl__searcher_t *s, const pdl_partition_t *mixed, const pdl_config_t *config,
                                   pdl_plan_t **plan)
{
    pdl_partition_t *partition = NULL;
    pdl_status_t     status = pdl_oracle_plan(s->oracle, config, plan);

    if (status) *plan = NULL;
    if (status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT) return PDL_OK;
    if (!status) status = pdl_partition_create(*plan, mixed->micro_batch, &partition);
    if (!status) {
        int axis = pdl_mesh_find(&mixed->plan->mesh, PDL_AXIS_TENSOR);
        int other = pdl_mesh_find(&(*plan)->mesh, config->spatial > 1 ? PDL_AXIS_SPATIAL : PDL_AXIS_TENSOR);
        if (same_layouts(mixed, axis, partition, other)) {
            pdl_partition_destroy(partition);
            return PDL_OK;
        }
    }
    pdl_partition_destroy(partition);
    pdl_plan_destroy(*plan);
    *plan = NULL;
    return status;
}

/* The named strategy that the best mixed plan is; *plan is NULL when it is none. */
static pdl_status_t find_name(pdl__searcher_t *s, const pdl_partition_t *mixed, pdl_config_t *config,
                              pdl_plan_t **plan)
{
    pdl_config_t base = s->best->config;
    pdl_status_t status = PDL_OK;

    *plan = NULL;
    *config = base;
    if (splits_samples_alone(mixed, pdl_mesh_find(&mixed->plan->mesh, PDL_AXIS_TENSOR))) {
        config->strategy = pdl_strategy_find(base.pipeline > 1 ? "data+pipeline" : "data");
        config->data = base.data * base.tensor;
        config->tensor = 1;
        return pdl_oracle_plan(s->oracle, config, plan);
    }
    const pdl_strategy_t *row;
    for (int i = 0; (row = pdl_strategy_at(i)) != NULL && !*plan && !status; i++) {
        if (!pdl__splits_layers_on(row, base.data > 1, base.pipeline > 1)) continue;
        *config = base;
        config->strategy = row;
        config->sequence_parallel = s->best->plan->sequence_parallel;
        if (pdl_strategy_has(row, PDL_AXIS_SPATIAL)) {
            config->spatial = base.tensor;
            config->tensor = 1;
        }
        status = compare_preset(s, mixed, config, plan);
    }
    return status;
}

/* Gives the best plan the name of the strategy that it is, if it is one. */
static pdl_status_t name_plan(pdl__searcher_t *s)
{
    pdl_candidate_t *best = s->best;
    pdl_partition_t *mixed;
    pdl_config_t     config;
    pdl_plan_t      *plan;
    double           micro_batch =
        (double)best->config.batch / (double)best->config.data / (double)best->config.micro_batches;
    pdl_status_t status = pdl_partition_create(best->plan, micro_batch, &mixed);

    if (status) return status;
    status = find_name(s, mixed, &config, &plan);
    pdl_partition_destroy(mixed);
    if (status || !plan) return status;
    pdl_plan_destroy(best->plan);
    best->plan = plan;
    best->config = config;
    return PDL_OK;
}

void pdl__search_mixed(pdl__searcher_t *s)
{
    enumerate(s);
    if (!s->status && s->best->possible) s->status = name_plan(s);
}
