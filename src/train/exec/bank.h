/*
 * Banks: several sets of weights and optimizer state among which a session trains one at a time. Gradients, buffers
 * and everything that was planned are there once.
 */
#ifndef PDL_TRAIN_BANK_H
#define PDL_TRAIN_BANK_H

#include "train/exec/session.h"

/* Bank 0 is what the session has; the others are taken, with the weights of bank 0. With `moments` each has a state
   of the optimizer, otherwise all share that of bank 0. Averaged weights (EMA) are not kept in banks. */
pdl_status_t pdl__banks_take(pdl_session_t *session, int count, bool moments);
void         pdl__banks_give(pdl_session_t *session); /* selects bank 0, and frees the others */

/* Before that: whether sessions of this rank, each with so many banks, will hold no more than they may. */
pdl_status_t pdl__banks_check(pdl_session_t *const *sessions, int session_count, int count, bool moments);

/* Bytes of all banks but the first. */
size_t pdl__banks_bytes(const pdl_session_t *session);

/* From now on the session means this bank. Also after a change of its numbers from outside. */
pdl_status_t pdl__bank_select(pdl_session_t *session, int bank);

/* What is meant by the numbers of a bank: its weights and statistics, and with `moments` the optimizer's state. */
pdl_status_t pdl__bank_copy(pdl_session_t *session, int from, int to, bool moments);
/* bank[to] = sum of share[i] * bank[i], added up in double; `to` may be one of them. */
pdl_status_t pdl__bank_mean(pdl_session_t *session, int count, const int *bank, const double *share, int to,
                            bool moments);
pdl_status_t pdl__bank_clear_moments(pdl_session_t *session, int bank);

/* The arrays of banks: 0 is PDL_ARRAY_WEIGHT, then the moments there are; -1: no more. */
int     pdl__bank_array(const pdl_session_t *session, int i, bool moments);
int64_t pdl__bank_elements(const pdl_session_t *session, int array);

/* The numbers of one bank summed over ranks: a collective that is made ready once. bank_sum.c */
typedef struct pdl__bank_sum {
    pdl_session_t  *session;
    pdl_ranks_t    *ranks;
    int             bank;
    bool            moments;
    pdl_exchange_t *exchange[PDL_ARRAY_COUNT];
    int             pieces[PDL_ARRAY_COUNT];
} pdl__bank_sum_t;

pdl_status_t pdl__bank_sum_init(pdl__bank_sum_t *sum, pdl_session_t *session, pdl_ranks_t *ranks, int bank,
                                bool moments);
void         pdl__bank_sum_fini(pdl__bank_sum_t *sum); /* also of zeros */
pdl_status_t pdl__bank_sum_run(pdl__bank_sum_t *sum);
double       pdl__bank_sum_bytes(const pdl__bank_sum_t *sum); /* sent by this rank so far */

#endif
