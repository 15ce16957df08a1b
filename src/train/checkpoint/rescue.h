/*
 * What is left to do when ranks are lost in the middle of a run.
 */
#ifndef PDL_TRAIN_RESCUE_H
#define PDL_TRAIN_RESCUE_H

#include "train/checkpoint/save.h"
#include <paradl/train/train.h>

/* Not collective; returns at once on ranks that do not speak. Writes a checkpoint at `place` where this rank has all of
   the state, and adds to the message where the latest one is. A NULL place: there is none to write. */
void pdl__rescue(const pdl_train_options_t *options, pdl_session_t *session, const pdl__place_t *place);

#endif
