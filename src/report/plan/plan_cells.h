/*
 * Cells that tables of plans have in common, and a candidate as a part of a document.
 */
#ifndef PDL_REPORT_PLAN_CELLS_H
#define PDL_REPORT_PLAN_CELLS_H

#include <paradl/report/report.h>

#define PDL__CELL_SIZE 160

/* The mesh and the policies that differ from the plainest; "16 micro" is short for 16 micro-batches. */
char *pdl__cell_mesh(const pdl_config_t *config, char text[PDL__CELL_SIZE]);
/* The interval in the unit of the value: "870 ms" and "[718..1050]". */
char *pdl__cell_interval(const pdl_projection_t *projection, char text[PDL__CELL_SIZE]);
/* What limits it most: a share in percent, a factor or a number of devices, as each finding has its own measure. */
char *pdl__cell_limit(const pdl_projection_t *projection, char text[PDL__CELL_SIZE]);

void pdl__candidate_json(pdl_json_t *json, const char *key, const pdl_plan_report_t *report,
                         const pdl_candidate_t *candidate, int rank);

#endif
