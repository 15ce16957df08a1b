/*
 * Sharded state (ZeRO): ranks that would hold the same weights keep a part each of the optimizer's state (zero1), of
 * the gradients (zero2) and of the weights (zero3).
 *
 * Every bucket of the gradient exchange is cut into as many parts as there are ranks on the data axes. The parts of
 * a rank lie one after the other in its arrays. Gradients are reduced and scattered, the rank updates its parts, and
 * weights are gathered: after the update, or with zero3 shortly before a layer uses them. What is there for a while
 * only, a whole bucket of gradients or of weights, is a buffer of the program (src/program/update.c).
 */
#ifndef PDL_TRAIN_SHARD_H
#define PDL_TRAIN_SHARD_H

#include "train/exec/session.h"

/* shard.c. Local: what is sharded on this rank, before memory is taken. */
pdl_status_t pdl__shard_divide(pdl_session_t *session);
pdl_status_t pdl__shard_connect(pdl_session_t *session, pdl__buckets_t *group); /* collective */
/* Whether an array holds parts instead of whole weights. */
bool pdl__shard_divides(const pdl_session_t *session, pdl_session_array_t array);
/* This rank's part of a bucket in an array. */
float *pdl__shard_part(const pdl_session_t *session, pdl_session_array_t array, const pdl__bucket_t *bucket);

/* tensors.c: whether this rank's values of a weight are only a part of it, from which the first of the next
   two, collective over the group, puts together its storage; the second takes this rank's part of it. */
bool pdl__shard_cuts(const pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry);
pdl_status_t pdl__shard_collect(const pdl_session_t *session, pdl_session_array_t array,
                                const pdl__trace_entry_t *entry, float *storage);
pdl_status_t pdl__shard_spread(pdl_session_t *session, pdl_session_array_t array, const pdl__trace_entry_t *entry,
                               const float *storage);

/* Whole weights on every rank again, after the parts have changed. */
pdl_status_t pdl__shard_gather(pdl_session_t *session);

#endif
