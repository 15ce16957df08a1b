/*
 * Images moved, mirrored, cut and scaled, on the host.
 */
#include "tensor/image.h"

#include <string.h>

void pdl_image_extents(const pdl_shape_t *shape, int32_t extent[3])
{
    for (int axis = 0; axis < 3; axis++) extent[axis] = 1;
    for (int axis = 0; axis < shape->rank; axis++) extent[3 - shape->rank + axis] = (int32_t)shape->extent[axis];
}

/* The stored row that row (z, y) of the result is taken from, or -1 where there is none. */
static int64_t row_of(const pdl_image_change_t *change, const int32_t extent[3], int64_t z, int64_t y)
{
    int64_t from_z = z + change->move[0], from_y = y + change->move[1];

    if (from_z < 0 || from_z >= extent[0] || from_y < 0 || from_y >= extent[1]) return -1;
    return from_z * extent[1] + from_y;
}

#define ELEMENT 4 /* bytes of a float and of a class */

void pdl_image_move(const pdl_image_change_t *change, const pdl_shape_t *shape, const void *from, void *to)
{
    int32_t extent[3];
    char   *row = to;

    pdl_image_extents(shape, extent);
    const int64_t width = extent[2], move = change->move[2];
    /* Columns low .. high-1 before the flip are inside the stored row. */
    const int64_t low = move < 0 ? (-move < width ? -move : width) : 0;
    const int64_t high = move > 0 ? (move < width ? width - move : 0) : width;

    memset(to, 0, (size_t)(extent[0] * extent[1] * width) * ELEMENT);
    for (int64_t z = 0; z < extent[0]; z++) {
        for (int64_t y = 0; y < extent[1]; y++, row += width * ELEMENT) {
            int64_t     at = row_of(change, extent, z, y);
            const char *source;

            if (at < 0 || low >= high) continue;
            source = (const char *)from + (at * width + low + move) * ELEMENT;
            if (!change->flip) {
                memcpy(row + low * ELEMENT, source, (size_t)(high - low) * ELEMENT);
                continue;
            }
            for (int64_t x = low; x < high; x++, source += ELEMENT) {
                memcpy(row + (width - 1 - x) * ELEMENT, source, ELEMENT);
            }
        }
    }
}

static void cut(const pdl_image_change_t *change, const int32_t extent[3], float value, float *channel)
{
    for (int64_t z = change->cut_low[0]; z < change->cut_high[0]; z++)
        for (int64_t y = change->cut_low[1]; y < change->cut_high[1]; y++) {
            float *row = channel + (z * extent[1] + y) * extent[2];

            for (int64_t x = change->cut_low[2]; x < change->cut_high[2]; x++) row[x] = value;
        }
}

void pdl_image_finish(const pdl_image_change_t *change, const pdl_image_scale_t *scale, const pdl_shape_t *shape,
                      int64_t c, float *values)
{
    const bool    known = c < PDL_IMAGE_CHANNELS;
    const float   shift = known ? scale->shift[c] : 0, factor = known ? scale->factor[c] : 1;
    const int64_t positions = pdl_shape_positions(shape);
    int32_t       extent[3];

    pdl_image_extents(shape, extent);
    cut(change, extent, known ? scale->cut[c] : 0, values);
    if (shift == 0 && factor == 1) return;
    for (int64_t i = 0; i < positions; i++) values[i] = (values[i] - shift) * factor;
}

/* One row of an image of bytes, moved and mirrored. */
static void expand_row(const pdl_image_change_t *change, const int32_t extent[3], const uint8_t *plane, int64_t row,
                       int64_t first, int64_t count, float *values)
{
    const int64_t at = row_of(change, extent, row / extent[1], row % extent[1]);

    for (int64_t i = 0; i < count; i++) {
        int64_t column = first + i, from;

        if (change->flip) column = extent[2] - 1 - column;
        from = column + change->move[2];
        values[i] = at >= 0 && from >= 0 && from < extent[2] ? (float)plane[at * extent[2] + from] / 255.0f : 0;
    }
}

static bool is_cut(const pdl_image_change_t *change, const int32_t extent[3], int64_t row, int64_t column)
{
    const int64_t place[3] = {row / extent[1], row % extent[1], column};

    for (int axis = 0; axis < 3; axis++)
        if (place[axis] < change->cut_low[axis] || place[axis] >= change->cut_high[axis]) return false;
    return true;
}

#define PIECE 256

/* A row of a channel, piece by piece: nothing is allocated. */
static pdl_status_t load_row(pdl_backend_t *backend, const pdl_image_change_t *change,
                             const pdl_image_scale_t *scale, const int32_t extent[3], int64_t c,
                             const uint8_t *plane, int64_t row, char *target)
{
    const bool   known = c < PDL_IMAGE_CHANNELS;
    const float  shift = known ? scale->shift[c] : 0, factor = known ? scale->factor[c] : 1;
    size_t       item = pdl_dtype_bytes(backend->activation_type);
    pdl_status_t status = PDL_OK;

    for (int64_t first = 0; first < extent[2] && !status; first += PIECE) {
        int64_t count = extent[2] - first < PIECE ? extent[2] - first : PIECE;
        float   values[PIECE] = {0};

        if (!change->empty) expand_row(change, extent, plane, row, first, count, values);
        for (int64_t i = 0; i < count && !change->empty; i++) {
            if (is_cut(change, extent, row, first + i)) values[i] = known ? scale->cut[c] : 0;
            values[i] = (values[i] - shift) * factor;
        }
        status = backend->ops->from_float(backend, NULL, values, count, target + (size_t)first * item);
    }
    return status;
}

pdl_status_t pdl__host_load_images(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const uint8_t *bytes, const pdl_image_change_t *changes,
                                   const pdl_image_scale_t *scale, pdl_format_t format, void *target)
{
    size_t       item = pdl_dtype_bytes(backend->activation_type);
    int64_t      positions = pdl_shape_positions(shape);
    int32_t      extent[3];
    pdl_status_t status = PDL_OK;

    (void)stream;
    (void)format;
    pdl_image_extents(shape, extent);
    for (int64_t n = 0; n < samples; n++)
        for (int64_t c = 0; c < shape->channels; c++) {
            int64_t at = (n * shape->channels + c) * positions;

            for (int64_t row = 0; row < positions / extent[2] && !status; row++)
                status = load_row(backend, &changes[n], scale, extent, c, bytes + at, row,
                                  (char *)target + (size_t)(at + row * extent[2]) * item);
        }
    return status;
}

pdl_status_t pdl__host_load_values(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const pdl_shape_t *shape,
                                   int64_t samples, const float *values, pdl_format_t format, void *target)
{
    (void)format;
    return backend->ops->from_float(backend, stream, values, samples * pdl_shape_elements(shape), target);
}
