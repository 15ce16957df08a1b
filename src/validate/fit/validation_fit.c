/*
 * Measured rows as a problem of least squares.
 */
#include "validate/fit/fit.h"
#include "validate/fit/validation.h"
#include <math.h>
#include <string.h>

typedef struct chosen {
    pdl_validation_t *v;
    const bool       *use;
} chosen_t;

/* Totals are what users see, so they weigh more than their two parts. */
static double row_weight(const pdl_measured_row_t *row)
{
    return strcmp(row->quantity, "total") == 0 ? 2.0 : 0.7;
}

static pdl_status_t residuals(void *context, const pdl_parameters_t *p, double *r)
{
    const chosen_t *c = context;
    pdl_status_t    status = pdl__validation_runs(c->v, p, c->use);
    size_t          k = 0;

    if (status) return status;
    for (size_t i = 0; i < c->v->row_count; i++) {
        const pdl_row_t *row = &c->v->rows[i];
        if (!c->use[i]) continue;
        const pdl_projection_t *projection = &c->v->runs[row->run].projection;
        double                  seconds = pdl__row_seconds(projection, row->quantity) * row->iterations;
        r[k++] = projection->total_s > 0 && seconds > 0
                     ? row_weight(&row->public_row) * log(seconds / row->public_row.measured_s)
                     : 0;
    }
    return PDL_OK;
}

pdl_status_t pdl__fit_rows(pdl_validation_t *v, const bool *use, pdl_parameters_t *parameters, FILE *progress)
{
    chosen_t          context = {v, use};
    pdl_fit_problem_t problem = {.context = &context, .residuals = residuals};

    for (size_t i = 0; i < v->row_count; i++) problem.rows += use[i];
    return pdl__fit(&problem, parameters, progress);
}
