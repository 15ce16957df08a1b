/*
 * The closed form of configurations that differ in little: what does not depend on a choice is found once for all of its values.
 */
#ifndef PDL_ORACLE_EXACT_LEAF_H
#define PDL_ORACLE_EXACT_LEAF_H

#include "oracle/search/exact_walk.h"

/* What is compared of a configuration, as pdl_oracle_evaluate() has it. */
typedef struct pdl__leaf {
    double total_s, memory_bytes, energy_j;
    bool   fits;
} pdl__leaf_t;

enum { PDL__TIERS = PDL_TIER_HOST + 1 };

/* Schedules that have the same exchange of gradients: plain, interleaved, with divided passes. */
enum { PDL__EXCHANGES = 3 };

/* Passes of a schedule with the axes in one order. */
typedef struct pdl__leaf_passes {
    bool         known;
    pdl_status_t status;
    pdl__parts_t parts;
    double       drain_s;
} pdl__leaf_passes_t;

typedef struct pdl__leaf_exchange {
    bool                 known;
    pdl_status_t         status;
    pdl__gradient_cost_t cost;
} pdl__leaf_exchange_t;

/* What the stage that is nearest to the room of its device needs; negative: not known. */
typedef struct pdl__stage_need {
    double bytes, room;
} pdl__stage_need_t;

/* What a step takes at the least, however layers are cut into stages: with whole passes, interleaved, with divided passes. */
typedef struct pdl__least {
    double whole_s, interleaved_s, divided_s;
} pdl__least_t;

/* A node that is looked at: the choices made so far are in the case. */
typedef struct pdl__visit {
    pdl__exact_walk_t   *walk;
    const pdl__node_t   *node;
    pdl__choices_t       choices;
    pdl_config_t         config;
    pdl_case_t           c, in_order[2];
    int                  order; /* of those of the node */
    pdl_profile_t       *profile;
    pdl__pipeline_cut_t  cut;
    double               devices;        /* pdl__devices_of() */
    double               input_s, rooms; /* rooms: of all stages */
    pdl__least_t         least;
    pdl__leaf_passes_t   passes[2];
    pdl__leaf_exchange_t exchange[2][PDL__EXCHANGES][PDL_SHARDING_COUNT]; /* by order, kind of schedule, sharding */
    double               update_s[PDL_SHARDING_COUNT][PDL__TIERS];        /* negative: not known */
    pdl__stage_need_t    held[PDL_SHARDING_COUNT][PDL__TIERS];
    pdl__stage_need_t    least_held[PDL_SHARDING_COUNT][PDL__TIERS]; /* of all schedules */
    int64_t              leaf;
} pdl__visit_t;

/* A node and what it leaves open. */
void pdl__visit_node(pdl__exact_walk_t *walk, int node, pdl__visit_t *v);
/* Costs of layers of the node; then its choices, from those on which most depends to those on which least does. */
pdl_status_t pdl__visit_begin(pdl__visit_t *v);
pdl_status_t pdl__visit_recompute(pdl__visit_t *v, pdl_recompute_t recompute); /* least is known then */
pdl_status_t pdl__visit_schedule(pdl__visit_t *v, pdl_pipeline_schedule_t schedule, int virtual_stages);
void         pdl__visit_order(pdl__visit_t *v, int order);
/* Sharding and tier are set in the case. */
pdl_status_t pdl__visit_leaf(pdl__visit_t *v, pdl__leaf_t *leaf);
/* Memory with the schedule that takes least. */
pdl_status_t pdl__visit_least_memory(pdl__visit_t *v, pdl__stage_need_t *held);
/* The bounds of the recomputation of the case; the least with whichever schedule. */
pdl_status_t pdl__visit_least(pdl__visit_t *v);
double       pdl__least_of_all(const pdl__visit_t *v, const pdl__least_t *least);
/* What a step takes at the least by what was remembered of larger micro-batches of the chain, before costs of the node are known; 0: nothing
   is. */
double       pdl__rate_seconds(const pdl__visit_t *v);
pdl_status_t pdl__rate_remember(pdl__visit_t *v);

/* The longest chain of passes of the schedule, as if transfers took no time, or one that takes longer than enough_s where that is not 0;
   0 where it is not known. */
double pdl__visit_bubble(const pdl__visit_t *v, double enough_s);

#endif
