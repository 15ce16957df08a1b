/*
 * The workers of a run in rounds, with their samples: one network in turns (rounds.h), or an ensemble (ensemble.h).
 */
#ifndef PDL_TRAIN_TEAM_H
#define PDL_TRAIN_TEAM_H

#include "train/rounds/rounds.h"
#include "train/sampling/sampling.h"

typedef struct pdl__team pdl__team_t;

/* Collective, as all but the queries. `options` are borrowed; what a run of steps would give every rank of a batch,
   every worker gets here. `cycles` is set to how many make up the run, and `updates` to the updates of a worker in
   them. */
pdl_status_t pdl__team_create(const pdl_train_options_t *options, pdl__team_t **team);
void         pdl__team_destroy(pdl__team_t *team); /* NULL is allowed */

/* Length of the run, in which a round that was begun comes to its end: cycles, updates of a worker in each, and in all.
   */
void pdl__team_length(const pdl__team_t *team, int64_t *cycles, int64_t *updates, int64_t *total);
/* The session that stops the team, and whose memory is that of a device; of an ensemble the first net's. */
pdl_session_t *pdl__team_session(const pdl__team_t *team);

/* Begins a cycle with its round `skip`; *rounds is how many it has. */
pdl_status_t pdl__team_begin(pdl__team_t *team, int64_t cycle, int64_t skip, int64_t *rounds);
pdl_status_t pdl__team_run(pdl__team_t *team, pdl__round_result_t *result);
/* After its last round: samples are exchanged. */
pdl_status_t pdl__team_end(pdl__team_t *team, pdl_train_epoch_t *epoch);
pdl_status_t pdl__team_score(pdl__team_t *team, pdl_score_t *score);

/* At the end of `round` rounds of a cycle. Nets of an ensemble have folders of their own, net-0, net-1, ... */
pdl_status_t pdl__team_save(pdl__team_t *team, int64_t cycle, int64_t round, const double sums[3]);
/* *found: there was something to go on from. */
pdl_status_t pdl__team_restore(pdl__team_t *team, int64_t *cycle, int64_t *round, double sums[3], bool *found);

/* The times of steps and means, of all nets of an ensemble; the options have asked for them. */
pdl_status_t pdl__team_trace(const pdl__team_t *team);

/* One line on how the team is made up. */
void pdl__team_describe(const pdl__team_t *team, char *text, size_t size);

#endif
