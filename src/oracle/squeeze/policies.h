/*
 * Policies that make a plan fit, for where its state is sharded and kept (squeeze.c).
 */
#ifndef PDL_ORACLE_POLICIES_H
#define PDL_ORACLE_POLICIES_H

#include "oracle/squeeze/counted.h"

/* What is tried of a plan: parts and recomputation; policies of its blocks, for which it is compiled many times over. */
typedef enum pdl__effort { PDL__EFFORT_PARTS, PDL__EFFORT_BLOCKS, PDL__EFFORT_COUNT } pdl__effort_t;

/* Replaces the candidate where some way of the original fits and is faster by 2 %, or is the first that fits; *found then. *least is lowered
   to what was counted. The candidate is not possible any more where nothing fits and the trainer does not run the plan. */
pdl_status_t pdl__try_policies(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl__effort_t effort,
                               pdl_candidate_t *candidate, pdl__need_t *least, bool *found);

/* Whether the candidate needs no policy of these. */
bool pdl__is_lightest(const pdl__searcher_t *s, const pdl_candidate_t *candidate);
/* Whether a plan that keeps everything, in the fewest parts or in those that it has, is not faster by 2 %. */
pdl_status_t pdl__cannot_win(const pdl__searcher_t *s, const pdl_candidate_t *original,
                             const pdl_candidate_t *candidate, bool *loses);
/* The least that was found depends on what was asked for: what is a little below it is asked for too, as long as that works. */
pdl_status_t pdl__lower_need(const pdl__searcher_t *s, const pdl_candidate_t *original, pdl__need_t *least);

/* Weights and state that are on the host are updated there where that is faster: gradients go there in place of all of these both
   ways, and processors of the host are slower than those of a device. */
pdl_status_t pdl__try_host_update(const pdl__searcher_t *s, pdl_candidate_t *candidate);

#endif
