/*
 * Cells that tables of plans have in common, and a candidate as a part of a document.
 */
#ifndef PDL_REPORT_PLAN_CELLS_H
#define PDL_REPORT_PLAN_CELLS_H

#include <paradl/report/report.h>

#define PDL__CELL_SIZE 160

/* The mesh and the policies that differ from the plainest; "16 micro" is short for 16 micro-batches, "2
   virtual" for 2 virtual stages on every device. */
char *pdl__cell_mesh(const pdl_config_t *config, char text[PDL__CELL_SIZE]);
/* The interval in the unit of the value: "870 ms" and "[718..1050]". */
char *pdl__cell_interval(const pdl_projection_t *projection, char text[PDL__CELL_SIZE]);
/* What limits it most: a share in percent, a factor or a number of devices, as each finding has its own measure. */
char *pdl__cell_limit(const pdl_projection_t *projection, char text[PDL__CELL_SIZE]);

/* Mesh and policies of a configuration, as fields. */
void pdl__config_json(pdl_json_t *json, const pdl_config_t *config);
/* The parts of the machine in the order in which ranks are on them, and those of every stage; nothing where devices are alike. */
void pdl__places_json(pdl_json_t *json, const pdl_system_t *system, const pdl_config_t *config);
void pdl__candidate_json(pdl_json_t *json, const char *key, const pdl_plan_report_t *report,
                         const pdl_candidate_t *candidate, int rank);

/* What the best of each of several precisions takes; nothing where one was asked for. Of a device that lacks one, the reason alone. */
pdl_status_t pdl__precisions_print(const pdl_plan_report_t *report, FILE *stream);
void         pdl__precisions_left_out(const pdl_search_t *search, FILE *stream);
void         pdl__precisions_json(pdl_json_t *json, const pdl_plan_report_t *report);

/* What an exact search says; nothing where there was none. */
void pdl__exact_print(const pdl_plan_report_t *report, FILE *stream);
void pdl__exact_json(pdl_json_t *json, const pdl_plan_report_t *report);

#endif
