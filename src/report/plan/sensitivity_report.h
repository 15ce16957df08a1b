/*
 * What every hardware number is worth to the best plan, as a part of reports on plans.
 */
#ifndef PDL_REPORT_SENSITIVITY_H
#define PDL_REPORT_SENSITIVITY_H

#include <paradl/report/report.h>

/* Nothing where a report has none. */
pdl_status_t pdl__report_sensitivity(const pdl_plan_report_t *report, FILE *stream);
void         pdl__report_sensitivity_json(pdl_json_t *json, const pdl_plan_report_t *report);

#endif
