/*
 * Times of updates while a run goes on, and what they come to at its end.
 */
#ifndef PDL_TRAIN_RUN_SUMMARY_H
#define PDL_TRAIN_RUN_SUMMARY_H

#include "train/exec/session.h"

typedef struct pdl__update_times {
    double step_s; /* from the end of the update before */
    double class_s[PDL_OP_CLASS_COUNT];
} pdl__update_times_t;

typedef struct pdl__times {
    pdl__update_times_t *update; /* a ring */
    int64_t              capacity, count;
} pdl__times_t;

pdl_status_t pdl__times_create(int64_t updates, pdl__times_t *times);
void         pdl__times_destroy(pdl__times_t *times);
/* An update has ended before which the session's classes were `before`. */
void pdl__times_add(pdl__times_t *times, const pdl_session_t *session, const double before[PDL_OP_CLASS_COUNT],
                    double step_s, double io_s);
/* Seconds of classes that keep the processor busy. */
double pdl__work_of(const double class_s[PDL_OP_CLASS_COUNT]);
/* Collective: of the latest updates, how long ranks computed; spread->update is to be freed, also after a failure. */
pdl_status_t pdl__times_spread(const pdl__times_t *times, const pdl_session_t *session, int64_t updates,
                               pdl_train_spread_t *spread);
/* Collective: times of an update and its parts. */
pdl_status_t pdl__summarise_times(const pdl__times_t *times, const pdl_session_t *session,
                                  pdl_train_summary_t *summary);
/* The means of loss and accuracy, from their sums and the samples; `score`: of the validation, or NULL. */
void pdl__summarise_epoch(const double sums[3], const pdl_score_t *score, pdl_train_epoch_t *epoch);
/* Summarises an epoch for the observer and clears the sums. A validation that was stopped does not count. */
void pdl__report_epoch(const pdl_train_observer_t *observer, double sums[3], const pdl_score_t *score,
                       pdl_train_epoch_t *epoch, pdl_train_summary_t *summary);
/* Collective over all ranks of the run. */
pdl_status_t pdl__summarise_memory(const pdl_session_t *session, pdl_ranks_t *ranks, pdl_train_summary_t *summary);

#endif
