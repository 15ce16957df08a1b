/*
 * Samples in NAME.npy, [samples][axes of a sample], and their targets in NAME.labels.npy beside it. A folder may hold
 * train.npy and val.npy.
 */
#include "data/source/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    pdl__bytes_t        sample_bytes, label_bytes;
    pdl__npy_t          samples, labels;
    pdl__array_layout_t layout;
    pdl__source_part_t  part;
    int64_t             elements; /* of one sample */
} state_t;

static const char *const extensions[] = {".npy", NULL};

static bool claims(const char *path, bool folder)
{
    return folder ? pdl__path_exists_in(path, "train.npy") : pdl__has_extension(path, extensions);
}

static pdl_status_t label_path(const char *path, char *labels, size_t size)
{
    const int length = snprintf(labels, size, "%.*s.labels.npy", (int)(strlen(path) - strlen(extensions[0])), path);

    if (length < 0 || (size_t)length >= size) return pdl_error(PDL_ERR_INPUT, "the path is too long: %.60s", path);
    if (pdl__path_is_file(labels)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: its labels are not there; put them into %s", path, labels);
}

/* The classes of masks are read through only when nobody says how many there are. */
static pdl_status_t check_labels(pdl_source_t *source, const pdl_source_options_t *options, const state_t *state,
                                 const char *name)
{
    double  largest = 0;
    int64_t i;

    if (source->info.target == PDL_TARGET_VALUES) {
        if (options->classes == 0 || options->classes == source->info.target_count) return PDL_OK;
        return pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " numbers for each sample, the model gives %" PRId64, name,
                         source->info.target_count, options->classes);
    }
    if (source->info.target == PDL_TARGET_MASK && options->classes > 0) {
        source->info.classes = options->classes;
        return PDL_OK;
    }
    for (i = 0; i < state->labels.elements; i++) {
        const double label = pdl__npy_element(&state->labels, i);

        if (!(label >= 0 && label <= INT32_MAX)) {
            return pdl_error(PDL_ERR_INPUT, "%s: label %" PRId64 " is %.0f: classes are counted from 0", name, i,
                             label);
        }
        if (label > largest) largest = label;
    }
    return pdl__classes_set(source, options, (int64_t)largest, name);
}

static pdl_status_t load(const char *path, pdl__bytes_t *bytes, pdl__npy_t *array)
{
    pdl_status_t st = pdl__bytes_open(path, bytes);

    return st != PDL_OK ? st : pdl__npy_read_memory(bytes->data, bytes->size, path, array);
}

static pdl_status_t describe(pdl_source_t *source, const pdl_source_options_t *options, state_t *state,
                             const char *path, const char *labels)
{
    pdl_status_t st;

    if (state->samples.rank < 2) return pdl_error(PDL_ERR_INPUT, "%s: one axis only: expected samples first", path);
    if (state->labels.size[0] != state->samples.size[0]) {
        return pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " labels for %" PRId64 " samples", labels,
                         state->labels.size[0], state->samples.size[0]);
    }
    state->elements = state->samples.elements / state->samples.size[0];
    st = pdl__array_layout(path, state->samples.size + 1, state->samples.rank - 1,
                           state->samples.type == PDL__NPY_U8, &options->shape, &state->layout);
    if (st == PDL_OK) {
        st = pdl__array_target(source, labels, state->labels.size + 1, state->labels.rank - 1,
                               state->labels.integers, &state->layout);
    }
    if (st == PDL_OK) st = check_labels(source, options, state, labels);
    if (st != PDL_OK) return st;
    source->info.shape = state->layout.shape;
    source->info.bytes = state->samples.type == PDL__NPY_U8 && !state->layout.resize;
    source->info.bytes_per_sample = (double)state->elements * (double)state->samples.width +
                                    (double)source->info.target_count * (double)state->labels.width;
    return pdl__part_samples(&state->part, state->samples.size[0], path, &source->info.samples);
}

static pdl_status_t open_npy(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    char         file[PDL__PATH], labels[PDL__PATH];
    state_t     *state = calloc(1, sizeof(*state));
    bool         own;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    st = pdl__file_of_split(&path, options->split, ".npy", file, &own);
    source->part = state->part = pdl__part_of(options, own);
    if (st == PDL_OK) st = label_path(path, labels, sizeof(labels));
    if (st == PDL_OK) st = load(path, &state->sample_bytes, &state->samples);
    if (st == PDL_OK) st = load(labels, &state->label_bytes, &state->labels);
    return st != PDL_OK ? st : describe(source, options, state, path, labels);
}

static void read_values(const state_t *state, int64_t sample, float *values)
{
    const pdl__array_layout_t *layout = &state->layout;
    const int64_t              first = sample * state->elements;
    const int64_t              along = layout->channels_last ? layout->channels : 1;
    const float                unit = state->samples.type == PDL__NPY_U8 ? 255.0f : 1.0f;
    int64_t                    c, p;

    if (layout->resize) {
        const ptrdiff_t column = layout->channels_last ? (ptrdiff_t)layout->channels : 1;
        pdl__pixels_t   pixels = {.data = state->samples.data + first,
                                  .width = layout->width,
                                  .height = layout->height,
                                  .channels = (int)layout->channels,
                                  .row = layout->width * column,
                                  .column = column,
                                  .plane = layout->channels_last ? 1 : layout->width * layout->height};

        pdl__pixels_fit(&pixels, &layout->shape, values);
        return;
    }
    if (state->samples.type == PDL__NPY_F32 && !layout->channels_last) {
        memcpy(values, state->samples.data + (size_t)first * sizeof(float),
               (size_t)state->elements * sizeof(float));
        return;
    }
    for (c = 0; c < layout->channels; c++) {
        const int64_t start = first + (layout->channels_last ? c : c * layout->positions);

        for (p = 0; p < layout->positions; p++) {
            *values++ = (float)pdl__npy_element(&state->samples, start + p * along) / unit;
        }
    }
}

static void read_bytes(const state_t *state, int64_t sample, uint8_t *bytes)
{
    const pdl__array_layout_t *layout = &state->layout;
    const uint8_t             *from = state->samples.data + sample * state->elements;

    if (!layout->channels_last) {
        memcpy(bytes, from, (size_t)state->elements);
        return;
    }
    for (int64_t c = 0; c < layout->channels; c++)
        for (int64_t p = 0; p < layout->positions; p++) *bytes++ = from[p * layout->channels + c];
}

static pdl_status_t read_npy(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const int64_t  at = pdl__part_index(&state->part, index), count = source->info.target_count;
    int64_t        i;

    if (sample->bytes != NULL)
        read_bytes(state, at, sample->bytes);
    else
        read_values(state, at, sample->values);
    for (i = 0; i < count; i++) {
        const double target = pdl__npy_element(&state->labels, at * count + i);

        if (source->info.target == PDL_TARGET_VALUES) {
            sample->numbers[i] = (float)target;
        } else if (target >= 0 && target < (double)source->info.classes) {
            sample->labels[i] = (int32_t)target;
        } else {
            return pdl_error(PDL_ERR_INPUT, "%s: sample %" PRId64 ": label %.0f is not a class, 0 to %" PRId64,
                             source->info.name, at, target, source->info.classes - 1);
        }
    }
    return PDL_OK;
}

static void close_npy(void *opened)
{
    state_t *state = opened;

    pdl__bytes_close(&state->sample_bytes);
    pdl__bytes_close(&state->label_bytes);
    free(state);
}

const pdl__reader_t pdl__reader_npy = {"NumPy arrays", claims, open_npy, read_npy, close_npy};
