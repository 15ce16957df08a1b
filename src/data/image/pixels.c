/*
 * Images of bytes become what a model reads: values between 0 and 1, channel after channel, in the shape asked for.
 */
#include "data/source/source.h"

#include <inttypes.h>
#include <stdio.h>

bool pdl__shape_given(const pdl_shape_t *shape)
{
    return shape->rank > 0 || shape->channels > 0;
}

pdl_shape_t pdl__shape_image(int64_t channels, int64_t height, int64_t width)
{
    return (pdl_shape_t){.channels = channels, .extent = {height, width, 1}, .rank = 2};
}

char *pdl__shape_text(const pdl_shape_t *shape, char text[96])
{
    return pdl_shape_format(shape, text, 96);
}

pdl_status_t pdl__pixels_shape(const char *name, const pdl_shape_t *stored, const pdl_shape_t *asked,
                               pdl_shape_t *shape)
{
    char have[96], want[96];

    if (!pdl__shape_given(asked)) {
        *shape = *stored;
        return PDL_OK;
    }
    *shape = *asked;
    if (asked->rank == 0 && asked->channels == pdl_shape_elements(stored)) return PDL_OK;
    if (pdl_shape_scales(stored, asked)) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: holds images of %s, the model reads %s; choose another model or data set",
                     name, pdl__shape_text(stored, have), pdl__shape_text(asked, want));
}

bool pdl__pixels_are(const pdl_shape_t *stored, const pdl_shape_t *shape)
{
    return stored->rank == shape->rank && stored->channels == shape->channels &&
           pdl_shape_positions(stored) == pdl_shape_positions(shape) && stored->extent[0] == shape->extent[0];
}

/* One channel as it is delivered, of a place in the image: a grey image serves all channels, and a grey value is the
   usual weighted mean of the colours. */
static float value_at(const pdl__pixels_t *pixels, const uint8_t *place, int channel, int channels)
{
    if (pixels->channels == channels) return place[channel * pixels->plane];
    if (pixels->channels == 1) return place[0];
    return 0.299f * place[0] + 0.587f * place[pixels->plane] + 0.114f * place[2 * pixels->plane];
}

static void copy_whole(const pdl__pixels_t *pixels, int channels, float *values)
{
    int     c;
    int64_t y, x;

    for (c = 0; c < channels; c++) {
        for (y = 0; y < pixels->height; y++) {
            const uint8_t *row = pixels->data + y * pixels->row;

            for (x = 0; x < pixels->width; x++) {
                *values++ = value_at(pixels, row + x * pixels->column, c, channels) / 255.0f;
            }
        }
    }
}

/* Where an element of the result is between two elements of the image, along one direction. */
typedef struct between {
    int64_t low, high;
    float   part; /* of the higher one */
} between_t;

/* `scale` is result over image; the result is cut from the middle. Positions are those of pixel centres. */
static between_t locate(int64_t at, int64_t result, int64_t image, double scale)
{
    const double margin = ((double)image * scale - (double)result) / 2;
    double       place = ((double)at + 0.5 + margin) / scale - 0.5;
    between_t    found;

    if (place < 0) place = 0;
    if (place > (double)(image - 1)) place = (double)(image - 1);
    found.low = (int64_t)place;
    found.high = found.low + 1 < image ? found.low + 1 : found.low;
    found.part = (float)(place - (double)found.low);
    return found;
}

/* Columns that are worked on together, so that their places are found once for all rows. */
#define BLOCK 256

static void resize_row(const pdl__pixels_t *pixels, between_t y, const between_t *places, int64_t width,
                       int channels, int64_t plane, float *values)
{
    const uint8_t *top = pixels->data + y.low * pixels->row, *bottom = pixels->data + y.high * pixels->row;
    int64_t        x;
    int            c;

    for (x = 0; x < width; x++) {
        const ptrdiff_t left = places[x].low * pixels->column, right = places[x].high * pixels->column;
        const float     part = places[x].part;

        for (c = 0; c < channels; c++) {
            const float a = value_at(pixels, top + left, c, channels),
                        b = value_at(pixels, top + right, c, channels);
            const float d = value_at(pixels, bottom + left, c, channels);
            const float e = value_at(pixels, bottom + right, c, channels);
            const float upper = a + (b - a) * part, lower = d + (e - d) * part;

            values[c * plane + x] = (upper + (lower - upper) * y.part) / 255.0f;
        }
    }
}

static void resize(const pdl__pixels_t *pixels, const pdl_shape_t *shape, float *values)
{
    const int64_t height = shape->extent[0], width = shape->extent[1];
    double        scale = (double)height / (double)pixels->height;
    between_t     places[BLOCK];
    int64_t       from, x, y;

    if ((double)width / (double)pixels->width > scale) scale = (double)width / (double)pixels->width;
    for (from = 0; from < width; from += BLOCK) {
        const int64_t count = width - from < BLOCK ? width - from : BLOCK;

        for (x = 0; x < count; x++) places[x] = locate(from + x, width, pixels->width, scale);
        for (y = 0; y < height; y++) {
            resize_row(pixels, locate(y, height, pixels->height, scale), places, count, (int)shape->channels,
                       height * width, values + y * width + from);
        }
    }
}

void pdl__pixels_fit(const pdl__pixels_t *pixels, const pdl_shape_t *shape, float *values)
{
    if (shape->rank != 2) {
        copy_whole(pixels, pixels->channels, values);
    } else if (shape->extent[0] == pixels->height && shape->extent[1] == pixels->width) {
        copy_whole(pixels, (int)shape->channels, values);
    } else {
        resize(pixels, shape, values);
    }
}
