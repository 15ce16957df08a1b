/*
 * IDX files: a magic number (0, 0, element type, rank), the extents as big-endian 32-bit numbers, then the elements.
 * Images have rank 3 and labels rank 1, both of bytes. Either may be a gzip stream.
 */
#include "data/source/idx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct state {
    pdl__bytes_t image_bytes, label_bytes;
    pdl__idx_t   images, labels;
} state_t;

/* A stem, and the two ways in which the last part is written; either may end in .gz. */
static const char *const stems[2][2][2] = {
    {{"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
     {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"}},
    {{"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"}, {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"}},
};

static bool find_file(const char *folder, pdl_split_t split, int labels, char *path)
{
    static const char *const extensions[] = {"", ".gz"};
    char                     name[64];
    size_t                   i, j;

    for (i = 0; i < 2; i++) {
        for (j = 0; j < 2; j++) {
            strcpy(name, stems[split == PDL_SPLIT_VALID][labels][i]);
            strcat(name, extensions[j]);
            if (pdl__path_join(folder, name, path, PDL__PATH) == PDL_OK && pdl__path_is_file(path)) return true;
        }
    }
    return false;
}

static bool claims(const char *path, bool folder)
{
    char file[PDL__PATH];

    return folder && (find_file(path, PDL_SPLIT_TRAIN, 0, file) || find_file(path, PDL_SPLIT_VALID, 0, file));
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads magic number and extents of `head`, and gives the number of bytes that header and elements take together. */
static pdl_status_t parse_extents(const uint8_t *head, const char *name, pdl__idx_t *array, size_t *total)
{
    size_t elements = 1;
    int    i;

    for (i = 0; i < array->rank; i++) {
        const uint32_t extent = big_endian(head + 4 + 4 * i);

        if (extent == 0)
            return pdl_error(PDL_ERR_INPUT, "%s: extent %d is 0: there are no samples in it", name, i + 1);
        if (__builtin_mul_overflow(elements, (size_t)extent, &elements) || elements > (size_t)1 << 46) {
            return pdl_error(PDL_ERR_INPUT, "%s: extent %d of %" PRIu32 " is larger than any file", name, i + 1,
                             extent);
        }
        array->size[i] = extent;
    }
    *total = elements + 4 + 4 * (size_t)array->rank;
    return PDL_OK;
}

static pdl_status_t parse_magic(const uint8_t *head, const char *name, pdl__idx_t *array)
{
    if (head[0] != 0 || head[1] != 0 || head[3] < 1 || head[3] > 3) {
        return pdl_error(PDL_ERR_INPUT, "%s: not an IDX file of rank 1 to 3: it begins with %02x%02x%02x%02x", name,
                         head[0], head[1], head[2], head[3]);
    }
    if (head[2] != 0x08) {
        return pdl_error(PDL_ERR_INPUT, "%s: elements of type 0x%02x: only bytes (0x08) can be read", name,
                         head[2]);
    }
    array->rank = head[3];
    return PDL_OK;
}

static pdl_status_t read_head(const uint8_t *data, size_t size, bool gzip, const char *name, pdl__idx_t *array,
                              size_t *total)
{
    uint8_t      head[16] = {0};
    pdl_status_t st = PDL_OK;
    size_t       need = 4;

    /* The magic number says how much more there is. */
    while (st == PDL_OK) {
        if (gzip) {
            st = pdl__gzip_head(data, size, name, head, need);
        } else if (size < need) {
            st = pdl_error(PDL_ERR_INPUT, "%s: too short for its header; obtain the file again", name);
        } else {
            memcpy(head, data, need);
        }
        if (st != PDL_OK) return st;
        if (need > 4) return parse_extents(head, name, array, total);
        st = parse_magic(head, name, array);
        need = 4 + 4 * (size_t)array->rank;
    }
    return st;
}

pdl_status_t pdl__idx_read_memory(const uint8_t *data, size_t size, const char *name, pdl__idx_t *array)
{
    const bool   gzip = pdl__gzip_is(data, size);
    pdl__idx_t   found = {0};
    size_t       total = 0, head;
    pdl_status_t st = read_head(data, size, gzip, name, &found, &total);

    if (st != PDL_OK) return st;
    if (gzip) {
        st = pdl__gzip_expand(data, size, name, total, &found.owned, &size);
        if (st != PDL_OK) return st;
        data = found.owned;
    }
    if (size != total) {
        free(found.owned);
        return pdl_error(PDL_ERR_INPUT, "%s: %zu bytes where its header says %zu; obtain the file again", name,
                         size, total);
    }
    head = 4 + 4 * (size_t)found.rank;
    found.data = data + head;
    *array = found;
    return PDL_OK;
}

void pdl__idx_free(pdl__idx_t *array)
{
    free(array->owned);
    *array = (pdl__idx_t){0};
}

static pdl_status_t load(const char *path, const char *what, int rank, pdl__bytes_t *bytes, pdl__idx_t *array)
{
    pdl_status_t st = pdl__bytes_open(path, bytes);

    if (st == PDL_OK) st = pdl__idx_read_memory(bytes->data, bytes->size, path, array);
    if (st != PDL_OK) return st;
    if (array->owned != NULL) pdl__bytes_close(bytes);
    if (array->rank == rank) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: %s have rank %d, this file has %d", path, what, rank, array->rank);
}

static pdl_status_t check_labels(pdl_source_t *source, const pdl_source_options_t *options, const state_t *state,
                                 const char *path)
{
    uint8_t largest = 0;
    int64_t i;

    for (i = 0; i < state->labels.size[0]; i++) {
        if (state->labels.data[i] > largest) largest = state->labels.data[i];
    }
    return pdl__classes_set(source, options, largest, path);
}

static pdl_status_t open_idx(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    const bool   valid = options->split == PDL_SPLIT_VALID;
    char         images[PDL__PATH], labels[PDL__PATH];
    state_t     *state = calloc(1, sizeof(*state));
    pdl_shape_t  stored;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    if (!find_file(path, options->split, 0, images) || !find_file(path, options->split, 1, labels)) {
        return pdl_error(PDL_ERR_INPUT, "%s: %s and %s (or .gz) are not both there%s%s", path, stems[valid][0][0],
                         stems[valid][1][0], source->known != NULL ? "; run: paradl data get " : "",
                         source->known != NULL ? source->known->name : "");
    }
    st = load(images, "images", 3, &state->image_bytes, &state->images);
    if (st == PDL_OK) st = load(labels, "labels", 1, &state->label_bytes, &state->labels);
    if (st != PDL_OK) return st;
    if (state->images.size[0] != state->labels.size[0]) {
        return pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " labels for %" PRId64 " images; obtain the files again",
                         labels, state->labels.size[0], state->images.size[0]);
    }
    stored = pdl__shape_image(1, state->images.size[1], state->images.size[2]);
    st = pdl__pixels_shape(images, &stored, &options->shape, &source->info.shape);
    if (st == PDL_OK) st = check_labels(source, options, state, labels);
    source->info.samples = state->images.size[0];
    source->info.target = PDL_TARGET_CLASS;
    source->info.target_count = 1;
    source->info.bytes = pdl__pixels_are(&stored, &source->info.shape);
    source->info.bytes_per_sample = (double)(stored.extent[0] * stored.extent[1] + 1);
    return st;
}

static pdl_status_t read_idx(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    const state_t *state = source->state;
    const int64_t  height = state->images.size[1], width = state->images.size[2];
    pdl__pixels_t  pixels = {.data = state->images.data + index * height * width,
                             .width = width,
                             .height = height,
                             .channels = 1,
                             .row = width,
                             .column = 1};

    if (sample->bytes != NULL)
        memcpy(sample->bytes, pixels.data, (size_t)(height * width));
    else
        pdl__pixels_fit(&pixels, &source->info.shape, sample->values);
    sample->labels[0] = state->labels.data[index];
    return PDL_OK;
}

static void close_idx(void *opened)
{
    state_t *state = opened;

    pdl__idx_free(&state->images);
    pdl__idx_free(&state->labels);
    pdl__bytes_close(&state->image_bytes);
    pdl__bytes_close(&state->label_bytes);
    free(state);
}

const pdl__reader_t pdl__reader_idx = {"IDX files", claims, open_idx, read_idx, close_idx};
