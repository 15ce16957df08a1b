/*
 * Removes old checkpoints and what killed writers left. Nothing outside the folder is ever touched: links are
 * not followed, and a checkpoint into which somebody put other files stays.
 *
 * A checkpoint that goes first loses its name, in one step, so that half of one is never taken for a whole.
 * What cannot be removed is tried again at the next write.
 */
#include "train/checkpoint/clean.h"
#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DIR *open_inside(int directory, const char *name)
{
    int  inside = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing = inside >= 0 ? fdopendir(inside) : NULL;

    if (listing == NULL && inside >= 0) close(inside);
    return listing;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Files of ours, finished or being written. */
static bool is_ours(const char *name)
{
    return begins(name, PDL__MODEL_FILE) || begins(name, PDL__STATE_FILE) || begins(name, PDL__DESCRIPTION_FILE);
}

static bool holds_only_ours(int directory, const char *name)
{
    DIR           *listing = open_inside(directory, name);
    struct dirent *entry;
    bool           ours = true;

    if (listing == NULL) return false;
    while (ours && (entry = readdir(listing)) != NULL) ours = is_dots(entry->d_name) || is_ours(entry->d_name);
    closedir(listing);
    return ours;
}

void pdl__checkpoint_remove_partial(int directory, const char *name)
{
    DIR           *listing = open_inside(directory, name);
    struct dirent *entry;

    if (listing == NULL) return;
    while ((entry = readdir(listing)) != NULL) {
        if (is_ours(entry->d_name)) unlinkat(dirfd(listing), entry->d_name, 0);
    }
    closedir(listing);
    unlinkat(directory, name, AT_REMOVEDIR);
}

/* A folder takes the place of an empty one when it is renamed, so an empty one is made for its new name. */
static void remove_checkpoint(int directory, const char *folder, const char *name)
{
    char  *path;
    size_t length = strlen(folder);

    if (!holds_only_ours(directory, name)) return;
    path = malloc(length + PDL__PARTIAL_MAX);
    if (path == NULL) return;
    snprintf(path, length + PDL__PARTIAL_MAX, "%s/" PDL__PARTIAL "XXXXXX", folder);
    if (mkdtemp(path) != NULL) {
        renameat(directory, name, directory, path + length + 1);
        pdl__checkpoint_remove_partial(directory, path + length + 1);
    }
    free(path);
}

void pdl__checkpoint_clean(int directory, const char *folder)
{
    DIR           *listing = open_inside(directory, ".");
    struct dirent *entry;
    char           successor[PDL__NAME_MAX];
    int64_t        step;
    bool           replaced;

    if (listing == NULL) return;
    while ((entry = readdir(listing)) != NULL) {
        if (begins(entry->d_name, PDL__PARTIAL)) {
            pdl__checkpoint_remove_partial(directory, entry->d_name);
            continue;
        }
        if (!pdl__checkpoint_parse_name(entry->d_name, &step, &replaced) || !replaced) continue;
        pdl__checkpoint_name(step, false, successor);
        if (faccessat(directory, successor, F_OK, 0) == 0) remove_checkpoint(directory, folder, entry->d_name);
    }
    closedir(listing);
}

void pdl__checkpoint_prune(int directory, const char *folder, int64_t step, int keep)
{
    pdl__found_t *found;
    int           count, kept = 0;
    char          name[PDL__NAME_MAX];

    if (pdl__checkpoint_scan(directory, folder, &found, &count) != PDL_OK) return;
    for (int i = 0; i < count; i++) {
        if (found[i].step > step || !found[i].complete) continue;
        if (kept++ < keep) continue;
        pdl__checkpoint_name(found[i].step, found[i].replaced, name);
        remove_checkpoint(directory, folder, name);
    }
    free(found);
}

void pdl__checkpoint_tidy(const char *folder, int64_t step, int keep)
{
    int directory;

    if (pdl__checkpoint_lock(folder, &directory)) return;
    pdl__checkpoint_remove_old(directory);
    pdl__checkpoint_prune(directory, folder, step, keep);
    close(directory);
}

static bool is_checkpoint(const char *name)
{
    int64_t step;
    bool    replaced;

    return pdl__checkpoint_parse_name(name, &step, &replaced);
}

static bool is_net(const char *name)
{
    return begins(name, PDL__NET);
}

/* A checkpoint; or the folder of a net, with checkpoints in it and what killed writers left. */
static bool is_only_ours(int directory, const char *name)
{
    DIR           *listing;
    struct dirent *entry;
    bool           ours = true;

    if (!is_net(name)) return holds_only_ours(directory, name);
    listing = open_inside(directory, name);
    if (listing == NULL) return false;
    while (ours && (entry = readdir(listing)) != NULL) {
        if (is_dots(entry->d_name) || begins(entry->d_name, PDL__PARTIAL)) continue;
        ours = is_checkpoint(entry->d_name) && holds_only_ours(dirfd(listing), entry->d_name);
    }
    closedir(listing);
    return ours;
}

static void remove_net(int directory, const char *name)
{
    DIR           *listing = open_inside(directory, name);
    struct dirent *entry;

    if (listing == NULL) return;
    while ((entry = readdir(listing)) != NULL) {
        if (is_checkpoint(entry->d_name) || begins(entry->d_name, PDL__PARTIAL))
            pdl__checkpoint_remove_partial(dirfd(listing), entry->d_name);
    }
    closedir(listing);
    unlinkat(directory, name, AT_REMOVEDIR);
}

void pdl__checkpoint_remove_old(int directory)
{
    DIR           *listing = open_inside(directory, ".");
    struct dirent *entry;

    if (listing == NULL) return;
    while ((entry = readdir(listing)) != NULL) {
        if (!begins(entry->d_name, PDL__OLD)) continue;
        if (is_net(entry->d_name + strlen(PDL__OLD)))
            remove_net(directory, entry->d_name);
        else
            pdl__checkpoint_remove_partial(directory, entry->d_name);
    }
    closedir(listing);
}

/* Calls `act` for everything of a run in the folder, until it fails. */
static pdl_status_t for_each(int directory, const char *folder,
                             pdl_status_t (*act)(int directory, const char *folder, const char *name))
{
    DIR           *listing = open_inside(directory, ".");
    struct dirent *entry;
    pdl_status_t   status = PDL_OK;

    if (listing == NULL) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    while (!status && (entry = readdir(listing)) != NULL) {
        if (is_checkpoint(entry->d_name) || is_net(entry->d_name)) status = act(directory, folder, entry->d_name);
    }
    closedir(listing);
    return status;
}

static pdl_status_t check_content(int directory, const char *folder, const char *name)
{
    if (is_only_ours(directory, name)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "--overwrite: %s/%s holds other files than those of checkpoints: move them, or give another "
                     "folder to --checkpoint",
                     folder, name);
}

static pdl_status_t move_aside(int directory, const char *folder, const char *name)
{
    char old[sizeof(PDL__OLD) + 256];

    snprintf(old, sizeof(old), PDL__OLD "%s", name);
    if (renameat(directory, name, directory, old) == 0) return PDL_OK;
    return pdl_error(PDL_ERR_IO, "cannot replace %s/%s: %s", folder, name, strerror(errno));
}

pdl_status_t pdl__checkpoint_set_aside(const char *folder)
{
    bool         used;
    int          directory;
    pdl_status_t status = pdl__checkpoint_used(folder, &used);

    if (status || (!used && !pdl__checkpoint_has_nets(folder))) return status;
    status = pdl__checkpoint_lock(folder, &directory);
    if (status) return status;
    status = for_each(directory, folder, check_content);
    if (!status) {
        pdl__checkpoint_remove_old(directory); /* of an earlier replacement: these are newer */
        status = for_each(directory, folder, move_aside);
    }
    close(directory);
    return status;
}
