/*
 * paradl topo: list, show.
 */
#include "cli/commands.h"
#include "cli/topology_options.h"

#include <paradl/report/sim_report.h>

typedef enum format { FORMAT_TABLE, FORMAT_DOT, FORMAT_SIMGRID, FORMAT_COUNT } format_t;
static const char *const format_names[FORMAT_COUNT] = {"table", "dot", "simgrid"};

typedef struct values {
    pdl__topology_values_t topology;
    pdl__room_values_t     room;
    int                    format;
    bool                   json;
} values_t;

static const pdl__option_t options[] = {
    PDL__TOPOLOGY_OPTIONS(values_t, topology),
    PDL__ROOM_OPTIONS(values_t, room),
    {"format", "FORMAT", "table", "what to print", PDL__CHOICE(values_t, format, format_names, FORMAT_COUNT)},
    {"json", NULL, NULL, "prints one JSON document instead of a table", PDL__FLAG(values_t, json)},
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
    return values->json ? pdl_report_topology_list_json(stdout) : pdl_report_topology_list(stdout);
}

static pdl_status_t show(const values_t *values, const pdl_topology_t *topology)
{
    pdl_room_t   room;
    pdl_status_t status = pdl__room_from_options(&values->room, &room);

    if (status) return status;
    if (values->format == FORMAT_DOT) return pdl_topology_write_dot(topology, stdout);
    if (values->format == FORMAT_SIMGRID) return pdl_topology_write_simgrid(topology, stdout);
    return values->json ? pdl_report_topology_json(topology, &room, stdout)
                        : pdl_report_topology(topology, &room, stdout);
}

static pdl_status_t run_show(const void *given, const pdl__operands_t *operands)
{
    const values_t *values = given;
    pdl_topology_t *topology;
    pdl_status_t    status;

    if (values->json && values->format != FORMAT_TABLE)
        return pdl_error(PDL_ERR_INPUT, "--json and --format %s exclude each other", format_names[values->format]);
    status = pdl__check_topology_options(options, values, (const char *const *)operands->text, 1);
    if (status) return status;
    status = pdl__topology_from_options(operands->text[0], &values->topology, 0, &topology);
    if (status) return status;
    status = show(values, topology);
    pdl_topology_destroy(topology);
    return status;
}

const pdl__command_t pdl__topo_commands[] = {
    {.name = "topo list",
     .usage = "[--json]",
     .summary = "lists the built-in topologies",
     .options = list_options,
     .values = sizeof(values_t),
     .run = run_list},
    {.name = "topo show",
     .usage = "TOPOLOGY [--hosts P] [options]",
     .summary = "shows the size, distances, bisection, cables and cost of a network",
     .notes = "An option that the topology does not have is refused.",
     .options = options,
     .values = sizeof(values_t),
     .operands = 1,
     .run = run_show},
    {.name = NULL},
};
