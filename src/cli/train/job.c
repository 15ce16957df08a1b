/*
 * What a run of paradl train holds: made from the command or a plan file, and given back.
 */
#include "cli/train/job.h"

#include "base/plugin.h"
#include "cli/train/plan.h"
#include "cli/train/threads.h"

#include <paradl/plan/collectives.h>

#include <string.h>

static pdl_status_t plan_from_options(pdl__train_job_t *job)
{
    const pdl__train_values_t *v = job->values;
    pdl_lora_t                 lora;
    pdl_status_t               status = pdl__lora_of(&v->lora, &lora);

    if (!status) status = pdl__load_model(v->model, 0, &lora, &job->model);
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
static pdl_status_t name_algorithm(pdl__train_job_t *job, pdl_plan_t *plan)
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
static pdl_status_t change_collectives(pdl__train_job_t *job, pdl_plan_t *plan)
{
    double       sparsity = job->values->gradient_sparsity;
    pdl_status_t status = name_algorithm(job, plan);

    if (status || sparsity == 0) return status;
    status = pdl_plan_thin_gradients(plan, 1 - sparsity);
    return status ? pdl_error(status, "--gradient-sparsity: %s", pdl_error_message()) : PDL_OK;
}

pdl_status_t pdl__job_load_plan(pdl__train_job_t *job, const pdl__operands_t *operands)
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

const char *pdl__job_model_name(const pdl__train_job_t *job)
{
    return job->values->model ? job->values->model : job->file.model_name;
}

const char *pdl__job_data_name(const pdl__train_job_t *job)
{
    return job->values->data ? job->values->data : job->file.data_name;
}

static pdl_status_t open_data(pdl__train_job_t *job)
{
    const pdl__train_values_t *v = job->values;
    pdl_source_options_t       options = {.vocabulary = v->vocabulary, .samples = v->samples};

    if (*pdl__job_data_name(job) == '\0')
        return pdl_error(PDL_ERR_INPUT, "the plan names no data set: add --data D");
    pdl_source_options_for(job->plan->model, &options);
    pdl_status_t status = pdl_source_open(pdl__job_data_name(job), &options, &job->train);
    if (status || v->no_valid) return status;
    options.split = PDL_SPLIT_VALID;
    status = pdl_source_open(pdl__job_data_name(job), &options, &job->valid);
    if (status) return pdl_error(status, "%s; or train without: --no-valid", pdl_error_message());
    return PDL_OK;
}

pdl_status_t pdl__job_create_backend(pdl__train_job_t *job, int threads)
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
    status = pdl__device_create(&device, job->ranks, &options, &job->backend);
    if (!status && device.kind == PDL__DEVICE_CPU && !pdl_cpu_uses_onednn(job->backend) &&
        pdl_ranks_rank(job->ranks) == 0)
        fprintf(stderr,
                "paradl: note: oneDNN is missing, so convolutions are several times slower: install "
                "libdnnl-dev%s\n",
                pdl__plugin_found(PDL__PLUGIN_DNNL) ? "" : " and build paradl again");
    return status;
}

void pdl__train_apply_policy(const pdl_plan_t *plan, pdl_sampling_options_t *o)
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

pdl_status_t pdl__job_prepare(pdl__train_job_t *job, const pdl__operands_t *operands)
{
    pdl_status_t status = pdl__train_options_from(job->values, &job->options);

    if (!status) status = pdl__job_load_plan(job, operands);
    if (!status) status = open_data(job);
    if (!status) status = pdl__job_create_backend(job, pdl__compute_threads(job->values->threads, job->ranks));
    if (!status)
        job->options.loader_threads = pdl__loader_threads(job->values->loader_threads, job->backend, job->ranks);
    if (!status && job->values->init)
        status = pdl_initial_open(job->values->init,
                                  job->values->init_strict ? PDL_INITIAL_STRICT : PDL_INITIAL_ANY, &job->initial);
    if (status) return status;
    job->options.session.initial = job->initial;
    pdl__train_apply_policy(job->plan, &job->options.sampling);
    status = pdl__job_project(job);
    if (status) return status;
    job->options.session.plan = job->plan;
    job->options.session.backend = job->backend;
    job->options.session.ranks = job->ranks;
    job->options.model_name = pdl__job_model_name(job);
    job->options.train = job->train;
    job->options.valid = job->valid;
    return PDL_OK;
}

pdl_status_t pdl__job_share_plan(pdl__train_job_t *job)
{
    pdl_plan_t  *plan = job->own_plan ? job->own_plan : job->file.plan;
    int64_t      borders = (pdl_plan_stage_count(plan) + 1) * (int64_t)sizeof(*plan->stage_first);
    pdl_status_t status = pdl_ranks_broadcast(job->ranks, plan->stage_first, borders, 0);

    return status ? status : pdl_ranks_broadcast(job->ranks, plan->collective, sizeof(plan->collective), 0);
}

void pdl__job_release(pdl__train_job_t *job)
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
