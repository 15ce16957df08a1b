/*
 * A measured run beside the projection of the best plan, as a part of reports on plans.
 */
#ifndef PDL_REPORT_MEASURED_H
#define PDL_REPORT_MEASURED_H

#include <paradl/report/report.h>

/* Nothing where a report has none. */
pdl_status_t pdl__report_measured(const pdl_plan_report_t *report, FILE *stream);
void         pdl__report_measured_json(pdl_json_t *json, const pdl_plan_report_t *report);

#endif
