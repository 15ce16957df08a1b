/*
 * What the files of rounds share.
 */
#ifndef PDL_TRAIN_ROUNDS_INSIDE_H
#define PDL_TRAIN_ROUNDS_INSIDE_H

#include "train/exec/weight_sets.h"
#include "train/rounds/rounds.h"
#include "train/rounds/worker_groups.h"

/* Models exchanged between ranks: one message for each array of a weight set. */
typedef struct pdl__model_exchange {
    int          slots; /* most models that a rank receives, and sends, at once */
    pdl_wire_t **wire;
    int         *spare; /* [slots] weight sets that hold no model, then [slots] those being sent */
} pdl__model_exchange_t;

/* Workers with like updates, and the distillation from the common weights. */
typedef struct pdl__cadis {
    int             weight, bias; /* tensors of the session: the last linear layer; bias -1: it has none */
    int64_t         classes, features;
    float          *change;     /* [workers][classes * features weights, then biases] */
    float          *common;     /* the layer before the round */
    double         *state;      /* rounds seen, then a pdl__overlap_t of each pair [workers][workers] */
    double         *similarity; /* [workers][workers], of the rounds so far */
    bool            teaches;    /* the hook sees the logits of the common weights */
    bool            distills;   /* in this round */
    float          *teacher;    /* [count][logits] */
    double          trust[2];   /* sum over samples of the weight of the common model; samples */
    double         *work;       /* two rows: of logits, or of workers */
    double         *pairs;      /* similarities in order */
    pdl_logits_fn_t before;     /* a hook that was there already */
    void           *before_context;
} pdl__cadis_t;

struct pdl__rounds {
    pdl__rounds_spec_t    spec;
    pdl_session_t        *session;
    pdl_ranks_t          *ranks; /* those with other workers; the session's */
    int64_t               workers, first, count, batch;
    pdl__rounds_plan_t    plan;
    double               *samples;    /* [workers] */
    double               *share;      /* [workers] of the mean */
    int64_t              *cluster;    /* [workers] */
    int                  *weight_set; /* [count]: the set with the model that is at a worker */
    int                  *before;     /* the same before models are exchanged */
    double               *local;      /* [count]: shares of these */
    int64_t               round, in_cycle, updates;
    double                state[1]; /* rounds seen, where there is nothing else to keep */
    pdl__worker_groups_t  groups;
    pdl__model_exchange_t exchange;
    pdl__cadis_t          cadis;
    pdl__weight_set_sum_t sum;     /* of the common weights, over the ranks */
    double                sums[4]; /* loss, accuracy, samples, seconds of exchanges */
    double                bytes;   /* sent by exchanges of models */
    bool                  stopped;
};

#define PDL__COMMON_SET 0

/* model_exchange.c */
pdl_status_t pdl__model_exchange_create(pdl__rounds_t *rounds, int first_spare);
void         pdl__model_exchange_destroy(pdl__rounds_t *rounds);
int          pdl__model_exchange_spares(const pdl_aggregate_options_t *options, int ranks);
/* Sends every model to the next worker of its group. */
pdl_status_t pdl__model_exchange_run(pdl__rounds_t *rounds);

/* cadis.c */
pdl_status_t pdl__cadis_create(pdl__rounds_t *rounds);
void         pdl__cadis_destroy(pdl__rounds_t *rounds);
/* The logits of the common weights for a batch, before the worker's step. */
pdl_status_t pdl__cadis_teach(pdl__rounds_t *rounds, const pdl_batch_t *batch, int set);
/* How many numbers are kept between rounds. */
int64_t pdl__cadis_numbers(const pdl__rounds_t *rounds);
/* Clusters from the models as they are, and the shares of the workers. */
pdl_status_t pdl__cadis_shares(pdl__rounds_t *rounds, pdl_mean_parts_t *mean);

#endif
