/*
 * The page of plan --devices A..B: how fast the best plan is on more and more devices, and where another strategy becomes the best.
 */
#include "report/page/page.h"

#include <math.h>
#include <string.h>

static char *format_devices(double value, char buffer[PDL_FORMAT_SIZE])
{
    return pdl_format_count((int64_t)(value + 0.5), buffer);
}

static const char *strategy_of(const pdl_json_value_t *point)
{
    return pdl__page_or(pdl_json_text_of(point, "best.strategy"), "none");
}

static void draw(pdl__page_t *page, const pdl_json_value_t *points, int count)
{
    double *devices = pdl__page_column(page, points, "devices", count);
    double *rate = pdl__page_column(page, points, "best.samples_per_s", count);
    double *ideal = pdl__page_column(page, points, "efficiency", count);

    if (page->status) return;
    for (int i = 0; i < count; i++) ideal[i] = ideal[i] > 0 ? rate[i] / ideal[i] : (double)NAN;
    const pdl__series_t series[] = {
        {.name = "projected", .mark = PDL__MARK_LINE, .x = devices, .y = rate, .count = count},
        {.name = "ideal", .mark = PDL__MARK_LINE, .x = devices, .y = ideal, .count = count, .faint = true}};
    pdl__chart_t chart = {.title = "samples per second over devices",
                          .x = {.label = "devices", .scale = PDL__SCALE_LOG2, .format = format_devices},
                          .y = {.label = "samples/s", .scale = PDL__SCALE_LOG10, .format = pdl_format_short},
                          .series = series,
                          .series_count = 2};

    pdl__page_chart(page, &chart, "The faint line is as many times the first rate as there are times the devices.");
}

static void list_points(pdl__page_t *page, const pdl_json_value_t *points)
{
    static const pdl_column_t columns[] = {{"devices", PDL_RIGHT},   {"best", PDL_LEFT},
                                           {"batch", PDL_RIGHT},     {"iteration", PDL_RIGHT},
                                           {"samples/s", PDL_RIGHT}, {"efficiency", PDL_RIGHT},
                                           {"memory", PDL_RIGHT}};
    char                      text[PDL_FORMAT_SIZE];

    pdl__page_table(page, "The best plan at every number of devices", columns, 7);
    for (const pdl_json_value_t *p = points; p != NULL; p = p->next) {
        double rate = pdl_json_number_of(p, "best.samples_per_s"), batch = pdl_json_number_of(p, "best.batch");

        pdl__page_row(page);
        pdl__page_cell(page, "%.0f", pdl_json_number_of(p, "devices"));
        pdl__page_cell(page, "%s", strategy_of(p));
        pdl__page_cell(page, "%s", batch > 0 ? pdl__page_print(page, "%.0f", batch) : "-");
        pdl__page_seconds(page, pdl_json_number_of(p, "best.total_s"));
        pdl__page_cell(page, "%s", isfinite(rate) ? pdl_format_short(rate, text) : "-");
        pdl__page_percent(page, pdl_json_number_of(p, "efficiency"));
        pdl__page_bytes(page, pdl_json_number_of(p, "best.memory_bytes"));
    }
    pdl__page_table_end(page);
}

void pdl__page_scaling(pdl__page_t *page, const pdl__document_t *scaling)
{
    const pdl_json_value_t *points = pdl_json_first(scaling->head, "points"), *last = NULL;
    const char             *changes = "";
    int                     count = 0;

    for (const pdl_json_value_t *p = points; p != NULL; p = p->next) {
        if (last != NULL && strcmp(strategy_of(last), strategy_of(p)) != 0)
            changes = pdl__page_print(page, "%s %s from %.0f devices on.", changes, strategy_of(p),
                                      pdl_json_number_of(p, "devices"));
        last = p;
        count++;
    }
    pdl__page_heading(page, "Scaling: %s on %s", pdl__page_or(pdl_json_text_of(scaling->head, "model"), "?"),
                      pdl__page_or(pdl_json_text_of(scaling->head, "system"), "?"));
    if (last == NULL) return;
    if (isfinite(pdl_json_number_of(last, "efficiency")))
        pdl__page_answer(page, "On %.0f devices the efficiency is %.0f %%; %s is best on %.0f.%s",
                         pdl_json_number_of(last, "devices"), 100 * pdl_json_number_of(last, "efficiency"),
                         strategy_of(points), pdl_json_number_of(points, "devices"), changes);
    pdl__page_section(page, "Rate over devices, %s scaling",
                      pdl__page_or(pdl_json_text_of(scaling->head, "scaling"), "weak"));
    draw(page, points, count);
    list_points(page, points);
}
