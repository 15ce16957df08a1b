/*
 * One layer of a model file: its type, name, inputs and attributes. Attributes are read by the table of
 * attributes.c; integers may be expressions over the parameters in scope.
 */
#include "model/yaml/layer.h"

#include "model/internal.h"

#include <stdlib.h>
#include <string.h>

pdl_status_t pdl__yaml_value(const pdl_yaml_t *node, const pdl__scope_t *scope, pdl__value_t *value)
{
    char         message[256];
    pdl_status_t status = pdl_yaml_expect(node, PDL_YAML_SCALAR, "a number or an expression");

    if (status) return status;
    if (!pdl__evaluate(pdl_yaml_text(node), scope, value, message, sizeof(message)))
        return pdl_yaml_error(node, "%s", message);
    return PDL_OK;
}

pdl_status_t pdl__yaml_integer(const pdl_yaml_t *node, const pdl__scope_t *scope, int64_t min, int64_t max,
                               int64_t *value)
{
    pdl__value_t result;
    pdl_status_t status = pdl__yaml_value(node, scope, &result);

    if (status) return status;
    if (!result.whole) return pdl_yaml_error(node, "\"%.60s\" is not a whole number", pdl_yaml_text(node));
    if (result.integer < min || result.integer > max)
        return pdl_yaml_error(node, "%lld is outside %lld .. %lld", (long long)result.integer, (long long)min,
                              (long long)max);
    *value = result.integer;
    return PDL_OK;
}

static pdl_status_t read_bool(const pdl_yaml_t *node, const pdl__scope_t *scope, bool *value)
{
    const char  *text = pdl_yaml_text(node);
    int64_t      integer;
    pdl_status_t status;

    if (text != NULL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
        *value = text[0] == 't';
        return PDL_OK;
    }
    status = pdl__yaml_integer(node, scope, 0, 1, &integer);
    if (!status) *value = integer != 0;
    return status;
}

/* A list has one integer per dimension of space; one integer stands for all of them. */
static pdl_status_t read_extents(const pdl_yaml_t *node, const pdl__scope_t *scope,
                                 const pdl__attribute_t *attribute, int rank, int64_t neutral, int64_t *extents)
{
    int64_t      min = (int64_t)attribute->min, max = (int64_t)attribute->max;
    bool         list = pdl_yaml_kind(node) == PDL_YAML_SEQUENCE;
    pdl_status_t status = PDL_OK;

    if (list && pdl_yaml_size(node) != (size_t)rank)
        return pdl_yaml_error(node, "%s needs one integer or %d, one per dimension", attribute->key, rank);
    for (int d = 0; d < PDL_MAX_SPACE && !status; d++) {
        if (d >= rank)
            extents[d] = neutral;
        else
            status = pdl__yaml_integer(list ? pdl_yaml_item(node, (size_t)d) : node, scope, min, max, &extents[d]);
    }
    return status;
}

static pdl_status_t read_attribute(const pdl_yaml_t *node, const pdl__scope_t *scope,
                                   const pdl__attribute_t *attribute, int rank, pdl_layer_t *layer)
{
    void        *field = pdl__attribute_field(attribute, layer);
    bool         pad = field == layer->pad_low || field == layer->pad_high;
    pdl__value_t value;
    int          choice;
    pdl_status_t status;

    switch (attribute->kind) {
    case PDL__ATTRIBUTE_INT:
        return pdl__yaml_integer(node, scope, (int64_t)attribute->min, (int64_t)attribute->max, field);
    case PDL__ATTRIBUTE_EXTENTS: return read_extents(node, scope, attribute, rank, pad ? 0 : 1, field);
    case PDL__ATTRIBUTE_BOOL: return read_bool(node, scope, field);
    case PDL__ATTRIBUTE_NUMBER:
        status = pdl__yaml_value(node, scope, &value);
        if (status) return status;
        if (!(value.number >= attribute->min && value.number <= attribute->max))
            return pdl_yaml_error(node, "%s must be between %g and %g", attribute->key, attribute->min,
                                  attribute->max);
        *(double *)field = value.number;
        return PDL_OK;
    case PDL__ATTRIBUTE_INIT:
        status = pdl_yaml_enum(node, pdl__init_names, PDL__INIT_COUNT, &choice);
        if (!status) *(pdl_init_t *)field = (pdl_init_t)choice;
        return status;
    }
    return PDL_OK;
}

static bool is_same(const pdl_yaml_t *pad)
{
    return pad != NULL && pdl_yaml_text(pad) != NULL && strcmp(pdl_yaml_text(pad), "same") == 0;
}

/* ceil(extent / stride) outputs; an odd element of padding goes to the high end. */
static void pad_same(pdl_layer_t *layer)
{
    for (int d = 0; d < layer->in.rank; d++) {
        int64_t stride = layer->stride[d] ? layer->stride[d] : layer->kernel[d];
        int64_t extent = layer->in.extent[d], out = stride ? (extent + stride - 1) / stride : 0;
        int64_t total = (out - 1) * stride + layer->dilation[d] * (layer->kernel[d] - 1) + 1 - extent;

        layer->pad_low[d] = total > 0 ? total / 2 : 0;
        layer->pad_high[d] = total > 0 ? total - total / 2 : 0;
    }
}

/* Rounds the number of windows up by padding the high end, unless the last one would be outside the input. */
static void pad_ceil(pdl_layer_t *layer)
{
    for (int d = 0; d < layer->in.rank; d++) {
        int64_t stride = layer->stride[d] ? layer->stride[d] : layer->kernel[d];
        int64_t covered = layer->dilation[d] * (layer->kernel[d] - 1) + 1;
        int64_t space = layer->in.extent[d] + layer->pad_low[d] + layer->pad_high[d] - covered;
        int64_t missing = stride > 0 && space >= 0 ? (stride - space % stride) % stride : 0;

        if (missing > 0 && space + missing < layer->in.extent[d] + layer->pad_low[d]) layer->pad_high[d] += missing;
    }
}

static pdl_status_t read_padding(const pdl_yaml_t *mapping, const pdl__scope_t *scope, pdl_layer_t *layer)
{
    static const pdl__attribute_t shrink = {.key = "output_pad", .max = PDL_MAX_ATTRIBUTE};

    const pdl_yaml_t *ceil = pdl_yaml_find(mapping, "ceil"), *output = pdl_yaml_find(mapping, "output_pad");
    int64_t           extra[PDL_MAX_SPACE];
    bool              up = false;
    pdl_status_t      status = PDL_OK;

    if (is_same(pdl_yaml_find(mapping, "pad")))
        pad_same(layer);
    else if (pdl_yaml_find(mapping, "pad_high") == NULL)
        memcpy(layer->pad_high, layer->pad_low, sizeof(layer->pad_high));
    if (ceil != NULL) status = read_bool(ceil, scope, &up);
    if (up) pad_ceil(layer);
    if (status || output == NULL) return status;
    status = read_extents(output, scope, &shrink, layer->in.rank, 0, extra);
    for (int d = 0; d < PDL_MAX_SPACE && !status; d++) layer->pad_high[d] -= extra[d];
    return status;
}

/* Keys of a layer that are not attributes but are read elsewhere. */
static bool is_structure(pdl_layer_type_t type, const char *key, bool table)
{
    static const char *const always[] = {"name", "from", "tied", NULL};
    const pdl_traits_t      *traits = pdl_type_traits(type);

    for (int i = 0; always[i] != NULL; i++)
        if (strcmp(key, always[i]) == 0) return true;
    if ((type == PDL_LAYER_GELU || type == PDL_LAYER_GELU_TANH) && strcmp(key, "approximate") == 0) return true;
    if (table && (strcmp(key, "x") == 0 || strcmp(key, "y") == 0)) return true;
    return (traits->pool && strcmp(key, "ceil") == 0) || (traits->transposed && strcmp(key, "output_pad") == 0);
}

static pdl_status_t unknown_key(const pdl_yaml_t *node, pdl_layer_type_t type, const char *key)
{
    char   list[400] = "name, from";
    size_t length = strlen(list);

    for (const pdl__attribute_t *a = pdl__attributes; a->key != NULL && length < sizeof(list) - 20; a++)
        if (pdl__attribute_of(a, type))
            length += (size_t)snprintf(list + length, sizeof(list) - length, ", %s", a->key);
    return pdl_yaml_error(node, "%s has no attribute %.60s; it has %s", pdl_layer_type_name(type), key, list);
}

static pdl_status_t read_attributes(const pdl__yaml_reader_t *reader, const pdl_yaml_t *mapping,
                                    const pdl__scope_t *scope, pdl_layer_t *layer)
{
    bool window = pdl__attribute_find(layer->type, "pad") != NULL;

    for (size_t i = 0; i < pdl_yaml_size(mapping); i++) {
        const char             *key = pdl_yaml_key(mapping, i);
        const pdl_yaml_t       *value = pdl_yaml_value(mapping, i);
        const pdl__attribute_t *attribute = pdl__attribute_find(layer->type, key);
        pdl_status_t            status;

        if (is_structure(layer->type, key, reader->table)) continue;
        if (attribute == NULL) return unknown_key(value, layer->type, key);
        if (strcmp(key, "pad") == 0 && is_same(value)) continue;
        status = read_attribute(value, scope, attribute, layer->in.rank, layer);
        if (status) return status;
    }
    return window ? read_padding(mapping, scope, layer) : PDL_OK;
}

/* The attribute that `type: value` sets, where one is what people mean. */
static const pdl__attribute_t *main_attribute(pdl_layer_type_t type)
{
    const char *key = pdl_type_traits(type)->main_attribute;

    return key ? pdl__attribute_find(type, key) : NULL;
}

pdl_status_t pdl__yaml_resolve(const pdl__yaml_reader_t *reader, const pdl__yaml_frame_t *frame,
                               const pdl_yaml_t *node, int *index)
{
    char         full[2 * PDL__MAX_PREFIX];
    const char  *name;
    pdl_status_t status = pdl_yaml_string(node, &name);

    if (status) return status;
    if (strcmp(name, "in") == 0) {
        *index = frame->in;
        return PDL_OK;
    }
    for (const pdl__yaml_frame_t *f = frame; f != NULL; f = f->parent) {
        snprintf(full, sizeof(full), "%s%s", f->prefix, name);
        *index = pdl__builder_find(reader->builder, full);
        if (*index >= 0) return PDL_OK;
    }
    /* Not reserved: a layer may have this name. */
    if (strcmp(name, "before") == 0 && frame->parent != NULL) {
        *index = frame->before;
        return PDL_OK;
    }
    return pdl_yaml_error(node, "no layer %.100s before this one", name);
}

static pdl_status_t add_input_index(pdl__yaml_reader_t *reader, int index)
{
    if (reader->input_count == reader->input_room) {
        int  room = reader->input_room ? 2 * reader->input_room : 16;
        int *inputs = realloc(reader->inputs, (size_t)room * sizeof(*inputs));

        if (inputs == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the inputs of a layer");
        reader->inputs = inputs;
        reader->input_room = room;
    }
    reader->inputs[reader->input_count++] = index;
    return PDL_OK;
}

/* Inputs: those named by `from` (a name or a list), else the layer before. */
static pdl_status_t read_inputs(pdl__yaml_reader_t *reader, const pdl__yaml_frame_t *frame, const pdl_yaml_t *from)
{
    bool   list = from != NULL && pdl_yaml_kind(from) == PDL_YAML_SEQUENCE;
    size_t count = list ? pdl_yaml_size(from) : 1;

    reader->input_count = 0;
    for (size_t i = 0; i < count; i++) {
        int          index = frame->previous;
        pdl_status_t status = PDL_OK;

        if (from != NULL) status = pdl__yaml_resolve(reader, frame, list ? pdl_yaml_item(from, i) : from, &index);
        if (!status) status = add_input_index(reader, index);
        if (status) return status;
    }
    return PDL_OK;
}

/* "layer1.0." and the given name, or the type, numbered from the second of its kind. */
static pdl_status_t make_name(const pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry,
                              const pdl_yaml_t *name, pdl_layer_type_t type, char *full, size_t size)
{
    const char  *text;
    pdl_status_t status;
    int          length;

    if (name != NULL) {
        status = pdl_yaml_string(name, &text);
        if (status) return status;
        length = snprintf(full, size, "%s%s", frame->prefix, text);
    } else {
        do {
            int number = ++frame->numbers[type];
            length = number == 1
                         ? snprintf(full, size, "%s%s", frame->prefix, pdl_layer_type_name(type))
                         : snprintf(full, size, "%s%s_%d", frame->prefix, pdl_layer_type_name(type), number);
        } while (length >= 0 && (size_t)length < size && pdl__builder_find(reader->builder, full) >= 0);
    }
    if (length < 0 || (size_t)length >= size) return pdl_yaml_error(name ? name : entry, "the name is too long");
    return PDL_OK;
}

/* Adds the layer; what the builder found wrong is reported at the entry. */
static pdl_status_t add_layer(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry,
                              const pdl_layer_t *layer)
{
    char         message[1024];
    pdl_status_t status = pdl__builder_add(reader->builder, layer, NULL, &frame->previous);

    if (status != PDL_ERR_INPUT) return status;
    snprintf(message, sizeof(message), "%s", pdl_error_message());
    return pdl_yaml_error(entry, "%s", message);
}

/* [channels, extent, ...] of a table of layers. */
static pdl_status_t read_given_shape(const pdl_yaml_t *mapping, const char *key, const pdl__scope_t *scope,
                                     const pdl_yaml_t *entry, pdl_shape_t *shape)
{
    const pdl_yaml_t *list = mapping ? pdl_yaml_find(mapping, key) : NULL;
    size_t            size = list && pdl_yaml_kind(list) == PDL_YAML_SEQUENCE ? pdl_yaml_size(list) : 0;
    pdl_status_t      status;

    if (size < 1 || size > 1 + PDL_MAX_SPACE)
        return pdl_yaml_error(list ? list : entry, "%s: [channels, extents...] is needed in a table of layers",
                              key);
    *shape = (pdl_shape_t){.rank = (int)size - 1, .extent = {1, 1, 1}};
    status = pdl__yaml_integer(pdl_yaml_item(list, 0), scope, 1, PDL_MAX_ATTRIBUTE, &shape->channels);
    for (size_t d = 1; d < size && !status; d++)
        status = pdl__yaml_integer(pdl_yaml_item(list, d), scope, 1, PDL_MAX_ATTRIBUTE, &shape->extent[d - 1]);
    return status;
}

static pdl_status_t read_layer(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry,
                               const pdl_yaml_t *mapping, const pdl_yaml_t *value, pdl_layer_t *layer)
{
    const pdl_yaml_t       *tied = mapping ? pdl_yaml_find(mapping, "tied") : NULL;
    const pdl__attribute_t *main = main_attribute(layer->type);
    pdl_status_t            status = PDL_OK;

    layer->inputs = reader->inputs;
    layer->input_count = reader->input_count;
    if (reader->table) {
        status = read_given_shape(mapping, "x", frame->scope, entry, &layer->in);
        if (!status) status = read_given_shape(mapping, "y", frame->scope, entry, &layer->out);
    } else if (layer->input_count > 0) {
        layer->in = pdl__builder_layer(reader->builder, layer->inputs[0])->out;
    }
    if (!status && mapping != NULL) status = read_attributes(reader, mapping, frame->scope, layer);
    if (!status && mapping == NULL && value != NULL && pdl_yaml_kind(value) == PDL_YAML_SCALAR &&
        pdl_yaml_text(value)[0] != '\0') {
        if (main == NULL)
            return pdl_yaml_error(value, "%s takes attributes in braces", pdl_layer_type_name(layer->type));
        status = read_attribute(value, frame->scope, main, layer->in.rank, layer);
    }
    if (!status && tied != NULL) status = pdl__yaml_resolve(reader, frame, tied, &layer->tied_to);
    return status;
}

static pdl_status_t find_type(const pdl_yaml_t *entry, const char *text, pdl_layer_type_t *type)
{
    for (int t = 0; t < PDL_LAYER_TYPE_COUNT; t++) {
        if (strcmp(text, pdl_layer_type_name((pdl_layer_type_t)t)) != 0) continue;
        *type = (pdl_layer_type_t)t;
        return PDL_OK;
    }
    return pdl_yaml_error(entry, "unknown layer type %.60s", text);
}

/* The approximation of GELU is a type of its own, so that kernels and fusions tell it by the type. */
static pdl_status_t read_approximation(const pdl_yaml_t *mapping, const pdl__scope_t *scope, pdl_layer_type_t *type)
{
    const pdl_yaml_t *node = mapping ? pdl_yaml_find(mapping, "approximate") : NULL;
    const char       *text = node ? pdl_yaml_text(node) : NULL;
    int64_t           tanh = text != NULL && strcmp(text, "tanh") == 0;
    pdl_status_t      status = PDL_OK;

    if (node == NULL || (*type != PDL_LAYER_GELU && *type != PDL_LAYER_GELU_TANH)) return PDL_OK;
    if (*type == PDL_LAYER_GELU_TANH)
        return pdl_yaml_error(node, "gelu_tanh is the approximation: leave approximate out, or write gelu");
    if (!tanh && (text == NULL || strcmp(text, "none") != 0)) status = pdl__yaml_integer(node, scope, 0, 1, &tanh);
    if (status) return pdl_yaml_error(node, "approximate is tanh or none, or an expression that is 1 or 0");
    if (tanh) *type = PDL_LAYER_GELU_TANH;
    return PDL_OK;
}

pdl_status_t pdl__yaml_add_layer(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *entry,
                                 const char *type, const pdl_yaml_t *value)
{
    const pdl_yaml_t *mapping = value && pdl_yaml_kind(value) == PDL_YAML_MAPPING ? value : NULL;
    const pdl_yaml_t *from = value && pdl_yaml_kind(value) == PDL_YAML_SEQUENCE ? value : NULL;
    char              name[2 * PDL__MAX_PREFIX];
    pdl_layer_type_t  layer_type = PDL_LAYER_INPUT;
    pdl_layer_t       layer;
    pdl_status_t      status = find_type(entry, type, &layer_type);

    if (status) return status;
    if (pdl_type_traits(layer_type)->source) {
        status = pdl_yaml_expect(value ? value : entry, PDL_YAML_MAPPING, "input: {channels: ..., size: [...]}");
        return status ? status : pdl__yaml_add_input(reader, frame, value);
    }
    if (mapping != NULL) from = pdl_yaml_find(mapping, "from");
    status = read_approximation(mapping, frame->scope, &layer_type);
    if (status) return status;
    layer = pdl__layer_default(layer_type);
    status = make_name(reader, frame, entry, mapping ? pdl_yaml_find(mapping, "name") : NULL, layer_type, name,
                       sizeof(name));
    if (!status) status = read_inputs(reader, frame, from);
    if (!status) status = read_layer(reader, frame, entry, mapping, value, &layer);
    layer.name = name;
    return status ? status : add_layer(reader, frame, entry, &layer);
}

static pdl_status_t read_input_shape(const pdl_yaml_t *mapping, const pdl__scope_t *scope, pdl_layer_t *layer)
{
    const pdl_yaml_t *channels = pdl_yaml_find(mapping, "channels"), *size = pdl_yaml_find(mapping, "size");
    const pdl_yaml_t *tokens = pdl_yaml_find(mapping, "tokens"), *vocabulary = pdl_yaml_find(mapping, "vocabulary");
    pdl_shape_t      *shape = &layer->out;
    pdl_status_t      status = PDL_OK;

    if (channels == NULL && tokens == NULL)
        return pdl_yaml_error(mapping, "an input needs channels, and size: [...] if it has space, or tokens");
    if (size != NULL && tokens != NULL) return pdl_yaml_error(tokens, "an input has either a size or tokens");
    shape->channels = 1;
    if (channels != NULL) status = pdl__yaml_integer(channels, scope, 1, PDL_MAX_ATTRIBUTE, &shape->channels);
    if (!status && tokens != NULL) {
        shape->rank = 1;
        shape->sequence = true;
        status = pdl__yaml_integer(tokens, scope, 1, PDL_MAX_ATTRIBUTE, &shape->extent[0]);
    }
    if (!status && vocabulary != NULL)
        status = pdl__yaml_integer(vocabulary, scope, 1, PDL_MAX_ATTRIBUTE, &layer->vocabulary);
    if (status || size == NULL) return status;

    status = pdl_yaml_expect(size, PDL_YAML_SEQUENCE, "a list of 1 to 3 extents");
    if (status) return status;
    if (pdl_yaml_size(size) < 1 || pdl_yaml_size(size) > PDL_MAX_SPACE)
        return pdl_yaml_error(size, "expected a list of 1 to 3 extents");
    shape->rank = (int)pdl_yaml_size(size);
    for (int d = 0; d < shape->rank && !status; d++)
        status = pdl__yaml_integer(pdl_yaml_item(size, (size_t)d), scope, 1, PDL_MAX_ATTRIBUTE, &shape->extent[d]);
    return status;
}

pdl_status_t pdl__yaml_add_input(pdl__yaml_reader_t *reader, pdl__yaml_frame_t *frame, const pdl_yaml_t *mapping)
{
    static const char *const keys[] = {"name", "channels", "size", "tokens", "vocabulary", NULL};

    char         name[2 * PDL__MAX_PREFIX];
    pdl_layer_t  layer = pdl__layer_default(PDL_LAYER_INPUT);
    pdl_status_t status = pdl_yaml_check_keys(mapping, keys);

    if (!status)
        status =
            make_name(reader, frame, mapping, pdl_yaml_find(mapping, "name"), PDL_LAYER_INPUT, name, sizeof(name));
    if (!status) status = read_input_shape(mapping, frame->scope, &layer);
    layer.name = name;
    return status ? status : add_layer(reader, frame, mapping, &layer);
}
