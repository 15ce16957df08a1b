/*
 * How far prices are from collectives that were measured inside nodes.
 */
#include "report/csv_field.h"

#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <math.h>
#include <string.h>

/* Whether no earlier row has this accelerator and, where `same` says so, this number of devices. */
static bool is_first(const pdl_measured_collectives_t *table, size_t at, bool same_devices)
{
    const pdl_collective_row_t *row = pdl_measured_collectives_row(table, at);

    for (size_t i = 0; i < at; i++) {
        const pdl_collective_row_t *other = pdl_measured_collectives_row(table, i);

        if (strcmp(other->accelerator, row->accelerator) == 0 && (!same_devices || other->devices == row->devices))
            return false;
    }
    return true;
}

static void add_score(pdl_table_t *table, const char *name, int devices, const pdl_collective_score_t *s)
{
    pdl_table_row(table, devices > 0 ? PDL_ROW_PLAIN : PDL_ROW_STRONG);
    pdl_table_cell(table, "%s", name);
    if (devices > 0)
        pdl_table_cell(table, "%d", devices);
    else
        pdl_table_cell(table, "all");
    pdl_table_cell(table, "%d", s->rows);
    pdl_table_cell(table, "%.1f %%", 100 * s->error);
    pdl_table_cell(table, "%+.3f", s->bias);
    if (s->unseen_rows > 0)
        pdl_table_cell(table, "%.1f %%", 100 * s->unseen_error);
    else
        pdl_table_cell(table, "-");
}

static void add_scores(pdl_table_t *table, const pdl_measured_collectives_t *rows)
{
    pdl_collective_score_t score;

    for (size_t i = 0; i < pdl_measured_collectives_count(rows); i++) {
        const pdl_collective_row_t *row = pdl_measured_collectives_row(rows, i);

        if (is_first(rows, i, false)) {
            score = pdl_measured_collectives_score(rows, row->accelerator, 0);
            add_score(table, row->accelerator, 0, &score);
        }
        if (!is_first(rows, i, true)) continue;
        score = pdl_measured_collectives_score(rows, row->accelerator, row->devices);
        add_score(table, "", row->devices, &score);
    }
    score = pdl_measured_collectives_score(rows, NULL, 0);
    add_score(table, "all rows", 0, &score);
}

/* As the key of a system file. */
static pdl_status_t print_fits(const pdl_measured_collectives_t *rows, FILE *stream)
{
    for (size_t i = 0; i < pdl_measured_collectives_count(rows); i++) {
        const pdl_collective_row_t *row = pdl_measured_collectives_row(rows, i);
        pdl_fabric_t                fabric;
        pdl_status_t                status;

        if (!is_first(rows, i, false)) continue;
        status = pdl_measured_collectives_fit(rows, i, &fabric);
        if (status) return status;
        fprintf(stream,
                "\n%s, fitted to all rows (system %s, with its links):\nfabric: {startup: %.3gus, step: %.3gus",
                row->accelerator, row->system, 1e6 * fabric.value[PDL_FABRIC_STARTUP],
                1e6 * fabric.value[PDL_FABRIC_STEP]);
        if (fabric.value[PDL_FABRIC_LINK] > 0)
            fprintf(stream, ", link: %.4gGB/s", 1e-9 / fabric.value[PDL_FABRIC_LINK]);
        if (fabric.value[PDL_FABRIC_PASS] > 0)
            fprintf(stream, ", pass: %.4gGB/s", 1e-9 / fabric.value[PDL_FABRIC_PASS]);
        fputs("}\n", stream);
    }
    return PDL_OK;
}

pdl_status_t pdl_report_collectives(const pdl_measured_collectives_t *rows, bool fit, FILE *stream)
{
    static const pdl_column_t columns[] = {{"accelerator", PDL_LEFT}, {"devices", PDL_RIGHT},
                                           {"rows", PDL_RIGHT},       {"time error", PDL_RIGHT},
                                           {"mean ln", PDL_RIGHT},    {"devices left out", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    fputs("allreduce inside a node; error: |projected - measured| / measured, with the values of the system file, "
          "and of a fit\n"
          "to the other numbers of devices\n\n",
          stream);
    add_scores(table, rows);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status || !fit ? status : print_fits(rows, stream);
}

static void write_score(pdl_json_t *json, const char *key, const pdl_collective_row_t *row, bool devices,
                        const pdl_collective_score_t *s)
{
    pdl_json_open(json, key, '{');
    if (row != NULL) pdl_json_string(json, "accelerator", row->accelerator);
    if (devices) pdl_json_int(json, "devices", row->devices);
    pdl_json_int(json, "rows", s->rows);
    pdl_json_number(json, "time_error", s->rows > 0 ? s->error : NAN);
    pdl_json_number(json, "bias", s->rows > 0 ? s->bias : NAN);
    pdl_json_number(json, "left_out_error", s->unseen_rows > 0 ? s->unseen_error : NAN);
    pdl_json_close(json);
}

pdl_status_t pdl_report_collectives_json(const pdl_measured_collectives_t *rows, FILE *stream)
{
    pdl_collective_score_t score = pdl_measured_collectives_score(rows, NULL, 0);
    pdl_json_t             json;

    pdl_document_begin(&json, stream, "collective-validation/1");
    write_score(&json, "all", NULL, false, &score);
    pdl_json_open(&json, "groups", '[');
    for (size_t i = 0; i < pdl_measured_collectives_count(rows); i++) {
        const pdl_collective_row_t *row = pdl_measured_collectives_row(rows, i);

        if (!is_first(rows, i, true)) continue;
        score = pdl_measured_collectives_score(rows, row->accelerator, row->devices);
        write_score(&json, NULL, row, true, &score);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

pdl_status_t pdl_report_collectives_predictions(const pdl_measured_collectives_t *rows, FILE *stream)
{
    fputs("row,accelerator,devices,bytes,seconds,seconds_left_out\n", stream);
    for (size_t i = 0; i < pdl_measured_collectives_count(rows); i++) {
        const pdl_collective_row_t *row = pdl_measured_collectives_row(rows, i);

        fprintf(stream, "%zu,", i + 1);
        pdl__write_csv_field(row->accelerator, stream);
        fprintf(stream, ",%d,%.0f,%.9g,%.9g\n", row->devices, row->bytes, row->projected_s, row->unseen_s);
    }
    return PDL_OK;
}
