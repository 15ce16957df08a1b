/*
 * Numbers that are not finite: none of them becomes a result. Whoever sees one notes it; the ranks that update the same
 * weights learn of it with the sums of the next step, so that looking costs no message of its own, and the one that knows
 * the cause best speaks for all.
 */
#ifndef PDL_TRAIN_FINITE_H
#define PDL_TRAIN_FINITE_H

#include "train/exec/session.h"

/* Local. Weights, state or statistics that the update at hand has written are not finite. */
void pdl__finite_note_update(pdl_session_t *session, const pdl_batch_t *batch, double lr);
/* Local. Whether statistics of batch norm are finite: starts home, and is known once the stream has been waited for. */
pdl_status_t pdl__finite_watch_statistics(pdl_session_t *session);
bool         pdl__finite_statistics(const pdl_session_t *session);
/* Local. The device notes whether the loss of a sample is not finite; pdl__finite_flag() is cleared first. */
pdl_status_t pdl__finite_watch_results(pdl_session_t *session, const pdl__unit_t *loss, const pdl_op_run_t *run);
int64_t     *pdl__finite_flag(const pdl_session_t *session);
/* Local. In training a sample that is not finite is seen in the gradients; a score could hide it. Whether an input is
   finite starts home; once the stream has been waited for, the second notes it. */
pdl_status_t pdl__finite_watch_input(pdl_session_t *session, int micro_batch, const void *input, size_t bytes);
void         pdl__finite_check_inputs(pdl_session_t *session, const pdl_batch_t *batch);
/* Local. A sample that is not finite, of the batch at hand. */
void pdl__finite_note_input(pdl_session_t *session, const pdl_batch_t *batch);
/* Collective over `ranks`. The error for what some of them noted, or PDL_OK. */
pdl_status_t pdl__finite_agree(pdl_session_t *session, pdl_ranks_t *ranks);
/* Collective over `ranks`. `what` (the loss, the norm of the gradients) is not finite: runs forward once more and looks at every
   output. `mode`: of the pass that it came from. Always an error. */
pdl_status_t pdl__finite_explain(pdl_session_t *session, pdl_ranks_t *ranks, const pdl_batch_t *batch,
                                 pdl__execute_mode_t mode, const char *what);
/* Appends to the message of this error which checkpoint is the latest, all of whose numbers are finite. */
pdl_status_t pdl__finite_name_checkpoint(pdl_status_t status, const char *folder);

#endif
