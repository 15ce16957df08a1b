/*
 * Fitting the global parameters to published runs. Every source weighs the same, however many rows it has; the
 * interval is learnt from sources that the fit has not seen.
 */
#include "validate/fit/fit.h"
#include "validate/published/published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The parameters that times of whole iterations on modern machines can tell something about, and that no framework sets for
   itself. */
static const char *const fitted_names[] = {"product_gain",       "expert_efficiency",
                                           "memory_efficiency",  "queue_layer_s",
                                           "queue_element_s",    "queue_call_s",
                                           "network_efficiency", NULL};

/* Rows of a source that are fitted: more tell little more and take their time. Parts into which groups are left out. */
enum { MOST_ROWS = 120, FOLDS = 10 };

typedef struct chosen {
    pdl_published_t *runs;
    bool            *use, *thinned;
    double          *weight; /* of every line, and behind them of the used ones alone */
} chosen_t;

static bool usable(const pdl_published_line_t *line)
{
    return line->machine >= 0 && line->row.expressed && !line->row.contradicts && line->row.measured_s > 0 &&
           !line->row.measured_oom;
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

/* FNV-1a. */
static uint64_t add_text(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Rows of one source, model and number of devices are a group, and groups are dealt out. */
static int fold_of(const pdl_published_line_t *line)
{
    uint64_t hash = add_text(add_text(UINT64_C(14695981039346656037), line->row.source), line->recipe.yaml);

    return (int)((hash ^ hash >> 32 ^ (uint64_t)line->row.devices) % FOLDS);
}

/* What is left out: a source, or a fold of groups (where source is NULL), or nothing (where fold is negative). */
typedef struct left {
    const char *source;
    int         fold;
} left_t;

static bool is_left(const pdl_published_line_t *line, const left_t *left)
{
    if (left->source) return strcmp(line->row.source, left->source) == 0;
    return fold_of(line) == left->fold;
}

/* Every n-th of the usable lines of a source that has many. */
static bool is_thinned(const pdl_published_t *runs, size_t i)
{
    int before = 0, rows = 0;

    for (size_t j = 0; j < runs->line_count; j++) {
        if (!usable(&runs->lines[j]) || strcmp(runs->lines[j].row.source, runs->lines[i].row.source) != 0) continue;
        before += j < i;
        rows++;
    }
    return rows > MOST_ROWS && before % ((rows + MOST_ROWS - 1) / MOST_ROWS) != 0;
}

static void choose(chosen_t *c, const left_t *left)
{
    for (size_t i = 0; i < c->runs->line_count; i++) {
        const pdl_published_line_t *line = &c->runs->lines[i];
        c->use[i] = usable(line) && !is_left(line, left) && !c->thinned[i];
    }
}

static bool starts_source(const pdl_published_t *runs, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (usable(&runs->lines[j]) && strcmp(runs->lines[j].row.source, runs->lines[i].row.source) == 0)
            return false;
    return usable(&runs->lines[i]);
}

/* Fits without what is left out, and notes ln(measured / projected) of that in residual[]. */
static pdl_status_t leave_out(chosen_t *c, const pdl_parameters_t *prior, const left_t *left, double *residual)
{
    pdl_published_t *runs = c->runs;
    pdl_parameters_t p = *prior;

    choose(c, left);
    pdl_status_t status = fit_chosen(c, &p, NULL);
    if (!status) status = pdl__published_run(runs, &p, NULL);
    for (size_t i = 0; i < runs->line_count && !status; i++)
        if (usable(&runs->lines[i]) && is_left(&runs->lines[i], left))
            residual[i] = log(runs->lines[i].row.measured_s / runs->lines[i].row.projected_s);
    return status;
}

/* Mean over sources of the mean error of their rows. */
static double mean_error(const pdl_published_t *runs, const double *residual)
{
    double sum = 0;
    int    sources = 0;

    for (size_t i = 0; i < runs->line_count; i++) {
        double error = 0;
        int    rows = 0;
        if (!starts_source(runs, i)) continue;
        for (size_t j = i; j < runs->line_count; j++)
            if (usable(&runs->lines[j]) && strcmp(runs->lines[j].row.source, runs->lines[i].row.source) == 0) {
                error += fabs(exp(-residual[j]) - 1);
                rows++;
            }
        sum += error / rows;
        sources++;
    }
    return sources ? sum / sources : 0;
}

/* Every source, then every fold of groups. residual[] ends as that of the groups. */
static pdl_status_t cross_validate(chosen_t *c, const pdl_parameters_t *prior, double *residual,
                                   pdl_published_cross_t *cross, FILE *progress)
{
    pdl_published_t *runs = c->runs;
    pdl_status_t     status = PDL_OK;

    for (size_t i = 0; i < runs->line_count && !status; i++) {
        if (!starts_source(runs, i)) continue;
        status = leave_out(c, prior, &(left_t){runs->lines[i].row.source, -1}, residual);
        if (progress) fprintf(progress, "left out %s\n", runs->lines[i].row.source);
    }
    cross->sources = mean_error(runs, residual);
    for (int fold = 0; fold < FOLDS && !status; fold++) {
        status = leave_out(c, prior, &(left_t){NULL, fold}, residual);
        if (progress) fprintf(progress, "left out groups %d of %d\n", fold + 1, FOLDS);
    }
    cross->groups = mean_error(runs, residual);
    return status;
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
   the rows of left-out groups, sources weighing the same. */
static pdl_status_t learn_interval(chosen_t *c, const double *left, pdl_parameters_t *p)
{
    residual_t *r = calloc(c->runs->line_count + 1, sizeof(*r));
    size_t      count = 0;

    if (!r) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < c->runs->line_count; i++) c->use[i] = usable(&c->runs->lines[i]);
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

static pdl_status_t fit_all(chosen_t *c, pdl_parameters_t *parameters, double *residual,
                            pdl_published_cross_t *cross, FILE *progress)
{
    static const left_t nothing = {NULL, -1};
    pdl_published_t    *runs = c->runs;
    pdl_parameters_t    prior;
    pdl_status_t        status = pdl_parameters_load(runs->rules.prior, &prior);

    /* Times that are made from operations, and what can be expressed, are known after a first projection. */
    if (!status) status = pdl__published_run(runs, &prior, NULL);
    if (status) return status;
    for (size_t i = 0; i < runs->line_count; i++) c->thinned[i] = is_thinned(runs, i);
    *parameters = prior;
    choose(c, &nothing);
    status = fit_chosen(c, parameters, progress);
    if (!status) status = cross_validate(c, &prior, residual, cross, progress);
    if (!status) status = pdl__published_run(runs, parameters, NULL);
    return status ? status : learn_interval(c, residual, parameters);
}

pdl_status_t pdl_published_fit(pdl_published_t *runs, pdl_parameters_t *parameters, pdl_published_cross_t *cross,
                               FILE *progress)
{
    size_t                n = runs->line_count;
    pdl_published_cross_t found;
    chosen_t              c = {.runs = runs,
                               .use = calloc(2 * n + 1, sizeof(bool)),
                               .weight = calloc(2 * n + 1, sizeof(double))};
    double               *residual = calloc(n + 1, sizeof(*residual));
    pdl_status_t status = c.use && c.weight && residual ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) {
        c.thinned = c.use + n;
        status = fit_all(&c, parameters, residual, &found, progress);
    }
    if (!status && cross) *cross = found;
    free(c.use);
    free(c.weight);
    free(residual);
    return status;
}
