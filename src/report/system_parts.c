/*
 * The parts of a machine whose nodes have different devices.
 */
#include "report/device_fields.h"

#include <paradl/base/units.h>
#include <paradl/report/table.h>

#include <math.h>

/* Of two precisions: what everything computes in, and what matrix units are fastest in that all of 16 bits are for. */
static void add_peaks(pdl_table_t *table, const pdl_device_t *device)
{
    double half = fmax(device->peak_flop_per_s[PDL_FP16], device->peak_flop_per_s[PDL_BF16]);
    char   text[PDL_FORMAT_SIZE];

    pdl_table_cell(table, "%s", pdl_format_flop_rate(device->peak_flop_per_s[PDL_FP32], text));
    pdl_table_cell(table, "%s", half > 0 ? pdl_format_flop_rate(half, text) : "-");
}

pdl_status_t pdl__print_system_parts(const pdl_system_t *system, FILE *stream)
{
    static const pdl_column_t columns[] = {{"part", PDL_LEFT},       {"nodes", PDL_RIGHT},
                                           {"devices", PDL_RIGHT},   {"device", PDL_LEFT},
                                           {"memory", PDL_RIGHT},    {"memory bandwidth", PDL_RIGHT},
                                           {"peak fp32", PDL_RIGHT}, {"16 bits", PDL_RIGHT},
                                           {"power", PDL_RIGHT},     {"price/hour", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    for (int i = 0; i < system->part_count; i++) {
        const pdl_system_part_t *part = &system->part[i];
        char                     text[PDL_FORMAT_SIZE];

        pdl_table_row(table, PDL_ROW_PLAIN);
        pdl_table_cell(table, "%s", part->name);
        pdl_table_cell(table, "%s", pdl_format_count(part->nodes, text));
        pdl_table_cell(table, "%s", pdl_format_count(part->nodes * system->level[0].fanout, text));
        pdl_table_cell(table, "%s", part->device.name);
        pdl_table_cell(table, "%s", pdl_format_bytes(part->device.memory_bytes, text));
        pdl_table_cell(table, "%s", pdl_format_byte_rate(part->device.memory_bandwidth_bytes_per_s, text));
        add_peaks(table, &part->device);
        pdl_table_cell(table, part->device.power_w > 0 ? "%.0f W" : "-", part->device.power_w);
        pdl_table_cell(table, part->cost_per_pe_hour > 0 ? "%g" : "-", part->cost_per_pe_hour);
    }
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

void pdl__system_part_fields(pdl_json_t *json, const pdl_system_t *system)
{
    if (system->part_count == 0) return;
    pdl_json_open(json, "parts", '[');
    for (int i = 0; i < system->part_count; i++) {
        const pdl_system_part_t *part = &system->part[i];

        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", part->name);
        pdl_json_int(json, "nodes", part->nodes);
        pdl_json_int(json, "devices", part->nodes * system->level[0].fanout);
        pdl_json_number(json, "cost_per_pe_hour",
                        part->cost_per_pe_hour > 0 ? part->cost_per_pe_hour : (double)NAN);
        pdl__device_fields(json, &part->device);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}
