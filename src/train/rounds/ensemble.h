/*
 * FedDCT: instead of one wide network, S narrow ones that are trained together. In a round the workers are drawn
 * into clusters of S; in each, every worker's samples are trained on in turn by all S nets, each on a view of its
 * own of the same samples, with the loss sum of cross-entropies + lambda JS(their outputs). Then every net is
 * averaged over the clusters. What the ensemble says is the mean of the logits.
 *
 *     pdl__ensemble_create(&spec, &ensemble);
 *     for (round ...) {
 *         pdl__ensemble_begin(ensemble, samples);        // of every worker
 *         pdl__ensemble_run(ensemble, &result);
 *     }
 *     pdl__ensemble_score(ensemble, valid, ...);
 *
 * All nets of a cluster are computed by one rank; or, in a plan of two stages, their stems by one rank, which has the samples, and
 * their bodies by another. Groups of ranks share the clusters. Functions are collective, except that groups train without
 * waiting for each other.
 */
#ifndef PDL_TRAIN_ENSEMBLE_H
#define PDL_TRAIN_ENSEMBLE_H

#include <paradl/train/aggregate.h>
#include <paradl/train/train.h>

/* Where batches come from: a turn of a worker (of all ranks') is opened, then every net gets its batches in order.
   */
typedef struct pdl__views {
    pdl_status_t (*open)(void *context, int64_t worker, int64_t epoch);
    pdl_status_t (*next)(void *context, int net, pdl_batch_t *batch);
    void *context;
} pdl__views_t;

typedef struct pdl__ensemble_spec {
    pdl_aggregate_options_t options;
    /* Of the whole network: a plan of data axes, whose batch is that of one worker times the ranks. */
    pdl_session_spec_t session;
    int64_t            workers;
    pdl__views_t       views;
} pdl__ensemble_spec_t;

typedef struct pdl__ensemble_result {
    int64_t round, updates;
    double  loss;      /* cross-entropy, mean of samples and nets */
    double  accuracy;  /* of the mean of the logits */
    double  agreement; /* JS, mean of samples */
    double  weight;    /* lambda of the round */
    double  samples;
    double  train_s, exchange_s;
    bool    stop; /* as of rounds */
} pdl__ensemble_result_t;

typedef struct pdl__ensemble pdl__ensemble_t;

pdl_status_t pdl__ensemble_create(const pdl__ensemble_spec_t *spec, pdl__ensemble_t **ensemble);
void         pdl__ensemble_destroy(pdl__ensemble_t *ensemble); /* NULL is allowed */
/* Net i, with the common weights: to be saved, restored and asked to stop. */
pdl_session_t *pdl__ensemble_net(const pdl__ensemble_t *ensemble, int i);

/* samples[w]: how many worker w of all ranks has. *steps: of a turn. */
pdl_status_t pdl__ensemble_begin(pdl__ensemble_t *ensemble, const int64_t *samples, int64_t *steps);
pdl_status_t pdl__ensemble_run(pdl__ensemble_t *ensemble, pdl__ensemble_result_t *result);
/* Goes on after so many rounds, the nets having been restored. */
void pdl__ensemble_restore(pdl__ensemble_t *ensemble, int64_t rounds);

/* The mean of the logits on this rank's part of a batch; results of all ranks. */
pdl_status_t pdl__ensemble_evaluate(pdl__ensemble_t *ensemble, const pdl_batch_t *batch, pdl_step_result_t *result);
/* All samples of a source. */
pdl_status_t pdl__ensemble_score(pdl__ensemble_t *ensemble, pdl_source_t *source, int loader_threads,
                                 bool normalise, pdl_score_t *score);

/* lambda of a round. */
double pdl__ensemble_weight(const pdl_aggregate_options_t *options, int64_t round);

/* What a device would hold and send, were every net on one of its own. */
typedef struct pdl__ensemble_report {
    int64_t              whole_weights, net_weights; /* parameters */
    pdl_session_memory_t net;                        /* of one device */
    const char          *cut;                        /* the last layer of the stem */
    double
        cut_bytes; /* activations there and gradients back, per step, of the nets that are not at the main worker */
    double logit_bytes; /* S outputs to all, per step */
    /* Where stems and bodies are on two ranks: what each of these holds for all nets, and what both send in a step; else 0. */
    double stem_bytes, body_bytes, sent_bytes;
} pdl__ensemble_report_t;
pdl_status_t pdl__ensemble_report(const pdl__ensemble_t *ensemble, pdl__ensemble_report_t *report);

#endif
