/*
 * Removing from a checkpoint folder, open as `directory`. Internal to train.
 */
#ifndef PDL_TRAIN_CHECKPOINT_CLEAN_H
#define PDL_TRAIN_CHECKPOINT_CLEAN_H

#include <stdint.h>

/* Removes a folder that never became, or is no longer, a checkpoint. */
void pdl__checkpoint_remove_partial(int directory, const char *name);
/* Removes what killed writers left behind. */
void pdl__checkpoint_clean(int directory, const char *folder);
/* Of the checkpoints up to `step`, removes all but the `keep` latest. */
void pdl__checkpoint_prune(int directory, const char *folder, int64_t step, int keep);

#endif
