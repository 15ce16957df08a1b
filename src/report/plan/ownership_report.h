/*
 * What a whole training takes, as a part of reports on plans.
 */
#ifndef PDL_REPORT_OWNERSHIP_H
#define PDL_REPORT_OWNERSHIP_H

#include <paradl/base/units.h>
#include <paradl/report/report.h>

/* Nothing where a report has none. */
void pdl__report_ownership(const pdl_plan_report_t *report, FILE *stream);
void pdl__report_ownership_json(pdl_json_t *json, const pdl_plan_report_t *report);
/* The whole time, in days where it is long. */
char *pdl__ownership_time(const pdl_ownership_t *ownership, char text[PDL_FORMAT_SIZE]);

#endif
