/*
 * paradl system: list, show.
 */
#include "cli/commands.h"

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
    return values->json ? pdl_report_system_list_json(stdout) : pdl_report_system_list(stdout);
}

static pdl_status_t run_show(const void *given, const pdl__operands_t *operands)
{
    const values_t     *values = given;
    const pdl_system_t *system;
    pdl_status_t        status = pdl_system_load(operands->text[0], &system);

    if (status) return status;
    status = values->json ? pdl_report_system_json(system, stdout) : pdl_report_system(system, stdout);
    pdl_system_destroy(system);
    return status;
}

const pdl__command_t pdl__system_commands[] = {
    {.name = "system list",
     .usage = "[--json]",
     .summary = "lists the built-in systems",
     .options = options,
     .values = sizeof(values_t),
     .run = run_list},
    {.name = "system show",
     .usage = "SYSTEM [--json]",
     .summary = "shows the devices, links and storage of a system",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_show},
    {.name = NULL},
};
