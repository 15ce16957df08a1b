/*
 * The link-load engine: all ranks go through the steps together, and a step costs its longest latency, the time of
 * its busiest link, and the longest reduction. Equal to the flow engine where steps are symmetric, and much
 * faster.
 */
#include "sim/flow.h"

#include <stdlib.h>

typedef struct loads {
    const pdl_topology_t    *topology;
    const pdl_link_t        *links;
    const pdl_sim_options_t *options;
    pdl__routes_t            routes;
    double                  *load, *total; /* bytes of this step, of all steps */
    int32_t                 *touched, touched_count;
    double                   latency_s; /* of this step */
    double                   times;     /* that this step is repeated */
    double                  *reduced;   /* per job: longest of this step, in bytes */
    pdl_moves_t              moves, receives;
} loads_t;

static int host_of(const pdl_sim_job_t *job, int rank)
{
    return job->hosts != NULL ? job->hosts[rank] : rank;
}

static pdl_status_t add_message(loads_t *loads, int src, int dst, double bytes, bool returns)
{
    const pdl_message_layer_t *layer = &pdl_topology_get_spec(loads->topology)->messages;
    const pdl_sim_options_t   *options = loads->options;
    const pdl__route_t        *route;
    double                     latency_s, factor;

    if (src == dst) return PDL_OK;
    route = pdl__routes_find(&loads->routes, src, dst, bytes);
    if (route->hops <= 0) return pdl_error(PDL_ERR_INPUT, "no route from host %d to host %d", src, dst);
    factor = pdl__flow_factor(options->bandwidth_factor, options->bandwidth_factors, bytes);
    if (returns && layer->exchange > 0 && bytes >= layer->exchange_bytes) factor *= layer->exchange;
    /* A message without bytes leaves no mark on its links, which would be entered as touched again and again. */
    for (int h = 0; h < route->hops && bytes > 0; h++) {
        int32_t link = route->links[h];

        if (loads->load[link] == 0) loads->touched[loads->touched_count++] = link;
        loads->load[link] += bytes / factor;
        loads->total[link] += bytes * loads->times;
    }
    latency_s = route->latency_s * pdl__flow_factor(options->latency_factor, options->latency_factors, bytes);
    if (latency_s > loads->latency_s) loads->latency_s = latency_s;
    return PDL_OK;
}

/* The messages of one step of one job. */
static pdl_status_t add_step(loads_t *loads, const pdl_sim_job_t *job, const pdl__job_t *sizes, int step,
                             double *reduced, int64_t *flows)
{
    pdl_moves_t *moves = &loads->moves;
    bool         asks = pdl_topology_get_spec(loads->topology)->messages.exchange > 0;

    *reduced = 0;
    for (int r = 0; r < sizes->ranks; r++) {
        pdl_schedule_sends(job->schedule, step, r, moves);
        if (asks) pdl_schedule_receives(job->schedule, step, r, &loads->receives);
        for (int i = 0; i < moves->move_count; i++) {
            int          peer = moves->move[i].peer;
            double       bytes = pdl__flow_bytes(sizes, moves, &moves->move[i]);
            pdl_status_t status = add_message(loads, host_of(job, r), host_of(job, peer), bytes,
                                              asks && pdl__flow_returns(&loads->receives, peer));

            if (status) return status;
            if (moves->move[i].op == PDL_MOVE_REDUCE && bytes > *reduced) *reduced = bytes;
        }
        *flows += moves->move_count * (int64_t)loads->times;
    }
    return PDL_OK;
}

/* The time of the busiest link; clears the loads for the next step. */
static double drain(loads_t *loads)
{
    double longest = 0;

    for (int32_t i = 0; i < loads->touched_count; i++) {
        int32_t link = loads->touched[i];
        double  time = loads->load[link] / loads->links[link].bytes_per_s;

        if (time > longest) longest = time;
        loads->load[link] = 0;
    }
    loads->touched_count = 0;
    return longest;
}

static double latest_start(const pdl_sim_job_t *job)
{
    double latest = 0;

    if (job->start_s == NULL) return 0;
    for (int r = 0; r < pdl_schedule_ranks(job->schedule); r++)
        if (job->start_s[r] > latest) latest = job->start_s[r];
    return latest;
}

/* How often the step at hand repeats: to the end of its group, for a single job with equal blocks. */
static int repeats(const loads_t *loads, const pdl__job_t *job, int job_count, int step)
{
    int first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS], groups;

    if (!loads->options->periodic || job_count != 1 || job->block_bytes <= 0) return 1;
    groups = pdl_schedule_period(job->schedule, first, last);
    for (int g = 0; g < groups; g++)
        if (step >= first[g] && step < last[g]) return last[g] - step;
    return 1;
}

static pdl_status_t run_steps(loads_t *loads, const pdl_sim_job_t *jobs, const pdl__job_t *sizes, int job_count,
                              pdl_sim_result_t *result)
{
    for (int step = 0, times; step < result->steps; step += times) {
        double move_s;

        times = repeats(loads, &sizes[0], job_count, step);
        loads->times = times;
        loads->latency_s = 0;
        for (int j = 0; j < job_count; j++) {
            pdl_status_t status;

            if (step >= sizes[j].steps) continue;
            status = add_step(loads, &jobs[j], &sizes[j], step, &loads->reduced[j], &result->flows);
            if (status) return status;
        }
        move_s = loads->latency_s + drain(loads);
        for (int j = 0; j < job_count; j++)
            if (step < sizes[j].steps)
                result->job_s[j] += times * (move_s + loads->reduced[j] * loads->options->gamma_s_per_byte);
    }
    return PDL_OK;
}

pdl_status_t pdl__sim_loads(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                            const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    size_t       count = (size_t)pdl_topology_link_count(topology) + 1;
    loads_t     *loads = calloc(1, sizeof(*loads));
    pdl__job_t  *sizes = calloc((size_t)job_count + 1, sizeof(*sizes));
    pdl_status_t status;

    if (loads == NULL || sizes == NULL) goto no_memory;
    loads->topology = topology;
    loads->links = pdl_topology_links(topology);
    loads->options = options;
    loads->total = result->link_bytes;
    loads->load = calloc(count, sizeof(*loads->load));
    loads->touched = calloc(count, sizeof(*loads->touched));
    loads->reduced = calloc((size_t)job_count + 1, sizeof(*loads->reduced));
    if (loads->load == NULL || loads->touched == NULL || loads->reduced == NULL) goto no_memory;
    status = pdl__routes_create(&loads->routes, topology, PDL_MAX_ROUTE, false);
    if (status) goto free_loads;
    for (int j = 0; j < job_count; j++) {
        pdl__flow_size_job(&sizes[j], jobs[j].schedule, jobs[j].bytes,
                           pdl__flow_repeats(jobs[j].schedule, options, job_count));
        if (sizes[j].steps > result->steps) result->steps = sizes[j].steps;
        if (sizes[j].mean_blocks) result->mean_blocks = true;
    }
    status = run_steps(loads, jobs, sizes, job_count, result);
    for (int j = 0; j < job_count; j++) {
        result->job_s[j] += latest_start(&jobs[j]);
        if (result->job_s[j] > result->time_s) result->time_s = result->job_s[j];
    }
    result->events = result->steps;
    goto free_loads;

no_memory:
    status = pdl_error(PDL_ERR_NOMEM, "out of memory for the loads of the links");
free_loads:
    if (loads != NULL) {
        pdl__routes_destroy(&loads->routes);
        free(loads->load);
        free(loads->touched);
        free(loads->reduced);
    }
    free(loads);
    free(sizes);
    return status;
}
