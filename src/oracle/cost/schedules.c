/*
 * Time of named schedules. Ring, double_tree and ring_ring have the closed forms that were fitted to measured runs
 * (collective.c); every other schedule is counted, step by step, on the links of the machine: the start-up of the highest
 * level that a step crosses, and what its busiest link carries, all groups of the axis at once. On a network that is not a tree all
 * but the ring are counted.
 */
#include "oracle/cost/cost.h"

#include <paradl/coll/sparse.h>
#include <paradl/topo/topo.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct counter {
    const pdl_system_t      *system;
    const pdl_parameters_t  *p;
    const pdl_group_query_t *query;
    const pdl_schedule_t    *schedule;
    pdl_step_loads_t        *loads;
    double                   efficiency[PDL_MAX_LEVELS], step_s[PDL_MAX_LEVELS];
    int64_t                  reduced; /* blocks that the busiest rank adds in a step */
    pdl_moves_t              moves;
} counter_t;

static int64_t blocks_of(const pdl_moves_t *moves, const pdl_coll_move_t *move)
{
    int64_t blocks = 0;

    for (int r = 0; r < move->range_count; r++) blocks += moves->range[move->range_first + r].count;
    return blocks;
}

/* What a device sends, or receives, in a step; returns the number of messages. */
static int count_device(counter_t *k, int step, int place, bool in)
{
    int64_t pe = pdl_step_loads_pe(k->loads, place);
    int64_t member = pe / k->query->stride % k->query->size, reduced = 0;

    if (in)
        pdl_schedule_receives(k->schedule, step, (int)member, &k->moves);
    else
        pdl_schedule_sends(k->schedule, step, (int)member, &k->moves);
    for (int m = 0; m < k->moves.move_count; m++) {
        const pdl_coll_move_t *move = &k->moves.move[m];
        int64_t                blocks = blocks_of(&k->moves, move);

        pdl_step_loads_add(k->loads, place, pe + (move->peer - member) * k->query->stride, in, (double)blocks);
        if (in && move->op == PDL_MOVE_REDUCE) reduced += blocks;
    }
    if (reduced > k->reduced) k->reduced = reduced;
    return k->moves.move_count;
}

/* Adds `times` equal steps to the cost, with the seconds per byte still in those of a block. */
static void count_step(counter_t *k, int step, int times, pdl_schedule_cost_t *cost, double *reduced)
{
    int    messages = 0, level;
    double busy, latency_s;

    k->reduced = 0;
    for (int place = 0; place < pdl_step_loads_places(k->loads); place++)
        for (int in = 0; in < 2; in++) {
            int count = count_device(k, step, place, in != 0);
            if (count > messages) messages = count;
        }
    busy = pdl_step_loads_end(k->loads, k->efficiency, &level, &latency_s);
    /* The ports of a network that is not a tree work at once. */
    if (k->system->network != NULL) messages = 1;
    cost->startup_s += times * (messages * k->step_s[level] + latency_s);
    cost->seconds_per_byte += times * busy;
    *reduced += times * (double)k->reduced;
}

static void count_steps(counter_t *k, pdl_schedule_cost_t *cost, double *reduced)
{
    int first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS];
    int groups = pdl_schedule_period(k->schedule, first, last), group = 0;

    for (int step = 0; step < pdl_schedule_steps(k->schedule);) {
        bool repeated = group < groups && step == first[group];
        int  times = repeated ? last[group] - first[group] : 1;

        count_step(k, step, times, cost, reduced);
        group += repeated;
        step += times;
    }
}

/* An addition reads two streams and writes one. A ring's additions are part of the speeds that were fitted. */
static double adding_seconds(const pdl_system_t *system, const pdl_schedule_t *schedule, double reduced)
{
    double ranks = pdl_schedule_ranks(schedule);
    double more = reduced / (double)pdl_schedule_blocks(schedule) - (ranks - 1) / ranks;
    double rate = system->device.memory_bandwidth_bytes_per_s * system->device.memory_efficiency;

    return more > 0 && rate > 0 ? 3 * more / rate : 0;
}

static void set_levels(counter_t *k)
{
    for (int l = 0; l < k->system->level_count; l++) {
        double step_s = l == 0 ? k->p->fabric_step_s : k->p->network_step_s;

        k->efficiency[l] = l == 0 ? k->p->fabric_efficiency : k->p->network_efficiency;
        k->step_s[l] = step_s > 0 ? step_s : k->system->level[l].latency_s;
    }
}

static pdl_status_t count_schedule(counter_t *k, pdl_schedule_cost_t *cost)
{
    double       reduced = 0;
    pdl_status_t status = pdl_step_loads_create(k->system, k->query->pe_count, &k->loads);

    if (status) return status;
    *cost = (pdl_schedule_cost_t){0, 0};
    count_steps(k, cost, &reduced);
    cost->seconds_per_byte /= (double)pdl_schedule_blocks(k->schedule);
    cost->seconds_per_byte += adding_seconds(k->system, k->schedule, reduced);
    pdl_step_loads_destroy(k->loads);
    return PDL_OK;
}

/* Steps of a sparse sum are alike at all ranks; their bytes are those to expect. Before the first one a rank adds its gradients to
   the residual, finds the largest by magnitude and moves them out: one core took 4 ns an element to choose 1 %, as long as 30 passes
   over memory. */
static pdl_status_t count_sparse(counter_t *k, const pdl_plan_collective_t *named, pdl_schedule_cost_t *cost)
{
    enum { ELEMENTS = 1 << 20, PASSES = 30 };
    const pdl_group_query_t *query = k->query;
    pdl_sparse_spec_t        spec = {.algorithm = named->algorithm[0] != '\0' ? named->algorithm : "sparse_ring",
                                     .ranks = query->size,
                                     .ranks_per_node = named->ranks_per_node};
    const pdl_device_t      *device = &k->system->device;
    double                   rate = device->memory_bandwidth_bytes_per_s * device->memory_efficiency;
    pdl_sparse_step_t       *step;
    int                      steps, level;
    double                   latency_s;
    pdl_status_t             status = pdl_sparse_steps(&spec, ELEMENTS, named->density, 0, &step, &steps);

    if (status) return status;
    status = pdl_step_loads_create(k->system, query->pe_count, &k->loads);
    *cost = (pdl_schedule_cost_t){0, rate > 0 ? PASSES / rate : 0};
    for (int s = 0; s < steps && !status; s++) {
        for (int place = 0; place < pdl_step_loads_places(k->loads); place++) {
            int64_t pe = pdl_step_loads_pe(k->loads, place), member = pe / query->stride % query->size;

            for (int in = 0; in < 2; in++) {
                int64_t peer = pdl_sparse_peer((int)member, &step[s], in != 0 ? step[s].back : -step[s].back);
                pdl_step_loads_add(k->loads, place, pe + (peer - member) * query->stride, in != 0,
                                   step[s].bytes / (ELEMENTS * (double)sizeof(float)));
            }
        }
        cost->seconds_per_byte += pdl_step_loads_end(k->loads, k->efficiency, &level, &latency_s);
        cost->startup_s += k->step_s[level] + latency_s;
    }
    if (!status) pdl_step_loads_destroy(k->loads);
    free(step);
    return status;
}

pdl_status_t pdl__count_collective(const pdl_system_t *system, const pdl_parameters_t *p,
                                   const pdl_group_query_t *query, const pdl_plan_collective_t *named,
                                   pdl_collective_t collective, pdl_schedule_cost_t *cost)
{
    pdl_schedule_spec_t spec = {.collective = collective,
                                .algorithm = named->algorithm,
                                .ranks = query->size,
                                .hosts_per_switch = named->ranks_per_node};
    pdl_schedule_t     *schedule = NULL;
    pdl_status_t        status = named->density > 0 ? PDL_OK : pdl_schedule_create(&spec, &schedule);

    if (status) return status;
    counter_t *k = malloc(sizeof(*k));
    if (k == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    } else {
        k->system = system;
        k->p = p;
        k->query = query;
        k->schedule = schedule;
        set_levels(k);
        status = named->density > 0 ? count_sparse(k, named, cost) : count_schedule(k, cost);
    }
    free(k);
    pdl_schedule_destroy(schedule);
    return status;
}

int64_t pdl__switch_ranks(const pdl_system_t *system, int64_t stride)
{
    const pdl_topology_t *network;
    int64_t               devices;

    if (pdl_topology_network(system, &network) || network == NULL) return 0;
    devices = system->pe_count / pdl_topology_hosts(network) * pdl_topology_hosts_per_switch(network);
    return devices > stride && devices % stride == 0 ? devices / stride : 0;
}

/* Nodes on every side of a torus; 0: sides differ, or it is none. */
static int64_t torus_side(const pdl_topology_t *network)
{
    const pdl_topology_spec_t *shape = pdl_topology_get_spec(network);

    if (strcmp(shape->name, "torus") != 0 || pdl_topology_hosts_per_switch(network) > 1) return 0;
    for (int d = 1; d < shape->dim_count; d++)
        if (shape->dims[d] != shape->dims[0]) return 0;
    return shape->dims[0];
}

pdl_status_t pdl__direct_name(const pdl_system_t *system, int64_t stride, const char *name,
                              char shaped[PDL__DIRECT_NAME])
{
    const pdl_topology_t *network;
    int64_t               side, devices;
    pdl_status_t          status = pdl_topology_network(system, &network);

    snprintf(shaped, PDL__DIRECT_NAME, "%s", name);
    if (status || network == NULL || strcmp(name, "multiport") != 0) return status;
    side = torus_side(network);
    devices = system->pe_count / pdl_topology_hosts(network);
    if (side < 2 || stride % devices != 0) return PDL_OK;
    for (stride /= devices; stride % side == 0;) stride /= side; /* whole dimensions lie between two ranks */
    if (stride == 1) snprintf(shaped, PDL__DIRECT_NAME, "multiport:%" PRId64, side);
    return PDL_OK;
}

/* One more sum of the group, if there is such a schedule for so many ranks. */
static pdl_status_t count_more(const pdl_system_t *system, const pdl_parameters_t *p,
                               const pdl_group_query_t *query, const char *name, int64_t ranks_per_node,
                               pdl_group_t *group)
{
    pdl_plan_collective_t named = {.ranks_per_node = ranks_per_node};
    pdl_status_t          status;

    if (group->counted_count == PDL_GROUP_COUNTED) return PDL_OK;
    snprintf(named.algorithm, sizeof(named.algorithm), "%s", name);
    status =
        pdl__count_collective(system, p, query, &named, PDL_COLL_ALLREDUCE, &group->counted[group->counted_count]);
    if (!status) group->counted_count++;
    return status == PDL_ERR_LIMIT ? PDL_OK : status;
}

pdl_status_t pdl__count_sums(const pdl_system_t *system, const pdl_parameters_t *p, const pdl_group_query_t *query,
                             pdl_group_t *group)
{
    int64_t      node = (int64_t)group->ranks_per_node, at_switch = pdl__switch_ranks(system, query->stride);
    bool         nests = node > 1 && node < query->size && query->size % node == 0;
    pdl_status_t status = PDL_OK;

    for (const char *const *name = pdl_coll_common(); *name != NULL && !status; name++) {
        bool nested = pdl_coll_nested(*name);

        if (strcmp(*name, "ring") != 0 && (!nested || nests))
            status = count_more(system, p, query, *name, nested ? node : 0, group);
    }
    for (const char *const *name = pdl_coll_direct(); *name != NULL && !status; name++) {
        char shaped[PDL__DIRECT_NAME];

        status = pdl__direct_name(system, query->stride, *name, shaped);
        if (!status) status = count_more(system, p, query, shaped, at_switch, group);
    }
    return status;
}

static pdl_algorithm_form_t form_of(const pdl_system_t *system, const pdl_plan_collective_t *named)
{
    const char *name = named->algorithm;

    if (named->density > 0) return PDL_FORM_COUNTED;
    if (name[0] == '\0') return PDL_FORM_AUTO;
    if (strcmp(name, "ring") == 0) return PDL_FORM_RING;
    if (system->network != NULL) return PDL_FORM_COUNTED;
    if (strcmp(name, "double_tree") == 0) return PDL_FORM_TREE;
    if (strcmp(name, "ring_ring") == 0) return PDL_FORM_HIERARCHICAL;
    return PDL_FORM_COUNTED;
}

pdl_algorithm_t pdl__algorithm(const pdl_system_t *system, const pdl_plan_collective_t *named)
{
    return (pdl_algorithm_t){.form = form_of(system, named), .named = named};
}

double pdl__counted_seconds(const pdl_algorithm_t *algorithm, pdl_primitive_t primitive, double bytes)
{
    pdl_collective_t           c = primitive == PDL_ALLREDUCE        ? PDL_COLL_ALLREDUCE
                                   : primitive == PDL_REDUCE_SCATTER ? PDL_COLL_REDUCE_SCATTER
                                                                     : PDL_COLL_ALLGATHER;
    const pdl_schedule_cost_t *cost = &algorithm->cost[c];

    return cost->startup_s + bytes * cost->seconds_per_byte;
}
