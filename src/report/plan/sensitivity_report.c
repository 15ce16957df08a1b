/*
 * What every hardware number is worth to the best plan.
 */
#include "report/plan/sensitivity_report.h"

#include <paradl/base/units.h>
#include <paradl/report/table.h>

#include <math.h>

static char *format_value(pdl_unit_t unit, double value, char text[PDL_FORMAT_SIZE])
{
    switch (unit) {
    case PDL_UNIT_FLOP_RATE: return pdl_format_flop_rate(value, text);
    case PDL_UNIT_BYTE_RATE: return pdl_format_byte_rate(value, text);
    case PDL_UNIT_SECONDS: return pdl_format_seconds(value, text);
    default: return pdl_format_short(value, text);
    }
}

static double upgraded(const pdl_sensitivity_row_t *row)
{
    return row->smaller ? row->value / row->factor : row->value * row->factor;
}

static void add_row(pdl_table_t *table, const pdl_sensitivity_row_t *row)
{
    char text[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "  %s", row->name);
    pdl_table_cell(table, "%s", format_value(row->unit, row->value, text));
    pdl_table_cell(table, "%.2f %%", fmax(row->elasticity, 0));
    if (row->factor > 0)
        pdl_table_cell(table, "%s (x %.2f)", format_value(row->unit, upgraded(row), text), row->factor);
    else
        pdl_table_cell(table, "-");
}

/* Where one number decides, it binds; where none does, several share the time. */
static void print_binding(const pdl_plan_report_t *report, FILE *stream)
{
    const pdl_sensitivity_t     *s = report->sensitivity;
    const pdl_sensitivity_row_t *first = &s->row[0];
    double                       now = report->search->candidates[0].projection.total_s;
    char                         text[PDL_FORMAT_SIZE];

    if (first->elasticity >= 0.5)
        fprintf(stream, "binding: %s; 1 %% more of it makes a step %.2f %% shorter.\n", first->name,
                first->elasticity);
    else
        fprintf(stream, "binding: no single number; %s matters most, %.2f %% for 1 %%.\n", first->name,
                first->elasticity);
    if (s->memory_s > 0 && s->memory_s < 0.98 * now)
        fprintf(stream, "memory binds too: with twice as much a device, %s would take %s, %.0f %% less.\n",
                s->memory_plan, pdl_format_seconds(s->memory_s, text), 100 * (1 - s->memory_s / now));
    else if (s->memory_s > 0)
        fputs("memory does not bind: twice as much a device gains less than 2 %.\n", stream);
}

static void print_upgrade(const pdl_sensitivity_t *s, FILE *stream)
{
    const pdl_sensitivity_row_t *row = &s->row[s->cheapest];
    char                         now[PDL_FORMAT_SIZE], then[PDL_FORMAT_SIZE];

    if (s->cheapest < 0) {
        fprintf(stream, "no single upgrade up to 64 times makes a step %.0f %% shorter.\n", 100 * PDL_UPGRADE_GAIN);
        return;
    }
    fprintf(stream, "cheapest single upgrade for a step %.0f %% shorter: %s, from %s to %s (x %.2f).\n",
            100 * PDL_UPGRADE_GAIN, row->name, format_value(row->unit, row->value, now),
            format_value(row->unit, upgraded(row), then), row->factor);
}

pdl_status_t pdl__report_sensitivity(const pdl_plan_report_t *report, FILE *stream)
{
    static const pdl_column_t columns[] = {{"  hardware number", PDL_LEFT},
                                           {"is", PDL_RIGHT},
                                           {"1 % better: a step is shorter by", PDL_RIGHT},
                                           {"10 % shorter with", PDL_RIGHT}};
    const pdl_sensitivity_t  *s = report->sensitivity;
    pdl_table_t              *table;
    pdl_status_t              status;

    if (s == NULL || s->count == 0) return PDL_OK;
    fputc('\n', stream);
    print_binding(report, stream);
    table = pdl_table_create(columns, 4);
    for (int i = 0; i < s->count; i++) add_row(table, &s->row[i]);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    print_upgrade(s, stream);
    if (s->measured)
        fputs("Times that were measured on this machine do not follow its numbers: what rests on them shows no "
              "effect.\n",
              stream);
    return status;
}

static const char *unit_of(pdl_unit_t unit)
{
    return unit == PDL_UNIT_FLOP_RATE   ? "FLOP/s"
           : unit == PDL_UNIT_BYTE_RATE ? "B/s"
           : unit == PDL_UNIT_SECONDS   ? "s"
                                        : "";
}

void pdl__report_sensitivity_json(pdl_json_t *json, const pdl_plan_report_t *report)
{
    const pdl_sensitivity_t *s = report->sensitivity;

    if (s == NULL) return;
    pdl_json_open(json, "sensitivity", '[');
    for (int i = 0; i < s->count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", s->row[i].name);
        pdl_json_number(json, "value", s->row[i].value);
        pdl_json_string(json, "unit", unit_of(s->row[i].unit));
        pdl_json_number(json, "elasticity", s->row[i].elasticity);
        pdl_json_number(json, "factor", s->row[i].factor > 0 ? s->row[i].factor : (double)NAN);
        pdl_json_number(json, "upgraded", s->row[i].factor > 0 ? upgraded(&s->row[i]) : (double)NAN);
        pdl_json_close(json);
    }
    pdl_json_close(json);
    pdl_json_string(json, "binding", s->count > 0 && s->row[0].elasticity >= 0.5 ? s->row[0].name : NULL);
    pdl_json_string(json, "cheapest_upgrade", s->cheapest >= 0 ? s->row[s->cheapest].name : NULL);
    pdl_json_number(json, "twice_the_memory_s", s->memory_s > 0 ? s->memory_s : (double)NAN);
}
