/*
 * What a whole training takes: time, failures and checkpoints, energy, money.
 *
 *     pdl_ownership_t cost;
 *     pdl_ownership_project(system, plan, &projection, 15e12 / 8192, &cost);
 *     printf("%.1f days\n", cost.total_s / 86400);
 *
 * Failures come at random, one of a device every device_mtbf on average. With checkpoints every tau, written in delta, and
 * a restart of R, work of T takes M exp(R / M) (exp((tau + delta) / M) - 1) T / tau on average, M being the time between
 * failures of all devices together; tau is chosen as Daly gives it (A higher order estimate of the optimum checkpoint
 * interval for restart dumps, 2006; Young's of 1974 is its first term).
 */
#ifndef PARADL_OWNERSHIP_H
#define PARADL_OWNERSHIP_H

#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is not known is NAN, and `missing` says which key of the system's file would tell. */
typedef struct pdl_ownership {
    double iterations;
    double work_s, low_s, high_s;                      /* without failures and checkpoints */
    double checkpoint_bytes, checkpoint_s, interval_s; /* of one, and from one to the next */
    double mtbf_s;                                     /* of all devices together */
    double goodput;                                    /* work_s over total_s */
    double total_s;                                    /* with failures; work_s where they are not known */
    double device_hours, energy_j, cost, energy_cost;
    char   missing[200]; /* "ownership.device_mtbf (failures), cost_per_pe_hour (money)"; "": nothing */
} pdl_ownership_t;

/* The interval between checkpoints that take `checkpoint_s` with failures every `mtbf_s`. */
double pdl_ownership_interval(double checkpoint_s, double mtbf_s);
/* Time that work takes on average, with failures. */
double pdl_ownership_time(double work_s, double interval_s, double checkpoint_s, double restart_s, double mtbf_s);

/* For a training on so many samples. */
void pdl_ownership_project(const pdl_system_t *system, const pdl_plan_t *plan, const pdl_projection_t *projection,
                           double samples, pdl_ownership_t *ownership);

#ifdef __cplusplus
}
#endif
#endif
