/*
 * Who trains on which samples: every worker on its share of one permutation of all samples (global), on a partition
 * of its own (local), or on a partition of which a fraction changes hands every epoch (partial, paired).
 *
 * A worker is one of M parts of every batch. Ranks hold the same number of workers each, give or take one, in
 * order; with one rank all of them are here, and the numbers are those of M ranks.
 *
 *     pdl_shuffle_create(&spec, &shuffle);
 *     for (epoch ...) {
 *         pdl_shuffle_begin(shuffle, epoch, &epoch_input, &steps);   // decides the order and what is exchanged
 *         for (step ...) {
 *             ... train on pdl_shuffle_order(shuffle, epoch, step, count, indices) ...
 *             pdl_shuffle_step(shuffle, step);                        // posts a slice of the exchange, never waits
 *         }
 *         pdl_shuffle_end(shuffle);                                   // waits, and makes the new partition the valid one
 *     }
 *
 * Destinations follow from the seed on every rank, so the exchange needs no agreement. A sample leaves its old place
 * only after it has arrived at the new one; until pdl_shuffle_end() returns, the partition at the epoch's start is
 * what counts, also for a checkpoint.
 */
#ifndef PARADL_SHUFFLE_H
#define PARADL_SHUFFLE_H

#include <paradl/base/status.h>
#include <paradl/comm/ranks.h>
#include <paradl/data/store.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_shuffle_kind {
    PDL_SHUFFLE_GLOBAL,
    PDL_SHUFFLE_LOCAL,
    PDL_SHUFFLE_PARTIAL,
    PDL_SHUFFLE_PAIRED,
    PDL_SHUFFLE_COUNT
} pdl_shuffle_kind_t;
extern const char *const pdl_shuffle_names[PDL_SHUFFLE_COUNT]; /* global local partial paired */

/* How the destinations of a slot are drawn: each is a bijection of the workers. */
typedef enum pdl_destination {
    PDL_DESTINATION_FISHER_YATES,
    PDL_DESTINATION_FEISTEL,
    PDL_DESTINATION_SHIFT,
    PDL_DESTINATION_COUNT
} pdl_destination_t;
extern const char *const pdl_destination_names[PDL_DESTINATION_COUNT]; /* fisher-yates feistel shift */

/* The first partition: drawn; sorted by class, so that every worker has few classes; or sorted and cut into twice as
   many shards as there are workers, of which each draws two (McMahan et al. 2017). */
typedef enum pdl_sample_partition {
    PDL_PARTITION_RANDOM,
    PDL_PARTITION_SORTED,
    PDL_PARTITION_SHARDS,
    PDL_PARTITION_COUNT
} pdl_sample_partition_t;
extern const char *const pdl_partition_names[PDL_PARTITION_COUNT]; /* random sorted shards */

/* Paired: what makes a worker important, and which samples are exchanged. */
typedef enum pdl_pair_score {
    PDL_SCORE_MEAN,
    PDL_SCORE_MAX,
    PDL_SCORE_KTH,
    PDL_SCORE_SUM,
    PDL_SCORE_COUNT
} pdl_pair_score_t;
extern const char *const pdl_pair_score_names[PDL_SCORE_COUNT]; /* mean max kth sum */
typedef enum pdl_pair_samples {
    PDL_PAIR_EXTREMES, /* the higher sends its highest losses, the lower its lowest */
    PDL_PAIR_RANDOM,
    PDL_PAIR_TOP, /* the higher sends its highest losses, the lower any */
    PDL_PAIR_COUNT
} pdl_pair_samples_t;
extern const char *const pdl_pair_samples_names[PDL_PAIR_COUNT]; /* extremes random top */

typedef struct pdl_shuffle_options {
    pdl_shuffle_kind_t     kind;
    double                 fraction; /* Q of partial and paired, 0 .. 1 */
    pdl_destination_t      destination;
    pdl_sample_partition_t partition;
    pdl_pair_score_t       score;
    pdl_pair_samples_t     pair_samples;
    int                    random_every; /* paired: every so many epochs a random matching instead; 0: never */
    uint64_t               seed;
} pdl_shuffle_options_t;
/* Global, Fisher and Yates, random partition, mean, extremes, a random matching every 4 epochs, seed 1. */
void pdl_shuffle_defaults(pdl_shuffle_options_t *options);
/* "global", "local", "partial:0.1", "paired:0.1" into kind and fraction. The message says what is wrong. */
pdl_status_t pdl_shuffle_parse(const char *text, pdl_shuffle_options_t *options);

typedef struct pdl_shuffle_spec {
    pdl_shuffle_options_t options;
    int64_t               samples; /* N */
    int64_t               workers; /* M, over all ranks */
    int64_t               batch;   /* of one worker and step; not used by global */
    /* Global: the batch of all ranks, and where this rank's part of it begins; parts need not be equal. */
    int64_t whole_batch, first;
    bool    keep_rest; /* global: a last batch that is not full is filled up from the start instead of dropped */
    /* Classes of all samples, for a sorted partition and the label imbalance; may be NULL otherwise. Borrowed. */
    const int32_t *labels;
    int64_t        classes;
    pdl_store_t   *store; /* holds the samples of this rank's workers; NULL: every rank can read all samples */
    pdl_ranks_t   *ranks; /* those that have different samples, borrowed */
} pdl_shuffle_spec_t;

typedef struct pdl_shuffle pdl_shuffle_t;

/* Collective. Loads the store with this rank's partitions. Refused: fewer samples than workers, Q outside 0 .. 1. */
pdl_status_t pdl_shuffle_create(const pdl_shuffle_spec_t *spec, pdl_shuffle_t **shuffle);
/* Collective; NULL is allowed. An exchange under way comes to its end, but is not committed. */
void pdl_shuffle_destroy(pdl_shuffle_t *shuffle);

/* The workers of this rank: [first, first + count). */
void pdl_shuffle_workers(const pdl_shuffle_t *shuffle, int64_t *first, int64_t *count);
/* The samples of one of them, in the order of the epoch at hand (of no meaning before the first); not for global. */
const int64_t *pdl_shuffle_partition(const pdl_shuffle_t *shuffle, int64_t worker, int64_t *count);

/* What an epoch depends on besides the partition. */
typedef struct pdl_shuffle_epoch {
    const float    *loss; /* [samples], lagging: for paired; known for the samples of this rank at least. Those that
                               are not finite are unknown and count as highest; NULL: pairs and samples are drawn */
    const uint64_t *hidden; /* bit i: sample i is not trained on in this epoch; NULL: none is */
    const int64_t  *drawn;  /* global: trains on these, in this order, instead of a permutation; or NULL */
    int64_t         drawn_count;
} pdl_shuffle_epoch_t;

/* Collective. Steps of the epoch: the most that any worker needs; the others begin again with their first samples. */
pdl_status_t pdl_shuffle_begin(pdl_shuffle_t *shuffle, int64_t epoch, const pdl_shuffle_epoch_t *input,
                               int64_t *steps);
/* A pdl_order_fn_t: the samples of all workers of this rank, `batch` of one after those of the other. Of the epoch that
   was begun last. May be called from another thread than the rest, between begin and end. */
pdl_status_t pdl_shuffle_order(void *shuffle, int64_t epoch, int64_t step, int64_t count, int64_t *indices);
/* The samples that this rank's workers have hidden in this epoch, for the refresh: a share of all hidden samples, each
   on one rank. Valid until the next begin; a store has them until the end, which may have sent them away. */
const int64_t *pdl_shuffle_hidden(const pdl_shuffle_t *shuffle, int64_t *count);
/* Posts slice `step` of the exchange and looks after earlier ones; steps may be skipped (resume). */
pdl_status_t pdl_shuffle_step(pdl_shuffle_t *shuffle, int64_t step);
/* Collective. Completes the exchange and commits it. With `check` every invariant is looked at: all samples are there
   once, partitions have their size, as many were sent as received, and the store's bound held. */
pdl_status_t pdl_shuffle_end(pdl_shuffle_t *shuffle, bool check);

/* Of the epoch that ended last; sums over all ranks unless it says otherwise. */
typedef struct pdl_shuffle_report {
    int64_t sent, skipped;              /* samples that changed hands; that were to stay with the same worker */
    double  bytes;                      /* between ranks */
    double  exchange_s;                 /* this rank: time in pdl_shuffle_step and _end */
    int64_t stored_most;                /* this rank: most samples held at once by a worker */
    double  score_mean, score_variance; /* paired: over workers, at the start of the epoch */
    double  partners;                   /* distinct workers that a worker has received from so far, mean */
    double  imbalance; /* largest total-variation distance between a worker's labels and all; -1: unknown */
    double  seen;      /* expected share of all samples that a worker has had so far */
} pdl_shuffle_report_t;
void pdl_shuffle_report(const pdl_shuffle_t *shuffle, pdl_shuffle_report_t *report);

/* Collective. The state of all workers as numbers, the same on every rank: for a checkpoint. Inside an epoch it is the
   epoch's beginning, and the exchange starts over. *count numbers are written to *numbers, to be freed. */
pdl_status_t pdl_shuffle_save(pdl_shuffle_t *shuffle, int64_t **numbers, int64_t *count);
/* Collective, before the first begin; the number of ranks may have changed. With `inside` the next begin is of the epoch
   that was at hand, and repeats its decisions instead of making new ones, whatever the losses are now; hidden and drawn
   samples are given to it again. Numbers of other samples, workers or options are refused. */
pdl_status_t pdl_shuffle_restore(pdl_shuffle_t *shuffle, const int64_t *numbers, int64_t count, bool inside);

/* Where worker `worker` sends the sample of slot `slot` in epoch `epoch`, and whom it receives one from. */
int64_t pdl_shuffle_target(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                           int64_t worker);
int64_t pdl_shuffle_origin(const pdl_shuffle_options_t *options, int64_t workers, int64_t epoch, int64_t slot,
                           int64_t worker);

#ifdef __cplusplus
}
#endif
#endif
