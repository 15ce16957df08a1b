/*
 * What communications take, from whoever knows better: the oracle times plans at the prices of a table of functions, which are
 * those of the closed form or of a simulated network.
 *
 *     typedef struct pricer { pdl_prices_t prices; ... } pricer_t;
 *     pricer_t pricer = {.prices = {false, price_comm, price_stages}};
 *     pdl_oracle_time_stages(oracle, plan, &pricer.prices, nobody, stages, &parts);
 */
#ifndef PARADL_PRICES_H
#define PARADL_PRICES_H

#include <paradl/oracle/replay.h>
#include <paradl/topo/contention.h>

#ifdef __cplusplus
extern "C" {
#endif

const pdl_system_t     *pdl_oracle_system(const pdl_oracle_t *oracle);
const pdl_parameters_t *pdl_oracle_parameters(const pdl_oracle_t *oracle);

/* Of one collective by a schedule that is counted; linear in the bytes. */
typedef struct pdl_schedule_cost {
    double startup_s, seconds_per_byte;
} pdl_schedule_cost_t;
#define PDL_GROUP_COUNTED 16

/* A group of the mesh as a collective sees it: how many ranks, over which level, at which effective speed. */
typedef struct pdl_group {
    double ranks;
    double step_s;           /* start-up of one step */
    double seconds_per_byte; /* self-contention phi included */
    double
        lone_per_byte; /* where several rings share the links of devices: of one of them beside resting ones; else 0 */
    double phi;
    double kappa; /* congestion of the level by other jobs */
    int    level;
    double rails;                              /* links of a rank, or ports of a node, that it drives at once */
    double nodes, ranks_per_node;              /* for tree and hierarchical algorithms */
    double node_step_s, node_seconds_per_byte; /* inside a node */
    /* Allreduce inside a node as it was measured there (fabric.h): start-up, all steps, a byte; other collectives take half of the last
       two. per_byte 0: not measured. */
    double fabric_startup_s, fabric_steps_s, fabric_per_byte;
    /* Allreduces by schedules other than the ring, counted on a network that is not a tree; none on trees. */
    pdl_schedule_cost_t counted[PDL_GROUP_COUNTED];
    int                 counted_count;
} pdl_group_t;

typedef struct pdl_group_query {
    int64_t       pe_count, size, stride;
    bool          host_path;
    pdl_pattern_t pattern;
} pdl_group_query_t;

pdl_status_t pdl_oracle_group(pdl_oracle_t *oracle, const pdl_group_query_t *query, pdl_group_t *group);

/* AUTO: open, the least of the next three; on a network that is not a tree, of the ring and what a group has counted. */
typedef enum pdl_algorithm_form {
    PDL_FORM_AUTO,
    PDL_FORM_RING,
    PDL_FORM_TREE,
    PDL_FORM_HIERARCHICAL,
    PDL_FORM_COUNTED
} pdl_algorithm_form_t;

/* How the collectives of an axis are priced. */
typedef struct pdl_algorithm {
    pdl_algorithm_form_t         form;
    const pdl_plan_collective_t *named;                        /* the plan's; NULL: nobody has named anything */
    pdl_schedule_cost_t          cost[PDL_COLL_ALLGATHER + 1]; /* COUNTED: allreduce, reduce-scatter, allgather */
} pdl_algorithm_t;
extern const pdl_algorithm_t pdl_algorithm_auto, pdl_algorithm_ring;

/* Seconds of a collective over `bytes`, the size of the complete vector. */
double pdl_collective_seconds(const pdl_group_t *group, pdl_primitive_t primitive, const pdl_algorithm_t *algorithm,
                              bool ring_only, double bytes);

/* Seconds of a collective of the first devices of a machine, of `bytes` that each holds. */
pdl_status_t pdl_collective_price(const pdl_system_t *system, const pdl_parameters_t *parameters,
                                  pdl_collective_t collective, int64_t devices, double bytes, double *seconds);

/* A collective or halo exchange of every group of an axis at once. */
typedef struct pdl_comm_query {
    pdl_primitive_t        primitive;
    const pdl_algorithm_t *algorithm;
    int64_t                size, stride;
    double                 bytes; /* as in pdl_transfer_t */
} pdl_comm_query_t;

/* Tokens go to ranks that have the experts they chose, or come back: `bytes` those of a rank's own tokens, of each of which so many
   copies are sent. A token goes to every node that has one of its experts once, through the ports of its own, and from there to the
   experts over the fabric; at most to so many nodes (0: any). Ranks are `stride` devices apart. */
typedef struct pdl_expert_route {
    double  ranks, bytes, chosen, most_nodes;
    int64_t stride;
} pdl_expert_route_t;
double pdl_expert_route_seconds(const pdl_system_t *system, const pdl_parameters_t *parameters,
                                const pdl_expert_route_t *route);

/* What communications take. */
typedef struct pdl_prices pdl_prices_t;
struct pdl_prices {
    bool of_profile; /* those of the profile's own sums, so that layers need not be asked one by one */
    /* Seconds of it; counts `times` of them for a stage. */
    pdl_status_t (*comm)(pdl_prices_t *prices, const pdl_comm_query_t *query, int stage, double times,
                         double *seconds);
    /* One message of each rank of stage s to its peer of stage to[s] (negative: none), bytes[s] each, all stages at
       once; seconds[s] is the longest of stage s. `times` of them in an iteration. */
    pdl_status_t (*stages)(pdl_prices_t *prices, int stages, int64_t stride, const int *to, const double *bytes,
                           double times, double *seconds);
};

/* A rank whose computation takes `factor` times as long; 0 or 1: nobody is slow. */
typedef struct pdl_slow {
    int64_t rank;
    double  factor;
} pdl_slow_t;

/* One stage of a plan in time. */
typedef struct pdl_stage_time {
    int    first_layer, last_layer; /* of its first chunk, the last one excluded */
    double compute_s, comm_s;       /* busy; comm_s: exchanges inside layers and halos */
    double end_s;                   /* when its update is done */
    double exchange_s;              /* of gradients, before overlap */
} pdl_stage_time_t;
/* An update of a plan at these prices, pass by pass. `stages` has an entry for each; or NULL. */
pdl_status_t pdl_oracle_time_stages(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                    pdl_slow_t slow, pdl_stage_time_t *stages, pdl_plan_parts_t *parts);

/* pdl_oracle_timeline() at these prices. */
pdl_status_t pdl_timeline_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                 pdl_slow_t slow, pdl_timeline_t **timeline);
/* What every class of communication adds: replays without one more of them after the other. */
pdl_status_t pdl_timeline_parts(const pdl_timeline_t *timeline, pdl_plan_parts_t *parts);

#ifdef __cplusplus
}
#endif
#endif
