/*
 * What the parts of the exact search share. Configurations that have the same costs of layers make up a group, groups that
 * differ in the size of a micro-batch alone a chain. Chains are looked at independently of each other, so that counts and
 * answers do not depend on threads.
 */
#ifndef PDL_ORACLE_EXACT_H
#define PDL_ORACLE_EXACT_H

#include "oracle/internal.h"
#include "oracle/search/searcher.h"
#include <paradl/oracle/exact.h>

/* A mesh of a strategy with so many micro-batches, and the orders of its axes that leave the ranks of an inner group equally far
   apart, or one order of axes and of parts where devices differ; schedules, recomputation, sharding and where state is are left open. */
typedef struct pdl__node {
    pdl_config_t config;
    double       micro_batch;   /* samples */
    int64_t      stride;        /* between ranks of an inner group */
    int64_t      expert_stride; /* between replicas that share experts out; 0: none do */
    uint64_t     places;        /* which devices stages are on; 0: all are alike */
    pdl_order_t  order[2];
    int          orders;
    int64_t      leaves; /* configurations */
} pdl__node_t;

typedef struct pdl__chain {
    int first, count; /* nodes, the largest micro-batches first */
} pdl__chain_t;

typedef struct pdl__exact_list {
    pdl__node_t  *node;
    int           count, capacity;
    pdl__chain_t *chain;
    int           chains;
    int64_t       virtual_stages; /* of all ranks together, at the most */
    bool          attention;      /* which may be recomputed alone */
    bool          kinds;          /* of devices, which differ */
    int64_t       configurations;
} pdl__exact_list_t;

/* What is left open by a node, in the order in which it is tried; orders come from the node. */
typedef struct pdl__choices {
    pdl_recompute_t recompute[PDL_RECOMPUTE_COUNT];
    int             recomputes, shardings, tiers;
    int             plain;          /* schedules with whole passes, not interleaved */
    int             divided;        /* with divided passes */
    int             virtual_stages; /* interleaved with 2 to so many; below 2: not */
} pdl__choices_t;
pdl__choices_t        pdl__choices_of(const pdl_oracle_t *oracle, const pdl__exact_list_t *list,
                                      const pdl_config_t *config);
static inline int64_t pdl__schedules_of(const pdl__choices_t *choices)
{
    return choices->plain + choices->divided + (choices->virtual_stages > 1 ? choices->virtual_stages - 1 : 0);
}

pdl_status_t pdl__exact_list(const pdl_oracle_t *oracle, const pdl_request_t *request, pdl__exact_list_t *list);
void         pdl__exact_list_free(pdl__exact_list_t *list);

#endif
