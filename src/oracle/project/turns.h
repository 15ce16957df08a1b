/*
 * Stages of a pipeline that share a device: one that waits for a tensor leaves it to the others.
 */
#ifndef PDL_ORACLE_TURNS_H
#define PDL_ORACLE_TURNS_H

#include <paradl/oracle/replay.h>

/* Ranks were replayed as if computation took the same however many of them compute. Moves every start and end, and the end of all, to
   where it is when time passes rate[k] times as slowly while k of them do. */
pdl_status_t pdl__have_turns(const double *rate, pdl_replay_rank_t *ranks, int count, double *total_s);

#endif
