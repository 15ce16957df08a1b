/*
 * Writes a model as a flat model file: one entry a layer, only what differs from the defaults.
 */
#include "model/builder.h"
#include "model/internal.h"

#include <paradl/base/output.h>
#include <paradl/base/yaml.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* As few digits as give the same number again; always a decimal point, whatever the locale. */
static void write_number(double value, FILE *stream)
{
    char text[40], *comma;

    snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof(text), "%.17g", value);
    comma = strchr(text, ',');
    if (comma != NULL) *comma = '.';
    fputs(text, stream);
}

static void write_list(const int64_t *values, int count, FILE *stream)
{
    for (int d = 0; d < count; d++) fprintf(stream, "%s%" PRId64, d ? ", " : "", values[d]);
}

static void write_value(const pdl__attribute_t *attribute, const pdl_layer_t *layer, FILE *stream)
{
    const void *value = pdl__attribute_value(attribute, layer);

    fprintf(stream, ", %s: ", attribute->key);
    switch (attribute->kind) {
    case PDL__ATTRIBUTE_INT: fprintf(stream, "%" PRId64, *(const int64_t *)value); break;
    case PDL__ATTRIBUTE_BOOL: fputs(*(const bool *)value ? "true" : "false", stream); break;
    case PDL__ATTRIBUTE_NUMBER: write_number(*(const double *)value, stream); break;
    case PDL__ATTRIBUTE_INIT: fputs(pdl__init_names[*(const pdl_init_t *)value], stream); break;
    case PDL__ATTRIBUTE_EXTENTS:
        fputc('[', stream);
        write_list(value, layer->in.rank, stream);
        fputc(']', stream);
        break;
    }
}

/* Whether a reader would not find out by itself. */
static bool must_write(const pdl__attribute_t *attribute, const pdl_layer_t *layer, const pdl_layer_t *defaults)
{
    const void *value = pdl__attribute_value(attribute, layer);
    size_t      size = pdl__attribute_size(attribute);

    if (attribute->kind == PDL__ATTRIBUTE_EXTENTS) size = (size_t)layer->in.rank * sizeof(int64_t);
    if (value == layer->pad_high) return memcmp(value, layer->pad_low, size) != 0;
    if (value == layer->out.extent) return layer->stride[0] == 0; /* a size is asked for in place of a factor */
    return memcmp(value, pdl__attribute_value(attribute, defaults), size) != 0;
}

static void write_from(const pdl_model_t *model, int index, FILE *stream)
{
    const pdl_layer_t *layer = &model->layers[index];

    if (layer->input_count == 1 && layer->inputs[0] == index - 1) return;
    if (layer->input_count == 0) return;
    fputs(", from: [", stream);
    for (int i = 0; i < layer->input_count; i++) {
        if (i > 0) fputs(", ", stream);
        pdl_yaml_write_quoted(model->layers[layer->inputs[i]].name, stream);
    }
    fputc(']', stream);
}

static void write_shape(const char *key, const pdl_shape_t *shape, FILE *stream)
{
    fprintf(stream, ", %s: [%" PRId64 "%s", key, shape->channels, shape->rank ? ", " : "");
    write_list(shape->extent, shape->rank, stream);
    fputc(']', stream);
}

static void write_layer(const pdl_model_t *model, int index, FILE *stream)
{
    const pdl_layer_t *layer = &model->layers[index];
    pdl_layer_t        defaults = pdl__layer_default(layer->type);

    fprintf(stream, "  - %s: {name: ", pdl_layer_type_name(layer->type));
    pdl_yaml_write_quoted(layer->name, stream);
    write_from(model, index, stream);
    if (model->table) {
        write_shape("x", &layer->in, stream);
        write_shape("y", &layer->out, stream);
    }
    for (const pdl__attribute_t *a = pdl__attributes; a->key != NULL; a++) {
        if (model->table && strcmp(a->key, "out") == 0) continue;
        if (pdl__attribute_of(a, layer->type) && must_write(a, layer, &defaults)) write_value(a, layer, stream);
    }
    if (layer->tied_to >= 0) {
        fputs(", tied: ", stream);
        pdl_yaml_write_quoted(model->layers[layer->tied_to].name, stream);
    }
    fputs("}\n", stream);
}

static void write_input(const pdl_layer_t *layer, FILE *stream)
{
    const pdl_shape_t *shape = &layer->out;

    fputs("{name: ", stream);
    pdl_yaml_write_quoted(layer->name, stream);
    fprintf(stream, ", channels: %" PRId64, shape->channels);
    if (shape->sequence) {
        fprintf(stream, ", tokens: %" PRId64, shape->extent[0]);
    } else if (shape->rank > 0) {
        fputs(", size: [", stream);
        write_list(shape->extent, shape->rank, stream);
        fputc(']', stream);
    }
    if (layer->vocabulary > 0) fprintf(stream, ", vocabulary: %" PRId64, layer->vocabulary);
    fputs("}\n", stream);
}

pdl_status_t pdl_model_write_yaml(const pdl_model_t *model, FILE *stream)
{
    fputs("paradl: model/1\nname: ", stream);
    pdl_yaml_write_quoted(model->name, stream);
    fputs("\ndescription: ", stream);
    pdl_yaml_write_quoted(model->description, stream);
    if (model->table) fputs("\ntable: true", stream);
    fputs("\ninput: ", stream);
    write_input(&model->layers[0], stream);
    fputs("layers:\n", stream);
    for (int i = 1; i < model->count; i++) {
        if (pdl_layer_traits(&model->layers[i])->source) {
            fputs("  - input: ", stream);
            write_input(&model->layers[i], stream);
        } else {
            write_layer(model, i, stream);
        }
    }
    return pdl_output_flush(stream, "the model");
}
