/*
 * Search over strategies: enumerates the meshes of each preset at a number of devices, with the policies that
 * trade time for memory, and ranks the best of each (docs/oracle.md, "Search").
 */
#include "base/clock.h"
#include "oracle/search/searcher.h"
#include <math.h>
#include <paradl/oracle/exact.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_goal_names[PDL_GOAL_COUNT] = {"time", "memory", "cost", "energy"};

enum {
    /* of one strategy, besides its likeliest configuration */
    MOST_PASSES = 400000,
    MOST_REPLAYS = 16,
    /* of a pipeline */
    MOST_MICRO_BATCH = 16,
    MOST_VIRTUAL_STAGES = 4
};

/* By how much a configuration must look better than the latest that was replayed to be replayed before the others are known. */
#define NOTABLY 0.9

pdl_request_t pdl_request_default(void)
{
    return (pdl_request_t){.pe = 1, .optimizer = PDL_OPTIMIZER_MOMENTUM, .precision = PDL_FP32};
}

void pdl__score_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    const pdl_dataset_t *data = s->request->dataset;
    double               batch = (double)c->config.batch, pe = (double)s->request->pe;

    c->sample_s = c->projection.total_s / batch;
    c->epoch_s = data && data->samples > 0 ? (double)data->samples * c->sample_s : 0;
    double seconds = c->epoch_s > 0 ? c->epoch_s : c->sample_s;
    switch (s->request->goal) {
    case PDL_GOAL_MEMORY: c->score = c->projection.memory_bytes; break;
    case PDL_GOAL_COST: c->score = c->epoch_s > 0 ? pe * ceil(seconds / 60) : pe * seconds; break;
    case PDL_GOAL_ENERGY: c->score = c->projection.energy_j / batch; break;
    default: c->score = seconds; break;
    }
}

/* Policies cost people something too: a heavier one must be noticeably better to replace a plainer one. */
static bool better_than(const pdl_candidate_t *trial, const pdl_candidate_t *best)
{
    int heavier = (int)(trial->config.sharding + trial->config.recompute) -
                  (int)(best->config.sharding + best->config.recompute);

    return !best->possible || trial->score < best->score * (heavier > 0 ? 0.98 : 1.0);
}

/* The score of a configuration that takes so many seconds, where time decides. */
static double score_of_seconds(const pdl__searcher_t *s, const pdl_config_t *config, double seconds)
{
    const pdl_dataset_t *data = s->request->dataset;
    double               batch = (double)config->batch;

    return seconds * (data && data->samples > 0 ? (double)data->samples : 1) / batch;
}

static bool is_refusal(pdl_status_t status)
{
    return status == PDL_ERR_LIMIT || status == PDL_ERR_INPUT;
}

/* True when a configuration cannot beat the best one that is known to fit. */
static bool hopeless(const pdl__searcher_t *s, const pdl_config_t *config)
{
    double seconds;

    if (s->request->goal != PDL_GOAL_TIME || !s->best->possible || config->pipeline == 1) return false;
    if (pdl__lower_bound(s->oracle, config, &seconds)) return false;
    return score_of_seconds(s, config, seconds) > s->best->score;
}

static void keep(pdl_candidate_t *target, const pdl_candidate_t *trial)
{
    target->possible = trial->projection.fits;
    target->config = trial->config;
    target->projection = trial->projection;
    target->epoch_s = trial->epoch_s;
    target->sample_s = trial->sample_s;
    target->score = trial->score;
}

static int64_t passes_of(const pdl_config_t *config)
{
    return 2 * config->pipeline * config->virtual_stages * config->micro_batches;
}

/* Configurations are ranked by what they take when they are replayed. */
void pdl__replay_config(pdl__searcher_t *s, const pdl_config_t *config)
{
    pdl_candidate_t trial = {.config = *config};
    pdl_status_t    status = pdl__evaluate_replayed(s->oracle, config, s->request->dataset, &trial.projection);

    s->replays++;
    s->passes += passes_of(config);
    if (status) {
        s->status = status;
        return;
    }
    pdl__score_candidate(s, &trial);
    if (better_than(&trial, s->best)) keep(s->best, &trial);
}

/* The least score that replaying a configuration can give; 0 where that is not known. */
static double least_score(const pdl__searcher_t *s, const pdl_config_t *config)
{
    double seconds;

    if (s->request->goal != PDL_GOAL_TIME || pdl__replay_bound(s->oracle, config, &seconds)) return 0;
    return score_of_seconds(s, config, seconds);
}

/* What fits is replayed at once if the formulas say that it is notably better than what was, so that there is something to
   beat; if its bound leaves it a chance, its turn comes later. */
static void shortlist(pdl__searcher_t *s, const pdl_candidate_t *trial, double least)
{
    pdl__short_t entry = {.config = trial->config, .likely = trial->score, .least = least};

    if (entry.likely < NOTABLY * s->likely) {
        s->likely = entry.likely;
        pdl__replay_config(s, &trial->config);
        return;
    }
    pdl_status_t status = pdl__shortlist_add(&s->shortlist, &entry);
    if (status) s->status = status;
}

static void replay_shortlist(pdl__searcher_t *s)
{
    pdl__shortlist_sort(&s->shortlist);
    for (int i = 0; i < s->shortlist.count && !s->status; i++) {
        const pdl__short_t *entry = &s->shortlist.entries[i];

        if (s->best->possible && entry->least >= s->best->score) continue;
        if (i > 0 && (s->replays >= MOST_REPLAYS || s->passes + passes_of(&entry->config) > MOST_PASSES))
            s->not_replayed++;
        else
            pdl__replay_config(s, &entry->config);
    }
    s->shortlist.count = 0;
}

/* That, given the least for all shardings, of this one. */
static double least_with_gathers(const pdl__searcher_t *s, const pdl_config_t *config, double least)
{
    double seconds;

    if (least <= 0 || config->sharding != PDL_SHARDING_ZERO3 || pdl__gather_bound(s->oracle, config, &seconds))
        return least;
    return fmax(least, score_of_seconds(s, config, seconds));
}

/* Evaluates a configuration, whose score is at least `least`, and lists it if it may be the best; true when it fits in memory. */
static bool consider(pdl__searcher_t *s, const pdl_config_t *config, double least)
{
    pdl_candidate_t trial = {.config = *config};

    s->configurations++;
    least = least_with_gathers(s, config, least);
    if (s->best->possible && least >= s->best->score) return false;
    /* What does not fit is of interest only as long as nothing does. */
    bool fits = true;
    if (s->best->possible && (pdl__fits(s->oracle, config, &fits) || !fits)) return false;
    pdl_status_t status = pdl_oracle_evaluate(s->oracle, config, s->request->dataset, &trial.projection);
    if (is_refusal(status)) {
        if (!s->any) snprintf(s->best->reason, sizeof(s->best->reason), "%s", pdl_error_message());
        return false;
    }
    if (status) {
        s->status = status;
        return false;
    }
    s->any = true;
    pdl__score_candidate(s, &trial);
    if (trial.projection.fits)
        shortlist(s, &trial, least);
    else if (s->leanest.config.batch == 0 || trial.projection.memory_bytes < s->leanest.projection.memory_bytes)
        keep(&s->leanest, &trial);
    return trial.projection.fits;
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
    double least = least_score(s, &config); /* for every sharding */
    fit_t  fit = consider(s, &config, least) ? FITS_PLAIN : NO_FIT;
    if (s->request->run_mode == PDL_INFERENCE) return fit;
    if (fit == FITS_PLAIN) {
        config.sharding = PDL_SHARDING_ZERO1;
        if (config.data > 1) consider(s, &config, least);
        return fit;
    }
    for (size_t r = 0; r < sizeof(recomputes) / sizeof(recomputes[0]); r++) {
        if (recomputes[r] == PDL_RECOMPUTE_SELECTIVE && s->oracle->p.fused_attention) continue;
        config.recompute = recomputes[r];
        if (r > 0) least = least_score(s, &config);
        for (int z = PDL_SHARDING_NONE; z < (config.data > 1 ? PDL_SHARDING_COUNT : PDL_SHARDING_ZERO1); z++) {
            config.sharding = (pdl_sharding_t)z;
            if (!consider(s, &config, least)) continue;
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
        if (s->best->possible && pdl__parts_take_longer(s->oracle, s->request->precision) &&
            least_score(s, &config) >= s->best->score)
            return;
    }
}

/* Whether no pipeline of a mesh can win, by its largest micro-batch alone: in smaller ones a sample takes no less, and even one
   sample after the other is behind the first stages for a while. */
static bool hopeless_mesh(const pdl__searcher_t *s, pdl_config_t config, int64_t samples, int64_t largest)
{
    double seconds, stages = (double)config.pipeline;

    if (s->request->goal != PDL_GOAL_TIME || !s->best->possible ||
        !pdl__parts_take_longer(s->oracle, s->request->precision))
        return false;
    config.micro_batches = samples / largest;
    config.schedule = PDL_SCHEDULE_1F1B;
    config.virtual_stages = 1;
    if (pdl__lower_bound(s->oracle, &config, &seconds)) return false;
    double stage_s = seconds / ((double)config.micro_batches + stages - 1);
    double sample_s = stage_s / ceil((double)samples / (double)config.micro_batches);
    return score_of_seconds(s, &config, sample_s * ((double)samples + (stages - 1) / MOST_VIRTUAL_STAGES)) >
           s->best->score * (1 + 1e-9);
}

static void consider_pipeline(pdl__searcher_t *s, pdl_config_t config, bool lost)
{
    if (lost)
        s->configurations++;
    else
        consider_policies(s, config);
}

/* Micro-batches: sizes 1, 2, 4 ... samples, each schedule. */
static void consider_pipelines(pdl__searcher_t *s, pdl_config_t config)
{
    int64_t samples = (config.batch + config.data - 1) / config.data, largest = 1,
            asked = s->request->micro_batches;

    if (asked > 0 && !has_parts(s, asked, samples)) return;
    while (2 * largest <= samples && 2 * largest <= MOST_MICRO_BATCH) largest *= 2;
    bool lost = hopeless_mesh(s, config, samples, largest);
    for (int64_t micro = 1; micro <= largest; micro *= 2) {
        config.micro_batches = (samples + micro - 1) / micro;
        if (s->request->micro_batches > 0 && s->request->micro_batches != config.micro_batches) continue;
        config.schedule = PDL_SCHEDULE_1F1B;
        config.virtual_stages = 1;
        consider_pipeline(s, config, lost);
        if (config.micro_batches % config.pipeline) continue;
        config.schedule = PDL_SCHEDULE_INTERLEAVED;
        for (config.virtual_stages = 2; config.virtual_stages <= MOST_VIRTUAL_STAGES; config.virtual_stages *= 2)
            if (config.pipeline * config.virtual_stages < pdl_model_layer_count(s->oracle->model))
                consider_pipeline(s, config, lost);
    }
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

static void consider_mesh(pdl__searcher_t *s, pdl_config_t config)
{
    if (!can_split(s, &config)) return;
    if (config.pipeline == 1) {
        consider_accumulation(s, config);
        return;
    }
    consider_pipelines(s, config);
    config.order = PDL_ORDER_DATA_PIPELINE_INNER;
    if (config.data > 1) consider_pipelines(s, config);
}

/* The only mesh of a strategy with one axis is shown even when it is not possible. */
static void show_mesh(pdl__searcher_t *s, const pdl_strategy_t *strategy)
{
    pdl_strategy_mesh_t mesh = {0};

    if (pdl_strategy_is_hybrid(strategy) || !pdl_strategy_next_mesh(strategy, s->request->pe, 0, &mesh)) return;
    s->best->config = config_on(s, strategy, &mesh);
    s->best->config.batch = 0;
}

/* Meshes whose inner axis is too large for some layer are left out. */
static void enumerate(pdl__searcher_t *s, const pdl_strategy_t *strategy)
{
    const pdl_model_t   *model = s->oracle->model;
    pdl_preset_options_t options = {.published = s->oracle->p.published_forms,
                                    .spatial_until = s->request->spatial_until};
    int                  layer;
    int64_t              limit = pdl_preset_limit(model, strategy, &options, &layer);
    pdl_strategy_mesh_t  mesh = {0};

    while (pdl_strategy_next_mesh(strategy, s->request->pe, pdl_model_layer_count(model), &mesh) && !s->status)
        if (mesh.inner <= limit) consider_mesh(s, config_on(s, strategy, &mesh));
}

static void describe_memory(pdl__searcher_t *s)
{
    char    need[PDL_FORMAT_SIZE], have[PDL_FORMAT_SIZE], count[PDL_FORMAT_SIZE];
    double  cap = pdl__memory_room(s->oracle, s->leanest.config.pipeline);
    int64_t batch = 0;

    snprintf(s->best->reason, sizeof(s->best->reason), "needs %s per device at the least, of %s",
             pdl_format_bytes(s->leanest.projection.memory_bytes, need), pdl_format_bytes(cap, have));
    if (!pdl_oracle_largest_batch(s->oracle, &s->leanest.config, &batch) && batch > 0)
        snprintf(s->best->reason, sizeof(s->best->reason),
                 "needs %s per device at the least, of %s; a batch of %s fits", need, have,
                 pdl_format_count(batch, count));
    s->best->config = s->leanest.config;
    s->best->projection = s->leanest.projection;
    s->best->epoch_s = s->leanest.epoch_s;
    s->best->sample_s = s->leanest.sample_s;
}

pdl_status_t pdl__time_candidate(const pdl__searcher_t *s, pdl_candidate_t *c)
{
    pdl_status_t status = pdl_oracle_settle(s->oracle, c->plan);

    if (!status) status = pdl_oracle_replay(s->oracle, c->plan, s->request->dataset, &c->projection);
    if (!status) pdl__score_candidate(s, c);
    return status;
}

pdl_status_t pdl__finish_candidate(pdl__searcher_t *s)
{
    pdl_candidate_t *best = s->best;

    if (!best->possible && s->any) describe_memory(s);
    if (!best->possible && !s->any) pdl__describe_refusal(s);
    if (!best->possible) return PDL_OK;
    pdl_status_t status = PDL_OK;
    if (!best->plan) {
        status = pdl_oracle_plan(s->oracle, &best->config, &best->plan);
        if (!status) status = pdl_oracle_largest_batch(s->oracle, &best->config, &best->largest_batch);
    }
    if (!status) status = pdl__time_candidate(s, best);
    /* Of single layers no policies were tried. */
    if (!status && !best->config.strategy->per_layer) status = pdl__advise(s);
    return status;
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
    if (!s->status) replay_shortlist(s);
    return s->status ? s->status : pdl__finish_candidate(s);
}

static pdl_status_t check_request(const pdl_oracle_t *oracle, const pdl_request_t *r)
{
    if (r->pe < 1) return pdl_error(PDL_ERR_INPUT, "%lld devices: at least 1", (long long)r->pe);
    if (r->pe > oracle->system->pe_count)
        return pdl_error(PDL_ERR_INPUT, "%lld devices, but system %s has only %lld", (long long)r->pe,
                         oracle->system->name, (long long)oracle->system->pe_count);
    return PDL_OK;
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

pdl_status_t pdl_search_run(pdl_oracle_t *oracle, const pdl_request_t *request, pdl_search_t **out)
{
    pdl_request_t   chosen = *request;
    pdl__searcher_t s = {.oracle = oracle, .request = &chosen};
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
    search->certified = s.not_replayed == 0 && (search->exact == NULL || search->exact->certified);
    *out = search;
    return PDL_OK;
}

void pdl_search_destroy(pdl_search_t *search)
{
    if (!search) return;
    for (int i = 0; i < search->count; i++) pdl_plan_destroy(search->candidates[i].plan);
    pdl_exact_destroy(search->exact);
    free(search->candidates);
    free(search);
}
