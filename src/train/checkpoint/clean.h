/*
 * Removing from a checkpoint folder, open as `directory`. Internal to train.
 */
#ifndef PDL_TRAIN_CHECKPOINT_CLEAN_H
#define PDL_TRAIN_CHECKPOINT_CLEAN_H

#include <paradl/base/status.h>
#include <stdint.h>

/* Removes a folder that never became, or is no longer, a checkpoint. */
void pdl__checkpoint_remove_partial(int directory, const char *name);
/* Removes what killed writers left behind. */
void pdl__checkpoint_clean(int directory, const char *folder);
/* Renames all checkpoints in a folder, also those of nets, such that no reader looks at them; what holds files of
   somebody else is refused before. */
pdl_status_t pdl__checkpoint_set_aside(const char *folder);
/* Removes what was set aside. */
void pdl__checkpoint_remove_old(int directory);
/* Removes that and, of the checkpoints up to `step`, all but the `keep` latest, if no other run is writing. */
void pdl__checkpoint_tidy(const char *folder, int64_t step, int keep);
/* Of the checkpoints up to `step`, removes all but the `keep` latest. */
void pdl__checkpoint_prune(int directory, const char *folder, int64_t step, int keep);

#endif
