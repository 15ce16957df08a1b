/*
 * The latest replays of an oracle. The best of a search is replayed for its rank and again when it is shown, mostly at the same
 * prices.
 */
#ifndef PDL_ORACLE_KEPT_REPLAYS_H
#define PDL_ORACLE_KEPT_REPLAYS_H

#include "oracle/project/passes.h"

/* What was replayed: all that the result depends on besides the parameters of the oracle. */
uint64_t pdl__replay_key(const pdl__pass_prices_t *prices, const pdl__replay_options_t *options);

/* False where it is not there. */
bool pdl__replay_find(const pdl__kept_replays_t *kept, uint64_t key, int stages, pdl__stage_replay_t *replays,
                      double *total_s);
/* *kept is made when it is NULL; without memory nothing is kept. */
void pdl__replay_keep(pdl__kept_replays_t **kept, uint64_t key, int stages, const pdl__stage_replay_t *replays,
                      double total_s);

#endif
