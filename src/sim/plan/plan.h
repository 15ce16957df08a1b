/*
 * The pieces of a plan's simulation: prices of communications on the network, at which the oracle times it.
 */
#ifndef PDL_SIM_PLAN_H
#define PDL_SIM_PLAN_H

#include <paradl/oracle/prices.h>
#include <paradl/sim/plan_sim.h>

/* plan_price.c */

/* A communication and what it loads; equal ones are simulated once. */
typedef struct pdl__price {
    pdl_comm_sim_t comm;
    int64_t        ranks_per_node;
    double        *link_bytes; /* per link, of one of them */
    int            stage;      /* the last one that counted it, and how often */
    double         count;
} pdl__price_t;

typedef struct pdl__pricer {
    pdl_prices_t      base;
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

/* Fills in what links carry, once the time of the iteration is known. */
void pdl__sim_links(const pdl__pricer_t *pricer, pdl_plan_sim_t *sim);

#endif
