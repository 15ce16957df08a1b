/*
 * paradl predict: what a network says of samples, or how a text goes on.
 */
#include "cli/predict/predict.h"
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/train/start_ranks.h"
#include "cli/train/threads.h"

#include "base/clock.h"

#include <paradl/base/document.h>
#include <paradl/comm/watch.h>
#include <paradl/oracle/oracle.h>
#include <paradl/report/predict_report.h>

#include <string.h>

#define VALUES pdl__predict_values_t

const pdl__option_t pdl__predict_options[] = {
    {"data", "D", NULL,
     "name of a data set, or the path of one; for prompts: the text whose characters are the vocabulary",
     PDL__TEXT(VALUES, data), .group = "Model and data"},
    {"model", "M", NULL, "the model, where the weights do not name it", PDL__TEXT(VALUES, model)},
    {"init", "FILE", NULL, "the weights, where no checkpoint is given: safetensors, a folder of Hugging Face, ONNX",
     PDL__TEXT(VALUES, init)},
    {"ema", NULL, NULL, "takes the averaged weights", PDL__FLAG(VALUES, ema)},
    {"train-split", NULL, NULL, "the training samples instead of the validation samples",
     PDL__FLAG(VALUES, train_split)},
    {"samples", "N", NULL, "size of a synthetic data set", PDL__INT(VALUES, samples, 1)},
    {"no-normalise", NULL, NULL, "as in training", PDL__FLAG(VALUES, no_normalise)},
    {"vocabulary", "V", "char",
     "of text: char, byte, or byte pairs: a tokenizer.json, a vocab.json with merges.txt beside it, or the folder "
     "of either",
     PDL__TEXT(VALUES, vocabulary), .noted = offsetof(VALUES, vocabulary_given)},

    {"prompt", "TEXT", NULL, "a language model goes on from this text", PDL__TEXT(VALUES, prompt), .group = "Text"},
    {"prompt-file", "FILE", NULL, "prompts, one a line", PDL__TEXT(VALUES, prompt_file)},
    {"tokens", "N", "100", "that follow a prompt", PDL__INT(VALUES, tokens, 1)},
    {"temperature", "X", "1", "of the draw; 0: always the most probable token",
     PDL__QUANTITY(VALUES, temperature, PDL_UNIT_NONE)},
    {"seed", "N", "1", "of the draw: the same seed gives the same text", PDL__INT(VALUES, seed, 0)},
    {"no-cache", NULL, NULL, "computes everything again for every token: slower, the same text",
     PDL__FLAG(VALUES, no_cache)},

    {"batch", "B", "64", "samples at a time, over all ranks; prompts at a time, on each",
     PDL__INT(VALUES, batch, 1), .group = "Execution"},
    {"devices", "N", "1", "ranks; started here unless mpirun or srun has done so", PDL__INT(VALUES, pe, 1),
     .letter = 'n', .also = "pe"},
    {"device", "NAME", "cpu", "what computes: cpu, cuda (a GPU), cuda:N, auto (a GPU where there is one)",
     PDL__TEXT(VALUES, device)},
    {"precision", "TYPE", "fp32", "of activations and matrix products; tf32: factors of products alone, on GPUs",
     PDL__CHOICE(VALUES, precision, pdl__precision_names, PDL__PRECISIONS_HERE)},
    {"threads", "N", NULL, "of each rank; else the cores divided by the ranks", PDL__INT(VALUES, threads, 1)},
    {"loader-threads", "N", NULL, "that prepare samples; else 1, with a GPU the cores of a rank, up to 8",
     PDL__INT(VALUES, loader_threads, 1)},
    {"stall-timeout", "TIME", "60s", "after which a rank that is stopped or hangs ends the job; 0: never",
     PDL__QUANTITY(VALUES, stall_timeout, PDL_UNIT_SECONDS)},

    {"output", "FILE", NULL, "outputs to .npy, .csv or .json; texts to .txt or .json", PDL__TEXT(VALUES, output),
     .letter = 'o', .writes = true, .group = "Output"},
    {"top-k", "K", NULL, "the K most probable classes instead of all outputs; prompts: draws among so many tokens",
     PDL__INT(VALUES, top_k, 1)},
    {"system", "S", "local", "system whose projection is compared with the measurement; a GPU has that of its name",
     PDL__TEXT(VALUES, system)},
    {"quiet", NULL, NULL, "no progress", PDL__FLAG(VALUES, quiet)},
    {"json", NULL, NULL, "prints the summary as one JSON document", PDL__FLAG(VALUES, json)},
    {.name = NULL},
};

pdl_status_t pdl__predict_project(pdl__predict_job_t *job, pdl_plan_t *plan, double *seconds)
{
    bool                asked = pdl__option_changed(pdl__predict_options, "system", job->values), described = true;
    const pdl_system_t *system = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_parameters_t    parameters;
    pdl_projection_t    projection;

    *seconds = 0;
    job->system =
        asked ? job->values->system : pdl__device_system(job->backend, job->found, sizeof(job->found), &described);
    if (!described) return PDL_OK;
    pdl_status_t status = pdl_system_load(job->system, &system);
    if (!status) status = pdl_parameters_choose(NULL, system, &parameters);
    if (!status) status = pdl_system_check_precision(system, plan->precision);
    if (!status) status = pdl_oracle_create(plan->model, system, &parameters, &oracle);
    if (!status) status = pdl_oracle_replay(oracle, plan, NULL, &projection);
    if (!status) *seconds = projection.total_s;
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    return asked ? status : PDL_OK;
}

void pdl__predict_begin_json(const pdl__predict_job_t *job, pdl_json_t *json)
{
    pdl_document_begin(json, stdout, "prediction/1");
    pdl_json_string(json, "weights", job->network.path);
    pdl_json_string(json, "model", pdl_model_name(job->network.model));
    pdl_json_string(json, "device", job->backend->ops->name);
    pdl_json_int(json, "ranks", pdl_ranks_size(job->ranks));
}

/* A run over a data set. */
typedef struct run {
    pdl__predict_job_t *job;
    pdl_plan_t         *plan;
    pdl_source_t       *source;
    pdl_session_t      *session;
    pdl_predictions_t  *predictions;
    double              begun_s, said_s, projected_s;
    bool                writes; /* predictions, on the first rank */
} run_t;

static pdl_status_t open_data(run_t *run)
{
    const VALUES        *v = run->job->values;
    const pdl_model_t   *model = run->job->network.model;
    pdl_source_options_t options = {.split = v->train_split ? PDL_SPLIT_TRAIN : PDL_SPLIT_VALID,
                                    .vocabulary = v->vocabulary,
                                    .samples = v->samples};
    pdl_status_t         status;

    if (v->data == NULL)
        return pdl_error(PDL_ERR_INPUT, "predictions of what? add --data D, or --prompt TEXT for a language model");
    pdl_source_options_for(model, &options);
    status = pdl_source_open(v->data, &options, &run->source);
    return status ? status : pdl_check_data(model, pdl_source_info(run->source));
}

static pdl_status_t make_plan(run_t *run)
{
    const VALUES *v = run->job->values;
    int           ranks = pdl_ranks_size(run->job->ranks);
    pdl_mesh_t    mesh = {{{PDL_AXIS_DATA, ranks, 0}}, 1};
    int64_t       batch = v->batch > ranks ? v->batch : ranks;
    pdl_status_t  status = pdl_plan_create(run->job->network.model, &mesh, batch, &run->plan);

    if (status) return status;
    run->plan->run_mode = PDL_INFERENCE;
    run->plan->precision = pdl__precisions[v->precision];
    status = pdl_plan_apply_preset(run->plan, "data", NULL);
    if (!status) status = pdl_plan_check(run->plan);
    return status ? status : pdl__predict_project(run->job, run->plan, &run->projected_s);
}

static pdl_status_t open_predictions(run_t *run)
{
    const VALUES          *v = run->job->values;
    pdl_predictions_spec_t spec = {.path = v->output ? v->output : "-",
                                   .model = pdl_model_name(run->job->network.model),
                                   .data = v->data,
                                   .samples = pdl_source_info(run->source)->samples,
                                   .top_k = v->top_k};
    pdl_status_t           status = pdl_session_output_shape(run->session, &spec.shape);

    if (status || pdl_ranks_rank(run->job->ranks) != 0 || (v->output == NULL && v->top_k == 0)) return status;
    return pdl_predictions_open(&spec, &run->predictions);
}

/* On the first rank: a batch has been predicted. */
static pdl_status_t take_rows(void *context, const pdl_predict_rows_t *rows)
{
    enum { PAUSE_S = 2 };
    run_t       *run = context;
    double       now_s = pdl__seconds();
    pdl_status_t status = run->predictions ? pdl_predictions_add(run->predictions, rows) : PDL_OK;

    if (run->job->values->quiet || now_s - run->said_s < PAUSE_S) return status;
    fprintf(stderr, "%lld of %lld samples, %.0f samples/s\n", (long long)(rows->first + rows->count),
            (long long)pdl_source_info(run->source)->samples,
            (double)(rows->first + rows->count) / (now_s - run->begun_s));
    run->said_s = now_s;
    return status;
}

static void print_times(const run_t *run, const pdl_predict_summary_t *s, FILE *stream)
{
    char median[PDL_FORMAT_SIZE], p95[PDL_FORMAT_SIZE], projected[PDL_FORMAT_SIZE];

    fprintf(stream, "a batch of %lld: median %s, 95 %% within %s", (long long)run->plan->batch,
            pdl_format_seconds(s->latency.median_s, median), pdl_format_seconds(s->latency.p95_s, p95));
    if (run->projected_s > 0)
        fprintf(stream, "; projected %s for %s", pdl_format_seconds(run->projected_s, projected), run->job->system);
    fprintf(stream, "\n");
}

static void print_summary(const run_t *run, const pdl_predict_summary_t *s)
{
    const VALUES *v = run->job->values;
    /* A table on standard output is what a reader wants there. */
    FILE *stream = run->writes && (v->output == NULL || pdl_output_is_stdout(v->output)) ? stderr : stdout;
    char  count[PDL_FORMAT_SIZE];

    fprintf(stream, "%s on %s: %s samples in %.3g s, %.4g samples/s; loss %.6g",
            pdl_model_name(run->job->network.model), v->data, pdl_format_count(s->samples, count), s->elapsed_s,
            (double)s->samples / s->elapsed_s, s->loss);
    if (pdl_source_info(run->source)->target != PDL_TARGET_VALUES)
        fprintf(stream, ", accuracy %.2f %%", 100 * s->accuracy);
    fprintf(stream, "\n");
    print_times(run, s, stream);
    if (v->output && stream == stdout) fprintf(stream, "predictions written to %s\n", v->output);
}

static void print_json(const run_t *run, const pdl_predict_summary_t *s)
{
    pdl_json_t json;

    pdl__predict_begin_json(run->job, &json);
    pdl_json_string(&json, "data", run->job->values->data);
    pdl_json_int(&json, "samples", s->samples);
    pdl_json_int(&json, "batch", run->plan->batch);
    pdl_json_number(&json, "loss", s->loss);
    if (pdl_source_info(run->source)->target != PDL_TARGET_VALUES) pdl_json_number(&json, "accuracy", s->accuracy);
    pdl_json_number(&json, "seconds", s->elapsed_s);
    pdl_json_number(&json, "samples_per_s", (double)s->samples / s->elapsed_s);
    pdl_json_number(&json, "batch_s", s->latency.median_s);
    pdl_json_number(&json, "batch_p95_s", s->latency.p95_s);
    if (run->projected_s > 0) pdl_json_number(&json, "projected_batch_s", run->projected_s);
    pdl_json_close(&json);
}

static pdl_status_t predict(run_t *run)
{
    const VALUES         *v = run->job->values;
    pdl_session_spec_t    spec;
    pdl_predict_options_t options = {.source = run->source,
                                     .loader_threads =
                                         pdl__loader_threads(v->loader_threads, run->job->backend, run->job->ranks),
                                     .normalise = !v->no_normalise,
                                     .no_outputs = v->output == NULL && v->top_k == 0,
                                     .on_rows = take_rows,
                                     .context = run};
    pdl_predict_summary_t summary;
    pdl_status_t          status;

    pdl_session_defaults(&spec);
    spec.plan = run->plan;
    spec.backend = run->job->backend;
    spec.ranks = run->job->ranks;
    spec.training = false;
    status = pdl__trained_session(&run->job->network, &spec, v->ema, &run->session);
    if (!status) status = pdl_ranks_agree(run->job->ranks, open_predictions(run));
    options.session = run->session;
    run->begun_s = run->said_s = pdl__seconds();
    if (!status) status = pdl_predict(&options, &summary);
    run->writes = run->predictions != NULL;
    pdl_status_t closed = pdl_predictions_close(run->predictions, status);
    if (!status) status = closed;
    /* The others may wait in an exchange which this rank will not join. */
    if (status && pdl_ranks_size(run->job->ranks) > 1) pdl_ranks_abort(run->job->ranks, status);
    if (status || pdl_ranks_rank(run->job->ranks) != 0) return status;
    if (v->json)
        print_json(run, &summary);
    else
        print_summary(run, &summary);
    return PDL_OK;
}

static pdl_status_t predict_data(pdl__predict_job_t *job)
{
    run_t        run = {.job = job};
    pdl_status_t status = open_data(&run);

    if (!status) status = make_plan(&run);
    status = pdl_ranks_agree(job->ranks, status);
    if (!status) status = predict(&run);
    pdl_session_destroy(run.session);
    pdl_source_close(run.source);
    pdl_plan_destroy(run.plan);
    return status;
}

/* Options of one of the two ways that were given to the other. */
static pdl_status_t check_options(const VALUES *v)
{
    static const char *const of_text[] = {"tokens", "temperature", "seed", "no-cache"};
    static const char *const of_data[] = {"train-split", "samples", "no-normalise", "loader-threads", "ema"};
    bool                     text = v->prompt || v->prompt_file;

    if (v->prompt && v->prompt_file)
        return pdl_error(PDL_ERR_INPUT, "--prompt and --prompt-file: leave out one of them");
    for (size_t i = 0; !text && i < sizeof(of_text) / sizeof(*of_text); i++)
        if (pdl__option_changed(pdl__predict_options, of_text[i], v))
            return pdl_error(PDL_ERR_INPUT, "--%s is for text: add --prompt TEXT or --prompt-file FILE",
                             of_text[i]);
    for (size_t i = 0; text && i < sizeof(of_data) / sizeof(*of_data); i++)
        if (pdl__option_changed(pdl__predict_options, of_data[i], v))
            return pdl_error(PDL_ERR_INPUT, "--%s is for samples of a data set: leave it out with a prompt",
                             of_data[i]);
    if (v->temperature < 0) return pdl_error(PDL_ERR_INPUT, "--temperature must not be negative");
    return PDL_OK;
}

static pdl_status_t create_backend(pdl__predict_job_t *job)
{
    const VALUES     *v = job->values;
    pdl_cpu_options_t cpu = {.threads = pdl__compute_threads(v->threads, job->ranks),
                             .precision =
                                 pdl__precisions[v->precision] == PDL_BF16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32,
                             .bind = true};
    pdl__device_t     device;
    pdl_status_t      status = pdl__device_read(v->device, false, &device);

    if (!status) status = pdl__device_settle(&device, job->ranks);
    device.tf32 = pdl__precisions[v->precision] == PDL_TF32;
    return status ? status : pdl__device_create(&device, job->ranks, &cpu, &job->backend);
}

static pdl_status_t run_predict(const void *given, const pdl__operands_t *operands)
{
    const VALUES      *v = given;
    pdl__predict_job_t job = {.values = v};
    pdl_status_t       status = check_options(v);

    if (status) return status;
    if (pdl__start_wanted(v->pe)) return pdl__start_ranks(v->pe, v->threads, v->stall_timeout, NULL);
    status = pdl_ranks_create(&job.ranks);
    if (status) return status;
    status = pdl_watch_start(job.ranks, v->stall_timeout, NULL);
    if (!status)
        status = pdl__trained_open(job.ranks, operands->count > 0 ? operands->text[0] : NULL, v->model, v->init,
                                   &job.network);
    if (!status) status = pdl_ranks_agree(job.ranks, create_backend(&job));
    if (!status) status = v->prompt || v->prompt_file ? pdl__predict_text(&job) : predict_data(&job);
    if (status && pdl_watch_failed(job.ranks)) pdl_ranks_abort(job.ranks, status);
    pdl_backend_destroy(job.backend);
    pdl__trained_close(&job.network);
    pdl_ranks_destroy(job.ranks);
    return status;
}

const pdl__command_t pdl__predict_commands[] = {
    {.name = "predict",
     .usage =
         "[CHECKPOINT | MODEL.onnx | --model M --init FILE] --data D | --prompt TEXT [-o FILE] [--top-k K] [...]",
     .summary = "predicts with a checkpoint: outputs, classes, text",
     .notes =
         "CHECKPOINT is a folder of checkpoints (the latest that is whole counts), one checkpoint in it, or a\n"
         "safetensors file. Texts go to standard output, and what is said of them to standard error.\n",
     .options = pdl__predict_options,
     .values = sizeof(VALUES),
     .optional = 1,
     .run = run_predict},
    {.name = NULL},
};
