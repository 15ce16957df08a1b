/*
 * paradl model: list, show, import.
 */
#include "cli/commands.h"

#include <paradl/report/report.h>

typedef struct values {
    int64_t     batch, sequence;
    bool        json;
    const char *output;

    pdl__lora_values_t lora;
} values_t;

static const pdl__option_t show_options[] = {
    {"batch", "N", "1", "samples to count operations and activations for", PDL__INT(values_t, batch, 1)},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static const pdl__option_t import_options[] = {
    {"output", "MODEL.yaml", NULL, "the model file to write", PDL__TEXT(values_t, output), .required = true,
     .letter = 'o', .writes = true},
    {"sequence", "N", NULL, "tokens of a sample, of a causal language model; else as the file says",
     PDL__INT(values_t, sequence, 1)},
    PDL__LORA_OPTIONS(values_t, ),
    {.name = NULL},
};

static const pdl__option_t list_options[] = {
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static pdl_status_t run_list(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;

    (void)operands;
    return values->json ? pdl_report_model_list_json(stdout) : pdl_report_model_list(stdout);
}

static pdl_status_t run_show(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;
    pdl_model_t    *model;
    pdl_status_t    status = pdl_model_load(operands->text[0], &model);

    if (status) return status;
    pdl__print_remarks(model);
    status = values->json ? pdl_report_model_json(model, values->batch, stdout)
                          : pdl_report_model(model, values->batch, stdout);
    pdl_model_destroy(model);
    return status;
}

static pdl_status_t write_model(const pdl_model_t *model, const char *path)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    status = pdl_model_write_yaml(model, pdl_output_stream(output));
    return pdl__finish_output(output, status);
}

static pdl_status_t run_import(const void *given, const pdl__operands_t *operands)
{
    const values_t    *values = given;
    pdl_model_t       *model;
    pdl_model_totals_t totals;
    char               weights[PDL_FORMAT_SIZE];
    pdl_lora_t         lora;
    pdl_status_t       status = pdl__lora_of(&values->lora, &lora);

    if (!status) status = pdl__load_model(operands->text[0], values->sequence, &lora, &model);
    if (status) return status;
    pdl__print_remarks(model);
    status = write_model(model, values->output);
    if (!status) {
        pdl_model_totals(model, &totals);
        printf("%s: %d layers, %s parameters, written to %s\n", pdl_model_name(model),
               pdl_model_layer_count(model) - 1, pdl_format_count(totals.weights, weights),
               pdl_output_is_stdout(values->output) ? "standard output" : values->output);
    }
    pdl_model_destroy(model);
    return status;
}

const pdl__command_t pdl__model_commands[] = {
    {.name = "model list",
     .usage = "[--json]",
     .summary = "lists the built-in models",
     .options = list_options,
     .values = sizeof(values_t),
     .run = run_list},
    {.name = "model show",
     .usage = "MODEL [--batch N] [--json]",
     .summary = "shows the layers of a model with their parameters, operations and activations",
     .options = show_options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_show},
    {.name = "model import",
     .usage = "FILE.onnx|config.json -o MODEL.yaml [--sequence N] [--lora RANK]",
     .summary = "reads a network that another framework exported or describes and writes it as a model file",
     .options = import_options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_import},
    {.name = NULL},
};
