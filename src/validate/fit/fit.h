/*
 * Least squares over the parameters of the cost model.
 */
#ifndef PDL_ORACLE_FIT_H
#define PDL_ORACLE_FIT_H

#include <paradl/oracle/oracle.h>
#include <stdio.h>

typedef struct pdl_fit_problem {
    void *context;
    /* Fills in `rows` residuals for these parameters. */
    pdl_status_t (*residuals)(void *context, const pdl_parameters_t *parameters, double *r);
    size_t        rows;
    const double *weight; /* of the rows in the loss; NULL: 1 each */
    const bool   *fitted; /* one per parameter of the table; NULL: those it marks */
} pdl_fit_problem_t;

/* From where `parameters` stand; one line of progress per round (NULL: silent). */
pdl_status_t pdl__fit(const pdl_fit_problem_t *problem, pdl_parameters_t *parameters, FILE *progress);

#endif
