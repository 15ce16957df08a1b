/*
 * paradl plan: projects every strategy, ranks them and writes the best plan.
 */
#include "cli/commands.h"
#include "cli/plan_policy.h"

#include <paradl/data/data.h>
#include <paradl/oracle/framework.h>
#include <paradl/report/report.h>
#include <paradl/train/dry.h>
#include <paradl/validate/orig.h>

#include <limits.h>
#include <stdlib.h>

#include <string.h>

enum { FORMULAS_PARADL, FORMULAS_ORIG, FORMULAS_COUNT };
static const char *const formula_names[FORMULAS_COUNT] = {"paradl", "orig"};
static const char *const mode_names[] = {[PDL_TRAINING] = "training", [PDL_INFERENCE] = "inference"};

typedef struct values {
    const char *model, *system, *data, *strategy, *framework, *parameters, *spatial_until, *output, *trace,
        *data_policy;
    int64_t pe, batch, samples_per_pe, micro_batches, top, groups, sequence;
    double  max_memory, divisor, exchange_bandwidth;
    int     goal, formulas, mode, precision, optimizer;
    bool    explain, json, layers;
} values_t;

#define TEXT(field)                 PDL__TEXT(values_t, field)
#define CHOICE(field, names, count) PDL__CHOICE(values_t, field, names, count)

static const pdl__option_t options[] = {
    {"model", "M", NULL, "name of a model, or a .yaml, .onnx or .net file, or a config.json of Hugging Face",
     TEXT(model), .required = true, .group = "What is planned"},
    {"system", "S", NULL, "name of a system, or a .yaml file", TEXT(system), .required = true},
    {"devices", "P", NULL, "number of devices", PDL__INT(values_t, pe, 1), .required = true, .letter = 'n',
     .also = "pe"},
    {"data", "D", NULL,
     "name of a data set, a .yaml file, or files of samples as train reads them; without it there are no epochs",
     TEXT(data)},
    {"batch", "B", NULL, "samples per weight update, over all devices", PDL__INT(values_t, batch, 1)},
    {"samples-per-device", "N", NULL,
     "the batch is this many times the devices; else 64, fewer where samples are large (16 M values, 8,192 tokens)",
     PDL__INT(values_t, samples_per_pe, 1), .also = "samples-per-pe"},
    {"micro-batches", "N", NULL,
     "of a replica: gradient accumulation or those of a pipeline, exactly so many; else as many as are best",
     PDL__INT(values_t, micro_batches, 1)},
    {"sequence", "N", NULL, "tokens of a sample, of a causal language model; else as the model says",
     PDL__INT(values_t, sequence, 1)},
    {"mode", "MODE", "training", "what the devices do", CHOICE(mode, mode_names, 2)},
    {"precision", "TYPE", "fp32", "of activations and weights",
     CHOICE(precision, pdl_precision_names, PDL_PRECISION_COUNT)},
    {"optimizer", "NAME", "momentum", "what updates the weights",
     CHOICE(optimizer, pdl_optimizer_names, PDL_OPTIMIZER_COUNT)},
    {"strategy", "NAME", "all",
     "all, mixed, serial, data, spatial, filter, channel, tensor, pipeline, data+filter, data+channel, "
     "data+spatial, data+tensor, data+pipeline or 3d",
     TEXT(strategy), .group = "Search"},
    {"goal", "GOAL", "time", "what is best", CHOICE(goal, pdl_goal_names, PDL_GOAL_COUNT)},
    {"max-memory", "X", NULL, "memory of a device that may be used, such as 12GiB",
     PDL__POSITIVE(values_t, max_memory, PDL_UNIT_BYTES)},
    {"top", "K", "0", "shows only the K best; 0: all", PDL__INT(values_t, top, 0)},
    {"explain", NULL, NULL, "says why the best wins and what would have to change for the second to win",
     PDL__FLAG(values_t, explain)},
    {"formulas", "WHICH", "paradl", "cost model", CHOICE(formulas, formula_names, FORMULAS_COUNT),
     .group = "Cost model"},
    {"framework", "NAME", NULL,
     "what trains: pytorch, pytorch-compile, megatron, ... or a .yaml file; else an ideal framework, or the "
     "one that "
     "the system was measured with",
     TEXT(framework)},
    {"parameters", "NAME", NULL, "parameter set of the cost model; else that of the framework or of the system",
     TEXT(parameters)},
    {"spatial-until", "LAYER", NULL, "last layer that is split in space", TEXT(spatial_until)},
    {"groups", "N", NULL, "--formulas orig: groups of the hybrids; else a group is a node",
     PDL__INT(values_t, groups, 1)},
    {"divisor", "X", NULL,
     "--formulas orig: what contention divides the bandwidth by; else twice the devices of a group",
     PDL__POSITIVE(values_t, divisor, PDL_UNIT_NONE)},
    {"data-policy", "TEXT", NULL,
     "how samples reach the workers: global, local, partial:Q or paired:Q, then ,hide:F ,mean:F ,refresh:EPOCHS "
     ",store:pfs or ,store:local; all compares",
     TEXT(data_policy), .group = "Data policy"},
    {"exchange-bandwidth", "RATE", NULL,
     "--data-policy: at which a worker exchanges samples, as simulated or measured; else projected",
     PDL__POSITIVE(values_t, exchange_bandwidth, PDL_UNIT_BYTE_RATE)},
    {"output", "PLAN.yaml", NULL, "writes the best plan to a file", TEXT(output), .letter = 'o', .writes = true,
     .group = "Output"},
    {"trace", "FILE", NULL, "writes the projected timeline of the best plan, for Perfetto or chrome://tracing",
     TEXT(trace), .writes = true},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {"layers", NULL, NULL, "--json: with what every layer of the best plan takes", PDL__FLAG(values_t, layers)},
    {.name = NULL},
};

/* What was loaded for one request. */
typedef struct question {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_dataset_t       dataset;
    pdl_parameters_t    parameters;
    pdl_request_t       request;
} question_t;

static pdl_status_t check_values(const values_t *v)
{
    if (v->batch > 0 && v->samples_per_pe > 0)
        return pdl_error(PDL_ERR_INPUT, "--batch and --samples-per-device exclude each other");
    if (v->sequence > 0 && v->output != NULL)
        return pdl_error(PDL_ERR_INPUT,
                         "a plan names its model, which has sequences of another length: write one with paradl "
                         "model import %s --sequence %lld -o MODEL.yaml and plan with that",
                         v->model, (long long)v->sequence);
    if (v->formulas != FORMULAS_ORIG && (v->groups > 0 || v->divisor > 0))
        return pdl_error(PDL_ERR_INPUT, "--groups and --divisor need --formulas orig");
    if (v->formulas == FORMULAS_ORIG &&
        (v->output != NULL || v->trace != NULL || v->explain || v->layers || v->max_memory > 0))
        return pdl_error(
            PDL_ERR_INPUT,
            "--formulas orig only projects: leave out -o, --trace, --explain, --layers and --max-memory");
    if (v->layers && !v->json) return pdl_error(PDL_ERR_INPUT, "--layers is a part of the document: add --json");
    if (v->formulas == FORMULAS_ORIG && v->framework != NULL)
        return pdl_error(PDL_ERR_INPUT, "--formulas orig knows no frameworks: leave out --framework");
    if (v->exchange_bandwidth > 0 && v->data_policy == NULL)
        return pdl_error(PDL_ERR_INPUT, "--exchange-bandwidth needs --data-policy");
    if (v->data_policy != NULL && v->data == NULL)
        return pdl_error(PDL_ERR_INPUT, "--data-policy needs a data set: name one with --data");
    if (v->data_policy != NULL && (v->formulas == FORMULAS_ORIG || v->mode == PDL_INFERENCE))
        return pdl_error(PDL_ERR_INPUT, "--data-policy is about training with --formulas paradl");
    return PDL_OK;
}

/* Tokens are counted in windows of the model's sequence, which are not those of the description. */
static void note_windows(const values_t *v, const pdl_dataset_t *dataset)
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
static int64_t asked_batch(const values_t *v)
{
    if (v->batch > 0) return v->batch;
    return v->samples_per_pe > INT64_MAX / v->pe ? INT64_MAX : v->samples_per_pe * v->pe;
}

static pdl_status_t load_data(const values_t *v, question_t *q)
{
    pdl_status_t status = pdl_data_describe(v->data, q->model, &q->dataset);

    if (!status) status = pdl_dataset_check(q->model, &q->dataset, v->mode == PDL_TRAINING);
    if (!status) status = pdl_dataset_check_batch(q->dataset.name, q->dataset.samples, asked_batch(v));
    if (!status) note_windows(v, &q->dataset);
    return status;
}

/* More memory than a device has is no limit, and plans that need it would be of no use. */
static pdl_status_t check_device(const values_t *v, const pdl_system_t *system)
{
    char asked[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE];

    if (v->max_memory > system->device.memory_bytes)
        return pdl_error(PDL_ERR_INPUT, "--max-memory %s is more than the %s of %s: lower it or leave it out",
                         pdl_format_bytes(v->max_memory, asked), pdl_format_bytes(system->device.memory_bytes, has),
                         system->device.name);
    return pdl_system_check_precision(system, (pdl_precision_t)v->precision);
}

static pdl_status_t read_strategy(const char *name, const pdl_strategy_t **strategy)
{
    *strategy = strcmp(name, "all") != 0 ? pdl_strategy_find(name) : NULL;
    return *strategy != NULL || strcmp(name, "all") == 0 ? PDL_OK : PDL_ERR_INPUT;
}

static pdl_status_t load(const values_t *v, question_t *q)
{
    pdl_status_t status = pdl__load_model(v->model, v->sequence, &q->model);
    int          until;

    q->request = pdl_request_default();
    if (!status) status = read_strategy(v->strategy, &q->request.strategy);
    if (!status) pdl__print_remarks(q->model);
    if (!status) status = pdl_system_load(v->system, &q->system);
    if (!status && v->spatial_until != NULL) status = pdl_model_seek_layer(q->model, v->spatial_until, &until);
    if (!status) status = check_device(v, q->system);
    if (!status && v->data != NULL) status = load_data(v, q);
    q->request.dataset = v->data != NULL ? &q->dataset : NULL;
    q->request.pe = v->pe;
    q->request.batch = v->batch;
    q->request.samples_per_pe = v->samples_per_pe;
    q->request.micro_batches = v->micro_batches;
    q->request.goal = (pdl_goal_t)v->goal;
    q->request.optimizer = (pdl_optimizer_t)v->optimizer;
    q->request.precision = (pdl_precision_t)v->precision;
    q->request.run_mode = (pdl_run_mode_t)v->mode;
    q->request.spatial_until = v->spatial_until;
    q->request.max_memory = v->max_memory;
    q->request.top = v->top;
    return status;
}

static void unload(question_t *q)
{
    pdl_model_destroy(q->model);
    pdl_system_destroy(q->system);
}

/* A path as the plan has to say it: relative paths are relative to the plan, so one that is elsewhere gets absolute
   ones. Names stay what they are. */
static const char *name_in_plan(const char *plan, const char *name, char path[PATH_MAX])
{
    if (name == NULL || name[0] == '/' || strchr(plan, '/') == NULL) return name;
    if (strchr(name, '/') == NULL && strchr(name, '.') == NULL) return name;
    return realpath(name, path) != NULL ? path : name;
}

static pdl_status_t write_plan(const values_t *v, const pdl_candidate_t *best)
{
    char                    model[PATH_MAX], system[PATH_MAX], data[PATH_MAX];
    const pdl_projection_t *p = &best->projection;
    pdl_plan_projection_t   projection = {.iteration_s = p->total_s,
                                          .low_s = p->low_s,
                                          .high_s = p->high_s,
                                          .compute_s = p->compute_s,
                                          .comm_s = p->comm_s,
                                          .io_s = p->io_s,
                                          .bubble_s = p->bubble_s,
                                          .memory_bytes = p->memory_bytes};
    pdl_output_t           *output;
    pdl_status_t            status = pdl_output_open(v->output, &output);

    if (status) return status;
    status = pdl_plan_write(best->plan, name_in_plan(v->output, v->model, model),
                            name_in_plan(v->output, v->system, system), name_in_plan(v->output, v->data, data),
                            &projection, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

static pdl_status_t write_trace(const char *path, const pdl_timeline_t *timeline)
{
    enum { MOST_RANKS = 64 };
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    pdl_replay_trace(timeline->ranks, timeline->count < MOST_RANKS ? timeline->count : MOST_RANKS,
                     pdl_output_stream(output));
    return pdl_output_close(output);
}

/* Nothing possible is a refusal. The reasons of several strategies need the table, that of one fits in a line. */
static pdl_status_t show(const values_t *v, const pdl_plan_report_t *report)
{
    const pdl_search_t *search = report->search;
    pdl_status_t        status = PDL_OK;

    if (v->json)
        status = pdl_report_plan_json(report, stdout);
    else if (search->possible > 0 || search->count > 1)
        status = pdl_report_plan(report, stdout);
    if (status || search->possible > 0) return status;
    if (search->count == 1)
        return pdl_error(PDL_ERR_LIMIT, "%s on %lld devices is not possible: %s",
                         search->candidates[0].config.strategy->name, (long long)v->pe,
                         search->candidates[0].reason);
    return pdl_error(PDL_ERR_LIMIT, "no strategy is possible on %lld devices: see the reasons above",
                     (long long)v->pe);
}

/* What is said and written about the best candidates. */
static pdl_status_t answer(const values_t *v, const question_t *q, pdl_oracle_t *oracle, pdl_plan_report_t *report,
                           pdl_search_t *search)
{
    char               explanation[4096];
    pdl__plan_policy_t policy = {.rows = NULL};
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
    }
    if (!status && search->possible > 0) status = pdl_oracle_settle(oracle, search->candidates[0].plan);
    if (!status && v->output != NULL && search->possible > 0) status = write_plan(v, &search->candidates[0]);
    if (!status && (v->trace != NULL || v->layers) && search->possible > 0)
        status = pdl_oracle_timeline(oracle, search->candidates[0].plan, &timeline);
    if (!status && v->trace != NULL && timeline != NULL) status = write_trace(v->trace, timeline);
    report->timeline = v->layers ? timeline : NULL;
    if (!status) status = show(v, report);
    pdl_timeline_destroy(timeline);
    pdl__plan_policy_free(&policy);
    return status;
}

static pdl_status_t search_with(const values_t *v, const question_t *q, pdl_oracle_t *oracle)
{
    pdl_plan_report_t report = {.model = q->model,
                                .model_name = v->model,
                                .system = q->system,
                                .dataset = q->request.dataset,
                                .request = &q->request,
                                .formulas = "paradl",
                                .parameters = q->parameters.name,
                                .framework = q->parameters.framework,
                                .plan_path = v->output,
                                .top = v->top};
    pdl_search_t     *search;
    pdl_status_t      status = pdl_search_run(oracle, &q->request, &search);

    if (status) return status;
    report.search = search;
    status = answer(v, q, oracle, &report, search);
    pdl_search_destroy(search);
    return status;
}

static pdl_status_t run_paradl(const values_t *v, question_t *q)
{
    pdl_oracle_t         *oracle = NULL;
    pdl_memory_counter_t *counter = NULL;
    pdl_status_t          status = pdl_framework_choose(v->framework, v->parameters, q->system, &q->parameters);

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
static void use_table_samples(const values_t *v, question_t *q)
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

static pdl_status_t run_orig(const values_t *v, question_t *q)
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
    status = show(v, &report);
    pdl_search_destroy(search);
    return status;
}

static pdl_status_t run(const void *given, const pdl__operands_t *operands)
{
    const values_t *v = given;
    question_t      q = {.model = NULL};
    pdl_status_t    status = check_values(v);

    (void)operands;
    if (!status && v->data_policy != NULL) status = pdl__plan_policy_check(v->data_policy);
    if (!status) status = load(v, &q);
    if (!status) status = v->formulas == FORMULAS_ORIG ? run_orig(v, &q) : run_paradl(v, &q);
    unload(&q);
    return status;
}

const pdl__command_t pdl__plan_commands[] = {
    {.name = "plan",
     .usage = "--model M --system S --devices P [--data D] [--batch B | --samples-per-device N] [options]",
     .summary = "projects every parallel strategy, says what limits each, ranks them and writes the best plan",
     .options = options,
     .values = sizeof(values_t),
     .run = run},
    {.name = NULL},
};
