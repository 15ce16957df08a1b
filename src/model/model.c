/*
 * Loading a model by name or path, and looking at it.
 */
#include "model/internal.h"
#include "model/onnx/onnx.h"

#include "base/closest.h"

#include <paradl/base/share.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES (INT64_C(4) << 30)

static const char *const extensions[] = {".yaml", ".net", ".onnx", ".json", NULL};

static pdl_status_t read_open_file(FILE *file, const char *path, char **data, size_t *length)
{
    long  size;
    char *buffer;

    if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0)
        return pdl_error(PDL_ERR_IO, "%s: cannot be read", path);
    if (size > MAX_FILE_BYTES) return pdl_error(PDL_ERR_INPUT, "%s: larger than 4 GiB", path);
    buffer = malloc((size_t)size + 1);
    if (buffer == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory for %ld bytes", path, size);
    if (fread(buffer, 1, (size_t)size, file) != (size_t)size) {
        free(buffer);
        return pdl_error(PDL_ERR_IO, "%s: cannot be read", path);
    }
    buffer[size] = '\0';
    *data = buffer;
    *length = (size_t)size;
    return PDL_OK;
}

pdl_status_t pdl__read_file(const char *path, char **data, size_t *length)
{
    FILE        *file = fopen(path, "rb");
    pdl_status_t status;

    if (file == NULL) return pdl_error(PDL_ERR_IO, "%s: cannot be opened", path);
    status = read_open_file(file, path, data, length);
    fclose(file);
    return status;
}

static bool ends_in(const char *path, const char *ending)
{
    size_t path_length = strlen(path), length = strlen(ending);

    return path_length >= length && strcmp(path + path_length - length, ending) == 0;
}

pdl_status_t pdl_model_load(const char *name_or_path, pdl_model_t **model)
{
    char         path[4096];
    char        *data;
    size_t       length;
    pdl_status_t status = pdl_share_find("models", name_or_path, extensions, path, sizeof(path));

    if (status) return status;
    if (ends_in(path, ".onnx")) return pdl__model_read_onnx_file(path, model);
    status = pdl__read_file(path, &data, &length);
    if (status) return status;
    if (ends_in(path, ".net"))
        status = pdl_model_read_net_memory(data, length, path, model);
    else if (ends_in(path, ".json"))
        status = pdl_model_read_config_memory(data, length, path, model);
    else
        status = pdl_model_read_yaml_memory(data, length, path, model);
    free(data);
    return status;
}

void pdl_model_destroy(pdl_model_t *model)
{
    if (model == NULL) return;
    pdl_arena_destroy(model->arena);
    free(model->layers);
    free(model->name_slots);
    free(model);
}

const char *pdl_model_name(const pdl_model_t *model)
{
    return model->name;
}

const char *pdl_model_description(const pdl_model_t *model)
{
    return model->description;
}

const char *const *pdl_model_remarks(const pdl_model_t *model)
{
    return model->remarks;
}

uint64_t pdl_model_hash(const pdl_model_t *model)
{
    return model->hash;
}

int pdl_model_layer_count(const pdl_model_t *model)
{
    return model->count;
}

const pdl_layer_t *pdl_model_layer(const pdl_model_t *model, int i)
{
    return i >= 0 && i < model->count ? &model->layers[i] : NULL;
}

int pdl_model_class_count(const pdl_model_t *model)
{
    return model->class_count;
}

pdl_shape_t pdl_model_input(const pdl_model_t *model)
{
    return model->layers[0].out;
}

int64_t pdl_model_table_samples(const pdl_model_t *model)
{
    return model->table_samples;
}

bool pdl_model_trainable(const pdl_model_t *model)
{
    return !model->table;
}

void pdl_model_totals(const pdl_model_t *model, pdl_model_totals_t *totals)
{
    *totals = model->totals;
}

/* The slot that holds the layer of this name, or the free one where it belongs. */
int *pdl__name_slot(const pdl_model_t *model, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    size_t   mask = model->name_slot_count - 1, slot;

    for (const char *c = name; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    slot = (size_t)(hash ^ hash >> 32) & mask;
    while (model->name_slots[slot] != 0 && strcmp(model->layers[model->name_slots[slot] - 1].name, name) != 0)
        slot = (slot + 1) & mask;
    return &model->name_slots[slot];
}

int pdl_model_find_layer(const pdl_model_t *model, const char *name)
{
    return model->count == 0 ? -1 : *pdl__name_slot(model, name) - 1;
}

int64_t pdl_shape_positions(const pdl_shape_t *shape)
{
    return shape->extent[0] * shape->extent[1] * shape->extent[2];
}

int64_t pdl_shape_elements(const pdl_shape_t *shape)
{
    return shape->channels * pdl_shape_positions(shape);
}

char *pdl_shape_format(const pdl_shape_t *shape, char *buffer, size_t size)
{
    int length;

    if (shape->sequence) {
        snprintf(buffer, size, "%" PRId64 " tokens x %" PRId64, shape->extent[0], shape->channels);
        return buffer;
    }
    length = snprintf(buffer, size, "%" PRId64, shape->channels);
    for (int d = 0; d < shape->rank && length >= 0 && (size_t)length < size; d++)
        length += snprintf(buffer + length, size - (size_t)length, "x%" PRId64, shape->extent[d]);
    return buffer;
}

pdl_status_t pdl_model_seek_layer(const pdl_model_t *model, const char *name, int *layer)
{
    int          count = pdl_model_layer_count(model);
    const char **names;
    char         hint[200];
    bool         near;

    *layer = pdl_model_find_layer(model, name);
    if (*layer >= 0) return PDL_OK;
    names = malloc((size_t)count * sizeof(*names));
    if (names == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the names of layers");
    for (int i = 0; i < count; i++) names[i] = pdl_model_layer(model, i)->name;
    near = pdl__closest_names(name, names, (size_t)count, hint, sizeof(hint));
    free(names);
    if (near)
        return pdl_error(PDL_ERR_INPUT, "model %s has no layer \"%.60s\": did you mean %s?", pdl_model_name(model),
                         name, hint);
    return pdl_error(PDL_ERR_INPUT, "model %s has no layer \"%.60s\" (paradl model show lists them)",
                     pdl_model_name(model), name);
}
