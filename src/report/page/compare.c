/*
 * Several documents: the times that each says of an iteration or update, side by side, and the losses of runs in one chart.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RUNS  16
#define MOST_PLANS 32

/* What a document says in short. */
typedef struct row {
    const char *model, *how;
    double      seconds, memory;
} row_t;

static bool summarise(pdl__page_t *page, const pdl__document_t *d, row_t *row)
{
    const pdl_json_value_t *best = pdl_json_first(d->head, "candidates"), *summary;

    *row = (row_t){.model = pdl__page_or(pdl_json_text_of(d->head, "model"), "?")};
    if (strcmp(d->kind, "plan-result") == 0) {
        row->how = pdl__page_print(page, "projected, %s", pdl__page_or(pdl_json_text_of(best, "strategy"), "?"));
        row->seconds = pdl_json_number_of(best, "total_s");
        row->memory = pdl_json_number_of(best, "memory_bytes");
    } else if (strcmp(d->kind, "plan-simulation") == 0) {
        row->how = pdl__page_print(page, "simulated, %s", pdl__page_or(pdl_json_text_of(d->head, "strategy"), "?"));
        row->seconds = pdl_json_number_of(d->head, "simulated.total_s");
        row->memory = pdl_json_number_of(d->head, "memory_bytes");
    } else if (strcmp(d->kind, "run") == 0) {
        summary = pdl__document_summary(d);
        row->how = pdl__page_print(page, "measured, %s", pdl__page_or(pdl_json_text_of(d->head, "strategy"), "?"));
        row->seconds = pdl_json_number_of(summary, "step_s");
        row->memory = pdl_json_number_of(summary, "memory_bytes");
    } else {
        return false;
    }
    return true;
}

static double difference(double value, double base)
{
    return isfinite(value) && base > 0 ? (value - base) / base : (double)NAN;
}

static void list_times(pdl__page_t *page, const pdl_documents_t *documents)
{
    static const pdl_column_t columns[] = {{"document", PDL_LEFT},      {"model", PDL_LEFT},
                                           {"how", PDL_LEFT},           {"iteration", PDL_RIGHT},
                                           {"to the first", PDL_RIGHT}, {"memory", PDL_RIGHT}};
    double                    base = NAN;
    const char               *model = NULL;
    int                       first = -1;
    row_t                     row;

    pdl__page_table(page, "Iterations side by side; differences are to the first, of the same model", columns, 6);
    for (int i = 0; i < documents->count; i++) {
        double change;

        if (!summarise(page, &documents->item[i], &row)) continue;
        if (model == NULL) {
            model = row.model;
            first = i;
        }
        if (!isfinite(base)) base = row.seconds;
        change = strcmp(model, row.model) == 0 ? difference(row.seconds, base) : (double)NAN;
        pdl__page_row(page);
        pdl__page_cell(page, "%s", documents->item[i].name);
        pdl__page_cell(page, "%s", row.model);
        pdl__page_cell(page, "%s", row.how);
        pdl__page_seconds(page, row.seconds);
        pdl__page_cell(page, "%s",
                       i == first         ? "first"
                       : isfinite(change) ? pdl__page_print(page, "%+.1f %%", 100 * change)
                                          : "-");
        pdl__page_bytes(page, row.memory);
    }
    pdl__page_table_end(page);
}

static bool read_losses(pdl__page_t *page, const pdl__document_t *run, pdl__series_t *series)
{
    double *x, *y;
    int     count = 0;

    for (const pdl_json_value_t *l = run->lines; l != NULL; l = l->next) count += pdl_json_get(l, "step") != NULL;
    x = pdl__page_numbers(page, count);
    y = pdl__page_numbers(page, count);
    if (count == 0 || x == NULL || y == NULL) return false;
    *series = (pdl__series_t){.name = run->name, .mark = PDL__MARK_LINE, .x = x, .y = y};
    for (const pdl_json_value_t *l = run->lines; l != NULL; l = l->next) {
        if (pdl_json_get(l, "step") == NULL) continue;
        x[series->count] = pdl_json_number_of(l, "step");
        y[series->count++] = pdl_json_number_of(l, "loss");
    }
    series->count = pdl__page_thin(x, count);
    pdl__page_thin(y, count);
    return true;
}

static void draw_losses(pdl__page_t *page, const pdl_documents_t *documents)
{
    pdl__series_t series[MOST_RUNS];
    pdl__chart_t  chart = {.title = "loss of every run",
                           .x = {.label = "update"},
                           .y = {.label = "loss"},
                           .series = series};

    for (int i = 0; i < documents->count && chart.series_count < MOST_RUNS; i++)
        if (strcmp(documents->item[i].kind, "run") == 0)
            chart.series_count += read_losses(page, &documents->item[i], &series[chart.series_count]);
    if (chart.series_count > 1) pdl__page_chart(page, &chart, "Losses of all runs on common axes.");
}

/* Plans over devices: the time of a sample, one line for every strategy; gaps where it is not possible. */
typedef struct scaling {
    const pdl__document_t *plan[MOST_PLANS];
    int                    plans;
    double                 devices[MOST_PLANS], seconds[MOST_RUNS][MOST_PLANS];
    pdl__series_t          series[MOST_RUNS];
    int                    lines;
} scaling_t;

static int fewer_devices_first(const void *a, const void *b)
{
    const pdl__document_t *const *one = a, *const *other = b;
    double x = pdl_json_number_of((*one)->head, "pe"), y = pdl_json_number_of((*other)->head, "pe");

    return (x > y) - (x < y);
}

static double *line_of(scaling_t *s, const char *strategy)
{
    int i = 0;

    while (i < s->lines && strcmp(s->series[i].name, strategy) != 0) i++;
    if (i == MOST_RUNS) return NULL;
    if (i == s->lines) {
        for (int p = 0; p < s->plans; p++) s->seconds[i][p] = NAN;
        s->series[s->lines++] = (pdl__series_t){
            .name = strategy, .mark = PDL__MARK_LINE, .x = s->devices, .y = s->seconds[i], .count = s->plans};
    }
    return s->seconds[i];
}

static void fill_scaling(scaling_t *s)
{
    for (int p = 0; p < s->plans; p++) {
        s->devices[p] = pdl_json_number_of(s->plan[p]->head, "pe");
        for (const pdl_json_value_t *c = pdl_json_first(s->plan[p]->head, "candidates"); c != NULL; c = c->next) {
            const char *strategy = pdl_json_text_of(c, "strategy");
            double     *line = strategy != NULL && pdl_json_true(c, "feasible") ? line_of(s, strategy) : NULL;

            if (line != NULL) line[p] = pdl_json_number_of(c, "total_s") / pdl_json_number_of(c, "batch");
        }
    }
}

static void draw_scaling(pdl__page_t *page, const pdl_documents_t *documents)
{
    scaling_t    s = {.plans = 0};
    pdl__chart_t chart = {.title = "time of a sample over devices",
                          .x = {.label = "devices", .scale = PDL__SCALE_LOG2},
                          .y = {.label = "time of a sample",
                                .scale = PDL__SCALE_LOG10,
                                .format = pdl_format_seconds},
                          .series = s.series};

    for (int i = 0; i < documents->count && s.plans < MOST_PLANS; i++)
        if (strcmp(documents->item[i].kind, "plan-result") == 0) s.plan[s.plans++] = &documents->item[i];
    if (s.plans < 2) return;
    qsort(s.plan, (size_t)s.plans, sizeof(s.plan[0]), fewer_devices_first);
    if (pdl_json_number_of(s.plan[0]->head, "pe") == pdl_json_number_of(s.plan[s.plans - 1]->head, "pe")) return;
    fill_scaling(&s);
    chart.series_count = s.lines;
    pdl__page_chart(page, &chart,
                    "Time of an iteration over its batch; half at twice the devices is perfect. A line ends where "
                    "its strategy does.");
}

/* Strategies that are possible in one of two plans, and what is between their best. */
typedef struct change {
    const char *name;
    double      before, after;
} change_t;

static double change_of(const change_t *c)
{
    return (isfinite(c->after) ? c->after : 0) - (isfinite(c->before) ? c->before : 0);
}

static int larger_first(const void *a, const void *b)
{
    double x = fabs(change_of(a)), y = fabs(change_of(b));

    return (x < y) - (x > y);
}

static bool is_possible(const pdl__document_t *plan, const char *strategy)
{
    for (const pdl_json_value_t *c = pdl_json_first(plan->head, "candidates"); c != NULL; c = c->next)
        if (pdl_json_true(c, "feasible") &&
            strcmp(pdl__page_or(pdl_json_text_of(c, "strategy"), ""), strategy) == 0)
            return true;
    return false;
}

/* Names of those that are possible in one and not in other. */
static const char *only_in(pdl__page_t *page, const pdl__document_t *one, const pdl__document_t *other)
{
    const char *names = "";

    for (const pdl_json_value_t *c = pdl_json_first(one->head, "candidates"); c != NULL; c = c->next) {
        const char *strategy = pdl__page_or(pdl_json_text_of(c, "strategy"), "?");

        if (pdl_json_true(c, "feasible") && !is_possible(other, strategy))
            names = pdl__page_print(page, "%s%s%s", names, *names != '\0' ? ", " : "", strategy);
    }
    return names;
}

static void say_only(pdl__page_t *page, const pdl__document_t *one, const pdl__document_t *other)
{
    const char *names = only_in(page, one, other);

    if (*names != '\0') pdl__page_say(page, "Possible only in %s: %s.", one->name, names);
}

/* The best of two plans part by part. */
static void compare_plans(pdl__page_t *page, const pdl__document_t *base, const pdl__document_t *other)
{
    const pdl_column_t      columns[] = {{"part", PDL_LEFT},
                                         {base->name, PDL_RIGHT},
                                         {other->name, PDL_RIGHT},
                                         {"difference", PDL_RIGHT}};
    const pdl_json_value_t *best[2] = {pdl_json_first(base->head, "candidates"),
                                       pdl_json_first(other->head, "candidates")};
    change_t                changes[PDL__PLAN_PARTS];
    int                     count = 0;
    char                    text[PDL_FORMAT_SIZE];

    for (int p = 0; p < PDL__PLAN_PARTS; p++) {
        const pdl__plan_part_t *part = &pdl__plan_times[p];

        changes[count] =
            (change_t){part->name, pdl_json_number_of(best[0], part->key), pdl_json_number_of(best[1], part->key)};
        count += changes[count].before > 0 || changes[count].after > 0;
    }
    if (count == 0) return;
    qsort(changes, (size_t)count, sizeof(*changes), larger_first);
    pdl__page_section(page, "%s beside %s: %s differs most", other->name, base->name, changes[0].name);
    pdl__page_table(page, "Parts of an iteration of the best strategy, the largest difference first", columns, 4);
    for (int i = 0; i < count; i++) {
        double change = change_of(&changes[i]);

        pdl__page_row(page);
        pdl__page_cell(page, "%s", changes[i].name);
        pdl__page_seconds(page, changes[i].before);
        pdl__page_seconds(page, changes[i].after);
        pdl__page_cell(page, "%s%s",
                       change > 0   ? "+"
                       : change < 0 ? "-"
                                    : "",
                       pdl_format_seconds(fabs(change), text));
    }
    pdl__page_table_end(page);
    say_only(page, base, other);
    say_only(page, other, base);
}

static void compare_all_plans(pdl__page_t *page, const pdl_documents_t *documents)
{
    const pdl__document_t *base = NULL;

    for (int i = 0; i < documents->count; i++) {
        const pdl__document_t *d = &documents->item[i];

        if (strcmp(d->kind, "plan-result") != 0) continue;
        if (base != NULL) compare_plans(page, base, d);
        if (base == NULL) base = d;
    }
    pdl__page_section_end(page);
}

/* Documents of other models are compared all the same, and said to be. */
static bool same_models(const pdl_documents_t *documents)
{
    const char *first = NULL;

    for (int i = 0; i < documents->count; i++) {
        const char *model = pdl_json_text_of(documents->item[i].head, "model");

        if (model == NULL) continue;
        if (first != NULL && strcmp(first, model) != 0) return false;
        first = model;
    }
    return true;
}

void pdl__page_compare(pdl__page_t *page, const pdl_documents_t *documents)
{
    int   comparable = 0;
    row_t row;

    for (int i = 0; i < documents->count; i++) comparable += summarise(page, &documents->item[i], &row);
    if (comparable < 2) return;
    pdl__page_heading(page, "%d documents side by side", comparable);
    if (!same_models(documents)) pdl__page_say(page, "The documents are about different models.");
    list_times(page, documents);
    draw_scaling(page, documents);
    draw_losses(page, documents);
    compare_all_plans(page, documents);
}
