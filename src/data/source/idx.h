/*
 * IDX arrays (MNIST and its relatives). Internal to the module.
 */
#ifndef PDL_DATA_IDX_H
#define PDL_DATA_IDX_H

#include "data/source/source.h"

typedef struct pdl__idx {
    const uint8_t *data; /* the elements, one byte each */
    int            rank; /* 1 to 3 */
    int64_t        size[3];
    uint8_t       *owned; /* expanded bytes, or NULL where `data` is part of the bytes given */
} pdl__idx_t;

/* `data` may be a gzip stream; it is borrowed as long as the array lives, unless expanded. */
pdl_status_t pdl__idx_read_memory(const uint8_t *data, size_t size, const char *name, pdl__idx_t *array);
void         pdl__idx_free(pdl__idx_t *array);

#endif
