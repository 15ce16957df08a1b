/*
 * A decoder of images. Internal to the module.
 */
#ifndef PDL_DATA_PLUGIN_IMAGE_H
#define PDL_DATA_PLUGIN_IMAGE_H

#include <paradl/base/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pdl__image {
    uint8_t *pixels; /* [height][width][channels], from malloc() */
    int64_t  width, height;
    int      channels; /* 1 or 3 */
} pdl__image_t;

typedef struct pdl__encoded {
    const uint8_t *data;
    size_t         size;
    const char    *name;   /* for messages */
    int64_t width, height; /* no less is wanted, so that it may be decoded at a half, quarter or eighth; 0: all */
    bool    head;          /* size and channels only; pixels stays NULL */
    /* Refuses sizes that no photograph has, before anything is allocated. */
    pdl_status_t (*check)(const char *name, uint64_t width, uint64_t height);
} pdl__encoded_t;

typedef struct pdl__decoder {
    pdl_status_t (*decode)(const pdl__encoded_t *encoded, pdl__image_t *image);
} pdl__decoder_t;

#endif
