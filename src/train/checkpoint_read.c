/*
 * Opens checkpoints and compares them with a model.
 */
#include "train/checkpoint.h"
#include "train/save.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct pdl_checkpoint {
    char                 *path;
    pdl_safetensors_t    *model, *state;
    pdl_checkpoint_info_t info; /* of the state, when there is one */
};

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char  *path = malloc(size);

    if (path != NULL) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* The latest checkpoint in the folder. */
static pdl_status_t choose_latest(const char *folder, char **path)
{
    int           directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
    pdl__found_t *found = NULL;
    char          name[PDL__NAME_MAX];
    pdl_status_t  status;

    if (directory < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    status = pdl__checkpoint_scan(directory, folder, &found, &count);
    close(directory);
    if (status) return status;
    if (count == 0)
        return pdl_error(PDL_ERR_INPUT,
                         "there is no checkpoint in %s: give the folder of --checkpoint, or one in it", folder);
    pdl__checkpoint_name(found[0].step, found[0].replaced, name);
    free(found);
    *path = join(folder, name);
    return *path != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

/* A folder that holds a model is a checkpoint; another one holds checkpoints. */
static pdl_status_t choose(const char *path, char **chosen)
{
    char *model = join(path, PDL__MODEL_FILE);
    bool  one;

    if (model == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    one = access(model, F_OK) == 0;
    free(model);
    if (!one) return choose_latest(path, chosen);
    *chosen = strdup(path);
    return *chosen != NULL ? PDL_OK : pdl_error(PDL_ERR_NOMEM, "out of memory");
}

static pdl_status_t open_part(const char *folder, const char *name, pdl_safetensors_t **file)
{
    char        *path = join(folder, name);
    pdl_status_t status;

    if (path == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = pdl_safetensors_open(path, file);
    free(path);
    return status;
}

static pdl_status_t open_parts(pdl_checkpoint_t *checkpoint)
{
    pdl_checkpoint_info_t other;
    pdl_status_t          status = open_part(checkpoint->path, PDL__MODEL_FILE, &checkpoint->model);

    if (!status) status = open_part(checkpoint->path, PDL__STATE_FILE, &checkpoint->state);
    if (!status) status = pdl__checkpoint_info_read(checkpoint->state, &checkpoint->info);
    if (!status) status = pdl__checkpoint_info_read(checkpoint->model, &other);
    if (!status && (other.step != checkpoint->info.step || other.model_hash != checkpoint->info.model_hash))
        status =
            pdl_error(PDL_ERR_INPUT, "%s: its two files are of different runs: step %" PRId64 " and step %" PRId64,
                      checkpoint->path, other.step, checkpoint->info.step);
    return status;
}

static pdl_status_t open_path(const char *path, pdl_checkpoint_t *checkpoint)
{
    struct stat  info;
    pdl_status_t status;

    if (stat(path, &info) != 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        status = choose(path, &checkpoint->path);
        return checkpoint->path == NULL ? status : open_parts(checkpoint);
    }
    checkpoint->path = strdup(path);
    if (checkpoint->path == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    return pdl_safetensors_open(path, &checkpoint->model);
}

pdl_status_t pdl_checkpoint_open(const char *path, pdl_checkpoint_t **checkpoint)
{
    pdl_checkpoint_t *made = calloc(1, sizeof(*made));
    pdl_status_t      status;

    if (made == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    status = open_path(path, made);
    if (status) {
        pdl_checkpoint_close(made);
        return status;
    }
    *checkpoint = made;
    return PDL_OK;
}

void pdl_checkpoint_close(pdl_checkpoint_t *checkpoint)
{
    if (checkpoint == NULL) return;
    pdl_safetensors_close(checkpoint->model);
    pdl_safetensors_close(checkpoint->state);
    free(checkpoint->path);
    free(checkpoint);
}

const char *pdl_checkpoint_path(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->path;
}

const pdl_checkpoint_info_t *pdl_checkpoint_info(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->state != NULL ? &checkpoint->info : NULL;
}

const pdl_safetensors_t *pdl_checkpoint_model(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->model;
}

const pdl_safetensors_t *pdl_checkpoint_state(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->state;
}

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
    pdl_status_t status = pdl_checkpoint_compare(checkpoint->model, wanted, count);

    if (status || checkpoint->state == NULL || checkpoint->info.model_hash == model_hash) return status;
    return pdl_error(
        PDL_ERR_INPUT,
        "%s: it is of model %s, whose layers differ from those of %s although their tensors have equal shapes",
        checkpoint->path, checkpoint->info.model, model);
}
