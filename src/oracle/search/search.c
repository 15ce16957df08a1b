/*
 * Search over strategies: enumerates the meshes of each preset at a number of devices, with the policies that
 * trade time for memory, and ranks the best of each (docs/oracle.md, "Search").
 */
#include "base/clock.h"
#include "oracle/cost/places.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <paradl/oracle/exact.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_goal_names[PDL_GOAL_COUNT] = {"time", "memory", "cost", "energy"};

enum { MOST_MICRO_BATCH = 16, MOST_VIRTUAL_STAGES = 4 }; /* of a pipeline */
enum { LEAST_NODE = 8 };

pdl_request_t pdl_request_default(void)
{
    return (pdl_request_t){.pe = 1, .optimizer = PDL_OPTIMIZER_MOMENTUM, .precision = PDL_FP32};
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT;
}

/* True when a configuration cannot beat the best one that is known to fit. */
static bool hopeless(const pdl__searcher_t *s, const pdl_config_t *config)
{
    double seconds;

    if (!s->best->possible || config->pipeline == 1) return false;
    if (pdl__lower_bound(s->oracle, config, &seconds)) return false;
    return pdl__least_score(s, config, seconds) > s->best->score;
}

/* How a configuration fits in memory. */
typedef enum fit { NO_FIT, FITS_BY_POLICY, FITS_PLAIN } fit_t;

/* The policies that trade time for memory, lightest first. What fits without a policy is not made faster by
   it, except that sharding the optimizer state also shares out the update. */
static fit_t consider_policies(pdl__searcher_t *s, pdl_config_t config)
{
    static const pdl_recompute_t recomputes[] = {PDL_RECOMPUTE_NONE, PDL_RECOMPUTE_SELECTIVE, PDL_RECOMPUTE_FULL};

    config.sharding = PDL_SHARDING_NONE;
    config.recompute = PDL_RECOMPUTE_NONE;
    if (hopeless(s, &config)) {
        s->configurations++;
        return NO_FIT;
    }
    double least_s = pdl__least_seconds(s, &config); /* for every sharding */
    fit_t  fit = pdl__consider(s, &config, least_s) ? FITS_PLAIN : NO_FIT;
    if (s->request->run_mode == PDL_INFERENCE) return fit;
    if (fit == FITS_PLAIN) {
        config.sharding = PDL_SHARDING_ZERO1;
        if (config.data > 1) pdl__consider(s, &config, least_s);
        return fit;
    }
    for (size_t r = 0; r < sizeof(recomputes) / sizeof(recomputes[0]); r++) {
        if (recomputes[r] == PDL_RECOMPUTE_SELECTIVE && s->oracle->p.fused_attention) continue;
        config.recompute = recomputes[r];
        if (r > 0) least_s = pdl__least_seconds(s, &config);
        for (int z = PDL_SHARDING_NONE; z < (config.data > 1 ? PDL_SHARDING_COUNT : PDL_SHARDING_ZERO1); z++) {
            config.sharding = (pdl_sharding_t)z;
            if (!pdl__consider(s, &config, least_s)) continue;
            fit = FITS_BY_POLICY;
            break;
        }
    }
    return fit;
}

/* The next larger number of micro-batches, all of them equal. The project's own trainer tries every such number, others
   about the powers of two. */
static int64_t more_micro_batches(const pdl__searcher_t *s, int64_t samples, int64_t micro_batches)
{
    micro_batches = s->oracle->system->backend != NULL ? micro_batches + 1 : 2 * micro_batches;
    while (micro_batches < samples && samples % micro_batches != 0) micro_batches++;
    return micro_batches;
}

/* All closed forms have a fixed cost, and beyond it one per sample that does not grow with their number, but for messages that
   are staged through host memory. */
bool pdl__parts_take_longer(const pdl_oracle_t *oracle, pdl_precision_t precision)
{
    return !pdl__measured_in(oracle->system, precision) && oracle->p.pinned_bytes <= 0;
}

/* Whether the samples of a replica make up so many micro-batches; if not, that is the reason. */
static bool has_parts(pdl__searcher_t *s, int64_t parts, int64_t samples)
{
    if (pdl_plan_check_micro_batches(parts, samples) == PDL_OK) return true;
    if (!s->any) snprintf(s->best->reason, sizeof(s->best->reason), "%s", pdl_error_message());
    return false;
}

/* The samples of a replica: at once, or accumulated over more and more micro-batches until they fit without a policy. */
static void consider_accumulation(pdl__searcher_t *s, pdl_config_t config)
{
    int64_t samples = (config.batch + config.data - 1) / config.data, asked = s->request->micro_batches;

    if (asked > 0) {
        config.micro_batches = asked;
        if (has_parts(s, asked, samples)) consider_policies(s, config);
        return;
    }
    for (config.micro_batches = 1; config.micro_batches <= samples;
         config.micro_batches = more_micro_batches(s, samples, config.micro_batches)) {
        if (consider_policies(s, config) == FITS_PLAIN || s->status) return;
        if (s->best->possible && pdl__parts_take_longer(s->oracle, config.precision) &&
            pdl__is_beaten(s, &config, pdl__least_seconds(s, &config)))
            return;
    }
}

/* Whether no pipeline of a mesh can win, by its largest micro-batch alone: in smaller ones a sample takes no less, and samples that
   stages share out evenly take no less in any schedule. */
static bool hopeless_mesh(const pdl__searcher_t *s, pdl_config_t config, int64_t samples, int64_t largest)
{
    double pass_s;

    if (!s->best->possible || !pdl__parts_take_longer(s->oracle, config.precision)) return false;
    config.micro_batches = samples / largest;
    config.schedule = PDL_SCHEDULE_1F1B;
    config.virtual_stages = 1;
    if (pdl__least_pass(s->oracle, &config, &pass_s)) return false;
    double sample_s = pass_s / ceil((double)samples / (double)config.micro_batches);
    double seconds = sample_s * (double)samples / (double)config.pipeline;
    return pdl__least_score(s, &config, seconds) > s->best->score * (1 + 1e-9);
}

static void consider_pipeline(pdl__searcher_t *s, pdl_config_t config, bool lost)
{
    if (lost)
        s->configurations++;
    else
        consider_policies(s, config);
}

/* Whether passes may be divided, which is of use where a stage waits. */
static bool may_divide(const pdl__searcher_t *s, const pdl_config_t *config)
{
    return s->oracle->p.zero_bubble && s->request->run_mode == PDL_TRAINING && config->micro_batches > 1;
}

/* Schedules with whole passes. */
static void consider_whole(pdl__searcher_t *s, pdl_config_t config, bool lost)
{
    config.schedule = PDL_SCHEDULE_1F1B;
    config.virtual_stages = 1;
    consider_pipeline(s, config, lost);
    if (config.micro_batches % config.pipeline) return;
    config.schedule = PDL_SCHEDULE_INTERLEAVED;
    for (config.virtual_stages = 2; config.virtual_stages <= MOST_VIRTUAL_STAGES; config.virtual_stages *= 2)
        if (config.pipeline * config.virtual_stages < pdl_model_layer_count(s->oracle->model))
            consider_pipeline(s, config, lost);
}

static void consider_divided(pdl__searcher_t *s, pdl_config_t config, bool lost)
{
    config.schedule = PDL_SCHEDULE_ZERO_BUBBLE;
    config.virtual_stages = 1;
    if (may_divide(s, &config)) consider_pipeline(s, config, lost);
}

static void consider_schedules(pdl__searcher_t *s, pdl_config_t config, bool divided, bool lost)
{
    if (divided)
        consider_divided(s, config, lost);
    else
        consider_whole(s, config, lost);
}

/* Micro-batches: as many as were asked for, else sizes 1, 2, 4 ... samples, each schedule. */
static void consider_pipelines(pdl__searcher_t *s, pdl_config_t config, bool divided)
{
    int64_t samples = (config.batch + config.data - 1) / config.data, largest = 1,
            asked = s->request->micro_batches;

    if (asked > 0) {
        config.micro_batches = asked;
        if (has_parts(s, asked, samples)) consider_schedules(s, config, divided, false);
        return;
    }
    while (2 * largest <= samples && 2 * largest <= MOST_MICRO_BATCH) largest *= 2;
    bool lost = hopeless_mesh(s, config, samples, largest);
    for (int64_t micro = 1; micro <= largest; micro *= 2) {
        config.micro_batches = (samples + micro - 1) / micro;
        consider_schedules(s, config, divided, lost);
    }
}

/* Divided passes are tried on the mesh that is best without them. The exact search tries them on all, but where a backend compiles
   plans: there all meshes are tried at once. */
static void divide_best(pdl__searcher_t *s)
{
    if (!s->best->possible || s->best->config.pipeline == 1 || s->oracle->system->backend != NULL) return;
    consider_pipelines(s, s->best->config, true);
    if (!s->status) pdl__replay_shortlist(s);
}

static pdl_config_t config_on(const pdl__searcher_t *s, const pdl_strategy_t *strategy,
                              const pdl_strategy_mesh_t *mesh)
{
    pdl_config_t config = pdl_config_on(strategy, mesh);

    config.batch = s->request->batch;
    config.optimizer = s->request->optimizer;
    config.precision = s->request->precision;
    config.run_mode = s->request->run_mode;
    config.spatial_until = s->request->spatial_until;
    config.sequence_parallel = strategy->width == PDL_WIDTH_PAIRS;
    return config;
}

/* Whether layers can be split over a mesh on which there are samples for every replica; if not, that is the reason. */
static bool can_split(pdl__searcher_t *s, const pdl_config_t *config)
{
    pdl_case_t c;

    pdl__case_of_config(s->oracle, config, NULL, &c);
    if (pdl__check_config(s->oracle, config, &c) || !is_refusal(pdl__check_split(s->oracle, config))) return true;
    if (!s->any) snprintf(s->best->reason, sizeof(s->best->reason), "%s", pdl_error_message());
    s->configurations++;
    return false;
}

/* Orders of the parts of a machine that put the stages on the same devices are one. */
static void consider_places(pdl__searcher_t *s, pdl_config_t config, bool divided)
{
    int order[PDL__MOST_PLACES], orders = pdl__places_orders(s->oracle, &config, order);

    for (int i = 0; i < orders; i++) {
        config.part_order = order[i];
        if (config.pipeline == 1)
            consider_accumulation(s, config);
        else
            consider_pipelines(s, config, divided);
    }
}

static void consider_mesh(pdl__searcher_t *s, pdl_config_t config)
{
    if (!can_split(s, &config)) return;
    if (config.pipeline == 1) {
        consider_places(s, config, false);
        return;
    }
    for (int divided = 0; divided < (s->oracle->system->backend != NULL ? 2 : 1); divided++) {
        config.order = PDL_ORDER_PIPELINE_DATA_INNER;
        consider_places(s, config, divided);
        config.order = PDL_ORDER_DATA_PIPELINE_INNER;
        if (config.data > 1) consider_places(s, config, divided);
    }
}

/* The only mesh of a strategy with one axis is shown even when it is not possible. */
static void show_mesh(pdl__searcher_t *s, const pdl_strategy_t *strategy)
{
    pdl_strategy_mesh_t mesh = {0};

    if (pdl_strategy_is_hybrid(strategy) || !pdl_strategy_next_mesh(strategy, s->request->pe, 0, &mesh)) return;
    s->best->config = config_on(s, strategy, &mesh);
    s->best->config.batch = 0;
}

/* Whether a mesh is for the rules. Channels stay in a node (or 8 devices, where nodes are smaller), tokens beside them too, unless
   channels fill more than half of it. */
static bool worth_trying(const pdl__searcher_t *s, const pdl_strategy_t *strategy, const pdl_strategy_mesh_t *mesh)
{
    int64_t node = pdl_system_group_size(s->oracle->system, 0);

    if (!pdl_strategy_splits_twice(strategy)) return true;
    if (node < LEAST_NODE) node = LEAST_NODE;
    return mesh->inner <= node && (mesh->inner * mesh->context <= node || 2 * mesh->inner > node);
}

/* Replicas share no experts out, or those do that a node holds beside a tensor axis, or as many as there can be. */
static void consider_experts(pdl__searcher_t *s, pdl_config_t config, int64_t experts)
{
    int64_t node = pdl_system_group_size(s->oracle->system, 0);

    for (int64_t next; config.experts > 0 && !s->status; config.experts = next) {
        next = pdl_config_next_experts(&config, experts);
        bool fills = config.experts * config.tensor <= node && next * config.tensor > node;
        if (config.experts == 1 || next == 0 || fills) consider_mesh(s, config);
    }
}

/* Meshes whose inner axis is too large for some layer are left out. */
static void enumerate(pdl__searcher_t *s, const pdl_strategy_t *strategy)
{
    const pdl_model_t   *model = s->oracle->model;
    pdl_preset_options_t options = {.published = s->oracle->p.published_forms,
                                    .spatial_until = s->request->spatial_until};
    int                  layer;
    int64_t              limit = pdl_preset_limit(model, strategy, &options, &layer);
    int64_t              heads = pdl_strategy_splits_twice(strategy) ? pdl_preset_heads(model) : 0;
    int64_t              experts = pdl_preset_experts(model);
    pdl_strategy_mesh_t  mesh = {0};

    while (pdl_strategy_next_mesh(strategy, s->request->pe, pdl_model_layer_count(model), &mesh) && !s->status &&
           !pdl__search_stopped(s))
        if (mesh.inner <= limit && heads % (mesh.inner * mesh.context) == 0 && worth_trying(s, strategy, &mesh))
            consider_experts(s, config_on(s, strategy, &mesh), experts);
}

pdl_status_t pdl__search_strategy(pdl__searcher_t *s, const pdl_strategy_t *strategy, pdl_candidate_t *candidate)
{
    *candidate = (pdl_candidate_t){.config = {.strategy = strategy}};
    memset(&s->leanest, 0, sizeof(s->leanest));
    s->best = candidate;
    s->any = false;
    s->likely = INFINITY;
    s->replays = 0;
    s->passes = 0;
    s->status = PDL_OK;
    show_mesh(s, strategy);
    if (strategy->per_layer)
        pdl__search_mixed(s);
    else
        enumerate(s, strategy);
    if (!s->status) pdl__replay_shortlist(s);
    if (!s->status && !strategy->per_layer) divide_best(s);
    return s->status ? s->status : pdl__finish_candidate(s);
}

static pdl_status_t check_request(const pdl_oracle_t *oracle, const pdl_request_t *r)
{
    if (r->pe < 1) return pdl_error(PDL_ERR_INPUT, "%lld devices: at least 1", (long long)r->pe);
    return pdl_system_check_devices(oracle->system, r->pe);
}

/* One device leaves a mixed plan nothing to split. */
static pdl_status_t search_one(pdl__searcher_t *s, pdl_search_t *search)
{
    const pdl_strategy_t *strategy = s->request->strategy;

    if (s->request->pe == 1 && strategy->per_layer) strategy = pdl_strategy_find("serial");
    return pdl__search_strategy(s, strategy, &search->candidates[search->count++]);
}

/* The model of the project's own trainer counts what a process needs besides, which is not part of a given limit. */
static double cap_of(const pdl_oracle_t *oracle, double max_memory)
{
    return max_memory + (oracle->system->backend != NULL ? oracle->system->device.reserved_bytes : 0);
}

/* What was not looked at is said, and then nothing is certified. */
static void certify(const pdl__searcher_t *s, pdl_search_t *search)
{
    const char *backend = s->oracle->system->backend;
    char       *why = search->not_certified, count[PDL_FORMAT_SIZE];
    size_t      size = sizeof(search->not_certified);

    if (search->stopped)
        snprintf(why, size, "the search was ended before all configurations were looked at");
    else if (search->not_replayed > 0)
        snprintf(why, size, "%s configurations that might be faster were not replayed",
                 pdl_format_count(search->not_replayed, count));
    else if (backend != NULL && s->request->exact != NULL)
        snprintf(why, size,
                 "memory and time of plans for the backend %s are known after they are compiled, which was done "
                 "for the best of every strategy only",
                 backend);
    search->certified = why[0] == '\0' && (search->exact == NULL || search->exact->certified);
}

pdl_status_t pdl__search_precision(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **out)
{
    pdl_request_t   chosen = *request;
    pdl__patience_t patience = {.asked_s = pdl__seconds()};
    pdl__searcher_t s = {.oracle = oracle, .request = &chosen, .patience = &patience, .asks = true};
    double          begin = pdl__seconds(), cap = oracle->memory_cap;
    int             rows = 0;
    pdl_status_t    status = check_request(oracle, request);
    if (status) return status;
    pdl_search_t *search = calloc(1, sizeof(*search));
    if (!search) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    while (pdl_strategy_at(rows) != NULL) rows++;
    search->candidates = calloc((size_t)rows, sizeof(*search->candidates));
    if (!search->candidates) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!status)
        status =
            pdl__choose_batch(oracle, request, &search->batch, search->batch_reason, sizeof(search->batch_reason));
    chosen.batch = search->batch;
    if (request->max_memory > 0) oracle->memory_cap = cap_of(oracle, request->max_memory);
    if (!status) status = request->strategy == NULL ? pdl__search_all(&s, search, rows) : search_one(&s, search);
    pdl__shortlist_free(&s.shortlist);
    if (!status && request->exact != NULL) status = pdl__search_exactly(&s, search);
    if (!status) pdl_search_rank(search);
    if (!status && request->memory != NULL && oracle->system->backend != NULL)
        status = pdl__count_memory(&s, search);
    oracle->memory_cap = cap;
    if (status) {
        pdl_search_destroy(search);
        return status;
    }
    search->configurations = s.configurations;
    search->seconds = pdl__seconds() - begin;
    search->not_replayed = s.not_replayed;
    search->stopped = atomic_load(&patience.stopped);
    certify(&s, search);
    *out = search;
    return PDL_OK;
}

pdl_status_t pdl_search_run(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **out)
{
    return request->precision_count > 0 ? pdl__search_precisions(oracle, request, out)
                                        : pdl__search_precision(oracle, request, out);
}

void pdl_search_destroy(pdl_search_t *search)
{
    if (!search) return;
    free(search->precisions);
    for (int i = 0; i < search->count; i++) pdl_plan_destroy(search->candidates[i].plan);
    pdl_exact_destroy(search->exact);
    free(search->candidates);
    free(search);
}
