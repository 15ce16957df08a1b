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
    int     destination, partition, pair_score, pair_samples, hide_method, hide_scope, hide_confidence, hide_rate,
        refresh_mode, statistics;
    bool check_samples, keep_moments, published_warmup;
} pdl__sampling_values_t;

extern const char *const pdl__confidence_names[], *const pdl__hide_rate_names[], *const pdl__refresh_names[],
                                                                                     *const pdl__statistics_names[];

/* Entries of an option table whose values have a pdl__sampling_values_t called `sampling`. */
#define PDL__SAMPLING_OPTIONS(values)                                                                              \
    {"shuffle",                                                                                                    \
     "HOW",                                                                                                        \
     "global",                                                                                                     \
     "who trains on which samples: global, local, partial:Q or paired:Q, where workers exchange the fraction Q "   \
     "of their samples every epoch",                                                                               \
     PDL__TEXT(values, sampling.shuffle),                                                                          \
     .first = true,                                                                                                \
     .group = "Data policy (shuffling and hiding of samples)"},                                                    \
        {"workers", "M", NULL,                                                                                     \
         "workers that share every batch, each with its own samples and batch-norm statistics; else one per rank", \
         PDL__INT(values, sampling.workers, 1)},                                                                   \
        {"partition", "HOW", "random",                                                                             \
         "first partition of the samples: random, sorted by class, or two shards of the sorted samples per "       \
         "worker",                                                                                                 \
         PDL__CHOICE(values, sampling.partition, pdl_partition_names, PDL_PARTITION_COUNT)},                       \
        {"destination", "HOW", "fisher-yates", "permutation that draws the destinations of --shuffle partial",     \
         PDL__CHOICE(values, sampling.destination, pdl_destination_names, PDL_DESTINATION_COUNT)},                 \
        {"pair-score", "HOW", "mean", "score of a worker's losses by which --shuffle paired makes pairs",          \
         PDL__CHOICE(values, sampling.pair_score, pdl_pair_score_names, PDL_SCORE_COUNT)},                         \
        {"pair-samples", "WHICH", "extremes", "samples that a pair exchanges",                                     \
         PDL__CHOICE(values, sampling.pair_samples, pdl_pair_samples_names, PDL_PAIR_COUNT)},                      \
        {"random-match-every", "E", "4", "epochs between random pairings; 0: never",                               \
         PDL__INT(values, sampling.random_match_every, 0)},                                                        \
        {"store", "WHERE", NULL,                                                                                   \
         "where a rank keeps its own samples: none, memory or a folder; else memory where ranks exchange samples", \
         PDL__TEXT(values, sampling.store)},                                                                       \
        {"check-samples", NULL, NULL, "checks at the end of every epoch that each sample exists exactly once",     \
         PDL__FLAG(values, sampling.check_samples)},                                                               \
        {"hide",                                                                                                   \
         "F",                                                                                                      \
         NULL,                                                                                                     \
         "hides up to this fraction of the samples, those that no longer teach",                                   \
         PDL__QUANTITY(values, sampling.hide, PDL_UNIT_NONE),                                                      \
         .first = true},                                                                                           \
        {"hide-method", "NAME", "none",                                                                            \
         "how hidden samples are chosen: loss (KAKURENBO, with --hide the default), random, importance, "          \
         "selective or unbiased",                                                                                  \
         PDL__CHOICE(values, sampling.hide_method, pdl_hide_method_names, PDL_HIDE_METHOD_COUNT)},                 \
        {"hide-without", "LIST", NULL, "components that are switched off: lowest, move-back, reduce, rate",        \
         PDL__TEXT(values, sampling.hide_without)},                                                                \
        {"hide-threshold", "X", "0.7", "confidence below which a sample is not hidden",                            \
         PDL__QUANTITY(values, sampling.hide_threshold, PDL_UNIT_NONE)},                                           \
        {"hide-milestones", "E,...", NULL,                                                                         \
         "epochs at which the fraction falls; else at 3/10, 6/10 and 8/10 of the run",                             \
         PDL__TEXT(values, sampling.hide_milestones)},                                                             \
        {"hide-factors", "X,...", NULL,                                                                            \
         "factors of F before, between and after the milestones; else 1,0.8,0.6,0.4",                              \
         PDL__TEXT(values, sampling.hide_factors)},                                                                \
        {"hide-scope", "WHICH", "global", "chooses among all samples, or per worker (local)",                      \
         PDL__CHOICE(values, sampling.hide_scope, pdl_hide_scope_names, PDL_HIDE_SCOPE_COUNT)},                    \
        {"hide-confidence", "HOW", "class", "softmax over classes, or over the batch as in the published program", \
         PDL__CHOICE(values, sampling.hide_confidence, pdl__confidence_names, 2)},                                 \
        {"hide-rate", "FROM", "hidden",                                                                            \
         "the learning rate is scaled by the fraction that was hidden, or by the largest that may be",             \
         PDL__CHOICE(values, sampling.hide_rate, pdl__hide_rate_names, 2)},                                        \
        {"hide-trim", "X", "0", "also hides this fraction with the highest losses",                                \
         PDL__QUANTITY(values, sampling.hide_trim, PDL_UNIT_NONE)},                                                \
        {"hide-beta", "X", "1", "of --hide-method selective",                                                      \
         PDL__QUANTITY(values, sampling.hide_beta, PDL_UNIT_NONE)},                                                \
        {"hide-until", "X", "0.875", "fraction of the run in which --hide-method unbiased hides",                  \
         PDL__QUANTITY(values, sampling.hide_until, PDL_UNIT_NONE)},                                               \
        {"refresh-every", "E", "-1",                                                                               \
         "epochs between forward passes over hidden samples; 0: never, -1: the default of the method",             \
         PDL__INT(values, sampling.refresh_every, -1)},                                                            \
        {"refresh-mode", "NAME", "evaluation", "batch norm and dropout in those passes",                           \
         PDL__CHOICE(values, sampling.refresh_mode, pdl__refresh_names, 2)},                                       \
        {"statistics", "WHICH", "mean",                                                                            \
         "batch-norm statistics that validation uses: the mean of the workers, or those of the first",             \
         PDL__CHOICE(values, sampling.statistics, pdl__statistics_names, 2)},                                      \
        {"aggregate",                                                                                              \
         "WHEN",                                                                                                   \
         "step",                                                                                                   \
         "when the models of workers are averaged: step, local:K (every K steps), local (every epoch), sem, "      \
         "cadis, feddct",                                                                                          \
         PDL__TEXT(values, sampling.aggregate),                                                                    \
         .first = true,                                                                                            \
         .group = "Rounds (model exchange and aggregation)"},                                                      \
        {"local-epochs", "E", "1", "epochs of a round, before models are exchanged in sem",                        \
         PDL__INT(values, sampling.local_epochs, 1)},                                                              \
        {"second-epochs", "E", "1", "epochs of a round of sem after the exchange",                                 \
         PDL__INT(values, sampling.second_epochs, 0)},                                                             \
        {"hops", "N", "2", "workers that train a model in one round of sem", PDL__INT(values, sampling.hops, 2)},  \
        {"keep-moments", NULL, NULL, "keeps the optimizer state from one round to the next",                       \
         PDL__FLAG(values, sampling.keep_moments)},                                                                \
        {"cluster-threshold", "X", "auto",                                                                         \
         "of cadis: similarity above which workers belong to one cluster, -1 to 1; auto: the widest gap",          \
         PDL__TEXT(values, sampling.cluster_threshold)},                                                           \
        {"distill", "X", "1", "of cadis: weight of the distillation from the common model",                        \
         PDL__QUANTITY(values, sampling.distill, PDL_UNIT_NONE)},                                                  \
        {"temperature", "X", "1", "of that distillation",                                                          \
         PDL__QUANTITY(values, sampling.temperature, PDL_UNIT_NONE)},                                              \
        {"nets", "S", "4", "of feddct: narrow networks in place of the wide one",                                  \
         PDL__INT(values, sampling.nets, 1)},                                                                      \
        {"agreement", "X", "0.5", "of feddct: weight of the common loss of the narrow networks",                   \
         PDL__QUANTITY(values, sampling.agreement, PDL_UNIT_NONE)},                                                \
        {"agreement-warmup", "N", "40", "of feddct: rounds until the common loss has its full weight",             \
         PDL__INT(values, sampling.agreement_warmup, 0)},                                                          \
        {"mixup", "X", "0", "of feddct: alpha of mixup between samples; 0: none",                                  \
         PDL__QUANTITY(values, sampling.mixup, PDL_UNIT_NONE)},                                                    \
    {                                                                                                              \
        "published-warmup", NULL, NULL,                                                                            \
            "of feddct: the weight stays that of the first round, as in the published program",                    \
            PDL__FLAG(values, sampling.published_warmup)                                                           \
    }

pdl_status_t pdl__sampling_options_from(const pdl__sampling_values_t *values, uint64_t seed,
                                        pdl_train_options_t *options);

#endif
