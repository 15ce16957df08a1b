/*
 * Opens checkpoints: finds the latest that is whole, to the last bit where it has checksums.
 */
#include "base/memory.h"
#include "train/checkpoint/checkpoint.h"

#include "base/file.h"

#include <paradl/base/digest.h>

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
    pdl_checkpoint_info_t info;        /* of the state, when there is one */
    bool                  summed;      /* all of it has checksums */
    char                 *damage;      /* what was passed over; or NULL */
    char                 *description; /* of the model; or NULL */
};

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char  *path = malloc(size);

    if (path != NULL) snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* A part that is there, whole; one that was never written is told apart from one that cannot be read. */
static pdl_status_t open_part(pdl_checkpoint_t *checkpoint, const char *name, pdl_safetensors_t **file)
{
    char        *path = join(checkpoint->path, name);
    bool         summed = false;
    pdl_status_t status;

    if (path == NULL) return pdl__no_memory("while preparing this");
    if (access(path, F_OK) != 0 && errno == ENOENT)
        status = pdl_error(PDL_ERR_INPUT, "%s has no %s", checkpoint->path, name);
    else
        status = pdl_safetensors_open(path, file);
    if (!status) status = pdl_safetensors_verify(*file, &summed);
    checkpoint->summed = checkpoint->summed && summed;
    free(path);
    return status;
}

/* The description of the model, where the state says that there is one. */
static pdl_status_t read_description(pdl_checkpoint_t *checkpoint)
{
    const char  *sum = pdl_safetensors_metadata(checkpoint->state, PDL__DESCRIPTION_KEY);
    char         found[32], *path;
    size_t       length = 0;
    pdl_status_t status;

    if (sum == NULL) return PDL_OK;
    path = join(checkpoint->path, PDL__DESCRIPTION_FILE);
    if (path == NULL) return pdl__no_memory("while preparing this");
    status = pdl__file_read(path, &checkpoint->description, &length);
    if (!status) {
        snprintf(found, sizeof(found), "%016" PRIx64, pdl_sum64(checkpoint->description, length));
        if (strcmp(found, sum) != 0)
            status =
                pdl_error(PDL_ERR_INPUT, "%s is damaged: it does not have the checksum it was written with", path);
    }
    free(path);
    return status;
}

static pdl_status_t open_parts(pdl_checkpoint_t *checkpoint)
{
    pdl_checkpoint_info_t other;
    pdl_status_t          status = open_part(checkpoint, PDL__MODEL_FILE, &checkpoint->model);

    if (!status) status = open_part(checkpoint, PDL__STATE_FILE, &checkpoint->state);
    if (!status) status = pdl__checkpoint_info_read(checkpoint->state, &checkpoint->info);
    if (!status) status = read_description(checkpoint);
    if (!status) checkpoint->info.description = checkpoint->description;
    if (!status) status = pdl__checkpoint_info_read(checkpoint->model, &other);
    if (!status && (other.step != checkpoint->info.step || other.model_hash != checkpoint->info.model_hash))
        status =
            pdl_error(PDL_ERR_INPUT, "%s: its two files are of different runs: step %" PRId64 " and step %" PRId64,
                      checkpoint->path, other.step, checkpoint->info.step);
    return status;
}

/* Opens one checkpoint, or a single file. */
static pdl_status_t open_one(const char *path, bool folder, pdl_checkpoint_t **checkpoint)
{
    pdl_checkpoint_t *made = calloc(1, sizeof(*made));
    pdl_status_t      status;

    if (made == NULL || (made->path = strdup(path)) == NULL) {
        free(made);
        return pdl__no_memory("while preparing this");
    }
    made->summed = true;
    status = folder ? open_parts(made) : pdl_safetensors_open(path, &made->model);
    if (!status && !folder) status = pdl_safetensors_verify(made->model, &made->summed);
    if (status)
        pdl_checkpoint_close(made);
    else
        *checkpoint = made;
    return status;
}

/* The checkpoint of one step in every folder; those that are there close again if one is not whole. */
static pdl_status_t open_step(const char *const *folders, int count, const pdl__found_t *found,
                              pdl_checkpoint_t **checkpoints)
{
    pdl_status_t status = PDL_OK;

    for (int i = 0; i < count && !status; i++) {
        char  name[PDL__NAME_MAX];
        char *path;

        pdl__checkpoint_name(found->step, found->replaced, name);
        path = join(folders[i], name);
        status = path != NULL ? open_one(path, true, &checkpoints[i]) : pdl__no_memory("while preparing this");
        free(path);
    }
    for (int i = 0; i < count && status; i++) {
        pdl_checkpoint_close(checkpoints[i]);
        checkpoints[i] = NULL;
    }
    return status;
}

/* Whether an earlier checkpoint can stand in for one that failed so. */
static bool is_damage(pdl_status_t status)
{
    return status == PDL_ERR_INPUT || status == PDL_ERR_IO;
}

static pdl_status_t note_damage(pdl_checkpoint_t *checkpoint, const char *damage)
{
    size_t size = strlen(damage) + strlen(checkpoint->path) + 32;

    checkpoint->damage = malloc(size);
    if (checkpoint->damage == NULL) return pdl__no_memory("while preparing this");
    snprintf(checkpoint->damage, size, "%s; %s is taken instead", damage, checkpoint->path);
    return PDL_OK;
}

/* The latest step that is whole in every folder. */
static pdl_status_t open_found(const char *const *folders, int folder_count, const pdl__found_t *found, int count,
                               pdl_checkpoint_t **checkpoints)
{
    char         damage[1024] = "";
    pdl_status_t status;

    for (int i = 0; i < count; i++) {
        status = open_step(folders, folder_count, &found[i], checkpoints);
        if (!status) return *damage != '\0' ? note_damage(checkpoints[0], damage) : PDL_OK;
        if (!is_damage(status)) return status;
        if (*damage == '\0') snprintf(damage, sizeof(damage), "%s", pdl_error_message());
    }
    return pdl_error(PDL_ERR_IO, "%s; %s", damage,
                     count > 1 ? "no earlier checkpoint is whole either" : "there is no other checkpoint");
}

pdl_status_t pdl__checkpoint_open_latest(const char *const *folders, int count, pdl_checkpoint_t **checkpoints)
{
    const char   *last = folders[count - 1];
    int           directory = open(last, O_RDONLY | O_DIRECTORY | O_CLOEXEC), found_count = 0;
    pdl__found_t *found = NULL;
    pdl_status_t  status;

    for (int i = 0; i < count; i++) checkpoints[i] = NULL;
    if (directory < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", last, strerror(errno));
    status = pdl__checkpoint_scan(directory, last, &found, &found_count);
    close(directory);
    if (!status && found_count == 0)
        status = pdl_error(PDL_ERR_INPUT,
                           "there is no checkpoint in %s: give the folder of --checkpoint, or one in it", last);
    if (!status) status = open_found(folders, count, found, found_count, checkpoints);
    free(found);
    return status;
}

pdl_status_t pdl_checkpoint_open(const char *path, pdl_checkpoint_t **checkpoint)
{
    struct stat       info;
    pdl_checkpoint_t *made = NULL;
    pdl_status_t      status;

    if (stat(path, &info) != 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    /* A folder that holds a part of a checkpoint is one; another one holds checkpoints. */
    if (!S_ISDIR(info.st_mode) || pdl__checkpoint_is_one(path))
        status = open_one(path, S_ISDIR(info.st_mode), &made);
    else
        status = pdl__checkpoint_open_latest(&path, 1, &made);
    if (!status) *checkpoint = made;
    return status;
}

pdl_status_t pdl__checkpoint_share(pdl_ranks_t *ranks, pdl_status_t opened, int count,
                                   pdl_checkpoint_t **checkpoints)
{
    char         path[4096];
    bool         first = pdl_ranks_rank(ranks) == 0;
    pdl_status_t status = pdl_ranks_agree(ranks, opened), sent = PDL_OK;

    if (status) return status;
    for (int i = 0; i < count && !sent; i++) {
        if (first) snprintf(path, sizeof(path), "%s", checkpoints[i]->path);
        sent = pdl_ranks_broadcast(ranks, path, sizeof(path), 0);
        if (!sent && !status && !first) status = pdl_checkpoint_open(path, &checkpoints[i]);
    }
    return sent ? sent : pdl_ranks_agree(ranks, status);
}

pdl_status_t pdl_checkpoint_open_together(pdl_ranks_t *ranks, const char *path, pdl_checkpoint_t **checkpoint)
{
    pdl_checkpoint_t *made = NULL;
    pdl_status_t      opened = pdl_ranks_rank(ranks) == 0 ? pdl_checkpoint_open(path, &made) : PDL_OK;
    pdl_status_t      status = pdl__checkpoint_share(ranks, opened, 1, &made);

    if (status)
        pdl_checkpoint_close(made);
    else
        *checkpoint = made;
    return status;
}

void pdl_checkpoint_close(pdl_checkpoint_t *checkpoint)
{
    if (checkpoint == NULL) return;
    pdl_safetensors_close(checkpoint->model);
    pdl_safetensors_close(checkpoint->state);
    free(checkpoint->damage);
    free(checkpoint->description);
    free(checkpoint->path);
    free(checkpoint);
}

const char *pdl_checkpoint_path(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->path;
}

const char *pdl_checkpoint_damage(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->damage;
}

bool pdl_checkpoint_summed(const pdl_checkpoint_t *checkpoint)
{
    return checkpoint->summed;
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
