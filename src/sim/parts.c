/*
 * What a schedule costs on its routes when nobody else is on them: the longest way of each step, and the largest
 * message of each step at the speed of the slowest link of its way, or all messages of a host at the speed of its
 * own link. What a simulation takes beyond that is contention.
 */
#include "sim/case.h"
#include "sim/flow.h"

#include <math.h>
#include <stdlib.h>

typedef struct parts {
    const pdl_sim_case_t *asked;
    const pdl_schedule_t *schedule;
    const pdl_link_t     *links;
    double                block;   /* bytes of one block */
    double               *load;    /* bytes of the step on the links at the ends of its messages */
    int                  *touched; /* these links */
    int                   touched_count;
    double                latency_s, transfer_s; /* of the step */
    pdl_moves_t           moves;
    int                   way[PDL_MAX_ROUTE];
} parts_t;

static void load_end(parts_t *parts, int link, double bytes)
{
    if (parts->load[link] <= 0) parts->touched[parts->touched_count++] = link;
    parts->load[link] += bytes;
}

static void add_message(parts_t *parts, int rank, const pdl_coll_move_t *move)
{
    const pdl_sim_options_t *options = &parts->asked->options;
    double                   blocks = 0, bytes, slowest = INFINITY, latency = 0;
    int                      hops;

    for (int i = 0; i < move->range_count; i++) blocks += (double)parts->moves.range[move->range_first + i].count;
    bytes = blocks * parts->block;
    hops = pdl_topology_route(parts->asked->topology, pdl__case_host(parts->asked, 0, rank),
                              pdl__case_host(parts->asked, 0, move->peer), parts->way);
    if (hops == 0) return;
    for (int h = 0; h < hops; h++) {
        latency += parts->links[parts->way[h]].latency_s;
        slowest = fmin(slowest, parts->links[parts->way[h]].bytes_per_s);
    }
    latency *= pdl__flow_factor(options->latency_factor, options->latency_factors, bytes);
    bytes /= pdl__flow_factor(options->bandwidth_factor, options->bandwidth_factors, bytes);
    parts->latency_s = fmax(parts->latency_s, latency);
    parts->transfer_s = fmax(parts->transfer_s, bytes / slowest);
    load_end(parts, parts->way[0], bytes);
    if (hops > 1) load_end(parts, parts->way[hops - 1], bytes);
}

static void add_step(parts_t *parts, int step, int times, double part_s[PDL_PART_COUNT])
{
    parts->latency_s = parts->transfer_s = 0;
    for (int rank = 0; rank < pdl_schedule_ranks(parts->schedule); rank++) {
        pdl_schedule_sends(parts->schedule, step, rank, &parts->moves);
        for (int m = 0; m < parts->moves.move_count; m++) add_message(parts, rank, &parts->moves.move[m]);
    }
    while (parts->touched_count > 0) {
        int link = parts->touched[--parts->touched_count];

        parts->transfer_s = fmax(parts->transfer_s, parts->load[link] / parts->links[link].bytes_per_s);
        parts->load[link] = 0;
    }
    part_s[PDL_PART_LATENCY] += times * parts->latency_s;
    part_s[PDL_PART_BANDWIDTH] += times * parts->transfer_s;
}

static void add_steps(parts_t *parts, double part_s[PDL_PART_COUNT])
{
    int first[PDL_MAX_PERIODS], last[PDL_MAX_PERIODS], group = 0;
    int groups = pdl_schedule_period(parts->schedule, first, last), steps = pdl_schedule_steps(parts->schedule);

    for (int step = 0; step < steps;) {
        int times = 1;

        if (group < groups && step == first[group]) times = last[group] - first[group], group++;
        add_step(parts, step, times, part_s);
        step += times;
    }
}

pdl_status_t pdl__sim_parts(const pdl_sim_case_t *asked, const pdl_schedule_t *schedule,
                            double part_s[PDL_PART_COUNT])
{
    size_t   links = (size_t)pdl_topology_link_count(asked->topology) + 1;
    double   bytes = (double)pdl__case_bytes(asked), gamma = asked->options.gamma_s_per_byte;
    parts_t *parts = malloc(sizeof(*parts));

    if (parts == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the parts of the time");
    *parts = (parts_t){.asked = asked,
                       .schedule = schedule,
                       .links = pdl_topology_links(asked->topology),
                       .block = bytes / (double)pdl_schedule_blocks(schedule),
                       .load = calloc(links, sizeof(double)),
                       .touched = calloc(links, sizeof(int))};
    if (parts->load != NULL && parts->touched != NULL) {
        add_steps(parts, part_s);
        if (gamma > 0) part_s[PDL_PART_REDUCTION] = gamma * pdl_schedule_price(schedule, bytes).reduced_bytes;
    }
    bool failed = parts->load == NULL || parts->touched == NULL;
    free(parts->load);
    free(parts->touched);
    free(parts);
    return failed ? pdl_error(PDL_ERR_NOMEM, "out of memory for the parts of the time") : PDL_OK;
}
