/*
 * paradl data: list, info.
 */
#include "cli/commands.h"

#include <paradl/report.h>

typedef struct values {
    bool json;
} values_t;

static const pdl__option_t options[] = {
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static pdl_status_t run_list(const void *values, const pdl__operands_t *operands)
{
    (void)values;
    (void)operands;
    return pdl_report_dataset_list(stdout);
}

static pdl_status_t run_info(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;
    pdl_dataset_t   dataset;
    pdl_status_t    status = pdl_dataset_load(operands->text[0], &dataset);

    if (status) return status;
    return values->json ? pdl_report_dataset_json(&dataset, stdout) : pdl_report_dataset(&dataset, stdout);
}

const pdl__command_t pdl__data_commands[] = {
    {.name = "data list", .usage = "", .summary = "lists the built-in data sets", .run = run_list},
    {.name = "data info",
     .usage = "DATA [--json]",
     .summary = "shows the number, shape and size of the samples",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_info},
    {.name = NULL},
};
