/*
 * How far projections are from steps and operations that were measured on one device.
 */
#include "report/csv_field.h"

#include <paradl/base/document.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <math.h>
#include <string.h>

static bool starts_group(const pdl_device_runs_t *runs, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(pdl_device_runs_row(runs, i)->group, pdl_device_runs_row(runs, at)->group) == 0) return false;
    return true;
}

static void share_cell(pdl_table_t *table, int rows, double share)
{
    if (rows > 0)
        pdl_table_cell(table, "%.1f %%", 100 * share);
    else
        pdl_table_cell(table, "-");
}

static void add_score(pdl_table_t *table, const char *group, const pdl_device_score_t *s)
{
    pdl_table_row(table, group != NULL ? PDL_ROW_PLAIN : PDL_ROW_STRONG);
    pdl_table_cell(table, "%s", group != NULL ? group : "all rows");
    pdl_table_cell(table, "%d", s->rows);
    pdl_table_cell(table, "%d", s->expressed);
    share_cell(table, s->timed, s->error);
    if (s->timed > 0)
        pdl_table_cell(table, "%+.3f", s->bias);
    else
        pdl_table_cell(table, "-");
    share_cell(table, s->timed, s->covered);
    share_cell(table, s->memory_rows, s->memory_error);
}

static void print_unexpressed(const pdl_device_runs_t *runs, FILE *stream)
{
    for (size_t i = 0; i < pdl_device_runs_count(runs); i++) {
        const pdl_device_row_t *row = pdl_device_runs_row(runs, i);

        if (!row->expressed) fprintf(stream, "not expressed: %s: %s\n", row->name, row->reason);
    }
}

pdl_status_t pdl_report_device(const pdl_device_runs_t *runs, FILE *stream)
{
    const pdl_column_t columns[] = {{pdl_device_runs_operations(runs) ? "operation" : "model", PDL_LEFT},
                                    {"rows", PDL_RIGHT},
                                    {"expressed", PDL_RIGHT},
                                    {"time error", PDL_RIGHT},
                                    {"mean ln", PDL_RIGHT},
                                    {"in interval", PDL_RIGHT},
                                    {"memory error", PDL_RIGHT}};
    pdl_table_t       *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_device_score_t score;
    pdl_status_t       status;

    fputs("error: |projected - measured| / measured\n\n", stream);
    for (size_t i = 0; i < pdl_device_runs_count(runs); i++) {
        const char *group = pdl_device_runs_row(runs, i)->group;

        if (!starts_group(runs, i)) continue;
        score = pdl_device_runs_score(runs, group);
        add_score(table, group, &score);
    }
    score = pdl_device_runs_score(runs, NULL);
    add_score(table, NULL, &score);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (status) return status;
    if (score.timed > 0) fprintf(stream, "\n90 %% intervals: a factor of %.2f on average\n", exp(score.width));
    if (score.oom_rows + score.false_oom > 0)
        fprintf(stream, "out of memory: %d of %d found, %d runs that worked projected not to fit\n",
                score.oom_found, score.oom_rows, score.false_oom);
    print_unexpressed(runs, stream);
    return PDL_OK;
}

static void write_score(pdl_json_t *json, const char *key, const char *group, const pdl_device_score_t *s)
{
    pdl_json_open(json, key, '{');
    if (group != NULL) pdl_json_string(json, "group", group);
    pdl_json_int(json, "rows", s->rows);
    pdl_json_int(json, "expressed", s->expressed);
    pdl_json_number(json, "time_error", s->timed > 0 ? s->error : NAN);
    pdl_json_number(json, "bias", s->timed > 0 ? s->bias : NAN);
    pdl_json_number(json, "covered", s->timed > 0 ? s->covered : NAN);
    pdl_json_number(json, "width", s->timed > 0 ? s->width : NAN);
    pdl_json_number(json, "memory_error", s->memory_rows > 0 ? s->memory_error : NAN);
    pdl_json_close(json);
}

pdl_status_t pdl_report_device_json(const pdl_device_runs_t *runs, FILE *stream)
{
    pdl_device_score_t score = pdl_device_runs_score(runs, NULL);
    pdl_json_t         json;

    pdl_document_begin(&json, stream, "device-validation/1");
    write_score(&json, "all", NULL, &score);
    pdl_json_open(&json, "groups", '[');
    for (size_t i = 0; i < pdl_device_runs_count(runs); i++) {
        const char *group = pdl_device_runs_row(runs, i)->group;

        if (!starts_group(runs, i)) continue;
        score = pdl_device_runs_score(runs, group);
        write_score(&json, NULL, group, &score);
    }
    pdl_json_close(&json);
    pdl_json_open(&json, "not_expressed", '[');
    for (size_t i = 0; i < pdl_device_runs_count(runs); i++) {
        const pdl_device_row_t *row = pdl_device_runs_row(runs, i);

        if (row->expressed) continue;
        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "name", row->name);
        pdl_json_string(&json, "reason", row->reason);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

pdl_status_t pdl_report_device_predictions(const pdl_device_runs_t *runs, FILE *stream)
{
    fputs("row,name,seconds,low,high,bytes,outcome\n", stream);
    for (size_t i = 0; i < pdl_device_runs_count(runs); i++) {
        const pdl_device_row_t *row = pdl_device_runs_row(runs, i);

        if (!row->expressed) continue;
        fprintf(stream, "%zu,", row->line + 1);
        pdl__write_csv_field(row->name, stream);
        fprintf(stream, ",%.9g,%.9g,%.9g,%.0f,%s\n", row->projected_s, row->low_s, row->high_s,
                row->projected_bytes, row->projected_oom ? "oom" : "ok");
    }
    return PDL_OK;
}
