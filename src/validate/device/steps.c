/*
 * Whole training steps on one device.
 */
#include "validate/device/device.h"
#include <paradl/oracle/framework.h>
#include <stdio.h>
#include <string.h>

static const char *cell(const pdl_device_runs_t *runs, const pdl_device_row_t *row, const char *column)
{
    return pdl_csv_cell(runs->csv, row->line, pdl_csv_column(runs->csv, column));
}

/* Parameters that the rules give models whose name begins so. */
static const pdl_yaml_t *changes_of(const pdl_device_runs_t *runs, const char *model)
{
    for (size_t i = 0; runs->models && i < pdl_yaml_size(runs->models); i++) {
        const char *key = pdl_yaml_key(runs->models, i);
        if (strncmp(model, key, strlen(key)) == 0) return pdl_yaml_value(runs->models, i);
    }
    return NULL;
}

static pdl_status_t load_model(const pdl_device_runs_t *runs, const pdl_device_row_t *row, pdl_model_t **model)
{
    const pdl_yaml_t *changes = changes_of(runs, row->group);
    const char       *tokens = cell(runs, row, "seq_len");
    char              yaml[512], list[256] = "";
    size_t            used = 0;

    if (*tokens) used = (size_t)snprintf(list, sizeof(list), "tokens: %.20s", tokens);
    for (size_t i = 0; changes && i < pdl_yaml_size(changes) && used < sizeof(list) - 80; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%.30s: %.30s", used ? ", " : "",
                                 pdl_yaml_key(changes, i), pdl_yaml_text(pdl_yaml_value(changes, i)));
    snprintf(yaml, sizeof(yaml), "paradl: model/1\nname: step\nextends: %.60s\n%s%s%s", row->group,
             used ? "parameters: {" : "", list, used ? "}\n" : "");
    return pdl_model_read_yaml_memory(yaml, strlen(yaml), row->name, model);
}

static pdl_status_t find_name(const pdl_device_runs_t *runs, const pdl_device_row_t *row, const char *column,
                              const char *const *names, int count, int *index)
{
    const char *text = cell(runs, row, column);

    for (*index = 0; *index < count; ++*index)
        if (strcmp(names[*index], text) == 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s %.60s is not known", column, text);
}

static pdl_status_t read_config(const pdl_device_runs_t *runs, const pdl_device_row_t *row, pdl_config_t *config)
{
    double       batch = 0;
    int          precision, optimizer, recompute;
    pdl_status_t status = pdl_csv_number(runs->csv, row->line, pdl_csv_column(runs->csv, "batch"), &batch);

    if (!status) status = find_name(runs, row, "precision", pdl_precision_names, PDL_PRECISION_COUNT, &precision);
    if (!status) status = find_name(runs, row, "optimizer", pdl_optimizer_names, PDL_OPTIMIZER_COUNT, &optimizer);
    if (!status) status = find_name(runs, row, "recompute", pdl_recompute_names, PDL_RECOMPUTE_COUNT, &recompute);
    if (!status && !(batch >= 1 && batch < 1e9)) status = pdl_error(PDL_ERR_INPUT, "the batch is not a count");
    if (status) return status;
    *config = pdl_config_default("serial");
    config->batch = (int64_t)batch;
    config->precision = (pdl_precision_t)precision;
    config->optimizer = (pdl_optimizer_t)optimizer;
    config->recompute = (pdl_recompute_t)recompute;
    return PDL_OK;
}

pdl_status_t pdl__device_step(const pdl_device_runs_t *runs, const char *parameters, pdl_device_row_t *row)
{
    const pdl_yaml_t *mode = pdl_yaml_find(runs->modes, cell(runs, row, "mode"));
    pdl_model_t      *model = NULL;
    pdl_oracle_t     *oracle = NULL;
    pdl_parameters_t  p;
    pdl_config_t      config;
    pdl_projection_t  projection;

    if (!mode) return pdl_error(PDL_ERR_INPUT, "no framework for mode %.60s", cell(runs, row, "mode"));
    pdl_status_t status = pdl_framework_choose(pdl_yaml_text(mode), parameters, runs->system, &p);
    if (!status) status = read_config(runs, row, &config);
    if (!status) status = load_model(runs, row, &model);
    if (!status) status = pdl_oracle_create(model, runs->system, &p, &oracle);
    if (!status) status = pdl_oracle_evaluate(oracle, &config, NULL, &projection);
    if (!status) {
        row->projected_s = projection.total_s;
        row->low_s = projection.low_s;
        row->high_s = projection.high_s;
        row->projected_bytes = projection.memory_bytes - projection.memory.context - projection.memory.margin;
        row->projected_oom = !projection.fits;
    }
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return status;
}
