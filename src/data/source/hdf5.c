/*
 * HDF5 files, one file or a folder of files:
 *   CosmoFlow  one sample a file: /full [d][h][w][channels], targets in /unitPar (or /physPar). What is stored counts
 *              particles over four orders of magnitude; log(1 + x) is delivered, as the benchmark's own readers do.
 *   DeepCAM    one sample a file: /climate/data [h][w][channels], a class for each pixel in /climate/labels_0.
 *   others     many samples a file: /data (or /x, /images) [n][axes of a sample], targets in /labels (or /y, /targets).
 * The library is not safe for threads, so one lock is around every use of it. Conversion goes on outside.
 */
#include "data/source/array.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const extensions[] = {".h5", ".hdf5", NULL};

/* In PATH itself, or in the folder of its training part. */
static bool claims(const char *path, bool folder)
{
    pdl__file_list_t list;

    if (!folder) return pdl__has_extension(path, extensions);
    if (pdl__files_of_split(path, PDL_SPLIT_TRAIN, extensions, &list) != PDL_OK) return false;
    pdl__files_free(&list);
    return true;
}

#ifdef PDL_HAVE_HDF5

#include <hdf5.h>

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
    pdl__file_list_t    files;
    int64_t            *first; /* sample with which each file begins; for one sample a file NULL */
    const layout_t     *layout;
    const char         *target; /* name of the targets */
    pdl__source_part_t  part;
    pdl__array_layout_t axes;
    int                 rank; /* of one sample */
    int64_t             size[PDL__ARRAY_RANK];
    int64_t             elements;
    hid_t               open; /* the file used last, or negative */
    size_t              open_index;
} state_t;

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

/* A dataset and what it holds. */
typedef struct dataset {
    hid_t   id, space;
    int     rank;
    int64_t size[PDL__ARRAY_RANK];
    bool    integers;
} dataset_t;

static void dataset_close(dataset_t *set)
{
    if (set->space >= 0) H5Sclose(set->space);
    if (set->id >= 0) H5Dclose(set->id);
    set->space = set->id = -1;
}

/* Integers of whole bytes and IEEE numbers only: the library's conversion of other types fails badly on damaged
   descriptions of them. */
static bool is_plain(hid_t type)
{
    const hid_t plain[] = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_I16LE, H5T_STD_U16LE,  H5T_STD_I32LE,
                           H5T_STD_U32LE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_IEEE_F32LE, H5T_IEEE_F64LE,
                           H5T_STD_I8BE,  H5T_STD_U8BE,  H5T_STD_I16BE, H5T_STD_U16BE,  H5T_STD_I32BE,
                           H5T_STD_U32BE, H5T_STD_I64BE, H5T_STD_U64BE, H5T_IEEE_F32BE, H5T_IEEE_F64BE};
    size_t      i;

    for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (H5Tequal(type, plain[i]) > 0) return true;
    }
    return false;
}

/* Data that lie in other files are refused: a file from elsewhere must not read files of the user. So are chunks larger
   than the array, which the library would copy from without looking. */
static bool is_stored_well(const dataset_t *set, const hsize_t *limit)
{
    const hid_t list = H5Dget_create_plist(set->id);
    hsize_t     chunk[PDL__ARRAY_RANK];
    bool        well = list >= 0 && H5Pget_external_count(list) == 0;
    int         i;

    switch (well ? H5Pget_layout(list) : H5D_LAYOUT_ERROR) {
    case H5D_COMPACT:
    case H5D_CONTIGUOUS: break;
    case H5D_CHUNKED:
        well = H5Pget_chunk(list, PDL__ARRAY_RANK, chunk) == set->rank;
        for (i = 0; well && i < set->rank; i++) {
            const hsize_t most = limit[i] == H5S_UNLIMITED ? 65536 : (hsize_t)set->size[i];

            well = chunk[i] > 0 && (chunk[i] <= most || chunk[i] <= (hsize_t)set->size[i]);
        }
        break;
    default: well = false;
    }
    if (list >= 0) H5Pclose(list);
    return well;
}

static pdl_status_t describe_type(dataset_t *set, const char *path, const char *name)
{
    const hid_t type = H5Dget_type(set->id);
    const bool  plain = type >= 0 && is_plain(type);

    set->integers = plain && H5Tget_class(type) == H5T_INTEGER;
    if (type >= 0) H5Tclose(type);
    if (plain) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s does not hold integers or IEEE numbers of 4 or 8 bytes", path, name);
}

static pdl_status_t dataset_describe(dataset_t *set, const char *path, const char *name)
{
    hsize_t      size[H5S_MAX_RANK], limit[H5S_MAX_RANK];
    pdl_status_t st = describe_type(set, path, name);
    int          i;

    if (st != PDL_OK) return st;
    set->space = H5Dget_space(set->id);
    set->rank = set->space >= 0 ? H5Sget_simple_extent_ndims(set->space) : -1;
    if (set->rank < 1 || set->rank > PDL__ARRAY_RANK || H5Sget_simple_extent_dims(set->space, size, limit) < 0) {
        return pdl_error(PDL_ERR_INPUT, "%s: /%s is not an array of 1 to %d axes", path, name, PDL__ARRAY_RANK);
    }
    for (i = 0; i < set->rank; i++) {
        if (size[i] == 0 || size[i] > (hsize_t)1 << 46) {
            return pdl_error(PDL_ERR_INPUT, "%s: /%s: extent %d cannot be: %llu", path, name, i + 1,
                             (unsigned long long)size[i]);
        }
        set->size[i] = (int64_t)size[i];
    }
    if (is_stored_well(set, limit)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s is damaged or lies in another file", path, name);
}

static pdl_status_t dataset_open(hid_t file, const char *path, const char *name, dataset_t *set)
{
    pdl_status_t st;

    *set = (dataset_t){.id = H5Dopen2(file, name, H5P_DEFAULT), .space = -1};
    if (set->id < 0) return pdl_error(PDL_ERR_INPUT, "%s: there is no /%s in it, or it is damaged", path, name);
    st = dataset_describe(set, path, name);
    if (st != PDL_OK) dataset_close(set);
    return st;
}

/* Reads sample `at` (of the first axis, where the file holds many) into memory of `type`. */
static pdl_status_t dataset_read(const dataset_t *set, const char *path, const char *name, bool many, int64_t at,
                                 hid_t type, void *out)
{
    hsize_t start[PDL__ARRAY_RANK] = {0}, count[PDL__ARRAY_RANK];
    hid_t   memory;
    herr_t  code = 0;
    int     i;

    for (i = 0; i < set->rank; i++) count[i] = (hsize_t)set->size[i];
    if (many) {
        start[0] = (hsize_t)at;
        count[0] = 1;
        code = H5Sselect_hyperslab(set->space, H5S_SELECT_SET, start, NULL, count, NULL);
    }
    memory = H5Screate_simple(set->rank, count, NULL);
    if (code >= 0 && memory >= 0) code = H5Dread(set->id, type, memory, set->space, H5P_DEFAULT, out);
    if (memory >= 0) H5Sclose(memory);
    if (code >= 0 && memory >= 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s cannot be read; the file is damaged or cut off", path, name);
}

static pdl_status_t use_file(state_t *state, size_t index)
{
    if (state->open >= 0 && state->open_index == index) return PDL_OK;
    if (state->open >= 0) H5Fclose(state->open);
    state->open = H5Fopen(state->files.paths[index], H5F_ACC_RDONLY, H5P_DEFAULT);
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
        if (strcmp(layout->data, "climate/data") == 0 && H5Lexists(state->open, "climate", H5P_DEFAULT) <= 0)
            continue;
        if (H5Lexists(state->open, layout->data, H5P_DEFAULT) <= 0) continue;
        for (j = 0; j < 2 && layout->targets[j] != NULL; j++) {
            if (H5Lexists(state->open, layout->targets[j], H5P_DEFAULT) <= 0) continue;
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
static pdl_status_t check_axes(const state_t *state, const dataset_t *set, const char *path)
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
static pdl_status_t find_largest(const state_t *state, const dataset_t *targets, const char *path, int64_t *largest)
{
    const int64_t count = targets->size[0];
    int32_t      *labels;
    int64_t       i;
    pdl_status_t  st;

    if (count > MAX_ELEMENTS) return pdl_error(PDL_ERR_INPUT, "%s: more than 2^31 samples", path);
    labels = malloc((size_t)count * sizeof(*labels));
    if (labels == NULL) return pdl__out_of_memory(path);
    st = dataset_read(targets, path, state->target, false, 0, H5T_NATIVE_INT32, labels);
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
    state_t     *state = source->state;
    const char  *path = state->files.paths[index];
    dataset_t    data = {.id = -1, .space = -1}, targets = {.id = -1, .space = -1};
    pdl_status_t st = use_file(state, index);

    if (st == PDL_OK) st = dataset_open(state->open, path, state->layout->data, &data);
    if (st == PDL_OK) st = check_axes(state, &data, path);
    if (st == PDL_OK) st = dataset_open(state->open, path, state->target, &targets);
    if (st == PDL_OK && targets.size[0] != data.size[0]) {
        st = pdl_error(PDL_ERR_INPUT, "%s: %" PRId64 " targets for %" PRId64 " samples", path, targets.size[0],
                       data.size[0]);
    }
    if (st == PDL_OK && source->info.target == PDL_TARGET_CLASS) st = find_largest(state, &targets, path, largest);
    if (st == PDL_OK) *count = data.size[0];
    dataset_close(&targets);
    dataset_close(&data);
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
                                    const dataset_t *targets)
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
                                  const dataset_t *data)
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
    source->info.bytes_per_sample =
        (double)H5Dget_storage_size(data->id) / (state->layout->many ? (double)data->size[0] : 1);
    return st;
}

static pdl_status_t open_locked(pdl_source_t *source, const pdl_source_options_t *options, state_t *state)
{
    const char  *path = state->files.paths[0];
    dataset_t    set;
    int64_t      total;
    pdl_status_t st = use_file(state, 0);

    if (st == PDL_OK) st = find_layout(state);
    if (st == PDL_OK) st = dataset_open(state->open, path, state->layout->data, &set);
    if (st != PDL_OK) return st;
    st = describe_data(source, options, state, &set);
    dataset_close(&set);
    if (st == PDL_OK) st = dataset_open(state->open, path, state->target, &set);
    if (st != PDL_OK) return st;
    st = describe_target(source, options, state, &set);
    dataset_close(&set);
    if (st == PDL_OK) st = count_samples(source, options, &total);
    return st != PDL_OK ? st : pdl__part_samples(&state->part, total, path, &source->info.samples);
}

/* The library prints its own account of an error, many lines long, unless told not to. */
static void lock_library(H5E_auto2_t *print, void **context)
{
    pthread_mutex_lock(&library_lock);
    H5Eget_auto2(H5E_DEFAULT, print, context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void unlock_library(H5E_auto2_t print, void *context)
{
    H5Eset_auto2(H5E_DEFAULT, print, context);
    pthread_mutex_unlock(&library_lock);
}

static pdl_status_t open_hdf5(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    state_t     *state = calloc(1, sizeof(*state));
    H5E_auto2_t  print;
    void        *context;
    pdl_status_t st;

    if (state == NULL) return pdl__out_of_memory(path);
    source->state = state;
    state->open = -1;
    st = pdl__files_of_split(path, options->split, extensions, &state->files);
    if (st != PDL_OK) return st;
    source->part = state->part = pdl__part_of(options, state->files.own);
    lock_library(&print, &context);
    st = open_locked(source, options, state);
    unlock_library(print, context);
    return st;
}

/* Reads what is stored: values into `raw`, and the targets. */
static pdl_status_t read_locked(const pdl_source_t *source, int64_t at, float *raw, const pdl_sample_t *sample)
{
    state_t     *state = source->state;
    const bool   many = state->layout->many, numbers = source->info.target == PDL_TARGET_VALUES;
    size_t       file = many ? 0 : (size_t)at;
    int64_t      count = 0;
    const char  *path;
    dataset_t    set;
    pdl_status_t st;

    while (many && at >= state->first[file + 1]) file++;
    if (many) at -= state->first[file];
    path = state->files.paths[file];
    st = use_file(state, file);
    if (st == PDL_OK) st = dataset_open(state->open, path, state->layout->data, &set);
    if (st != PDL_OK) return st;
    st = check_axes(state, &set, path);
    if (st == PDL_OK) st = dataset_read(&set, path, state->layout->data, many, at, H5T_NATIVE_FLOAT, raw);
    dataset_close(&set);
    if (st == PDL_OK) st = dataset_open(state->open, path, state->target, &set);
    if (st != PDL_OK) return st;
    if (!pdl__array_elements(set.size + many, set.rank - many, &count) || count != source->info.target_count) {
        st = pdl_error(PDL_ERR_INPUT, "%s: /%s has another shape than that of %s", path, state->target,
                       state->files.paths[0]);
    }
    if (st == PDL_OK) {
        st = dataset_read(&set, path, state->target, many, at, numbers ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT32,
                          numbers ? (void *)sample->numbers : (void *)sample->labels);
    }
    dataset_close(&set);
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
    H5E_auto2_t    print;
    void          *context;
    float         *raw = sample->values;
    pdl_status_t   st;

    if (state->axes.channels_last) {
        raw = malloc((size_t)state->elements * sizeof(*raw));
        if (raw == NULL) return pdl__out_of_memory(source->info.name);
    }
    lock_library(&print, &context);
    st = read_locked(source, at, raw, sample);
    unlock_library(print, context);
    if (st == PDL_OK) deliver(state, raw, sample->values);
    if (raw != sample->values) free(raw);
    if (st != PDL_OK || source->info.target == PDL_TARGET_VALUES) return st;
    return check_labels(source, at, sample->labels);
}

static void close_hdf5(void *opened)
{
    state_t *state = opened;

    pthread_mutex_lock(&library_lock);
    if (state->open >= 0) H5Fclose(state->open);
    pthread_mutex_unlock(&library_lock);
    pdl__files_free(&state->files);
    free(state->first);
    free(state);
}

#else

static pdl_status_t open_hdf5(pdl_source_t *source, const char *path, const pdl_source_options_t *options)
{
    (void)source;
    (void)options;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: this build does not read HDF5; install libhdf5-dev and build again",
                     path);
}

static pdl_status_t read_hdf5(const pdl_source_t *source, int64_t index, const pdl_sample_t *sample)
{
    (void)index;
    (void)sample;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: this build does not read HDF5", source->info.name);
}

static void close_hdf5(void *opened)
{
    (void)opened;
}

#endif

const pdl__reader_t pdl__reader_hdf5 = {"HDF5 files", claims, open_hdf5, read_hdf5, close_hdf5};
