/*
 * The rate of an exchange of samples between random workers, from simulating a personalised all-to-all on the network of
 * a system.
 */
#include <paradl/sim/plan_sim.h>

#include <stdlib.h>

#define BLOCK_BYTES INT64_C(1000000) /* from each to each */
/* Start-ups are counted apart, message by message; 0 would mean those of the system. */
#define NO_STARTUP_S 1e-15

static pdl_status_t simulate(const pdl_topology_t *topology, const pdl_schedule_t *schedule, int64_t workers,
                             const int *hosts, double *bytes_per_s)
{
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_job_t     job = {.schedule = schedule, .bytes = BLOCK_BYTES * workers * workers, .hosts = hosts};
    pdl_sim_result_t  result;
    pdl_status_t      status;

    /* In every step all messages are of the same size, so that counting what each link carries is exact. */
    options.engine = PDL_ENGINE_LOADS;
    status = pdl_sim_run(topology, &job, 1, &options, &result);
    if (status) return status;
    *bytes_per_s = (double)(workers - 1) * (double)BLOCK_BYTES / result.time_s;
    pdl_sim_result_free(&result);
    return PDL_OK;
}

pdl_status_t pdl_sim_exchange_rate(const pdl_system_t *system, const pdl_parameters_t *parameters, int64_t pe,
                                   int64_t workers, double *bytes_per_s)
{
    pdl_machine_speed_t speed = {parameters->fabric_efficiency, parameters->network_efficiency, NO_STARTUP_S,
                                 NO_STARTUP_S};
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_ALLTOALL, .algorithm = "pairwise", .ranks = workers};
    pdl_schedule_t     *schedule = NULL;
    pdl_topology_t     *topology = NULL;
    int                *hosts;
    pdl_status_t        status;

    if (workers < 2 || workers > pe || workers > PDL_EXCHANGE_WORKERS)
        return pdl_error(PDL_ERR_LIMIT, "an exchange between %lld workers on %lld devices: 2 to %d are simulated",
                         (long long)workers, (long long)pe, PDL_EXCHANGE_WORKERS);
    hosts = malloc((size_t)workers * sizeof(*hosts));
    if (hosts == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int64_t w = 0; w < workers; w++) hosts[w] = (int)(w * pe / workers);
    status = pdl_topology_of_system(system, pe, &speed, &topology);
    if (!status) status = pdl_schedule_create(&spec, &schedule);
    if (!status) status = simulate(topology, schedule, workers, hosts, bytes_per_s);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
    free(hosts);
    return status;
}
