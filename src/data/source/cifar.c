/*
 * CIFAR-10 and CIFAR-100, binary version: records of one label (two for CIFAR-100, the coarse one first) and three
 * planes of 32 x 32 bytes.
 */
#include "data/source/source.h"

#include <paradl/base/share.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SIDE      32
#define PIXELS    (3 * SIDE * SIDE)
#define MAX_FILES 64

typedef struct state {
    int          labels; /* bytes before the pixels */
    int          files;
    pdl__bytes_t file[MAX_FILES];
    int64_t      first[MAX_FILES + 1]; /* record with which each file begins */
} state_t;

static const char *const binary[] = {".bin", NULL};

static bool begins(const char *name, const char *word)
{
    return strncmp(name, word, strlen(word)) == 0;
}

/* Which of the files of a folder belong to a split: CIFAR-10 has data_batch_*.bin and test_batch.bin, CIFAR-100
   train.bin (or train_batch_*.bin) and test.bin. */
static bool belongs(const char *name, int labels, pdl_split_t split)
{
    if (labels == 1) return begins(name, split == PDL_SPLIT_TRAIN ? "data_batch_" : "test_batch");
    if (split == PDL_SPLIT_VALID) return strcmp(name, "test.bin") == 0;
    return strcmp(name, "train.bin") == 0 || begins(name, "train_batch_");
}

/* 1 for CIFAR-10, 2 for CIFAR-100, 0 for neither. A train.bin alone may be tokens, so its partner decides. */
static int kind_of(const char *folder)
{
    char **names;
    size_t count, i;
    int    kind = 0;

    if (pdl__folder_list(folder, PDL__ENTRY_FILE, binary, &names, &count) != PDL_OK) return 0;
    for (i = 0; i < count && kind == 0; i++) {
        if (begins(names[i], "data_batch_") || strcmp(names[i], "test_batch.bin") == 0) kind = 1;
        if (begins(names[i], "train_batch_") || strcmp(names[i], "test.bin") == 0) kind = 2;
    }
    pdl_share_free_list(names, count);
    return kind;
}

static bool claims(const char *path, bool folder)
{
    return folder && kind_of(path) != 0;
}

static pdl_status_t add_file(state_t *state, const char *folder, const char *name)
{
    const size_t  record = PIXELS + (size_t)state->labels;
    const int     classes = state->labels == 1 ? 10 : 100;
    pdl__bytes_t *file = &state->file[state->files];
    char          path[PDL__PATH];
    size_t        i;
    pdl_status_t  st = pdl__path_join(folder, name, path, sizeof(path));

    if (st != PDL_OK) return st;
    if (state->files == MAX_FILES) return pdl_error(PDL_ERR_INPUT, "%s: more than %d files", folder, MAX_FILES);
    st = pdl__bytes_open(path, file);
    if (st != PDL_OK) return st;
    state->files++;
    if (file->size % record != 0) {
        return pdl_error(PDL_ERR_INPUT, "%s: %zu bytes are not whole records of %zu; obtain the file again", path,
                         file->size, record);
    }
    for (i = 0; i < file->size / record; i++) {
        const int label = file->data[i * record + (size_t)state->labels - 1];

        if (label >= classes) {
            return pdl_error(PDL_ERR_INPUT, "%s: record %zu: label %d is not below %d; obtain the file again", path,
                             i, label, classes);
        }
    }
    state->first[state->files] = state->first[state->files - 1] + (int64_t)(file->size / record);
    return PDL_OK;
}

static pdl_status_t add_files(state_t *state, const char *folder, pdl_split_t split)
{
    char       **names;
    size_t       count, i;
    pdl_status_t st = pdl__folder_list(folder, PDL__ENTRY_FILE, binary, &names, &count);

    if (st != PDL_OK) return st;
    for (i = 0; i < count && st == PDL_OK; i++) {
        if (belongs(names[i], state->labels, split)) st = add_file(state, folder, names[i]);
    }
    pdl_share_free_list(names, count);
    return st;
}

static pdl_status_t open_cifar(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    const pdl_shape_t stored = pdl__shape_image(3, SIDE, SIDE);
    state_t          *state = calloc(1, sizeof(*state));
    pdl_status_t      st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    state->labels = kind_of(path);
    if (source->known != NULL) state->labels = source->known->classes == 100 ? 2 : 1;
    st = add_files(state, path, options->split);
    if (st != PDL_OK) return st;
    if (state->files == 0) {
        return pdl_error(PDL_ERR_INPUT, "%s: no %s in it", path,
                         state->labels == 1
                             ? options->split == PDL_SPLIT_TRAIN ? "data_batch_*.bin" : "test_batch.bin"
                         : options->split == PDL_SPLIT_TRAIN ? "train.bin or train_batch_*.bin"
                                                             : "test.bin");
    }
    source->info.samples = state->first[state->files];
    /* The format is used for these two sets only, so the means hold for a path as well. */
    source->known = pdl__known_find(state->labels == 1 ? "cifar10" : "cifar100");
    source->info.target = PDL_TARGET_CLASS;
    source->info.target_count = 1;
    source->info.bytes_per_sample = PIXELS + state->labels;
    st = pdl__classes_set(source, options, 0, path);
    if (st == PDL_OK) st = pdl__pixels_shape(path, &stored, &options->shape, &source->info.shape);
    source->info.bytes = st == PDL_OK && pdl__pixels_are(&stored, &source->info.shape);
    return st;
}

static pdl_status_t read_cifar(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const uint8_t *record;
    pdl__pixels_t  pixels;
    int            file = 0;

    while (index >= state->first[file + 1]) file++;
    record = state->file[file].data + (index - state->first[file]) * (PIXELS + state->labels);
    pixels = (pdl__pixels_t){.data = record + state->labels,
                             .width = SIDE,
                             .height = SIDE,
                             .channels = 3,
                             .row = SIDE,
                             .column = 1,
                             .plane = SIDE * SIDE};
    if (sample->bytes != NULL)
        memcpy(sample->bytes, pixels.data, PIXELS);
    else
        pdl__pixels_fit(&pixels, &source->info.shape, sample->values);
    sample->labels[0] = record[state->labels - 1];
    return PDL_OK;
}

static void close_cifar(void *opened)
{
    state_t *state = opened;
    int      i;

    for (i = 0; i < state->files; i++) pdl__bytes_close(&state->file[i]);
    free(state);
}

const pdl__reader_t pdl__reader_cifar = {"CIFAR files", claims, open_cifar, read_cifar, close_cifar};
