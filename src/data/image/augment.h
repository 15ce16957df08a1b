/*
 * Changes of one training sample. Internal to data.
 */
#ifndef PDL_DATA_AUGMENT_H
#define PDL_DATA_AUGMENT_H

#include <paradl/data/data.h>

/* What was drawn for one sample. */
typedef struct pdl__change {
    int64_t move[PDL_MAX_SPACE]; /* element x of the result is element x + move of the stored sample, or padding */
    bool    flip;
    bool    cut;
    int64_t cut_low[PDL_MAX_SPACE], cut_high[PDL_MAX_SPACE];
} pdl__change_t;

/* Draws from the seed, the epoch and the index of the sample and nothing else. */
void pdl__augment_draw(const pdl_augmentation_t *wanted, const pdl_shape_t *shape, uint64_t seed, int64_t epoch,
                       int64_t index, pdl__change_t *change);

/* True where the sample has to be moved, so that source and target of pdl__augment_move must differ. */
bool pdl__augment_moves(const pdl_augmentation_t *wanted);

/* One channel, [depth][row][column], of elements of four bytes, so for values and classes alike: to = from, moved and
   flipped; what comes from outside is 0. */
void pdl__augment_move(const pdl__change_t *change, const pdl_shape_t *shape, const void *from, void *to);
/* One channel: the cut part becomes `value`. */
void pdl__augment_cut(const pdl__change_t *change, const pdl_shape_t *shape, float value, float *channel);

#endif
