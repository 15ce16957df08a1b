/*
 * Optimizer state that is kept off the device, in memory of the host or in a file: it passes through the device in pieces
 * (src/program/state.c). So do weights that are on the host when they are updated, unless processors of the host do it.
 */
#ifndef PDL_TRAIN_STATE_H
#define PDL_TRAIN_STATE_H

#include "train/exec/session.h"

/* Where an array of the session is. */
pdl_tier_t pdl__array_tier(const pdl_session_t *session, pdl_session_array_t array);
/* What the plan asks for and this run cannot do, or the host has no room for. */
pdl_status_t pdl__state_check(const pdl_session_t *session);
/* Memory of the host, or the file; zero. */
pdl_status_t pdl__state_take(pdl_session_t *session);
void         pdl__state_give(pdl_session_t *session);
size_t       pdl__state_host_bytes(const pdl_session_t *session);

/* One piece of all arrays to the buffer of an operation, or from it. */
pdl_status_t pdl__state_copy(pdl_session_t *session, const pdl_program_op_t *op, const pdl__execution_t *execution);
/* Where an array is in the buffer of a piece. */
size_t pdl__state_at(const pdl_session_t *session, pdl_session_array_t array);
/* Behind the last operation, when streams have been waited for. */
pdl_status_t pdl__state_end(pdl_session_t *session);

/* host_update.c: pieces that processors of the host update, where the plan says so; `run` is that of the device. */
pdl_status_t pdl__host_update_create(pdl_session_t *session);
void         pdl__host_update_destroy(pdl_session_t *session);
pdl_status_t pdl__host_update(pdl_session_t *session, const pdl_program_op_t *op, const pdl__execution_t *execution,
                              const pdl_optimizer_run_t *run);

/* State in a file: elements of an array to or from the host, at once. */
pdl_status_t pdl__state_read(const pdl_session_t *session, pdl_session_array_t array, int64_t at, int64_t elements,
                             void *values);
pdl_status_t pdl__state_write(pdl_session_t *session, pdl_session_array_t array, int64_t at, int64_t elements,
                              const void *values);

#endif
