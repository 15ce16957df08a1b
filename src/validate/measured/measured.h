/*
 * Sources of measured runs.
 */
#ifndef PDL_VALIDATE_MEASURED_H
#define PDL_VALIDATE_MEASURED_H

#include <paradl/base/json_read.h>
#include <paradl/validate/measured_run.h>

/* Everything NAN. */
pdl_measured_run_t pdl__measured_nothing(void);

/* The log of paradl train. */
pdl_status_t pdl__measured_log(pdl_arena_t *arena, const char *text, size_t length, const char *name,
                               pdl_measured_run_t *run);
/* A document with traceEvents. */
pdl_status_t pdl__measured_trace(pdl_arena_t *arena, const pdl_json_value_t *root, const char *name,
                                 pdl_measured_run_t *run);

#endif
