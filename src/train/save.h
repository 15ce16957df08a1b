/*
 * A session to and from a checkpoint.
 */
#ifndef PDL_TRAIN_SAVE_H
#define PDL_TRAIN_SAVE_H

#include <paradl/checkpoint.h>
#include <paradl/session.h>

/* Where the run stands besides the session's own state. */
typedef struct pdl__place {
    int64_t     epoch, step_in_epoch;
    const char *model_name;
    uint64_t    model_hash;
} pdl__place_t;

/* Collective: rank 0 writes, all ranks learn whether it worked. */
pdl_status_t pdl__session_save(pdl_session_t *session, const char *folder, const pdl__place_t *place, int keep);
/* Collective. Weights, and with `state` also the optimizer's state and the number of updates; the message of a
   checkpoint that does not fit says what differs. `place` may be NULL. */
pdl_status_t pdl__session_restore(pdl_session_t *session, const pdl_checkpoint_t *checkpoint, bool state,
                                  pdl__place_t *place);

#endif
