/*
 * Arrays in HDF5 files. Internal to the module.
 */
#ifndef PDL_DATA_PLUGIN_HDF5_H
#define PDL_DATA_PLUGIN_HDF5_H

#include "data/source/array.h"

/* An array of a file and what it holds. */
typedef struct pdl__hdf5_set {
    int64_t id, space; /* negative: not open */
    int     rank;
    int64_t size[PDL__ARRAY_RANK];
    bool    integers;
    double  stored_bytes;
} pdl__hdf5_set_t;

typedef struct pdl__hdf5 {
    /* Around every use: the library is not safe for threads. */
    void (*begin)(void);
    void (*end)(void);
    int64_t (*open)(const char *path); /* negative: not such a file */
    void (*close)(int64_t file);
    bool (*has)(int64_t file, const char *name);
    pdl_status_t (*open_set)(int64_t file, const char *path, const char *name, pdl__hdf5_set_t *set);
    void (*close_set)(pdl__hdf5_set_t *set);
    /* All of it, or index `at` of its first axis (`many`), as floats or int32_t. */
    pdl_status_t (*read)(const pdl__hdf5_set_t *set, const char *path, const char *name, bool many, int64_t at,
                         bool floats, void *out);
} pdl__hdf5_t;

#endif
