/*
 * The checkpoint from which a run resumes. Internal to train.
 */
#ifndef PDL_TRAIN_RESUME_H
#define PDL_TRAIN_RESUME_H

#include "train/checkpoint/identity.h"

/* Collective. Opens the latest step that is whole in all `count` folders of the run: its own, or those of the nets of
   an ensemble. *found: there is something to resume. Damage is reported to the observer. A checkpoint of a run with
   another identity, which the first rank knows, is refused. The caller closes what is open, also after an error. */
pdl_status_t pdl__resume_open(const pdl_train_options_t *options, const pdl__identity_t *identity,
                              const char *const *folders, int count, pdl_checkpoint_t **checkpoints, bool *found);

#endif
