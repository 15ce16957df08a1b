/*
 * Random crops of padded images (He et al. 2015), flips, and cutout (DeVries and Taylor 2017), in one to three
 * dimensions: a crop moves along every axis, a flip mirrors the last one, and what is cut out is a square or a cube.
 */
#include "data/image/augment.h"

#include <paradl/base/random.h>

/* Indices in the random stream of a sample, so that switching one change on does not alter another. */
enum { DRAW_CROP = 0, DRAW_FLIP = 8, DRAW_CUT = 16 };

void pdl__augment_draw(const pdl_augmentation_t *wanted, const pdl_shape_t *shape, uint64_t seed, int64_t epoch,
                       int64_t index, pdl_image_change_t *change)
{
    const uint64_t stream = pdl_random_stream("augmentation", (uint64_t)epoch, (uint64_t)index);
    const bool     cuts = wanted->cutout > 0 && shape->rank > 0;

    *change = (pdl_image_change_t){.cut_high = {cuts, cuts, cuts}};
    for (int axis = 0; axis < shape->rank; axis++) {
        const int at = 3 - shape->rank + axis; /* missing axes come first */

        if (wanted->crop_pad > 0) {
            uint64_t places = 2 * (uint64_t)wanted->crop_pad + 1;

            change->move[at] =
                (int32_t)((int64_t)pdl_random_below(seed, stream, (uint64_t)DRAW_CROP + (uint64_t)axis, places) -
                          wanted->crop_pad);
        }
        if (cuts) {
            /* The centre is anywhere inside, so that at the border a part of the square falls outside. */
            int64_t centre = (int64_t)pdl_random_below(seed, stream, (uint64_t)DRAW_CUT + (uint64_t)axis,
                                                       (uint64_t)shape->extent[axis]);
            int64_t low = centre - wanted->cutout / 2;
            int64_t high = low + wanted->cutout;

            change->cut_low[at] = (int32_t)(low < 0 ? 0 : low);
            change->cut_high[at] = (int32_t)(high > shape->extent[axis] ? shape->extent[axis] : high);
        }
    }
    if (wanted->flip && shape->rank > 0) change->flip = pdl_random_uniform(seed, stream, DRAW_FLIP) < 0.5;
}

bool pdl__augment_moves(const pdl_augmentation_t *wanted)
{
    return wanted->crop_pad > 0 || wanted->flip;
}
