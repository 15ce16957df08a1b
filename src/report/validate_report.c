/*
 * How far projections are from measured runs.
 */
#include "report/csv_field.h"

#include <paradl/base/document.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct grouping {
    pdl_row_key_t key;
    const char   *name;
} grouping_t;

static const grouping_t groupings[] = {{PDL_BY_SOURCE, "source"},
                                       {PDL_BY_STRATEGY, "strategy"},
                                       {PDL_BY_MODEL, "model"},
                                       {PDL_BY_QUANTITY, "quantity"}};
#define GROUPINGS ((int)(sizeof(groupings) / sizeof(groupings[0])))

static const char *const left_out[] = {
    [PDL_LEAVE_PE] = "number of devices", [PDL_LEAVE_PAIR] = "model and strategy"};
#define LEFT_OUT ((int)(sizeof(left_out) / sizeof(left_out[0])))

static const char *key_of(const pdl_measured_row_t *row, pdl_row_key_t key)
{
    switch (key) {
    case PDL_BY_SOURCE: return row->source;
    case PDL_BY_STRATEGY: return row->strategy;
    case PDL_BY_MODEL: return row->model;
    default: return row->quantity;
    }
}

/* No earlier row has this value of the key, and at least this one is expressed: a group starts here. */
static bool starts_group(const pdl_validation_t *validation, size_t at, pdl_row_key_t key)
{
    const pdl_measured_row_t *row = pdl_validation_row(validation, at);

    if (!row->expressed) return false;
    for (size_t i = 0; i < at; i++) {
        const pdl_measured_row_t *earlier = pdl_validation_row(validation, i);

        if (earlier->expressed && strcmp(key_of(earlier, key), key_of(row, key)) == 0) return false;
    }
    return true;
}

static void add_accuracy(pdl_table_t *table, const char *group, const char *name, const pdl_accuracy_t *a)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", group);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%d", a->rows);
    pdl_table_cell(table, "%.4f", a->mean);
    pdl_table_cell(table, "%.4f", a->minimum);
    pdl_table_cell(table, "%.1f %%", 100 * a->above_90);
    pdl_table_cell(table, "%.1f %%", 100 * a->covered);
}

static void add_groups(pdl_table_t *table, const pdl_validation_t *validation, const grouping_t *grouping)
{
    bool first = true;

    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const char    *value = key_of(pdl_validation_row(validation, i), grouping->key);
        pdl_accuracy_t accuracy;

        if (!starts_group(validation, i, grouping->key)) continue;
        accuracy = pdl_validation_accuracy(validation, grouping->key, value, NULL, false);
        add_accuracy(table, first ? grouping->name : "", value, &accuracy);
        first = false;
    }
}

static pdl_status_t print_accuracy(const pdl_validation_t *validation, FILE *stream)
{
    static const pdl_column_t columns[] = {{"by", PDL_LEFT},          {"", PDL_LEFT},
                                           {"rows", PDL_RIGHT},       {"mean", PDL_RIGHT},
                                           {"minimum", PDL_RIGHT},    {"above 0.9", PDL_RIGHT},
                                           {"in interval", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_accuracy_t            all = pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, NULL, false);
    pdl_accuracy_t            core = pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, NULL, true);
    pdl_status_t              status;

    for (int g = 0; g < GROUPINGS; g++) add_groups(table, validation, &groupings[g]);
    add_accuracy(table, "all rows", "", &all);
    add_accuracy(table, "core rows", "", &core);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void print_ranking(const pdl_validation_t *validation, FILE *stream)
{
    pdl_ranking_t ranking = pdl_validation_ranking(validation);

    if (ranking.pairs > 0)
        fprintf(stream,
                "\nranking: %d of %d pairs of strategies are in the measured order (%.1f %%); %d more are ties\n",
                ranking.right, ranking.pairs, 100 * ranking.share, ranking.ties);
}

/* The row at `at` is the first that cannot be expressed for its reason; *count is how many there are. */
static bool starts_reason(const pdl_validation_t *validation, size_t at, int *count)
{
    const pdl_measured_row_t *row = pdl_validation_row(validation, at);

    if (row->expressed) return false;
    *count = 0;
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const pdl_measured_row_t *other = pdl_validation_row(validation, i);

        if (other->expressed || strcmp(other->reason, row->reason) != 0) continue;
        if (i < at) return false;
        (*count)++;
    }
    return true;
}

static void print_unexpressed(const pdl_validation_t *validation, FILE *stream)
{
    size_t total = pdl_validation_count(validation);
    int    missing = 0, count;

    for (size_t i = 0; i < total; i++) missing += !pdl_validation_row(validation, i)->expressed;
    fprintf(stream, "\n%zu rows, %zu of them expressed, %d not%s\n", total, total - (size_t)missing, missing,
            missing > 0 ? ":" : "");
    for (size_t i = 0; i < total; i++) {
        const char *reason = pdl_validation_row(validation, i)->reason;

        if (!starts_reason(validation, i, &count)) continue;
        fprintf(stream, "  %d x %s\n", count, reason);
        for (size_t j = i; j < total; j++) {
            const pdl_measured_row_t *row = pdl_validation_row(validation, j);

            if (!row->expressed && strcmp(row->reason, reason) == 0) fprintf(stream, "      %s\n", row->id);
        }
    }
}

static void print_cross(const pdl_cross_validation_t *cross, int count, FILE *stream)
{
    assert(cross == NULL || count <= LEFT_OUT);
    for (int i = 0; cross != NULL && i < count; i++)
        fprintf(
            stream,
            "\nleaving out each %s (%d folds): compute %.4f, communication %.4f, total %.4f, in interval %.1f %%, "
            "ranking %.1f %%\n",
            left_out[i], cross[i].folds, cross[i].compute, cross[i].comm, cross[i].total, 100 * cross[i].covered,
            100 * cross[i].ranking);
}

pdl_status_t pdl_report_validation(const pdl_validation_t *validation, const char *parameters,
                                   const pdl_cross_validation_t *cross, int cross_count, FILE *stream)
{
    pdl_status_t status;

    fprintf(stream, "accuracy: 1 - |projected - measured| / measured, parameters %s\n\n", parameters);
    status = print_accuracy(validation, stream);
    if (status) return status;
    print_ranking(validation, stream);
    print_cross(cross, cross_count, stream);
    print_unexpressed(validation, stream);
    return PDL_OK;
}

static void write_accuracy(pdl_json_t *json, const char *key, const char *value, const pdl_accuracy_t *a)
{
    pdl_json_open(json, key, '{');
    if (value != NULL) pdl_json_string(json, "value", value);
    pdl_json_int(json, "rows", a->rows);
    pdl_json_number(json, "mean", a->mean);
    pdl_json_number(json, "minimum", a->minimum);
    pdl_json_number(json, "above_90", a->above_90);
    pdl_json_number(json, "covered", a->covered);
    pdl_json_close(json);
}

static void write_groups(pdl_json_t *json, const pdl_validation_t *validation, const grouping_t *grouping)
{
    pdl_json_open(json, grouping->name, '[');
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const char    *value = key_of(pdl_validation_row(validation, i), grouping->key);
        pdl_accuracy_t accuracy;

        if (!starts_group(validation, i, grouping->key)) continue;
        accuracy = pdl_validation_accuracy(validation, grouping->key, value, NULL, false);
        write_accuracy(json, NULL, value, &accuracy);
    }
    pdl_json_close(json);
}

static void write_rows(pdl_json_t *json, const pdl_validation_t *validation)
{
    pdl_json_open(json, "rows", '[');
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const pdl_measured_row_t *row = pdl_validation_row(validation, i);
        double                    known = row->expressed ? 1 : NAN;

        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "id", row->id);
        pdl_json_string(json, "source", row->source);
        pdl_json_string(json, "model", row->model);
        pdl_json_string(json, "strategy", row->strategy);
        pdl_json_int(json, "devices", row->pe);
        pdl_json_string(json, "quantity", row->quantity);
        pdl_json_number(json, "measured", row->measured_s);
        pdl_json_number(json, "projected", row->projected_s * known);
        pdl_json_number(json, "low", row->low_s * known);
        pdl_json_number(json, "high", row->high_s * known);
        pdl_json_string(json, "reason", row->expressed ? NULL : row->reason);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

static void write_unexpressed(pdl_json_t *json, const pdl_validation_t *validation)
{
    pdl_json_open(json, "not_expressed", '[');
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const pdl_measured_row_t *row = pdl_validation_row(validation, i);

        if (row->expressed) continue;
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "id", row->id);
        pdl_json_string(json, "reason", row->reason);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

static void write_cross(pdl_json_t *json, const pdl_cross_validation_t *cross, int count)
{
    if (cross == NULL) return;
    assert(count <= LEFT_OUT);
    pdl_json_open(json, "cross_validation", '[');
    for (int i = 0; i < count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "left_out", left_out[i]);
        pdl_json_int(json, "folds", cross[i].folds);
        pdl_json_number(json, "compute", cross[i].compute);
        pdl_json_number(json, "comm", cross[i].comm);
        pdl_json_number(json, "total", cross[i].total);
        pdl_json_number(json, "covered", cross[i].covered);
        pdl_json_number(json, "ranking", cross[i].ranking);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

pdl_status_t pdl_report_validation_json(const pdl_validation_t *validation, const char *parameters,
                                        const pdl_cross_validation_t *cross, int cross_count, FILE *stream)
{
    pdl_accuracy_t all = pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, NULL, false);
    pdl_accuracy_t core = pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, NULL, true);
    pdl_json_t     json;
    pdl_ranking_t  ranking = pdl_validation_ranking(validation);

    pdl_document_begin(&json, stream, "validation/1");
    pdl_json_string(&json, "parameters", parameters);
    pdl_json_int(&json, "row_count", (int64_t)pdl_validation_count(validation));
    write_accuracy(&json, "all", NULL, &all);
    write_accuracy(&json, "core", NULL, &core);
    for (int g = 0; g < GROUPINGS; g++) write_groups(&json, validation, &groupings[g]);
    pdl_json_open(&json, "ranking", '{');
    pdl_json_number(&json, "share", ranking.pairs > 0 ? ranking.share : NAN);
    pdl_json_int(&json, "pairs", ranking.pairs);
    pdl_json_int(&json, "ties", ranking.ties);
    pdl_json_close(&json);
    write_cross(&json, cross, cross_count);
    write_unexpressed(&json, validation);
    write_rows(&json, validation);
    pdl_json_close(&json);
    return PDL_OK;
}

void pdl__write_csv_field(const char *text, FILE *stream)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if (*text == '"') fputc('"', stream);
        fputc(*text, stream);
    }
    fputc('"', stream);
}

pdl_status_t pdl_report_predictions(const pdl_validation_t *validation, FILE *stream)
{
    fputs("id,seconds,low,high\n", stream);
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const pdl_measured_row_t *row = pdl_validation_row(validation, i);

        if (!row->expressed) continue;
        pdl__write_csv_field(row->id, stream);
        fprintf(stream, ",%.9g,%.9g,%.9g\n", row->projected_s, row->low_s, row->high_s);
    }
    return PDL_OK;
}
