/*
 * Training in rounds: every worker updates its own weights on its own samples, and the weights are averaged after a
 * round instead of gradients after every step.
 *
 *   local:K  K updates each, then the mean of all weights (local SGD; a whole local epoch with K = 0: FedAvg)
 *   sem      each model is trained on the samples of two workers, drawn anew every round, before the mean
 *   cadis    the mean gives equal weight to groups of workers with like updates, and local training is
 *            distilled from the common model
 *   feddct   instead of one wide network, workers train several narrow ones together, which agree by a common loss
 *
 * docs/aggregation.md has the rules.
 */
#ifndef PARADL_AGGREGATE_H
#define PARADL_AGGREGATE_H

#include <paradl/base/status.h>
#include <paradl/train/session.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pdl_aggregation {
    PDL_AGGREGATE_STEP, /* every step: ordinary data parallelism */
    PDL_AGGREGATE_LOCAL,
    PDL_AGGREGATE_SEM,
    PDL_AGGREGATE_CADIS,
    PDL_AGGREGATE_FEDDCT,
    PDL_AGGREGATE_COUNT
} pdl_aggregation_t;
extern const char *const pdl_aggregation_names[PDL_AGGREGATE_COUNT]; /* step local sem cadis feddct */

typedef struct pdl_aggregate_options {
    pdl_aggregation_t kind;
    int64_t           steps; /* local: updates of a round; 0: a local epoch */
    /* sem: local epochs before and after models are exchanged; feddct: the first, of each worker; others: the
       sum */
    int64_t  epochs[2];
    int64_t  hops;            /* sem: workers that train a model in a round; 2 is a pair */
    bool     keep_moments;    /* the optimizer's state survives the end of a round, and is sent along */
    bool     fixed_threshold; /* cadis: otherwise chosen from the similarities of each round */
    double   threshold, distill, temperature; /* cadis */
    int64_t  nets;                            /* feddct: S */
    double   agreement;                       /* feddct: weight of the common loss */
    int64_t  agreement_warmup;                /* rounds until it has that weight */
    double   mixup;                           /* feddct: alpha of the mixture of pairs of samples; 0: none */
    bool     published_warmup; /* the common loss stays at the first round's weight, as in the released program */
    uint64_t seed;
} pdl_aggregate_options_t;
/* Step; epochs 1 and 1, hops 2, moments reset; a threshold from the similarities, 1, 1; 4 nets, 0.5 after 40 rounds. */
void pdl_aggregate_defaults(pdl_aggregate_options_t *options);
/* "step", "local:8", "local" (an epoch), "sem", "cadis", "feddct". */
pdl_status_t pdl_aggregate_parse(const char *text, pdl_aggregate_options_t *options);
/* "auto", or a number. */
pdl_status_t pdl_aggregate_parse_threshold(const char *text, pdl_aggregate_options_t *options);
/* PDL_ERR_INPUT names the option that is wrong and its range. */
pdl_status_t pdl_aggregate_check(const pdl_aggregate_options_t *options);

/* What the mean of a round was made of. Arrays belong to the run, and hold until its next round. */
typedef struct pdl_mean_parts {
    int64_t        workers;
    const double  *share;         /* [workers] of the mean */
    int64_t        clusters;      /* cadis; otherwise 0, and the rest has no meaning */
    const int64_t *cluster;       /* [workers]: 0 .. clusters - 1 */
    double         similarity[3]; /* least, median and most of all pairs of workers */
    double         threshold;     /* above which two are of one cluster */
    double         trust;         /* mean weight of what the common model said, as a share of `distill` */
} pdl_mean_parts_t;

#ifdef __cplusplus
}
#endif
#endif
