/*
 * Importance-based pairs (Nguyen and Tanimura, HPCAsia 2024): the worker with the highest losses exchanges samples with
 * the one with the lowest, the second with the second, and so on. What the poster leaves open is an option here. Every
 * few epochs pairs are drawn instead: a score order that does not change would pair the same two workers for ever.
 */
#include "base/sorted.h"
#include "data/shuffle/shuffle.h"

#include <paradl/base/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ranked {
    double  value;
    int64_t id;
} ranked_t;

static int compare_ranked(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;

    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Over the losses that are known; 0 where none is. The samples are in ascending order, so the sum has the same bits
   wherever the worker is. */
static double score_of(const pdl_shuffle_t *shuffle, const int64_t *list, int64_t count, const float *loss)
{
    const int64_t slots = shuffle->slots;
    double        sum = 0, most = 0;
    int64_t       known = 0;

    for (int64_t i = 0; i < count; i++) {
        const double value = loss[list[i]];

        if (!isfinite(value)) continue;
        if (known == 0 || value > most) most = value;
        sum += value;
        shuffle->key[known++] = value;
    }
    if (known == 0) return 0;
    switch (shuffle->spec.options.score) {
    case PDL_SCORE_MAX: return most;
    case PDL_SCORE_SUM: return sum;
    case PDL_SCORE_KTH:
        pdl__sort_numbers(shuffle->key, (size_t)known);
        return slots < 1 ? most : shuffle->key[slots < known ? known - slots : 0];
    default: return sum / (double)known;
    }
}

/* Draws pairs, or takes those of the score order; `order` has room for all workers. */
static void match(pdl_shuffle_t *shuffle, bool drawn, ranked_t *order)
{
    const int64_t  workers = shuffle->spec.workers;
    const uint64_t stream = pdl_random_stream("random matching", (uint64_t)shuffle->epoch, 0);

    if (drawn) {
        pdl_random_permutation(shuffle->spec.options.seed, stream, workers, shuffle->scratch);
    } else {
        for (int64_t w = 0; w < workers; w++) order[w] = (ranked_t){shuffle->score[w], w};
        qsort(order, (size_t)workers, sizeof(*order), compare_ranked);
        for (int64_t p = 0; p < workers; p++) shuffle->scratch[p] = order[p].id;
    }
    /* Of an odd number the one in the middle is its own partner. */
    for (int64_t p = 0; p < workers; p++) shuffle->partner[shuffle->scratch[p]] = shuffle->scratch[workers - 1 - p];
}

/* Losses that are not numbers, or not known, count as highest: such samples are to be looked at. */
static double loss_key(float loss)
{
    return isfinite(loss) ? loss : INFINITY;
}

/* What leaves a worker; its list has been shuffled, so the last samples are drawn at random. */
static void choose(pdl_shuffle_t *shuffle, int64_t i, const float *loss, ranked_t *order)
{
    const pdl_pair_samples_t which = shuffle->spec.options.pair_samples;
    const int64_t            self = shuffle->first + i, other = shuffle->partner[self], slots = shuffle->slots;
    int64_t                  count, *list = pdl__shuffle_list(shuffle, i, &count), *out = shuffle->out + i * slots;
    const bool               high = shuffle->score[self] > shuffle->score[other] ||
                      (shuffle->score[self] == shuffle->score[other] && self > other);

    if (loss == NULL || which == PDL_PAIR_RANDOM || (which == PDL_PAIR_TOP && !high)) {
        memcpy(out, list + count - slots, (size_t)slots * sizeof(*out));
        return;
    }
    for (int64_t s = 0; s < count; s++) order[s] = (ranked_t){loss_key(loss[list[s]]), list[s]};
    qsort(order, (size_t)count, sizeof(*order), compare_ranked);
    for (int64_t j = 0; j < slots; j++) out[j] = order[high ? count - 1 - j : j].id;
}

void pdl__pairs_note(pdl_shuffle_t *shuffle)
{
    const double workers = (double)shuffle->spec.workers;
    double       mean = 0, variance = 0;

    for (int64_t w = 0; w < shuffle->spec.workers; w++) mean += shuffle->score[w] / workers;
    for (int64_t w = 0; w < shuffle->spec.workers; w++) {
        variance += (shuffle->score[w] - mean) * (shuffle->score[w] - mean) / workers;
    }
    shuffle->making.score_mean = mean;
    shuffle->making.score_variance = variance;
}

/* Collective. The scores of all workers; 0 where no loss is known. */
static pdl_status_t gather_scores(pdl_shuffle_t *shuffle, const float *loss)
{
    for (int64_t w = 0; w < shuffle->spec.workers; w++) shuffle->score[w] = 0;
    for (int64_t i = 0; loss != NULL && i < shuffle->count; i++) {
        int64_t        count;
        const int64_t *list = pdl__shuffle_list(shuffle, i, &count);

        /* The ascending order: `list` itself has been shuffled. */
        memcpy(shuffle->spare, list, (size_t)count * sizeof(*list));
        pdl__partition_sort(shuffle->spare, count);
        shuffle->score[shuffle->first + i] = score_of(shuffle, shuffle->spare, count, loss);
    }
    return pdl_ranks_sum(shuffle->ranks, shuffle->score, shuffle->spec.workers);
}

pdl_status_t pdl__pairs_decide(pdl_shuffle_t *shuffle, const float *loss)
{
    const int64_t every = shuffle->spec.options.random_every, workers = shuffle->spec.workers;
    const int64_t largest = shuffle->spec.samples / workers + 1;
    ranked_t     *order = malloc((size_t)(largest > workers ? largest : workers) * sizeof(*order));
    double        unknown = loss == NULL;
    pdl_status_t  status = PDL_OK;

    if (order == NULL) {
        status = pdl_error(PDL_ERR_NOMEM, "out of memory for the scores of %lld workers", (long long)workers);
    }
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (!status) status = pdl_ranks_max(shuffle->ranks, &unknown, 1);
    if (unknown > 0) loss = NULL; /* on one rank is on all */
    if (!status) status = gather_scores(shuffle, loss);
    if (!status) {
        match(shuffle, loss == NULL || (every > 0 && (shuffle->epoch + 1) % every == 0), order);
        for (int64_t i = 0; i < shuffle->count; i++) choose(shuffle, i, loss, order);
        pdl__pairs_note(shuffle);
    }
    free(order);
    return status;
}
