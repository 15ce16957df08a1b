/*
 * paradl simulate PLAN.yaml: the plan's passes in time on the network of its system, beside its projection.
 */
#include "cli/simulate_plan.h"

#include "cli/commands.h"
#include "cli/simulate_options.h"

#include <paradl/sim_report.h>

/* What was loaded. */
typedef struct job {
    const pdl__plan_values_t *values;
    pdl_plan_file_t           file;
    const pdl_system_t       *system;
    const char               *system_name;
    pdl_parameters_t          parameters;
    pdl_oracle_t             *oracle;
    pdl_plan_sim_options_t    options;
} job_t;

static pdl_status_t load(job_t *job)
{
    const pdl__plan_values_t *v = job->values;
    pdl_status_t              status = pdl_plan_read(v->path, &job->file);

    if (status) return status;
    job->system_name = v->system != NULL ? v->system : job->file.system_name;
    if (job->system_name[0] == '\0')
        return pdl_error(PDL_ERR_INPUT, "%s names no system: add one with --system S (paradl system list)",
                         v->path);
    status = pdl_system_load(job->system_name, &job->system);
    if (!status) status = pdl_parameters_choose(v->parameters, job->system, &job->parameters);
    if (!status) status = pdl_oracle_create(job->file.model, job->system, &job->parameters, &job->oracle);
    return status;
}

static void unload(job_t *job)
{
    pdl_oracle_destroy(job->oracle);
    pdl_system_destroy(job->system);
    pdl_plan_file_free(&job->file);
}

static pdl_status_t show(const job_t *job, const pdl_plan_sim_t *sim)
{
    pdl_plan_sim_report_t report = {.plan = job->file.plan,
                                    .model_name = job->file.model_name,
                                    .system_name = job->system_name,
                                    .parameters = job->parameters.name,
                                    .sim = sim,
                                    .trace = job->values->trace};

    return job->values->json ? pdl_report_plan_simulation_json(&report, stdout)
                             : pdl_report_plan_simulation(&report, stdout);
}

static pdl_status_t run_traced(job_t *job, pdl_plan_sim_t **sim)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(job->values->trace, &output);

    if (status) return status;
    job->options.trace = pdl_output_stream(output);
    status = pdl_sim_plan(job->oracle, job->file.plan, &job->options, sim);
    return pdl__finish_output(output, status);
}

pdl_status_t pdl__simulate_plan(const pdl__plan_values_t *v)
{
    job_t           job = {.values = v, .options = pdl_plan_sim_options_default()};
    pdl_plan_sim_t *sim = NULL;
    pdl_status_t    status = load(&job);

    job.options.engine = v->engine;
    job.options.trace_ranks = v->trace_ranks > INT32_MAX ? INT32_MAX : (int)v->trace_ranks;
    if (!status && v->slow != NULL)
        status = pdl__parse_slow(v->slow, pdl_mesh_size(&job.file.plan->mesh), &job.options.slow_rank,
                                 &job.options.slow_factor);
    if (!status)
        status =
            v->trace != NULL ? run_traced(&job, &sim) : pdl_sim_plan(job.oracle, job.file.plan, &job.options, &sim);
    if (!status) status = show(&job, sim);
    pdl_plan_sim_destroy(sim);
    unload(&job);
    return status;
}
