/*
 * Cross-validation: what would have been projected for rows the fit has not seen, and the interval that the
 * residuals of such rows teach.
 */
#include "base/sorted.h"
#include "validate/fit/validation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_fold(const pdl_measured_row_t *a, const pdl_measured_row_t *b, pdl_leave_out_t what)
{
    if (what == PDL_LEAVE_PE) return a->pe == b->pe;
    return strcmp(a->model, b->model) == 0 && strcmp(a->strategy, b->strategy) == 0;
}

static bool fit_quantity(const pdl_measured_row_t *row)
{
    return strcmp(row->quantity, "compute") == 0 || strcmp(row->quantity, "comm") == 0 ||
           strcmp(row->quantity, "total") == 0;
}

/* Core rows not in the fold of row `first` (SIZE_MAX: all core rows). */
static void choose(const pdl_validation_t *v, size_t first, pdl_leave_out_t what, bool *use)
{
    for (size_t i = 0; i < v->row_count; i++) {
        const pdl_measured_row_t *row = &v->rows[i].public_row;
        use[i] = v->rows[i].run >= 0 && row->core && fit_quantity(row);
        if (use[i] && first != SIZE_MAX && same_fold(row, &v->rows[first].public_row, what)) use[i] = false;
    }
}

static bool first_of_fold(const pdl_validation_t *v, size_t i, pdl_leave_out_t what, const bool *core)
{
    if (!core[i]) return false;
    for (size_t j = 0; j < i; j++)
        if (core[j] && same_fold(&v->rows[j].public_row, &v->rows[i].public_row, what)) return false;
    return true;
}

static void print_fold(const pdl_validation_t *v, const pdl_measured_row_t *row, pdl_leave_out_t what,
                       const bool *core, const bool *use, const double *left, FILE *progress)
{
    static const char *const names[] = {"compute", "comm", "total"};
    double                   sum[3] = {0, 0, 0};
    int                      count[3] = {0, 0, 0};

    for (size_t j = 0; j < v->row_count; j++) {
        const pdl_measured_row_t *r = &v->rows[j].public_row;
        for (int q = 0; q < 3; q++) {
            if (!core[j] || use[j] || strcmp(r->quantity, names[q]) != 0) continue;
            sum[q] += 1 - fabs(left[j] - r->measured_s) / r->measured_s;
            count[q]++;
        }
    }
    fprintf(progress, "left out ");
    if (what == PDL_LEAVE_PE)
        fprintf(progress, "%lld devices", (long long)row->pe);
    else
        fprintf(progress, "%s %s", row->model, row->strategy);
    fprintf(progress, ": accuracy");
    for (int q = 0; q < 3; q++)
        if (count[q]) fprintf(progress, " %s %.3f", names[q], sum[q] / count[q]);
    fprintf(progress, ", %d runs\n", count[2]);
}

/* Projections of left-out rows, fold by fold: left[i] for core rows. */
static pdl_status_t leave_out(pdl_validation_t *v, pdl_leave_out_t what, double *left, int *folds, FILE *progress)
{
    bool            *core = calloc(2 * v->row_count + 2, sizeof(*core)), *use = core ? core + v->row_count : NULL;
    pdl_status_t     status = core ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl_parameters_t prior;

    *folds = 0;
    if (!status) status = pdl_parameters_load(v->experiment.prior, &prior);
    if (!status) choose(v, SIZE_MAX, what, core);
    for (size_t i = 0; i < v->row_count && !status; i++) {
        const pdl_measured_row_t *row = &v->rows[i].public_row;
        if (!first_of_fold(v, i, what, core)) continue;
        pdl_parameters_t p = prior;
        choose(v, i, what, use);
        ++*folds;
        status = pdl__fit_rows(v, use, &p, NULL);
        if (!status) status = pdl__validation_runs(v, &p, core);
        for (size_t j = 0; j < v->row_count && !status; j++)
            if (core[j] && !use[j])
                left[j] = pdl__row_seconds(&v->runs[v->rows[j].run].projection, v->rows[j].quantity) *
                          v->rows[j].iterations;
        if (progress && !status) print_fold(v, row, what, core, use, left, progress);
    }
    free(core);
    return status;
}

/* The q-quantile of |values|; reorders them. */
static double quantile(double *values, size_t count, double q)
{
    if (count == 0) return 0;
    for (size_t i = 0; i < count; i++) values[i] = fabs(values[i]);
    pdl__sort_numbers(values, count);
    return pdl__quantile(values, count, q);
}

/* Spread of ln(measured / projected) of computation and communication together, as programs draw the line between
   the two differently; from its median, so that outliers do not decide. `left` holds two left-out projections
   of every row, one set behind the other. */
static double deviation(const pdl_validation_t *v, const double *left, double *scratch)
{
    size_t count = 0;

    for (size_t k = 0; k < 2 * v->row_count; k++) {
        const pdl_measured_row_t *row = &v->rows[k % v->row_count].public_row;
        if (left[k] > 0 && strcmp(row->quantity, "total") != 0) scratch[count++] = log(row->measured_s / left[k]);
    }
    return quantile(scratch, count, 0.6827);
}

/* Width of the interval, in deviations, that holds 90 % of the left-out totals. */
static double width_of(pdl_validation_t *v, const double *left, const pdl_parameters_t *p, double *scratch)
{
    size_t count = 0;

    for (size_t k = 0; k < 2 * v->row_count; k++) {
        const pdl_row_t *row = &v->rows[k % v->row_count];
        if (left[k] <= 0 || strcmp(row->public_row.quantity, "total") != 0) continue;
        const pdl_projection_t *projection = &v->runs[row->run].projection;
        double                  comm = projection->comm_s / projection->total_s;
        double                  a = (1 - comm) * p->compute_deviation, b = comm * p->comm_deviation;
        scratch[count++] = log(row->public_row.measured_s / left[k]) / sqrt(a * a + b * b);
    }
    return quantile(scratch, count, 0.9);
}

/* Residuals of both ways of leaving out teach the interval: larger machines, and pairs never seen. */
static pdl_status_t learn_interval(pdl_validation_t *v, pdl_parameters_t *p, const bool *use, FILE *progress)
{
    size_t       n = v->row_count;
    double      *left = calloc(4 * n + 4, sizeof(*left)), *scratch = left + 2 * n;
    int          folds;
    pdl_status_t status = left ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = leave_out(v, PDL_LEAVE_PE, left, &folds, progress);
    if (!status) status = leave_out(v, PDL_LEAVE_PAIR, left + n, &folds, progress);
    if (!status) status = pdl__validation_runs(v, p, use);
    if (!status) {
        p->compute_deviation = p->comm_deviation = deviation(v, left, scratch);
        p->interval_width = width_of(v, left, p, scratch);
        p->measured = true;
    }
    free(left);
    return status;
}

pdl_status_t pdl_validation_fit(pdl_validation_t *v, pdl_parameters_t *parameters, FILE *progress)
{
    bool        *use = calloc(v->row_count + 1, sizeof(*use));
    pdl_status_t status = use ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = pdl_parameters_load(v->experiment.prior, parameters);
    if (!status) choose(v, SIZE_MAX, PDL_LEAVE_PE, use);
    if (!status) status = pdl__fit_rows(v, use, parameters, progress);
    if (!status) status = learn_interval(v, parameters, use, progress);
    free(use);
    return status;
}

pdl_status_t pdl_validation_cross(pdl_validation_t *v, const pdl_parameters_t *parameters, pdl_leave_out_t what,
                                  pdl_cross_validation_t *result, FILE *progress)
{
    double      *left = calloc(v->row_count + 1, sizeof(*left));
    pdl_status_t status = left ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
    int          counts[3] = {0, 0, 0};

    memset(result, 0, sizeof(*result));
    if (!status) status = leave_out(v, what, left, &result->folds, progress);
    if (!status) status = pdl_validation_project(v, parameters);
    for (size_t i = 0; i < v->row_count && !status; i++) {
        pdl_measured_row_t *row = &v->rows[i].public_row;
        if (left[i] <= 0) continue;
        double scale = left[i] / row->projected_s;
        row->projected_s *= scale;
        row->low_s *= scale;
        row->high_s *= scale;
        int q = strcmp(row->quantity, "compute") == 0 ? 0 : strcmp(row->quantity, "comm") == 0 ? 1 : 2;
        *(q == 0 ? &result->compute : q == 1 ? &result->comm : &result->total) += pdl_row_accuracy(row);
        if (q == 2) result->covered += row->measured_s >= row->low_s && row->measured_s <= row->high_s;
        counts[q]++;
    }
    if (!status && counts[0] && counts[1] && counts[2]) {
        result->compute /= counts[0];
        result->comm /= counts[1];
        result->total /= counts[2];
        result->covered /= counts[2];
        result->ranking = pdl_validation_ranking(v).share;
    }
    free(left);
    return status ? status : pdl_validation_project(v, parameters);
}
