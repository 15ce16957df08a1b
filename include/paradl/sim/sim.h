/*
 * Simulation of collectives on a topology, flow by flow: max-min fair rates, rendezvous, latencies,
 * or by link loads, or in SimGrid where that is installed.
 */
#ifndef PARADL_SIM_H
#define PARADL_SIM_H

#include <paradl/coll/coll.h>
#include <paradl/topo/topo.h>
#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_engine { PDL_ENGINE_FLOW, PDL_ENGINE_LOADS, PDL_ENGINE_SIMGRID, PDL_ENGINE_COUNT } pdl_engine_t;
extern const char *const pdl_engine_names[PDL_ENGINE_COUNT];

/* One collective of one group of hosts; several run at once (jobs, or the groups of a hybrid plan). */
typedef struct pdl_sim_job {
    const pdl_schedule_t *schedule;
    int64_t               bytes;   /* of the vector every rank holds */
    const int            *hosts;   /* host of each rank; NULL: rank r on host r */
    const double         *start_s; /* per rank (stragglers); NULL: 0 */
} pdl_sim_job_t;

typedef struct pdl_factor {
    double bytes, factor;
} pdl_factor_t; /* from this size on */

typedef struct pdl_sim_options {
    pdl_engine_t        engine;
    double              gamma_s_per_byte; /* local reduction */
    double              eager_bytes;      /* messages up to this size do not wait for the receiver; 0: none */
    const pdl_factor_t *latency_factor, *bandwidth_factor; /* piecewise constant, ascending; NULL: 1 */
    int                 latency_factors, bandwidth_factors;
    double              reverse_share; /* of a flow's rate that its acknowledgements take on the way back */
    bool                latency_share; /* flows share a link in inverse proportion to the latency of their
                                                routes, as in SimGrid; false: equally */
    bool                periodic;      /* extrapolate the repeating part of long schedules exactly */
    bool                link_loads;    /* fill in per-link bytes */
    FILE               *trace;         /* Chrome/Perfetto JSON; NULL: none */
    FILE               *progress;      /* a terminal: a line, renewed every second; NULL: none */
} pdl_sim_options_t;
pdl_sim_options_t pdl_sim_options_default(void);

typedef struct pdl_sim_result {
    double  time_s; /* the last rank of the last job */
    double *job_s;  /* per job */
    int64_t flows, events;
    int     steps;
    bool    mean_blocks;  /* blocks of a long ring differ by an element, and all had their mean size */
    double *link_bytes;   /* per link, when asked for */
    int     busiest_link; /* -1: no link carried anything */
    double  busiest_bytes;
    double  energy_used_j, energy_all_j; /* links that carried traffic; all links */
    double  wall_s;
    int64_t max_rss_bytes;
} pdl_sim_result_t;

pdl_status_t pdl_sim_run(const pdl_topology_t *topology, const pdl_sim_job_t *jobs, int job_count,
                         const pdl_sim_options_t *options, pdl_sim_result_t *result);
void         pdl_sim_result_free(pdl_sim_result_t *result);

/* True when the engine is there; SimGrid's is a plugin, which is loaded when it is used. */
bool pdl_sim_has_engine(pdl_engine_t engine);

/* Lower bound of a collective on a topology: latency, bandwidth of the hosts' own links, cuts (docs/simulation.md). */
typedef struct pdl_bound {
    double      latency_s, bandwidth_s, cut_s, total_s;
    double      nearest_s; /* the shortest way from one host to another */
    const char *governing;
} pdl_bound_t;
pdl_status_t pdl_sim_bound(const pdl_topology_t *topology, pdl_collective_t collective, int ranks, double bytes,
                           double gamma_s_per_byte, pdl_bound_t *bound);

/* A collective of one group of hosts, or of several at once: the question that algorithms are compared by. */
typedef struct pdl_sim_case {
    pdl_topology_t  *topology; /* hybrid: its circuits are set for each algorithm */
    pdl_collective_t collective;
    int64_t          bytes;    /* that every rank holds; all-to-all: what a rank sends to all together */
    int              groups;   /* that run it at once, each on its share of the hosts; 0: one */
    bool             strided;  /* group g has the hosts g, g + groups, ..; else consecutive ones */
    const double    *start_s;  /* per host (stragglers); NULL: 0 */
    int64_t          segments; /* of pipelined algorithms; 0: the best number for each algorithm */
    double           density;  /* sparse allreduce: share of the elements (of 4 bytes) that every rank keeps */
    double           common;   /* sparse allreduce: share of these that all ranks have in common */
    /* Sparse allreduce: what each rank keeps of its bytes / 4 elements; NULL: messages have the sizes to be expected. */
    const struct pdl_stream *supports;
    pdl_sim_options_t        options;
} pdl_sim_case_t;

/* Where the time goes: each part is what the run would take if nothing else counted. */
typedef enum pdl_sim_part {
    PDL_PART_LATENCY,    /* over the steps, the longest way of a message */
    PDL_PART_BANDWIDTH,  /* over the steps, the largest message alone, or all of a host on its own link */
    PDL_PART_REDUCTION,  /* the reductions of the busiest rank */
    PDL_PART_WAITING,    /* for the last straggler, or for the circuits of a hybrid network */
    PDL_PART_CONTENTION, /* the rest: links that several hosts share */
    PDL_PART_COUNT
} pdl_sim_part_t;
extern const char *const pdl_sim_part_names[PDL_PART_COUNT];

/* One algorithm on a case. Free with pdl_sim_verdict_free(). */
typedef struct pdl_sim_verdict {
    char             algorithm[64];
    bool             possible;
    char             problem[256]; /* when it is not: one line */
    pdl_sim_result_t result;
    double           part_s[PDL_PART_COUNT];
    pdl_sim_part_t   limit;          /* what keeps it furthest from the lower bound; near that, the largest part */
    double           bound_s, ratio; /* lower bound of the case; time over it, 0 where the bound is 0 */
    int              circuits;       /* of a hybrid network that were switched for it */
    int64_t          segments;       /* that it was run with; 1: not pipelined */
    int              place;          /* in the list of algorithms, which begins with the simplest */
} pdl_sim_verdict_t;

/* The schedule of an algorithm for the ranks of one group, with what it needs to know of the topology. */
pdl_status_t pdl_sim_schedule(const pdl_sim_case_t *asked, const char *algorithm, pdl_schedule_t **schedule);

/* Runs one algorithm. An algorithm that does not support the case is an error here. */
pdl_status_t pdl_sim_run_case(const pdl_sim_case_t *asked, const char *algorithm, pdl_sim_verdict_t *verdict);
void         pdl_sim_verdict_free(pdl_sim_verdict_t *verdict);

/* Runs the `count` algorithms named (NULL: all of the collective that need no shape of their own, the sparse ones
   where a density is given) and sorts them by time; those that do not support the case stand last, with the reason.
   Free each verdict, then the array. */
pdl_status_t pdl_sim_rank(const pdl_sim_case_t *asked, const char *const *algorithms, int count,
                          pdl_sim_verdict_t **verdicts, int *verdict_count);

/* Lower bound for one group of the case; of groups of distant hosts cuts are left out. */
pdl_status_t pdl_sim_case_bound(const pdl_sim_case_t *asked, pdl_bound_t *bound);

#ifdef __cplusplus
}
#endif
#endif
