/*
 * One collective on one topology, for the tests of the simulator.
 */
#ifndef PDL_TEST_SIM_CASE_H
#define PDL_TEST_SIM_CASE_H

#include "test.h"

#include <paradl/sim/sim.h>

#include <stdlib.h>

typedef struct sim_case {
    const char      *topology;
    int              hosts, per_switch, uplinks; /* per_switch: hosts of a leaf for fat trees */
    pdl_collective_t collective;
    const char      *algorithm;
    int64_t          bytes;
    double           host_latency_s; /* 0: as the links */
    int              dims[2];
    int64_t          shape[4]; /* dragonfly; kautz: degree, diameter */
    pdl_duplex_t     duplex;
    double           host_bytes_per_s; /* 0: as the links */
} sim_case_t;

__attribute__((unused)) static pdl_topology_t *make_topology(const sim_case_t *c)
{
    pdl_topology_spec_t spec = pdl_topology_spec(c->topology);
    pdl_topology_t     *topology = NULL;

    spec.hosts = c->hosts;
    spec.hosts_per_switch = c->per_switch;
    spec.leaf_hosts = c->per_switch;
    spec.uplinks = c->uplinks;
    if (c->duplex == PDL_HALF_DUPLEX) spec.duplex = PDL_HALF_DUPLEX;
    if (c->host_latency_s > 0) spec.host_link_latency_s = c->host_latency_s;
    if (c->host_bytes_per_s > 0) spec.host_link_bytes_per_s = c->host_bytes_per_s;
    if (c->dims[0] > 0) {
        spec.dim_count = 2;
        spec.dims[0] = c->dims[0];
        spec.dims[1] = c->dims[1];
    }
    for (int i = 0; i < 4 && c->shape[0] > 0; i++) spec.shape[i] = c->shape[i];
    if (strcmp(c->topology, "kautz") == 0) {
        spec.degree = c->shape[0];
        spec.diameter = c->shape[1];
    }
    REQUIRE_OK(pdl_topology_create(&spec, &topology));
    return topology;
}

__attribute__((unused)) static pdl_schedule_t *make_schedule(const sim_case_t *c)
{
    pdl_schedule_spec_t spec = {.collective = c->collective,
                                .algorithm = c->algorithm,
                                .ranks = c->hosts,
                                .hosts_per_switch = c->per_switch,
                                .rows = strcmp(c->topology, "kautz") == 0 ? c->shape[0] : c->dims[0],
                                .columns = c->dims[1]};
    pdl_schedule_t     *schedule = NULL;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    return schedule;
}

/* Simulates and gives the time; -1 after a failed check. */
__attribute__((unused)) static double run_case(const sim_case_t *c, const pdl_sim_options_t *options)
{
    pdl_topology_t  *topology = make_topology(c);
    pdl_schedule_t  *schedule = topology != NULL ? make_schedule(c) : NULL;
    pdl_sim_result_t result = {.time_s = -1};

    if (schedule != NULL) {
        pdl_sim_job_t job = {.schedule = schedule, .bytes = c->bytes};

        CHECK_OK(pdl_sim_run(topology, &job, 1, options, &result));
    }
    double time_s = result.time_s;

    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
    return time_s;
}

#endif
