/*
 * CIFAR-10 from sheets: a PNG file of 1024 x 10,000 colour pixels holds one image of 32 x 32 in a row, and the labels are
 * arrays of JSON. The original files hold, for each image, the label and then its red, green and blue plane.
 */
#include "data/fetch/get.h"

#include "data/image/image.h"
#include "data/source/source.h"

#include <paradl/base/output.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 10000, PIXELS = 1024, TRAIN_SHEETS = 5 };

/* Reads `count` one-digit numbers of a JSON array. */
static pdl_status_t read_labels(const char *path, int count, uint8_t *labels)
{
    pdl__bytes_t bytes;
    int          found = 0;
    bool         clean = true;
    pdl_status_t status = pdl__bytes_open(path, &bytes);

    if (status) return status;
    for (size_t i = 0; i < bytes.size && clean; i++) {
        uint8_t c = bytes.data[i];

        if (c >= '0' && c <= '9') {
            if (found < count) labels[found] = (uint8_t)(c - '0');
            found++;
        } else {
            clean = strchr("[], \n\r", c) != NULL && c != '\0';
        }
    }
    pdl__bytes_close(&bytes);
    if (clean && found == count) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT, "%s: expected %d labels between 0 and 9", path, count);
}

/* The caller frees the pixels. */
static pdl_status_t read_sheet(const char *path, pdl__image_t *image)
{
    pdl__bytes_t bytes;
    pdl_status_t status = pdl__bytes_open(path, &bytes);

    if (status) return status;
    status = pdl__image_decode(bytes.data, bytes.size, path, 0, 0, image);
    pdl__bytes_close(&bytes);
    if (status || (image->width == PIXELS && image->height == IMAGES && image->channels == 3)) return status;
    status = pdl_error(PDL_ERR_INPUT, "%s: expected %d x %d colour pixels and found %" PRId64 " x %" PRId64 "%s",
                       path, PIXELS, IMAGES, image->width, image->height, image->channels == 3 ? "" : " grey ones");
    pdl__image_free(image);
    return status;
}

static pdl_status_t write_batch(const char *path, const uint8_t *pixels, const uint8_t *labels)
{
    pdl_output_t *output;
    pdl_status_t  status = pdl_output_open(path, &output);

    if (status) return status;
    for (int i = 0; i < IMAGES; i++) {
        uint8_t record[1 + 3 * PIXELS] = {labels[i]};

        for (int p = 0; p < PIXELS; p++, pixels += 3) {
            for (int c = 0; c < 3; c++) record[1 + c * PIXELS + p] = pixels[c];
        }
        fwrite(record, 1, sizeof(record), pdl_output_stream(output));
    }
    return pdl_output_close(output);
}

static pdl_status_t rebuild_sheet(const char *work, const char *folder, const char *name, const uint8_t *labels)
{
    char         file[64], from[PDL__PATH], to[PDL__PATH];
    pdl__image_t image;
    pdl_status_t status;

    snprintf(file, sizeof(file), "%s.png", name);
    status = pdl__path_join(work, file, from, sizeof(from));
    snprintf(file, sizeof(file), "%s.bin", name);
    if (!status) status = pdl__path_join(folder, file, to, sizeof(to));
    if (!status) status = read_sheet(from, &image);
    if (status) return status;
    status = write_batch(to, image.pixels, labels);
    pdl__image_free(&image);
    return status;
}

static pdl_status_t rebuild_all(const char *work, const char *folder, uint8_t *labels)
{
    char         path[PDL__PATH];
    pdl_status_t status = pdl__path_join(work, "train_labels.json", path, sizeof(path));

    if (!status) status = read_labels(path, TRAIN_SHEETS * IMAGES, labels);
    for (int k = 0; !status && k < TRAIN_SHEETS; k++) {
        char name[32];

        snprintf(name, sizeof(name), "data_batch_%d", k + 1);
        status = rebuild_sheet(work, folder, name, labels + (size_t)k * IMAGES);
    }
    if (!status) status = pdl__path_join(work, "test_labels.json", path, sizeof(path));
    if (!status) status = read_labels(path, IMAGES, labels);
    return status ? status : rebuild_sheet(work, folder, "test_batch", labels);
}

pdl_status_t pdl__rebuild_cifar10(const char *work, const char *folder)
{
    uint8_t     *labels = malloc((size_t)TRAIN_SHEETS * IMAGES);
    pdl_status_t status =
        labels != NULL ? rebuild_all(work, folder, labels) : pdl_error(PDL_ERR_NOMEM, "out of memory");

    free(labels);
    return status;
}
