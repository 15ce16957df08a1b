/*
 * What calibration found, for people.
 */
#include <paradl/base/units.h>
#include <paradl/report/table.h>
#include <paradl/report/train_report.h>

#include <string.h>

static void pair(pdl_table_t *table, const char *name, const char *value)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", value);
}

pdl_status_t pdl_report_calibration(const pdl_calibration_t *c, const char *path, FILE *stream)
{
    static const pdl_column_t columns[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};
    pdl_table_t              *table = pdl_table_create(columns, 2);
    char                      text[PDL_FORMAT_SIZE], line[128];

    if (strcmp(c->backend, "cpu") == 0)
        snprintf(line, sizeof(line), "%d, each %d core%s", c->ranks, c->threads, c->threads > 1 ? "s" : "");
    else
        snprintf(line, sizeof(line), "%d x %.100s", c->devices, c->processor);
    pair(table, "devices", line);
    pair(table, "multiply-adds of a device", pdl_format_flop_rate(c->flop_per_s, text));
    if (c->half_flop_per_s > 0) pair(table, "in bf16", pdl_format_flop_rate(c->half_flop_per_s, text));
    pair(table, "memory of a device", pdl_format_byte_rate(c->bytes_per_s, text));
    snprintf(line, sizeof(line), "%.0f %% of the first, %.0f %% of the second", 100 * c->matrix_efficiency,
             100 * c->memory_efficiency);
    pair(table, "layers reach", line);
    pair(table, "least time of an operation", pdl_format_seconds(c->launch_s, text));
    if (c->queue_s > 0) pair(table, "host time of a pass of a layer", pdl_format_seconds(c->queue_s, text));
    if (c->host_count > 0) {
        const double *rate = c->host[c->host_count - 1].bytes_per_s;
        pair(table, "to the host", pdl_format_byte_rate(rate[PDL_HOST_TO_HOST], text));
        pair(table, "from the host", pdl_format_byte_rate(rate[PDL_HOST_TO_DEVICE], text));
        pair(table, "both at once, each", pdl_format_byte_rate(rate[PDL_HOST_BOTH], text));
        pair(table, "updates by the host", pdl_format_byte_rate(c->host_update_bytes_per_s, text));
    }
    if (c->sharing > 0) {
        snprintf(line, sizeof(line), "%.0f %% of its speed together", 100 * c->sharing);
        pair(table, "ranks on one device reach", line);
    }
    if (c->slice_s > 0) pair(table, "and have it in turns of", pdl_format_seconds(c->slice_s, text));
    if (c->link_bytes_per_s > 0) {
        pair(table, "start-up of a message", pdl_format_seconds(c->latency_s, text));
        pair(table, "messages", pdl_format_byte_rate(c->link_bytes_per_s, text));
    }
    if (c->storage_bytes_per_s > 0) pair(table, "storage", pdl_format_byte_rate(c->storage_bytes_per_s, text));
    pair(table, "samples a second and loader", pdl_format_short(c->samples_per_s, text));
    snprintf(line, sizeof(line), "%d kinds", c->row_count);
    pair(table, "layers measured", line);
    pdl_status_t status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (status) return status;
    fprintf(stream, "written to %s in %s; use it with --system %s\n", path, pdl_format_seconds(c->elapsed_s, text),
            path);
    return PDL_OK;
}
