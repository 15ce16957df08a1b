/*
 * Tables of runs on one device: reading, projecting, scores.
 */
#include "validate/device/device.h"
#include <math.h>
#include <paradl/base/share.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *cell(const pdl_device_runs_t *runs, size_t line, const char *column)
{
    return pdl_csv_cell(runs->csv, line, pdl_csv_column(runs->csv, column));
}

static pdl_status_t read_number(const pdl_device_runs_t *runs, size_t line, const char *column, double *value)
{
    *value = 0;
    return pdl_csv_number(runs->csv, line, pdl_csv_column(runs->csv, column), value);
}

static pdl_status_t read_step(pdl_device_runs_t *runs, size_t line)
{
    pdl_device_row_t *row = &runs->rows[runs->count++];
    const char       *recompute = cell(runs, line, "recompute"), *tokens = cell(runs, line, "seq_len");
    pdl_status_t      status;

    row->line = line;
    row->group = cell(runs, line, "model");
    snprintf(row->name, sizeof(row->name), "%.40s batch %.12s%s%.12s %.8s %.20s%s", row->group,
             cell(runs, line, "batch"), *tokens ? " tokens " : "", tokens, cell(runs, line, "precision"),
             cell(runs, line, "mode"), strcmp(recompute, "full") == 0 ? " recomputed" : "");
    row->measured_oom = strcmp(cell(runs, line, "outcome"), "oom") == 0;
    status = read_number(runs, line, "step_s", &row->measured_s);
    return status ? status : read_number(runs, line, "peak_bytes", &row->measured_bytes);
}

static pdl_status_t read_operation(pdl_device_runs_t *runs, size_t line)
{
    static const char *const columns[] = {"forward_s", "backward_s"};
    pdl_status_t             status = PDL_OK;

    for (int backward = 0; backward < 2 && !status; backward++) {
        pdl_device_row_t *row = &runs->rows[runs->count];
        status = read_number(runs, line, columns[backward], &row->measured_s);
        if (status || row->measured_s <= 0) continue;
        row->line = line;
        row->group = cell(runs, line, "op");
        row->backward = backward;
        snprintf(row->name, sizeof(row->name), "%.40s %.40s %.8s%s", row->group, cell(runs, line, "shape"),
                 cell(runs, line, "precision"), backward ? " backward" : "");
        runs->count++;
    }
    return status;
}

static pdl_status_t read_rules(const char *name, pdl_device_runs_t *runs)
{
    static const char *const extensions[] = {".yaml", NULL};
    static const char *const keys[] = {"paradl", "name",   "description", "system",
                                       "modes",  "models", "operations",  NULL};
    const char              *system = NULL;
    char                     path[4096];
    pdl_status_t             status = pdl_share_find("experiments", name, extensions, path, sizeof(path));

    if (!status) status = pdl_yaml_read_file(path, &runs->doc);
    if (status) return status;
    const pdl_yaml_t *root = pdl_yaml_root(runs->doc);
    status = pdl_yaml_check_format(root, "device");
    if (!status) status = pdl_yaml_check_keys(root, keys);
    if (!status) status = pdl_yaml_get_string(root, "system", PDL_REQUIRED, &system);
    if (!status) status = pdl_yaml_get_string(root, "operations", PDL_REQUIRED, &runs->operations);
    if (status) return status;
    runs->modes = pdl_yaml_find(root, "modes");
    runs->models = pdl_yaml_find(root, "models");
    if (!runs->modes) return pdl_yaml_error(root, "expected the map \"modes\"");
    status = pdl_yaml_expect(runs->modes, PDL_YAML_MAPPING, "a framework for every mode");
    if (!status && runs->models) status = pdl_yaml_expect(runs->models, PDL_YAML_MAPPING, "parameters of models");
    return status ? status : pdl_system_load(system, &runs->system);
}

static pdl_status_t check_columns(pdl_device_runs_t *runs, const char *path)
{
    static const char *const steps[] = {"model",     "batch",  "seq_len",    "precision", "optimizer", "mode",
                                        "recompute", "step_s", "peak_bytes", "outcome",   NULL};
    static const char *const single[] = {"op", "shape", "precision", "forward_s", "backward_s", NULL};

    runs->single = pdl_csv_column(runs->csv, "op") >= 0;
    for (const char *const *name = runs->single ? single : steps; *name; name++)
        if (pdl_csv_column(runs->csv, *name) < 0)
            return pdl_error(PDL_ERR_INPUT, "%s:1: column \"%s\" is missing; expected the columns of %s", path,
                             *name, runs->single ? "h200_ops.csv" : "h200_runs.csv");
    return PDL_OK;
}

pdl_status_t pdl_device_runs_read(const char *path, const char *rules, pdl_device_runs_t **out)
{
    pdl_device_runs_t *runs = calloc(1, sizeof(*runs));
    pdl_status_t status = runs ? pdl_csv_read_file(path, &runs->csv) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    if (!status) status = check_columns(runs, path);
    if (!status) status = read_rules(rules, runs);
    size_t lines = status ? 0 : pdl_csv_rows(runs->csv);
    if (!status) {
        runs->rows = calloc(2 * lines + 1, sizeof(*runs->rows));
        if (!runs->rows) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < lines && !status; i++)
        status = runs->single ? read_operation(runs, i) : read_step(runs, i);
    if (status)
        pdl_device_runs_destroy(runs);
    else
        *out = runs;
    return status;
}

void pdl_device_runs_destroy(pdl_device_runs_t *runs)
{
    if (!runs) return;
    if (runs->system) pdl_system_destroy(runs->system);
    if (runs->doc) pdl_yaml_destroy(runs->doc);
    pdl_csv_destroy(runs->csv);
    free(runs->rows);
    free(runs);
}

pdl_status_t pdl_device_runs_project(pdl_device_runs_t *runs, const char *parameters)
{
    for (size_t i = 0; i < runs->count; i++) {
        pdl_device_row_t *row = &runs->rows[i];
        pdl_status_t      status =
            runs->single ? pdl__device_operation(runs, parameters, row) : pdl__device_step(runs, parameters, row);
        if (status == PDL_ERR_NOMEM) return status;
        row->expressed = !status;
        if (status) snprintf(row->reason, sizeof(row->reason), "%.120s", pdl_error_message());
    }
    return PDL_OK;
}

size_t pdl_device_runs_count(const pdl_device_runs_t *runs)
{
    return runs->count;
}

const pdl_device_row_t *pdl_device_runs_row(const pdl_device_runs_t *runs, size_t i)
{
    return &runs->rows[i];
}

bool pdl_device_runs_operations(const pdl_device_runs_t *runs)
{
    return runs->single;
}

static void add_row(const pdl_device_row_t *row, pdl_device_score_t *s)
{
    s->rows++;
    if (!row->expressed) return;
    s->expressed++;
    s->oom_rows += row->measured_oom;
    s->oom_found += row->measured_oom && row->projected_oom;
    s->false_oom += !row->measured_oom && row->projected_oom;
    if (row->measured_oom) return;
    if (row->measured_s > 0) {
        s->timed++;
        s->error += fabs(row->projected_s - row->measured_s) / row->measured_s;
        s->bias += log(row->projected_s / row->measured_s);
        s->covered += row->measured_s >= row->low_s && row->measured_s <= row->high_s;
        s->width += 0.5 * log(row->high_s / row->low_s);
    }
    if (row->measured_bytes > 0) {
        s->memory_rows++;
        s->memory_error += fabs(row->projected_bytes - row->measured_bytes) / row->measured_bytes;
    }
}

pdl_device_score_t pdl_device_runs_score(const pdl_device_runs_t *runs, const char *group)
{
    pdl_device_score_t s = {0};

    for (size_t i = 0; i < runs->count; i++)
        if (!group || strcmp(runs->rows[i].group, group) == 0) add_row(&runs->rows[i], &s);
    if (s.timed) {
        s.error /= s.timed;
        s.bias /= s.timed;
        s.covered /= s.timed;
        s.width /= s.timed;
    }
    if (s.memory_rows) s.memory_error /= s.memory_rows;
    return s;
}
