/*
 * The program of one rank: as a table, as JSON, and as a projected timeline.
 */
#ifndef PARADL_DRY_REPORT_H
#define PARADL_DRY_REPORT_H

#include <paradl/train/dry.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything is borrowed. */
typedef struct pdl_dry_report {
    const pdl_session_t *session;
    const pdl_plan_t    *plan;
    const char          *model_name, *system_name;
    int                  rank;
    const double        *seconds; /* of every operation; NULL: not projected */
} pdl_dry_report_t;

pdl_status_t pdl_report_dry(const pdl_dry_report_t *report, FILE *stream);
pdl_status_t pdl_report_dry_json(const pdl_dry_report_t *report, FILE *stream);
/* For Perfetto and chrome://tracing: the program replayed, what other ranks send being there at once. */
pdl_status_t pdl_report_dry_trace(const pdl_dry_report_t *report, const char *path);

#ifdef __cplusplus
}
#endif
#endif
