/*
 * Scoring with whatever answers.
 */
#ifndef PDL_TRAIN_EVALUATE_H
#define PDL_TRAIN_EVALUATE_H

#include "train/exec/session.h"
#include <paradl/train/train.h>

/* The result of one batch, over all ranks. */
typedef pdl_status_t (*pdl__evaluate_fn_t)(void *context, const pdl_batch_t *batch, pdl_step_result_t *result);

/* Collective. All samples of a source, in batches as `session` takes them. */
pdl_status_t pdl__score(const pdl_session_t *session, pdl__evaluate_fn_t evaluate, void *context,
                        pdl_source_t *source, int loader_threads, bool normalise, pdl_score_t *score);

#endif
