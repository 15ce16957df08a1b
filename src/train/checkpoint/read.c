/*
 * Compares checkpoints with a model.
 */
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/save.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE_SIZE 192

static const char *print_shape(int rank, const int64_t *dims, char text[SHAPE_SIZE])
{
    int used = snprintf(text, SHAPE_SIZE, "[");

    for (int d = 0; d < rank; d++)
        used += snprintf(text + used, SHAPE_SIZE - (size_t)used, "%s%" PRId64, d > 0 ? ", " : "", dims[d]);
    snprintf(text + used, SHAPE_SIZE - (size_t)used, "]");
    return text;
}

static pdl_status_t compare_tensor(const pdl_safetensors_t *file, const pdl_stored_t *wanted)
{
    const pdl_stored_t *found = pdl_safetensors_find(file, wanted->name);
    char                here[SHAPE_SIZE], there[SHAPE_SIZE];

    if (found == NULL)
        return pdl_error(PDL_ERR_INPUT, "%s: it has no tensor %s, which this model has: it is of another model",
                         pdl_safetensors_name(file), wanted->name);
    if (found->rank != wanted->rank ||
        memcmp(found->dims, wanted->dims, (size_t)found->rank * sizeof(found->dims[0])) != 0)
        return pdl_error(PDL_ERR_INPUT, "%s: %s is %s, but %s in this model: it is of another model",
                         pdl_safetensors_name(file), wanted->name, print_shape(found->rank, found->dims, there),
                         print_shape(wanted->rank, wanted->dims, here));
    if (found->type == PDL_STORED_OTHER)
        return pdl_error(PDL_ERR_INPUT, "%s: %s is stored in a type that cannot be used as real numbers",
                         pdl_safetensors_name(file), wanted->name);
    return PDL_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Counters of PyTorch, and what a run keeps beside the state of its optimizer. */
static bool is_other(const char *name)
{
    static const char ending[] = ".num_batches_tracked";
    size_t            length = strlen(name);

    return strncmp(name, PDL__EXTRA, sizeof(PDL__EXTRA) - 1) == 0 ||
           (length >= sizeof(ending) - 1 && strcmp(name + length - (sizeof(ending) - 1), ending) == 0);
}

/* The first tensor of the file that nobody asked for. */
static pdl_status_t find_surplus(const pdl_safetensors_t *file, const pdl_stored_t *wanted, int count)
{
    const char **names = malloc(((size_t)count + 1) * sizeof(*names));
    pdl_status_t status = PDL_OK;

    if (names == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    for (int i = 0; i < count; i++) names[i] = wanted[i].name;
    if (count > 0) qsort(names, (size_t)count, sizeof(*names), compare_names);
    for (int i = 0; !status && i < pdl_safetensors_count(file); i++) {
        const char *name = pdl_safetensors_at(file, i)->name;

        if (is_other(name) || bsearch(&name, names, (size_t)count, sizeof(*names), compare_names) != NULL) continue;
        status = pdl_error(PDL_ERR_INPUT, "%s: its tensor %s is not in this model: it is of another model",
                           pdl_safetensors_name(file), name);
    }
    free(names);
    return status;
}

pdl_status_t pdl_checkpoint_compare(const pdl_safetensors_t *file, const pdl_stored_t *wanted, int count)
{
    for (int i = 0; i < count; i++) {
        pdl_status_t status = compare_tensor(file, &wanted[i]);

        if (status) return status;
    }
    return find_surplus(file, wanted, count);
}

pdl_status_t pdl_checkpoint_check_model(const pdl_checkpoint_t *checkpoint, const char *model, uint64_t model_hash,
                                        const pdl_stored_t *wanted, int count)
{
    const pdl_checkpoint_info_t *info = pdl_checkpoint_info(checkpoint);
    pdl_status_t                 status = pdl_checkpoint_compare(pdl_checkpoint_model(checkpoint), wanted, count);

    if (status || info == NULL || info->model_hash == model_hash) return status;
    return pdl_error(
        PDL_ERR_INPUT,
        "%s: it is of model %s, whose layers differ from those of %s although their tensors have equal shapes",
        pdl_checkpoint_path(checkpoint), info->model, model);
}
