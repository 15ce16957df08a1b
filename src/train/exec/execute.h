/*
 * Executing a program: one operation after the other, on buffers at their places in the arena. Those that communicate are
 * issued at their place and completed where another one waits for them.
 */
#ifndef PDL_TRAIN_EXECUTE_H
#define PDL_TRAIN_EXECUTE_H

#include "train/exec/session.h"

/* A buffer of the program that is executed; NULL for none. */
void *pdl__buffer_at(const pdl_session_t *session, const pdl__execution_t *execution, int buffer);

/* execute.c: one operation, behind those that it waits for. */
pdl_status_t pdl__execute_op(pdl_session_t *session, int op, pdl__execution_t *execution);

/* captures.c: what differs from step to step, in memory of the device; it is copied there before a step. */
const pdl_step_numbers_t *pdl__step_numbers(const pdl_session_t *session);
pdl_status_t              pdl__step_numbers_send(pdl_session_t *session, const pdl__execution_t *execution);
/* Replays the first operations of a program where the device can, and leaves execution->next behind them. */
pdl_status_t pdl__captures_replay(pdl_session_t *session, pdl__execution_t *execution);
/* All of a program has been executed. */
void pdl__captures_warm(pdl_session_t *session, const pdl__execution_t *execution);
void pdl__captures_destroy(pdl_session_t *session);

/* compute.c. The first element of activations that is not finite, or -1. */
pdl_status_t pdl__find_not_finite(pdl_session_t *session, const void *data, size_t bytes, int64_t *index);
pdl_status_t pdl__execute_load(pdl_session_t *session, const pdl_program_op_t *op,
                               const pdl__execution_t *execution);
pdl_status_t pdl__execute_forward(pdl_session_t *session, const pdl_program_op_t *op, pdl__execution_t *execution);
pdl_status_t pdl__execute_backward(pdl_session_t *session, const pdl_program_op_t *op, pdl__execution_t *execution);

/* communicate.c: of operations that communicate, and of what they leave in buffers of whole buckets. */
pdl_status_t pdl__issue(pdl_session_t *session, const pdl_program_op_t *op, const pdl__execution_t *execution);
pdl_status_t pdl__complete(pdl_session_t *session, const pdl_program_op_t *op, const pdl__execution_t *execution);
pdl_status_t pdl__poll(pdl_session_t *session);
pdl_status_t pdl__execute_bucket(pdl_session_t *session, const pdl_program_op_t *op,
                                 const pdl__execution_t *execution);
/* The exchange of a collective, and its number there. */
pdl_exchange_t *pdl__exchange_of(const pdl_session_t *session, const pdl_program_t *program,
                                 const pdl_program_op_t *op, int *bucket);

/* update.c */
pdl_status_t pdl__execute_result(pdl_session_t *session, pdl__execution_t *execution);
/* An operation that others wait for by its event has been given to its stream. */
pdl_status_t pdl__record_done(pdl_session_t *session, const pdl_program_op_t *op,
                              const pdl__execution_t *execution);
pdl_status_t pdl__execute_update(pdl_session_t *session, const pdl_program_op_t *op, pdl__execution_t *execution);
/* Behind the last operation: waits for the device, and looks at what has come home. */
pdl_status_t pdl__execute_end(pdl_session_t *session, pdl__execution_t *execution);

#endif
