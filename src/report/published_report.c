/*
 * How far projections are from published runs.
 */
#include "report/csv_field.h"

#include <paradl/base/document.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <math.h>
#include <string.h>

static bool starts_source(const pdl_published_t *runs, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (strcmp(pdl_published_row(runs, i)->source, pdl_published_row(runs, at)->source) == 0) return false;
    return true;
}

static void add_score(pdl_table_t *table, const char *name, const pdl_published_score_t *s)
{
    pdl_table_row(table, s->source ? PDL_ROW_PLAIN : PDL_ROW_STRONG);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%d", s->rows);
    pdl_table_cell(table, "%d", s->expressed);
    if (s->timed > 0) {
        pdl_table_cell(table, "%.1f %%", 100 * s->error);
        pdl_table_cell(table, "%+.3f", s->bias);
        pdl_table_cell(table, "%.0f %%", 100 * s->covered);
    } else {
        for (int i = 0; i < 3; i++) pdl_table_cell(table, "-");
    }
    if (s->memory_rows > 0)
        pdl_table_cell(table, "%.1f %%", 100 * s->memory_error);
    else
        pdl_table_cell(table, "-");
    if (s->oom_rows > 0)
        pdl_table_cell(table, "%d of %d", s->oom_found, s->oom_rows);
    else
        pdl_table_cell(table, "-");
    pdl_table_cell(table, "%d", s->false_oom);
}

static pdl_status_t print_scores(const pdl_published_t *runs, FILE *stream)
{
    static const pdl_column_t columns[] = {{"source", PDL_LEFT},        {"rows", PDL_RIGHT},
                                           {"expressed", PDL_RIGHT},    {"time error", PDL_RIGHT},
                                           {"mean ln", PDL_RIGHT},      {"in interval", PDL_RIGHT},
                                           {"memory error", PDL_RIGHT}, {"oom found", PDL_RIGHT},
                                           {"false oom", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_published_score_t     score;
    pdl_status_t              status;

    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const char *source = pdl_published_row(runs, i)->source;

        if (!starts_source(runs, i)) continue;
        score = pdl_published_score(runs, source);
        add_score(table, source, &score);
    }
    score = pdl_published_score(runs, NULL);
    add_score(table, "all rows", &score);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static int rows_of_reason(const pdl_published_t *runs, size_t at)
{
    const pdl_published_row_t *row = pdl_published_row(runs, at);
    int                        count = 0;

    if (row->expressed) return 0;
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *other = pdl_published_row(runs, i);

        if (other->expressed || strcmp(other->reason, row->reason) != 0) continue;
        if (i < at) return 0;
        count++;
    }
    return count;
}

static void print_unexpressed(const pdl_published_t *runs, FILE *stream)
{
    pdl_published_score_t all = pdl_published_score(runs, NULL);

    fprintf(stream, "\n%d rows, %d of them expressed, %d not%s\n", all.rows, all.expressed,
            all.rows - all.expressed, all.rows > all.expressed ? ":" : "");
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const char *reason = pdl_published_row(runs, i)->reason;
        int         count = rows_of_reason(runs, i);

        if (count == 0) continue;
        fprintf(stream, "  %d x %s\n", count, reason);
        for (size_t j = i; j < pdl_published_count(runs); j++) {
            const pdl_published_row_t *row = pdl_published_row(runs, j);

            if (!row->expressed && strcmp(row->reason, reason) == 0) fprintf(stream, "      %s\n", row->id);
        }
    }
}

static void print_contradictions(const pdl_published_t *runs, FILE *stream)
{
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *row = pdl_published_row(runs, i);

        if (row->contradicts)
            fprintf(stream, "  not scored, as it contradicts itself: %s: %s\n", row->id, row->reason);
    }
}

pdl_status_t pdl_report_published(const pdl_published_t *runs, const char *parameters,
                                  const pdl_published_cross_t *cross, FILE *stream)
{
    pdl_published_summary_t s = pdl_published_summary(runs);
    pdl_status_t            status;

    fprintf(stream, "error: |projected - measured| / measured, parameters %s\n\n", parameters);
    status = print_scores(runs, stream);
    if (status) return status;
    fprintf(stream, "\nmean over %d sources: time %.1f %%, memory %.1f %%\n", s.sources, 100 * s.source_mean,
            100 * s.memory_mean);
    if (cross != NULL)
        fprintf(stream,
                "the same, left out of the fit in turn: groups of equal source, model and devices %.1f %%, sources "
                "%.1f %%\n",
                100 * cross->groups, 100 * cross->sources);
    if (s.sources > 0)
        fprintf(stream, "90 %% intervals, mean over sources: %.1f %% of the times in them, a factor of %.2f\n",
                100 * s.covered_mean, exp(s.width_mean));
    if (s.groups > 0)
        fprintf(stream, "rank correlation inside %d groups of equal source, model and devices: %.3f\n", s.groups,
                s.rank_correlation);
    print_unexpressed(runs, stream);
    print_contradictions(runs, stream);
    return PDL_OK;
}

static void write_score(pdl_json_t *json, const char *key, const pdl_published_score_t *s)
{
    pdl_json_open(json, key, '{');
    if (s->source != NULL) pdl_json_string(json, "source", s->source);
    pdl_json_int(json, "rows", s->rows);
    pdl_json_int(json, "expressed", s->expressed);
    pdl_json_int(json, "timed", s->timed);
    pdl_json_number(json, "time_error", s->timed > 0 ? s->error : NAN);
    pdl_json_number(json, "bias", s->timed > 0 ? s->bias : NAN);
    pdl_json_number(json, "covered", s->timed > 0 ? s->covered : NAN);
    pdl_json_number(json, "interval_width", s->timed > 0 ? s->width : NAN);
    pdl_json_int(json, "memory_rows", s->memory_rows);
    pdl_json_number(json, "memory_error", s->memory_rows > 0 ? s->memory_error : NAN);
    pdl_json_int(json, "oom_rows", s->oom_rows);
    pdl_json_int(json, "oom_found", s->oom_found);
    pdl_json_int(json, "false_oom", s->false_oom);
    pdl_json_close(json);
}

static void write_rows(pdl_json_t *json, const pdl_published_t *runs)
{
    pdl_json_open(json, "rows", '[');
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *row = pdl_published_row(runs, i);

        if (!row->expressed) continue;
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "id", row->id);
        pdl_json_string(json, "source", row->source);
        pdl_json_string(json, "model", row->model);
        pdl_json_int(json, "devices", row->devices);
        pdl_json_number(json, "measured", row->measured_s > 0 ? row->measured_s : NAN);
        pdl_json_number(json, "projected", row->projected_s);
        pdl_json_number(json, "low", row->low_s);
        pdl_json_number(json, "high", row->high_s);
        pdl_json_number(json, "measured_memory_bytes", row->measured_gb > 0 ? 1e9 * row->measured_gb : NAN);
        pdl_json_number(json, "projected_memory_bytes", 1e9 * row->projected_gb);
        pdl_json_bool(json, "ran_out_of_memory", row->measured_oom);
        pdl_json_bool(json, "fits", !row->projected_oom);
        pdl_json_bool(json, "scored", !row->contradicts);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

pdl_status_t pdl_report_published_json(const pdl_published_t *runs, const char *parameters,
                                       const pdl_published_cross_t *cross, FILE *stream)
{
    pdl_published_summary_t s = pdl_published_summary(runs);
    pdl_published_score_t   score = pdl_published_score(runs, NULL);
    pdl_json_t              json;

    pdl_document_begin(&json, stream, "published/1");
    pdl_json_string(&json, "parameters", parameters);
    write_score(&json, "all", &score);
    pdl_json_open(&json, "sources", '[');
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        if (!starts_source(runs, i)) continue;
        score = pdl_published_score(runs, pdl_published_row(runs, i)->source);
        write_score(&json, NULL, &score);
    }
    pdl_json_close(&json);
    pdl_json_number(&json, "source_mean", s.sources > 0 ? s.source_mean : NAN);
    pdl_json_number(&json, "memory_mean", s.memory_mean);
    pdl_json_number(&json, "covered_mean", s.sources > 0 ? s.covered_mean : NAN);
    pdl_json_number(&json, "interval_width_mean", s.sources > 0 ? s.width_mean : NAN);
    pdl_json_int(&json, "groups", s.groups);
    pdl_json_number(&json, "rank_correlation", s.groups > 0 ? s.rank_correlation : NAN);
    if (cross != NULL) pdl_json_number(&json, "left_out", cross->sources);
    if (cross != NULL) pdl_json_number(&json, "groups_left_out", cross->groups);
    write_rows(&json, runs);
    pdl_json_open(&json, "not_expressed", '[');
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *row = pdl_published_row(runs, i);

        if (row->expressed) continue;
        pdl_json_open(&json, NULL, '{');
        pdl_json_string(&json, "id", row->id);
        pdl_json_string(&json, "reason", row->reason);
        pdl_json_close(&json);
    }
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}

pdl_status_t pdl_report_published_predictions(const pdl_published_t *runs, FILE *stream)
{
    fputs("run_id,iter_time_s,low,high,mem_gb,outcome\n", stream);
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *row = pdl_published_row(runs, i);

        if (!row->expressed) continue;
        pdl__write_csv_field(row->id, stream);
        fprintf(stream, ",%.9g,%.9g,%.9g,%.6g,%s\n", row->projected_s, row->low_s, row->high_s, row->projected_gb,
                row->projected_oom ? "oom" : "ok");
    }
    return PDL_OK;
}
