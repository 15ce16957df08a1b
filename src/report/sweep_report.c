/*
 * A sweep over sizes or hosts: the times of all algorithms side by side, as a table and as a drawing.
 */
#include "report/chart/chart.h"
#include "report/sim_report.h"

#include <paradl/report/table.h>

#include <stdlib.h>

#define MAX_ALGORITHMS 64

static double position(const pdl_sim_sweep_t *sweep, int point)
{
    const pdl_sim_case_t *asked = sweep->points[point].asked;

    return sweep->over_hosts ? (double)pdl_topology_hosts(asked->topology) : (double)asked->bytes;
}

/* 0: the algorithm does not support the point. */
static double time_of(const pdl_sim_sweep_t *sweep, int point, int algorithm)
{
    const pdl_sim_verdict_t *v = pdl__find_verdict(&sweep->points[point], sweep->algorithms[algorithm]);

    return v != NULL && v->possible ? v->result.time_s : 0;
}

/* The bound belongs to the case and is in every verdict that is possible. */
static double bound_of(const pdl_sim_sweep_t *sweep, int point)
{
    const pdl_sim_report_t *report = &sweep->points[point];

    return report->count > 0 && report->verdicts[0].possible ? report->verdicts[0].bound_s : 0;
}

static bool ever_possible(const pdl_sim_sweep_t *sweep, int algorithm)
{
    for (int p = 0; p < sweep->point_count; p++)
        if (time_of(sweep, p, algorithm) > 0) return true;
    return false;
}

static void print_heading(const pdl_sim_sweep_t *sweep, FILE *stream)
{
    const pdl_sim_case_t *asked = sweep->points[0].asked;
    char                  text[PDL_FORMAT_SIZE];

    fprintf(stream, "%s on %s", pdl_collective_names[asked->collective], pdl_topology_name(asked->topology));
    if (sweep->over_hosts)
        fprintf(stream, ", %s", pdl_format_bytes((double)asked->bytes, text));
    else
        fprintf(stream, ", %s hosts: %s", pdl_format_count(pdl_topology_hosts(asked->topology), text),
                pdl_topology_description(asked->topology));
    fprintf(stream, ", engine %s\n\n", pdl_engine_names[asked->options.engine]);
}

static void add_point(pdl_table_t *table, const pdl_sim_sweep_t *sweep, int point, const int *shown, int count)
{
    const pdl_sim_verdict_t *best = &sweep->points[point].verdicts[0];
    char                     text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    if (sweep->over_hosts)
        pdl_table_cell(table, "%s", pdl_format_count((int64_t)position(sweep, point), text));
    else
        pdl_table_cell(table, "%s", pdl_format_bytes(position(sweep, point), text));
    pdl_table_cell(table, "%s", pdl_format_seconds(bound_of(sweep, point), text));
    for (int a = 0; a < count; a++) {
        double time_s = time_of(sweep, point, shown[a]);

        pdl_table_cell(table, "%s", time_s > 0 ? pdl_format_seconds(time_s, text) : "-");
    }
    if (best->possible)
        pdl_table_cell(table, "%s (%.2f x bound, %s)", best->algorithm, best->ratio,
                       pdl_sim_part_names[best->limit]);
}

pdl_status_t pdl_report_sweep(const pdl_sim_sweep_t *sweep, FILE *stream)
{
    pdl_column_t columns[MAX_ALGORITHMS + 3] = {{sweep->over_hosts ? "hosts" : "bytes", PDL_RIGHT},
                                                {"bound", PDL_RIGHT}};
    int          shown[MAX_ALGORITHMS], count = 0;
    pdl_table_t *table;
    pdl_status_t status;

    for (int a = 0; a < sweep->algorithm_count && count < MAX_ALGORITHMS; a++)
        if (ever_possible(sweep, a)) shown[count++] = a;
    for (int a = 0; a < count; a++) columns[a + 2] = (pdl_column_t){sweep->algorithms[shown[a]], PDL_RIGHT};
    columns[count + 2] = (pdl_column_t){"best", PDL_LEFT};
    print_heading(sweep, stream);
    table = pdl_table_create(columns, count + 3);
    for (int p = 0; p < sweep->point_count; p++) add_point(table, sweep, p, shown, count);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static char *format_hosts(double value, char buffer[PDL_FORMAT_SIZE])
{
    return pdl_format_count((int64_t)(value + 0.5), buffer);
}

/* How a drawing is wanted: as SVG or with characters. */
typedef struct plot_form {
    FILE *stream;
    bool  text;
} plot_form_t;

/* Describes the drawing and writes it; `numbers` has room for x and all series. */
static pdl_status_t draw(const pdl_sim_sweep_t *sweep, double *numbers, const plot_form_t *form)
{
    const pdl_sim_case_t *asked = sweep->points[0].asked;
    int                   points = sweep->point_count, count = 0;
    pdl__series_t         series[MAX_ALGORITHMS + 1];
    char                  title[200], text[PDL_FORMAT_SIZE];
    const char           *name;
    pdl__chart_t          chart = {.title = title,
                                   .x = {.label = sweep->over_hosts ? "hosts" : "bytes of every rank",
                                         .scale = PDL__SCALE_LOG2,
                                         .format = sweep->over_hosts ? format_hosts : pdl_format_bytes},
                                   .y = {.label = "time", .scale = PDL__SCALE_LOG10, .format = pdl_format_seconds},
                                   .series = series};

    for (int p = 0; p < points; p++) numbers[p] = position(sweep, p);
    for (int a = 0; a <= sweep->algorithm_count && count <= MAX_ALGORITHMS; a++) {
        bool    bound = a == sweep->algorithm_count;
        double *y = numbers + (size_t)(count + 1) * (size_t)points;

        if (bound ? sweep->networks : !ever_possible(sweep, a)) continue;
        for (int p = 0; p < points; p++) y[p] = bound ? bound_of(sweep, p) : time_of(sweep, p, a);
        series[count++] = (pdl__series_t){.name = bound ? "lower bound" : sweep->algorithms[a],
                                          .mark = PDL__MARK_LINE,
                                          .x = numbers,
                                          .y = y,
                                          .count = points,
                                          .faint = bound};
    }
    chart.series_count = count;
    name = sweep->networks ? "several networks" : pdl_topology_name(asked->topology);
    if (sweep->over_hosts)
        snprintf(title, sizeof(title), "%s of %s on %.60s", pdl_collective_names[asked->collective],
                 pdl_format_bytes((double)asked->bytes, text), name);
    else
        snprintf(title, sizeof(title), "%s on %s hosts of %.60s", pdl_collective_names[asked->collective],
                 pdl_format_count(pdl_topology_hosts(asked->topology), text), name);
    return form->text ? pdl__chart_terminal(&chart, form->stream) : pdl__chart_svg(&chart, true, form->stream);
}

static pdl_status_t plot(const pdl_sim_sweep_t *sweep, const plot_form_t *form)
{
    double      *numbers = calloc((size_t)(MAX_ALGORITHMS + 2) * (size_t)sweep->point_count + 1, sizeof(*numbers));
    pdl_status_t status;

    if (numbers == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a drawing");
    status = draw(sweep, numbers, form);
    free(numbers);
    return status;
}

pdl_status_t pdl_report_sweep_svg(const pdl_sim_sweep_t *sweep, FILE *stream)
{
    return plot(sweep, &(plot_form_t){.stream = stream});
}

pdl_status_t pdl_report_sweep_text(const pdl_sim_sweep_t *sweep, FILE *stream)
{
    return plot(sweep, &(plot_form_t){.stream = stream, .text = true});
}
