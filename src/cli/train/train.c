/*
 * paradl train: carries a plan out.
 */
#include "base/plugin.h"
#include "cli/commands.h"
#include "cli/train/check.h"
#include "cli/train/plan.h"
#include "cli/train/start_ranks.h"
#include "cli/train/threads.h"

#include <paradl/comm/launch.h>
#include <paradl/comm/watch.h>
#include <paradl/oracle/search.h>
#include <paradl/plan/collectives.h>
#include <paradl/report/dry_report.h>
#include <paradl/report/train_report.h>

#include <stdlib.h>
#include <string.h>

#define STANDARD_BATCH 64

/* Everything a run holds. */
typedef struct job {
    const pdl__train_values_t *values;
    pdl_ranks_t               *ranks;
    pdl_model_t               *model; /* NULL when a plan file owns it */
    pdl_plan_t                *own_plan;
    pdl_plan_file_t            file;
    const char                *plan_path; /* of that file, or NULL */
    const pdl_plan_t          *plan;
    pdl_backend_t             *backend;
    pdl_source_t              *train, *valid;
    pdl_initial_file_t        *initial; /* NULL: weights are drawn */
    pdl_projection_t           projection;
    double                     classes[PDL_OP_CLASS_COUNT];
    bool                       projected;
    pdl_plan_sim_t            *simulated; /* on the rank that reports; NULL where it cannot be */
    double                     launch_s;
    char                       found[64]; /* name of the system that describes the device */
    const char                *system;    /* the one on which the plan is settled and projected */
    bool                       described; /* its times are comparable with those of the device */
    char                       said[512]; /* of the plan, before the run */
    pdl_train_options_t        options;
} job_t;

static pdl_status_t plan_from_options(job_t *job)
{
    const pdl__train_values_t *v = job->values;
    pdl_status_t               status = pdl_model_load(v->model, &job->model);

    if (!status) pdl__print_remarks(job->model);
    if (!status)
        status = pdl__train_plan(v, job->model, pdl_ranks_size(job->ranks), &job->own_plan, job->said,
                                 sizeof(job->said));
    if (status) return status;
    job->own_plan->micro_batches = v->micro_batches;
    job->own_plan->schedule = (pdl_pipeline_schedule_t)v->pipeline_schedule;
    job->own_plan->recompute = (pdl_recompute_t)v->recompute;
    job->own_plan->sharding = (pdl_sharding_t)v->sharding;
    job->own_plan->sync_batch_norm = v->sync_batch_norm;
    job->own_plan->optimizer = pdl__train_memory_kind(v);
    job->own_plan->precision = pdl__precisions[v->precision];
    job->plan = job->own_plan;
    status = pdl_plan_set_virtual_stages(job->own_plan, v->virtual_stages);
    return status ? status : pdl_plan_check(job->own_plan);
}

/* --algorithm goes before what the plan says, and says so. */
static pdl_status_t name_algorithm(job_t *job, pdl_plan_t *plan)
{
    const char  *name = job->values->algorithm;
    char         before[256];
    pdl_status_t status;

    if (name == NULL) return PDL_OK;
    if (*pdl_plan_format_collectives(plan, before, sizeof(before)) != '\0')
        snprintf(job->said, sizeof(job->said), "--algorithm %s goes before the collectives of the plan: %s", name,
                 before);
    if (strcmp(name, "measure") == 0 || strcmp(name, "library") == 0) return PDL_OK;
    status = pdl_plan_name_gradients(plan, strcmp(name, "auto") == 0 ? "" : name);
    return status ? pdl_error(status, "--algorithm %s: %s", name, pdl_error_message()) : PDL_OK;
}

/* Where there is nobody to exchange with, nothing is left out. */
static pdl_status_t change_collectives(job_t *job, pdl_plan_t *plan)
{
    double       sparsity = job->values->gradient_sparsity;
    pdl_status_t status = name_algorithm(job, plan);

    if (status || sparsity == 0) return status;
    status = pdl_plan_thin_gradients(plan, 1 - sparsity);
    return status ? pdl_error(status, "--gradient-sparsity: %s", pdl_error_message()) : PDL_OK;
}

static pdl_status_t load_plan(job_t *job, const pdl__operands_t *operands)
{
    if (operands->count == 0) {
        pdl_status_t made = plan_from_options(job);
        return made ? made : change_collectives(job, job->own_plan);
    }
    pdl_status_t status = pdl_plan_read(operands->text[0], &job->file);
    if (status) return status;
    pdl__print_remarks(job->file.model);
    if (job->file.note[0] != '\0' && pdl_ranks_rank(job->ranks) == 0) fprintf(stderr, "%s\n", job->file.note);
    job->file.plan->optimizer = pdl__train_memory_kind(job->values);
    if (job->values->batch > 0) job->file.plan->batch = job->values->batch;
    job->plan_path = operands->text[0];
    job->plan = job->file.plan;
    status = pdl_plan_check(job->plan);
    return status ? status : change_collectives(job, job->file.plan);
}

static const char *model_name(const job_t *job)
{
    return job->values->model ? job->values->model : job->file.model_name;
}

static const char *data_name(const job_t *job)
{
    return job->values->data ? job->values->data : job->file.data_name;
}

static pdl_status_t open_data(job_t *job)
{
    const pdl__train_values_t *v = job->values;
    pdl_source_options_t       options = {.vocabulary = v->vocabulary, .samples = v->samples};

    if (*data_name(job) == '\0') return pdl_error(PDL_ERR_INPUT, "the plan names no data set: add --data D");
    pdl_source_options_for(job->plan->model, &options);
    pdl_status_t status = pdl_source_open(data_name(job), &options, &job->train);
    if (status || v->no_valid) return status;
    options.split = PDL_SPLIT_VALID;
    status = pdl_source_open(data_name(job), &options, &job->valid);
    if (status) return pdl_error(status, "%s; or train without: --no-valid", pdl_error_message());
    return PDL_OK;
}

static pdl_status_t create_backend(job_t *job, int threads)
{
    const pdl__train_values_t *v = job->values;
    pdl_cpu_options_t          options = {.threads = threads,
                                          .precision = job->plan->precision == PDL_BF16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32,
                                          .bind = !v->device.dry,
                                          .direct = v->direct};
    pdl__device_t              device = v->device;
    pdl_status_t               status = pdl__device_settle(&device, job->ranks);

    device.tf32 = job->plan->precision == PDL_TF32;

    if (status) return status;
    if (device.kind == PDL__DEVICE_CPU && !pdl__plugin_found(PDL__PLUGIN_DNNL) && pdl_ranks_rank(job->ranks) == 0)
        fprintf(stderr, "paradl: note: oneDNN is missing, so convolutions are several times slower: install "
                        "libdnnl-dev and build paradl again\n");
    return pdl__device_create(&device, job->ranks, &options, &job->backend);
}

/* Simulates the plan on the system too, for so few ranks that it takes no noticeable time. */
static void simulate(job_t *job, pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    enum { MOST_RANKS = 1024 };
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    if (pdl_ranks_rank(job->ranks) != 0 || pdl_ranks_size(job->ranks) > MOST_RANKS) return;
    if (pdl_sim_plan(oracle, plan, &options, &job->simulated)) job->simulated = NULL;
}

/* Where the system is one whose plans this trainer runs, memory is what `paradl plan` says of it: that of the compiled
   plan. */
static void compile_memory(job_t *job, const pdl_plan_t *plan)
{
    pdl_plan_memory_t memory;

    if (pdl_ranks_rank(job->ranks) != 0 || pdl_plan_memory(plan, job->backend, &memory)) return;
    pdl_plan_take_memory(&memory, &job->projection);
}

/* Of --workers, those that share this rank's samples. */
static int64_t workers_of_rank(const job_t *job)
{
    return job->options.sampling.workers / pdl_mesh_extent(&job->plan->mesh, PDL_AXIS_DATA);
}

/* Values of a sample of which a calibrated machine says how many a thread makes in a second (docs/calibration.md). */
#define CALIBRATED_VALUES (28.0 * 28.0)

/* Made-up samples and stored bytes take as long as they have values; ranks that share a sample make it each for itself. NULL
   where the machine does not say how long. */
static const pdl_dataset_t *describe_input(const job_t *job, const pdl_mesh_t *mesh, pdl_system_t *system,
                                           pdl_dataset_t *dataset)
{
    const pdl_source_info_t *info = job->train != NULL ? pdl_source_info(job->train) : NULL;
    bool                     plain = info != NULL && (info->bytes || info->bytes_per_sample <= 0);

    if (!plain || info->tokens || system->measured_count == 0 || job->options.loader_threads < 1) return NULL;
    system->storage.decode_samples_per_s *=
        CALIBRATED_VALUES / (double)pdl_shape_elements(&info->shape) * job->options.loader_threads *
        (double)pdl_mesh_extent(mesh, PDL_AXIS_DATA) / (double)pdl_mesh_size(mesh);
    system->storage.node_bandwidth_bytes_per_s = system->storage.total_bandwidth_bytes_per_s = 0;
    *dataset = (pdl_dataset_t){.bytes_per_sample = (double)pdl_shape_elements(&info->shape) * (info->bytes ? 1 : 4),
                               .decode_s_per_sample = 1};
    return dataset;
}

static void project_plan(job_t *job, const pdl_system_t *system, const pdl_parameters_t *parameters,
                         pdl_plan_t *plan)
{
    /* Ranks that share devices are projected where it is known what that costs. */
    pdl_system_t wide = system->device.sharing > 0 ? pdl_system_widen(system, pdl_mesh_size(&plan->mesh)) : *system;
    pdl_dataset_t        described;
    const pdl_dataset_t *dataset = describe_input(job, &plan->mesh, &wide, &described);
    pdl_oracle_t        *oracle = NULL;

    if (!pdl_oracle_create(plan->model, &wide, parameters, &oracle))
        job->projected = pdl_oracle_replay(oracle, plan, dataset, &job->projection) == PDL_OK &&
                         pdl_oracle_classes(oracle, plan, &job->projection, job->classes) == PDL_OK;
    if (job->projected) {
        simulate(job, oracle, plan);
        if (system->backend != NULL) compile_memory(job, plan);
        job->launch_s = parameters->kernel_s > 0 ? parameters->kernel_s : system->device.launch_s;
    }
    pdl_oracle_destroy(oracle);
}

/* Settles and projects the plan with its batch cut as the session will cut it. A round is no update of the plan, so there is
   nothing to lay beside it. */
static pdl_status_t settle_on_system(job_t *job, pdl_plan_t *plan)
{
    bool                asked = pdl__option_changed(pdl__train_option_table, "system", job->values);
    const pdl_system_t *system = NULL;
    pdl_parameters_t    parameters;

    plan->micro_batches *= pdl_session_workers(plan, workers_of_rank(job));
    job->described = true;
    job->system = asked ? job->values->system
                        : pdl__device_system(job->backend, job->found, sizeof(job->found), &job->described);
    if (pdl_system_load(job->system, &system)) return asked ? PDL_ERR_INPUT : PDL_OK;
    if (pdl_system_check_precision(system, plan->precision)) {
        pdl_system_destroy(system);
        return asked ? PDL_ERR_INPUT : PDL_OK;
    }
    if (!pdl_parameters_choose(NULL, system, &parameters) && !pdl_search_settle(system, &parameters, plan) &&
        job->options.aggregate.kind == PDL_AGGREGATE_STEP && job->described)
        project_plan(job, system, &parameters, plan);
    pdl_system_destroy(system);
    return PDL_OK;
}

/* One line on what a plan file left open. */
static void say_settled(job_t *job, const pdl_plan_t *before, const pdl_plan_t *after)
{
    char   more[256];
    size_t length = strlen(job->said);

    if (job->file.plan == NULL || *pdl_plan_format_settled(before, after, more, sizeof(more)) == '\0') return;
    snprintf(job->said + length, sizeof(job->said) - length, "%schosen for %s, as the plan leaves it open: %s",
             length > 0 ? "; " : "", job->system, more);
}

/* Decides what the plan leaves open, and projects what the run will take. The comparison at the end is a service: a system that
   cannot be projected does not stop the run, but one that was asked for has to be there. */
static pdl_status_t project(job_t *job)
{
    pdl_plan_t *plan = job->own_plan ? job->own_plan : job->file.plan, *copy;

    pdl_status_t status = pdl_plan_copy(plan, &copy);
    if (status) return status;
    status = settle_on_system(job, copy);
    say_settled(job, plan, copy);
    memcpy(plan->stage_first, copy->stage_first,
           (size_t)(pdl_plan_stage_count(plan) + 1) * sizeof(*plan->stage_first));
    memcpy(plan->collective, copy->collective, sizeof(plan->collective));
    plan->stages_given = copy->stages_given;
    pdl_plan_destroy(copy);
    return status;
}

/* What the plan says of samples holds unless the command says something else. */
static void apply_policy(const pdl_plan_t *plan, pdl_sampling_options_t *o)
{
    const pdl_data_policy_t *policy = &plan->data_policy;

    if (!policy->given) return;
    if (o->shuffle.kind == PDL_SHUFFLE_GLOBAL) {
        o->shuffle.kind = (pdl_shuffle_kind_t)policy->shuffle;
        o->shuffle.fraction = policy->exchange;
    }
    if (o->hide.method != PDL_HIDE_NONE || policy->hide == 0) return;
    o->hide.method = PDL_HIDE_LOSS;
    o->hide.fraction = policy->hide;
    o->hide.refresh_every = policy->refresh_every;
}

/* The cores of this machine shared out over the ranks, as if all of them were here. */
static int dry_threads(const job_t *job)
{
    int cores = pdl__compute_threads(job->values->threads, job->ranks), ranks = pdl_ranks_size(job->ranks);

    if (job->values->threads > 0) return cores;
    return cores / ranks > 1 ? cores / ranks : 1;
}

static pdl_status_t report_dry(const job_t *job, const pdl_session_t *session)
{
    const pdl__train_values_t *v = job->values;
    pdl_dry_report_t           report = {.session = session,
                                         .plan = job->plan,
                                         .model_name = model_name(job),
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
static pdl_status_t open_dry(job_t *job, const pdl__operands_t *operands, int64_t rank, int64_t ranks,
                             pdl_session_t **session)
{
    pdl_status_t status = pdl_ranks_create_dry((int)rank, (int)ranks, &job->ranks);

    if (!status) status = pdl__train_options_from(job->values, &job->options);
    if (!status) status = load_plan(job, operands);
    if (!status) status = create_backend(job, dry_threads(job));
    if (!status) status = project(job);
    job->options.session.plan = job->plan;
    job->options.session.backend = job->backend;
    job->options.session.ranks = job->ranks;
    if (!status) job->options.session.workers = workers_of_rank(job);
    return status ? status : pdl_session_create(&job->options.session, session);
}

/* What one rank would do. */
static pdl_status_t run_dry(job_t *job, const pdl__operands_t *operands, int64_t ranks)
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

static pdl_status_t prepare(job_t *job, const pdl__operands_t *operands)
{
    pdl_status_t status = pdl__train_options_from(job->values, &job->options);

    if (!status) status = load_plan(job, operands);
    if (!status) status = open_data(job);
    if (!status) status = create_backend(job, pdl__compute_threads(job->values->threads, job->ranks));
    if (!status)
        job->options.loader_threads = pdl__loader_threads(job->values->loader_threads, job->backend, job->ranks);
    if (!status && job->values->init)
        status = pdl_initial_open(job->values->init,
                                  job->values->init_strict ? PDL_INITIAL_STRICT : PDL_INITIAL_ANY, &job->initial);
    if (status) return status;
    job->options.session.initial = job->initial;
    apply_policy(job->plan, &job->options.sampling);
    status = project(job);
    if (status) return status;
    job->options.session.plan = job->plan;
    job->options.session.backend = job->backend;
    job->options.session.ranks = job->ranks;
    job->options.model_name = model_name(job);
    job->options.train = job->train;
    job->options.valid = job->valid;
    return PDL_OK;
}

/* Nodes may describe themselves differently, but all ranks must do the same. */
static pdl_status_t share_plan(job_t *job)
{
    pdl_plan_t  *plan = job->own_plan ? job->own_plan : job->file.plan;
    int64_t      borders = (pdl_plan_stage_count(plan) + 1) * (int64_t)sizeof(*plan->stage_first);
    pdl_status_t status = pdl_ranks_broadcast(job->ranks, plan->stage_first, borders, 0);

    return status ? status : pdl_ranks_broadcast(job->ranks, plan->collective, sizeof(plan->collective), 0);
}

static pdl_status_t run_reported(job_t *job)
{
    const pdl__train_values_t *v = job->values;
    bool                       speaks = pdl_ranks_rank(job->ranks) == 0;
    pdl_run_report_spec_t      spec = {.talk = v->quiet ? NULL : stderr,
                                       .log = v->log,
                                       .append = v->resume,
                                       .terminal = pdl_launch_terminal(2),
                                       .plan = job->plan,
                                       .model_name = model_name(job),
                                       .data_name = data_name(job),
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

static void release(job_t *job)
{
    pdl_source_close(job->train);
    pdl_source_close(job->valid);
    pdl_initial_close(job->initial);
    pdl_backend_destroy(job->backend);
    pdl_plan_sim_destroy(job->simulated);
    if (job->own_plan) pdl_plan_destroy(job->own_plan);
    pdl_model_destroy(job->model);
    if (job->file.plan) pdl_plan_file_free(&job->file);
    pdl_ranks_destroy(job->ranks);
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
    if (plan) apply_policy(plan, &options.sampling);
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
    job_t            job = {.values = request->values};
    pdl_session_t   *session = NULL;
    pdl_status_t     status = open_dry(&job, request->operands, 0, ranks, &session);

    if (!status) apply_policy(job.plan, &job.options.sampling);
    if (!status) status = pdl_train_prepare(&job.options, &job.options.session);
    if (!status) pdl_mesh_format(&job.plan->mesh, how, size);
    pdl_session_destroy(session);
    release(&job);
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
    job_t               job = {.values = v};
    pdl_status_t        status = settle(v, operands);
    int64_t             ranks = v->pe;

    if (status) return status;
    if (v->device.dry) {
        status = run_dry(&job, operands, ranks);
        release(&job);
        return status;
    }
    status = check_restarts(v, operands);
    if (status) return status;
    if (pdl__start_wanted(ranks)) return start_ranks(v, operands);
    status = pdl_ranks_create(&job.ranks);
    if (status) return status;
    status = pdl_watch_start(job.ranks, v->stall_timeout, NULL);
    if (!status) status = pdl_ranks_agree(job.ranks, prepare(&job, operands));
    if (!status) status = share_plan(&job);
    if (!status) status = run_reported(&job);
    if (status && pdl_watch_failed(job.ranks)) pdl_ranks_abort(job.ranks, status);
    release(&job);
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
