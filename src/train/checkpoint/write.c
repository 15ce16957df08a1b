/*
 * Writes a checkpoint beside the others under a name that no reader looks at, and gives it its own when all of
 * it has reached the disk.
 */
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/clean.h"

#include <paradl/base/output.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pdl_status_t refuse(const char *path, int reason)
{
    return pdl_error(PDL_ERR_IO, "cannot write a checkpoint to %s: %s", path, strerror(reason));
}

/* Names of a folder reach the disk; file systems that cannot be asked for it do it by themselves. */
static pdl_status_t settle(int directory, const char *path)
{
    return fsync(directory) == 0 || errno == EINVAL ? PDL_OK : refuse(path, errno);
}

/* mkdtemp() makes folders that only the owner reads; others get what the user allows them. */
static pdl_status_t make_partial(const char *folder, char **path)
{
    size_t size = strlen(folder) + PDL__PARTIAL_MAX;
    mode_t mask = umask(0);

    umask(mask);
    *path = malloc(size);
    if (*path == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    snprintf(*path, size, "%s/" PDL__PARTIAL "XXXXXX", folder);
    if (mkdtemp(*path) != NULL && chmod(*path, 0777 & ~mask) == 0) return PDL_OK;
    refuse(folder, errno);
    free(*path);
    return PDL_ERR_IO;
}

static pdl_status_t write_part(const char *partial, const char *file, const pdl_checkpoint_part_t *part,
                               const pdl_metadata_t *metadata, int metadata_count)
{
    size_t       size = strlen(partial) + strlen(file) + 2;
    char        *path = malloc(size);
    pdl_status_t status;

    if (path == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    snprintf(path, size, "%s/%s", partial, file);
    status = pdl_safetensors_write(path, part->tensors, part->count, metadata, metadata_count, part->fill,
                                   part->context);
    free(path);
    return status;
}

static pdl_status_t write_description(const char *partial, const char *description)
{
    size_t        size = strlen(partial) + sizeof(PDL__DESCRIPTION_FILE) + 1;
    char         *path = malloc(size);
    pdl_output_t *output;
    pdl_status_t  status;

    if (path == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    snprintf(path, size, "%s/" PDL__DESCRIPTION_FILE, partial);
    status = pdl_output_open(path, &output);
    if (!status) {
        fputs(description, pdl_output_stream(output));
        status = pdl_output_close(output);
    }
    free(path);
    return status;
}

static pdl_status_t settle_partial(const char *partial)
{
    int          directory = open(partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pdl_status_t status;

    if (directory < 0) return refuse(partial, errno);
    status = settle(directory, partial);
    close(directory);
    return status;
}

static pdl_status_t write_parts(const char *partial, const pdl_checkpoint_info_t *info,
                                const pdl_checkpoint_part_t *model, const pdl_checkpoint_part_t *state)
{
    size_t            extra = info->extra_count > 0 ? (size_t)info->extra_count : 0;
    pdl_metadata_t   *metadata = calloc(PDL__INFO_ENTRIES + extra, sizeof(*metadata));
    pdl__info_text_t *text = malloc(sizeof(*text));
    pdl_status_t      status;

    if (metadata == NULL || text == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory");
    } else {
        pdl__checkpoint_info_write(info, text);
        memcpy(metadata, text->entry, (size_t)text->count * sizeof(*metadata));
        if (extra > 0) memcpy(metadata + text->count, info->extra, extra * sizeof(*metadata));
        status = write_part(partial, PDL__MODEL_FILE, model, metadata, text->count + (int)extra);
        if (!status) status = write_part(partial, PDL__STATE_FILE, state, metadata, text->count + (int)extra);
        if (!status && info->description != NULL) status = write_description(partial, info->description);
        if (!status) status = settle_partial(partial);
    }
    free(text);
    free(metadata);
    return status;
}

/* Gives the folder its name. A checkpoint of the same step steps aside under a name that readers still accept, so
   that there is one at every moment. */
static pdl_status_t publish(int directory, const char *folder, const char *partial, int64_t step)
{
    char name[PDL__NAME_MAX], aside[PDL__NAME_MAX];
    bool replaces;

    pdl__checkpoint_name(step, false, name);
    pdl__checkpoint_name(step, true, aside);
    replaces = faccessat(directory, name, F_OK, 0) == 0;
    if (replaces && renameat(directory, name, directory, aside) != 0) return refuse(folder, errno);
    if (renameat(directory, partial, directory, name) != 0) {
        int reason = errno;

        if (replaces) renameat(directory, aside, directory, name);
        return refuse(folder, reason);
    }
    return settle(directory, folder);
}

static pdl_status_t write_locked(int directory, const char *folder, const pdl_checkpoint_info_t *info,
                                 const pdl_checkpoint_part_t *model, const pdl_checkpoint_part_t *state, int keep)
{
    char        *partial;
    pdl_status_t status;

    pdl__checkpoint_clean(directory, folder);
    status = make_partial(folder, &partial);
    if (status) return status;
    status = write_parts(partial, info, model, state);
    if (!status) status = publish(directory, folder, partial + strlen(folder) + 1, info->step);
    if (status) {
        pdl__checkpoint_remove_partial(directory, partial + strlen(folder) + 1);
    } else {
        pdl__checkpoint_clean(directory, folder);
        pdl__checkpoint_remove_old(directory);
        pdl__checkpoint_prune(directory, folder, info->step, keep);
    }
    free(partial);
    return status;
}

pdl_status_t pdl_checkpoint_write(const char *folder, const pdl_checkpoint_info_t *info,
                                  const pdl_checkpoint_part_t *model, const pdl_checkpoint_part_t *state, int keep)
{
    int          directory = -1;
    pdl_status_t status;

    if (info->step < 0 || keep < 1)
        return pdl_error(PDL_ERR_INPUT, "checkpoint: step %lld, %d to keep: expected 0 or more and 1 or more",
                         (long long)info->step, keep);
    for (int i = 0; i < info->extra_count; i++) {
        if (strncmp(info->extra[i].key, "paradl.", 7) == 0 || strcmp(info->extra[i].key, "format") == 0)
            return pdl_error(PDL_ERR_INPUT, "checkpoint: the key %s is not free", info->extra[i].key);
    }
    /* A reader refuses what is out of range, so it must not get that far. */
    status = pdl_optimizer_check(&info->optimizer);
    if (!status) status = pdl__checkpoint_lock(folder, &directory);
    if (status) return status;
    status = write_locked(directory, folder, info, model, state, keep);
    close(directory);
    return status;
}
