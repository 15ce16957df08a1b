/*
 * paradl simulate PLAN.yaml: the plan's passes in time on the network of its system, beside its projection.
 */
#include "cli/simulate/plan.h"

#include "cli/commands.h"
#include "cli/simulate/options.h"

#include <paradl/data/data.h>
#include <paradl/oracle/framework.h>
#include <paradl/plan/collectives.h>
#include <paradl/report/sim_report.h>

/* What was loaded. */
typedef struct job {
    const pdl__plan_values_t *values;
    pdl_plan_file_t           file;
    const pdl_system_t       *system;
    const char               *system_name;
    pdl_parameters_t          parameters;
    pdl_oracle_t             *oracle;
    char                      settled[256]; /* what the plan left open */
    pdl_plan_sim_options_t    options;
    pdl_policy_row_t          policy[2]; /* the plan's and, to compare, global without hiding */
} job_t;

static pdl_status_t load(job_t *job)
{
    const pdl__plan_values_t *v = job->values;
    pdl_status_t              status = pdl_plan_read(v->path, &job->file);

    if (status) return status;
    if (job->file.note[0] != '\0') fprintf(stderr, "%s\n", job->file.note);
    pdl__print_remarks(job->file.model);
    job->system_name = v->system != NULL ? v->system : job->file.system_name;
    if (job->system_name[0] == '\0')
        return pdl_error(PDL_ERR_INPUT, "%s names no system: add one with --system S (paradl system list)",
                         v->path);
    status = pdl_system_load_changed(job->system_name, v->set->text, v->set->count, &job->system);
    if (!status) status = pdl_system_check_precision(job->system, job->file.plan->precision);
    if (!status) status = pdl_framework_choose(v->framework, v->parameters, job->system, &job->parameters);
    if (!status) status = pdl_parameters_change(v->with->text, (size_t)v->with->count, &job->parameters);
    if (!status) status = pdl_oracle_create(job->file.model, job->system, &job->parameters, &job->oracle);
    return status;
}

/* Decides what the plan leaves open; a line says so when all else is well. */
static pdl_status_t settle(job_t *job)
{
    pdl_plan_t  *before;
    pdl_status_t status = pdl_plan_copy(job->file.plan, &before);

    if (status) return status;
    status = pdl_oracle_settle(job->oracle, job->file.plan);
    if (!status) pdl_plan_format_settled(before, job->file.plan, job->settled, sizeof(job->settled));
    pdl_plan_destroy(before);
    return status;
}

/* A plan that does not fit cannot run, whatever it would take. */
static pdl_status_t check_memory(job_t *job)
{
    pdl_projection_t projection;
    char             stage[64] = "", needs[PDL_FORMAT_SIZE], has[PDL_FORMAT_SIZE];
    pdl_status_t     status = pdl_oracle_project(job->oracle, job->file.plan, NULL, &projection);

    if (status || projection.fits) return status;
    pdl_format_bytes(projection.memory_bytes, needs);
    pdl_format_bytes(projection.memory_device != NULL ? projection.memory_room : job->system->device.memory_bytes,
                     has);
    if (projection.memory_device != NULL)
        snprintf(stage, sizeof(stage), "of stage %lld, ", (long long)projection.memory_stage);
    if (!job->values->ignore_memory)
        return pdl_error(PDL_ERR_LIMIT,
                         "%s does not fit: it needs %s of the %s per device (%s%s); shard or split more, use more "
                         "devices, or simulate it all the same with --ignore-memory",
                         job->values->path, needs, has, stage,
                         projection.memory_device != NULL ? projection.memory_device : job->system->device.name);
    fprintf(stderr, "paradl: note: %s does not fit: it needs %s of the %s per device\n", job->values->path, needs,
            has);
    return PDL_OK;
}

static void unload(job_t *job)
{
    pdl_oracle_destroy(job->oracle);
    pdl_system_destroy(job->system);
    pdl_plan_file_free(&job->file);
}

/* The plan's data policy on the simulated iteration, with the exchange simulated on the network as well. */
static pdl_status_t project_policy(job_t *job, const pdl_plan_sim_t *sim)
{
    pdl_plan_t           *plan = job->file.plan;
    pdl_policy_question_t question;
    pdl_projection_t      projection;
    pdl_dataset_t         dataset;
    pdl_status_t          status = pdl_data_describe(job->file.data_name, job->file.model, &dataset);

    if (!status) status = pdl_oracle_replay(job->oracle, plan, &dataset, &projection);
    if (status) return status;
    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) projection.comm[i] = sim->simulated.comm[i];
    projection.bubble_s = sim->simulated.bubble_s;
    question = pdl_policy_question_of_plan(plan, &dataset, &projection);
    if (question.workers > 1 && question.workers <= PDL_EXCHANGE_WORKERS && plan->data_policy.exchange > 0)
        status = pdl_sim_exchange_rate(job->system, &job->parameters, question.pe, question.workers,
                                       &question.exchange_bytes_per_s);
    job->policy[0].policy = plan->data_policy;
    job->policy[1].policy = pdl_data_policy_default();
    for (int i = 0; i < 2 && !status; i++) {
        question.policy = job->policy[i].policy;
        status = pdl_oracle_policy(job->oracle, &question, &job->policy[i].projection);
    }
    return status;
}

static bool has_policy(const job_t *job)
{
    return job->file.plan->data_policy.given && job->file.data_name[0] != '\0';
}

static pdl_status_t show(const job_t *job, const pdl_plan_sim_t *sim)
{
    pdl_policy_report_t   policy = {.rows = job->policy, .count = 1, .base = &job->policy[1]};
    pdl_plan_sim_report_t report = {.plan = job->file.plan,
                                    .model_name = job->file.model_name,
                                    .system_name = job->system_name,
                                    .parameters = job->parameters.name,
                                    .framework = job->parameters.framework,
                                    .sim = sim,
                                    .device_bytes = sim->projected.memory_device != NULL
                                                        ? sim->projected.memory_room
                                                        : job->system->device.memory_bytes,
                                    .trace = job->values->trace,
                                    .policy = has_policy(job) ? &policy : NULL};

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
    if (!status) status = check_memory(&job);
    if (!status && v->slow != NULL)
        status = pdl__parse_slow(v->slow, pdl_mesh_size(&job.file.plan->mesh), &job.options.slow_rank,
                                 &job.options.slow_factor);
    if (!status) status = settle(&job);
    if (!status)
        status =
            v->trace != NULL ? run_traced(&job, &sim) : pdl_sim_plan(job.oracle, job.file.plan, &job.options, &sim);
    if (!status && has_policy(&job)) status = project_policy(&job, sim);
    if (!status && job.settled[0] != '\0')
        fprintf(stderr, "paradl: note: chosen for %s, as the plan leaves it open: %s\n", job.system_name,
                job.settled);
    if (!status) status = show(&job, sim);
    pdl_plan_sim_destroy(sim);
    unload(&job);
    return status;
}
