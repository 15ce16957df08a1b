/*
 * Runs on one device: tables of whole training steps (share/measured/h200_runs.csv) and of single operations
 * (h200_ops.csv), projected with the framework that their rules name.
 *
 *     pdl_device_runs_t *runs;
 *     pdl_device_runs_read("h200_runs.csv", "h200", &runs);
 *     pdl_device_runs_project(runs, NULL);
 *     printf("mean error %g\n", pdl_device_runs_score(runs, NULL).error);
 *     pdl_device_runs_destroy(runs);
 */
#ifndef PARADL_VALIDATE_DEVICE_H
#define PARADL_VALIDATE_DEVICE_H

#include <paradl/base/status.h>
#include <paradl/oracle/oracle.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_device_row {
    char        name[128]; /* what was measured */
    const char *group;     /* model, or operation */
    size_t      line;      /* of the table, from 0 */
    bool        backward;  /* of a single operation */
    double      measured_s, projected_s, low_s, high_s;
    double      measured_bytes, projected_bytes; /* allocated by tensors; 0: none */
    bool        measured_oom, projected_oom;
    bool        expressed;
    char        reason[128]; /* why not */
} pdl_device_row_t;

typedef struct pdl_device_runs pdl_device_runs_t;

/* `rules` (share/experiments/NAME.yaml) says on which system and with which frameworks the table was measured. */
pdl_status_t pdl_device_runs_read(const char *csv_path, const char *rules, pdl_device_runs_t **runs);
void         pdl_device_runs_destroy(pdl_device_runs_t *runs);

/* Projects all rows with their frameworks over the named parameter set (NULL: as the frameworks say). A row that cannot be
   projected is not expressed and says why. */
pdl_status_t pdl_device_runs_project(pdl_device_runs_t *runs, const char *parameters);

size_t                  pdl_device_runs_count(const pdl_device_runs_t *runs);
const pdl_device_row_t *pdl_device_runs_row(const pdl_device_runs_t *runs, size_t i);
/* Single operations; else whole steps. */
bool pdl_device_runs_operations(const pdl_device_runs_t *runs);

/* Errors are |projected - measured| / measured. */
typedef struct pdl_device_score {
    int    rows, expressed, timed, memory_rows, oom_rows, oom_found, false_oom;
    double error, bias; /* bias: mean of ln(projected / measured) */
    double covered;     /* share of times in their 90 % interval */
    double width;       /* mean of ln(high / low) / 2 */
    double memory_error;
} pdl_device_score_t;
/* Of a group; NULL: of all rows. */
pdl_device_score_t pdl_device_runs_score(const pdl_device_runs_t *runs, const char *group);

#ifdef __cplusplus
}
#endif
#endif
