/*
 * The tensors of a file that has weights, whatever its format.
 */
#include "train/initial/initial.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_tensor(pdl_initial_file_t *initial, const char *name, int rank, const int64_t *dims, bool usable)
{
    pdl__initial_tensor_t *tensor = &initial->tensor[initial->count];

    *tensor = (pdl__initial_tensor_t){.name = name, .elements = 1, .usable = usable};
    for (int d = 0; d < rank; d++) {
        tensor->elements *= dims[d];
        if (dims[d] != 1) tensor->dims[tensor->rank++] = dims[d];
    }
    initial->count++;
}

static int stored_count(const pdl_initial_file_t *initial)
{
    return initial->onnx != NULL ? pdl_onnx_weights_count(initial->onnx)
                                 : pdl_safetensors_count(pdl_checkpoint_model(initial->checkpoint));
}

static const char *stored_name(const pdl_initial_file_t *initial, int i)
{
    return initial->onnx != NULL ? pdl_onnx_weights_at(initial->onnx, i)->name
                                 : pdl_safetensors_at(pdl_checkpoint_model(initial->checkpoint), i)->name;
}

/* qsort has no context. */
typedef struct named {
    const char *name;
    int         place;
} named_t;

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const named_t *)a)->name, ((const named_t *)b)->name);
}

static pdl_status_t list_tensors(pdl_initial_file_t *initial)
{
    int      count = stored_count(initial);
    named_t *sorted = calloc((size_t)count + 1, sizeof(*sorted));

    initial->tensor = calloc((size_t)count + 1, sizeof(*initial->tensor));
    initial->place = calloc((size_t)count + 1, sizeof(*initial->place));
    if (sorted == NULL || initial->tensor == NULL || initial->place == NULL) {
        free(sorted);
        return pdl__no_memory("while reading initial weights");
    }
    for (int i = 0; i < count; i++) sorted[i] = (named_t){stored_name(initial, i), i};
    qsort(sorted, (size_t)count, sizeof(*sorted), compare_named);
    for (int i = 0; i < count; i++) {
        int place = initial->place[i] = sorted[i].place;

        if (initial->onnx != NULL) {
            const pdl_onnx_weight_t *weight = pdl_onnx_weights_at(initial->onnx, place);
            add_tensor(initial, weight->name, weight->rank, weight->dims, true);
        } else {
            const pdl_stored_t *stored = pdl_safetensors_at(pdl_checkpoint_model(initial->checkpoint), place);
            add_tensor(initial, stored->name, stored->rank, stored->dims, stored->type != PDL_STORED_OTHER);
        }
    }
    free(sorted);
    return PDL_OK;
}

static bool is_onnx(const char *path)
{
    size_t length = strlen(path);

    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

bool pdl_initial_is_weights(const char *path)
{
    char        inside[4096];
    struct stat info;

    if (stat(path, &info) != 0) return false;
    if (!S_ISDIR(info.st_mode)) return true;
    snprintf(inside, sizeof(inside), "%s/state.safetensors", path);
    if (access(inside, F_OK) == 0) return false;
    snprintf(inside, sizeof(inside), "%s/model.safetensors", path);
    return access(inside, F_OK) == 0;
}

static pdl_status_t open_file(pdl_initial_file_t *initial, const char *path)
{
    char        inside[4096];
    struct stat info;

    if (is_onnx(path)) return pdl_onnx_weights_load(path, &initial->onnx);
    if (pdl_initial_is_weights(path) && stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        snprintf(inside, sizeof(inside), "%s/model.safetensors", path);
        path = inside;
    }
    return pdl_checkpoint_open(path, &initial->checkpoint);
}

pdl_status_t pdl_initial_open(const char *path, pdl_initial_demand_t demand, pdl_initial_file_t **out)
{
    pdl_initial_file_t *initial = calloc(1, sizeof(*initial));
    pdl_status_t        status;

    if (initial == NULL || (initial->path = strdup(path)) == NULL) {
        free(initial);
        return pdl__no_memory("while reading initial weights");
    }
    initial->demand = demand;
    status = open_file(initial, path);
    if (!status) status = list_tensors(initial);
    if (status)
        pdl_initial_close(initial);
    else
        *out = initial;
    return status;
}

void pdl_initial_close(pdl_initial_file_t *initial)
{
    if (initial == NULL) return;
    pdl__initial_forget(initial);
    pdl_checkpoint_close(initial->checkpoint);
    pdl_onnx_weights_free(initial->onnx);
    free(initial->line);
    free(initial->tensor);
    free(initial->place);
    free(initial->path);
    free(initial);
}

int pdl__initial_find(const pdl_initial_file_t *initial, const char *name)
{
    int low = 0, high = initial->count;

    while (low < high) {
        int middle = low + (high - low) / 2, order = strcmp(name, initial->tensor[middle].name);

        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

pdl_status_t pdl__initial_read(const pdl_initial_file_t *initial, int tensor, float *values)
{
    int place = initial->place[tensor];

    if (initial->onnx != NULL) return pdl_onnx_weights_read(initial->onnx, place, values);
    return pdl_stored_to_float(pdl_safetensors_at(pdl_checkpoint_model(initial->checkpoint), place),
                               initial->tensor[tensor].elements, values);
}

pdl_status_t pdl__initial_say(pdl_initial_file_t *initial, const char *format, ...)
{
    char    text[768];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (initial->line_count == initial->line_room) {
        int    room = initial->line_room > 0 ? 2 * initial->line_room : 16;
        char **larger = realloc(initial->line, (size_t)room * sizeof(*larger));

        if (larger == NULL) return pdl__no_memory("while reading initial weights");
        initial->line = larger;
        initial->line_room = room;
    }
    initial->line[initial->line_count] = strdup(text);
    if (initial->line[initial->line_count] == NULL) return pdl__no_memory("while reading initial weights");
    initial->line_count++;
    return PDL_OK;
}

void pdl__initial_forget(pdl_initial_file_t *initial)
{
    for (int i = 0; i < initial->line_count; i++) free(initial->line[i]);
    for (int i = 0; i < initial->count; i++) initial->tensor[i].used = false;
    initial->line_count = 0;
}

int pdl_initial_line_count(const pdl_initial_file_t *initial)
{
    return initial->line_count;
}

const char *pdl_initial_line(const pdl_initial_file_t *initial, int i)
{
    return initial->line[i];
}
