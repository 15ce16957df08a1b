/*
 * What a run will take: the plan settled, projected and simulated on the system that describes the device.
 */
#include "cli/train/job.h"

#include <paradl/comm/network.h>
#include <paradl/oracle/search.h>
#include <paradl/plan/collectives.h>
#include <paradl/topo/topo.h>
#include <paradl/train/dry.h>

#include <string.h>

/* Simulates the plan on the system too, for so few ranks that it takes no noticeable time. */
static void simulate(pdl__train_job_t *job, pdl_oracle_t *oracle, pdl_plan_t *plan)
{
    enum { MOST_RANKS = 1024 };
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    if (pdl_ranks_rank(job->ranks) != 0 || pdl_ranks_size(job->ranks) > MOST_RANKS) return;
    if (pdl_sim_plan(oracle, plan, &options, &job->simulated)) job->simulated = NULL;
}

/* Where the system is one whose plans this trainer runs, memory is what `paradl plan` says of it: that of the compiled
   plan. */
static void compile_memory(pdl__train_job_t *job, const pdl_plan_t *plan)
{
    pdl_plan_memory_t memory;

    if (pdl_ranks_rank(job->ranks) != 0 || pdl_plan_memory(plan, job->backend, &memory)) return;
    pdl_plan_take_memory(&memory, &job->projection);
}

int64_t pdl__job_workers(const pdl__train_job_t *job)
{
    return job->options.sampling.workers / pdl_mesh_extent(&job->plan->mesh, PDL_AXIS_DATA);
}

/* Values of a sample of which a calibrated machine says how many a thread makes in a second (docs/calibration.md). */
#define CALIBRATED_VALUES (28.0 * 28.0)

/* Made-up samples and stored bytes take as long as they have values; ranks that share a sample make it each for itself. NULL
   where the machine does not say how long. */
static const pdl_dataset_t *describe_input(const pdl__train_job_t *job, const pdl_mesh_t *mesh,
                                           pdl_system_t *system, pdl_dataset_t *dataset)
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

static void project_plan(pdl__train_job_t *job, const pdl_system_t *system, const pdl_parameters_t *parameters,
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

/* A network that was measured says into which messages sums are cut there; of a job whose hosts are in another order it says nothing. */
static pdl_status_t use_network(pdl__train_job_t *job, const pdl_system_t *system)
{
    const pdl_topology_t *network;

    if (pdl_topology_network(system, &network) != PDL_OK || network == NULL) return PDL_OK;
    job->options.session.chunk_bytes = (int64_t)pdl_topology_get_spec(network)->messages.chunk_bytes;
    return pdl_network_check_hosts(job->ranks, network);
}

/* Settles and projects the plan with its batch cut as the session will cut it. A round is no update of the plan, so there is
   nothing to lay beside it. */
static pdl_status_t settle_on_system(pdl__train_job_t *job, pdl_plan_t *plan)
{
    bool                asked = pdl__option_changed(pdl__train_option_table, "system", job->values);
    const pdl_system_t *system = NULL;
    pdl_parameters_t    parameters;
    pdl_status_t        status;

    plan->micro_batches *= pdl_session_workers(plan, pdl__job_workers(job));
    job->described = true;
    job->system = asked ? job->values->system
                        : pdl__device_system(job->backend, job->found, sizeof(job->found), &job->described);
    if (pdl_system_load(job->system, &system)) return asked ? PDL_ERR_INPUT : PDL_OK;
    if (pdl_system_check_precision(system, plan->precision)) {
        pdl_system_destroy(system);
        return asked ? PDL_ERR_INPUT : PDL_OK;
    }
    status = use_network(job, system);
    if (!status && !pdl_parameters_choose(NULL, system, &parameters) &&
        !pdl_search_settle(system, &parameters, plan) && job->options.aggregate.kind == PDL_AGGREGATE_STEP &&
        job->described)
        project_plan(job, system, &parameters, plan);
    pdl_system_destroy(system);
    return status;
}

/* One line on what a plan file left open. */
static void say_settled(pdl__train_job_t *job, const pdl_plan_t *before, const pdl_plan_t *after)
{
    char   more[256];
    size_t length = strlen(job->said);

    if (job->file.plan == NULL || *pdl_plan_format_settled(before, after, more, sizeof(more)) == '\0') return;
    snprintf(job->said + length, sizeof(job->said) - length, "%schosen for %s, as the plan leaves it open: %s",
             length > 0 ? "; " : "", job->system, more);
}

pdl_status_t pdl__job_project(pdl__train_job_t *job)
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
