/*
 * A model, layer by layer, with totals.
 */
#include <paradl/base/document.h>
#include <paradl/base/units.h>
#include <paradl/model/traits.h>
#include <paradl/report/report.h>
#include <paradl/report/table.h>

#include <string.h>

#define WINDOW_SIZE 96

/* "7x7" of the extents that a layer has; a window along one extent of a sequence is one number. */
static void format_extents(const int64_t *values, int rank, char *buffer, size_t size)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (int i = 0; i < rank && used < size; i++) {
        int written = snprintf(buffer + used, size - used, "%s%lld", i > 0 ? "x" : "", (long long)values[i]);

        used += written > 0 ? (size_t)written : 0;
    }
}

static bool has_window(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->window && layer->kernel[0] > 0;
}

/* "7x7 / 2x2": kernel and stride. */
static char *format_window(const pdl_layer_t *layer, char buffer[WINDOW_SIZE])
{
    char kernel[40], stride[40];
    int  rank = layer->in.rank;

    buffer[0] = '\0';
    if (!has_window(layer)) return buffer;
    format_extents(layer->kernel, rank, kernel, sizeof(kernel));
    format_extents(layer->stride, rank, stride, sizeof(stride));
    snprintf(buffer, WINDOW_SIZE, "%s / %s", kernel, stride);
    return buffer;
}

static void add_layer(pdl_table_t *table, const pdl_layer_t *layer, int64_t batch)
{
    char window[WINDOW_SIZE], shape[80], weights[PDL_FORMAT_SIZE], elements[PDL_FORMAT_SIZE];

    pdl_table_row(table, PDL_ROW_PLAIN);
    pdl_table_cell(table, "%s", layer->name);
    pdl_table_cell(table, "%s", pdl_layer_type_name(layer->type));
    pdl_table_cell(table, "%s", pdl_shape_format(&layer->out, shape, sizeof(shape)));
    pdl_table_cell(table, "%s", format_window(layer, window));
    pdl_table_cell(table, "%s", layer->weights > 0 ? pdl_format_count(layer->weights, weights) : "");
    if (pdl_layer_macs(layer) > 0)
        pdl_table_cell(table, "%.2f", (double)pdl_layer_macs(layer) * (double)batch / 1e6);
    else
        pdl_table_cell(table, "%s", "");
    pdl_table_cell(table, "%s", pdl_format_short((double)layer->y_elements * (double)batch, elements));
}

static void print_totals(const pdl_model_t *model, int64_t batch, FILE *stream)
{
    pdl_model_totals_t totals;
    char weights[PDL_FORMAT_SIZE], layers[PDL_FORMAT_SIZE], flop[PDL_FORMAT_SIZE], elements[PDL_FORMAT_SIZE],
        bytes[PDL_FORMAT_SIZE], samples[PDL_FORMAT_SIZE];
    double n = (double)batch;

    pdl_model_totals(model, &totals);
    fprintf(stream, "\n%s layers, %s parameters (%.2f M) in %d tensors, %.2f GMAC, %sFLOP forward and backward\n",
            pdl_format_count(pdl_model_layer_count(model) - 1, layers), pdl_format_count(totals.weights, weights),
            (double)totals.weights / 1e6, totals.weight_tensors, (double)totals.macs * n / 1e9,
            pdl_format_short((double)(totals.flop_forward + totals.flop_backward) * n, flop));
    fprintf(stream, "%s activations (%s in fp32) for %s sample%s\n",
            pdl_format_short((double)totals.y_elements * n, elements),
            pdl_format_bytes(4 * (double)totals.y_elements * n, bytes), pdl_format_count(batch, samples),
            batch == 1 ? "" : "s");
}

pdl_status_t pdl_report_model(const pdl_model_t *model, int64_t batch, FILE *stream)
{
    static const pdl_column_t columns[] = {{"layer", PDL_LEFT},       {"type", PDL_LEFT},
                                           {"output", PDL_RIGHT},     {"kernel / stride", PDL_LEFT},
                                           {"parameters", PDL_RIGHT}, {"MMAC", PDL_RIGHT},
                                           {"activations", PDL_RIGHT}};
    const char               *description = pdl_model_description(model);
    pdl_table_t              *table = pdl_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    pdl_status_t              status;

    fprintf(stream, "%s%s%s\n\n", pdl_model_name(model), description[0] != '\0' ? "   " : "", description);
    for (int i = 0; i < pdl_model_layer_count(model); i++) add_layer(table, pdl_model_layer(model, i), batch);
    status = pdl_table_print(table, stream);
    pdl_table_destroy(table);
    if (!status) print_totals(model, batch, stream);
    return status;
}

static void write_shape(pdl_json_t *json, const char *key, const pdl_shape_t *shape)
{
    pdl_json_open(json, key, '{');
    pdl_json_int(json, "channels", shape->channels);
    pdl_json_open(json, shape->sequence ? "sequence" : "size", '[');
    for (int i = 0; i < shape->rank; i++) pdl_json_int(json, NULL, shape->extent[i]);
    pdl_json_close(json);
    pdl_json_close(json);
}

static void write_extents(pdl_json_t *json, const char *key, const int64_t *values, int rank)
{
    pdl_json_open(json, key, '[');
    for (int i = 0; i < rank; i++) pdl_json_int(json, NULL, values[i]);
    pdl_json_close(json);
}

static void write_layer(pdl_json_t *json, const pdl_model_t *model, const pdl_layer_t *layer, double n)
{
    pdl_json_open(json, NULL, '{');
    pdl_json_string(json, "name", layer->name);
    pdl_json_string(json, "type", pdl_layer_type_name(layer->type));
    pdl_json_open(json, "inputs", '[');
    for (int i = 0; i < layer->input_count; i++)
        pdl_json_string(json, NULL, pdl_model_layer(model, layer->inputs[i])->name);
    pdl_json_close(json);
    write_shape(json, "output", &layer->out);
    if (has_window(layer)) {
        write_extents(json, "kernel", layer->kernel, layer->in.rank);
        write_extents(json, "stride", layer->stride, layer->in.rank);
    }
    pdl_json_int(json, "parameters", layer->weights);
    pdl_json_number(json, "macs", (double)pdl_layer_macs(layer) * n);
    pdl_json_number(json, "flop_forward", (double)layer->flop_forward * n);
    pdl_json_number(json, "flop_backward", (double)(layer->flop_backward_data + layer->flop_backward_weight) * n);
    pdl_json_number(json, "activations", (double)layer->y_elements * n);
    pdl_json_close(json);
}

pdl_status_t pdl_report_model_json(const pdl_model_t *model, int64_t batch, FILE *stream)
{
    pdl_model_totals_t totals;
    pdl_json_t         json;
    double             n = (double)batch;

    pdl_model_totals(model, &totals);
    pdl_document_begin(&json, stream, "model/1");
    pdl_json_string(&json, "model", pdl_model_name(model));
    pdl_json_string(&json, "description", pdl_model_description(model));
    pdl_json_int(&json, "batch", batch);
    pdl_json_int(&json, "parameters", totals.weights);
    pdl_json_int(&json, "trained_parameters", totals.trained);
    pdl_json_int(&json, "weight_tensors", totals.weight_tensors);
    pdl_json_number(&json, "macs", (double)totals.macs * n);
    pdl_json_number(&json, "flop_forward", (double)totals.flop_forward * n);
    pdl_json_number(&json, "flop_backward", (double)totals.flop_backward * n);
    pdl_json_number(&json, "activations", (double)totals.y_elements * n);
    pdl_json_open(&json, "layers", '[');
    for (int i = 0; i < pdl_model_layer_count(model); i++) write_layer(&json, model, pdl_model_layer(model, i), n);
    pdl_json_close(&json);
    pdl_json_close(&json);
    return PDL_OK;
}
