/*
 * What the files of the ensemble share.
 */
#ifndef PDL_TRAIN_ENSEMBLE_INSIDE_H
#define PDL_TRAIN_ENSEMBLE_INSIDE_H

#include "train/exec/weight_sets.h"
#include "train/rounds/agreement.h"
#include "train/rounds/ensemble.h"

/* One of the nets. */
typedef struct pdl__net {
    pdl_session_t        *session;
    pdl__weight_set_sum_t sum;
    pdl_batch_t           batch;
    float                *logits; /* [count][classes] of the step at hand */
    float                *mixed;  /* the batch's values, where pairs are mixed */
    float                *extra;  /* the session's: what is added to the gradient */
    double                scale;
} pdl__net_t;

struct pdl__ensemble {
    pdl__ensemble_spec_t spec;
    pdl_model_t         *model; /* one net's */
    pdl_plan_t          *plan;
    pdl__net_t          *net; /* [nets] */
    int                  nets;
    pdl_ranks_t         *ranks; /* those that take other clusters, with the same part of the nets */
    int64_t              workers, clusters, first, last; /* clusters of this rank: [first, last) */
    int64_t              batch, classes, steps;
    int64_t             *order; /* of the round: cluster c has the workers at c * nets, ... */
    double              *samples, *share;
    int                 *weight_set;
    double              *work;    /* nets + 1 rows of classes */
    int64_t             *partner; /* of every sample of a batch that is mixed */
    double               mix;     /* share of the sample itself; 1: not mixed */
    int64_t              round, updates;
    double               weight;  /* lambda */
    double               sums[5]; /* loss, accuracy, agreement, samples, nets' samples */
    bool                 stopped;
    bool                 judges; /* it has the losses of the nets: all of them, or their bodies */
};

/* ensemble_step.c: one batch of a worker by all nets; and without training. */
pdl_status_t pdl__ensemble_step(pdl__ensemble_t *ensemble, int64_t worker);
void         pdl__ensemble_look(void *net, const pdl_logits_t *logits);

#endif
