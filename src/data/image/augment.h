/*
 * Changes of one training sample. Internal to data.
 */
#ifndef PDL_DATA_AUGMENT_H
#define PDL_DATA_AUGMENT_H

#include <paradl/data/data.h>
#include <paradl/tensor/image.h>

/* Draws from the seed, the epoch and the index of the sample and nothing else. */
void pdl__augment_draw(const pdl_augmentation_t *wanted, const pdl_shape_t *shape, uint64_t seed, int64_t epoch,
                       int64_t index, pdl_image_change_t *change);

/* True where the sample has to be moved, so that source and target of pdl_image_move() must differ. */
bool pdl__augment_moves(const pdl_augmentation_t *wanted);

#endif
