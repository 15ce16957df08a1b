/*
 * Parameters as updates take them.
 */
#ifndef PDL_TRAIN_TABLE_H
#define PDL_TRAIN_TABLE_H

#include <paradl/train/optimizer.h>

struct pdl_optimizer_table {
    int                 count;
    pdl_update_range_t *each;           /* one of every parameter */
    double             *copies;         /* of every parameter, at least 1 */
    pdl_slice_t        *gradients;      /* of every parameter */
    pdl_slice_t        *scaled_weights; /* of every parameter whose step is scaled by its norm, else empty */
    pdl_slice_t        *scaled_gradients;
    int                 alike_count, joined_count;
    pdl_update_range_t *alike;  /* neighbours that decay alike are one range, */
    pdl_update_range_t *joined; /* neighbours are */
    pdl_slice_t        *joined_gradients;
    pdl_update_range_t *cut; /* room for the ranges of a piece of the state */
};

#endif
