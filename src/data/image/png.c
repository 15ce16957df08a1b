/*
 * PNG by libpng's interface for whole images: 8 bits, grey or colour, transparency laid over black.
 */
#include "data/image/image.h"

#ifdef PDL_HAVE_PNG

#include <stdlib.h>
#include <string.h>

#include <png.h>

pdl_status_t pdl__png_decode(const uint8_t *data, size_t size, const char *name, bool head, pdl__image_t *image)
{
    static const png_color black = {0, 0, 0};
    png_image              png;
    pdl_status_t           st;

    memset(&png, 0, sizeof(png));
    png.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&png, data, size)) {
        return pdl_error(PDL_ERR_INPUT, "%s: a damaged PNG image: %s", name, png.message);
    }
    st = pdl__image_check(name, png.width, png.height);
    if (st != PDL_OK || head) {
        image->width = png.width;
        image->height = png.height;
        image->channels = (png.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
        png_image_free(&png);
        return st;
    }
    png.format = (png.format & PNG_FORMAT_FLAG_COLOR) != 0 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    image->pixels = malloc(PNG_IMAGE_SIZE(png));
    if (image->pixels == NULL) {
        png_image_free(&png);
        return pdl__out_of_memory(name);
    }
    if (!png_image_finish_read(&png, &black, image->pixels, 0, NULL)) {
        pdl__image_free(image);
        return pdl_error(PDL_ERR_INPUT, "%s: a damaged PNG image: %s", name, png.message);
    }
    image->width = png.width;
    image->height = png.height;
    image->channels = png.format == PNG_FORMAT_RGB ? 3 : 1;
    return PDL_OK;
}

#else

pdl_status_t pdl__png_decode(const uint8_t *data, size_t size, const char *name, bool head, pdl__image_t *image)
{
    (void)data;
    (void)size;
    (void)head;
    (void)image;
    return pdl_error(PDL_ERR_UNSUPPORTED, "%s: this build does not read PNG; install libpng-dev and build again",
                     name);
}

#endif
