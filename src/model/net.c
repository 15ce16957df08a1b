/*
 * The text files of the original oracle: `.net`, a table of layers, and `.lc`, which of them a strategy splits.
 *
 *     Dataset|ImageNet
 *     Input|1280000x3x226x226                 samples x channels x extents
 *     Model|ResNet50
 *     CONV_1|3x226x226|3x64x7x7|64x113x113|0.003119502
 *
 * A line is NAME|input|weights|output[|seconds per sample]; '#' starts a comment line. The type is a part of
 * the name. A weight shape with a zero means no weights; its last numbers are still the window of pooling.
 * Names need not be unique: the second RELU is called RELU#2 in the model.
 */
#include "model/builder.h"
#include "model/internal.h"

#include <paradl/base/units.h>

#include <stdlib.h>
#include <string.h>

#define MAX_LINE       1024
#define MAX_FIELDS     5
#define MAX_DIMENSIONS (2 + PDL_MAX_SPACE)

typedef struct lines {
    const char *cursor, *end;
    const char *file;
    int         number;
    char        text[MAX_LINE];
    char       *fields[MAX_FIELDS];
    int         field_count;
} lines_t;

static pdl_status_t line_error(const lines_t *lines, const char *what, const char *detail)
{
    return pdl_error(PDL_ERR_INPUT, "%s:%d: %s%.60s", lines->file, lines->number, what, detail);
}

static char *trim(char *text)
{
    char *end;

    while (*text == ' ' || *text == '\t') text++;
    end = text + strlen(text);
    while (end > text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) *--end = '\0';
    return text;
}

static pdl_status_t split_fields(lines_t *lines, char *text)
{
    char *bar;

    lines->field_count = 0;
    for (;;) {
        if (lines->field_count == MAX_FIELDS) return line_error(lines, "more than five fields", "");
        bar = strchr(text, '|');
        if (bar != NULL) *bar = '\0';
        lines->fields[lines->field_count++] = trim(text);
        if (bar == NULL) return PDL_OK;
        text = bar + 1;
    }
}

/* The next line that says something, split at its bars; *more is false at the end of the text. */
static pdl_status_t next_line(lines_t *lines, bool *more)
{
    while (lines->cursor < lines->end) {
        const char *stop = memchr(lines->cursor, '\n', (size_t)(lines->end - lines->cursor));
        size_t      length = (size_t)((stop ? stop : lines->end) - lines->cursor);
        char       *text;

        lines->number++;
        if (length >= MAX_LINE) return line_error(lines, "the line is too long", "");
        if (memchr(lines->cursor, '\0', length) != NULL) return line_error(lines, "this is not a text file", "");
        memcpy(lines->text, lines->cursor, length);
        lines->text[length] = '\0';
        lines->cursor = stop ? stop + 1 : lines->end;
        text = trim(lines->text);
        if (text[0] == '\0' || text[0] == '#') continue;
        *more = true;
        return split_fields(lines, text);
    }
    *more = false;
    return PDL_OK;
}

/* "3x226x226" to numbers. */
static pdl_status_t read_dimensions(const lines_t *lines, const char *text, int64_t min, int64_t *values,
                                    int *count)
{
    char        number[24];
    const char *start = text;

    *count = 0;
    for (;;) {
        size_t length = strcspn(start, "x");

        if (*count == MAX_DIMENSIONS) return line_error(lines, "too many dimensions: ", text);
        if (length == 0 || length >= sizeof(number)) return line_error(lines, "not a shape: ", text);
        memcpy(number, start, length);
        number[length] = '\0';
        if (pdl_parse_int(number, min, PDL_MAX_ATTRIBUTE, &values[(*count)++]))
            return line_error(lines, "not a shape like 3x226x226: ", text);
        if (start[length] == '\0') return PDL_OK;
        start += length + 1;
    }
}

static pdl_status_t read_shape(const lines_t *lines, const char *text, pdl_shape_t *shape)
{
    int64_t      values[MAX_DIMENSIONS];
    int          count;
    pdl_status_t status = read_dimensions(lines, text, 1, values, &count);

    if (status) return status;
    if (count > 1 + PDL_MAX_SPACE) return line_error(lines, "too many dimensions: ", text);
    *shape = (pdl_shape_t){.channels = values[0], .rank = count - 1, .extent = {1, 1, 1}};
    for (int d = 1; d < count; d++) shape->extent[d - 1] = values[d];
    return PDL_OK;
}

static pdl_status_t find_type(const lines_t *lines, pdl_layer_type_t *type)
{
    static const struct {
        const char      *part;
        pdl_layer_type_t type;
    } parts[] = {
        {"CONV", PDL_LAYER_CONV}, {"MPOOL", PDL_LAYER_MAX_POOL},  {"APOOL", PDL_LAYER_AVG_POOL},
        {"RELU", PDL_LAYER_RELU}, {"FC", PDL_LAYER_LINEAR},       {"BNORM", PDL_LAYER_BATCH_NORM},
        {"ADD", PDL_LAYER_ADD},   {"DROPOUT", PDL_LAYER_DROPOUT},
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strstr(lines->fields[0], parts[i].part) == NULL) continue;
        *type = parts[i].type;
        return PDL_OK;
    }
    return line_error(lines, "the name holds none of CONV, MPOOL, APOOL, RELU, FC, BNORM, ADD, DROPOUT: ",
                      lines->fields[0]);
}

/* The smallest stride that leads from the input to the output: without padding if that is possible, else with
   as much as makes ceil(in / stride) outputs. A window that covers everything moves by the whole extent. */
static int64_t infer_stride(int64_t in, int64_t out, int64_t kernel)
{
    int64_t unpadded = kernel <= in ? (in - kernel) / out + 1 : 0; /* the smallest with at most `out` windows */

    if (out == 1) return in;
    if (unpadded > 0 && (in - kernel) / unpadded == out - 1) return unpadded;
    return out < in ? (in + out - 1) / out : 1;
}

static void infer_window(pdl_layer_t *layer, const int64_t *kernel, int rank)
{
    for (int d = 0; d < rank; d++) {
        int64_t in = layer->in.extent[d], out = layer->out.extent[d], missing;

        layer->kernel[d] = kernel[d] > 0 ? kernel[d] : 1;
        layer->stride[d] = pdl_layer_is_linear(layer) ? 1 : infer_stride(in, out, layer->kernel[d]);
        missing = (out - 1) * layer->stride[d] + layer->kernel[d] - in;
        layer->pad_low[d] = missing > 0 ? missing / 2 : 0;
        layer->pad_high[d] = missing > 0 ? missing - missing / 2 : 0;
    }
}

static pdl_status_t read_weights(const lines_t *lines, pdl_layer_t *layer)
{
    int64_t      values[MAX_DIMENSIONS];
    int          count;
    bool         weights = pdl_layer_traits(layer)->kernel == PDL_KERNEL_MATRIX;
    bool         window = weights || pdl_layer_traits(layer)->pool;
    pdl_status_t status = read_dimensions(lines, lines->fields[2], 0, values, &count);

    for (int d = 0; d < PDL_MAX_SPACE; d++) layer->kernel[d] = layer->stride[d] = layer->dilation[d] = 1;
    if (status || !window) return status;
    if (count != 2 + layer->in.rank || layer->out.rank != layer->in.rank)
        return line_error(lines, "input, weights and output differ in dimensions: ", lines->fields[0]);
    if (weights && (values[0] != layer->in.channels || values[1] != layer->out.channels))
        return line_error(lines, "the weights do not fit the channels: ", lines->fields[2]);
    for (int d = 0; d < layer->in.rank; d++)
        if (values[2 + d] < 1) return line_error(lines, "the window has a zero: ", lines->fields[2]);
    infer_window(layer, values + 2, layer->in.rank);
    return PDL_OK;
}

/* NAME, or NAME#2, NAME#3 ... for the later ones of this name. `numbers` counts how often each type was
   tried, so that thousands of equal names stay cheap. */
static void unique_name(const pdl_model_builder_t *builder, const char *name, int *number, char *full, size_t size)
{
    snprintf(full, size, "%s", name);
    while (pdl__builder_find(builder, full) >= 0) {
        if (*number < 2) *number = 2;
        snprintf(full, size, "%s#%d", name, (*number)++);
    }
}

static pdl_status_t add_line(lines_t *lines, pdl_model_builder_t *builder, int numbers[PDL_LAYER_TYPE_COUNT])
{
    char             where[512], name[MAX_LINE + 16];
    int              previous = pdl__builder_count(builder) - 1;
    pdl_layer_type_t type = PDL_LAYER_INPUT;
    pdl_layer_t      layer;
    pdl_status_t     status;

    if (lines->field_count < 4) return line_error(lines, "expected NAME|input|weights|output", "");
    status = find_type(lines, &type);
    if (status) return status;
    layer = pdl__layer_default(type);
    layer.bias = false;
    layer.inputs = &previous;
    layer.input_count = 1;
    status = read_shape(lines, lines->fields[1], &layer.in);
    if (!status) status = read_shape(lines, lines->fields[3], &layer.out);
    if (!status) status = read_weights(lines, &layer);
    if (status) return status;
    if (lines->field_count == 5 && pdl_parse_quantity(lines->fields[4], PDL_UNIT_NONE, &layer.measured_s))
        return line_error(lines, "not a time in seconds: ", lines->fields[4]);
    unique_name(builder, lines->fields[0], &numbers[type], name, sizeof(name));
    layer.name = name;
    snprintf(where, sizeof(where), "%.400s:%d", lines->file, lines->number);
    return pdl__builder_add(builder, &layer, where, NULL);
}

/* One of the three lines that open a file; its value is the second field. */
static pdl_status_t read_header(lines_t *lines, const char *key, const char **value)
{
    bool         more;
    char         expected[32];
    pdl_status_t status = next_line(lines, &more);

    if (status) return status;
    snprintf(expected, sizeof(expected), "%s|...", key);
    if (!more || lines->field_count != 2 || strcmp(lines->fields[0], key) != 0)
        return line_error(lines, "expected a line ", expected);
    *value = lines->fields[1];
    return PDL_OK;
}

/* Samples come first in the input's shape: they belong to the data set, not to the first layer. */
static pdl_status_t read_input(const lines_t *lines, const char *text, pdl_layer_t *input, int64_t *samples)
{
    const char  *shape = strchr(text, 'x');
    int64_t      values[MAX_DIMENSIONS];
    int          count;
    pdl_status_t status = read_dimensions(lines, text, 1, values, &count);

    if (status) return status;
    if (shape == NULL) return line_error(lines, "expected samples x channels x extents: ", text);
    *samples = values[0];
    *input = pdl__layer_default(PDL_LAYER_INPUT);
    input->name = "input";
    return read_shape(lines, shape + 1, &input->out);
}

static pdl_status_t read_layers(lines_t *lines, const pdl_layer_t *input, pdl_model_builder_t *builder)
{
    int          numbers[PDL_LAYER_TYPE_COUNT] = {0};
    bool         more = true;
    pdl_status_t status;

    pdl__builder_set_table(builder);
    status = pdl__builder_add(builder, input, lines->file, NULL);
    while (!status) {
        status = next_line(lines, &more);
        if (!status && !more) break;
        if (!status) status = add_line(lines, builder, numbers);
    }
    if (!status && pdl__builder_count(builder) < 2) return line_error(lines, "there are no layers", "");
    return status;
}

pdl_status_t pdl_model_read_net_memory(const char *text, size_t length, const char *name, pdl_model_t **model)
{
    lines_t              lines = {.cursor = text, .end = text + length, .file = name};
    const char          *value = "";
    char                 description[128];
    pdl_layer_t          input;
    int64_t              samples = 0;
    pdl_model_builder_t *builder;
    pdl_status_t         status = read_header(&lines, "Dataset", &value);

    if (status) return status;
    snprintf(description, sizeof(description), "layer table of the original oracle, data set %.60s", value);
    status = read_header(&lines, "Input", &value);
    if (!status) status = read_input(&lines, value, &input, &samples);
    if (!status) status = read_header(&lines, "Model", &value);
    if (status) return status;
    builder = pdl__builder_create(value, description);
    if (builder == NULL) return PDL_ERR_NOMEM;
    status = read_layers(&lines, &input, builder);
    if (status) {
        pdl__builder_destroy(builder);
        return status;
    }
    status = pdl__builder_finish(builder, model);
    if (!status) (*model)->table_samples = samples;
    return status;
}

/* Whether `name` of a .lc file means the layer: equal, but for the number of a repeated name. */
static bool same_name(const char *layer, const char *name)
{
    size_t length = strlen(name);

    return strncmp(layer, name, length) == 0 && (layer[length] == '\0' || layer[length] == '#');
}

static pdl_status_t read_flags(lines_t *lines, const pdl_model_t *model, bool *flags)
{
    bool more = true;

    flags[0] = false;
    for (int i = 1;; i++) {
        pdl_status_t status = next_line(lines, &more);

        if (status) return status;
        if (!more && i == model->count) return PDL_OK;
        if (!more) return line_error(lines, "no line for layer ", model->layers[i].name);
        if (i == model->count) return line_error(lines, "the model has no further layer: ", lines->fields[0]);
        if (lines->field_count != 2 || (strcmp(lines->fields[1], "0") != 0 && strcmp(lines->fields[1], "1") != 0))
            return line_error(lines, "expected NAME|0 or NAME|1", "");
        if (!same_name(model->layers[i].name, lines->fields[0]))
            return line_error(lines, "expected a line for layer ", model->layers[i].name);
        flags[i] = lines->fields[1][0] == '1';
    }
}

pdl_status_t pdl_model_read_lc(const char *path, const pdl_model_t *model, bool *flags)
{
    lines_t      lines = {.file = path};
    char        *text;
    size_t       length;
    pdl_status_t status = pdl__read_file(path, &text, &length);

    if (status) return status;
    lines.cursor = text;
    lines.end = text + length;
    status = read_flags(&lines, model, flags);
    free(text);
    return status;
}
