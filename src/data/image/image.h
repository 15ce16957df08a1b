/*
 * JPEG and PNG images. Internal to the module.
 */
#ifndef PDL_DATA_IMAGE_H
#define PDL_DATA_IMAGE_H

#include "data/source/source.h"

typedef struct pdl__image {
    uint8_t *pixels; /* [height][width][channels] */
    int64_t  width, height;
    int      channels; /* 1 or 3 */
} pdl__image_t;

bool pdl__image_is(const char *name); /* by its extension */
/* Size and channels without decoding; pixels stays NULL. */
pdl_status_t pdl__image_head(const uint8_t *data, size_t size, const char *name, pdl__image_t *image);
/* Decodes; where no less than `width` x `height` are wanted (0: all), possibly at a half, quarter or eighth. */
pdl_status_t pdl__image_decode(const uint8_t *data, size_t size, const char *name, int64_t width, int64_t height,
                               pdl__image_t *image);
void         pdl__image_free(pdl__image_t *image);
/* Decodes into the shape that a model reads. */
pdl_status_t pdl__image_read(const uint8_t *data, size_t size, const char *name, const pdl_shape_t *shape,
                             float *values);

/* ---- between the files of the decoder ---- */

pdl_status_t pdl__jpeg_decode(const uint8_t *data, size_t size, const char *name, int64_t width, int64_t height,
                              bool head, pdl__image_t *image);
pdl_status_t pdl__png_decode(const uint8_t *data, size_t size, const char *name, bool head, pdl__image_t *image);
/* Refuses sizes that no photograph has, before anything is allocated. */
pdl_status_t pdl__image_check(const char *name, uint64_t width, uint64_t height);

#endif
