/*
 * A system: its device, its levels and its storage. A data set, which is described in as few words.
 */
#include "report/dataset_fields.h"
#include "report/device_fields.h"

#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>
#include <paradl/system/fabric.h>
#include <paradl/topo/topo.h>

#include <math.h>

static const pdl_column_t pairs[] = {{"", PDL_LEFT}, {"", PDL_LEFT}};

static void add_pair(pdl_table_t *table, const char *name, const char *value)
{
    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", name);
    pdl_table_cell(table, "%s", value);
}

static void add_peaks(pdl_table_t *table, const pdl_device_t *device)
{
    char   text[256] = "", speed[PDL_FORMAT_SIZE];
    size_t used = 0;

    for (int p = 0; p < PDL_PRECISION_COUNT; p++) {
        if (device->peak_flop_per_s[p] <= 0 || used >= sizeof(text)) continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", used > 0 ? ", " : "",
                                 pdl_precision_names[p], pdl_format_flop_rate(device->peak_flop_per_s[p], speed));
    }
    add_pair(table, "peak", text);
}

static void add_rate(pdl_table_t *table, const char *name, double bytes_per_s)
{
    char text[PDL_FORMAT_SIZE];

    if (bytes_per_s > 0) add_pair(table, name, pdl_format_byte_rate(bytes_per_s, text));
}

static void add_fabric(pdl_table_t *table, const pdl_fabric_t *fabric)
{
    char text[256], startup[PDL_FORMAT_SIZE], step[PDL_FORMAT_SIZE], link[PDL_FORMAT_SIZE];

    pdl_format_seconds(fabric->value[PDL_FABRIC_STARTUP], startup);
    pdl_format_seconds(fabric->value[PDL_FABRIC_STEP], step);
    pdl_format_byte_rate(1 / fabric->value[PDL_FABRIC_LINK], link);
    snprintf(text, sizeof(text), "%s and %s a further device, links of %s%s", startup, step, link,
             fabric->devices > 0 ? ", as a mesh" : "");
    add_pair(table, "collectives in a node", text);
}

static pdl_status_t print_device(const pdl_system_t *system, FILE *stream)
{
    const pdl_device_t *device = &system->device;
    pdl_table_t        *table = pdl_table_create(pairs, 2);
    char                text[PDL_FORMAT_SIZE], count[PDL_FORMAT_SIZE + 128];
    pdl_status_t        status;

    pdl_format_count(system->pe_count, text);
    snprintf(count, sizeof(count), "%s x %.100s", text, device->name);
    add_pair(table, "devices", count);
    if (system->part_count > 0) add_pair(table, "below", "what every device has at the least");
    add_pair(table, "memory", pdl_format_bytes(device->memory_bytes, text));
    add_rate(table, "memory bandwidth", device->memory_bandwidth_bytes_per_s);
    add_peaks(table, device);
    add_rate(table, "to host memory", device->host_link.bytes_per_s[PDL_HOST_TO_HOST]);
    add_rate(table, "from host memory", device->host_link.bytes_per_s[PDL_HOST_TO_DEVICE]);
    add_rate(table, "to and from it at once, each", device->host_link.bytes_per_s[PDL_HOST_BOTH]);
    add_rate(table, "copies of tensors", device->copy_bytes_per_s);
    add_rate(table, "storage of a node", system->storage.node_bandwidth_bytes_per_s);
    add_rate(table, "storage together", system->storage.total_bandwidth_bytes_per_s);
    if (system->storage.local_bytes > 0)
        add_pair(table, "storage of a node holds", pdl_format_bytes(system->storage.local_bytes, text));
    if (system->storage.shared_bandwidth_bytes_per_s != system->storage.total_bandwidth_bytes_per_s)
        add_rate(table, "parallel file system", system->storage.shared_bandwidth_bytes_per_s);
    if (device->power_w > 0 && system->part_count == 0) {
        snprintf(count, sizeof(count), "%.0f W, idle %.0f W", device->power_w, device->idle_power_w);
        add_pair(table, "power", count);
    }
    if (system->fabric != NULL) add_fabric(table, system->fabric);
    if (system->parameters != NULL) add_pair(table, "parameters", system->parameters);
    if (system->backend != NULL) add_pair(table, "paradl train computes by", system->backend);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

static void add_level(pdl_table_t *table, const pdl_system_t *system, const pdl_level_t *level, int i)
{
    char fanout[PDL_FORMAT_SIZE], pes[PDL_FORMAT_SIZE], rate[PDL_FORMAT_SIZE], latency[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", level->name);
    pdl_table_cell(table, "%s", level->transport != NULL ? level->transport : "");
    pdl_table_cell(table, "%s", pdl_format_count(level->fanout, fanout));
    pdl_table_cell(table, "%s", pdl_format_count(pdl_system_group_size(system, i), pes));
    pdl_table_cell(table, "%s", pdl_format_byte_rate(level->bandwidth_bytes_per_s, rate));
    pdl_table_cell(table, "%s", pdl_format_seconds(level->latency_s, latency));
    pdl_table_cell(table, "%g%s", level->ports, level->shared_medium ? " shared" : "");
    pdl_table_cell(table, "%g:1", level->oversubscription);
}

static pdl_status_t print_levels(const pdl_system_t *system, const pdl_level_t *levels, FILE *stream)
{
    static const pdl_column_t columns[] = {{"level", PDL_LEFT},  {"transport", PDL_LEFT},
                                           {"joins", PDL_RIGHT}, {"devices", PDL_RIGHT},
                                           {"link", PDL_RIGHT},  {"start-up", PDL_RIGHT},
                                           {"ports", PDL_RIGHT}, {"oversubscription", PDL_RIGHT}};
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    for (int i = 0; i < system->level_count; i++) add_level(table, system, &levels[i], i);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

pdl_status_t pdl_report_system(const pdl_system_t *system, FILE *stream)
{
    const pdl_topology_t *network;
    pdl_status_t          status;

    fprintf(stream, "%s   %s\n\n", system->name, system->description != NULL ? system->description : "");
    if (system->part_count > 0) {
        status = pdl__print_system_parts(system, stream);
        if (status) return status;
        fputs("\n", stream);
    }
    status = print_device(system, stream);
    if (status) return status;
    fputs("\n", stream);
    status = print_levels(system, system->level, stream);
    if (!status) status = pdl_topology_network(system, &network);
    if (status) return status;
    if (network != NULL)
        fprintf(stream, "\n%s joined by %s: %s\n", system->level[system->level_count - 1].name,
                pdl_topology_name(network), pdl_topology_description(network));
    if (!system->has_host_path) return PDL_OK;
    fputs("\nthrough host memory\n", stream);
    return print_levels(system, system->host_level, stream);
}

static void write_levels(pdl_json_t *json, const char *key, const pdl_level_t *levels, int count)
{
    pdl_json_open(json, key, '[');
    for (int i = 0; i < count; i++) {
        pdl_json_open(json, NULL, '{');
        pdl_json_string(json, "name", levels[i].name);
        pdl_json_string(json, "transport", levels[i].transport);
        pdl_json_int(json, "fanout", levels[i].fanout);
        pdl_json_number(json, "bandwidth_bytes_per_s", levels[i].bandwidth_bytes_per_s);
        pdl_json_number(json, "latency_s", levels[i].latency_s);
        pdl_json_number(json, "ports", levels[i].ports);
        pdl_json_bool(json, "shared", levels[i].shared_medium);
        pdl_json_number(json, "oversubscription", levels[i].oversubscription);
        pdl_json_number(json, "congestion", levels[i].congestion);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

void pdl__device_fields(pdl_json_t *json, const pdl_device_t *device)
{
    pdl_json_open(json, "device", '{');
    pdl_json_string(json, "name", device->name);
    pdl_json_bytes(json, "memory_bytes", device->memory_bytes);
    pdl_json_number(json, "memory_bandwidth_bytes_per_s", device->memory_bandwidth_bytes_per_s);
    pdl_json_open(json, "peak_flop_per_s", '{');
    for (int p = 0; p < PDL_PRECISION_COUNT; p++) {
        if (device->peak_flop_per_s[p] > 0)
            pdl_json_number(json, pdl_precision_names[p], device->peak_flop_per_s[p]);
    }
    pdl_json_close(json);
    pdl_json_number(json, "matrix_efficiency", device->matrix_efficiency);
    pdl_json_number(json, "memory_efficiency", device->memory_efficiency);
    pdl_json_number(json, "power_w", device->power_w);
    if (device->host_link.bytes_per_s[PDL_HOST_TO_HOST] > 0) {
        pdl_json_open(json, "host_link", '{');
        pdl_json_number(json, "d2h_bytes_per_s", device->host_link.bytes_per_s[PDL_HOST_TO_HOST]);
        pdl_json_number(json, "h2d_bytes_per_s", device->host_link.bytes_per_s[PDL_HOST_TO_DEVICE]);
        pdl_json_number(json, "both_bytes_per_s", device->host_link.bytes_per_s[PDL_HOST_BOTH]);
        pdl_json_close(json);
    }
    pdl_json_close(json);
}

/* What is not described is null. */
static void write_storage(pdl_json_t *json, const pdl_storage_t *s)
{
#define KNOWN(value) ((value) > 0 ? (value) : (double)NAN)
    pdl_json_open(json, "storage", '{');
    pdl_json_number(json, "node_bandwidth_bytes_per_s", KNOWN(s->node_bandwidth_bytes_per_s));
    pdl_json_number(json, "total_bandwidth_bytes_per_s", KNOWN(s->total_bandwidth_bytes_per_s));
    pdl_json_number(json, "local_bandwidth_bytes_per_s", KNOWN(s->local_bandwidth_bytes_per_s));
    pdl_json_bytes(json, "local_bytes", KNOWN(s->local_bytes));
    pdl_json_number(json, "client_bandwidth_bytes_per_s", KNOWN(s->client_bandwidth_bytes_per_s));
    pdl_json_number(json, "shared_bandwidth_bytes_per_s", KNOWN(s->shared_bandwidth_bytes_per_s));
    pdl_json_number(json, "shared_efficiency", s->shared_efficiency);
    pdl_json_close(json);
#undef KNOWN
}

pdl_status_t pdl_report_system_json(const pdl_system_t *system, FILE *stream)
{
    const pdl_topology_t *network;
    pdl_status_t          status = pdl_topology_network(system, &network);
    pdl_json_t            json;

    if (status) return status;
    pdl_document_begin(&json, stream, "system/1");
    pdl_json_string(&json, "system", system->name);
    pdl_json_string(&json, "description", system->description);
    pdl_json_string(&json, "source", system->source);
    pdl_json_int(&json, "pe", system->pe_count);
    pdl__device_fields(&json, &system->device);
    pdl__system_part_fields(&json, system);
    write_storage(&json, &system->storage);
    write_levels(&json, "levels", system->level, system->level_count);
    if (system->has_host_path) write_levels(&json, "host_path", system->host_level, system->level_count);
    if (network != NULL) {
        pdl_json_open(&json, "network", '{');
        pdl_json_string(&json, "topology", pdl_topology_name(network));
        pdl_json_string(&json, "description", pdl_topology_description(network));
        pdl_json_int(&json, "hosts", pdl_topology_hosts(network));
        pdl_json_int(&json, "links", pdl_topology_link_count(network));
        pdl_json_close(&json);
    }
    pdl_json_string(&json, "parameters", system->parameters);
    pdl_json_string(&json, "backend", system->backend);
    pdl_json_close(&json);
    return PDL_OK;
}

static void add_targets(pdl_table_t *table, const pdl_dataset_t *dataset)
{
    char text[96], classes[PDL_FORMAT_SIZE];

    if (dataset->target_count == 0) return;
    pdl_format_count(dataset->classes, classes);
    if (dataset->tokens) {
        add_pair(table, "vocabulary", dataset->classes > 0 ? classes : "that of the model");
        return;
    }
    if (dataset->target == PDL_TARGET_VALUES)
        snprintf(text, sizeof(text), "%lld number%s a sample", (long long)dataset->target_count,
                 dataset->target_count == 1 ? "" : "s");
    else
        snprintf(text, sizeof(text), "%s%s", classes,
                 dataset->target == PDL_TARGET_MASK ? ", one for every position" : "");
    add_pair(table, dataset->target == PDL_TARGET_VALUES ? "targets" : "classes", text);
}

pdl_status_t pdl_report_dataset(const pdl_dataset_t *dataset, FILE *stream)
{
    pdl_table_t *table = pdl_table_create(pairs, 2);
    char         text[PDL_FORMAT_SIZE], shape[80];
    pdl_status_t status;

    add_pair(table, "data", dataset->name);
    add_pair(table, "samples", dataset->samples > 0 ? pdl_format_count(dataset->samples, text) : "unlimited");
    if (dataset->shape.channels > 0)
        add_pair(table, "sample", pdl_shape_format(&dataset->shape, shape, sizeof(shape)));
    add_targets(table, dataset);
    add_pair(table, "stored", pdl_format_bytes(dataset->bytes_per_sample, text));
    if (dataset->decode_s_per_sample > 0)
        add_pair(table, "decoding", pdl_format_seconds(dataset->decode_s_per_sample, text));
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    return status;
}

/* Shapes have channels first, as samples arrive; what is not known is null. */
void pdl__dataset_fields(pdl_json_t *json, const pdl_dataset_t *dataset)
{
    static const char *const targets[] = {[PDL_TARGET_CLASS] = "class",
                                          [PDL_TARGET_TOKENS] = "tokens",
                                          [PDL_TARGET_MASK] = "mask",
                                          [PDL_TARGET_VALUES] = "values"};

    pdl_json_int(json, "samples", dataset->samples);
    if (dataset->shape.channels == 0) {
        pdl_json_string(json, "shape", NULL);
    } else {
        pdl_json_open(json, "shape", '[');
        if (!dataset->tokens) pdl_json_int(json, NULL, dataset->shape.channels);
        for (int d = 0; d < dataset->shape.rank; d++) pdl_json_int(json, NULL, dataset->shape.extent[d]);
        pdl_json_close(json);
    }
    pdl_json_bool(json, "tokens", dataset->tokens);
    pdl_json_string(json, "target", dataset->target_count > 0 ? targets[dataset->target] : NULL);
    pdl_json_number(json, "targets_per_sample", dataset->target_count > 0 ? (double)dataset->target_count : NAN);
    pdl_json_number(json, dataset->tokens ? "vocabulary" : "classes",
                    dataset->classes > 0 ? (double)dataset->classes : NAN);
    pdl_json_number(json, "bytes_per_sample", dataset->bytes_per_sample);
    pdl_json_number(json, "decode_s_per_sample", dataset->decode_s_per_sample);
}

pdl_status_t pdl_report_dataset_json(const pdl_dataset_t *dataset, FILE *stream)
{
    pdl_json_t json;

    pdl_document_begin(&json, stream, "dataset/1");
    pdl_json_string(&json, "data", dataset->name);
    pdl__dataset_fields(&json, dataset);
    pdl_json_close(&json);
    return PDL_OK;
}
