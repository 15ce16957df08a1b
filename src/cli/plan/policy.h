/*
 * --data-policy of paradl plan: one policy for every candidate, or all policies for the best one.
 */
#ifndef PDL_CLI_PLAN_POLICY_H
#define PDL_CLI_PLAN_POLICY_H

#include <paradl/report/report.h>

typedef struct pdl__plan_policy {
    pdl_policy_row_t   *rows;
    pdl_policy_row_t    base;
    char                explanation[4096];
    pdl_policy_report_t report;
} pdl__plan_policy_t;

/* Whether the text is "all" or a policy; before anything takes time. */
pdl_status_t pdl__plan_policy_check(const char *text);
/* Projects what the text asks for and puts a single policy into the candidates' plans. */
pdl_status_t pdl__plan_policy_project(pdl__plan_policy_t *policy, const char *text, double exchange_bytes_per_s,
                                      const pdl_oracle_t *oracle, const pdl_request_t *request,
                                      pdl_search_t *search);
void         pdl__plan_policy_explain(pdl__plan_policy_t *policy);
void         pdl__plan_policy_free(pdl__plan_policy_t *policy);

#endif
