/*
 * What is in a checkpoint folder: names, and which checkpoints are complete.
 */
#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP "step-"

void pdl__checkpoint_name(int64_t step, bool replaced, char name[PDL__NAME_MAX])
{
    snprintf(name, PDL__NAME_MAX, STEP "%08" PRId64 "%s", step, replaced ? PDL__REPLACED : "");
}

/* A name counts only if it is the one we would give: no second spelling of a step, nothing behind it. */
bool pdl__checkpoint_parse_name(const char *name, int64_t *step, bool *replaced)
{
    char    expected[PDL__NAME_MAX];
    size_t  length = strlen(name), ending = strlen(PDL__REPLACED);
    int64_t value = 0;

    if (strncmp(name, STEP, strlen(STEP)) != 0) return false;
    for (const char *at = name + strlen(STEP); *at >= '0' && *at <= '9'; at++) {
        if (value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (*at - '0');
    }
    *step = value;
    *replaced = length > ending && strcmp(name + length - ending, PDL__REPLACED) == 0;
    pdl__checkpoint_name(value, *replaced, expected);
    return strcmp(name, expected) == 0;
}

/* A checkpoint gets its name when all of it is there; one without its files has been tampered with. */
static bool is_complete(int directory, int64_t step, bool replaced)
{
    char name[PDL__NAME_MAX], path[PDL__NAME_MAX + sizeof(PDL__MODEL_FILE) + sizeof(PDL__STATE_FILE)];

    pdl__checkpoint_name(step, replaced, name);
    snprintf(path, sizeof(path), "%s/%s", name, PDL__MODEL_FILE);
    if (faccessat(directory, path, F_OK, 0) != 0) return false;
    snprintf(path, sizeof(path), "%s/%s", name, PDL__STATE_FILE);
    return faccessat(directory, path, F_OK, 0) == 0;
}

static int latest_first(const void *a, const void *b)
{
    const pdl__found_t *x = a, *y = b;

    if (x->step != y->step) return x->step > y->step ? -1 : 1;
    return (int)x->replaced - (int)y->replaced;
}

static pdl_status_t add_found(pdl__found_t **found, int *count, int *capacity, const pdl__found_t *entry)
{
    if (*count == *capacity) {
        pdl__found_t *longer = realloc(*found, ((size_t)*capacity * 2 + 16) * sizeof(*longer));

        if (longer == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
        *found = longer;
        *capacity = *capacity * 2 + 16;
    }
    (*found)[(*count)++] = *entry;
    return PDL_OK;
}

/* fdopendir() takes its descriptor over, so it gets one of its own. */
static DIR *open_listing(int directory)
{
    int  again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = again >= 0 ? fdopendir(again) : NULL;

    if (listing == NULL && again >= 0) close(again);
    return listing;
}

pdl_status_t pdl__checkpoint_scan(int directory, const char *folder, pdl__found_t **found, int *count)
{
    DIR           *listing = open_listing(directory);
    struct dirent *entry;
    int            capacity = 0;
    pdl_status_t   status = PDL_OK;

    *found = NULL;
    *count = 0;
    if (listing == NULL) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    while (!status && (entry = readdir(listing)) != NULL) {
        pdl__found_t one;

        if (!pdl__checkpoint_parse_name(entry->d_name, &one.step, &one.replaced)) continue;
        one.complete = is_complete(directory, one.step, one.replaced);
        status = add_found(found, count, &capacity, &one);
    }
    closedir(listing);
    if (status) {
        free(*found);
        *found = NULL;
        return status;
    }
    if (*count > 0) qsort(*found, (size_t)*count, sizeof(**found), latest_first);
    return PDL_OK;
}

static bool has_part(const char *folder, const char *file)
{
    size_t size = strlen(folder) + strlen(file) + 2;
    char  *path = malloc(size);
    bool   has;

    if (path == NULL) return false;
    snprintf(path, size, "%s/%s", folder, file);
    has = access(path, F_OK) == 0;
    free(path);
    return has;
}

bool pdl__checkpoint_is_one(const char *path)
{
    return has_part(path, PDL__MODEL_FILE) || has_part(path, PDL__STATE_FILE);
}

bool pdl__checkpoint_has_nets(const char *folder)
{
    return has_part(folder, PDL__NET "0");
}

pdl_status_t pdl__checkpoint_used(const char *folder, bool *used)
{
    int           directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count;
    pdl__found_t *found;
    pdl_status_t  status;

    *used = false;
    if (directory < 0 && errno == ENOENT) return PDL_OK;
    if (directory < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    status = pdl__checkpoint_scan(directory, folder, &found, &count);
    close(directory);
    if (status) return status;
    *used = count > 0 || pdl__checkpoint_is_one(folder);
    free(found);
    return PDL_OK;
}

pdl_status_t pdl_checkpoint_latest(const char *folder, int64_t *step)
{
    int           directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), count;
    pdl__found_t *found;
    pdl_status_t  status;

    if (directory < 0 && errno == ENOENT) {
        *step = -1;
        return PDL_OK;
    }
    if (directory < 0) return pdl_error(PDL_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    status = pdl__checkpoint_scan(directory, folder, &found, &count);
    close(directory);
    if (status) return status;
    *step = -1;
    for (int i = count - 1; i >= 0; i--) {
        if (found[i].complete) *step = found[i].step;
    }
    free(found);
    return PDL_OK;
}
