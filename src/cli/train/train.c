/*
 * paradl train: carries a plan out.
 */
#include "cli/commands.h"
#include "cli/train/check.h"
#include "cli/train/job.h"
#include "cli/train/start_ranks.h"
#include "cli/train/threads.h"

#include <paradl/comm/launch.h>
#include <paradl/comm/watch.h>
#include <paradl/report/dry_report.h>
#include <paradl/report/train_report.h>

#include <stdlib.h>
#include <string.h>

#define STANDARD_BATCH 64

/* The cores of this machine shared out over the ranks, as if all of them were here. */
static int dry_threads(const pdl__train_job_t *job)
{
    int cores = pdl__compute_threads(job->values->threads, job->ranks), ranks = pdl_ranks_size(job->ranks);

    if (job->values->threads > 0) return cores;
    return cores / ranks > 1 ? cores / ranks : 1;
}

static pdl_status_t report_dry(const pdl__train_job_t *job, const pdl_session_t *session)
{
    const pdl__train_values_t *v = job->values;
    pdl_dry_report_t           report = {.session = session,
                                         .plan = job->plan,
                                         .model_name = pdl__job_model_name(job),
                                         .system_name = job->system,
                                         .rank = (int)v->rank};
    const pdl_system_t        *system = NULL;
    pdl_system_t               wide;
    pdl_oracle_t              *oracle = NULL;
    pdl_parameters_t           parameters;
    double                    *seconds = calloc((size_t)pdl_session_op_count(session) + 1, sizeof(*seconds));
    pdl_status_t               status =
        seconds ? pdl_system_load(job->system, &system) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = pdl_parameters_choose(NULL, system, &parameters);
    if (!status) wide = pdl_system_widen(system, pdl_mesh_size(&job->plan->mesh));
    if (!status) status = pdl_oracle_create(job->plan->model, &wide, &parameters, &oracle);
    if (!status) status = pdl_oracle_price_program(oracle, job->plan, pdl_session_program(session), seconds);
    if (!status) {
        report.seconds = seconds;
        status = v->json ? pdl_report_dry_json(&report, stdout) : pdl_report_dry(&report, stdout);
    }
    if (!status && v->trace) status = pdl_report_dry_trace(&report, v->trace);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    free(seconds);
    return status;
}

/* The dry session of one rank. */
static pdl_status_t open_dry(pdl__train_job_t *job, const pdl__operands_t *operands, int64_t rank, int64_t ranks,
                             pdl_session_t **session)
{
    pdl_status_t status = pdl_ranks_create_dry((int)rank, (int)ranks, &job->ranks);

    if (!status) status = pdl__train_options_from(job->values, &job->options);
    if (!status) status = pdl__job_load_plan(job, operands);
    if (!status) status = pdl__job_create_backend(job, dry_threads(job));
    if (!status) status = pdl__job_project(job);
    job->options.session.plan = job->plan;
    job->options.session.backend = job->backend;
    job->options.session.ranks = job->ranks;
    if (!status) job->options.session.workers = pdl__job_workers(job);
    return status ? status : pdl_session_create(&job->options.session, session);
}

/* What one rank would do. */
static pdl_status_t run_dry(pdl__train_job_t *job, const pdl__operands_t *operands, int64_t ranks)
{
    const pdl__train_values_t *v = job->values;
    pdl_session_t             *session = NULL;
    pdl_status_t               status;

    if (ranks > INT32_MAX || v->rank >= ranks)
        return pdl_error(PDL_ERR_INPUT, "--rank %lld: the plan has ranks 0 to %lld", (long long)v->rank,
                         (long long)ranks - 1);
    status = open_dry(job, operands, v->rank, ranks, &session);
    if (!status) status = report_dry(job, session);
    pdl_session_destroy(session);
    return status;
}

static pdl_status_t run_reported(pdl__train_job_t *job)
{
    const pdl__train_values_t *v = job->values;
    bool                       speaks = pdl_ranks_rank(job->ranks) == 0;
    pdl_run_report_spec_t      spec = {.talk = v->quiet ? NULL : stderr,
                                       .log = v->log,
                                       .append = v->resume,
                                       .terminal = pdl_launch_terminal(2),
                                       .plan = job->plan,
                                       .model_name = pdl__job_model_name(job),
                                       .data_name = pdl__job_data_name(job),
                                       .plan_path = job->plan_path,
                                       .seed = (uint64_t)v->seed,
                                       .ranks = pdl_ranks_size(job->ranks),
                                       .threads = job->backend->threads,
                                       .device = job->backend->ops->name,
                                       .projection = job->projected ? &job->projection : NULL,
                                       .classes = job->projected ? job->classes : NULL,
                                       .simulated = job->simulated,
                                       .system_name = job->system,
                                       .generic = strcmp(job->system, "local") == 0,
                                       .launch_s = job->launch_s};
    pdl_run_report_t          *report = NULL;
    pdl_train_summary_t        summary;
    pdl_status_t status = pdl_ranks_agree(job->ranks, speaks ? pdl_run_report_create(&spec, &report) : PDL_OK);

    if (status) return status;
    if (speaks) job->options.observer = pdl_run_report_observer(report);
    if (speaks && *job->said) job->options.observer.on_note(job->options.observer.context, job->said);
    status = pdl_train_run(&job->options, &summary);
    if (!status) pdl_run_report_finish(report, &summary);
    pdl_status_t closed = pdl_run_report_destroy(report);
    if (!status) status = closed;
    if (status || !speaks) return status;
    return v->json ? pdl_report_train_summary_json(&spec, &summary, stdout)
                   : pdl_report_train_summary(&spec, &summary, stdout);
}

/* An optimizer with the state that the plan was made for, unless the command names one. */
static void take_optimizer(const pdl_plan_t *plan, pdl__train_values_t *v)
{
    if (v->optimizer_given) return;
    if (plan->optimizer == PDL_OPTIMIZER_ADAM) v->optimizer = PDL_METHOD_ADAMW;
    if (plan->optimizer == PDL_OPTIMIZER_SGD && !v->momentum_given) v->momentum = 0;
}

/* Whether the options go together; `plan` is a file's, or NULL. */
static pdl_status_t check_options(const pdl__train_values_t *v, const pdl_plan_t *plan)
{
    pdl_train_options_t options;
    pdl_status_t        status = pdl__train_options_from(v, &options);

    if (status) return status;
    if (plan) pdl__train_apply_policy(plan, &options.sampling);
    return pdl__train_check(v, &options);
}

/* What the command leaves open, from the plan file where there is one; known before anything starts. */
static pdl_status_t settle(pdl__train_values_t *v, const pdl__operands_t *operands)
{
    pdl_plan_file_t file;
    pdl_status_t    status = pdl__device_read(v->device_text, true, &v->device);

    if (status) return status;
    if (operands->count == 0) {
        if (v->pe == 0) v->pe = 1;
        if (v->batch == 0) v->batch = STANDARD_BATCH;
        return check_options(v, NULL);
    }
    status = pdl_plan_read(operands->text[0], &file);
    if (status) return status;
    int64_t ranks = pdl_mesh_size(&file.plan->mesh);
    if (v->pe > 0 && v->pe != ranks)
        status = pdl_error(PDL_ERR_INPUT, "--pe %lld: %s is for %lld ranks; leave --pe out, or plan for %lld",
                           (long long)v->pe, operands->text[0], (long long)ranks, (long long)v->pe);
    v->pe = ranks;
    take_optimizer(file.plan, v);
    if (!status) status = check_options(v, file.plan);
    pdl_plan_file_free(&file);
    return status;
}

/* What was asked for, for whoever wants to try it on other ranks. */
typedef struct request {
    const pdl__train_values_t *values;
    const pdl__operands_t     *operands;
} request_t;

/* Whether what was asked for can be done by so many ranks, and on which mesh. */
static pdl_status_t fits(void *context, int64_t ranks, char *how, size_t size)
{
    const request_t *request = context;
    pdl__train_job_t job = {.values = request->values};
    pdl_session_t   *session = NULL;
    pdl_status_t     status = open_dry(&job, request->operands, 0, ranks, &session);

    if (!status) pdl__train_apply_policy(job.plan, &job.options.sampling);
    if (!status) status = pdl_train_prepare(&job.options, &job.options.session);
    if (!status) pdl_mesh_format(&job.plan->mesh, how, size);
    pdl_session_destroy(session);
    pdl__job_release(&job);
    return status;
}

/* Partitions of samples and rounds are of workers, of which there is one a rank unless told otherwise. */
static bool depends_on_workers(const pdl__train_values_t *v)
{
    const char *shuffle = v->sampling.shuffle, *aggregate = v->sampling.aggregate;

    return (shuffle != NULL && strcmp(shuffle, "global") != 0) ||
           (aggregate != NULL && strcmp(aggregate, "step") != 0);
}

static pdl_status_t check_restarts(const pdl__train_values_t *v, const pdl__operands_t *operands)
{
    if (v->restarts == 0 || pdl__start_done()) return PDL_OK;
    if (!pdl__start_wanted(v->pe))
        return pdl_error(PDL_ERR_INPUT,
                         "--restarts is for ranks that --pe starts: leave it out, and repeat the command "
                         "with --resume");
    if (v->elastic && (v->mesh || operands->count > 0))
        return pdl_error(PDL_ERR_INPUT, "--elastic: %s is for %lld ranks and no others: leave out one of them",
                         v->mesh ? "--mesh" : operands->text[0], (long long)v->pe);
    if (v->elastic && v->sampling.workers == 0 && depends_on_workers(v))
        return pdl_error(PDL_ERR_INPUT,
                         "--elastic: the samples of %lld workers, one a rank, cannot be shared by fewer: say "
                         "--workers, which stays when ranks go",
                         (long long)v->pe);
    return PDL_OK;
}

static pdl_status_t start_ranks(const pdl__train_values_t *v, const pdl__operands_t *operands)
{
    request_t       request = {v, operands};
    pdl__restarts_t restarts = {v->restarts, v->elastic, fits, &request};

    return pdl__start_ranks(v->pe, v->threads, v->stall_timeout, &restarts);
}

static pdl_status_t run_train(const void *given, const pdl__operands_t *operands)
{
    pdl__train_values_t values = *(const pdl__train_values_t *)given, *v = &values;
    pdl__train_job_t    job = {.values = v};
    pdl_status_t        status = settle(v, operands);
    int64_t             ranks = v->pe;

    if (status) return status;
    if (v->device.dry) {
        status = run_dry(&job, operands, ranks);
        pdl__job_release(&job);
        return status;
    }
    status = check_restarts(v, operands);
    if (status) return status;
    if (pdl__start_wanted(ranks)) return start_ranks(v, operands);
    status = pdl_ranks_create(&job.ranks);
    if (status) return status;
    status = pdl_watch_start(job.ranks, v->stall_timeout, NULL);
    if (!status) status = pdl_ranks_agree(job.ranks, pdl__job_prepare(&job, operands));
    if (!status) status = pdl__job_share_plan(&job);
    if (!status) status = run_reported(&job);
    if (status && pdl_watch_failed(job.ranks)) pdl_ranks_abort(job.ranks, status);
    pdl__job_release(&job);
    return status;
}

const pdl__command_t pdl__train_commands[] = {
    {.name = "train",
     .usage = "[PLAN.yaml | --model M --data D] [--devices N] [--epochs E | --steps K] [--batch B] [--lr X] [...]",
     .summary = "trains a model",
     .notes =
         "The same seed gives the same run, on any number of ranks but for the rounding of sums. A run that was\n"
         "stopped goes on with the same options and --resume.\n",
     .options = pdl__train_option_table,
     .values = sizeof(pdl__train_values_t),
     .optional = 1,
     .run = run_train},
    {.name = NULL},
};
