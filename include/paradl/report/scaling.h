/*
 * How a model scales: the best plan at every number of devices of a sweep, as a table, a document and drawings.
 */
#ifndef PARADL_SCALING_H
#define PARADL_SCALING_H

#include <paradl/report/report.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_scaling {
    const pdl_plan_report_t *points; /* by devices, fewest first; each with its search */
    int                      count;
    bool                     fixed_batch; /* strong scaling; else the batch grows with the devices */
} pdl_scaling_t;

/* Samples or tokens a second of the best plan of a point; 0 where there is none. Efficiency is that of a device, over that of the
   first point that has one. */
double pdl_scaling_rate(const pdl_scaling_t *scaling, int point);
double pdl_scaling_efficiency(const pdl_scaling_t *scaling, int point);

pdl_status_t pdl_report_scaling(const pdl_scaling_t *scaling, FILE *stream);
pdl_status_t pdl_report_scaling_json(const pdl_scaling_t *scaling, FILE *stream);
/* Rate over devices, and what it were if it grew with them: as SVG, or with characters. */
pdl_status_t pdl_report_scaling_svg(const pdl_scaling_t *scaling, FILE *stream);
pdl_status_t pdl_report_scaling_text(const pdl_scaling_t *scaling, FILE *stream);

#ifdef __cplusplus
}
#endif
#endif
