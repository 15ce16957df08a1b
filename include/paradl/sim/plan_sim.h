/*
 * Simulation of a plan: the passes of every pipeline stage in time. Computation takes the oracle's times; every
 * communication is simulated as a schedule on the network of the system, all groups of its axis at once.
 *
 *     pdl_plan_sim_options_t options = pdl_plan_sim_options_default();
 *     pdl_plan_sim_t *sim;
 *     pdl_sim_plan(oracle, plan, &options, &sim);
 *     printf("projected %g s, simulated %g s\n", sim->projected.total_s, sim->simulated.total_s);
 *     pdl_plan_sim_destroy(sim);
 */
#ifndef PARADL_PLAN_SIM_H
#define PARADL_PLAN_SIM_H

#include <paradl/oracle/replay.h>
#include <paradl/sim/sim.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_plan_sim_options {
    pdl_engine_t engine; /* PDL_ENGINE_FLOW or PDL_ENGINE_LOADS */
    int64_t      slow_rank;
    double       slow_factor; /* its computation takes this many times as long; 1: nobody is slow */
    FILE        *trace;       /* Chrome/Perfetto JSON; NULL: none */
    int          trace_ranks; /* stages shown in it, one rank of each */
} pdl_plan_sim_options_t;
pdl_plan_sim_options_t pdl_plan_sim_options_default(void);

typedef struct pdl_stage_sim {
    int    first_layer, last_layer; /* of its first chunk, the last one excluded */
    double compute_s, comm_s;       /* busy; comm_s: exchanges inside layers and halos */
    double end_s;                   /* when its update is done */
    double idle_share;              /* of the iteration in which it neither computes nor exchanges inside layers */
} pdl_stage_sim_t;

/* One distinct communication, simulated once. */
typedef struct pdl_comm_sim {
    pdl_primitive_t primitive;
    char            algorithm[PDL_COLL_NAME_SIZE]; /* of the schedule; "direct": one message to each partner */
    int64_t         size, stride;                  /* ranks of a group, and their distance */
    int64_t         groups;                        /* at once */
    double          density;                       /* of a sparse sum; else 0 */
    double          bytes, projected_s, simulated_s;
    double          times; /* in one iteration, of the stage that does it most */
} pdl_comm_sim_t;

/* Links that join the groups of a level to what they are made of. Where one group of the machine stands for others that are alike, theirs
   carry nothing. */
typedef struct pdl_level_sim {
    char   name[24];
    int    links, used;               /* there are; carry something */
    double mean_share, largest_share; /* of the iteration in which those that are used are busy */
    double largest_bytes;             /* that the busiest one carries */
} pdl_level_sim_t;

typedef struct pdl_plan_sim {
    pdl_projection_t projected; /* without input */
    pdl_plan_parts_t simulated;
    double           gradient_total_s; /* simulated, before overlap, of the stage with most of it */
    pdl_stage_sim_t *stages;
    int              stage_count;
    pdl_comm_sim_t  *comms;
    int              comm_count;
    int64_t          ranks, flows;
    pdl_engine_t     engine;
    char             busiest_link[64]; /* "device 3 to node 0"; "" when nothing moves */
    double           busiest_bytes;    /* that it carries in one iteration */
    double           busiest_share;    /* of the iteration in which it is busy */
    pdl_level_sim_t  levels[PDL_MAX_LEVELS];
    int              level_count;
    double           wall_s;
    pdl_timeline_t  *timeline; /* the programs of the stages, where these were timed or traced; or NULL */
} pdl_plan_sim_t;

/* The plan is checked first; its stages are balanced unless they were given (written into the plan). */
pdl_status_t pdl_sim_plan(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_plan_sim_options_t *options,
                          pdl_plan_sim_t **sim);
void         pdl_plan_sim_destroy(pdl_plan_sim_t *sim);

/* Rate at which each of `workers`, spread evenly over `pe` devices, sends in a personalised all-to-all that runs step by
   step on the network of the system; start-ups are left out. Seconds for the largest number of workers. */
#define PDL_EXCHANGE_WORKERS 4096
pdl_status_t pdl_sim_exchange_rate(const pdl_system_t *system, const pdl_parameters_t *parameters, int64_t pe,
                                   int64_t workers, double *bytes_per_s);

#ifdef __cplusplus
}
#endif
#endif
