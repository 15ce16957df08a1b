/*
 * NumPy arrays. Internal to the module.
 */
#ifndef PDL_DATA_NPY_H
#define PDL_DATA_NPY_H

#include "data/source/array.h"

typedef enum pdl__npy_type {
    PDL__NPY_U8,
    PDL__NPY_I8,
    PDL__NPY_U16,
    PDL__NPY_I16,
    PDL__NPY_U32,
    PDL__NPY_I32,
    PDL__NPY_I64,
    PDL__NPY_F16,
    PDL__NPY_F32,
    PDL__NPY_F64
} pdl__npy_type_t;

typedef struct pdl__npy {
    const uint8_t  *data; /* borrowed from what was given */
    pdl__npy_type_t type;
    size_t          width; /* bytes an element */
    bool            integers;
    int             rank;
    int64_t         size[PDL__ARRAY_RANK];
    int64_t         elements;
} pdl__npy_t;

/* Checks header and length. Arrays of rank 1 to 5 in C order, little-endian. */
pdl_status_t pdl__npy_read_memory(const uint8_t *data, size_t size, const char *name, pdl__npy_t *array);
double       pdl__npy_element(const pdl__npy_t *array, int64_t index);

#endif
