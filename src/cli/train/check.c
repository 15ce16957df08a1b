/*
 * Which options go together.
 */
#include "cli/train/check.h"

#include <stddef.h>

/* What a run is like. */
enum {
    PARTITIONS = 1 << 0,
    PARTIAL = 1 << 1,
    PAIRED = 1 << 2,
    HIDES = 1 << 3,
    CHOOSES = 1 << 4, /* hides by rank of loss, or as many at random */
    SELECTIVE = 1 << 5,
    UNBIASED = 1 << 6,
    ROUNDS = 1 << 7,
    PASSES = 1 << 8, /* rounds of whole passes */
    TWO_PASSES = 1 << 9,
    SEM = 1 << 10,
    CADIS = 1 << 11,
    FEDDCT = 1 << 12,
    SAVES = 1 << 13,
    VALIDATES = 1 << 14,
    DRY = 1 << 15,
    RESTARTS = 1 << 16,
    INITIAL = 1 << 17
};

typedef struct rule {
    const char *option;
    unsigned    facts;
    const char *reason; /* with the remedy */
} rule_t;

/* Options that need one of these facts. */
static const rule_t needs[] = {
    {"partition", PARTITIONS, "needs workers that keep their samples: use --shuffle local, partial:Q or paired:Q"},
    {"destination", PARTIAL, "is for samples that change hands at random: use --shuffle partial:Q"},
    {"pair-score", PAIRED, "is for workers in pairs: use --shuffle paired:Q"},
    {"pair-samples", PAIRED, "is for workers in pairs: use --shuffle paired:Q"},
    {"random-match-every", PAIRED, "is for workers in pairs: use --shuffle paired:Q"},
    {"hide-without", HIDES, "is for hidden samples: use --hide F"},
    {"hide-threshold", CHOOSES, "is for hiding by loss: use --hide F, or --hide-method loss or random"},
    {"hide-trim", CHOOSES, "is for hiding by loss: use --hide F, or --hide-method loss or random"},
    {"hide-milestones", HIDES, "is for hidden samples: use --hide F"},
    {"hide-factors", HIDES, "is for hidden samples: use --hide F"},
    {"hide-rate", HIDES, "is for hidden samples: use --hide F"},
    {"hide-scope", HIDES, "is for hidden samples: use --hide F"},
    {"hide-confidence", HIDES, "is for hidden samples: use --hide F"},
    {"refresh-every", HIDES, "is for hidden samples: use --hide F"},
    {"refresh-mode", HIDES, "is for hidden samples: use --hide F"},
    {"hide-beta", SELECTIVE, "is for another method: use --hide-method selective"},
    {"hide-until", UNBIASED, "is for another method: use --hide-method unbiased"},
    {"keep-moments", ROUNDS, "is for rounds: use --aggregate local:K, local, sem, cadis or feddct"},
    {"local-epochs", PASSES, "is for rounds of whole passes: use --aggregate local, sem, cadis or feddct"},
    {"second-epochs", TWO_PASSES, "is for rounds in two parts: use --aggregate local, sem or cadis"},
    {"hops", SEM, "is for models that change places: use --aggregate sem"},
    {"cluster-threshold", CADIS, "is for groups of workers: use --aggregate cadis"},
    {"distill", CADIS, "is for groups of workers: use --aggregate cadis"},
    {"temperature", CADIS, "is for groups of workers: use --aggregate cadis"},
    {"nets", FEDDCT, "is for narrow networks: use --aggregate feddct"},
    {"agreement", FEDDCT, "is for narrow networks: use --aggregate feddct"},
    {"agreement-warmup", FEDDCT, "is for narrow networks: use --aggregate feddct"},
    {"mixup", FEDDCT, "is for narrow networks: use --aggregate feddct"},
    {"published-warmup", FEDDCT, "is for narrow networks: use --aggregate feddct"},
    {"checkpoint-every", SAVES, "writes nothing without a folder: add --checkpoint DIR"},
    {"overwrite", SAVES, "is for checkpoints: add --checkpoint DIR"},
    {"restarts", SAVES, "goes on from checkpoints: add --checkpoint DIR"},
    {"elastic", RESTARTS, "says how a job goes on: add --restarts N"},
    {"keep", SAVES, "is for checkpoints: add --checkpoint DIR"},
    {"valid-every", VALIDATES, "and --no-valid contradict each other: leave out one of them"},
    {"init-strict", INITIAL, "is for weights of a file: add --init FILE"},
    {"rank", DRY, "is for a program that is only shown: use --device dry"},
};

/* Options that do not go with one of these facts. */
static const rule_t conflicts[] = {
    {"system", ROUNDS, "is what a step is compared with, and a round is no step: leave it out, or --aggregate"},
    {"init", FEDDCT,
     "has weights of one network, not of the narrow ones of --aggregate feddct: leave out one of them"},
    {"init", DRY, "is not read where nothing is trained: leave out one of it and --device dry"},
    {"aggregate", DRY, "does not change the program of an update, which --device dry shows: leave it out"},
    {"shuffle", DRY, "does not change the program of an update, which --device dry shows: leave it out"},
    {"hide", DRY, "does not change the program of an update, which --device dry shows: leave it out"},
    {"hide-method", DRY, "does not change the program of an update, which --device dry shows: leave it out"},
    {"checkpoint", DRY, "has nothing to keep where nothing is trained: leave out one of it and --device dry"},
    {"restarts", DRY, "has nothing to start where nothing is trained: leave out one of it and --device dry"},
    {"log", DRY, "has nothing to write where nothing is trained: leave out one of it and --device dry"},
};

static unsigned facts_of_samples(const pdl_train_options_t *o)
{
    static const unsigned shuffles[PDL_SHUFFLE_COUNT] = {[PDL_SHUFFLE_LOCAL] = PARTITIONS,
                                                         [PDL_SHUFFLE_PARTIAL] = PARTITIONS | PARTIAL,
                                                         [PDL_SHUFFLE_PAIRED] = PARTITIONS | PAIRED};
    static const unsigned methods[PDL_HIDE_METHOD_COUNT] = {[PDL_HIDE_LOSS] = HIDES | CHOOSES,
                                                            [PDL_HIDE_RANDOM] = HIDES | CHOOSES,
                                                            [PDL_HIDE_IMPORTANCE] = HIDES,
                                                            [PDL_HIDE_SELECTIVE] = HIDES | SELECTIVE,
                                                            [PDL_HIDE_UNBIASED] = HIDES | UNBIASED};

    return shuffles[o->sampling.shuffle.kind] | methods[o->sampling.hide.method];
}

static unsigned facts_of_rounds(const pdl_aggregate_options_t *o)
{
    switch (o->kind) {
    case PDL_AGGREGATE_LOCAL: return ROUNDS | PARTITIONS | (o->steps > 0 ? 0 : PASSES | TWO_PASSES);
    case PDL_AGGREGATE_SEM: return ROUNDS | PARTITIONS | PASSES | TWO_PASSES | SEM;
    case PDL_AGGREGATE_CADIS: return ROUNDS | PARTITIONS | PASSES | TWO_PASSES | CADIS;
    case PDL_AGGREGATE_FEDDCT: return ROUNDS | PARTITIONS | PASSES | FEDDCT;
    default: return 0;
    }
}

pdl_status_t pdl__train_check(const pdl__train_values_t *v, const pdl_train_options_t *options)
{
    unsigned facts = facts_of_samples(options) | facts_of_rounds(&options->aggregate);

    facts |= (v->restarts > 0 ? RESTARTS : 0) | (v->init ? INITIAL : 0);
    facts |= (v->checkpoint ? SAVES : 0) | (v->no_valid ? 0 : VALIDATES);
    if (v->device.dry) facts |= DRY;
    for (size_t i = 0; i < sizeof(needs) / sizeof(*needs); i++)
        if (!(facts & needs[i].facts) && pdl__option_changed(pdl__train_option_table, needs[i].option, v))
            return pdl_error(PDL_ERR_INPUT, "--%s %s", needs[i].option, needs[i].reason);
    for (size_t i = 0; i < sizeof(conflicts) / sizeof(*conflicts); i++)
        if ((facts & conflicts[i].facts) && pdl__option_changed(pdl__train_option_table, conflicts[i].option, v))
            return pdl_error(PDL_ERR_INPUT, "--%s %s", conflicts[i].option, conflicts[i].reason);
    return PDL_OK;
}
