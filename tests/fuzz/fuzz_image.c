/*
 * Any bytes given to the decoder of images yield pixels between 0 and 1 in the shape asked for, or an error.
 */
#include "data/image/image.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Large images that compress well are honest but slow: this is about damaged ones. */
#define MAX_PIXELS (1 << 20)

static void read_as(const uint8_t *data, size_t size, int channels, int height, int width)
{
    const pdl_shape_t shape = {.channels = channels, .extent = {height, width, 1}, .rank = 2};
    float             values[3 * 16 * 16];
    int               i;

    if (pdl__image_read(data, size, "input", &shape, values) != PDL_OK) {
        assert(strncmp(pdl_error_message(), "input", 5) == 0 && strchr(pdl_error_message(), '\n') == NULL);
        return;
    }
    for (i = 0; i < channels * height * width; i++) assert(values[i] >= 0 && values[i] <= 1.001f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pdl__image_t image;

    if (pdl__image_head(data, size, "input", &image) != PDL_OK) {
        assert(strncmp(pdl_error_message(), "input", 5) == 0 && strchr(pdl_error_message(), '\n') == NULL);
        return 0;
    }
    assert(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3));
    if (image.width * image.height > MAX_PIXELS) return 0;
    read_as(data, size, 3, 16, 16);
    read_as(data, size, 1, 7, 3);
    return 0;
}
