/*
 * paradl validate: lays projections beside measured runs.
 */
#include "cli/commands.h"

#include <paradl/base/csv.h>
#include <paradl/base/share.h>
#include <paradl/report/report.h>
#include <paradl/validate/device.h>

typedef struct values {
    const char *output, *parameters, *experiment, *write_parameters;
    bool        fit, cross_validate, json;
} values_t;

static const pdl__option_t options[] = {
    {"output", "PREDICTIONS.csv", NULL, "writes the projection of every row that can be expressed",
     PDL__TEXT(values_t, output), .letter = 'o', .writes = true},
    {"parameters", "NAME", NULL, "parameter set; else the one fitted for the experiment",
     PDL__TEXT(values_t, parameters)},
    {"experiment", "NAME", NULL, "how the runs were made: a built-in name or a .yaml file; else abci or published",
     PDL__TEXT(values_t, experiment)},
    {"fit", NULL, NULL, "fits the parameters to the rows first", PDL__FLAG(values_t, fit)},
    {"cross-validate", NULL, NULL, "fits without some rows and projects these, in turn",
     PDL__FLAG(values_t, cross_validate)},
    {"write-parameters", "FILE.yaml", NULL, "writes the parameters that were used",
     PDL__TEXT(values_t, write_parameters), .writes = true},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

typedef enum layout { LAYOUT_MEASURED, LAYOUT_PUBLISHED, LAYOUT_DEVICE, LAYOUT_COLLECTIVES } layout_t;

/* The layouts are told apart by the names of two columns. */
static pdl_status_t find_layout(const char *path, layout_t *layout)
{
    pdl_csv_t   *table;
    bool         measured, published, device, collectives;
    pdl_status_t status = pdl_csv_read_file(path, &table);

    if (status) return status;
    measured = pdl_csv_column(table, "id") >= 0 && pdl_csv_column(table, "value_seconds") >= 0;
    published = pdl_csv_column(table, "run_id") >= 0 && pdl_csv_column(table, "iter_time_s") >= 0;
    device = (pdl_csv_column(table, "op") >= 0 && pdl_csv_column(table, "forward_s") >= 0) ||
             (pdl_csv_column(table, "model") >= 0 && pdl_csv_column(table, "step_s") >= 0);
    collectives = pdl_csv_column(table, "collective") >= 0 && pdl_csv_column(table, "time_us") >= 0;
    pdl_csv_destroy(table);
    *layout = measured      ? LAYOUT_MEASURED
              : published   ? LAYOUT_PUBLISHED
              : collectives ? LAYOUT_COLLECTIVES
                            : LAYOUT_DEVICE;
    if (measured || published || device || collectives) return PDL_OK;
    return pdl_error(
        PDL_ERR_INPUT,
        "%s:1: neither a table of measured runs (columns id, value_seconds, ...), nor of published runs "
        "(run_id, iter_time_s, ...), nor of steps or operations on one device (model, step_s or op, forward_s, "
        "...), nor of collectives (collective, time_us, ...)",
        path);
}

static pdl_status_t choose_parameters(const values_t *v, const char *fitted_set, pdl_parameters_t *p)
{
    pdl_system_t fitted = {.parameters = fitted_set};

    return pdl_parameters_choose(v->parameters, &fitted, p);
}

static pdl_status_t cross_validate(pdl_validation_t *validation, const pdl_parameters_t *p,
                                   pdl_cross_validation_t results[2])
{
    pdl_status_t status = pdl_validation_cross(validation, p, PDL_LEAVE_PE, &results[PDL_LEAVE_PE], stderr);

    if (!status) status = pdl_validation_cross(validation, p, PDL_LEAVE_PAIR, &results[PDL_LEAVE_PAIR], stderr);
    return status;
}

static pdl_status_t write_predictions(const pdl_validation_t *validation, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    return pdl__finish_output(output, pdl_report_predictions(validation, pdl_output_stream(output)));
}

static pdl_status_t write_parameters(const pdl_parameters_t *p, bool fitted, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_parameters_write(p, fitted ? "Fitted by paradl validate --fit" : NULL, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

static pdl_status_t validate(const values_t *v, pdl_validation_t *validation)
{
    pdl_cross_validation_t  results[2];
    pdl_cross_validation_t *cross = v->cross_validate ? results : NULL;
    pdl_parameters_t        p;
    pdl_status_t            status = choose_parameters(v, pdl_validation_parameters(validation), &p);

    if (!status && v->fit) status = pdl_validation_fit(validation, &p, stderr);
    if (!status && v->cross_validate) status = cross_validate(validation, &p, results);
    if (!status) status = pdl_validation_project(validation, &p);
    if (!status && v->output != NULL) status = write_predictions(validation, v->output);
    if (!status && v->write_parameters != NULL) status = write_parameters(&p, v->fit, v->write_parameters);
    if (status) return status;
    return v->json ? pdl_report_validation_json(validation, p.name, cross, 2, stdout)
                   : pdl_report_validation(validation, p.name, cross, 2, stdout);
}

static pdl_status_t write_published(const pdl_published_t *runs, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    return pdl__finish_output(output, pdl_report_published_predictions(runs, pdl_output_stream(output)));
}

static pdl_status_t validate_published(const values_t *v, pdl_published_t *runs)
{
    pdl_parameters_t      p;
    pdl_published_cross_t found, *cross = v->fit ? &found : NULL;
    pdl_status_t          status = choose_parameters(v, pdl_published_parameters(runs), &p);

    if (!status && v->fit) status = pdl_published_fit(runs, &p, cross, stderr);
    if (!status) status = pdl_published_project(runs, &p);
    if (!status && v->output != NULL) status = write_published(runs, v->output);
    if (!status && v->write_parameters != NULL) status = write_parameters(&p, v->fit, v->write_parameters);
    if (status) return status;
    return v->json ? pdl_report_published_json(runs, p.name, cross, stdout)
                   : pdl_report_published(runs, p.name, cross, stdout);
}

static pdl_status_t run_published(const values_t *v, const char *path)
{
    pdl_published_t *runs;
    pdl_status_t     status;

    if (v->cross_validate)
        return pdl_error(
            PDL_ERR_INPUT,
            "--cross-validate is for tables of measured runs; --fit leaves out sources of published ones");
    status = pdl_published_read(path, v->experiment ? v->experiment : "published", &runs);
    if (status) return status;
    status = validate_published(v, runs);
    pdl_published_destroy(runs);
    return status;
}

static pdl_status_t validate_device(const values_t *v, pdl_device_runs_t *runs)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_device_runs_project(runs, v->parameters);

    if (!status && v->output != NULL) {
        status = pdl_output_open(v->output, &output);
        if (!status)
            status = pdl__finish_output(output, pdl_report_device_predictions(runs, pdl_output_stream(output)));
    }
    if (status) return status;
    return v->json ? pdl_report_device_json(runs, stdout) : pdl_report_device(runs, stdout);
}

static pdl_status_t run_device(const values_t *v, const char *path)
{
    pdl_device_runs_t *runs;
    pdl_status_t       status;

    if (v->cross_validate || v->fit || v->write_parameters != NULL)
        return pdl_error(PDL_ERR_INPUT, "runs on one device are projected, not fitted: leave out --fit, "
                                        "--cross-validate and --write-parameters");
    status = pdl_device_runs_read(path, v->experiment ? v->experiment : "h200", &runs);
    if (status) return status;
    status = validate_device(v, runs);
    pdl_device_runs_destroy(runs);
    return status;
}

static pdl_status_t report_collectives(const values_t *v, const pdl_measured_collectives_t *rows)
{
    pdl_output_t *output;
    pdl_status_t  status = PDL_OK;

    if (v->output != NULL) {
        status = pdl_output_open(v->output, &output);
        if (!status)
            status =
                pdl__finish_output(output, pdl_report_collectives_predictions(rows, pdl_output_stream(output)));
    }
    if (status) return status;
    return v->json ? pdl_report_collectives_json(rows, stdout) : pdl_report_collectives(rows, v->fit, stdout);
}

static pdl_status_t run_collectives(const values_t *v, const char *path)
{
    pdl_measured_collectives_t *rows;
    pdl_status_t                status;

    if (v->write_parameters != NULL || v->parameters != NULL)
        return pdl_error(PDL_ERR_INPUT, "collectives are fitted in the system file (key fabric): leave out "
                                        "--parameters and --write-parameters");
    status = pdl_measured_collectives_read(path, v->experiment ? v->experiment : "collectives", &rows);
    if (status) return status;
    status = report_collectives(v, rows);
    pdl_measured_collectives_destroy(rows);
    return status;
}

static pdl_status_t run_measured(const values_t *v, const char *path)
{
    pdl_validation_t *validation;
    pdl_status_t      status = pdl_validation_read(path, v->experiment ? v->experiment : "abci", &validation);

    if (status) return status;
    status = validate(v, validation);
    pdl_validation_destroy(validation);
    return status;
}

static pdl_status_t run(const void *given, const pdl__operands_t *operands)
{
    const char  *path = operands->text[0];
    layout_t     layout = LAYOUT_MEASURED;
    pdl_status_t status = find_layout(path, &layout);

    if (status) return status;
    if (layout == LAYOUT_DEVICE) return run_device(given, path);
    if (layout == LAYOUT_COLLECTIVES) return run_collectives(given, path);
    return layout == LAYOUT_PUBLISHED ? run_published(given, path) : run_measured(given, path);
}

const pdl__command_t pdl__validate_commands[] = {
    {.name = "validate",
     .usage = "FILE.csv [-o PREDICTIONS.csv] [options]",
     .summary = "projects measured runs and says how far off the projections are",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run},
    {.name = NULL},
};
