/*
 * How far projections of published runs are off: per source, over sources, and in order.
 */
#include "validate/published/published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool timed(const pdl_published_row_t *row)
{
    return row->expressed && !row->contradicts && row->measured_s > 0 && row->projected_s > 0 && !row->measured_oom;
}

static void add_row(const pdl_published_row_t *row, pdl_published_score_t *s)
{
    s->rows++;
    if (!row->expressed) return;
    s->expressed++;
    if (timed(row)) {
        s->timed++;
        s->error += fabs(row->projected_s - row->measured_s) / row->measured_s;
        s->bias += log(row->projected_s / row->measured_s);
        s->covered += row->measured_s >= row->low_s && row->measured_s <= row->high_s;
        s->width += 0.5 * log(row->high_s / row->low_s);
    }
    if (row->measured_gb > 0 && !row->measured_oom && !row->contradicts) {
        s->memory_rows++;
        s->memory_error += fabs(row->projected_gb - row->measured_gb) / row->measured_gb;
    }
    s->oom_rows += row->measured_oom;
    s->oom_found += row->measured_oom && row->projected_oom;
    s->false_oom += !row->measured_oom && row->projected_oom;
}

pdl_published_score_t pdl_published_score(const pdl_published_t *runs, const char *source)
{
    pdl_published_score_t s = {.source = source};

    for (size_t i = 0; i < runs->line_count; i++) {
        const pdl_published_row_t *row = &runs->lines[i].row;
        if (!source || strcmp(row->source, source) == 0) add_row(row, &s);
    }
    if (s.timed) {
        s.error /= s.timed;
        s.bias /= s.timed;
        s.covered /= s.timed;
        s.width /= s.timed;
    }
    if (s.memory_rows) s.memory_error /= s.memory_rows;
    return s;
}

static bool starts_source(const pdl_published_t *runs, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (strcmp(runs->lines[j].row.source, runs->lines[i].row.source) == 0) return false;
    return true;
}

static bool same_group(const pdl_published_row_t *a, const pdl_published_row_t *b)
{
    return a->devices == b->devices && strcmp(a->source, b->source) == 0 && strcmp(a->model, b->model) == 0;
}

/* Mean rank of a value among others: equal values share theirs. */
static double rank_of(const double *values, size_t count, double value)
{
    double below = 0, equal = 0;

    for (size_t i = 0; i < count; i++) {
        below += values[i] < value;
        equal += values[i] == value;
    }
    return below + 0.5 * (equal - 1);
}

/* Correlation of the ranks; NAN when one side has no order. */
static double spearman(const double *x, const double *y, size_t count)
{
    double mean = 0.5 * ((double)count - 1), xy = 0, xx = 0, yy = 0;

    for (size_t i = 0; i < count; i++) {
        double a = rank_of(x, count, x[i]) - mean, b = rank_of(y, count, y[i]) - mean;
        xy += a * b;
        xx += a * a;
        yy += b * b;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

/* Of the group that row `first` starts; NAN when it does not start one or the group is too small. */
static double group_correlation(const pdl_published_t *runs, size_t first, double *measured, double *projected)
{
    const pdl_published_row_t *head = &runs->lines[first].row;
    size_t                     count = 0;

    for (size_t i = 0; i < runs->line_count; i++) {
        const pdl_published_row_t *row = &runs->lines[i].row;
        if (!timed(row) || !same_group(row, head)) continue;
        if (i < first) return NAN;
        /* Per sample, so that runs with different batches compare. */
        measured[count] = row->measured_s / (double)runs->lines[i].batch;
        projected[count++] = row->projected_s / (double)runs->lines[i].batch;
    }
    return count >= 3 ? spearman(measured, projected, count) : NAN;
}

static void add_correlations(const pdl_published_t *runs, pdl_published_summary_t *s)
{
    double *measured = calloc(2 * runs->line_count + 2, sizeof(*measured));

    if (!measured) return; /* no groups, then */
    for (size_t i = 0; i < runs->line_count; i++) {
        double r =
            timed(&runs->lines[i].row) ? group_correlation(runs, i, measured, measured + runs->line_count) : NAN;
        if (isnan(r)) continue;
        s->groups++;
        s->rank_correlation += r;
    }
    if (s->groups) s->rank_correlation /= s->groups;
    free(measured);
}

pdl_published_summary_t pdl_published_summary(const pdl_published_t *runs)
{
    pdl_published_summary_t s = {0};
    int                     memory = 0;

    for (size_t i = 0; i < runs->line_count; i++) {
        if (!starts_source(runs, i)) continue;
        pdl_published_score_t score = pdl_published_score(runs, runs->lines[i].row.source);
        if (score.timed) {
            s.sources++;
            s.source_mean += score.error;
            s.covered_mean += score.covered;
            s.width_mean += score.width;
        }
        if (score.memory_rows) {
            memory++;
            s.memory_mean += score.memory_error;
        }
    }
    if (s.sources) {
        s.source_mean /= s.sources;
        s.covered_mean /= s.sources;
        s.width_mean /= s.sources;
    }
    if (memory) s.memory_mean /= memory;
    add_correlations(runs, &s);
    return s;
}
