/*
 * PNG by libpng's interface for whole images: 8 bits, grey or colour, transparency laid over black.
 */
#include "data/plugin/image.h"

#include "base/plugin.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

static pdl_status_t decode(const pdl__encoded_t *encoded, pdl__image_t *image)
{
    static const png_color black = {0, 0, 0};
    png_image              png;
    pdl_status_t           status;

    memset(&png, 0, sizeof(png));
    png.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_memory(&png, encoded->data, encoded->size)) {
        return pdl_error(PDL_ERR_INPUT, "%s: a damaged PNG image: %s", encoded->name, png.message);
    }
    status = encoded->check(encoded->name, png.width, png.height);
    image->width = png.width;
    image->height = png.height;
    image->channels = (png.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
    if (status != PDL_OK || encoded->head) {
        png_image_free(&png);
        return status;
    }
    png.format = image->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
    image->pixels = malloc(PNG_IMAGE_SIZE(png));
    if (image->pixels == NULL) {
        png_image_free(&png);
        return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", encoded->name);
    }
    if (!png_image_finish_read(&png, &black, image->pixels, 0, NULL)) {
        free(image->pixels);
        *image = (pdl__image_t){0};
        return pdl_error(PDL_ERR_INPUT, "%s: a damaged PNG image: %s", encoded->name, png.message);
    }
    return PDL_OK;
}

static const pdl__decoder_t functions = {decode};
PDL__PLUGIN(png, functions)
