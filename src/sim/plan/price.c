/*
 * What a communication of a plan takes on the network: its schedule in all groups of its axis at once, or in those
 * of one group of the machine where all others look the same. Equal questions are answered once.
 *
 * The plan names the schedule (docs/simulation.md). A ring is one per rail; inside nodes whose devices have a link to each
 * partner, one message to each. A double tree over nodes that hold several ranks of a group has chains inside them: the
 * bytes of rings with the start-ups of a tree.
 */
#include "base/memory.h"
#include "sim/plan/plan.h"

#include <paradl/coll/sparse.h>
#include <paradl/topo/contention.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ranks 0 .. extent - 1 hold whole groups and stand for all. */
typedef struct placement {
    int64_t size, stride, extent, groups;
} placement_t;

static placement_t place(const pdl__pricer_t *pricer, const pdl_comm_query_t *query)
{
    const pdl_system_t *system = pdl_oracle_system(pricer->oracle);
    int64_t             span = query->size * query->stride;
    int64_t             unit = pdl_system_group_size(system, pdl_system_level_of_span(system, span));
    placement_t         placement = {query->size, query->stride, pricer->ranks, 0};

    /* Groups that stay inside one group of the machine meet only each other there, and all of those are alike. */
    if (unit % span == 0 && pricer->ranks % unit == 0 && unit < pricer->ranks) placement.extent = unit;
    placement.groups = placement.extent / query->size;
    return placement;
}

static int host_of(const placement_t *p, int64_t group, int64_t member)
{
    return (int)(group / p->stride * p->size * p->stride + group % p->stride + member * p->stride);
}

static pdl_status_t run_jobs(pdl__pricer_t *pricer, const pdl_sim_job_t *jobs, int count, pdl_sim_result_t *result)
{
    pdl_status_t status = pdl_sim_run(pricer->topology, jobs, count, &pricer->options, result);

    if (!status) pricer->flows += result->flows;
    return status;
}

/* Messages that start together, each a collective of two. */
static pdl_status_t run_messages(pdl__pricer_t *pricer, const pdl_message_t *messages, int count,
                                 pdl_sim_result_t *result)
{
    pdl_sim_job_t *jobs = calloc((size_t)count + 1, sizeof(*jobs));
    int           *hosts = calloc((size_t)count + 1, 2 * sizeof(*hosts));
    pdl_status_t   status =
        jobs == NULL || hosts == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;

    for (int i = 0; i < count && !status; i++) {
        hosts[2 * i] = (int)messages[i].from;
        hosts[2 * i + 1] = (int)messages[i].to;
        jobs[i] =
            (pdl_sim_job_t){pricer->message, (int64_t)fmax(1, llround(messages[i].bytes)), hosts + 2 * i, NULL};
    }
    if (!status) status = run_jobs(pricer, jobs, count, result);
    free(jobs);
    free(hosts);
    return status;
}

/* Every member to every other (`far`), or to the next and the one before, in every group. */
static pdl_status_t run_pairs(pdl__pricer_t *pricer, const placement_t *p, bool far, double bytes,
                              pdl_sim_result_t *result)
{
    int64_t        each = far ? p->size * (p->size - 1) : 2 * (p->size - 1);
    pdl_message_t *messages = malloc((size_t)(each * p->groups) * sizeof(*messages));
    int            count = 0;
    pdl_status_t   status;

    if (messages == NULL) return pdl__no_memory("for the communications of a plan");
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t i = 0; i < p->size; i++)
            for (int64_t j = far ? 0 : i - 1; j < p->size && (far || j <= i + 1); j++)
                if (j >= 0 && j != i)
                    messages[count++] = (pdl_message_t){host_of(p, g, i), host_of(p, g, j), bytes};
    status = run_messages(pricer, messages, count, result);
    free(messages);
    return status;
}

/* Ring `rail` of `rails`: nodes in order, the members of each rotated so that every ring leaves it elsewhere. */
static void ring_order(const pdl_group_t *group, int rail, int rails, int *order)
{
    int size = (int)group->ranks, node = (int)group->ranks_per_node;

    for (int k = 0; k < size; k++) {
        int first = k / node * node, local = k % node;

        order[k] = first + node <= size ? first + (local + rail * node / rails) % node : k;
    }
}

static const pdl_collective_t collectives[PDL_PRIMITIVE_COUNT] = {
    [PDL_ALLGATHER] = PDL_COLL_ALLGATHER,
    [PDL_REDUCE_SCATTER] = PDL_COLL_REDUCE_SCATTER,
    [PDL_ALLREDUCE] = PDL_COLL_ALLREDUCE,
    [PDL_ALLTOALL] = PDL_COLL_ALLTOALL,
};

static pdl_status_t make_schedules(const pdl_group_t *group, const pdl_comm_sim_t *comm, int64_t ranks_per_node,
                                   int rails, pdl_schedule_t **schedules)
{
    int         *order = malloc((size_t)group->ranks * sizeof(*order));
    pdl_status_t status = order == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;

    for (int q = 0; q < rails && !status; q++) {
        pdl_schedule_spec_t spec = {.collective = collectives[comm->primitive],
                                    .algorithm = comm->algorithm,
                                    .ranks = comm->size,
                                    .hosts_per_switch = ranks_per_node};

        if (strcmp(comm->algorithm, "ring") == 0) {
            ring_order(group, q, rails, order);
            if (rails > 1) spec.order = order;
        }
        status = pdl_schedule_create(&spec, &schedules[q]);
    }
    free(order);
    return status;
}

/* One job per group and rail. */
static pdl_status_t run_schedules(pdl__pricer_t *pricer, const placement_t *p, pdl_schedule_t *const *schedules,
                                  int rails, double bytes, pdl_sim_result_t *result)
{
    pdl_sim_job_t *jobs = calloc((size_t)p->groups * (size_t)rails, sizeof(*jobs));
    int           *hosts = malloc((size_t)p->extent * sizeof(*hosts));
    pdl_status_t   status =
        jobs == NULL || hosts == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;

    for (int64_t g = 0; g < p->groups && !status; g++) {
        for (int64_t i = 0; i < p->size; i++) hosts[g * p->size + i] = host_of(p, g, i);
        for (int q = 0; q < rails; q++)
            jobs[g * rails + q] =
                (pdl_sim_job_t){schedules[q], (int64_t)fmax(1, llround(bytes / rails)), hosts + g * p->size, NULL};
    }
    if (!status) status = run_jobs(pricer, jobs, (int)(p->groups * rails), result);
    free(jobs);
    free(hosts);
    return status;
}

/* A sparse sum, with messages of the sizes to expect. */
static pdl_status_t run_sparse(pdl__pricer_t *pricer, const placement_t *p, const pdl__price_t *price,
                               pdl_sim_result_t *result)
{
    const pdl_comm_sim_t *comm = &price->comm;
    pdl_sparse_spec_t     spec = {.algorithm = comm->algorithm,
                                  .ranks = comm->size,
                                  .ranks_per_node = price->ranks_per_node};
    pdl_schedule_t       *schedule = NULL;
    pdl_status_t          status =
        pdl_sparse_expected(&spec, comm->bytes / (double)sizeof(float), comm->density, 0, &schedule);

    if (!status) status = run_schedules(pricer, p, &schedule, 1, comm->bytes, result);
    pdl_schedule_destroy(schedule);
    return status;
}

static pdl_status_t run_collective(pdl__pricer_t *pricer, const placement_t *p, const pdl_group_t *group,
                                   const pdl__price_t *price, pdl_sim_result_t *result)
{
    enum { MOST_RAILS = 64 };
    const pdl_comm_sim_t *comm = &price->comm;
    pdl_schedule_t       *schedules[MOST_RAILS] = {NULL};
    bool                  ring = strcmp(comm->algorithm, "ring") == 0;
    int                   rails = ring ? (int)fmin(fmax(group->rails, 1), MOST_RAILS) : 1;
    /* All-to-all: the vector of a schedule is that of all ranks together. */
    double       bytes = comm->primitive == PDL_ALLTOALL ? comm->bytes * (double)comm->size : comm->bytes;
    pdl_status_t status = make_schedules(group, comm, price->ranks_per_node, rails, schedules);

    if (!status) status = run_schedules(pricer, p, schedules, rails, bytes, result);
    for (int q = 0; q < rails; q++) pdl_schedule_destroy(schedules[q]);
    return status;
}

/* Of a sparse sum; else 0. */
static double density_of(const pdl_comm_query_t *query)
{
    const pdl_plan_collective_t *named = query->algorithm->named;

    return named != NULL && query->primitive == PDL_ALLREDUCE ? named->density : 0;
}

/* What a plan leaves open is a ring: pdl_sim_plan() settles plans first. */
static const char *schedule_name(const pdl_comm_query_t *query)
{
    const pdl_plan_collective_t *named = query->algorithm->named;

    if (query->primitive == PDL_HALO) return "direct";
    if (query->primitive == PDL_ALLTOALL) return "pairwise";
    if (named == NULL || named->algorithm[0] == '\0') return density_of(query) > 0 ? "sparse_ring" : "ring";
    return named->algorithm;
}

/* Inside nodes whose devices have a link to each partner, the pieces of a ring go there directly. */
static bool goes_directly(const pdl_group_t *group, const pdl_comm_sim_t *comm)
{
    return group->level == 0 && group->rails > 1 &&
           (strcmp(comm->algorithm, "ring") == 0 || comm->primitive == PDL_ALLTOALL);
}

/* One step of the rings of all rails in all groups. */
static pdl_status_t run_ring_step(pdl__pricer_t *pricer, const placement_t *p, const pdl_group_t *group,
                                  const pdl_comm_sim_t *comm, pdl_sim_result_t *result)
{
    int            rails = (int)fmax(group->rails, 1), size = (int)p->size, count = 0;
    pdl_message_t *messages = malloc((size_t)(p->groups * p->size * rails) * sizeof(*messages));
    int           *order = malloc((size_t)p->size * sizeof(*order));
    pdl_status_t   status =
        messages == NULL || order == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;

    for (int q = 0; q < rails && !status; q++) {
        ring_order(group, q, rails, order);
        for (int64_t g = 0; g < p->groups; g++)
            for (int k = 0; k < size; k++)
                messages[count++] = (pdl_message_t){host_of(p, g, order[k]), host_of(p, g, order[(k + 1) % size]),
                                                    comm->bytes / (double)size / rails};
    }
    if (!status) status = run_messages(pricer, messages, count, result);
    free(messages);
    free(order);
    return status;
}

/* Trees over nodes with chains inside them, cut into so many pieces that all links are busy all the time: the bytes move
   as in the steps of rings, and there are the start-ups of a tree. */
static pdl_status_t run_tree(pdl__pricer_t *pricer, const placement_t *p, const pdl_group_t *group,
                             const pdl_comm_sim_t *comm, pdl_sim_result_t *result)
{
    static const pdl_factor_t no_latency = {0, 1e-9};
    pdl_sim_options_t         options = pricer->options;
    double                    steps = 2 * (double)(comm->size - 1);

    pricer->options.latency_factor = &no_latency;
    pricer->options.latency_factors = 1;
    pdl_status_t status = run_ring_step(pricer, p, group, comm, result);
    pricer->options = options;
    if (status) return status;
    result->time_s = steps * result->time_s + 2 * log2(group->nodes) * group->step_s +
                     2 * (group->ranks_per_node - 1) * group->node_step_s;
    for (int i = 0; i < pdl_topology_link_count(pricer->topology); i++) result->link_bytes[i] *= steps;
    return PDL_OK;
}

static pdl_status_t simulate(pdl__pricer_t *pricer, const pdl_group_t *group, pdl__price_t *price)
{
    pdl_comm_sim_t  *comm = &price->comm;
    pdl_comm_query_t query = {comm->primitive, &pdl_algorithm_auto, comm->size, comm->stride, comm->bytes};
    bool             tree = strcmp(comm->algorithm, "double_tree") == 0 && group->ranks_per_node > 1 &&
                pdl_oracle_system(pricer->oracle)->network == NULL;
    placement_t      placement = place(pricer, &query);
    double           phases = comm->primitive == PDL_ALLREDUCE ? 2 : 1, later_s = 0;
    pdl_sim_result_t result = {0};
    pdl_status_t     status;

    if (comm->primitive == PDL_HALO) {
        status = run_pairs(pricer, &placement, false, comm->bytes, &result);
        phases = 1;
    } else if (goes_directly(group, comm)) {
        status = run_pairs(pricer, &placement, true, comm->bytes / (double)comm->size, &result);
        /* A rank starts its messages one after the other. */
        later_s = (double)(comm->size - 2) * group->step_s;
    } else {
        status = comm->density > 0 ? run_sparse(pricer, &placement, price, &result)
                 : tree            ? run_tree(pricer, &placement, group, comm, &result)
                                   : run_collective(pricer, &placement, group, price, &result);
        phases = 1;
    }
    if (status) return status;
    comm->simulated_s = phases * (result.time_s + later_s);
    /* What was measured inside a node knows more than the links of the tree. */
    if (group->fabric_per_byte > 0 && strcmp(comm->algorithm, "ring") == 0) comm->simulated_s = comm->projected_s;
    price->link_bytes = result.link_bytes;
    result.link_bytes = NULL;
    for (int i = 0; phases > 1 && i < pdl_topology_link_count(pricer->topology); i++)
        price->link_bytes[i] *= phases;
    pdl_sim_result_free(&result);
    return PDL_OK;
}

/* Messages of a ring or direct exchange in all groups that are simulated. */
static double flows_of(const pdl__pricer_t *pricer, const pdl_group_t *group, const pdl_comm_query_t *query)
{
    return (double)(query->size - 1) * (double)place(pricer, query).extent * group->rails;
}

/* A ring gathers as it scatters: the same messages the other way round in time. */
static bool same_ring(const pdl__price_t *a, const pdl__price_t *b)
{
    return strcmp(a->comm.algorithm, b->comm.algorithm) == 0 && a->comm.size == b->comm.size &&
           a->comm.stride == b->comm.stride && a->comm.primitive != PDL_HALO && b->comm.primitive != PDL_HALO &&
           (a->comm.primitive == PDL_ALLREDUCE) == (b->comm.primitive == PDL_ALLREDUCE) &&
           (strcmp(a->comm.algorithm, "ring") == 0 || strcmp(a->comm.algorithm, "double_tree") == 0);
}

static pdl_status_t copy_loads(const pdl__pricer_t *pricer, const pdl__price_t *known, pdl__price_t *price)
{
    int count = pdl_topology_link_count(pricer->topology);

    price->link_bytes = malloc(((size_t)count + 1) * sizeof(double));
    if (price->link_bytes == NULL) return pdl__no_memory("for the communications of a plan");
    for (int i = 0; i < count; i++)
        price->link_bytes[i] = known->link_bytes[i] * price->comm.bytes / known->comm.bytes;
    return PDL_OK;
}

/* Long rings repeat one step, so their time grows with the size along a line: two sizes give all others. Rings that
   are quick to simulate are simulated at every size. */
static pdl_status_t find_known(const pdl__pricer_t *pricer, double flows, pdl__price_t *price)
{
    const double        many = 2e6;
    const pdl__price_t *first = NULL;

    for (int i = 0; i < pricer->count; i++) {
        const pdl__price_t *known = &pricer->prices[i];

        if (!same_ring(known, price)) continue;
        if (known->comm.bytes == price->comm.bytes) {
            price->comm.simulated_s = known->comm.simulated_s;
            return copy_loads(pricer, known, price);
        }
        if (flows < many) continue;
        if (first == NULL || first->comm.bytes == known->comm.bytes) {
            first = known;
            continue;
        }
        price->comm.simulated_s =
            first->comm.simulated_s + (price->comm.bytes - first->comm.bytes) *
                                          (known->comm.simulated_s - first->comm.simulated_s) /
                                          (known->comm.bytes - first->comm.bytes);
        return copy_loads(pricer, known, price);
    }
    return PDL_OK;
}

static pdl_status_t add_price(pdl__pricer_t *pricer, const pdl_comm_query_t *query, pdl__price_t **out)
{
    pdl_pattern_t     pattern = query->primitive == PDL_HALO       ? PDL_PATTERN_NEIGHBOURS
                                : query->primitive == PDL_ALLTOALL ? PDL_PATTERN_PAIRWISE
                                                                   : PDL_PATTERN_RING;
    pdl_group_query_t asked = {pricer->ranks, query->size, query->stride, false, pattern};
    pdl_group_t       group;
    pdl__price_t     *price;
    pdl_status_t      status = pdl_oracle_group(pricer->oracle, &asked, &group);

    if (status) return status;
    if (pricer->count == pricer->capacity) {
        int           capacity = 2 * pricer->capacity + 16;
        pdl__price_t *grown = realloc(pricer->prices, (size_t)capacity * sizeof(*grown));

        if (grown == NULL) return pdl__no_memory("for the communications of a plan");
        pricer->prices = grown;
        pricer->capacity = capacity;
    }
    price = &pricer->prices[pricer->count];
    *price = (pdl__price_t){.comm = {.primitive = query->primitive,
                                     .size = query->size,
                                     .stride = query->stride,
                                     .groups = pricer->ranks / query->size,
                                     .density = density_of(query),
                                     .bytes = query->bytes},
                            .ranks_per_node = query->algorithm->named ? query->algorithm->named->ranks_per_node : 0,
                            .stage = -1};
    snprintf(price->comm.algorithm, sizeof(price->comm.algorithm), "%s", schedule_name(query));
    price->comm.projected_s =
        pdl_collective_seconds(&group, query->primitive, query->algorithm,
                               pdl_oracle_parameters(pricer->oracle)->ring_only, query->bytes);
    status = find_known(pricer, flows_of(pricer, &group, query), price);
    if (!status && price->link_bytes == NULL) status = simulate(pricer, &group, price);
    if (status) return status;
    pricer->count++;
    *out = price;
    return PDL_OK;
}

static pdl__price_t *find_price(const pdl__pricer_t *pricer, const pdl_comm_query_t *query)
{
    for (int i = 0; i < pricer->count; i++) {
        pdl__price_t *price = &pricer->prices[i];

        if (price->comm.primitive == query->primitive && strcmp(price->comm.algorithm, schedule_name(query)) == 0 &&
            price->comm.size == query->size && price->comm.stride == query->stride &&
            price->comm.bytes == query->bytes && price->comm.density == density_of(query))
            return price;
    }
    return NULL;
}

static pdl_status_t price_comm(pdl_prices_t *prices, const pdl_comm_query_t *query, int stage, double times,
                               double *seconds)
{
    pdl__pricer_t *pricer = (pdl__pricer_t *)prices;
    pdl__price_t  *price = find_price(pricer, query);

    *seconds = 0;
    if (query->size <= 1 || query->bytes <= 0 || query->primitive == PDL_LOCAL) return PDL_OK;
    if (price == NULL) {
        pdl_status_t status = add_price(pricer, query, &price);
        if (status) return status;
    }
    if (price->stage != stage) price->count = 0;
    price->stage = stage;
    price->count += times;
    price->comm.times = fmax(price->comm.times, price->count);
    *seconds = price->comm.simulated_s;
    return PDL_OK;
}

static pdl_status_t price_stages(pdl_prices_t *prices, int stages, int64_t stride, const int *to,
                                 const double *bytes, double times, double *seconds)
{
    pdl__pricer_t   *pricer = (pdl__pricer_t *)prices;
    pdl_message_t   *messages = malloc((size_t)pricer->ranks * sizeof(*messages));
    int             *stage_of = malloc((size_t)pricer->ranks * sizeof(*stage_of)), count = 0;
    pdl_sim_result_t result = {0};
    pdl_status_t     status =
        messages == NULL || stage_of == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;

    for (int64_t r = 0; r < pricer->ranks && !status; r++) {
        int stage = (int)(r / stride % stages);

        if (to[stage] < 0 || bytes[stage] <= 0) continue;
        stage_of[count] = stage;
        messages[count++] = (pdl_message_t){r, r + (to[stage] - stage) * stride, bytes[stage]};
    }
    for (int s = 0; s < stages; s++) seconds[s] = 0;
    if (!status && count > 0) status = run_messages(pricer, messages, count, &result);
    if (!status && count > 0) {
        for (int i = 0; i < count; i++) seconds[stage_of[i]] = fmax(seconds[stage_of[i]], result.job_s[i]);
        for (int i = 0; i < pdl_topology_link_count(pricer->topology); i++)
            pricer->link_bytes[i] += times * result.link_bytes[i];
        pdl_sim_result_free(&result);
    }
    free(messages);
    free(stage_of);
    return status;
}

pdl_status_t pdl__pricer_create(pdl_oracle_t *oracle, int64_t ranks, pdl_engine_t engine, pdl__pricer_t *pricer)
{
    const pdl_parameters_t *p = pdl_oracle_parameters(oracle);
    pdl_machine_speed_t speed = {p->fabric_efficiency, p->network_efficiency, p->fabric_step_s, p->network_step_s};
    pdl_schedule_spec_t pair = {.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 2};
    pdl_status_t        status;

    *pricer = (pdl__pricer_t){.oracle = oracle, .ranks = ranks, .options = pdl_sim_options_default()};
    pricer->base = (pdl_prices_t){false, price_comm, price_stages};
    pricer->options.engine = engine;
    pricer->options.link_loads = true;
    status = pdl_topology_of_system(pdl_oracle_system(oracle), ranks, &speed, &pricer->topology);
    if (!status) status = pdl_schedule_create(&pair, &pricer->message);
    if (status) return status;
    pricer->link_bytes = calloc((size_t)pdl_topology_link_count(pricer->topology) + 1, sizeof(double));
    return pricer->link_bytes == NULL ? pdl__no_memory("for the communications of a plan") : PDL_OK;
}

void pdl__pricer_free(pdl__pricer_t *pricer)
{
    for (int i = 0; i < pricer->count; i++) free(pricer->prices[i].link_bytes);
    free(pricer->prices);
    free(pricer->link_bytes);
    pdl_schedule_destroy(pricer->message);
    pdl_topology_destroy(pricer->topology);
    memset(pricer, 0, sizeof(*pricer));
}
