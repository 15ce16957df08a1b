/*
 * How arrays of samples, as .npy and .h5 files hold them, become what a model reads. Internal to the module.
 */
#ifndef PDL_DATA_ARRAY_H
#define PDL_DATA_ARRAY_H

#include "data/source/source.h"

#define PDL__ARRAY_RANK 5 /* the samples, and four axes of each */

typedef struct pdl__array_layout {
    pdl_shape_t shape; /* as delivered */
    int64_t     channels, positions;
    bool        channels_last;
    bool        resize;        /* bytes that are an image of another size */
    int64_t     height, width; /* of it */
} pdl__array_layout_t;

/* Finds the meaning of the axes of one sample, size[0 .. rank-1], from what the model reads: channels first, channels
   last, or none. `bytes` tells that the elements are bytes, so that images may be scaled. */
pdl_status_t pdl__array_layout(const char *name, const int64_t *size, int rank, bool bytes,
                               const pdl_shape_t *asked, pdl__array_layout_t *layout);

/* Finds the meaning of the targets of a sample: integers are a class or a class for each position, other numbers are
   values to fit. Sets target and target_count of the source. */
pdl_status_t pdl__array_target(pdl_source_t *source, const char *name, const int64_t *size, int rank, bool integers,
                               const pdl__array_layout_t *layout);

/* Product of extents; false when one of them is not positive or the product is over 2^46. */
bool pdl__array_elements(const int64_t *size, int rank, int64_t *elements);

#endif
