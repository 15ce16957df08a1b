/*
 * Folders of images, one folder a class: PATH/train/CLASS/..., PATH/val/CLASS/..., or PATH/CLASS/... alone. Classes are
 * numbered in the order of the names of the folders of the training part. Files are found at opening and read when
 * their turn comes.
 */
#include "data/image/image.h"

#include <paradl/base/share.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 4 /* of folders below that of a class; also ends a loop of links */

typedef struct entry {
    size_t  name; /* where it begins among the names */
    int32_t label;
} entry_t;

typedef struct state {
    char               folder[PDL__PATH];
    char             **classes;
    size_t             class_count;
    char              *names; /* paths below the folder, each with its zero byte */
    size_t             names_used, names_room;
    entry_t           *entries;
    size_t             count, room;
    pdl__source_part_t part;
} state_t;

static const char *const image_extensions[] = {".jpg", ".jpeg", ".png", NULL};

static bool claims(const char *path, bool folder)
{
    char **names;
    size_t count;

    if (!folder || pdl__folder_list(path, PDL__ENTRY_FOLDER, NULL, &names, &count) != PDL_OK) return false;
    pdl_share_free_list(names, count);
    return count > 0;
}

static pdl_status_t add_entry(state_t *state, const char *name, int32_t label)
{
    const size_t length = strlen(name) + 1;

    if (state->names_room - state->names_used < length) {
        const size_t room = state->names_room * 2 + 65536;
        char        *larger = realloc(state->names, room);

        if (larger == NULL) return pdl__out_of_memory(state->folder);
        state->names = larger;
        state->names_room = room;
    }
    if (state->count == state->room) {
        const size_t room = state->room * 2 + 1024;
        entry_t     *larger = realloc(state->entries, room * sizeof(*larger));

        if (larger == NULL) return pdl__out_of_memory(state->folder);
        state->entries = larger;
        state->room = room;
    }
    state->entries[state->count++] = (entry_t){state->names_used, label};
    memcpy(state->names + state->names_used, name, length);
    state->names_used += length;
    return PDL_OK;
}

/* `name` is a folder below state->folder; its images come before those of its folders. */
static pdl_status_t add_folder(state_t *state, const char *name, int32_t label, int depth)
{
    char         path[PDL__PATH], below[PDL__PATH];
    char       **names = NULL;
    size_t       count = 0, i;
    pdl_status_t st = pdl__path_join(state->folder, name, path, sizeof(path));

    if (st == PDL_OK) st = pdl__folder_list(path, PDL__ENTRY_FILE, image_extensions, &names, &count);
    for (i = 0; i < count && st == PDL_OK; i++) {
        st = pdl__path_join(name, names[i], below, sizeof(below));
        if (st == PDL_OK) st = add_entry(state, below, label);
    }
    pdl_share_free_list(names, count);
    if (st != PDL_OK || depth == MAX_DEPTH) return st;
    st = pdl__folder_list(path, PDL__ENTRY_FOLDER, NULL, &names, &count);
    if (st != PDL_OK) return st;
    for (i = 0; i < count && st == PDL_OK; i++) {
        st = pdl__path_join(name, names[i], below, sizeof(below));
        if (st == PDL_OK) st = add_folder(state, below, label, depth + 1);
    }
    pdl_share_free_list(names, count);
    return st;
}

static pdl_status_t find_class(const state_t *state, const char *name, int32_t *label)
{
    size_t i;

    for (i = 0; i < state->class_count; i++) {
        if (strcmp(state->classes[i], name) != 0) continue;
        *label = (int32_t)i;
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT, "%s/%s: there is no class of this name among the training images",
                     state->folder, name);
}

static pdl_status_t add_classes(state_t *state)
{
    char       **names;
    size_t       count, i;
    pdl_status_t st = pdl__folder_list(state->folder, PDL__ENTRY_FOLDER, NULL, &names, &count);

    if (st != PDL_OK) return st;
    for (i = 0; i < count && st == PDL_OK; i++) {
        int32_t label = 0;

        st = find_class(state, names[i], &label);
        if (st == PDL_OK) st = add_folder(state, names[i], label, 0);
    }
    pdl_share_free_list(names, count);
    if (st == PDL_OK && state->count == 0) {
        st = pdl_error(PDL_ERR_INPUT, "%s: no images in it: expected .jpg or .png files in a folder for each class",
                       state->folder);
    }
    return st;
}

static pdl_status_t entry_path(const state_t *state, size_t entry, char path[PDL__PATH])
{
    return pdl__path_join(state->folder, state->names + state->entries[entry].name, path, PDL__PATH);
}

/* The first image stands for the others where the model does not say what it reads. */
static pdl_status_t find_shape(pdl_source_t *source, const pdl_source_options_t *options, const state_t *state)
{
    char         path[PDL__PATH];
    pdl__bytes_t bytes = {0};
    pdl__image_t image = {0};
    pdl_shape_t  stored;
    pdl_status_t st = entry_path(state, 0, path);

    if (st == PDL_OK) st = pdl__bytes_open(path, &bytes);
    if (st == PDL_OK) st = pdl__image_head(bytes.data, bytes.size, path, &image);
    pdl__bytes_close(&bytes);
    if (st != PDL_OK) return st;
    stored = pdl__shape_image(image.channels, image.height, image.width);
    if (options->shape.rank == 0 && pdl__shape_given(&options->shape)) {
        return pdl_error(PDL_ERR_INPUT, "%s: images have rows and columns, the model reads a vector",
                         state->folder);
    }
    return pdl__pixels_shape(state->folder, &stored, &options->shape, &source->info.shape);
}

/* From a few dozen files all over the list. */
static double mean_bytes(const state_t *state)
{
    const size_t step = state->count / 64 + 1;
    double       sum = 0;
    size_t       files = 0, i;

    for (i = 0; i < state->count; i += step) {
        char        path[PDL__PATH];
        struct stat info;

        if (entry_path(state, i, path) != PDL_OK || stat(path, &info) != 0) continue;
        sum += (double)info.st_size;
        files++;
    }
    return files > 0 ? sum / (double)files : 0;
}

static pdl_status_t open_folder(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    const bool   valid = options->split == PDL_SPLIT_VALID;
    state_t     *state = calloc(1, sizeof(*state));
    char         train[PDL__PATH];
    bool         own;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    if (!pdl__folder_of_split(path, PDL_SPLIT_TRAIN, train, sizeof(train)))
        snprintf(train, sizeof(train), "%s", path);
    own = strcmp(train, path) != 0 &&
          pdl__folder_of_split(path, PDL_SPLIT_VALID, state->folder, sizeof(state->folder));
    if (!own || !valid) memcpy(state->folder, train, sizeof(train));
    source->part = state->part = pdl__part_of(options, own);
    st = pdl__folder_list(train, PDL__ENTRY_FOLDER, NULL, &state->classes, &state->class_count);
    if (st == PDL_OK) st = add_classes(state);
    if (st == PDL_OK) st = find_shape(source, options, state);
    if (st == PDL_OK) st = pdl__classes_set(source, options, (int64_t)state->class_count - 1, train);
    if (st == PDL_OK)
        st = pdl__part_samples(&state->part, (int64_t)state->count, state->folder, &source->info.samples);
    source->info.target = PDL_TARGET_CLASS;
    source->info.target_count = 1;
    source->info.bytes_per_sample = mean_bytes(state);
    return st;
}

static pdl_status_t read_folder(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const size_t   at = (size_t)pdl__part_index(&state->part, index);
    char           path[PDL__PATH];
    pdl__bytes_t   bytes;
    pdl_status_t   st = entry_path(state, at, path);

    if (st == PDL_OK) st = pdl__bytes_open(path, &bytes);
    if (st != PDL_OK) return st;
    st = pdl__image_read(bytes.data, bytes.size, path, &source->info.shape, sample->values);
    pdl__bytes_close(&bytes);
    sample->labels[0] = state->entries[at].label;
    return st;
}

static void close_folder(void *opened)
{
    state_t *state = opened;

    pdl_share_free_list(state->classes, state->class_count);
    free(state->names);
    free(state->entries);
    free(state);
}

const pdl__reader_t pdl__reader_folder = {"folders of images", claims, open_folder, read_folder, close_folder};
