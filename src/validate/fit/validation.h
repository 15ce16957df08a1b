/*
 * Rows of a table of measurements and the configurations behind them.
 */
#ifndef PDL_ORACLE_VALIDATION_H
#define PDL_ORACLE_VALIDATION_H

#include "validate/fit/experiment.h"
#include <paradl/base/csv.h>
#include <paradl/validate/validate.h>

/* One configuration; the rows of its compute, communication and total share it. */
typedef struct pdl_run {
    const pdl_experiment_model_t    *model;
    const pdl_experiment_strategy_t *strategy;
    const pdl_dataset_t             *dataset; /* NULL: none listed */
    pdl_config_t                     config;
    pdl_oracle_t                    *oracle; /* one each: programs differ in their switches */
    pdl_projection_t                 projection;
} pdl_run_t;

typedef struct pdl_row {
    pdl_measured_row_t public_row;
    int                run;        /* -1: not expressed */
    double             iterations; /* of the row's unit: 1, those of an epoch, or 1 / batch */
    int                quantity;   /* index into the table of quantities */
} pdl_row_t;

struct pdl_validation {
    pdl_csv_t       *csv;
    pdl_experiment_t experiment;
    pdl_row_t       *rows;
    size_t           row_count;
    pdl_run_t       *runs;
    int              run_count;
};

/* The row's quantity in a projection, one iteration. */
double pdl__row_seconds(const pdl_projection_t *projection, int quantity);
/* Index of a quantity's name; -1 when the oracle has no such quantity. */
int pdl__quantity(const char *name);

/* Projects the runs that any of the chosen rows needs (use == NULL: all). */
pdl_status_t pdl__validation_runs(pdl_validation_t *v, const pdl_parameters_t *parameters, const bool *use);

/* Fits to the rows with use[i] set. */
pdl_status_t pdl__fit_rows(pdl_validation_t *v, const bool *use, pdl_parameters_t *parameters, FILE *progress);

#endif
