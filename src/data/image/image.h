/*
 * JPEG and PNG images. Internal to the module.
 */
#ifndef PDL_DATA_IMAGE_H
#define PDL_DATA_IMAGE_H

#include "data/plugin/image.h"
#include "data/source/source.h"

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

#endif
