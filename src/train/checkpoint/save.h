/*
 * A session to and from a checkpoint.
 */
#ifndef PDL_TRAIN_SAVE_H
#define PDL_TRAIN_SAVE_H

#include "train/checkpoint/identity.h"

#include <paradl/train/session.h>

/* Numbers of somebody else that a checkpoint carries with it, under names that begin with PDL__EXTRA. */
#define PDL__EXTRA  "sampling."
#define PDL__EXTRAS 4
typedef struct pdl__extra {
    const char *name;
    bool        bytes; /* otherwise of 64 bits */
    int64_t     count;
    void       *data; /* owned by the list */
} pdl__extra_t;
typedef struct pdl__extras {
    pdl__extra_t extra[PDL__EXTRAS];
    int          count;
} pdl__extras_t;
void pdl__extras_free(pdl__extras_t *extras);

/* Where the run stands besides the session's own state. */
typedef struct pdl__place {
    const pdl__identity_t *identity; /* saving: what else the run is known by; may be NULL */
    int64_t                epoch, step_in_epoch;
    double      sums[3]; /* of losses, correct predictions and samples since the latest report of an epoch */
    const char *model_name;
    uint64_t    model_hash;
    const pdl__extras_t *extras; /* saving: may be NULL */
} pdl__place_t;

/* Collective: rank 0 writes, all ranks learn whether it worked. */
pdl_status_t pdl__session_save(pdl_session_t *session, const char *folder, const pdl__place_t *place, int keep);
/* Whether this rank alone has all that a checkpoint needs: no parts of tensors, no statistics of samples. */
bool pdl__session_whole(const pdl_session_t *session);
/* Not collective: this rank writes what it has, which is all. */
pdl_status_t pdl__session_save_alone(pdl_session_t *session, const char *folder, const pdl__place_t *place,
                                     int keep);
/* Collective. Weights, and with `state` also the optimizer's state and the number of updates; the message of a
   checkpoint that does not fit says what differs. `place` may be NULL. */
pdl_status_t pdl__session_restore(pdl_session_t *session, const pdl_checkpoint_t *checkpoint, bool state,
                                  pdl__place_t *place);

#endif
