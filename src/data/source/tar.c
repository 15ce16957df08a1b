/*
 * Shards of images in tar archives: one file, or the files of a folder. Shards are mapped; opening walks through their
 * headers once.
 */
#include "data/source/tar.h"

#include "data/image/image.h"

#include <stdlib.h>

typedef struct shard {
    pdl__bytes_t     bytes;
    pdl__tar_index_t index;
    int64_t          first; /* number of its first sample */
} shard_t;

typedef struct state {
    pdl__file_list_t   files;
    shard_t           *shards; /* one a file, and one more for the end */
    pdl__source_part_t part;
} state_t;

static const char *const extensions[] = {".tar", NULL};

static bool claims(const char *path, bool folder)
{
    return pdl__files_exist(path, folder, extensions);
}

static pdl_status_t add_shards(state_t *state, int64_t *largest)
{
    size_t i;

    for (i = 0; i < state->files.count; i++) {
        const char  *path = state->files.paths[i];
        shard_t     *shard = &state->shards[i];
        pdl_status_t st = pdl__bytes_map(path, &shard->bytes);

        if (st == PDL_OK) st = pdl__tar_read_memory(shard->bytes.data, shard->bytes.size, path, &shard->index);
        if (st != PDL_OK) return st;
        if (shard->index.largest > *largest) *largest = shard->index.largest;
        shard[1].first = shard->first + (int64_t)shard->index.count;
    }
    return PDL_OK;
}

/* The shard that holds a sample: the last that begins at it or before, and is not empty. */
static const shard_t *find_shard(const state_t *state, int64_t sample)
{
    size_t low = 0, high = state->files.count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (state->shards[middle].first <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &state->shards[low];
}

static pdl_status_t find_shape(pdl_source_t *source, const pdl_source_options_t *options, const state_t *state)
{
    const shard_t           *shard = find_shard(state, 0);
    const pdl__tar_sample_t *sample = &shard->index.samples[0];
    const char              *path = state->files.paths[shard - state->shards];
    char                     name[PDL__TAR_TEXT];
    pdl__image_t             image;
    pdl_shape_t              stored;
    pdl_status_t             st = pdl__image_head(shard->bytes.data + sample->offset, sample->size,
                                                  pdl__tar_entry_name(shard->bytes.data, path, sample, name), &image);

    if (st != PDL_OK) return st;
    stored = pdl__shape_image(image.channels, image.height, image.width);
    if (options->shape.rank == 0 && pdl__shape_given(&options->shape)) {
        return pdl_error(PDL_ERR_INPUT, "%s: images have rows and columns, the model reads a vector", path);
    }
    return pdl__pixels_shape(path, &stored, &options->shape, &source->info.shape);
}

static double total_bytes(const state_t *state)
{
    double sum = 0;
    size_t i;

    for (i = 0; i < state->files.count; i++) sum += (double)state->shards[i].bytes.size;
    return sum;
}

static pdl_status_t open_tar(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    state_t     *state = calloc(1, sizeof(*state));
    int64_t      largest = 0, total;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    st = pdl__files_of_split(path, options->split, extensions, &state->files);
    if (st != PDL_OK) return st;
    source->part = state->part = pdl__part_of(options, state->files.own);
    state->shards = calloc(state->files.count + 1, sizeof(*state->shards));
    if (state->shards == NULL) return pdl__out_of_memory(path);
    st = add_shards(state, &largest);
    if (st != PDL_OK) return st;
    total = state->shards[state->files.count].first;
    st = pdl__part_samples(&state->part, total, path, &source->info.samples);
    if (st == PDL_OK) st = find_shape(source, options, state);
    if (st == PDL_OK) st = pdl__classes_set(source, options, largest, path);
    source->info.target = PDL_TARGET_CLASS;
    source->info.target_count = 1;
    source->info.bytes_per_sample = total > 0 ? total_bytes(state) / (double)total : 0;
    return st;
}

static pdl_status_t read_tar(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t           *state = source->state;
    const int64_t            at = pdl__part_index(&state->part, index);
    const shard_t           *shard = find_shard(state, at);
    const pdl__tar_sample_t *entry = &shard->index.samples[at - shard->first];
    const char              *path = state->files.paths[shard - state->shards];
    char                     name[PDL__TAR_TEXT];

    sample->labels[0] = entry->label;
    return pdl__image_read(shard->bytes.data + entry->offset, entry->size,
                           pdl__tar_entry_name(shard->bytes.data, path, entry, name), &source->info.shape,
                           sample->values);
}

static void close_tar(void *opened)
{
    state_t *state = opened;
    size_t   i;

    for (i = 0; state->shards != NULL && i < state->files.count; i++) {
        pdl__tar_free(&state->shards[i].index);
        pdl__bytes_close(&state->shards[i].bytes);
    }
    free(state->shards);
    pdl__files_free(&state->files);
    free(state);
}

const pdl__reader_t pdl__reader_tar = {"tar shards", claims, open_tar, read_tar, close_tar};
