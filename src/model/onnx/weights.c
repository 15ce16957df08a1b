/*
 * The weights of an ONNX file: which constant is which weight of ours was noted while the graph was read; here are their
 * numbers. Data may be in a file beside the ONNX file.
 */
#include "model/onnx/weights.h"

#include "model/onnx/wire.h"

#include <paradl/base/units.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    pdl_onnx_weight_t        weight;
    const Onnx__TensorProto *tensor;  /* NULL: the numbers were worked out, */
    const double            *numbers; /* and are these */
    bool                     flipped;
} entry_t;

struct pdl_onnx_weights {
    char             *path;
    pdl_arena_t      *arena;
    Onnx__ModelProto *proto;
    entry_t          *entry;
    int               count;
};

static const char *const part_names[PDL__PART_COUNT] = {"weight", "bias", "running_mean", "running_var",
                                                        "class_token"};

static pdl_status_t add_entry(pdl_onnx_weights_t *w, const char *layer, const pdl__onnx_bound_t *bound, int part)
{
    const pdl__onnx_value_t *value = bound->parts.part[part];
    entry_t                 *entry = &w->entry[w->count];
    size_t                   size;
    char                    *name;

    if (value == NULL || value->kind != PDL__ONNX_CONSTANT) return PDL_OK;
    if (value->stored == NULL && value->data == NULL) return PDL_OK;
    size = strlen(layer) + strlen(part_names[part]) + 2;
    name = pdl_arena_alloc(w->arena, size, 1);
    if (name == NULL) return PDL_ERR_NOMEM;
    snprintf(name, size, "%s.%s", layer, part_names[part]);
    *entry = (entry_t){.weight = {.name = name, .rank = value->view.rank},
                       .tensor = value->stored,
                       .numbers = value->data,
                       .flipped = part == PDL__PART_WEIGHT && bound->parts.transposed};
    if (entry->flipped && value->view.rank != 2) return PDL_OK;
    for (int d = 0; d < value->view.rank; d++)
        entry->weight.dims[d] = value->view.dims[entry->flipped ? value->view.rank - 1 - d : d];
    /* The tensor may be stored the other way round than the graph uses it. */
    if (value->stored != NULL && value->flipped) entry->flipped = !entry->flipped;
    entry->weight.elements = pdl__onnx_elements(&value->view);
    w->count++;
    return PDL_OK;
}

pdl_status_t pdl__onnx_keep(pdl__onnx_t *o, Onnx__ModelProto *proto, const pdl_model_t *model,
                            pdl_onnx_weights_t **weights)
{
    size_t              most = (size_t)o->bound_count * PDL__PART_COUNT + 1;
    pdl_onnx_weights_t *w = calloc(1, sizeof *w);
    pdl_status_t        st = PDL_OK;

    if (w == NULL) return PDL_ERR_NOMEM;
    w->arena = o->arena;
    w->path = strdup(o->file);
    w->entry = pdl_arena_alloc(o->arena, most, sizeof *w->entry);
    if (w->path == NULL || w->entry == NULL) st = PDL_ERR_NOMEM;
    for (int i = 0; i < o->bound_count && !st; i++)
        for (int part = 0; part < PDL__PART_COUNT && !st; part++)
            st = add_entry(w, pdl_model_layer(model, o->bound[i].layer)->name, &o->bound[i], part);
    if (st) {
        free(w->path);
        free(w);
        return pdl_error(st, "out of memory for the weights of %s", o->file);
    }
    w->proto = proto;
    *weights = w;
    return PDL_OK;
}

void pdl_onnx_weights_free(pdl_onnx_weights_t *w)
{
    if (w == NULL) return;
    pdl__onnx_free(w->proto);
    pdl_arena_destroy(w->arena);
    free(w->path);
    free(w);
}

int pdl_onnx_weights_count(const pdl_onnx_weights_t *w)
{
    return w->count;
}

const pdl_onnx_weight_t *pdl_onnx_weights_at(const pdl_onnx_weights_t *w, int i)
{
    return &w->entry[i].weight;
}

/* Where the data of a tensor is: a file in the folder of the ONNX file, and a range of it. */
typedef struct place {
    char    path[4096];
    int64_t offset, length; /* length 0: not said */
} place_t;

static pdl_status_t find_place(const pdl_onnx_weights_t *w, const Onnx__TensorProto *tensor, place_t *place)
{
    const char *slash = strrchr(w->path, '/'), *location = NULL;
    int         folder = slash != NULL ? (int)(slash - w->path) + 1 : 0;

    *place = (place_t){.offset = 0};
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = tensor->external_data[i]->key, *value = tensor->external_data[i]->value;

        if (key == NULL || value == NULL) continue;
        if (strcmp(key, "location") == 0) location = value;
        if ((strcmp(key, "offset") == 0 && pdl_parse_int(value, 0, INT64_MAX / 2, &place->offset)) ||
            (strcmp(key, "length") == 0 && pdl_parse_int(value, 0, INT64_MAX / 2, &place->length)))
            return pdl_error(PDL_ERR_INPUT, "%s: tensor %s is at no place of its data file: %s", w->path,
                             tensor->name, pdl_error_message());
    }
    /* A file may not send its reader to other folders. */
    if (location == NULL || *location == '\0' || *location == '/' || strstr(location, "..") != NULL ||
        snprintf(place->path, sizeof place->path, "%.*s%s", folder, w->path, location) >= (int)sizeof place->path)
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s is in no file of the same folder", w->path, tensor->name);
    return PDL_OK;
}

static void convert(const uint8_t *bytes, int32_t type, size_t size, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)pdl__onnx_raw_number(bytes + (size_t)i * size, type);
}

static pdl_status_t read_outside(const pdl_onnx_weights_t *w, const Onnx__TensorProto *tensor, int64_t count,
                                 float *values)
{
    enum { CHUNK = 1 << 16 };
    size_t       size = pdl__onnx_raw_size(tensor->data_type);
    place_t      place;
    FILE        *file = NULL;
    uint8_t     *bytes = NULL;
    pdl_status_t st = find_place(w, tensor, &place);

    if (st) return st;
    if (size == 0 || (place.length > 0 && place.length != count * (int64_t)size))
        return pdl_error(PDL_ERR_INPUT, "%s: tensor %s does not have %lld numbers", w->path, tensor->name,
                         (long long)count);
    file = fopen(place.path, "rb");
    bytes = malloc(CHUNK * size);
    if (bytes == NULL) st = pdl_error(PDL_ERR_NOMEM, "out of memory");
    if (!st && (file == NULL || fseeko(file, (off_t)place.offset, SEEK_SET) != 0))
        st = pdl_error(PDL_ERR_IO, "%s: its weights are in %s, which cannot be read: %s", w->path, place.path,
                       strerror(errno));
    for (int64_t at = 0; at < count && !st; at += CHUNK) {
        int64_t part = count - at < CHUNK ? count - at : CHUNK;

        if (fread(bytes, size, (size_t)part, file) != (size_t)part)
            st = pdl_error(PDL_ERR_INPUT, "%s: it ends before the numbers of tensor %s", place.path, tensor->name);
        else
            convert(bytes, tensor->data_type, size, part, values + at);
    }
    if (file != NULL) fclose(file);
    free(bytes);
    return st;
}

static pdl_status_t read_inside(const pdl_onnx_weights_t *w, const Onnx__TensorProto *tensor, int64_t count,
                                float *values)
{
    size_t  size = pdl__onnx_raw_size(tensor->data_type);
    double *numbers;
    bool    there;

    if (tensor->has_raw_data && size > 0 && tensor->raw_data.len == (size_t)count * size) {
        convert(tensor->raw_data.data, tensor->data_type, size, count, values);
        return PDL_OK;
    }
    numbers = malloc((size_t)count * sizeof *numbers + 1);
    if (numbers == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for the weights of %s", w->path);
    there = pdl__onnx_decode(tensor, count, numbers);
    for (int64_t i = 0; there && i < count; i++) values[i] = (float)numbers[i];
    free(numbers);
    if (there) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: the numbers of tensor %s are not in it: export it with its weights",
                     w->path, tensor->name != NULL ? tensor->name : "without a name");
}

/* From [columns][rows] to [rows][columns]. */
static pdl_status_t flip(const pdl_onnx_weight_t *weight, float *values)
{
    int64_t rows = weight->dims[0], columns = weight->dims[1];
    float  *stored = malloc((size_t)weight->elements * sizeof *stored + 1);

    if (stored == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %s", weight->name);
    memcpy(stored, values, (size_t)weight->elements * sizeof *stored);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) values[r * columns + c] = stored[c * rows + r];
    free(stored);
    return PDL_OK;
}

pdl_status_t pdl_onnx_weights_read(const pdl_onnx_weights_t *w, int i, float *values)
{
    const entry_t *entry = &w->entry[i];
    int64_t        count = entry->weight.elements;
    pdl_status_t   st = PDL_OK;

    if (entry->tensor == NULL)
        for (int64_t k = 0; k < count; k++) values[k] = (float)entry->numbers[k];
    else if (entry->tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        st = read_outside(w, entry->tensor, count, values);
    else
        st = read_inside(w, entry->tensor, count, values);
    return !st && entry->flipped ? flip(&entry->weight, values) : st;
}
