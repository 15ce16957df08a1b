/*
 * Images as a network gets them: moved, mirrored, cut and brought to mean 0 and deviation 1. The loader does so with
 * floats; a device that gets images as bytes does it there, with the same result (pdl_backend_ops_t.load_images).
 */
#ifndef PARADL_IMAGE_H
#define PARADL_IMAGE_H

#include <paradl/model/model.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes of one image. Axes are depth, rows and columns: those that a shape does not have come first. */
typedef struct pdl_image_change {
    int32_t
        move[3];  /* element x of the result is element x + move of the stored image, or 0 where there is none; */
    int32_t flip; /* then columns are mirrored, */
    int32_t cut_low[3], cut_high[3]; /* and a box is cut out */
    int32_t empty;                   /* there is no image: zeros */
} pdl_image_change_t;

#define PDL_IMAGE_CHANNELS 16 /* with numbers of their own; others are left as they are, and cut to 0 */

/* By channel: what is cut out becomes `cut`; then every value becomes (value - shift) * factor. */
typedef struct pdl_image_scale {
    float cut[PDL_IMAGE_CHANNELS], shift[PDL_IMAGE_CHANNELS], factor[PDL_IMAGE_CHANNELS];
} pdl_image_scale_t;

/* The extents of a shape along these axes. */
void pdl_image_extents(const pdl_shape_t *shape, int32_t extent[3]);

/* One channel, [depth][row][column], of elements of four bytes, so for values and classes alike: to = from, moved and
   mirrored. */
void pdl_image_move(const pdl_image_change_t *change, const pdl_shape_t *shape, const void *from, void *to);
/* Channel c: cut and scaled, in place. */
void pdl_image_finish(const pdl_image_change_t *change, const pdl_image_scale_t *scale, const pdl_shape_t *shape,
                      int64_t c, float *values);

#ifdef __cplusplus
}
#endif
#endif
