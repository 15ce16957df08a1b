/*
 * Random crops of padded images (He et al. 2015), flips, and cutout (DeVries and Taylor 2017), in one to three
 * dimensions: a crop moves along every axis, a flip mirrors the last one, and what is cut out is a square or a cube.
 */
#include "data/image/augment.h"

#include <paradl/base/random.h>

#include <string.h>

/* Indices in the random stream of a sample, so that switching one change on does not alter another. */
enum { DRAW_CROP = 0, DRAW_FLIP = 8, DRAW_CUT = 16 };

void pdl__augment_draw(const pdl_augmentation_t *wanted, const pdl_shape_t *shape, uint64_t seed, int64_t epoch,
                       int64_t index, pdl__change_t *change)
{
    const uint64_t stream = pdl_random_stream("augmentation", (uint64_t)epoch, (uint64_t)index);

    *change = (pdl__change_t){.cut = wanted->cutout > 0 && shape->rank > 0};
    for (int axis = 0; axis < shape->rank; axis++) {
        if (wanted->crop_pad > 0) {
            uint64_t places = 2 * (uint64_t)wanted->crop_pad + 1;

            change->move[axis] =
                (int64_t)pdl_random_below(seed, stream, (uint64_t)DRAW_CROP + (uint64_t)axis, places) -
                wanted->crop_pad;
        }
        if (change->cut) {
            /* The centre is anywhere inside, so that at the border a part of the square falls outside. */
            int64_t centre = (int64_t)pdl_random_below(seed, stream, (uint64_t)DRAW_CUT + (uint64_t)axis,
                                                       (uint64_t)shape->extent[axis]);
            int64_t low = centre - wanted->cutout / 2;
            int64_t high = low + wanted->cutout;

            change->cut_low[axis] = low < 0 ? 0 : low;
            change->cut_high[axis] = high > shape->extent[axis] ? shape->extent[axis] : high;
        }
    }
    if (wanted->flip && shape->rank > 0) change->flip = pdl_random_uniform(seed, stream, DRAW_FLIP) < 0.5;
}

bool pdl__augment_moves(const pdl_augmentation_t *wanted)
{
    return wanted->crop_pad > 0 || wanted->flip;
}

/* A shape as depth, rows and columns: axes that are missing come first and have extent 1. */
typedef struct box {
    int64_t extent[3], move[3], low[3], high[3];
} box_t;

static box_t box_of(const pdl__change_t *change, const pdl_shape_t *shape)
{
    box_t box = {.extent = {1, 1, 1}, .high = {1, 1, 1}};

    for (int axis = 0; axis < shape->rank; axis++) {
        int at = 3 - shape->rank + axis;

        box.extent[at] = shape->extent[axis];
        box.move[at] = change->move[axis];
        box.low[at] = change->cut_low[axis];
        box.high[at] = change->cut_high[axis];
    }
    return box;
}

/* The stored row that row (z, y) of the result is taken from, or -1 for padding. */
static int64_t row_of(const box_t *box, int64_t z, int64_t y)
{
    int64_t from_z = z + box->move[0], from_y = y + box->move[1];

    if (from_z < 0 || from_z >= box->extent[0] || from_y < 0 || from_y >= box->extent[1]) return -1;
    return from_z * box->extent[1] + from_y;
}

#define ELEMENT 4 /* bytes of a float and of a class */

void pdl__augment_move(const pdl__change_t *change, const pdl_shape_t *shape, const void *from, void *to)
{
    const box_t   box = box_of(change, shape);
    const int64_t width = box.extent[2], move = box.move[2];
    /* Columns low .. high-1 before the flip are inside the stored row. */
    const int64_t low = move < 0 ? (-move < width ? -move : width) : 0;
    const int64_t high = move > 0 ? (move < width ? width - move : 0) : width;
    char         *row = to;

    memset(to, 0, (size_t)(box.extent[0] * box.extent[1] * width) * ELEMENT);
    for (int64_t z = 0; z < box.extent[0]; z++) {
        for (int64_t y = 0; y < box.extent[1]; y++, row += width * ELEMENT) {
            int64_t     at = row_of(&box, z, y);
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

void pdl__augment_cut(const pdl__change_t *change, const pdl_shape_t *shape, float value, float *channel)
{
    const box_t box = box_of(change, shape);

    if (!change->cut) return;
    for (int64_t z = box.low[0]; z < box.high[0]; z++) {
        for (int64_t y = box.low[1]; y < box.high[1]; y++) {
            float *row = channel + (z * box.extent[1] + y) * box.extent[2];

            for (int64_t x = box.low[2]; x < box.high[2]; x++) row[x] = value;
        }
    }
}
