/*
 * Sparse allreduces on a topology. The sizes of their messages depend on how the supports of the ranks overlap, so
 * that they are lists of messages with expected sizes and no schedules of blocks. A step takes the longest way of
 * its messages, then the time of its busiest link, then the largest reduction; then the next step starts.
 */
#include "sim/case.h"
#include "sim/flow.h"

#include <paradl/coll/sparse.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_BYTES 4

typedef struct sparse_step {
    double latency_s;
    double alone_s;  /* the largest message at the speed of the slowest link of its way, or a host's own link */
    double loaded_s; /* the busiest link */
    double reduced;  /* most bytes added by a rank */
} sparse_step_t;

typedef struct sparse_sim {
    const pdl_sim_case_t *asked;
    const pdl_link_t     *links;
    double *load, *end_load; /* of the step: all of a link, and that of messages that start or end there */
    double *reduced;         /* of the step, by each rank */
    double *total;           /* of all steps */
    int     way[PDL_MAX_ROUTE];
} sparse_sim_t;

bool pdl__is_sparse(const char *algorithm)
{
    return strncmp(algorithm, "sparse_", 7) == 0;
}

pdl_status_t pdl__check_sparse(const pdl_sim_case_t *asked, const char *algorithm)
{
    if (asked->collective != PDL_COLL_ALLREDUCE) return pdl_error(PDL_ERR_LIMIT, "%s is an allreduce", algorithm);
    if (asked->groups > 1) return pdl_error(PDL_ERR_LIMIT, "%s is simulated for one group at a time", algorithm);
    if (asked->start_s != NULL) return pdl_error(PDL_ERR_LIMIT, "%s is simulated without stragglers", algorithm);
    if (!(asked->density > 0 && asked->density <= 1))
        return pdl_error(PDL_ERR_LIMIT, "%s needs a density above 0 and up to 1", algorithm);
    if (!(asked->common >= 0 && asked->common <= 1))
        return pdl_error(PDL_ERR_LIMIT, "%s: the common share of the elements must be between 0 and 1", algorithm);
    return PDL_OK;
}

static void add_message(sparse_sim_t *sim, const pdl_sparse_message_t *message, sparse_step_t *step)
{
    const pdl_sim_options_t *options = &sim->asked->options;
    int                      hops = pdl_topology_route(sim->asked->topology, message->from, message->to, sim->way);
    double                   latency_s = 0, slowest = INFINITY;
    double                   bytes =
        message->bytes / pdl__flow_factor(options->bandwidth_factor, options->bandwidth_factors, message->bytes);

    for (int h = 0; h < hops; h++) {
        const pdl_link_t *link = &sim->links[sim->way[h]];

        latency_s += link->latency_s;
        slowest = fmin(slowest, link->bytes_per_s);
        sim->load[sim->way[h]] += bytes;
        sim->total[sim->way[h]] += message->bytes;
        step->loaded_s = fmax(step->loaded_s, sim->load[sim->way[h]] / link->bytes_per_s);
        if (h > 0 && h < hops - 1) continue;
        sim->end_load[sim->way[h]] += bytes;
        step->alone_s = fmax(step->alone_s, sim->end_load[sim->way[h]] / link->bytes_per_s);
    }
    if (hops > 0) step->alone_s = fmax(step->alone_s, bytes / slowest);
    latency_s *= pdl__flow_factor(options->latency_factor, options->latency_factors, message->bytes);
    step->latency_s = fmax(step->latency_s, latency_s);
    if (message->reduced) sim->reduced[message->to] += message->bytes;
    step->reduced = fmax(step->reduced, sim->reduced[message->to]);
}

/* Takes back what the messages of a step have left behind. */
static void clear_step(sparse_sim_t *sim, const pdl_sparse_message_t *messages, int64_t count)
{
    for (int64_t m = 0; m < count; m++) {
        int hops = pdl_topology_route(sim->asked->topology, messages[m].from, messages[m].to, sim->way);

        for (int h = 0; h < hops; h++) sim->load[sim->way[h]] = sim->end_load[sim->way[h]] = 0;
        sim->reduced[messages[m].to] = 0;
    }
}

static void run_steps(sparse_sim_t *sim, const pdl_sparse_run_t *run, pdl_sim_verdict_t *verdict)
{
    for (int64_t first = 0, next; first < run->message_count; first = next) {
        sparse_step_t step = {0};

        for (next = first; next < run->message_count && run->message[next].step == run->message[first].step; next++)
            add_message(sim, &run->message[next], &step);
        clear_step(sim, &run->message[first], next - first);
        step.reduced *= sim->asked->options.gamma_s_per_byte;
        verdict->part_s[PDL_PART_LATENCY] += step.latency_s;
        verdict->part_s[PDL_PART_BANDWIDTH] += step.alone_s;
        verdict->part_s[PDL_PART_REDUCTION] += step.reduced;
        verdict->result.time_s += step.latency_s + step.loaded_s + step.reduced;
    }
}

static void finish(sparse_sim_t *sim, const pdl_sparse_run_t *run, pdl_sim_result_t *result)
{
    result->flows = run->message_count;
    result->events = run->steps;
    result->steps = run->steps;
    result->job_s[0] = result->time_s;
    result->busiest_link = -1;
    for (int i = 0; i < pdl_topology_link_count(sim->asked->topology); i++) {
        if (sim->total[i] <= result->busiest_bytes) continue;
        result->busiest_bytes = sim->total[i];
        result->busiest_link = i;
    }
    if (!sim->asked->options.link_loads) return;
    result->link_bytes = sim->total;
    sim->total = NULL;
}

pdl_status_t pdl__sim_sparse(const pdl_sim_case_t *asked, const char *algorithm, pdl_sim_verdict_t *verdict)
{
    size_t            links = (size_t)pdl_topology_link_count(asked->topology) + 1;
    pdl_sparse_spec_t spec = {.algorithm = algorithm,
                              .ranks = pdl__case_ranks(asked),
                              .ranks_per_node = pdl_topology_hosts_per_switch(asked->topology)};
    pdl_sparse_run_t  run = {0};
    sparse_sim_t     *sim;
    pdl_status_t      status = pdl__check_sparse(asked, algorithm);

    if (!status)
        status =
            pdl_sparse_expect(&spec, (double)asked->bytes / ELEMENT_BYTES, asked->density, asked->common, &run);
    if (status) return status;
    sim = calloc(1, sizeof(*sim));
    if (sim != NULL) {
        sim->asked = asked;
        sim->links = pdl_topology_links(asked->topology);
        sim->load = calloc(links, sizeof(double));
        sim->end_load = calloc(links, sizeof(double));
        sim->total = calloc(links, sizeof(double));
        sim->reduced = calloc((size_t)spec.ranks, sizeof(double));
        verdict->result.job_s = calloc(1, sizeof(double));
    }
    if (sim == NULL || !sim->load || !sim->end_load || !sim->total || !sim->reduced || !verdict->result.job_s) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for %s", algorithm);
        pdl_sim_result_free(&verdict->result);
    } else {
        run_steps(sim, &run, verdict);
        finish(sim, &run, &verdict->result);
    }
    if (sim != NULL) {
        free(sim->load);
        free(sim->end_load);
        free(sim->total);
        free(sim->reduced);
    }
    free(sim);
    pdl_sparse_run_free(&run);
    return status;
}
