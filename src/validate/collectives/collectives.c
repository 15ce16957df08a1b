/*
 * Tables of measured collectives: reading, pricing, scores.
 */
#include "validate/collectives/collectives.h"

#include <paradl/base/csv.h>
#include <paradl/base/share.h>
#include <paradl/base/yaml.h>
#include <paradl/oracle/oracle.h>
#include <paradl/oracle/prices.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SYSTEMS 32

struct pdl_measured_collectives {
    pdl_csv_t            *csv;
    pdl_yaml_doc_t       *doc; /* rules */
    const pdl_system_t   *system[MOST_SYSTEMS];
    const char           *accelerator[MOST_SYSTEMS];
    int                   systems;
    pdl_collective_row_t *row;
    size_t                count;
};

static pdl_status_t read_rules(const char *name, pdl_measured_collectives_t *table)
{
    static const char *const extensions[] = {".yaml", NULL};
    static const char *const keys[] = {"paradl", "name", "description", "systems", NULL};
    const pdl_yaml_t        *root, *systems;
    char                     path[4096];
    pdl_status_t             status = pdl_share_find("experiments", name, extensions, path, sizeof(path));

    if (!status) status = pdl_yaml_read_file(path, &table->doc);
    if (status) return status;
    root = pdl_yaml_root(table->doc);
    status = pdl_yaml_check_format(root, "collectives");
    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (status) return status;
    systems = pdl_yaml_find(root, "systems");
    if (systems == NULL) return pdl_yaml_error(root, "expected the map \"systems\"");
    status = pdl_yaml_expect(systems, PDL_YAML_MAPPING, "a system for every accelerator");
    for (size_t i = 0; i < pdl_yaml_size(systems) && i < MOST_SYSTEMS && !status; i++) {
        const char *system = NULL;

        table->accelerator[i] = pdl_yaml_key(systems, i);
        status = pdl_yaml_string(pdl_yaml_value(systems, i), &system);
        if (!status) status = pdl_system_load(system, &table->system[i]);
        if (status) return status;
        table->systems++;
        if (table->system[i]->fabric == NULL)
            return pdl_yaml_error(pdl_yaml_value(systems, i),
                                  "system %s has no fabric: nothing is known of its links", system);
    }
    return status;
}

static pdl_status_t bad_row(const pdl_measured_collectives_t *table, const char *path, size_t line,
                            const char *what)
{
    return pdl_error(PDL_ERR_INPUT, "%s:%zu: %s", path, pdl_csv_line(table->csv, line), what);
}

static const pdl_system_t *system_of(const pdl_measured_collectives_t *table, const char *accelerator)
{
    for (int s = 0; s < table->systems; s++)
        if (strcmp(table->accelerator[s], accelerator) == 0) return table->system[s];
    return NULL;
}

static pdl_status_t read_row(pdl_measured_collectives_t *table, const char *path, size_t line)
{
    static const char *const columns[] = {"gpus", "nodes", "bytes", "time_us"};
    const pdl_csv_t         *csv = table->csv;
    pdl_collective_row_t    *row = &table->row[table->count++];
    double                   number[4] = {0};
    const pdl_system_t      *system;
    pdl_parameters_t         p;
    pdl_status_t             status = PDL_OK;

    for (int i = 0; i < 4 && !status; i++)
        status = pdl_csv_number(csv, line, pdl_csv_column(csv, columns[i]), &number[i]);
    if (status) return status;
    row->accelerator = pdl_csv_cell(csv, line, pdl_csv_column(csv, "accelerator"));
    if (strcmp(pdl_csv_cell(csv, line, pdl_csv_column(csv, "collective")), "all_reduce") != 0)
        return bad_row(table, path, line, "only rows of all_reduce can be priced");
    system = system_of(table, row->accelerator);
    if (system == NULL) return bad_row(table, path, line, "no system for this accelerator: add it to the rules");
    if (number[1] != 1 || !(number[0] >= 2 && number[0] <= (double)system->level[0].fanout))
        return bad_row(table, path, line, "expected 2 or more devices of one node, as many as the system has");
    if (!(number[2] >= 1) || !(number[3] > 0))
        return bad_row(table, path, line, "bytes and time_us must be above 0");
    row->system = system->name;
    row->devices = (int)number[0];
    row->bytes = number[2];
    row->measured_s = number[3] * 1e-6;
    status = pdl_parameters_choose(NULL, system, &p);
    if (status) return status;
    return pdl_collective_price(system, &p, PDL_COLL_ALLREDUCE, row->devices, row->bytes, &row->projected_s);
}

/* A fabric with the links of the system of a row, to be fitted. */
static pdl_fabric_t links_of(const pdl_measured_collectives_t *table, const pdl_collective_row_t *row)
{
    return *system_of(table, row->accelerator)->fabric;
}

static void project_unseen(pdl_measured_collectives_t *table)
{
    for (size_t i = 0; i < table->count; i++) {
        pdl_collective_row_t *row = &table->row[i];
        pdl_fabric_use_t      use = {row->devices, 1, 1, 2};
        pdl_fabric_t          fabric = links_of(table, row);

        if (pdl__fit_fabric(table->row, table->count, row->accelerator, row->devices, &fabric))
            row->unseen_s = pdl_fabric_seconds(&fabric, &use, row->bytes);
    }
}

static pdl_status_t read_table(pdl_measured_collectives_t *table, const char *path, const char *rules)
{
    static const char *const columns[] = {"collective", "accelerator", "gpus", "nodes", "bytes", "time_us", NULL};
    pdl_status_t             status = pdl_csv_read_file(path, &table->csv);
    size_t                   lines;

    if (status) return status;
    for (const char *const *name = columns; *name != NULL; name++)
        if (pdl_csv_column(table->csv, *name) < 0)
            return pdl_error(PDL_ERR_INPUT,
                             "%s:1: column \"%s\" is missing; expected those of published_collectives.csv", path,
                             *name);
    status = read_rules(rules, table);
    if (status) return status;
    lines = pdl_csv_rows(table->csv);
    table->row = calloc(lines + 1, sizeof(*table->row));
    if (table->row == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < lines && !status; i++) status = read_row(table, path, i);
    if (!status) project_unseen(table);
    return status;
}

pdl_status_t pdl_measured_collectives_read(const char *csv_path, const char *rules,
                                           pdl_measured_collectives_t **out)
{
    pdl_measured_collectives_t *table = calloc(1, sizeof(*table));
    pdl_status_t                status =
        table != NULL ? read_table(table, csv_path, rules) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (status) {
        pdl_measured_collectives_destroy(table);
        return status;
    }
    *out = table;
    return PDL_OK;
}

void pdl_measured_collectives_destroy(pdl_measured_collectives_t *table)
{
    if (table == NULL) return;
    for (int s = 0; s < table->systems; s++) pdl_system_destroy(table->system[s]);
    if (table->doc != NULL) pdl_yaml_destroy(table->doc);
    pdl_csv_destroy(table->csv);
    free(table->row);
    free(table);
}

size_t pdl_measured_collectives_count(const pdl_measured_collectives_t *table)
{
    return table->count;
}

const pdl_collective_row_t *pdl_measured_collectives_row(const pdl_measured_collectives_t *table, size_t i)
{
    return &table->row[i];
}

pdl_status_t pdl_measured_collectives_fit(const pdl_measured_collectives_t *table, size_t row, pdl_fabric_t *fabric)
{
    *fabric = links_of(table, &table->row[row]);
    if (pdl__fit_fabric(table->row, table->count, table->row[row].accelerator, 0, fabric)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: a fit needs at least %d rows and two numbers of devices",
                     table->row[row].accelerator, PDL_FABRIC_TERMS);
}

pdl_collective_score_t pdl_measured_collectives_score(const pdl_measured_collectives_t *table,
                                                      const char *accelerator, int devices)
{
    pdl_collective_score_t score = {0};

    for (size_t i = 0; i < table->count; i++) {
        const pdl_collective_row_t *row = &table->row[i];

        if (accelerator != NULL && strcmp(row->accelerator, accelerator) != 0) continue;
        if (devices > 0 && row->devices != devices) continue;
        score.rows++;
        score.error += fabs(row->projected_s / row->measured_s - 1);
        score.bias += log(row->projected_s / row->measured_s);
        if (row->unseen_s <= 0) continue;
        score.unseen_rows++;
        score.unseen_error += fabs(row->unseen_s / row->measured_s - 1);
    }
    if (score.rows > 0) {
        score.error /= score.rows;
        score.bias /= score.rows;
    }
    if (score.unseen_rows > 0) score.unseen_error /= score.unseen_rows;
    return score;
}
