/*
 * Options of `paradl train` that say which samples are trained on, by whom, and when workers come together. They are
 * a part of its values, and PDL__SAMPLING_OPTIONS of its table.
 */
#ifndef PDL_CLI_SAMPLING_OPTIONS_H
#define PDL_CLI_SAMPLING_OPTIONS_H

#include "cli/options.h"

#include <paradl/train/train.h>

typedef struct pdl__sampling_values {
    const char *shuffle, *store, *hide_without, *hide_milestones, *hide_factors, *aggregate, *cluster_threshold;
    int64_t workers, random_match_every, refresh_every, local_epochs, second_epochs, hops, nets, agreement_warmup;
    double  hide, hide_threshold, hide_trim, hide_beta, hide_until, distill, temperature, agreement, mixup;
    int     destination, partition, pair_score, pair_travel, hide_method, hide_scope, hide_confidence, hide_rate,
        refresh_mode, statistics;
    bool check_samples, keep_moments, published_warmup;
} pdl__sampling_values_t;

extern const char *const pdl__confidence_names[], *const pdl__hide_rate_names[], *const pdl__refresh_names[],
                                                                                     *const pdl__statistics_names[];

/* Entries of an option table whose values have a pdl__sampling_values_t called `sampling`. */
#define PDL__SAMPLING_OPTIONS(values)                                                                              \
    {"workers", "M", NULL,                                                                                         \
     "that share every batch, with samples and batch-norm statistics of their own; else one a "                    \
     "rank",                                                                                                       \
     PDL__INT(values, sampling.workers, 1)},                                                                       \
        {"shuffle", "HOW", "global",                                                                               \
         "who trains on what: global, local, partial:Q or paired:Q, where the fraction Q of a "                    \
         "worker's samples changes hands every epoch",                                                             \
         PDL__TEXT(values, sampling.shuffle)},                                                                     \
        {"partition", "HOW", "random",                                                                             \
         "the first partition: drawn, sorted by class, or two shards of that a worker",                            \
         PDL__CHOICE(values, sampling.partition, pdl_partition_names, PDL_PARTITION_COUNT)},                       \
        {"destination", "HOW", "fisher-yates", "how destinations of --shuffle partial are drawn",                  \
         PDL__CHOICE(values, sampling.destination, pdl_destination_names, PDL_DESTINATION_COUNT)},                 \
        {"pair-score", "HOW", "mean", "of a worker's losses, by which --shuffle paired makes pairs",               \
         PDL__CHOICE(values, sampling.pair_score, pdl_pair_score_names, PDL_SCORE_COUNT)},                         \
        {"pair-travel", "WHICH", "extremes", "samples that travel in a pair",                                      \
         PDL__CHOICE(values, sampling.pair_travel, pdl_pair_travel_names, PDL_TRAVEL_COUNT)},                      \
        {"random-match-every", "E", "4", "epochs after which pairs are drawn instead; 0: never",                   \
         PDL__INT(values, sampling.random_match_every, 0)},                                                        \
        {"store", "WHERE", NULL,                                                                                   \
         "of a rank's own samples: none, memory or a folder; else memory where ranks exchange "                    \
         "samples",                                                                                                \
         PDL__TEXT(values, sampling.store)},                                                                       \
        {"check-samples", NULL, NULL, "looks at every epoch's end whether each sample is there once",              \
         PDL__FLAG(values, sampling.check_samples)},                                                               \
        {"hide", "F", NULL, "hides up to this part of the samples, those that no longer teach",                    \
         PDL__QUANTITY(values, sampling.hide, PDL_UNIT_NONE)},                                                     \
        {"hide-method", "NAME", "none",                                                                            \
         "what is hidden: loss (KAKURENBO, with --hide the default), random, importance, "                         \
         "selective or unbiased",                                                                                  \
         PDL__CHOICE(values, sampling.hide_method, pdl_hide_method_names, PDL_HIDE_METHOD_COUNT)},                 \
        {"hide-without", "LIST", NULL, "components left out: lowest, move-back, reduce, rate",                     \
         PDL__TEXT(values, sampling.hide_without)},                                                                \
        {"hide-threshold", "X", "0.7", "confidence below which a sample is not hidden",                            \
         PDL__QUANTITY(values, sampling.hide_threshold, PDL_UNIT_NONE)},                                           \
        {"hide-milestones", "E,...", NULL,                                                                         \
         "epochs at which less is hidden; else at 3/10, 6/10 and 8/10 of the run",                                 \
         PDL__TEXT(values, sampling.hide_milestones)},                                                             \
        {"hide-factors", "X,...", NULL, "of F before, between and after them; else 1,0.8,0.6,0.4",                 \
         PDL__TEXT(values, sampling.hide_factors)},                                                                \
        {"hide-scope", "WHICH", "global", "chooses among all samples, or by worker (local)",                       \
         PDL__CHOICE(values, sampling.hide_scope, pdl_hide_scope_names, PDL_HIDE_SCOPE_COUNT)},                    \
        {"hide-confidence", "HOW", "class",                                                                        \
         "softmax over classes, or over the batch as the published program has it",                                \
         PDL__CHOICE(values, sampling.hide_confidence, pdl__confidence_names, 2)},                                 \
        {"hide-rate", "FROM", "hidden", "the rate makes up for what was hidden, or for the most that may be",      \
         PDL__CHOICE(values, sampling.hide_rate, pdl__hide_rate_names, 2)},                                        \
        {"hide-trim", "X", "0", "also hides this part with the highest losses",                                    \
         PDL__QUANTITY(values, sampling.hide_trim, PDL_UNIT_NONE)},                                                \
        {"hide-beta", "X", "1", "of --hide-method selective",                                                      \
         PDL__QUANTITY(values, sampling.hide_beta, PDL_UNIT_NONE)},                                                \
        {"hide-until", "X", "0.875", "part of the run in which --hide-method unbiased hides",                      \
         PDL__QUANTITY(values, sampling.hide_until, PDL_UNIT_NONE)},                                               \
        {"refresh-every", "E", "-1",                                                                               \
         "epochs between forward passes over hidden samples; 0: never, -1: as the method has it",                  \
         PDL__INT(values, sampling.refresh_every, -1)},                                                            \
        {"refresh-mode", "NAME", "evaluation", "batch norm and dropout in that pass",                              \
         PDL__CHOICE(values, sampling.refresh_mode, pdl__refresh_names, 2)},                                       \
        {"statistics", "WHICH", "mean",                                                                            \
         "of workers' batch norms, with which validation runs: their mean or the first's",                         \
         PDL__CHOICE(values, sampling.statistics, pdl__statistics_names, 2)},                                      \
        {"aggregate", "WHEN", "step",                                                                              \
         "workers come together after every step, or: local:K, local (an epoch), sem, cadis, "                     \
         "feddct",                                                                                                 \
         PDL__TEXT(values, sampling.aggregate)},                                                                   \
        {"local-epochs", "E", "1", "of a round, before models change places in sem",                               \
         PDL__INT(values, sampling.local_epochs, 1)},                                                              \
        {"second-epochs", "E", "1", "of a round of sem, after that", PDL__INT(values, sampling.second_epochs, 0)}, \
        {"hops", "N", "2", "workers that a model visits in a round of sem", PDL__INT(values, sampling.hops, 2)},   \
        {"keep-moments", NULL, NULL, "the optimizer's state survives the end of a round",                          \
         PDL__FLAG(values, sampling.keep_moments)},                                                                \
        {"cluster-threshold", "X", "auto",                                                                         \
         "of cadis: similarity above which workers are of one cluster, -1 to 1; auto: the widest gap",             \
         PDL__TEXT(values, sampling.cluster_threshold)},                                                           \
        {"distill", "X", "1",                                                                                      \
         "of cadis: weight of what the common model says, as far as it beats the worker's own",                    \
         PDL__QUANTITY(values, sampling.distill, PDL_UNIT_NONE)},                                                  \
        {"temperature", "X", "1", "of it", PDL__QUANTITY(values, sampling.temperature, PDL_UNIT_NONE)},            \
        {"nets", "S", "4", "of feddct: narrow networks in place of the wide one",                                  \
         PDL__INT(values, sampling.nets, 1)},                                                                      \
        {"agreement", "X", "0.5", "of feddct: weight of their common loss",                                        \
         PDL__QUANTITY(values, sampling.agreement, PDL_UNIT_NONE)},                                                \
        {"agreement-warmup", "N", "40", "rounds until it has that weight",                                         \
         PDL__INT(values, sampling.agreement_warmup, 0)},                                                          \
        {"mixup", "X", "0", "of feddct: alpha of mixing pairs of samples; 0: none",                                \
         PDL__QUANTITY(values, sampling.mixup, PDL_UNIT_NONE)},                                                    \
    {                                                                                                              \
        "published-warmup", NULL, NULL, "it keeps the first round's weight, as in the released program",           \
            PDL__FLAG(values, sampling.published_warmup)                                                           \
    }

pdl_status_t pdl__sampling_options_from(const pdl__sampling_values_t *values, uint64_t seed,
                                        pdl_train_options_t *options);

#endif
