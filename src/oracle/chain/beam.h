/*
 * Policies to begin with, for chains that are too long to try all pairs of blocks.
 */
#ifndef PDL_ORACLE_CHAIN_BEAM_H
#define PDL_ORACLE_CHAIN_BEAM_H

#include "oracle/chain/simulate.h"

#define PDL__BEAM_RESULTS 16

/* From the last block to the first by closed formulas, states of similar memory and backlog of the link being one: the
   policies of at most PDL__BEAM_RESULTS ends, `count` of the chain each, fastest first. */
pdl_status_t pdl__chain_beam(const pdl_chain_t *chain, pdl_memory_policy_t *policies, int *found);

#endif
