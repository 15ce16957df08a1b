/*
 * Validation: projects measured runs with the built-in parameters and says how far off it is; fits the
 * parameters; cross-validates the fit.
 */
#ifndef PARADL_VALIDATE_H
#define PARADL_VALIDATE_H

#include <paradl/base/status.h>
#include <paradl/oracle/oracle.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_measured_row {
    const char *id, *source, *model, *strategy, *quantity, *quality; /* as in the file */
    int64_t     pe;
    double      measured_s;
    double      projected_s, low_s, high_s; /* in the unit of the row: per iteration, epoch or sample */
    bool        expressed;                  /* the oracle can express this row */
    char        reason[128];                /* why not */
    bool        core;                       /* counts for the headline numbers */
} pdl_measured_row_t;

typedef struct pdl_validation pdl_validation_t;

/* Reads a table with the columns of abci_measured.csv. `experiment` (share/experiments/NAME.yaml) says how the
   runs of the table were made: system, which model file stands for which name, what each strategy's program did. */
pdl_status_t pdl_validation_read(const char *csv_path, const char *experiment, pdl_validation_t **validation);
void         pdl_validation_destroy(pdl_validation_t *validation);

/* Name of the parameter set the experiment was fitted with. */
const char *pdl_validation_parameters(const pdl_validation_t *validation);

/* Projects all rows. */
pdl_status_t pdl_validation_project(pdl_validation_t *validation, const pdl_parameters_t *parameters);

size_t                    pdl_validation_count(const pdl_validation_t *validation);
const pdl_measured_row_t *pdl_validation_row(const pdl_validation_t *validation, size_t i);

/* Accuracy of a row: 1 - |projected - measured| / measured. */
double pdl_row_accuracy(const pdl_measured_row_t *row);

typedef struct pdl_accuracy {
    int    rows;
    double mean, minimum, above_90; /* share of rows above 0.9 */
    double covered;                 /* share of rows inside their 90 % interval */
} pdl_accuracy_t;
typedef enum pdl_row_key {
    PDL_BY_ALL,
    PDL_BY_SOURCE,
    PDL_BY_STRATEGY,
    PDL_BY_MODEL,
    PDL_BY_QUANTITY,
    PDL_BY_PE
} pdl_row_key_t;
/* Accuracy over expressed rows whose key equals `value` (NULL: any), of one quantity (NULL: any); `core_only`. */
pdl_accuracy_t pdl_validation_accuracy(const pdl_validation_t *validation, pdl_row_key_t key, const char *value,
                                       const char *quantity, bool core_only);
/* Share of pairs of strategies at equal (model, devices) whose order by time per sample is projected as measured.
   Pairs that differ by less than 1 % in the measurement, the reading error of the charts, are ties and do not
   count. */
typedef struct pdl_ranking {
    int    pairs, right, ties;
    double share;
} pdl_ranking_t;
pdl_ranking_t pdl_validation_ranking(const pdl_validation_t *validation);

/* Fits the parameters marked `fitted` to the core rows, from the experiment's prior, and the deviations to the
   residuals of left-out rows; one line of progress per round to `progress` (NULL: silent). */
pdl_status_t pdl_validation_fit(pdl_validation_t *validation, pdl_parameters_t *parameters, FILE *progress);

typedef enum pdl_leave_out { PDL_LEAVE_PE, PDL_LEAVE_PAIR } pdl_leave_out_t;
typedef struct pdl_cross_validation {
    double compute, comm, total, covered, ranking;
    int    folds;
} pdl_cross_validation_t;
/* Leaves out all core rows of one number of devices (or of one model and strategy) at a time, fits to the rest,
   projects what was left out. Every fold starts from the prior, so that nothing of the left-out rows leaks in;
   the interval is that of `parameters`, with which the rows are projected again at the end. */
pdl_status_t pdl_validation_cross(pdl_validation_t *validation, const pdl_parameters_t *parameters,
                                  pdl_leave_out_t what, pdl_cross_validation_t *result, FILE *progress);

#ifdef __cplusplus
}
#endif
#endif
