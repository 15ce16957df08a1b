/*
 * What an epoch's exchange did, and whether everything is still there.
 */
#include "data/shuffle/shuffle.h"
#include <paradl/oracle/data_policy.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest total-variation distance between the labels of a worker of this rank and those of all samples. */
static pdl_status_t measure_imbalance(const pdl_shuffle_t *shuffle, double *imbalance)
{
    const int64_t  classes = shuffle->spec.classes, samples = shuffle->spec.samples;
    const int32_t *labels = shuffle->spec.labels;
    double        *all = calloc((size_t)classes, 2 * sizeof(*all)), *own;

    if (all == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for %lld classes", (long long)classes);
    own = all + classes;
    *imbalance = 0;
    for (int64_t i = 0; i < samples; i++) all[labels[i]] += 1 / (double)samples;
    for (int64_t i = 0; i < shuffle->count; i++) {
        int64_t        count;
        const int64_t *list = pdl__shuffle_list(shuffle, i, &count);
        double         distance = 0;

        memset(own, 0, (size_t)classes * sizeof(*own));
        for (int64_t s = 0; s < count; s++) own[labels[list[s]]] += 1 / (double)count;
        for (int64_t c = 0; c < classes; c++) distance += fabs(own[c] - all[c]) / 2;
        if (distance > *imbalance) *imbalance = distance;
    }
    free(all);
    return PDL_OK;
}

/* Distinct workers that those of this rank have received from. */
static int64_t count_met(const pdl_shuffle_t *shuffle)
{
    int64_t met = 0;

    for (int64_t i = 0; shuffle->met != NULL && i < shuffle->count * shuffle->words; i++) {
        met += __builtin_popcountll(shuffle->met[i]);
    }
    return met;
}

/* A worker holds its part and, until the commit, what it has received from others. */
static int64_t most_stored(const pdl_shuffle_t *shuffle)
{
    int64_t most = 0;

    for (int64_t i = 0; i < shuffle->count; i++) {
        int64_t stored, arrived = 0;

        pdl__shuffle_list(shuffle, i, &stored);
        for (int64_t j = 0; shuffle->exchange != NULL && j < shuffle->slots; j++) {
            arrived += shuffle->received[i * shuffle->slots + j] != shuffle->out[i * shuffle->slots + j];
        }
        if (stored + arrived > most) most = stored + arrived;
    }
    return most;
}

pdl_status_t pdl__report_make(pdl_shuffle_t *shuffle)
{
    const pdl_shuffle_options_t *options = &shuffle->spec.options;
    pdl_shuffle_report_t        *report = &shuffle->making;
    const bool                   global = options->kind == PDL_SHUFFLE_GLOBAL;
    double       sum[4] = {(double)report->sent, (double)report->skipped, 0, (double)count_met(shuffle)};
    double       fraction = 0;
    pdl_status_t status = PDL_OK;

    report->imbalance = -1;
    if (shuffle->spec.labels != NULL && !global) status = measure_imbalance(shuffle, &report->imbalance);
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (shuffle->exchange != NULL) sum[2] = pdl__exchange_bytes(shuffle->exchange);
    if (!status) status = pdl_ranks_sum(shuffle->ranks, sum, 4);
    if (!status) status = pdl_ranks_max(shuffle->ranks, &report->imbalance, 1);
    if (status) return status;
    report->sent = (int64_t)sum[0];
    report->skipped = (int64_t)sum[1];
    report->bytes = sum[2];
    report->partners = sum[3] / (double)shuffle->spec.workers;
    report->stored_most = global ? 0 : most_stored(shuffle);
    /* What is exchanged in whole samples; under global shuffling everything changes place. */
    if (global) {
        fraction = 1;
    } else if (options->kind != PDL_SHUFFLE_LOCAL) {
        fraction = (double)shuffle->slots / (double)(shuffle->spec.samples / shuffle->spec.workers);
    }
    report->seen = pdl_policy_seen(fraction, (double)shuffle->spec.workers, (double)(shuffle->epoch + 1));
    return PDL_OK;
}

/* ---- invariants ---- */

/* Counts of many samples in one number: ranks add digits of base 2^bits that cannot overflow. */
static pdl_status_t count_everywhere(pdl_shuffle_t *shuffle, double *digits, int64_t count, int per, int64_t base)
{
    pdl_status_t status = pdl_ranks_sum(shuffle->ranks, digits, count);

    for (int64_t i = 0; !status && i < shuffle->spec.samples; i++) {
        int64_t number = (int64_t)digits[i / per];

        for (int64_t d = i % per; d > 0; d--) number /= base;
        if (number % base == 1) continue;
        return pdl_error(PDL_ERR_LIMIT,
                         "sample %" PRId64 " is held by %" PRId64 " workers after the exchange of epoch %" PRId64
                         ": one was expected",
                         i, number % base, shuffle->epoch);
    }
    return status;
}

/* Every sample is with one worker. */
static pdl_status_t check_once(pdl_shuffle_t *shuffle)
{
    const int64_t samples = shuffle->spec.samples;
    int64_t       base = 2;
    int           bits = 1, per;
    double       *digits;
    pdl_status_t  status = PDL_OK;

    while (base <= pdl_ranks_size(shuffle->ranks)) base *= 2, bits++;
    per = 52 / bits;
    digits = calloc((size_t)(samples / per + 1), sizeof(*digits));
    if (digits == NULL)
        status = pdl_error(PDL_ERR_NOMEM, "out of memory to check %lld samples", (long long)samples);
    if (!status) {
        memcpy(shuffle->spare, shuffle->list, (size_t)shuffle->held * sizeof(*shuffle->list));
        pdl__partition_sort(shuffle->spare, shuffle->held);
    }
    for (int64_t i = 0; !status && i < shuffle->held; i++) {
        const int64_t id = shuffle->spare[i];

        if (id < 0 || id >= samples || (i > 0 && id == shuffle->spare[i - 1])) {
            status =
                pdl_error(PDL_ERR_LIMIT, "sample %" PRId64 " is held twice after the exchange of epoch %" PRId64,
                          id, shuffle->epoch);
        } else {
            digits[id / per] += (double)((int64_t)1 << (bits * (int)(id % per)));
        }
    }
    status = pdl_ranks_agree(shuffle->ranks, status);
    if (!status) status = count_everywhere(shuffle, digits, samples / per + 1, per, base);
    free(digits);
    return status;
}

pdl_status_t pdl__report_check(pdl_shuffle_t *shuffle)
{
    const pdl_shuffle_report_t *report = &shuffle->making;
    const int64_t               workers = shuffle->spec.workers, samples = shuffle->spec.samples;
    const int64_t               largest = samples / workers + (samples % workers != 0);
    pdl_status_t                status = PDL_OK;

    if (report->sent + report->skipped != shuffle->slots * workers) {
        status = pdl_error(PDL_ERR_LIMIT,
                           "%" PRId64 " samples were sent and %" PRId64 " stayed in epoch %" PRId64
                           ", expected %" PRId64 " in all",
                           report->sent, report->skipped, shuffle->epoch, shuffle->slots * workers);
    } else if (report->stored_most > largest + shuffle->slots) {
        status = pdl_error(PDL_ERR_LIMIT, "a worker held %" PRId64 " samples, more than %" PRId64 " and %" PRId64,
                           report->stored_most, largest, shuffle->slots);
    } else if (shuffle->spec.store != NULL && pdl_store_count(shuffle->spec.store) != shuffle->held) {
        status = pdl_error(PDL_ERR_LIMIT, "the store holds %" PRId64 " samples, expected %" PRId64,
                           pdl_store_count(shuffle->spec.store), shuffle->held);
    }
    status = pdl_ranks_agree(shuffle->ranks, status);
    return status ? status : check_once(shuffle);
}

void pdl_shuffle_report(const pdl_shuffle_t *shuffle, pdl_shuffle_report_t *report)
{
    *report = shuffle->report;
}
