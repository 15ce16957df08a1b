/*
 * Fitting the global parameters to published runs. Every source weighs the same, however many rows it has; the
 * interval is learnt from sources that the fit has not seen.
 */
#include "validate/fit/fit.h"
#include "validate/published/published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parameters that times of whole iterations on modern machines can tell something about. */
static const char *const fitted_names[] = {"matrix_efficiency",
                                           "convolution_efficiency",
                                           "attention_efficiency",
                                           "expert_efficiency",
                                           "memory_efficiency",
                                           "queue_layer_s",
                                           "queue_call_s",
                                           "network_efficiency",
                                           "product_gain",
                                           "queue_element_s",
                                           NULL};

typedef struct chosen {
    pdl_published_t *runs;
    bool            *use;
    double          *weight; /* of every line, and behind them of the used ones alone */
} chosen_t;

static bool usable(const pdl_published_line_t *line)
{
    return line->machine >= 0 && line->row.expressed && line->row.measured_s > 0 && !line->row.measured_oom;
}

/* The weights of a source's rows sum to this many. */
static void weigh(chosen_t *c)
{
    static const double per_source = 5;
    size_t              n = c->runs->line_count;

    for (size_t i = 0; i < n; i++) {
        int rows = 0;
        for (size_t j = 0; j < n; j++)
            rows += c->use[j] && strcmp(c->runs->lines[i].row.source, c->runs->lines[j].row.source) == 0;
        c->weight[i] = rows ? per_source / rows : 0;
    }
}

static pdl_status_t residuals(void *context, const pdl_parameters_t *p, double *r)
{
    const chosen_t *c = context;
    pdl_status_t    status = pdl__published_run(c->runs, p, c->use);
    size_t          k = 0;

    for (size_t i = 0; i < c->runs->line_count && !status; i++) {
        const pdl_published_row_t *row = &c->runs->lines[i].row;
        if (!c->use[i]) continue;
        r[k++] = row->expressed ? log(row->projected_s / row->measured_s) : 0;
    }
    return status;
}

static pdl_status_t fit_chosen(chosen_t *c, pdl_parameters_t *p, FILE *progress)
{
    bool              fitted[256] = {false};
    pdl_fit_problem_t problem = {.context = c, .residuals = residuals, .fitted = fitted};

    for (int i = 0; i < pdl_parameter_count; i++)
        for (int j = 0; fitted_names[j]; j++) fitted[i] |= strcmp(pdl_parameter_info[i].name, fitted_names[j]) == 0;
    weigh(c);
    double *used = c->weight + c->runs->line_count;
    problem.weight = used;
    for (size_t i = 0; i < c->runs->line_count; i++)
        if (c->use[i]) used[problem.rows++] = c->weight[i];
    return pdl__fit(&problem, p, progress);
}

/* Uses all usable lines but those of one source (NULL: all). */
static void choose(chosen_t *c, const char *without)
{
    for (size_t i = 0; i < c->runs->line_count; i++)
        c->use[i] = usable(&c->runs->lines[i]) && !(without && strcmp(c->runs->lines[i].row.source, without) == 0);
}

static bool starts_source(const pdl_published_t *runs, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (usable(&runs->lines[j]) && strcmp(runs->lines[j].row.source, runs->lines[i].row.source) == 0)
            return false;
    return usable(&runs->lines[i]);
}

/* ln(measured / projected) of every line when its source is left out. */
static pdl_status_t leave_out(chosen_t *c, const pdl_parameters_t *prior, const pdl_parameters_t *best,
                              double *left, double *mean_error, FILE *progress)
{
    pdl_published_t *runs = c->runs;
    pdl_status_t     status = PDL_OK;
    int              sources = 0;

    *mean_error = 0;
    for (size_t i = 0; i < runs->line_count && !status; i++) {
        const char      *source = runs->lines[i].row.source;
        pdl_parameters_t p = *prior;
        if (!starts_source(runs, i)) continue;
        choose(c, source);
        status = fit_chosen(c, &p, NULL);
        if (!status) status = pdl__published_run(runs, &p, NULL);
        if (status) break;
        pdl_published_score_t score = pdl_published_score(runs, source);
        *mean_error += score.error;
        sources++;
        for (size_t j = i; j < runs->line_count; j++)
            if (usable(&runs->lines[j]) && strcmp(runs->lines[j].row.source, source) == 0)
                left[j] = log(runs->lines[j].row.measured_s / runs->lines[j].row.projected_s);
        if (progress) fprintf(progress, "left out %s: error %.3f over %d rows\n", source, score.error, score.timed);
    }
    if (sources) *mean_error /= sources;
    return status ? status : pdl__published_run(runs, best, NULL);
}

typedef struct residual {
    double size, weight;
} residual_t;

static int ascending(const void *a, const void *b)
{
    double x = ((const residual_t *)a)->size, y = ((const residual_t *)b)->size;

    return (x > y) - (x < y);
}

/* The q-quantile of weighted residuals; reorders them. */
static double quantile(residual_t *r, size_t count, double q)
{
    double total = 0, sum = 0;

    qsort(r, count, sizeof(*r), ascending);
    for (size_t i = 0; i < count; i++) total += r[i].weight;
    for (size_t i = 0; i < count; i++) {
        sum += r[i].weight;
        if (sum >= q * total) return r[i].size;
    }
    return 0;
}

/* Computation and communication cannot be told apart here: one spread for both, and the width that holds 90 % of
   the left-out rows, sources weighing the same. */
static pdl_status_t learn_interval(chosen_t *c, const double *left, pdl_parameters_t *p)
{
    residual_t *r = calloc(c->runs->line_count + 1, sizeof(*r));
    size_t      count = 0;

    if (!r) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    choose(c, NULL);
    weigh(c);
    for (size_t i = 0; i < c->runs->line_count; i++)
        if (c->use[i]) r[count++] = (residual_t){fabs(left[i]), c->weight[i]};
    p->compute_deviation = p->comm_deviation = quantile(r, count, 0.6827);
    double widest = quantile(r, count, 0.9);
    p->interval_width = p->compute_deviation > 0 ? widest / p->compute_deviation : 1.645;
    p->measured = true;
    free(r);
    return PDL_OK;
}

pdl_status_t pdl_published_fit(pdl_published_t *runs, pdl_parameters_t *parameters, double *left_out,
                               FILE *progress)
{
    size_t           n = runs->line_count;
    pdl_parameters_t prior;
    double           mean;
    chosen_t         c = {runs, calloc(n + 1, sizeof(bool)), calloc(2 * n + 1, sizeof(double))};
    double          *left = calloc(n + 1, sizeof(*left));
    pdl_status_t     status = c.use && c.weight && left ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = pdl_parameters_load(runs->rules.prior, &prior);
    /* Times that are made from operations, and what can be expressed, are known after a first projection. */
    if (!status) status = pdl__published_run(runs, &prior, NULL);
    if (!status) {
        *parameters = prior;
        choose(&c, NULL);
        status = fit_chosen(&c, parameters, progress);
    }
    if (!status) status = leave_out(&c, &prior, parameters, left, &mean, progress);
    if (!status) status = learn_interval(&c, left, parameters);
    if (!status && left_out) *left_out = mean;
    free(c.use);
    free(c.weight);
    free(left);
    return status;
}
