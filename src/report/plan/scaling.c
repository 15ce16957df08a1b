/*
 * The best plan at every number of devices of a sweep.
 */
#include "report/chart/chart.h"
#include "report/plan/ownership_report.h"
#include "report/plan/plan_cells.h"
#include "report/plan/plan_rates.h"

#include <paradl/base/document.h>
#include <paradl/report/scaling.h>
#include <paradl/report/table.h>

#include <math.h>

#define MOST_POINTS  64
#define MOST_COLUMNS 14

static const pdl_candidate_t *best_of(const pdl_scaling_t *scaling, int point)
{
    const pdl_search_t *search = scaling->points[point].search;

    return search->possible > 0 ? &search->candidates[0] : NULL;
}

static bool has_tokens(const pdl_scaling_t *scaling)
{
    return pdl__sample_tokens(scaling->points[0].model) > 0;
}

static double devices_of(const pdl_scaling_t *scaling, int point)
{
    return (double)scaling->points[point].request->pe;
}

double pdl_scaling_rate(const pdl_scaling_t *scaling, int point)
{
    const pdl_candidate_t *best = best_of(scaling, point);
    pdl__rates_t           rates;

    if (best == NULL) return 0;
    rates = pdl__plan_rates(&scaling->points[point], best);
    return has_tokens(scaling) ? rates.tokens_per_s : rates.samples_per_s;
}

double pdl_scaling_efficiency(const pdl_scaling_t *scaling, int point)
{
    int first = 0;

    while (first < point && pdl_scaling_rate(scaling, first) <= 0) first++;
    if (pdl_scaling_rate(scaling, point) <= 0) return 0;
    return pdl_scaling_rate(scaling, point) / devices_of(scaling, point) * devices_of(scaling, first) /
           pdl_scaling_rate(scaling, first);
}

/* The whole training, and what it costs: money, or device hours where the price is not known. */
static void add_ownership(pdl_table_t *table, const pdl_ownership_t *o)
{
    char number[PDL_FORMAT_SIZE];

    pdl_table_cell(table, "%s", pdl__ownership_time(o, number));
    pdl_table_cell(table, isnan(o->goodput) ? "-" : "%.1f %%", 100 * o->goodput);
    pdl_table_cell(table, "%s", pdl_format_short(isnan(o->cost) ? o->device_hours : o->cost, number));
}

static bool has_ownership(const pdl_scaling_t *scaling)
{
    for (int p = 0; p < scaling->count; p++)
        if (scaling->points[p].ownership != NULL) return true;
    return false;
}

static void add_point(pdl_table_t *table, const pdl_scaling_t *scaling, int point)
{
    const pdl_candidate_t *best = best_of(scaling, point);
    const pdl_search_t    *search = scaling->points[point].search;
    char                   text[PDL__CELL_SIZE], number[PDL_FORMAT_SIZE];

    pdl_table_row(table, best != NULL ? PDL_ROW_PLAIN : PDL_ROW_FAINT);
    pdl_table_cell(table, "%s", pdl_format_count(scaling->points[point].request->pe, number));
    if (best == NULL) {
        pdl_table_span(table, "not possible: %s", search->count > 0 ? search->candidates[0].reason : "no strategy");
        return;
    }
    pdl_table_cell(table, "%s", best->config.strategy->name);
    if (search->precision_count > 0) pdl_table_cell(table, "%s", pdl_precision_names[best->config.precision]);
    pdl_table_cell(table, "%s", pdl__cell_mesh(&best->config, text));
    pdl_table_cell(table, "%s", pdl_format_count(best->config.batch, number));
    pdl_table_cell(table, "%s", pdl_format_seconds(best->projection.total_s, number));
    pdl_table_cell(table, "%s", pdl__cell_interval(&best->projection, text));
    pdl_table_cell(table, "%s", pdl_format_short(pdl_scaling_rate(scaling, point), number));
    pdl_table_cell(table, "%.0f %%", 100 * pdl_scaling_efficiency(scaling, point));
    pdl_table_cell(table, "%s", pdl_format_bytes(best->projection.memory_bytes, number));
    if (scaling->points[point].ownership != NULL) add_ownership(table, scaling->points[point].ownership);
    pdl_table_cell(table, "%s", pdl__cell_limit(&best->projection, text));
}

static int make_columns(const pdl_scaling_t *scaling, pdl_column_t columns[MOST_COLUMNS])
{
    bool priced = scaling->points[0].system->cost_per_pe_hour > 0;
    int  count = 0;

    columns[count++] = (pdl_column_t){"devices", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"best", PDL_LEFT};
    if (scaling->points[0].search->precision_count > 0) columns[count++] = (pdl_column_t){"precision", PDL_LEFT};
    columns[count++] = (pdl_column_t){"mesh", PDL_LEFT};
    columns[count++] = (pdl_column_t){"batch", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"iteration", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"", PDL_LEFT};
    columns[count++] = (pdl_column_t){has_tokens(scaling) ? "tokens/s" : "samples/s", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"efficiency", PDL_RIGHT};
    columns[count++] = (pdl_column_t){"memory/device", PDL_RIGHT};
    if (has_ownership(scaling)) {
        columns[count++] = (pdl_column_t){"training", PDL_RIGHT};
        columns[count++] = (pdl_column_t){"goodput", PDL_RIGHT};
        columns[count++] = (pdl_column_t){priced ? "cost" : "device hours", PDL_RIGHT};
    }
    columns[count++] = (pdl_column_t){"limited by", PDL_LEFT};
    return count;
}

/* What was not looked at. */
static void print_not_certified(const pdl_scaling_t *scaling, FILE *stream)
{
    char devices[PDL_FORMAT_SIZE];

    for (int p = 0; p < scaling->count; p++) {
        const pdl_search_t *search = scaling->points[p].search;

        if (search->certified || search->not_certified[0] == '\0') continue;
        fprintf(stream, "not certified on %s device%s: %s.\n",
                pdl_format_count(scaling->points[p].request->pe, devices),
                scaling->points[p].request->pe == 1 ? "" : "s", search->not_certified);
    }
}

pdl_status_t pdl_report_scaling(const pdl_scaling_t *scaling, FILE *stream)
{
    pdl_column_t columns[MOST_COLUMNS];
    pdl_table_t *table = pdl_table_create(columns, make_columns(scaling, columns));
    pdl_status_t status;

    fprintf(stream, "%s on %s, %s%s%s\n\n", scaling->points[0].model_name, scaling->points[0].system->name,
            scaling->fixed_batch ? "the same batch on all devices (strong scaling)"
                                 : "a batch that grows with the devices (weak scaling)",
            has_ownership(scaling) ? ", trained on " : "",
            has_ownership(scaling) ? scaling->points[0].training : "");
    for (int p = 0; p < scaling->count; p++) add_point(table, scaling, p);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (!status) pdl__precisions_left_out(scaling->points[0].search, stream);
    if (!status) print_not_certified(scaling, stream);
    return status;
}

/* What curves of all strategies need; one whose best plan is that of another has no curve of its own. */
static void write_strategies(pdl_json_t *json, const pdl_plan_report_t *point)
{
    pdl_json_open(json, "strategies", '[');
    for (int i = 0; i < point->search->count; i++) {
        const pdl_candidate_t *c = &point->search->candidates[i];

        if (c->same_as != NULL) continue;
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "strategy", c->config.strategy->name);
        pdl_json_bool(json, "feasible", c->possible);
        if (c->possible) {
            pdl_json_number(json, "total_s", c->projection.total_s);
            pdl_json_number(json, "samples_per_s", pdl__plan_rates(point, c).samples_per_s);
            pdl_json_bytes(json, "memory_bytes", c->projection.memory_bytes);
        } else {
            pdl_json_string(json, "reason", c->reason);
        }
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

pdl_status_t pdl_report_scaling_json(const pdl_scaling_t *scaling, FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "scaling/1");
    pdl_json_string(&json, "model", scaling->points[0].model_name);
    pdl_json_string(&json, "system", scaling->points[0].system->name);
    pdl_json_string(&json, "scaling", scaling->fixed_batch ? "strong" : "weak");
    pdl_json_open(&json, "points", '[');
    for (int p = 0; p < scaling->count; p++) {
        const pdl_candidate_t *best = best_of(scaling, p);

        pdl_json_open(&json, NULL, '{');
        pdl_json_int(&json, "devices", scaling->points[p].request->pe);
        pdl_json_bool(&json, "feasible", best != NULL);
        pdl_json_number(&json, "efficiency", best != NULL ? pdl_scaling_efficiency(scaling, p) : (double)NAN);
        if (best != NULL) pdl__candidate_json(&json, "best", &scaling->points[p], best, 1);
        pdl_json_bool(&json, "certified", scaling->points[p].search->certified);
        pdl_json_string(&json, "not_certified",
                        scaling->points[p].search->certified ? NULL : scaling->points[p].search->not_certified);
        pdl__precisions_json(&json, &scaling->points[p]);
        write_strategies(&json, &scaling->points[p]);
        pdl__report_ownership_json(&json, &scaling->points[p]);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

static char *format_devices(double value, char buffer[PDL_FORMAT_SIZE])
{
    return pdl_format_count((int64_t)(value + 0.5), buffer);
}

static pdl_status_t draw(const pdl_scaling_t *scaling, bool text, FILE *stream)
{
    double              devices[MOST_POINTS], rate[MOST_POINTS], ideal[MOST_POINTS];
    int                 count = scaling->count < MOST_POINTS ? scaling->count : MOST_POINTS;
    char                title[200];
    const pdl__series_t series[] = {
        {.name = "projected", .mark = PDL__MARK_LINE, .x = devices, .y = rate, .count = count},
        {.name = "ideal", .mark = PDL__MARK_LINE, .x = devices, .y = ideal, .count = count, .faint = true}};
    pdl__chart_t chart = {.title = title,
                          .x = {.label = "devices", .scale = PDL__SCALE_LOG2, .format = format_devices},
                          .y = {.label = has_tokens(scaling) ? "tokens/s" : "samples/s",
                                .scale = PDL__SCALE_LOG10,
                                .format = pdl_format_short},
                          .series = series,
                          .series_count = 2};

    snprintf(title, sizeof(title), "%.80s on %.60s", scaling->points[0].model_name,
             scaling->points[0].system->name);
    for (int p = 0; p < count; p++) {
        double efficiency = pdl_scaling_efficiency(scaling, p);

        devices[p] = devices_of(scaling, p);
        rate[p] = efficiency > 0 ? pdl_scaling_rate(scaling, p) : NAN;
        ideal[p] = rate[p] / efficiency;
    }
    return text ? pdl__chart_terminal(&chart, stream) : pdl__chart_svg(&chart, true, stream);
}

pdl_status_t pdl_report_scaling_svg(const pdl_scaling_t *scaling, FILE *stream)
{
    return draw(scaling, false, stream);
}

pdl_status_t pdl_report_scaling_text(const pdl_scaling_t *scaling, FILE *stream)
{
    return draw(scaling, true, stream);
}
