/*
 * Images: which decoder, limits, and the way to the shape of a model.
 */
#include "data/image/image.h"

#include "base/plugin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE   32768
#define MAX_PIXELS ((uint64_t)1 << 27)

bool pdl__image_is(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png", NULL};

    return pdl__has_extension(name, extensions);
}

/* Refuses sizes that no photograph has. */
static pdl_status_t check_size(const char *name, uint64_t width, uint64_t height)
{
    if (width > 0 && height > 0 && width <= MAX_SIDE && height <= MAX_SIDE && width * height <= MAX_PIXELS)
        return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "%s: an image of %" PRIu64 " x %" PRIu64
                     " pixels: at most %d on a side and 2^27 in all are read",
                     name, width, height, MAX_SIDE);
}

static pdl_status_t decode(const uint8_t *data, size_t size, const char *name, int64_t width, int64_t height,
                           bool head, pdl__image_t *image)
{
    const pdl__encoded_t encoded = {data, size, name, width, height, head, check_size};
    const bool           jpeg = size >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0;
    const void          *table;
    pdl_status_t         status;

    *image = (pdl__image_t){0};
    if (!jpeg && (size < 8 || memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0))
        return pdl_error(PDL_ERR_INPUT, "%s: neither a JPEG nor a PNG image", name);
    status = pdl__plugin_load(jpeg ? PDL__PLUGIN_JPEG : PDL__PLUGIN_PNG, name, sizeof(pdl__decoder_t), &table);
    return status != PDL_OK ? status : ((const pdl__decoder_t *)table)->decode(&encoded, image);
}

pdl_status_t pdl__image_head(const uint8_t *data, size_t size, const char *name, pdl__image_t *image)
{
    return decode(data, size, name, 0, 0, true, image);
}

/* Halves an image in place by means of four pixels; an odd last row or column is left out. */
static void halve(pdl__image_t *image)
{
    const int64_t width = image->width / 2, height = image->height / 2, row = image->width * image->channels;
    uint8_t      *out = image->pixels;
    int64_t       y, x;
    int           c;

    for (y = 0; y < height; y++) {
        for (x = 0; x < width; x++) {
            const uint8_t *from = image->pixels + 2 * y * row + 2 * x * image->channels;

            for (c = 0; c < image->channels; c++, from++) {
                *out++ =
                    (uint8_t)((from[0] + from[image->channels] + from[row] + from[row + image->channels] + 2) / 4);
            }
        }
    }
    image->width = width;
    image->height = height;
}

pdl_status_t pdl__image_decode(const uint8_t *data, size_t size, const char *name, int64_t width, int64_t height,
                               pdl__image_t *image)
{
    pdl_status_t st = decode(data, size, name, width, height, false, image);

    if (st != PDL_OK) return st;
    /* What the decoder could not scale is halved here, so that the last step never skips pixels. */
    while (width > 0 && height > 0 && image->width / 2 >= width && image->height / 2 >= height) halve(image);
    return PDL_OK;
}

void pdl__image_free(pdl__image_t *image)
{
    free(image->pixels);
    *image = (pdl__image_t){0};
}

pdl_status_t pdl__image_read(const uint8_t *data, size_t size, const char *name, const pdl_shape_t *shape,
                             float *values)
{
    pdl__image_t  image;
    pdl__pixels_t pixels;
    pdl_status_t  st = pdl__image_decode(data, size, name, shape->extent[1], shape->extent[0], &image);

    if (st != PDL_OK) return st;
    pixels = (pdl__pixels_t){.data = image.pixels,
                             .width = image.width,
                             .height = image.height,
                             .channels = image.channels,
                             .row = image.width * image.channels,
                             .column = image.channels,
                             .plane = 1};
    pdl__pixels_fit(&pixels, shape, values);
    pdl__image_free(&image);
    return PDL_OK;
}
