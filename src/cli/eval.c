/*
 * paradl eval: scores a checkpoint.
 */
#include "cli/commands.h"
#include "cli/device.h"
#include "cli/train/start_ranks.h"
#include "cli/train/threads.h"
#include "cli/train/trained.h"

#include <paradl/base/document.h>
#include <paradl/comm/watch.h>
#include <paradl/train/train.h>

typedef struct values {
    const char *data, *model, *vocabulary, *device;
    int64_t     batch, pe, threads, loader_threads, samples;
    double      stall_timeout;
    bool        ema, train_split, no_normalise, json;
} values_t;

static const pdl__option_t options[] = {
    {"data", "D", NULL, "name of a data set, or the path of one", PDL__TEXT(values_t, data), .required = true},
    {"model", "M", NULL, "the model, where the checkpoint does not name it", PDL__TEXT(values_t, model)},
    {"batch", "B", "64", "samples at a time, over all ranks", PDL__INT(values_t, batch, 1)},
    {"devices", "N", "1", "ranks; started here unless mpirun or srun has done so", PDL__INT(values_t, pe, 1),
     .letter = 'n', .also = "pe"},
    {"device", "NAME", "cpu", "what computes: cpu, cuda (a GPU), cuda:N, auto (a GPU where there is one)",
     PDL__TEXT(values_t, device)},
    {"threads", "N", NULL, "of each rank; else the cores divided by the ranks", PDL__INT(values_t, threads, 1)},
    {"loader-threads", "N", NULL, "that prepare samples; else 1, with a GPU the cores of a rank, up to 8",
     PDL__INT(values_t, loader_threads, 1)},
    {"stall-timeout", "TIME", "60s", "after which a rank that is stopped or hangs ends the job; 0: never",
     PDL__QUANTITY(values_t, stall_timeout, PDL_UNIT_SECONDS)},
    {"ema", NULL, NULL, "scores the averaged weights", PDL__FLAG(values_t, ema)},
    {"train-split", NULL, NULL, "scores the training samples instead of the validation samples",
     PDL__FLAG(values_t, train_split)},
    {"vocabulary", "V", "char",
     "of text: char, byte, or byte pairs: tokenizer.json, or vocab.json with merges.txt beside it",
     PDL__TEXT(values_t, vocabulary)},
    {"samples", "N", NULL, "size of a synthetic data set", PDL__INT(values_t, samples, 1)},
    {"no-normalise", NULL, NULL, "as in training", PDL__FLAG(values_t, no_normalise)},
    {"json", NULL, NULL, "prints one JSON document instead of a line", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

typedef struct job {
    const values_t *values;
    const char     *path; /* of the checkpoint */
    pdl_ranks_t    *ranks;
    pdl__trained_t  network;
    pdl_plan_t     *plan;
    pdl_backend_t  *backend;
    pdl_source_t   *source;
    pdl_session_t  *session;
} job_t;

static pdl_status_t prepare(job_t *job)
{
    const values_t      *v = job->values;
    pdl_mesh_t           mesh = {{{PDL_AXIS_DATA, pdl_ranks_size(job->ranks), 0}}, 1};
    pdl_source_options_t source = {.split = v->train_split ? PDL_SPLIT_TRAIN : PDL_SPLIT_VALID,
                                   .vocabulary = v->vocabulary,
                                   .samples = v->samples};
    pdl_cpu_options_t    cpu = {.threads = pdl__compute_threads(v->threads, job->ranks), .bind = true};
    pdl__device_t        device;
    pdl_status_t         status = pdl_plan_create(job->network.model, &mesh, v->batch, &job->plan);

    if (!status) status = pdl_plan_apply_preset(job->plan, "data", NULL);
    if (!status) status = pdl_plan_check(job->plan);
    if (status) return status;
    pdl_source_options_for(job->network.model, &source);
    status = pdl_source_open(v->data, &source, &job->source);
    if (!status) status = pdl_check_data(job->network.model, pdl_source_info(job->source));
    if (!status) status = pdl__device_read(v->device, false, &device);
    if (!status) status = pdl__device_settle(&device, job->ranks);
    if (!status) status = pdl__device_create(&device, job->ranks, &cpu, &job->backend);
    return status;
}

static pdl_status_t print_score(const job_t *job, const pdl_score_t *score)
{
    pdl_json_t json;
    bool       classes = pdl_source_info(job->source)->target != PDL_TARGET_VALUES;

    if (!job->values->json) {
        printf("%s on %s: loss %.6g", pdl_model_name(job->network.model), job->values->data, score->loss);
        if (classes) printf(", accuracy %.2f %%", 100 * score->accuracy);
        printf(", %.0f samples in %.3g s\n", score->samples, score->seconds);
        return PDL_OK;
    }
    pdl_document_begin(&json, stdout, "evaluation/1");
    pdl_json_string(&json, "checkpoint", job->path);
    pdl_json_string(&json, "model", pdl_model_name(job->network.model));
    pdl_json_string(&json, "data", job->values->data);
    pdl_json_number(&json, "loss", score->loss);
    if (classes) pdl_json_number(&json, "accuracy", score->accuracy);
    pdl_json_number(&json, "samples", score->samples);
    pdl_json_number(&json, "seconds", score->seconds);
    pdl_json_close(&json);
    return PDL_OK;
}

static pdl_status_t score(job_t *job)
{
    pdl_session_spec_t spec;
    pdl_score_t        result;
    pdl_status_t       status;

    pdl_session_defaults(&spec);
    spec.plan = job->plan;
    spec.backend = job->backend;
    spec.ranks = job->ranks;
    spec.training = false;
    status = pdl__trained_session(&job->network, &spec, job->values->ema, &job->session);
    if (!status)
        status = pdl_evaluate(job->session, job->source,
                              pdl__loader_threads(job->values->loader_threads, job->backend, job->ranks),
                              !job->values->no_normalise, &result);
    /* The others may wait in an exchange which this rank will not join. */
    if (status && pdl_ranks_size(job->ranks) > 1) pdl_ranks_abort(job->ranks, status);
    if (status || pdl_ranks_rank(job->ranks) != 0) return status;
    return print_score(job, &result);
}

static pdl_status_t run_eval(const void *given, const pdl__operands_t *operands)
{
    const values_t *v = given;
    job_t           job = {.values = v, .path = operands->text[0]};
    pdl_status_t    status;

    if (pdl__start_wanted(v->pe)) return pdl__start_ranks(v->pe, v->threads, v->stall_timeout, NULL);
    status = pdl_ranks_create(&job.ranks);
    if (status) return status;
    status = pdl_watch_start(job.ranks, v->stall_timeout, NULL);
    if (!status) status = pdl__trained_open(job.ranks, job.path, v->model, NULL, &job.network);
    if (!status) status = pdl_ranks_agree(job.ranks, prepare(&job));
    if (!status) status = score(&job);
    if (status && pdl_watch_failed(job.ranks)) pdl_ranks_abort(job.ranks, status);
    pdl_session_destroy(job.session);
    pdl_source_close(job.source);
    pdl_backend_destroy(job.backend);
    pdl_plan_destroy(job.plan);
    pdl__trained_close(&job.network);
    pdl_ranks_destroy(job.ranks);
    return status;
}

const pdl__command_t pdl__eval_commands[] = {
    {.name = "eval",
     .usage = "CHECKPOINT --data D [--devices N] [--ema] [--json]",
     .summary = "scores a checkpoint",
     .notes = "CHECKPOINT is a folder of checkpoints (the latest that is whole counts), one checkpoint in it, a\n"
              "safetensors file or an ONNX file.\n",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_eval},
    {.name = NULL},
};
