/*
 * Images of bytes with changes that are drawn, loaded by a backend, against the floats that the loader makes of them.
 */
#ifndef PDL_TEST_IMAGE_FIXTURE_H
#define PDL_TEST_IMAGE_FIXTURE_H

#include <paradl/tensor/backend.h>

#include "random.h"
#include "test.h"

#define IMAGES 6
#define PIXELS 1200 /* of an image, at most */

static const pdl_shape_t image_shapes[] = {{.channels = 3, .extent = {13, 9, 1}, .rank = 2},
                                           {.channels = 1, .extent = {32, 32, 1}, .rank = 2},
                                           {.channels = 3, .extent = {6, 10, 1}, .rank = 2},
                                           {.channels = 2, .extent = {5, 4, 300 / 10}, .rank = 3},
                                           {.channels = 18, .extent = {7, 1, 1}, .rank = 1}};
#define IMAGE_SHAPES ((int)(sizeof(image_shapes) / sizeof(*image_shapes)))

typedef struct image_case {
    uint8_t            bytes[IMAGES * PIXELS];
    pdl_image_change_t changes[IMAGES];
    pdl_image_scale_t  scale;
    float              expected[IMAGES * PIXELS];
} image_case_t;

static void image_draw(const pdl_shape_t *shape, image_case_t *c)
{
    int64_t positions = pdl_shape_positions(shape), elements = pdl_shape_elements(shape);
    int32_t extent[3];
    float   plane[PIXELS];

    pdl_image_extents(shape, extent);
    for (int k = 0; k < PDL_IMAGE_CHANNELS; k++) {
        c->scale.cut[k] = c->scale.shift[k] = (float)between(0, 100) / 100;
        c->scale.factor[k] = 1 / ((float)between(20, 60) / 100);
    }
    for (int n = 0; n < IMAGES; n++) {
        pdl_image_change_t *change = &c->changes[n];

        *change = (pdl_image_change_t){.flip = n % 2, .empty = n == IMAGES - 1};
        for (int axis = 3 - shape->rank; axis < 3; axis++) change->move[axis] = (int32_t)between(-5, 5);
        for (int axis = 0; axis < 3 && n % 3 == 1; axis++) {
            change->cut_low[axis] = (int32_t)between(0, extent[axis] - 1);
            change->cut_high[axis] = (int32_t)between(change->cut_low[axis] + 1, extent[axis]);
        }
        for (int64_t i = 0; i < elements; i++) c->bytes[n * elements + i] = (uint8_t)between(0, 255);
        for (int64_t k = 0; k < shape->channels; k++) {
            float *to = c->expected + n * elements + k * positions;
            for (int64_t i = 0; i < positions; i++)
                plane[i] = (float)c->bytes[n * elements + k * positions + i] / 255.0f;
            pdl_image_move(change, shape, plane, to);
            pdl_image_finish(change, &c->scale, shape, k, to);
            for (int64_t i = 0; i < positions && change->empty; i++) to[i] = 0;
        }
    }
}

#endif
