/*
 * Rounds of periodic averaging: every worker starts from the common weights, trains on samples of its own, and the
 * results become the new common weights. Workers of one rank take turns in one session, each with its set of
 * weights.
 *
 *     pdl__rounds_create(&spec, &rounds);
 *     for (cycle ...) {                                  // an epoch of the shuffle: who has which samples
 *         pdl__rounds_begin(rounds, samples, &plan);     // of each of this rank's workers
 *         for (r = 0; r < plan.rounds; r++) pdl__rounds_run(rounds, &result);
 *     }
 *
 * Between rounds the session holds the common weights: it can be evaluated and saved. All functions are collective
 * over the ranks of the session, except that training itself waits for nobody.
 *
 * Batches are asked for in a fixed order: for every local epoch, for every piece of `segment` steps of it, for
 * every worker of this rank, for every step of the piece.
 */
#ifndef PDL_TRAIN_ROUNDS_H
#define PDL_TRAIN_ROUNDS_H

#include <paradl/train/aggregate.h>
#include <paradl/train/session.h>

/* The next batch of a worker of this rank (0 .. its number): as many samples as the session takes. */
typedef pdl_status_t (*pdl__next_fn_t)(void *context, int64_t worker, pdl_batch_t *batch);

typedef struct pdl__rounds_spec {
    pdl_aggregate_options_t options; /* local, sem or cadis */
    /* Borrowed. `separate`, with a batch of that of one worker times the data-parallel ranks, and without EMA. */
    pdl_session_t *session;
    int64_t        workers; /* over all ranks, which have as many each, give or take one, in order */
    pdl__next_fn_t next;
    void          *next_context;
    /* After every update of one of this rank's workers, counted over all ranks; may be NULL. */
    void (*on_step)(void *context, int64_t worker, const pdl_step_result_t *result);
    void *step_context;
} pdl__rounds_spec_t;

/* What a cycle is made of. */
typedef struct pdl__rounds_plan {
    int64_t
        steps; /* of a local epoch: the most that any worker needs; others begin again with their first samples */
    int64_t epochs;  /* local epochs of the cycle */
    int64_t segment; /* steps of a worker between two turns */
    int64_t rounds;  /* of the cycle */
} pdl__rounds_plan_t;

/* Over all workers. */
typedef struct pdl__round_result {
    int64_t          round;                      /* 0, 1, ... */
    int64_t          updates;                    /* of each worker */
    double           loss, accuracy, samples;    /* of training: means, and how many samples were trained on */
    double           train_s, exchange_s, bytes; /* this rank: in training; in moving and averaging; sent */
    pdl_mean_parts_t mean;                       /* of a round that counts; an ensemble has none: no workers */
    bool stop; /* a rank was asked to stop: the round does not count, and the weights are those before it */
} pdl__round_result_t;

typedef struct pdl__rounds pdl__rounds_t;

pdl_status_t pdl__rounds_create(const pdl__rounds_spec_t *spec, pdl__rounds_t **rounds);
void         pdl__rounds_destroy(pdl__rounds_t *rounds); /* NULL is allowed; before the session */
/* The workers of this rank: [first, first + count). */
void pdl__rounds_workers(const pdl__rounds_t *rounds, int64_t *first, int64_t *count);

/* Begins a cycle; samples[i]: how many the i-th worker of this rank has. */
pdl_status_t pdl__rounds_begin(pdl__rounds_t *rounds, const int64_t *samples, pdl__rounds_plan_t *plan);
/* What a cycle is made of when a worker has at most so many samples; needs no rounds. */
void         pdl__rounds_plan(const pdl_aggregate_options_t *options, int64_t samples, int64_t batch,
                              pdl__rounds_plan_t *plan);
pdl_status_t pdl__rounds_run(pdl__rounds_t *rounds, pdl__round_result_t *result);

/* What has to be kept between rounds besides the session: *count numbers, the rounds'. Restoring comes after the
   session was restored, and refuses numbers of other workers. */
const double *pdl__rounds_state(pdl__rounds_t *rounds, int64_t *count);
pdl_status_t  pdl__rounds_restore(pdl__rounds_t *rounds, const double *numbers, int64_t count);
/* After pdl__rounds_begin(): goes on with the cycle's round of this number. */
void pdl__rounds_skip(pdl__rounds_t *rounds, int64_t round);

#endif
