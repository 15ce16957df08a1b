/*
 * Fit of the global parameters to measurements: damped least squares on residuals such as ln(projected / measured)
 * in the logarithms of the parameters, with a loss that grows only linearly for outliers (soft l1), bounds from the
 * parameter table, and a weak pull towards the start so that what the rows do not determine stays where physics
 * put it.
 */
#include "validate/fit/fit.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 64, ROUNDS = 40 };
static const double PULL = 0.6, OUTLIER = 0.15, STEP = 1e-4;

typedef struct fit {
    const pdl_fit_problem_t *problem;
    int                      which[MOST_PARAMETERS]; /* indices into pdl_parameter_info */
    int                      n;
    size_t                   rows;
    double                   start[MOST_PARAMETERS], low[MOST_PARAMETERS], high[MOST_PARAMETERS]; /* logarithms */
    pdl_parameters_t         base;
} fit_t;

static double *slot(pdl_parameters_t *p, int i)
{
    return (double *)(void *)((char *)p + pdl_parameter_info[i].offset);
}

static void fit_begin(fit_t *f, const pdl_parameters_t *parameters)
{
    f->base = *parameters;
    for (int i = 0; i < pdl_parameter_count; i++) {
        const pdl_parameter_info_t *info = &pdl_parameter_info[i];
        bool                        fitted = f->problem->fitted ? f->problem->fitted[i] : info->fitted;
        if (!fitted || f->n == MOST_PARAMETERS) continue;
        double value = *slot(&f->base, i);
        f->which[f->n] = i;
        f->low[f->n] = log(info->low);
        f->high[f->n] = log(info->high);
        f->start[f->n] = value > 0 ? log(value) : 0.5 * (f->low[f->n] + f->high[f->n]);
        f->start[f->n] = fmin(fmax(f->start[f->n], f->low[f->n]), f->high[f->n]);
        f->n++;
    }
    f->rows = f->problem->rows;
}

static pdl_parameters_t at(const fit_t *f, const double *x)
{
    pdl_parameters_t p = f->base;

    for (int i = 0; i < f->n; i++) *slot(&p, f->which[i]) = exp(x[i]);
    return p;
}

static pdl_status_t residuals(const fit_t *f, const double *x, double *r)
{
    pdl_parameters_t p = at(f, x);

    return f->problem->residuals(f->problem->context, &p, r);
}

static double weight_of(const fit_t *f, size_t row)
{
    return f->problem->weight ? f->problem->weight[row] : 1;
}

/* Soft l1: the weight of a residual in the normal equations, and the loss. */
static double loss_of(const fit_t *f, const double *r, const double *x)
{
    double loss = 0;

    for (size_t i = 0; i < f->rows; i++)
        loss += weight_of(f, i) * 2 * OUTLIER * OUTLIER * (sqrt(1 + r[i] * r[i] / (OUTLIER * OUTLIER)) - 1);
    for (int i = 0; i < f->n; i++) loss += PULL * PULL * (x[i] - f->start[i]) * (x[i] - f->start[i]);
    return loss;
}

/* Solves a x = b for a symmetric positive definite matrix, in place; false when it is not. */
static bool solve(int n, double a[][MOST_PARAMETERS], double *b)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++) a[j][j] -= a[j][k] * a[j][k];
        if (a[j][j] <= 0) return false;
        a[j][j] = sqrt(a[j][j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k];
            a[i][j] /= a[j][j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
    return true;
}

static pdl_status_t jacobian(const fit_t *f, double *x, const double *r, double *J)
{
    double *moved = J + (size_t)f->n * f->rows; /* scratch behind the matrix */

    for (int i = 0; i < f->n; i++) {
        double keep = x[i], step = x[i] + STEP > f->high[i] ? -STEP : STEP;
        x[i] = keep + step;
        pdl_status_t status = residuals(f, x, moved);
        x[i] = keep;
        if (status) return status;
        for (size_t k = 0; k < f->rows; k++) J[(size_t)i * f->rows + k] = (moved[k] - r[k]) / step;
    }
    return PDL_OK;
}

static void normal_equations(const fit_t *f, const double *J, const double *r, const double *x,
                             double a[][MOST_PARAMETERS], double *b)
{
    for (int i = 0; i < f->n; i++) {
        b[i] = -PULL * PULL * (x[i] - f->start[i]);
        for (int j = 0; j <= i; j++) a[i][j] = i == j ? PULL * PULL : 0;
    }
    for (size_t k = 0; k < f->rows; k++) {
        double w = weight_of(f, k) / sqrt(1 + r[k] * r[k] / (OUTLIER * OUTLIER));
        for (int i = 0; i < f->n; i++) {
            double ji = w * J[(size_t)i * f->rows + k];
            b[i] -= ji * r[k];
            for (int j = 0; j <= i; j++) a[i][j] += ji * J[(size_t)j * f->rows + k];
        }
    }
}

typedef struct workspace {
    double *r, *next, *J;
    double  a[MOST_PARAMETERS][MOST_PARAMETERS];
    double  x[MOST_PARAMETERS], trial[MOST_PARAMETERS];
} workspace_t;

/* One damped step; *done when no step lowers the loss noticeably. */
static pdl_status_t improve(const fit_t *f, workspace_t *w, double *loss, double *damping, bool *done)
{
    pdl_status_t status = jacobian(f, w->x, w->r, w->J);

    if (status) return status;
    *done = true;
    for (int attempt = 0; attempt < 8; attempt++) {
        double step[MOST_PARAMETERS];
        normal_equations(f, w->J, w->r, w->x, w->a, step);
        for (int i = 0; i < f->n; i++) w->a[i][i] *= 1 + *damping;
        if (!solve(f->n, w->a, step)) return PDL_OK;
        for (int i = 0; i < f->n; i++) w->trial[i] = fmin(fmax(w->x[i] + step[i], f->low[i]), f->high[i]);
        status = residuals(f, w->trial, w->next);
        if (status) return status;
        double loss_next = loss_of(f, w->next, w->trial);
        if (loss_next < *loss) {
            *done = *loss - loss_next < 1e-5 * *loss;
            *loss = loss_next;
            memcpy(w->x, w->trial, sizeof(w->x));
            memcpy(w->r, w->next, f->rows * sizeof(double));
            *damping *= 0.3;
            return PDL_OK;
        }
        *damping *= 4;
    }
    return PDL_OK;
}

pdl_status_t pdl__fit(const pdl_fit_problem_t *problem, pdl_parameters_t *parameters, FILE *progress)
{
    fit_t        f = {.problem = problem};
    workspace_t *w = calloc(1, sizeof(*w));
    double       loss, damping = 1e-2;
    bool         done = false;

    if (!w) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    fit_begin(&f, parameters);
    w->r = calloc(f.rows + 1, sizeof(double));
    w->next = calloc(f.rows + 1, sizeof(double));
    w->J = calloc(((size_t)f.n + 1) * (f.rows + 1), sizeof(double));
    memcpy(w->x, f.start, sizeof(w->x));
    pdl_status_t status = w->r && w->next && w->J ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!status) status = residuals(&f, w->x, w->r);
    if (!status) loss = loss_of(&f, w->r, w->x);
    for (int round = 1; round <= ROUNDS && !status && !done; round++) {
        status = improve(&f, w, &loss, &damping, &done);
        if (progress && !status)
            fprintf(progress, "fit round %d: loss %.5f over %zu rows, %d parameters\n", round, loss, f.rows, f.n);
    }
    if (!status) *parameters = at(&f, w->x);
    free(w->r);
    free(w->next);
    free(w->J);
    free(w);
    return status;
}
