/*
 * Weight sets: weights and optimizer state of several models, of which a session trains one at a time. The sets share
 * the gradients, the buffers and the program of the session.
 */
#ifndef PDL_TRAIN_WEIGHT_SETS_H
#define PDL_TRAIN_WEIGHT_SETS_H

#include "train/exec/session.h"

/* Set 0 is the session's own; the others are allocated, with the weights of set 0. With `moments` each set has a state
   of the optimizer, otherwise all share the state of set 0. Averaged weights (EMA) are not part of a set. */
pdl_status_t pdl__weight_sets_take(pdl_session_t *session, int count, bool moments);
void         pdl__weight_sets_give(pdl_session_t *session); /* selects set 0, and frees the others */

/* Before the sets are allocated: whether the sessions of this rank, each with `count` sets, fit their memory limit. */
pdl_status_t pdl__weight_sets_check(pdl_session_t *const *sessions, int session_count, int count, bool moments);

/* Bytes of all sets but the first. */
size_t pdl__weight_sets_bytes(const pdl_session_t *session);

/* The session uses this set from now on. To call also after the numbers of the set were changed from outside. */
pdl_status_t pdl__weight_set_select(pdl_session_t *session, int set);

/* The numbers of a set are its weights and statistics, and with `moments` the optimizer's state. */
pdl_status_t pdl__weight_set_copy(pdl_session_t *session, int from, int to, bool moments);
/* set[to] = sum of share[i] * set[i], computed in double; `to` may be one of them. */
pdl_status_t pdl__weight_set_mean(pdl_session_t *session, int count, const int *set, const double *share, int to,
                                  bool moments);
pdl_status_t pdl__weight_set_clear_moments(pdl_session_t *session, int set);

/* The arrays of a set: 0 is PDL_ARRAY_WEIGHT, then its moments; -1: no more. */
int     pdl__weight_set_array(const pdl_session_t *session, int i, bool moments);
int64_t pdl__weight_set_elements(const pdl_session_t *session, int array);

/* The numbers of one set summed over ranks: a collective that is prepared once. weight_set_sum.c */
typedef struct pdl__weight_set_sum {
    pdl_session_t  *session;
    pdl_ranks_t    *ranks;
    int             set;
    bool            moments;
    pdl_exchange_t *exchange[PDL_ARRAY_COUNT];
    int             pieces[PDL_ARRAY_COUNT];
} pdl__weight_set_sum_t;

pdl_status_t pdl__weight_set_sum_init(pdl__weight_set_sum_t *sum, pdl_session_t *session, pdl_ranks_t *ranks,
                                      int set, bool moments);
void         pdl__weight_set_sum_fini(pdl__weight_set_sum_t *sum); /* also of zeros */
pdl_status_t pdl__weight_set_sum_run(pdl__weight_set_sum_t *sum);
double       pdl__weight_set_sum_bytes(const pdl__weight_set_sum_t *sum); /* sent by this rank so far */

#endif
