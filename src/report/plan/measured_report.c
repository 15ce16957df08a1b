/*
 * A measured run beside the projection of the best plan.
 */
#include "report/plan/measured_report.h"
#include "report/plan/plan_cells.h"

#include <paradl/base/units.h>
#include <paradl/report/table.h>

#include <math.h>

static const char *format(double seconds, char text[PDL_FORMAT_SIZE])
{
    return isnan(seconds) ? "-" : pdl_format_seconds(fmax(seconds, 0), text);
}

/* With its sign: what was lost, or gained. */
static void add_difference(pdl_table_t *table, double difference, double whole)
{
    char text[PDL_FORMAT_SIZE];

    if (isnan(difference)) {
        pdl_table_cell(table, "-");
        return;
    }
    pdl_table_cell(table, "%s%s (%+.0f %%)", difference < 0 ? "-" : "+", pdl_format_seconds(fabs(difference), text),
                   100 * difference / whole);
}

static void add_row(pdl_table_t *table, const char *name, double projected, double measured, double whole)
{
    char text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "  %s", name);
    pdl_table_cell(table, "%s", format(projected, text));
    pdl_table_cell(table, "%s", format(measured, text));
    add_difference(table, measured - projected, whole);
}

/* What to look at: parts that lost more than a hundredth of the iteration. */
static void print_advice(const pdl_difference_t *d, double whole, FILE *stream)
{
    char text[PDL_FORMAT_SIZE];

    for (int i = 0; i < d->count; i++) {
        double lost = d->row[i].measured - d->row[i].projected;

        if (!(lost > 0.01 * whole)) continue;
        fprintf(stream, "%s: %s more than projected. Look at %s.\n", d->row[i].name, pdl_format_seconds(lost, text),
                d->row[i].advice);
    }
    if (d->missing[0] != '\0')
        fprintf(stream, "The source does not say %s: a profiler's trace tells these apart.\n", d->missing);
}

pdl_status_t pdl__report_measured(const pdl_plan_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT},
                                           {"projected", PDL_RIGHT},
                                           {"measured", PDL_RIGHT},
                                           {"difference", PDL_RIGHT}};
    const pdl_measured_run_t *run = report->measured;
    const pdl_projection_t   *p = &report->search->candidates[0].projection;
    pdl_difference_t          d;
    pdl_table_t              *table;
    pdl_status_t              status;
    char                      text[PDL_FORMAT_SIZE], other[PDL_FORMAT_SIZE], mesh[PDL__CELL_SIZE];

    if (run == NULL) return PDL_OK;
    pdl_measured_compare(run, p, &d);
    fprintf(stream, "\nmeasured: %s, beside %s (%s)\n", run->source,
            report->search->candidates[0].config.strategy->name,
            pdl__cell_mesh(&report->search->candidates[0].config, mesh));
    table = pdl_table_create(columns, 4);
    add_row(table, "iteration", p->total_s, run->iteration_s, p->total_s);
    for (int i = 0; i < d.count; i++)
        add_row(table, d.row[i].name, d.row[i].projected, d.row[i].measured, p->total_s);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (!isnan(run->memory_bytes))
        fprintf(stream, "  memory of a device: %s projected, %s measured\n",
                pdl_format_bytes(p->memory_bytes, text), pdl_format_bytes(run->memory_bytes, other));
    fprintf(stream, d.within ? "The iteration is inside the 90 %% interval.\n"
                             : "The iteration is outside the 90 %% interval.\n");
    print_advice(&d, p->total_s, stream);
    if (run->iteration_s > p->total_s && (report->framework == NULL || *report->framework == '\0'))
        fputs("No framework was named: --framework projects what yours adds to an ideal one.\n", stream);
    return status;
}

void pdl__report_measured_json(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_measured_run_t *run = report->measured;
    pdl_difference_t          d;

    if (run == NULL || report->search->possible == 0) return;
    pdl_measured_compare(run, &report->search->candidates[0].projection, &d);
    pdl_json_open(json, "measured", '{');
    pdl_json_string(json, "source", run->source);
    pdl_json_int(json, "iterations", run->iterations);
    pdl_json_number(json, "iteration_s", run->iteration_s);
    pdl_json_bool(json, "within_interval", d.within);
    pdl_json_bytes(json, "memory_bytes", run->memory_bytes);
    pdl_json_open(json, "parts", '[');
    for (int i = 0; i < d.count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", d.row[i].name);
        pdl_json_number(json, "projected_s", d.row[i].projected);
        pdl_json_number(json, "measured_s", d.row[i].measured);
        pdl_json_string(json, "advice", d.row[i].advice);
        pdl_json_close(json);
    }
    pdl_json_close(json);
    pdl_json_string(json, "missing", d.missing[0] != '\0' ? d.missing : NULL);
    pdl_json_close(json);
}
