/*
 * Simulation of collectives: checks the request, runs an engine, sums energy and the busiest link.
 */
#include "base/clock.h"
#include "sim/flow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

const char *const pdl_engine_names[PDL_ENGINE_COUNT] = {"flow", "loads", "simgrid"};

pdl_sim_options_t pdl_sim_options_default(void)
{
    return (pdl_sim_options_t){.engine = PDL_ENGINE_FLOW, .periodic = true};
}

static pdl_status_t check_job(const pdl_topology_t *topology, const pdl_sim_job_t *job, int index)
{
    int hosts = pdl_topology_hosts(topology), ranks = pdl_schedule_ranks(job->schedule);

    if (job->bytes < 1)
        return pdl_error(PDL_ERR_INPUT, "job %d: a collective of %lld bytes; give at least one", index,
                         (long long)job->bytes);
    if (job->hosts == NULL && ranks > hosts)
        return pdl_error(PDL_ERR_INPUT, "job %d: %d ranks do not fit on the %d hosts of %s", index, ranks, hosts,
                         pdl_topology_name(topology));
    for (int r = 0; r < ranks; r++) {
        if (job->hosts != NULL && (job->hosts[r] < 0 || job->hosts[r] >= hosts))
            return pdl_error(PDL_ERR_INPUT, "job %d: rank %d is on host %d, but %s has hosts 0 to %d", index, r,
                             job->hosts[r], pdl_topology_name(topology), hosts - 1);
        if (job->start_s != NULL && !(job->start_s[r] >= 0))
            return pdl_error(PDL_ERR_INPUT, "job %d: rank %d starts at %g s; a start is 0 or later", index, r,
                             job->start_s[r]);
    }
    return PDL_OK;
}

static pdl_status_t check_factors(const char *name, const pdl_factor_t *factors, int count)
{
    for (int i = 0; i < count; i++) {
        if (!(factors[i].factor > 0))
            return pdl_error(PDL_ERR_INPUT, "%s factor %g from %g bytes on: a factor is above 0", name,
                             factors[i].factor, factors[i].bytes);
        if (i > 0 && !(factors[i].bytes > factors[i - 1].bytes))
            return pdl_error(PDL_ERR_INPUT, "%s factors: %g bytes come after %g; give sizes in ascending order",
                             name, factors[i].bytes, factors[i - 1].bytes);
    }
    return PDL_OK;
}

static pdl_status_t check_options(const pdl_sim_options_t *options)
{
    pdl_status_t status;

    if (!(options->gamma_s_per_byte >= 0) || !(options->eager_bytes >= 0))
        return pdl_error(PDL_ERR_INPUT, "reduction time and eager size of a simulation are 0 or more");
    if (!(options->reverse_share >= 0 && options->reverse_share <= 1))
        return pdl_error(PDL_ERR_INPUT, "reverse share %g: it must be between 0 and 1", options->reverse_share);
    status = check_factors("latency", options->latency_factor, options->latency_factors);
    return status ? status : check_factors("bandwidth", options->bandwidth_factor, options->bandwidth_factors);
}

/* Power is idle + use * (peak - idle), and the integral of use over time is bytes/capacity. */
static void add_energy(const pdl_topology_t *topology, pdl_sim_result_t *result)
{
    const pdl_link_t *links = pdl_topology_links(topology);

    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        double bytes = result->link_bytes[i];
        double joule = links[i].idle_w * result->time_s;

        if (bytes > 0) joule += (links[i].peak_w - links[i].idle_w) * bytes / links[i].bytes_per_s;
        if (bytes > 0) result->energy_used_j += joule;
        result->energy_all_j += joule;
        if (bytes > result->busiest_bytes) {
            result->busiest_bytes = bytes;
            result->busiest_link = i;
        }
    }
}

static pdl_status_t run_engine(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                               const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    switch (options->engine) {
    case PDL_ENGINE_FLOW: return pdl__sim_flow(topology, jobs, job_count, options, result);
    case PDL_ENGINE_LOADS: return pdl__sim_loads(topology, jobs, job_count, options, result);
    case PDL_ENGINE_SIMGRID: return pdl__sim_simgrid(topology, jobs, job_count, options, result);
    default: return pdl_error(PDL_ERR_INPUT, "unknown engine %d: use flow, loads or simgrid", (int)options->engine);
    }
}

static void finish(const pdl_topology_t *topology, const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    struct rusage usage;

    add_energy(topology, result);
    if (!options->link_loads) {
        free(result->link_bytes);
        result->link_bytes = NULL;
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) result->max_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
}

pdl_status_t pdl_sim_run(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                         const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    pdl_sim_result_t done = {.busiest_link = -1};
    double           begin = pdl__seconds();
    pdl_status_t     status = check_options(options);

    for (int j = 0; j < job_count && !status; j++) status = check_job(topology, &jobs[j], j);
    if (status) return status;
    done.job_s = calloc((size_t)job_count + 1, sizeof(double));
    done.link_bytes = calloc((size_t)pdl_topology_link_count(topology) + 1, sizeof(double));
    if (done.job_s == NULL || done.link_bytes == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the result of the simulation");
    } else {
        status = run_engine(topology, jobs, job_count, options, &done);
    }
    if (status) {
        pdl_sim_result_free(&done);
        return status;
    }
    finish(topology, options, &done);
    done.wall_s = pdl__seconds() - begin;
    *result = done;
    return PDL_OK;
}

void pdl_sim_result_free(pdl_sim_result_t *result)
{
    free(result->job_s);
    free(result->link_bytes);
    memset(result, 0, sizeof(*result));
}
