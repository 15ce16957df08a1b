/*
 * The page of a validation: accuracy by group, projected over measured, the worst rows, and what is not expressed.
 */
#include "report/page/page.h"

#include <paradl/base/units.h>

#include <math.h>

#define WORST 20

static const char *const groups[] = {"source", "strategy", "model", "quantity"};

static void accuracy_row(pdl__page_t *page, const char *by, const char *value, const pdl_json_value_t *a)
{
    pdl__page_row(page);
    pdl__page_cell(page, "%s", value);
    pdl__page_cell(page, "%s", by);
    pdl__page_cell(page, "%.0f", pdl_json_number_of(a, "rows"));
    pdl__page_percent(page, pdl_json_number_of(a, "mean"));
    pdl__page_percent(page, pdl_json_number_of(a, "minimum"));
    pdl__page_percent(page, pdl_json_number_of(a, "covered"));
}

static void accuracy(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"group", PDL_LEFT},  {"by", PDL_LEFT},
                                           {"rows", PDL_RIGHT},  {"mean", PDL_RIGHT},
                                           {"least", PDL_RIGHT}, {"in the interval", PDL_RIGHT}};

    pdl__page_section(page, "Accuracy by source, strategy and model");
    pdl__page_table(page, "Accuracy: 1 - |projected - measured| / measured", columns, 6);
    accuracy_row(page, "", "all rows", pdl_json_get(head, "all"));
    accuracy_row(page, "", "core rows", pdl_json_get(head, "core"));
    for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++)
        for (const pdl_json_value_t *v = pdl_json_first(head, groups[g]); v != NULL; v = v->next)
            accuracy_row(page, groups[g], pdl__page_or(pdl_json_text_of(v, "value"), "?"), v);
    pdl__page_table_end(page);
}

static void scatter(pdl__page_t *page, const pdl_json_value_t *head)
{
    const pdl_json_value_t *list = pdl_json_get(head, "rows");
    int                     count = list != NULL ? list->count : 0;
    double                 *x = pdl__page_column(page, pdl_json_first(head, "rows"), "measured", count);
    double                 *y = pdl__page_column(page, pdl_json_first(head, "rows"), "projected", count);
    double                 *low = pdl__page_column(page, pdl_json_first(head, "rows"), "low", count);
    double                 *high = pdl__page_column(page, pdl_json_first(head, "rows"), "high", count);
    double                  ends[2] = {INFINITY, 0}, band[4][2];
    pdl__series_t           series[] = {
                  {.name = "interval", .mark = PDL__MARK_INTERVAL, .x = x, .y = y, .low = low, .high = high, .count = count},
                  {.name = "rows", .mark = PDL__MARK_POINT, .x = x, .y = y, .count = count},
                  {.name = "equal", .mark = PDL__MARK_LINE, .x = ends, .y = ends, .count = 2, .faint = true},
                  {.name = "+25 %", .mark = PDL__MARK_LINE, .x = ends, .y = band[0], .count = 2, .faint = true},
                  {.name = "+10 %", .mark = PDL__MARK_LINE, .x = ends, .y = band[1], .count = 2, .faint = true},
                  {.name = "-10 %", .mark = PDL__MARK_LINE, .x = ends, .y = band[2], .count = 2, .faint = true},
                  {.name = "-25 %", .mark = PDL__MARK_LINE, .x = ends, .y = band[3], .count = 2, .faint = true}};
    static const double shares[] = {1.25, 1.1, 0.9, 0.75};
    pdl__chart_t        chart = {.title = "projected over measured",
                                 .x = {.label = "measured", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds},
                                 .y = {.label = "projected", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds},
                                 .series = series,
                                 .series_count = 7};

    if (x == NULL || y == NULL || low == NULL || high == NULL) return;
    for (int i = 0; i < count; i++)
        if (x[i] > 0) {
            ends[0] = fmin(ends[0], x[i]);
            ends[1] = fmax(ends[1], x[i]);
        }
    for (int b = 0; b < 4; b++)
        for (int i = 0; i < 2; i++) band[b][i] = shares[b] * ends[i];
    pdl__page_section(page, "Projected over measured: %.1f %% of the rows are in their 90 %% interval",
                      100 * pdl_json_number_of(head, "all.covered"));
    pdl__page_chart(page, &chart,
                    "A point on the middle line is projected as it was measured; whiskers are 90 % intervals.");
}

static char *format_error(double value, char text[PDL_FORMAT_SIZE])
{
    snprintf(text, PDL_FORMAT_SIZE, "%+.0f %%", 100 * value);
    return text;
}

/* Whether errors grow with the machine. */
static void residuals(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const double     zero = 0;
    const pdl_json_value_t *list = pdl_json_get(head, "rows");
    int                     count = list != NULL ? list->count : 0;
    double                 *x = pdl__page_column(page, pdl_json_first(head, "rows"), "devices", count);
    double                 *y = pdl__page_column(page, pdl_json_first(head, "rows"), "projected", count);
    double                 *measured = pdl__page_column(page, pdl_json_first(head, "rows"), "measured", count);
    pdl__series_t           series[] = {{.name = "rows", .mark = PDL__MARK_POINT, .x = x, .y = y, .count = count},
                                        {.name = "equal", .mark = PDL__MARK_RULE, .x = &zero, .y = &zero, .count = 1}};
    pdl__chart_t            chart = {.title = "error over devices",
                                     .x = {.label = "devices", .scale = PDL__SCALE_LOG2},
                                     .y = {.label = "projected to measured", .format = format_error},
                                     .series = series,
                                     .series_count = 2};
    int                     above = 0, below = 0;

    if (x == NULL || y == NULL || measured == NULL || count == 0) return;
    for (int i = 0; i < count; i++) {
        y[i] = measured[i] > 0 ? y[i] / measured[i] - 1 : (double)NAN;
        above += y[i] > 0;
        below += y[i] < 0;
    }
    pdl__page_section(page, "Error over devices: %d rows are projected too long, %d too short", above, below);
    pdl__page_chart(page, &chart, "Points above the line are projected too long, those below too short.");
}

static double error_of(const pdl_json_value_t *row)
{
    double measured = pdl_json_number_of(row, "measured");

    return measured > 0 ? fabs(pdl_json_number_of(row, "projected") - measured) / measured : (double)NAN;
}

static void worst(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"row", PDL_LEFT},        {"model", PDL_LEFT},
                                           {"strategy", PDL_LEFT},   {"devices", PDL_RIGHT},
                                           {"quantity", PDL_LEFT},   {"measured", PDL_RIGHT},
                                           {"projected", PDL_RIGHT}, {"error", PDL_RIGHT}};
    int                       count;
    pdl__ranked_t            *ranked = pdl__page_rank(page, pdl_json_first(head, "rows"), error_of, &count);

    if (count == 0) return;
    pdl__page_section(page, "The worst rows: %s is off by %.0f %%",
                      pdl__page_or(pdl_json_text_of(ranked[0].value, "id"), "?"), 100 * ranked[0].score);
    pdl__page_table(page, "Rows with the largest error first", columns, 8);
    for (int i = 0; i < count && i < WORST; i++) {
        const pdl_json_value_t *r = ranked[i].value;

        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "id"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "model"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "strategy"), "?"));
        pdl__page_cell(page, "%.0f", pdl_json_number_of(r, "devices"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "quantity"), "?"));
        pdl__page_seconds(page, pdl_json_number_of(r, "measured"));
        pdl__page_seconds(page, pdl_json_number_of(r, "projected"));
        pdl__page_percent(page, ranked[i].score);
    }
    pdl__page_table_end(page);
}

static void not_expressed(pdl__page_t *page, const pdl_json_value_t *head)
{
    static const pdl_column_t columns[] = {{"row", PDL_LEFT}, {"why", PDL_LEFT}};
    const pdl_json_value_t   *list = pdl_json_get(head, "not_expressed");

    if (list == NULL || list->count == 0) return;
    pdl__page_section(page, "%d rows are not expressed", list->count);
    pdl__page_table(page, "Rows that the oracle cannot express", columns, 2);
    for (const pdl_json_value_t *r = pdl_json_first(head, "not_expressed"); r != NULL; r = r->next) {
        pdl__page_row(page);
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "id"), "?"));
        pdl__page_cell(page, "%s", pdl__page_or(pdl_json_text_of(r, "reason"), "?"));
    }
    pdl__page_table_end(page);
}

void pdl__page_validation(pdl__page_t *page, const pdl__document_t *validation)
{
    const pdl_json_value_t *head = validation->head, *all = pdl_json_get(head, "all");

    pdl__page_heading(page, "Validation with parameters %s",
                      pdl__page_or(pdl_json_text_of(head, "parameters"), "?"));
    pdl__page_answer(
        page, "%.0f rows are projected with a mean accuracy of %.1f %%; %.1f %% are in their 90 %% interval.",
        pdl_json_number_of(all, "rows"), 100 * pdl_json_number_of(all, "mean"),
        100 * pdl_json_number_of(all, "covered"));
    accuracy(page, head);
    scatter(page, head);
    residuals(page, head);
    worst(page, head);
    not_expressed(page, head);
}
