/*
 * The flow-level engine: ranks walk through the steps of their schedules; a message becomes a flow when sender and
 * receiver have entered the step, waits the latency of its route, and moves its bytes at the max-min fair rate.
 */
#ifndef PDL_SIM_FLOW_H
#define PDL_SIM_FLOW_H

#include "sim/network.h"
#include "sim/routes.h"
#include <paradl/base/trace.h>

typedef struct pdl__rank {
    int32_t job, step, pending; /* step -1: not started; pending: messages of the step that are not complete */
    int32_t host;
    int32_t arrived; /* first of the eager messages that came before their step; -1: none */
    int32_t sent;    /* first of the buffered messages that move; -1: none */
    double  reduced; /* bytes received for reduction in this step */
} pdl__rank_t;

typedef struct pdl__job {
    const pdl_schedule_t *schedule;
    int32_t               base, ranks, steps;
    int64_t               elements, element_bytes;
    double                block_bytes; /* of every block; 0: they differ */
    bool                  mean_blocks; /* they would differ, but all are given the mean */
    int32_t               left;        /* ranks that have steps to do */
    pdl__tick_t           end;
} pdl__job_t;

/* The latest state seen of the repeating part; see periodic.c. */
typedef struct pdl__periodic pdl__periodic_t;

typedef struct pdl__engine {
    const pdl_topology_t    *topology;
    const pdl_sim_options_t *options;
    double                   tick_s;
    int                      stride;
    bool                     too_long; /* a route did not fit the stride */
    bool                     buffered; /* senders do not wait for their messages */
    double                   reverse;  /* share of a flow's rate on the way back: of the options or the topology */
    pdl__queue_t             queue;
    pdl__network_t           net;
    pdl__routes_t            routes;
    pdl__rank_t             *rank; /* rank r is entity r of the queue */
    pdl__job_t              *job;
    int32_t                  ranks, jobs;
    int32_t                 *ready, readies; /* ranks that have completed their step at this instant */
    pdl__tick_t              now;
    int64_t                  flows, events;
    pdl_moves_t              sends, receives;
    pdl__periodic_t         *periodic;     /* NULL: every step is simulated */
    bool                     leader_moved; /* rank 0 has entered a step at this instant */
    pdl_trace_t              trace;        /* open while there is options->trace */
    bool                     told;         /* a line of progress has been written */
} pdl__engine_t;

/* steps.c: a rank that has completed its step reduces what it has received, then enters the next step, and the
   messages that this makes possible start. PDL_ERR_LIMIT, here and below, comes without a message: a time does not
   fit in ticks, or a route in the stride, and the caller tries again with larger ones. */
pdl_status_t pdl__flow_advance(pdl__engine_t *engine, int32_t rank);

/* A message has arrived: counts it for both sides, which may become ready, and the next one to the same receiver moves. */
void pdl__flow_arrive(pdl__engine_t *engine, int32_t flow);

/* The bytes of a move, of the moves it is one of. */
double pdl__flow_bytes(const pdl__job_t *job, const pdl_moves_t *moves, const pdl_coll_move_t *move);

/* True when repeating steps are extrapolated. */
bool pdl__flow_repeats(const pdl_schedule_t *schedule, const pdl_sim_options_t *options, int job_count);

/* What the sizes of messages follow from. `repeats`: pdl__flow_repeats(); very many blocks then have their mean size. */
void pdl__flow_size_job(pdl__job_t *job, const pdl_schedule_t *schedule, int64_t bytes, bool repeats);

/* True when one of the moves has this peer. */
bool pdl__flow_returns(const pdl_moves_t *moves, int peer);

/* The factor for a size, 1 without any. */
double pdl__flow_factor(const pdl_factor_t *factors, int count, double bytes);

/* periodic.c */
pdl_status_t pdl__periodic_create(pdl__engine_t *engine);
void         pdl__periodic_destroy(pdl__engine_t *engine);
/* Looks at the state after an instant at which rank 0 moved on; jumps ahead when it has been seen before. */
pdl_status_t pdl__periodic_look(pdl__engine_t *engine);

/* trace.c */
void pdl__trace_begin(pdl__engine_t *engine);
void pdl__trace_flow(pdl__engine_t *engine, const pdl__flow_t *flow);
void pdl__trace_end(pdl__engine_t *engine);

/* sim.c calls one of these. Results: job_s, flows, events, steps, link_bytes, time_s. */
pdl_status_t pdl__sim_flow(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                           const pdl_sim_options_t *options, pdl_sim_result_t *result);
pdl_status_t pdl__sim_loads(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                            const pdl_sim_options_t *options, pdl_sim_result_t *result);
pdl_status_t pdl__sim_simgrid(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                              const pdl_sim_options_t *options, pdl_sim_result_t *result);

#endif
