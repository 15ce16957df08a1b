/*
 * Arrays in HDF5 files. The library is not safe for threads, so one lock is around every use of it.
 */
#include "data/plugin/hdf5.h"

#include "base/plugin.h"

#include <hdf5.h>
#include <pthread.h>

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

/* How the user's program has errors printed; under the lock. */
static H5E_auto2_t print;
static void       *print_context;

/* The library prints its own account of an error, many lines long, unless told not to. */
static void begin(void)
{
    pthread_mutex_lock(&library_lock);
    H5Eget_auto2(H5E_DEFAULT, &print, &print_context);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void end(void)
{
    H5Eset_auto2(H5E_DEFAULT, print, print_context);
    pthread_mutex_unlock(&library_lock);
}

static int64_t open_file(const char *path)
{
    return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

static void close_file(int64_t file)
{
    H5Fclose(file);
}

static bool has(int64_t file, const char *name)
{
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

static void close_set(pdl__hdf5_set_t *set)
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

/* Data in other files are refused: a file from elsewhere must not read files of the user. So are chunks larger
   than the array, which the library would copy from without looking. */
static bool is_stored_well(const pdl__hdf5_set_t *set, const hsize_t *limit)
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

static pdl_status_t describe_type(pdl__hdf5_set_t *set, const char *path, const char *name)
{
    const hid_t type = H5Dget_type(set->id);
    const bool  plain = type >= 0 && is_plain(type);

    set->integers = plain && H5Tget_class(type) == H5T_INTEGER;
    if (type >= 0) H5Tclose(type);
    if (plain) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s does not hold integers or IEEE numbers of 4 or 8 bytes", path, name);
}

static pdl_status_t describe(pdl__hdf5_set_t *set, const char *path, const char *name)
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
    set->stored_bytes = (double)H5Dget_storage_size(set->id);
    if (is_stored_well(set, limit)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s is damaged or in another file", path, name);
}

static pdl_status_t open_set(int64_t file, const char *path, const char *name, pdl__hdf5_set_t *set)
{
    pdl_status_t st;

    *set = (pdl__hdf5_set_t){.id = H5Dopen2(file, name, H5P_DEFAULT), .space = -1};
    if (set->id < 0) return pdl_error(PDL_ERR_INPUT, "%s: there is no /%s in it, or it is damaged", path, name);
    st = describe(set, path, name);
    if (st != PDL_OK) close_set(set);
    return st;
}

/* Reads sample `at` (of the first axis, where the file holds many) into memory of `type`. */
static pdl_status_t read_set(const pdl__hdf5_set_t *set, const char *path, const char *name, bool many, int64_t at,
                             bool floats, void *out)
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
    if (code >= 0 && memory >= 0)
        code = H5Dread(set->id, floats ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT32, memory, set->space, H5P_DEFAULT, out);
    if (memory >= 0) H5Sclose(memory);
    if (code >= 0 && memory >= 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: /%s cannot be read; the file is damaged or cut off", path, name);
}

static const pdl__hdf5_t functions = {
    .begin = begin,
    .end = end,
    .open = open_file,
    .close = close_file,
    .has = has,
    .open_set = open_set,
    .close_set = close_set,
    .read = read_set,
};
PDL__PLUGIN(hdf5, functions)
