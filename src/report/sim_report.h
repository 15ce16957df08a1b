/*
 * What the reports of simulations share.
 */
#ifndef PDL_REPORT_SIM_REPORT_H
#define PDL_REPORT_SIM_REPORT_H

#include <paradl/report/sim_report.h>

/* The verdict of an algorithm, or NULL. */
const pdl_sim_verdict_t *pdl__find_verdict(const pdl_sim_report_t *report, const char *algorithm);

/* The bandwidth of each host's link that would explain the time if nothing else took any. */
double pdl__bus_bandwidth(const pdl_sim_case_t *asked, double time_s);

/* Links that carried something, the busiest first; free the list. */
typedef struct pdl__loaded {
    int    link;
    double bytes;
} pdl__loaded_t;
pdl_status_t pdl__loaded_links(const pdl_topology_t *topology, const pdl_sim_result_t *result,
                               pdl__loaded_t **loaded, int *count);

#endif
