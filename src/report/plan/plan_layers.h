/*
 * Layers of a plan with what they take in an update. Internal to report.
 */
#ifndef PDL_REPORT_PLAN_LAYERS_H
#define PDL_REPORT_PLAN_LAYERS_H

#include <paradl/base/json.h>
#include <paradl/oracle/replay.h>

/* "layers": an array; the ranks of the timeline are one of every stage. */
pdl_status_t pdl__plan_layers_json(pdl_json_t *json, const pdl_plan_t *plan, const pdl_timeline_t *timeline);

#endif
