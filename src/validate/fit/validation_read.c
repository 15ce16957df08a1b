/*
 * Turning rows of a table of measured runs into configurations.
 */
#include "validate/fit/validation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct columns {
    int id, source, model, dataset, strategy, pe, data, inner, batch, quantity, value, per, quality;
} columns_t;

static pdl_status_t find_columns(const pdl_csv_t *csv, const char *path, columns_t *c)
{
    static const char *const names[] = {"id",     "source",  "model",        "dataset",  "strategy",      "p",
                                        "p_data", "p_model", "global_batch", "quantity", "value_seconds", "per",
                                        "quality"};
    int *const slots[] = {&c->id,    &c->source, &c->model,    &c->dataset, &c->strategy, &c->pe,     &c->data,
                          &c->inner, &c->batch,  &c->quantity, &c->value,   &c->per,      &c->quality};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        *slots[i] = pdl_csv_column(csv, names[i]);
        if (*slots[i] < 0)
            return pdl_error(PDL_ERR_INPUT,
                             "%s:1: column \"%s\" is missing; expected the columns of abci_measured.csv", path,
                             names[i]);
    }
    return PDL_OK;
}

static bool refuse(pdl_measured_row_t *row, const char *what, const char *name)
{
    snprintf(row->reason, sizeof(row->reason), "%s %s", what, name);
    return false;
}

/* Mesh and batch of a row; false when the oracle cannot express it. */
static bool configure(const pdl_validation_t *v, const columns_t *c, size_t i, pdl_run_t *run,
                      pdl_measured_row_t *row)
{
    double data = 1, inner = 1, batch = 0;

    run->model = pdl__experiment_model(&v->experiment, row->model);
    run->strategy = pdl__experiment_strategy(&v->experiment, row->strategy);
    run->dataset = pdl__experiment_dataset(&v->experiment, pdl_csv_cell(v->csv, i, c->dataset));
    if (!run->model) return refuse(row, "no model", row->model);
    if (!run->strategy) return refuse(row, "no strategy", row->strategy);
    if (pdl__quantity(row->quantity) < 0) return refuse(row, "no quantity", row->quantity);
    if (pdl_csv_number(v->csv, i, c->data, &data) || pdl_csv_number(v->csv, i, c->inner, &inner) ||
        pdl_csv_number(v->csv, i, c->batch, &batch) || data < 1 || inner < 1 || batch < 1 || data * inner > 1e6 ||
        batch > 1e9)
        return refuse(row, "mesh or batch missing:", row->strategy);
    pdl_config_t       *config = &run->config;
    bool                pipeline = pdl_strategy_has(run->strategy->strategy, PDL_AXIS_PIPELINE);
    pdl_strategy_mesh_t mesh = {.data = (int64_t)data,
                                .pipeline = pipeline ? (int64_t)inner : 1,
                                .inner = pipeline ? 1 : (int64_t)inner};
    *config = pdl_config_on(run->strategy->strategy, &mesh);
    config->batch = run->model->samples_per_group ? run->model->samples_per_group * (int64_t)data : (int64_t)batch;
    config->micro_batches =
        run->strategy->micro_batches < config->batch ? run->strategy->micro_batches : config->batch;
    config->schedule = run->strategy->schedule;
    config->recompute = run->strategy->recompute;
    config->optimizer = run->model->optimizer;
    config->precision = run->model->precision;
    config->spatial_until = run->model->spatial_until;
    return true;
}

static bool same_run(const pdl_run_t *a, const pdl_run_t *b)
{
    return a->model == b->model && a->strategy == b->strategy && a->dataset == b->dataset &&
           a->config.data == b->config.data && a->config.pipeline == b->config.pipeline &&
           a->config.spatial == b->config.spatial && a->config.tensor == b->config.tensor &&
           a->config.batch == b->config.batch;
}

static pdl_status_t add_run(pdl_validation_t *v, const pdl_run_t *run, int *index)
{
    for (*index = 0; *index < v->run_count; ++*index)
        if (same_run(&v->runs[*index], run)) return PDL_OK;
    v->runs[v->run_count] = *run;
    pdl_parameters_t p;
    pdl_parameters_default(&p);
    pdl_status_t status =
        pdl_oracle_create(run->model->model, &v->experiment.system, &p, &v->runs[v->run_count].oracle);
    if (!status) v->run_count++;
    return status;
}

/* Seconds of the row's unit in iterations: an epoch has as many as the study's rounded count of samples. */
static double iterations_of(const char *per, const pdl_dataset_t *dataset, double batch)
{
    if (strcmp(per, "epoch") == 0) return dataset ? (double)dataset->samples / batch : 0.0;
    if (strcmp(per, "sample") == 0) return 1.0 / batch;
    return strcmp(per, "iteration") == 0 ? 1.0 : 0.0;
}

static pdl_status_t read_row(pdl_validation_t *v, const columns_t *c, size_t i, const char *path)
{
    pdl_row_t          *row = &v->rows[i];
    pdl_measured_row_t *r = &row->public_row;
    pdl_run_t           run = {0};
    double              pe = 0, batch = 0;
    pdl_status_t        status;

    r->id = pdl_csv_cell(v->csv, i, c->id);
    r->source = pdl_csv_cell(v->csv, i, c->source);
    r->model = pdl_csv_cell(v->csv, i, c->model);
    r->strategy = pdl_csv_cell(v->csv, i, c->strategy);
    r->quantity = pdl_csv_cell(v->csv, i, c->quantity);
    r->quality = pdl_csv_cell(v->csv, i, c->quality);
    status = pdl_csv_number(v->csv, i, c->value, &r->measured_s);
    if (!status) status = pdl_csv_number(v->csv, i, c->pe, &pe);
    if (!status) status = pdl_csv_number(v->csv, i, c->batch, &batch);
    if (status) return status;
    if (r->measured_s <= 0 || pe < 1 || pe > 1e9)
        return pdl_error(PDL_ERR_INPUT, "%s:%zu: a measured time and a number of devices above 0 are required",
                         path, pdl_csv_line(v->csv, i));
    r->pe = (int64_t)pe;
    row->run = -1;
    if (!configure(v, c, i, &run, r)) return PDL_OK;
    row->quantity = pdl__quantity(r->quantity);
    row->iterations = iterations_of(pdl_csv_cell(v->csv, i, c->per), run.dataset, batch);
    if (row->iterations <= 0) {
        refuse(r, "no unit", pdl_csv_cell(v->csv, i, c->per));
        return PDL_OK;
    }
    r->expressed = true;
    r->core = pdl__experiment_core(&v->experiment, r->source, r->quality);
    return add_run(v, &run, &row->run);
}

pdl_status_t pdl_validation_read(const char *path, const char *experiment, pdl_validation_t **out)
{
    columns_t         columns;
    pdl_validation_t *v = calloc(1, sizeof(*v));
    if (!v) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    pdl_status_t status = pdl_csv_read_file(path, &v->csv);
    if (!status) status = find_columns(v->csv, path, &columns);
    if (!status) status = pdl__experiment_load(experiment, &v->experiment);
    if (!status) {
        v->row_count = pdl_csv_rows(v->csv);
        v->rows = calloc(v->row_count + 1, sizeof(*v->rows));
        v->runs = calloc(v->row_count + 1, sizeof(*v->runs));
        if (!v->rows || !v->runs) status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; !status && i < v->row_count; i++) status = read_row(v, &columns, i, path);
    if (status) {
        pdl_validation_destroy(v);
        return status;
    }
    *out = v;
    return PDL_OK;
}

void pdl_validation_destroy(pdl_validation_t *v)
{
    if (!v) return;
    for (int i = 0; i < v->run_count; i++) pdl_oracle_destroy(v->runs[i].oracle);
    free(v->runs);
    free(v->rows);
    pdl__experiment_free(&v->experiment);
    if (v->csv) pdl_csv_destroy(v->csv);
    free(v);
}
