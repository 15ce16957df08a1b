/*
 * Removes old checkpoints and what killed writers left. Nothing outside the folder is ever touched: links are
 * not followed, and a checkpoint into which somebody put other files stays.
 *
 * A checkpoint that goes first loses its name, in one step, so that half of one is never taken for a whole.
 * What cannot be removed is tried again at the next write.
 */
#include "train/checkpoint_clean.h"
#include "train/checkpoint.h"

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

/* Files of ours, and those on their way to become one. */
static bool is_ours(const char *name)
{
    return strncmp(name, PDL__MODEL_FILE, strlen(PDL__MODEL_FILE)) == 0 ||
           strncmp(name, PDL__STATE_FILE, strlen(PDL__STATE_FILE)) == 0;
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
        if (strncmp(entry->d_name, PDL__PARTIAL, strlen(PDL__PARTIAL)) == 0) {
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
