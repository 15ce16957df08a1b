/*
 * One algorithm on one case: makes its schedule, places the groups on hosts, runs the engine, and says where the
 * time goes and how far it is from the lower bound.
 */
#include "sim/case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const pdl_sim_part_names[PDL_PART_COUNT] = {"latency", "bandwidth", "reduction", "waiting",
                                                        "contention"};

static int groups_of(const pdl_sim_case_t *asked)
{
    return asked->groups > 1 ? asked->groups : 1;
}

int pdl__case_ranks(const pdl_sim_case_t *asked)
{
    return pdl_topology_hosts(asked->topology) / groups_of(asked);
}

int pdl__case_host(const pdl_sim_case_t *asked, int group, int rank)
{
    return asked->strided ? rank * groups_of(asked) + group : group * pdl__case_ranks(asked) + rank;
}

int64_t pdl__case_bytes(const pdl_sim_case_t *asked)
{
    return asked->collective == PDL_COLL_ALLTOALL ? asked->bytes * pdl__case_ranks(asked) : asked->bytes;
}

/* Consecutive ranks of a group that share a switch or node. */
static int64_t ranks_per_switch(const pdl_sim_case_t *asked)
{
    int64_t hosts = pdl_topology_hosts_per_switch(asked->topology), groups = groups_of(asked);
    int64_t ranks = pdl__case_ranks(asked);

    if (asked->strided) hosts = hosts % groups == 0 ? hosts / groups : 1;
    if (hosts > ranks) hosts = ranks;
    return ranks % hosts == 0 ? hosts : 1;
}

pdl_schedule_spec_t pdl__case_spec(const pdl_sim_case_t *asked, const char *algorithm)
{
    const pdl_topology_spec_t *shape = pdl_topology_get_spec(asked->topology);
    pdl_schedule_spec_t        spec = {.collective = asked->collective,
                                       .algorithm = algorithm,
                                       .ranks = pdl__case_ranks(asked),
                                       .hosts_per_switch = ranks_per_switch(asked),
                                       .segments = asked->segments};

    if (strcmp(shape->name, "dln2d") == 0) {
        spec.rows = shape->dims[0];
        spec.columns = shape->dims[1];
    } else if (strcmp(shape->name, "fc2") == 0) {
        spec.rows = shape->dims[1];
        spec.columns = shape->dims[0];
    } else if (strcmp(shape->name, "kautz") == 0) {
        spec.rows = shape->degree;
    } else if (strcmp(shape->name, "torus") == 0 && strcmp(algorithm, "multiport") == 0) {
        spec.rows = shape->dims[0];
        for (int d = 1; d < shape->dim_count; d++)
            if (shape->dims[d] != spec.rows) spec.rows = -1; /* its parts take equally long on equal sides only */
    }
    return spec;
}

pdl_status_t pdl_sim_schedule(const pdl_sim_case_t *asked, const char *algorithm, pdl_schedule_t **schedule)
{
    pdl_schedule_spec_t spec = pdl__case_spec(asked, algorithm);

    return pdl_schedule_create(&spec, schedule);
}

static pdl_status_t check_case(const pdl_sim_case_t *asked)
{
    int hosts = pdl_topology_hosts(asked->topology), groups = groups_of(asked);

    if (asked->bytes < 1)
        return pdl_error(PDL_ERR_INPUT, "a collective of %lld bytes; give at least one", (long long)asked->bytes);
    if (groups > hosts || hosts % groups != 0)
        return pdl_error(PDL_ERR_INPUT, "%d hosts cannot be shared by %d groups: not a multiple", hosts, groups);
    if (asked->collective == PDL_COLL_ALLTOALL && asked->bytes > INT64_MAX / hosts)
        return pdl_error(PDL_ERR_LIMIT, "%lld bytes on each of %d hosts are too many", (long long)asked->bytes,
                         hosts);
    return PDL_OK;
}

pdl_status_t pdl_sim_case_bound(const pdl_sim_case_t *asked, pdl_bound_t *bound)
{
    pdl_status_t status = check_case(asked);

    if (!status)
        status = pdl_sim_bound(asked->topology, asked->collective, pdl__case_ranks(asked),
                               (double)pdl__case_bytes(asked), asked->options.gamma_s_per_byte, bound);
    if (status || !asked->strided || groups_of(asked) == 1) return status;
    bound->cut_s = 0;
    bound->latency_s = bound->nearest_s;
    bound->total_s = fmax(bound->latency_s, bound->bandwidth_s);
    bound->governing = bound->latency_s > bound->bandwidth_s ? "latency" : "bandwidth";
    return PDL_OK;
}

/* Places and start times of all groups, and the latest of these. */
typedef struct placement {
    int    *hosts;
    double *start_s;
    double  latest_s;
} placement_t;

static pdl_status_t place(const pdl_sim_case_t *asked, double delay_s, placement_t *placement)
{
    int    ranks = pdl__case_ranks(asked), groups = groups_of(asked);
    size_t all = (size_t)ranks * (size_t)groups;

    *placement = (placement_t){.hosts = malloc(all * sizeof(int)), .start_s = malloc(all * sizeof(double))};
    if (placement->hosts == NULL || placement->start_s == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the ranks of %d groups", groups);
    for (int g = 0; g < groups; g++)
        for (int r = 0; r < ranks; r++) {
            int    host = pdl__case_host(asked, g, r);
            double start = delay_s + (asked->start_s != NULL ? asked->start_s[host] : 0);

            placement->hosts[g * ranks + r] = host;
            placement->start_s[g * ranks + r] = start;
            placement->latest_s = fmax(placement->latest_s, start);
        }
    return PDL_OK;
}

static pdl_status_t run_groups(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule, double delay_s,
                               pdl_sim_verdict_t *verdict)
{
    int            groups = groups_of(asked), ranks = pdl__case_ranks(asked);
    pdl_sim_job_t *jobs = calloc((size_t)groups, sizeof(*jobs));
    bool           waits = delay_s > 0 || asked->start_s != NULL;
    placement_t    placement = {0};
    pdl_status_t   status = jobs == NULL ? pdl_error(PDL_ERR_NOMEM, "out of memory for %d groups", groups)
                                         : place(asked, delay_s, &placement);

    for (int g = 0; !status && g < groups; g++) {
        jobs[g] = (pdl_sim_job_t){.schedule = schedule, .bytes = pdl__case_bytes(asked)};
        if (groups > 1) jobs[g].hosts = placement.hosts + g * ranks;
        if (waits) jobs[g].start_s = placement.start_s + g * ranks;
    }
    if (!status) status = pdl_sim_run(asked->topology, jobs, groups, &asked->options, &verdict->result);
    verdict->part_s[PDL_PART_WAITING] = placement.latest_s;
    free(placement.hosts);
    free(placement.start_s);
    free(jobs);
    return status;
}

/* Closer to the lower bound than this, nothing in particular keeps an algorithm from it. */
#define NEAR_BOUND 0.05
/* A part with a smaller share of the time is not what limits it. */
#define LEAST_SHARE 0.1

static int largest_excess(const double part_s[PDL_PART_COUNT], const double least[PDL_PART_COUNT])
{
    int largest = 0;

    for (int p = 1; p < PDL_PART_COUNT; p++)
        if (part_s[p] - least[p] > part_s[largest] - least[largest]) largest = p;
    return largest;
}

/* What cannot be avoided is taken off the parts before they are compared. */
static pdl_sim_part_t find_limit(const pdl_sim_verdict_t *verdict, const pdl_bound_t *bound)
{
    double least[PDL_PART_COUNT] = {
        [PDL_PART_LATENCY] = bound->latency_s, [PDL_PART_BANDWIDTH] = fmax(bound->bandwidth_s, bound->cut_s)};
    double nothing[PDL_PART_COUNT] = {0}, time_s = verdict->result.time_s;
    bool   near = time_s - bound->total_s <= NEAR_BOUND * time_s;
    int    limit = largest_excess(verdict->part_s, near ? nothing : least);

    if (verdict->part_s[limit] < LEAST_SHARE * time_s) limit = largest_excess(verdict->part_s, nothing);
    return (pdl_sim_part_t)limit;
}

/* The rest that rounding leaves is no contention. Where ranks run ahead of others parts overlap, and what each would take
   alone is more than the time together: then they are given in proportion. */
static void divide_time(pdl_sim_verdict_t *verdict)
{
    double time_s = verdict->result.time_s, sum = 0;

    for (int p = 0; p < PDL_PART_CONTENTION; p++) sum += verdict->part_s[p];
    verdict->part_s[PDL_PART_CONTENTION] = time_s - sum > 1e-6 * time_s ? time_s - sum : 0;
    for (int p = 0; p < PDL_PART_CONTENTION && sum > time_s; p++) verdict->part_s[p] *= time_s / sum;
}

static void judge(pdl_sim_verdict_t *verdict, const pdl_bound_t *bound)
{
    double time_s = verdict->result.time_s;

    divide_time(verdict);
    verdict->limit = find_limit(verdict, bound);
    verdict->bound_s = bound->total_s;
    if (bound->total_s > 0) verdict->ratio = time_s / bound->total_s;
}

static pdl_status_t run_schedule(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule,
                                 pdl_sim_verdict_t *verdict)
{
    pdl_bound_t  bound;
    pdl_status_t status = pdl__sim_switch_circuits(asked, schedule, &verdict->circuits);
    double       delay_s = verdict->circuits > 0 ? pdl_topology_get_spec(asked->topology)->reconfigure_s : 0;

    if (!status) status = pdl_sim_case_bound(asked, &bound);
    if (!status) status = pdl__sim_parts(asked, schedule, verdict->part_s);
    if (!status) status = run_groups(asked, schedule, delay_s, verdict);
    if (status) return status;
    verdict->possible = true;
    judge(verdict, &bound);
    return PDL_OK;
}

/* The lower bound is that of the dense collective, which a sparse one may pass: none is given. */
static pdl_status_t run_sparse(const pdl_sim_case_t *asked, const char *algorithm, pdl_sim_verdict_t *verdict)
{
    pdl_bound_t      none = {.governing = "latency"};
    pdl_sparse_run_t run = {0};
    pdl_schedule_t  *schedule = NULL;
    pdl_status_t     status = pdl__sparse_messages(asked, algorithm, &run);

    if (!status) status = pdl__sparse_parts(asked, &run, verdict->part_s);
    if (!status) status = pdl_sparse_schedule(&run, algorithm, pdl__case_ranks(asked), &schedule);
    if (!status) status = run_groups(asked, schedule, 0, verdict);
    pdl_schedule_destroy(schedule);
    pdl_sparse_run_free(&run);
    if (status) return status;
    verdict->segments = 1;
    verdict->possible = true;
    judge(verdict, &none);
    return PDL_OK;
}

pdl_status_t pdl_sim_run_case(const pdl_sim_case_t *asked, const char *algorithm, pdl_sim_verdict_t *verdict)
{
    pdl_sim_case_t  tuned = *asked;
    pdl_schedule_t *schedule;
    pdl_status_t    status = check_case(asked);

    memset(verdict, 0, sizeof(*verdict));
    strncpy(verdict->algorithm, algorithm, sizeof(verdict->algorithm) - 1);
    if (!status && pdl__is_sparse(algorithm)) return run_sparse(asked, algorithm, verdict);
    if (!status) status = pdl__sim_choose_segments(asked, algorithm, &tuned.segments);
    if (!status) status = pdl_sim_schedule(&tuned, algorithm, &schedule);
    if (status) return status;
    verdict->segments = pdl_schedule_segments(schedule);
    status = run_schedule(&tuned, schedule, verdict);
    pdl_schedule_destroy(schedule);
    return status;
}

void pdl_sim_verdict_free(pdl_sim_verdict_t *verdict)
{
    if (verdict->possible) pdl_sim_result_free(&verdict->result);
    verdict->possible = false;
}
