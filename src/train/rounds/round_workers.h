/*
 * The workers of a run in rounds, with their samples and checkpoints. The workers of a rank train one network in turn
 * (rounds.h), or the nets of an ensemble (ensemble.h).
 */
#ifndef PDL_TRAIN_ROUND_WORKERS_H
#define PDL_TRAIN_ROUND_WORKERS_H

#include "train/rounds/rounds.h"
#include "train/sampling/sampling.h"

typedef struct pdl__round_workers pdl__round_workers_t;

/* Collective, as all but the queries. `options` are borrowed. The batch is shared by the workers, where a run of steps
   shares it by the ranks. */
pdl_status_t pdl__round_workers_create(const pdl_train_options_t *options, pdl__round_workers_t **workers);
void         pdl__round_workers_destroy(pdl__round_workers_t *workers); /* NULL is allowed */

/* Length of the run in whole rounds: cycles, updates of a worker in each, and in all. */
void pdl__round_workers_length(const pdl__round_workers_t *workers, int64_t *cycles, int64_t *updates,
                               int64_t *total);
/* The session that counts updates and receives signals; of an ensemble the first net's. */
pdl_session_t *pdl__round_workers_session(const pdl__round_workers_t *workers);

/* Begins a cycle with its round `skip`; *rounds is how many it has. */
pdl_status_t pdl__round_workers_begin(pdl__round_workers_t *workers, int64_t cycle, int64_t skip, int64_t *rounds);
pdl_status_t pdl__round_workers_run(pdl__round_workers_t *workers, pdl__round_result_t *result);
/* After the last round of a cycle: samples are exchanged. */
pdl_status_t pdl__round_workers_end(pdl__round_workers_t *workers, pdl_train_epoch_t *epoch);
pdl_status_t pdl__round_workers_score(pdl__round_workers_t *workers, pdl_score_t *score);

/* At the end of `round` rounds of a cycle. Nets of an ensemble have folders of their own, net-0, net-1, ... */
pdl_status_t pdl__round_workers_save(pdl__round_workers_t *workers, int64_t cycle, int64_t round,
                                     const double sums[3]);
/* *found: there was a checkpoint. */
pdl_status_t pdl__round_workers_restore(pdl__round_workers_t *workers, int64_t *cycle, int64_t *round,
                                        double sums[3], bool *found);

/* Writes the trace that the options ask for; of an ensemble with all nets. */
pdl_status_t pdl__round_workers_trace(const pdl__round_workers_t *workers);

/* One line on workers, batches and rounds. */
pdl_status_t pdl__round_workers_describe(const pdl__round_workers_t *workers, char *text, size_t size);

#endif
