/*
 * An update of a plan pass by pass, for machines on which others train: what its passes take, virtual stage by virtual stage
 * and segment by segment, and their replay. Prices of communications come from the closed form, or from the network.
 */
#ifndef PDL_ORACLE_PASSES_H
#define PDL_ORACLE_PASSES_H

#include "oracle/internal.h"

#include <paradl/oracle/replay.h>
#include <paradl/plan/pipeline.h>

/* pass_prices.c */

enum { PDL__PART_COMPUTE, PDL__PART_LAYER, PDL__PART_HALO, PDL__PART_COUNT };

/* Passes of a micro-batch: backward has what is computed again; of what a divided one leaves, the gradients of weights, are made in
   another. */
enum { PDL__PASS_FORWARD, PDL__PASS_BACKWARD, PDL__PASS_WEIGHTS, PDL__PASS_COUNT };

typedef struct pdl__pass_time {
    double part[PDL__PASS_COUNT][PDL__PART_COUNT];
    double queue[PDL__PASS_COUNT]; /* of the host */
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
typedef struct pdl__stage_tie {
    int    a, b;
    double seconds;
} pdl__stage_tie_t;

typedef struct pdl__pass_prices {
    pdl_oracle_t       *oracle;
    pdl_prices_t       *prices;
    pdl_case_t          c;
    pdl_profile_t      *profile;
    const pdl_stages_t *runs; /* virtual stage k is one of stage k modulo the stages */
    pdl_pipeline_t      pipeline;
    pdl__chunk_t       *chunks; /* stage * chunks + chunk */
    pdl__segment_t     *segments;
    int                 segment_count;
    pdl__pass_time_t   *layers;   /* per layer; NULL with the prices of the profile */
    double             *update_s; /* per stage */
    double             *tail_s;   /* per stage: gradient exchange after backward, when nothing overlaps */
    double             *gather_s; /* per stage: gathering sharded weights after the update, likewise */
    double             *slow;     /* per stage: factor on its computation */
    pdl__stage_tie_t   *ties;
    int                 tie_count;
    bool                overlap;
    bool                divided; /* gradients of weights have passes of their own */
} pdl__pass_prices_t;

/* What is priced; all is borrowed. */
typedef struct pdl__pass_spec {
    pdl_case_t     c;
    const int     *stage_first; /* as in a plan; NULL: virtual stages that take equally long */
    pdl_profile_t *profile;
    pdl_slow_t     slow;
    pdl_prices_t  *prices;
} pdl__pass_spec_t;

/* What the passes of every virtual stage take. */
pdl_status_t pdl__price_passes(pdl_oracle_t *oracle, const pdl__pass_spec_t *spec, pdl__pass_prices_t *prices);
void         pdl__pass_prices_free(pdl__pass_prices_t *prices);

static inline double pdl__pass_seconds(const pdl__pass_time_t *time, int pass)
{
    double sum = 0;

    for (int i = 0; i < PDL__PART_COUNT; i++) sum += time->part[pass][i];
    return sum;
}

/* passes.c */

typedef struct pdl__replay_options {
    bool send, exchange; /* whether transfers between stages and gradient exchange take time */
} pdl__replay_options_t;

/* Per stage: busy with computation, exchanges in layers, halos; slowed: more computation because of exchanges that
   run beside it; end. */
typedef struct pdl__stage_replay {
    double part[PDL__PART_COUNT], slowed_s, end_s, exchange_s;
} pdl__stage_replay_t;

/* `stages` has an entry for each. */
pdl_status_t pdl__replay_passes(const pdl__pass_prices_t *prices, const pdl__replay_options_t *options,
                                pdl__stage_replay_t *stages, double *total_s);

/* Replays three times: with everything, without gradient exchange, and without transfers between stages as well. What each
   addition costs is its part; what the last leaves beyond the work of the busiest stage is the bubble. `stages` are those
   with everything. */
pdl_status_t pdl__replay_parts(const pdl__pass_prices_t *prices, pdl__stage_replay_t *stages,
                               pdl_plan_parts_t *parts);

/* prices.c: by the closed form. */
typedef struct pdl__closed_prices {
    pdl_prices_t  prices;
    pdl_oracle_t *oracle;
    int64_t       ranks;
} pdl__closed_prices_t;
/* `quick`: transfers between stages as if all were equally large, which is then asked once for every mesh. */
pdl__closed_prices_t pdl__closed_prices(pdl_oracle_t *oracle, int64_t ranks, bool quick);

/* ops.c: seconds of every operation of programs of the plan, ranks[k].program->op_count of them in seconds[k]; communications at
   these prices, which count none of them. queue_s, unless it is NULL: of the host to queue them. */
pdl_status_t pdl__price_programs(pdl_oracle_t *oracle, const pdl_plan_t *plan, pdl_prices_t *prices,
                                 const pdl_replay_rank_t *ranks, int count, double *const *seconds,
                                 double *const *queue_s);

/* pdl_oracle_timeline() for its times alone: buffers of its programs have no places. */
pdl_status_t pdl__timeline_times(pdl_oracle_t *oracle, const pdl_plan_t *plan, struct pdl_timeline **timeline);

#endif
