/*
 * paradl plan: projects every strategy, ranks them and writes the best plan.
 */
#include "cli/plan/plan.h"
#include "cli/plan/policy.h"

#include <paradl/data/data.h>
#include <paradl/oracle/framework.h>
#include <paradl/report/export.h>
#include <paradl/report/report.h>
#include <paradl/train/dry.h>
#include <paradl/validate/orig.h>

#include <limits.h>
#include <stdlib.h>

#include <string.h>

/* Tokens are counted in windows of the model's sequence, which are not those of the description. */
static void note_windows(const pdl__plan_asked_t *v, const pdl_dataset_t *dataset)
{
    pdl_dataset_t stored;
    char          before[PDL_FORMAT_SIZE], after[PDL_FORMAT_SIZE];

    if (!dataset->tokens || pdl_data_describe(v->data, NULL, &stored) ||
        stored.shape.extent[0] == dataset->shape.extent[0])
        return;
    fprintf(stderr, "paradl: note: %s samples of %lld tokens in %s are %s of the %lld that %s reads\n",
            pdl_format_count(stored.samples, before), (long long)stored.shape.extent[0], v->data,
            pdl_format_count(dataset->samples, after), (long long)dataset->shape.extent[0], v->model);
}

/* 0: the search chooses, and not more than there are samples. */
static int64_t asked_batch(const pdl__plan_asked_t *v)
{
    if (v->batch > 0) return v->batch;
    return v->samples_per_pe > INT64_MAX / v->pe ? INT64_MAX : v->samples_per_pe * v->pe;
}

static pdl_status_t load_data(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    pdl_status_t status = pdl_data_describe(v->data, q->model, &q->dataset);

    if (!status) status = pdl_dataset_check(q->model, &q->dataset, v->mode == PDL_TRAINING);
    if (!status) status = pdl_dataset_check_batch(q->dataset.name, q->dataset.samples, asked_batch(v));
    if (!status) note_windows(v, &q->dataset);
    return status;
}

/* More memory than a device has is no limit, and plans that need it would be of no use. */
static pdl_status_t check_device(const pdl__plan_asked_t *v, const pdl_system_t *system)
{
    char asked[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE];

    const pdl_device_t *largest = &system->device;

    for (int i = 0; i < system->part_count; i++)
        if (system->part[i].device.memory_bytes > largest->memory_bytes) largest = &system->part[i].device;
    if (v->max_memory > largest->memory_bytes)
        return pdl_error(PDL_ERR_INPUT, "--max-memory %s is more than the %s of %s: lower it or leave it out",
                         pdl_format_bytes(v->max_memory, asked), pdl_format_bytes(largest->memory_bytes, has),
                         largest->name);
    /* Of several those that the device has are searched. */
    return v->precision.count > 1 ? PDL_OK
                                  : pdl_system_check_precision(system, (pdl_precision_t)v->precision.index[0]);
}

static pdl_status_t read_strategy(const char *name, const pdl_strategy_t **strategy)
{
    *strategy = strcmp(name, "all") != 0 ? pdl_strategy_find(name) : NULL;
    return *strategy != NULL || strcmp(name, "all") == 0 ? PDL_OK : PDL_ERR_INPUT;
}

static pdl_status_t load(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    pdl_lora_t   lora;
    pdl_status_t status = pdl__lora_of(&v->lora, &lora);
    int          until;

    if (!status) status = pdl__load_model(v->model, v->sequence, &lora, &q->model);
    q->request = pdl_request_default();
    if (!status) status = read_strategy(v->strategy, &q->request.strategy);
    if (!status) pdl__print_remarks(q->model);
    if (!status) status = pdl_system_load_changed(v->system, v->set.text, v->set.count, &q->system);
    if (!status && v->spatial_until != NULL) status = pdl_model_seek_layer(q->model, v->spatial_until, &until);
    if (!status) status = check_device(v, q->system);
    if (!status && v->data != NULL) status = load_data(v, q);
    if (!status) status = pdl__plan_training(v, q);
    if (!status && v->measured != NULL) status = pdl_measured_run_read(v->measured, &q->run);
    q->request.dataset = v->data != NULL ? &q->dataset : NULL;
    q->request.pe = v->pe;
    q->request.batch = v->batch;
    q->request.samples_per_pe = v->samples_per_pe;
    q->request.micro_batches = v->micro_batches;
    q->request.goal = (pdl_goal_t)v->goal;
    q->request.optimizer = (pdl_optimizer_t)v->optimizer;
    q->request.precision = (pdl_precision_t)v->precision.index[0];
    for (int i = 0; i < v->precision.count; i++) q->precisions[i] = (pdl_precision_t)v->precision.index[i];
    q->request.precisions = q->precisions;
    q->request.precision_count = v->precision.count > 1 ? v->precision.count : 0;
    q->request.run_mode = (pdl_run_mode_t)v->mode;
    q->request.spatial_until = v->spatial_until;
    q->request.max_memory = v->max_memory;
    q->request.top = v->top;
    return status;
}

static void unload(pdl__plan_question_t *q)
{
    pdl_model_destroy(q->model);
    pdl_system_destroy(q->system);
}

/* The candidate that is nearest to fitting; NULL: memory is in the way of none. */
static const pdl_candidate_t *nearest_to_fit(const pdl_search_t *search)
{
    const pdl_candidate_t *nearest = NULL;

    for (int i = 0; i < search->count; i++) {
        const pdl_candidate_t *c = &search->candidates[i];
        if (c->possible || c->projection.memory_bytes <= 0 || c->projection.fits) continue;
        if (nearest == NULL || c->projection.memory_bytes < nearest->projection.memory_bytes) nearest = c;
    }
    return nearest;
}

/* Which constraint leaves no plan, and by how much the closest misses it. There is no oracle to ask for formulas of the study. */
static pdl_status_t refuse_all(const pdl__plan_asked_t *v, const pdl_plan_report_t *report, pdl_oracle_t *oracle)
{
    const pdl_candidate_t *nearest = nearest_to_fit(report->search);
    double                 room = v->max_memory > 0 ? v->max_memory : report->system->device.memory_bytes;
    char                   needs[PDL_FORMAT_SIZE], more[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE];

    char closest[160] = "";

    if (nearest == NULL || nearest->projection.memory_bytes <= room) {
        pdl_status_t status =
            oracle != NULL ? pdl_search_closest(oracle, report->request, closest, sizeof(closest)) : PDL_OK;
        if (status) return status;
        return pdl_error(PDL_ERR_LIMIT, "no strategy is possible on %lld devices: %s%ssee the reasons above",
                         (long long)v->pe, closest, closest[0] != '\0' ? "; " : "");
    }
    return pdl_error(
        PDL_ERR_LIMIT,
        "no strategy is possible on %lld devices within %s %s: the closest, %s, needs %s, %s more; see "
        "the reasons above",
        (long long)v->pe, v->max_memory > 0 ? "--max-memory" : "the memory of a device,",
        pdl_format_bytes(room, has), nearest->config.strategy->name,
        pdl_format_bytes(nearest->projection.memory_bytes, needs),
        pdl_format_bytes(nearest->projection.memory_bytes - room, more));
}

/* The reason of the only strategy; where that is not memory, which it says in bytes, with the closest number that has a plan. */
static pdl_status_t refuse_one(const pdl__plan_asked_t *v, const pdl_plan_report_t *report, pdl_oracle_t *oracle)
{
    const pdl_candidate_t *c = &report->search->candidates[0];
    char                   closest[160] = "";
    pdl_status_t           status = PDL_OK;

    if (c->projection.memory_bytes <= 0 && oracle != NULL)
        status = pdl_search_closest(oracle, report->request, closest, sizeof(closest));
    if (status) return status;
    return pdl_error(PDL_ERR_LIMIT, "%s on %lld devices is not possible: %s%s%s", c->config.strategy->name,
                     (long long)v->pe, c->reason, closest[0] != '\0' ? "; " : "", closest);
}

/* Nothing possible is a refusal. The reasons of several strategies need the table, that of one fits in a line. */
static pdl_status_t show(const pdl__plan_asked_t *v, const pdl_plan_report_t *report, pdl_oracle_t *oracle)
{
    const pdl_search_t *search = report->search;
    pdl_status_t        status = PDL_OK;

    if (v->json)
        status = pdl_report_plan_json(report, stdout);
    else if (search->possible > 0 || search->count > 1)
        status = pdl_report_plan(report, stdout);
    if (status || search->possible > 0) return status;
    if (search->count == 1) return refuse_one(v, report, oracle);
    return refuse_all(v, report, oracle);
}

/* What is said and written about the best candidates. */
static pdl_status_t answer(const pdl__plan_asked_t *v, const pdl__plan_question_t *q, pdl_oracle_t *oracle,
                           pdl_plan_report_t *report, pdl_search_t *search)
{
    char               explanation[4096];
    pdl__plan_policy_t policy = {.rows = NULL};
    pdl_sensitivity_t  sensitivity;
    pdl_timeline_t    *timeline = NULL;
    pdl_status_t       status = PDL_OK;

    if (search->possible > 0 && v->data_policy != NULL) {
        status =
            pdl__plan_policy_project(&policy, v->data_policy, v->exchange_bandwidth, oracle, &q->request, search);
        if (!status && v->explain) pdl__plan_policy_explain(&policy);
        report->policy = &policy.report;
    }
    if (!status && v->explain && search->possible > 0) {
        status = pdl_search_explain(oracle, &q->request, search, explanation, sizeof(explanation));
        report->explanation = explanation;
        if (!status) status = pdl_search_sensitivity(oracle, &q->request, search, &sensitivity);
        report->sensitivity = &sensitivity;
    }
    if (!status && v->output != NULL && v->export_name == NULL && search->possible > 0)
        status = pdl__plan_write(v, &search->candidates[0], v->output);
    if (!status && (v->trace != NULL || v->layers) && search->possible > 0)
        status = pdl_oracle_timeline(oracle, search->candidates[0].plan, &timeline);
    if (!status && v->trace != NULL && timeline != NULL) status = pdl__plan_write_trace(v->trace, timeline);
    report->timeline = v->layers ? timeline : NULL;
    if (!status) status = show(v, report, oracle);
    if (!status && v->export_name != NULL)
        status = pdl__plan_export(v, q->system, &q->parameters, &search->candidates[0]);
    pdl_timeline_destroy(timeline);
    pdl__plan_policy_free(&policy);
    return status;
}

static pdl_status_t search_with(const pdl__plan_asked_t *v, const pdl__plan_question_t *q, pdl_oracle_t *oracle)
{
    pdl_plan_report_t   report = {.model = q->model,
                                  .model_name = v->model,
                                  .system = q->system,
                                  .dataset = q->request.dataset,
                                  .request = &q->request,
                                  .formulas = "paradl",
                                  .parameters = q->parameters.name,
                                  .framework = q->parameters.framework,
                                  .plan_path = v->export_name == NULL ? v->output : NULL,
                                  .top = v->top};
    pdl_exact_options_t exact;
    pdl_request_t       request = q->request;
    pdl_search_t       *search;
    pdl_ownership_t     cost;
    pdl_status_t        status = pdl__plan_search(v, q->system, oracle, &request, &exact, &search);

    if (status) return status;
    if (search->possible > 0) request.precision = search->candidates[0].config.precision;
    report.request = &request;
    report.search = search;
    report.ownership = pdl__plan_own(q, search, &cost);
    report.training = q->training;
    report.measured = v->measured != NULL ? &q->run : NULL;
    status = answer(v, q, oracle, &report, search);
    pdl_search_destroy(search);
    return status;
}

static pdl_status_t run_paradl(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    pdl_oracle_t         *oracle = NULL;
    pdl_memory_counter_t *counter = NULL;
    pdl_status_t          status = pdl_framework_choose(v->framework, v->parameters, q->system, &q->parameters);

    if (!status) status = pdl_parameters_change(v->with.text, (size_t)v->with.count, &q->parameters);
    /* What is exported is to be run by that framework. */
    if (v->export_name != NULL && !pdl_export_has_zero_bubble(v->export_name))
        q->parameters.zero_bubble = q->parameters.offload_activations = false;
    if (!status && v->range[1] > v->range[0]) return pdl__plan_sweep(v, q);
    if (!status) status = pdl_oracle_create(q->model, q->system, &q->parameters, &oracle);
    if (!status) status = pdl_memory_counter_create(q->system, v->pe, &counter);
    q->request.memory = pdl_memory_counter_count;
    q->request.memory_context = counter;
    if (!status) status = search_with(v, q, oracle);
    pdl_memory_counter_destroy(counter);
    pdl_oracle_destroy(oracle);
    return status;
}

/* The program counts the samples that its table names, so the table comes before --data. */
static void use_table_samples(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    int64_t samples = pdl_model_table_samples(q->model);

    if (v->data != NULL && q->dataset.samples != samples)
        fprintf(stderr,
                "paradl: note: the layer table says %lld samples, which is used instead of the %lld of %s\n",
                (long long)samples, (long long)q->dataset.samples, v->data);
    if (v->data == NULL) snprintf(q->dataset.name, sizeof(q->dataset.name), "layer table");
    q->dataset.samples = samples;
    q->request.dataset = &q->dataset;
}

static pdl_status_t run_orig(const pdl__plan_asked_t *v, pdl__plan_question_t *q)
{
    pdl_orig_case_t   question = {.model = q->model,
                                  .system = q->system,
                                  .pe = v->pe,
                                  .batch = v->batch,
                                  .groups = v->groups,
                                  .divisor = v->divisor};
    pdl_plan_report_t report = {.model = q->model,
                                .model_name = v->model,
                                .system = q->system,
                                .dataset = &q->dataset,
                                .request = &q->request,
                                .formulas = "orig",
                                .top = v->top};
    pdl_search_t     *search;
    pdl_status_t      status;

    if (pdl_model_table_samples(q->model) == 0)
        return pdl_error(
            PDL_ERR_INPUT,
            "--formulas orig needs a layer table, a .net file or one of the models that end in -orig such "
            "as resnet50-orig; %.60s is none",
            v->model);
    use_table_samples(v, q);
    question.dataset_samples = q->dataset.samples;
    status = pdl_orig_search(&question, v->model, q->request.strategy, v->samples_per_pe, &search);
    if (status) return status;
    report.search = search;
    status = show(v, &report, NULL);
    pdl_search_destroy(search);
    return status;
}

static pdl_status_t run(const void *given, const pdl__operands_t *operands)
{
    pdl__plan_asked_t        asked = *(const pdl__plan_asked_t *)given;
    const pdl__plan_asked_t *v = &asked;
    pdl__plan_question_t     q = {.model = NULL};
    pdl_status_t             status = pdl__plan_check(v);

    (void)operands;
    asked.pe = asked.range[1];
    if (!status && v->data_policy != NULL) status = pdl__plan_policy_check(v->data_policy);
    if (!status) status = load(v, &q);
    if (!status) status = v->formulas == PDL__FORMULAS_ORIG ? run_orig(v, &q) : run_paradl(v, &q);
    unload(&q);
    return status;
}

const pdl__command_t pdl__plan_commands[] = {
    {.name = "plan",
     .usage = "--model M --system S --devices P [--data D] [--batch B | --samples-per-device N] [options]",
     .summary = "projects every parallel strategy, says what limits each, ranks them and writes the best plan",
     .options = pdl__plan_options,
     .values = sizeof(pdl__plan_asked_t),
     .run = run},
    {.name = NULL},
};
