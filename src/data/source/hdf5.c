/*
 * HDF5 files, one file or a folder of files:
 *   CosmoFlow  one sample a file: /full [d][h][w][channels], targets in /unitPar (or /physPar). What is stored counts
 *              particles over four orders of magnitude; log(1 + x) is delivered, as the benchmark's own readers do.
 *   DeepCAM    one sample a file: /climate/data [h][w][channels], a class for each pixel in /climate/labels_0.
 *   others     many samples a file: /data (or /x, /images) [n][axes of a sample], targets in /labels (or /y, /targets).
 * Conversion goes on outside of the lock that the library needs.
 */
#include "data/plugin/hdf5.h"

#include "base/plugin.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const extensions[] = {".h5", ".hdf5", NULL};

static bool claims(const char *path, bool folder)
{
    return pdl__files_exist(path, folder, extensions);
}

/* A sample beyond this is a mistake: CosmoFlow's largest has 2^29 elements. */
#define MAX_ELEMENTS ((int64_t)1 << 31)

typedef struct layout {
    const char *data, *targets[2];
    bool        many;    /* samples in a file */
    bool        counts;  /* log(1 + x) */
    int64_t     classes; /* of masks */
} layout_t;

static const layout_t layouts[] = {
    {"full", {"unitPar", "physPar"}, false, true, 0}, {"climate/data", {"climate/labels_0", NULL}, false, false, 3},
    {"data", {"labels", "targets"}, true, false, 0},  {"x", {"y", NULL}, true, false, 0},
    {"images", {"labels", NULL}, true, false, 0},
};

#define LAYOUT_COUNT (sizeof(layouts) / sizeof(layouts[0]))

typedef struct state {
    const pdl__hdf5_t  *hdf5;
    pdl__file_list_t    files;
    int64_t            *first; /* sample with which each file begins; for one sample a file NULL */
    const layout_t     *layout;
    const char         *target; /* name of the targets */
    pdl__source_part_t  part;
    pdl__array_layout_t axes;
    int                 rank; /* of one sample */
    int64_t             size[PDL__ARRAY_RANK];
    int64_t             elements;
    int64_t             open; /* the file used last, or negative */
    size_t              open_index;
} state_t;

static pdl_status_t use_file(state_t *state, size_t index)
{
    if (state->open >= 0 && state->open_index == index) return PDL_OK;
    if (state->open >= 0) state->hdf5->close(state->open);
    state->open = state->hdf5->open(state->files.paths[index]);
    state->open_index = index;
    if (state->open >= 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: not an HDF5 file, or damaged", state->files.paths[index]);
}

/* Which of the known layouts a file has. */
static pdl_status_t find_layout(state_t *state)
{
    const char *path = state->files.paths[0];
    size_t      i, j;

    for (i = 0; i < LAYOUT_COUNT; i++) {
        const layout_t *layout = &layouts[i];

        /* The group has to be there before a link in it is asked for. */
        if (strcmp(layout->data, "climate/data") == 0 && !state->hdf5->has(state->open, "climate")) continue;
        if (!state->hdf5->has(state->open, layout->data)) continue;
        for (j = 0; j < 2 && layout->targets[j] != NULL; j++) {
            if (!state->hdf5->has(state->open, layout->targets[j])) continue;
            state->layout = layout;
            state->target = layout->targets[j];
            return PDL_OK;
        }
        return pdl_error(PDL_ERR_INPUT, "%s: /%s is there but not its targets, /%s", path, layout->data,
                         layout->targets[0]);
    }
    return pdl_error(PDL_ERR_INPUT,
                     "%s: none of /full (CosmoFlow), /climate/data (DeepCAM), /data, /x, /images in it", path);
}

/* The same axes in all files. */
static pdl_status_t check_axes(const state_t *state, const pdl__hdf5_set_t *set, const char *path)
{
    const int skip = state->layout->many;

    if (set->rank - skip == state->rank &&
        memcmp(set->size + skip, state->size, (size_t)state->rank * sizeof(state->size[0])) == 0) {
        return PDL_OK;
    }
    return pdl_error(PDL_ERR_INPUT, "%s: /%s has another shape than that of %s", path, state->layout->data,
                     state->files.paths[0]);
}

/* The largest class of a file, where there is one a sample. */
static pdl_status_t find_largest(const state_t *state, const pdl__hdf5_set_t *targets, const char *path,
                                 int64_t *largest)
{
    const int64_t count = targets->size[0];
    int32_t      *labels;
    int64_t       i;
    pdl_status_t  st;

    if (count > MAX_ELEMENTS) return pdl_error(PDL_ERR_INPUT, "%s: more than 2^31 samples", path);
    labels = malloc((size_t)count * sizeof(*labels));
    if (labels == NULL) return pdl__out_of_memory(path);
    st = state->hdf5->read(targets, path, state->target, false, 0, false, labels);
    for (i = 0; st == PDL_OK && i < count; i++) {
        if (labels[i] < 0) {
            st = pdl_error(PDL_ERR_INPUT, "%s: label %" PRId64 " is %d: classes are counted from 0", path, i,
                           labels[i]);
        } else if (labels[i] > *largest) {
            *largest = labels[i];
        }
    }
    free(labels);
    return st;
}

/* How many samples a file holds. */
static pdl_status_t count_file(const pdl_source_t *source, size_t index, int64_t *count, int64_t *largest)
{
    state_t        *state = source->state;
    const char     *path = state->files.paths[index];
    pdl__hdf5_set_t data = {.id = -1, .space = -1}, targets = {.id = -1, .space = -1};
    pdl_status_t    st = use_file(state, index);

    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->layout->data, &data);
    if (st == PDL_OK) st = check_axes(state, &data, path);
    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->target, &targets);
    if (st == PDL_OK && targets.size[0] != data.size[0]) {
        st = pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " targets for %" PRId64 " samples", path, targets.size[0],
                       data.size[0]);
    }
    if (st == PDL_OK && source->info.target == PDL_TARGET_CLASS) st = find_largest(state, &targets, path, largest);
    if (st == PDL_OK) *count = data.size[0];
    state->hdf5->close_set(&targets);
    state->hdf5->close_set(&data);
    return st;
}

/* Samples of every file that holds many; those that hold one need not be opened before their turn. */
static pdl_status_t count_samples(pdl_source_t *source, const pdl_source_options_t *options, int64_t *total)
{
    state_t *state = source->state;
    int64_t  largest = 0, count = 0;
    size_t   i;

    *total = (int64_t)state->files.count;
    if (!state->layout->many) return PDL_OK;
    state->first = calloc(state->files.count + 1, sizeof(*state->first));
    if (state->first == NULL) return pdl__out_of_memory(state->files.paths[0]);
    for (i = 0; i < state->files.count; i++) {
        pdl_status_t st = count_file(source, i, &count, &largest);

        if (st != PDL_OK) return st;
        state->first[i + 1] = state->first[i] + count;
    }
    *total = state->first[state->files.count];
    if (source->info.target != PDL_TARGET_CLASS) return PDL_OK;
    return pdl__classes_set(source, options, largest, state->files.paths[0]);
}

static pdl_status_t describe_target(pdl_source_t *source, const pdl_source_options_t *options, const state_t *state,
                                    const pdl__hdf5_set_t *targets)
{
    const char  *path = state->files.paths[0];
    const int    skip = state->layout->many;
    int64_t      classes = options->classes;
    pdl_status_t st = pdl__array_target(source, path, targets->size + skip, targets->rank - skip,
                                        targets->integers && !state->layout->counts, &state->axes);

    if (st != PDL_OK) return st;
    if (source->info.target == PDL_TARGET_VALUES) {
        if (classes == 0 || classes == source->info.target_count) return PDL_OK;
        return pdl_error(PDL_ERR_INPUT, "%s: /%s has %" PRId64 " numbers, the model gives %" PRId64, path,
                         state->target, source->info.target_count, classes);
    }
    if (classes == 0) classes = state->layout->classes;
    source->info.classes = classes;
    if (classes > 0 || source->info.target == PDL_TARGET_CLASS) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: nothing says how many classes /%s has; choose the model first", path,
                     state->target);
}

static pdl_status_t describe_data(pdl_source_t *source, const pdl_source_options_t *options, state_t *state,
                                  const pdl__hdf5_set_t *data)
{
    const char  *path = state->files.paths[0];
    pdl_status_t st;

    state->rank = data->rank - state->layout->many;
    memcpy(state->size, data->size + state->layout->many, (size_t)state->rank * sizeof(state->size[0]));
    if (!pdl__array_elements(state->size, state->rank, &state->elements) || state->elements > MAX_ELEMENTS) {
        return pdl_error(PDL_ERR_INPUT, "%s: a sample of /%s is larger than 2^31 elements", path,
                         state->layout->data);
    }
    st = pdl__array_layout(path, state->size, state->rank, false, &options->shape, &state->axes);
    source->info.shape = state->axes.shape;
    source->info.bytes_per_sample = data->stored_bytes / (state->layout->many ? (double)data->size[0] : 1);
    return st;
}

static pdl_status_t open_locked(pdl_source_t *source, const pdl_source_options_t *options, state_t *state)
{
    const char     *path = state->files.paths[0];
    pdl__hdf5_set_t set;
    int64_t         total;
    pdl_status_t    st = use_file(state, 0);

    if (st == PDL_OK) st = find_layout(state);
    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->layout->data, &set);
    if (st != PDL_OK) return st;
    st = describe_data(source, options, state, &set);
    state->hdf5->close_set(&set);
    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->target, &set);
    if (st != PDL_OK) return st;
    st = describe_target(source, options, state, &set);
    state->hdf5->close_set(&set);
    if (st == PDL_OK) st = count_samples(source, options, &total);
    return st != PDL_OK ? st : pdl__part_samples(&state->part, total, path, &source->info.samples);
}

static pdl_status_t open_hdf5(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    state_t     *state = calloc(1, sizeof(*state));
    const void  *table;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    state->open = -1;
    st = pdl__files_of_split(path, options->split, extensions, &state->files);
    if (st != PDL_OK) return st;
    st = pdl__plugin_load(PDL__PLUGIN_HDF5, state->files.paths[0], sizeof(pdl__hdf5_t), &table);
    if (st != PDL_OK) return st;
    state->hdf5 = table;
    source->part = state->part = pdl__part_of(options, state->files.own);
    state->hdf5->begin();
    st = open_locked(source, options, state);
    state->hdf5->end();
    return st;
}

/* Reads what is stored: values into `raw`, and the targets. */
static pdl_status_t read_locked(const pdl_source_t *source, int64_t at, float *raw, const pdl_sample_t *sample)
{
    state_t        *state = source->state;
    const bool      many = state->layout->many, numbers = source->info.target == PDL_TARGET_VALUES;
    size_t          file = many ? 0 : (size_t)at;
    int64_t         count = 0;
    const char     *path;
    pdl__hdf5_set_t set;
    pdl_status_t    st;

    while (many && at >= state->first[file + 1]) file++;
    if (many) at -= state->first[file];
    path = state->files.paths[file];
    st = use_file(state, file);
    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->layout->data, &set);
    if (st != PDL_OK) return st;
    st = check_axes(state, &set, path);
    if (st == PDL_OK) st = state->hdf5->read(&set, path, state->layout->data, many, at, true, raw);
    state->hdf5->close_set(&set);
    if (st == PDL_OK) st = state->hdf5->open_set(state->open, path, state->target, &set);
    if (st != PDL_OK) return st;
    if (!pdl__array_elements(set.size + many, set.rank - many, &count) || count != source->info.target_count) {
        st = pdl_error(PDL_ERR_INPUT, "%s: /%s has another shape than that of %s", path, state->target,
                       state->files.paths[0]);
    }
    if (st == PDL_OK) {
        st = state->hdf5->read(&set, path, state->target, many, at, numbers,
                               numbers ? (void *)sample->numbers : (void *)sample->labels);
    }
    state->hdf5->close_set(&set);
    return st;
}

static void deliver(const state_t *state, const float *raw, float *values)
{
    const pdl__array_layout_t *axes = &state->axes;
    int64_t                    c, p;

    for (c = 0; axes->channels_last && c < axes->channels; c++) {
        for (p = 0; p < axes->positions; p++) values[c * axes->positions + p] = raw[p * axes->channels + c];
    }
    /* Counts are not negative; a damaged one must not become a NaN. */
    for (p = 0; state->layout->counts && p < state->elements; p++)
        values[p] = log1pf(values[p] > 0 ? values[p] : 0);
}

static pdl_status_t check_labels(const pdl_source_t *source, int64_t at, const int32_t *labels)
{
    int64_t i;

    for (i = 0; i < source->info.target_count; i++) {
        if (labels[i] < 0 || labels[i] >= source->info.classes) {
            return pdl_error(PDL_ERR_INPUT, "%s: sample %" PRId64 ": label %d is not a class, 0 to %" PRId64,
                             source->info.name, at, labels[i], source->info.classes - 1);
        }
    }
    return PDL_OK;
}

static pdl_status_t read_hdf5(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const int64_t  at = pdl__part_index(&state->part, index);
    float         *raw = sample->values;
    pdl_status_t   st;

    if (state->axes.channels_last) {
        raw = malloc((size_t)state->elements * sizeof(*raw));
        if (raw == NULL) return pdl__out_of_memory(source->info.name);
    }
    state->hdf5->begin();
    st = read_locked(source, at, raw, sample);
    state->hdf5->end();
    if (st == PDL_OK) deliver(state, raw, sample->values);
    if (raw != sample->values) free(raw);
    if (st != PDL_OK || source->info.target == PDL_TARGET_VALUES) return st;
    return check_labels(source, at, sample->labels);
}

static void close_hdf5(void *opened)
{
    state_t *state = opened;

    if (state->hdf5 != NULL) state->hdf5->begin();
    if (state->open >= 0) state->hdf5->close(state->open);
    if (state->hdf5 != NULL) state->hdf5->end();
    pdl__files_free(&state->files);
    free(state->first);
    free(state);
}

const pdl__reader_t pdl__reader_hdf5 = {"HDF5 files", claims, open_hdf5, read_hdf5, close_hdf5};
