/*
 * The pieces of a plan's simulation: prices of communications on the network, the cut of the model into chunks and
 * segments with their times, and the player that puts them in time.
 */
#ifndef PDL_SIM_PLAN_H
#define PDL_SIM_PLAN_H

#include "oracle/internal.h"

#include <paradl/pipeline.h>
#include <paradl/plan_sim.h>

/* plan_price.c */

/* A communication and what it loads; equal ones are simulated once. */
typedef struct pdl__price {
    pdl_comm_sim_t  comm;
    pdl_algorithm_t algorithm;  /* that was asked for */
    double         *link_bytes; /* per link, of one of them */
    int             stage;      /* the last one that counted it, and how often */
    double          count;
} pdl__price_t;

typedef struct pdl__pricer {
    pdl_oracle_t     *oracle;
    pdl_topology_t   *topology;
    pdl_sim_options_t options;
    int64_t           ranks;
    pdl__price_t     *prices;
    int               count, capacity;
    int64_t           flows;
    double           *link_bytes; /* of transfers between stages in one iteration */
    pdl_schedule_t   *message;    /* one message from rank 0 to rank 1 */
} pdl__pricer_t;

pdl_status_t pdl__pricer_create(pdl_oracle_t *oracle, int64_t ranks, pdl_engine_t engine, pdl__pricer_t *pricer);
void         pdl__pricer_free(pdl__pricer_t *pricer);

/* A collective or halo exchange of every group of an axis at once. */
typedef struct pdl__comm_query {
    pdl_primitive_t primitive;
    pdl_algorithm_t algorithm; /* of the plan; AUTO: the one the closed form chooses */
    int64_t         size, stride;
    double          bytes; /* as in pdl_transfer_t */
} pdl__comm_query_t;

/* Seconds of it; counts `times` of them for a stage. */
pdl_status_t pdl__price_comm(pdl__pricer_t *pricer, const pdl__comm_query_t *query, int stage, double times,
                             double *seconds);

/* One message of each rank of stage s to its peer of stage to[s] (negative: none), bytes[s] each, all stages at
   once; seconds[s] is the longest of stage s. `times` of them in an iteration. */
pdl_status_t pdl__price_stages(pdl__pricer_t *pricer, int stages, int64_t stride, const int *to,
                               const double *bytes, double times, double *seconds);

/* plan_cut.c */

enum { PDL__PART_COMPUTE, PDL__PART_LAYER, PDL__PART_HALO, PDL__PART_COUNT };

/* Times of one micro-batch, [0] forward and [1] backward with what is computed again. */
typedef struct pdl__pass_time {
    double part[2][PDL__PART_COUNT];
    double queue[2]; /* of the host */
} pdl__pass_time_t;

/* Layers whose gradients are exchanged together, and whose weights are gathered together. */
typedef struct pdl__segment {
    int              first, last;
    pdl__pass_time_t time;
    double           exchange_s; /* allreduce or reduce-scatter of its gradients */
    double           gather_s;   /* of its sharded weights */
} pdl__segment_t;

typedef struct pdl__chunk {
    int              first, last;
    int              segment_first, segment_count; /* in the order of backward: the last layers first */
    pdl__pass_time_t time;
    double           send_s[2]; /* of its output forward, of its gradient backward */
} pdl__chunk_t;

/* Gradients of weights that two stages share are added up at the end. */
typedef struct pdl__tie {
    int    a, b;
    double seconds;
} pdl__tie_t;

typedef struct pdl__cut {
    pdl_oracle_t     *oracle;
    pdl_case_t        c;
    pdl_profile_t    *profile;
    pdl_pipeline_t    pipeline;
    pdl__chunk_t     *chunks; /* stage * chunks + chunk */
    pdl__segment_t   *segments;
    int               segment_count;
    pdl__pass_time_t *layers;   /* per layer */
    double           *update_s; /* per stage */
    double           *tail_s;   /* per stage: gradient exchange after backward, when nothing overlaps */
    double           *gather_s; /* per stage: gathering sharded weights after the update, likewise */
    double           *slow;     /* per stage: factor on its computation */
    pdl__tie_t       *ties;
    int               tie_count;
    bool              overlap;
} pdl__cut_t;

pdl_status_t pdl__cut_create(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_profile_t *profile,
                             const pdl_stages_t *runs, const pdl_plan_sim_options_t *options, pdl__pricer_t *pricer,
                             pdl__cut_t *cut);
void         pdl__cut_free(pdl__cut_t *cut);

static inline double pdl__pass_seconds(const pdl__pass_time_t *time, int direction)
{
    double sum = 0;

    for (int i = 0; i < PDL__PART_COUNT; i++) sum += time->part[direction][i];
    return sum;
}

/* plan_play.c */

typedef enum pdl__stream { PDL__STREAM_COMPUTE, PDL__STREAM_SEND, PDL__STREAM_EXCHANGE } pdl__stream_t;

/* Something a stage does; `segment` is -1 for a whole chunk. */
typedef struct pdl__slice {
    int               stage;
    pdl__stream_t     stream;
    const char       *name;
    bool              pass; /* a forward or backward pass, or a segment of one */
    int               segment;
    pdl_pipeline_op_t op;
    double            start_s, end_s;
} pdl__slice_t;

typedef struct pdl__play_options {
    bool send, exchange; /* whether transfers between stages and gradient exchange take time */
    void (*slice)(void *context, const pdl__slice_t *slice); /* NULL: nobody looks */
    void *context;
} pdl__play_options_t;

/* Per stage: busy with computation, exchanges in layers, halos; slowed: more computation because of exchanges that
   run beside it; end. */
typedef struct pdl__played_stage {
    double part[PDL__PART_COUNT], slowed_s, end_s, exchange_s;
} pdl__played_stage_t;

/* `stages` has an entry for each. */
pdl_status_t pdl__play(const pdl__cut_t *cut, const pdl__play_options_t *options, pdl__played_stage_t *stages,
                       double *total_s);

/* plan_trace.c */

pdl_status_t pdl__trace_plan(const pdl__cut_t *cut, const pdl_plan_t *plan, const pdl_plan_sim_options_t *options);

#endif
