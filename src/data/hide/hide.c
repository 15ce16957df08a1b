/*
 * Hiding: an epoch is begun, and what it says is looked up. The method itself is in hide_methods.c.
 */
#include "data/hide/state.h"

#include "base/clock.h"

#include <paradl/base/random.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Below this, counting all losses is quicker than summing histograms of many ranks. */
#define SHARE_FROM (INT64_C(1) << 24)

int64_t pdl__bits_count(const uint64_t *bits, int64_t words)
{
    int64_t count = 0;

    for (int64_t w = 0; w < words; w++) count += __builtin_popcountll(bits[w]);
    return count;
}

static bool draws_uniforms(pdl_hide_method_t method)
{
    return method == PDL_HIDE_RANDOM || method == PDL_HIDE_SELECTIVE || method == PDL_HIDE_UNBIASED;
}

/* What the options do not need stays NULL. */
static bool allocate(pdl_hide_t *hide)
{
    const size_t n = (size_t)hide->samples, words = (size_t)hide->words;
    const bool   local = hide->options.scope == PDL_HIDE_LOCAL;
    bool         made = true;

    made &= (hide->loss = malloc(n * sizeof(*hide->loss))) != NULL;
    made &= (hide->confidence = calloc(n, sizeof(*hide->confidence))) != NULL;
    made &= (hide->flags = calloc(n, sizeof(*hide->flags))) != NULL;
    made &= (hide->position = calloc(n, sizeof(*hide->position))) != NULL;
    made &= (hide->mine = calloc(words, sizeof(*hide->mine))) != NULL;
    made &= (hide->noted = calloc(words, sizeof(*hide->noted))) != NULL;
    made &= (hide->hidden = calloc(words, sizeof(*hide->hidden))) != NULL;
    hide->hidden_all = hide->hidden;
    if (local) {
        made &= (hide->hidden_all = calloc(words, sizeof(*hide->hidden_all))) != NULL;
        made &= (hide->members = calloc(words, sizeof(*hide->members))) != NULL;
    }
    if (hide->options.method == PDL_HIDE_UNBIASED)
        made &= (hide->heavy = calloc(words, sizeof(*hide->heavy))) != NULL;
    if (draws_uniforms(hide->options.method)) made &= (hide->draws = malloc(n * sizeof(*hide->draws))) != NULL;
    if (hide->options.method == PDL_HIDE_IMPORTANCE) {
        made &= (hide->share = malloc(n * sizeof(*hide->share))) != NULL;
        made &= (hide->alias = malloc(n * sizeof(*hide->alias))) != NULL;
        made &= (hide->drawn = malloc(n * sizeof(*hide->drawn))) != NULL;
    }
    return made;
}

pdl_status_t pdl_hide_create(const pdl_hide_options_t *options, int64_t samples, pdl_hide_t **result)
{
    pdl_status_t status = pdl_hide_check(options);
    pdl_hide_t  *hide;

    if (status) return status;
    /* Indices are sent in 31 bits. */
    if (samples < 1 || samples > INT32_MAX) {
        return pdl_error(PDL_ERR_LIMIT, "hiding among %lld samples: expected 1 .. %d", (long long)samples,
                         INT32_MAX);
    }
    hide = calloc(1, sizeof(*hide));
    if (hide == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    hide->options = *options;
    hide->samples = samples;
    hide->words = (samples + 63) / 64;
    hide->epoch = -1;
    hide->share_from = SHARE_FROM;
    if (!allocate(hide)) {
        pdl_hide_destroy(hide);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the losses of %lld samples", (long long)samples);
    }
    for (int64_t i = 0; i < samples; i++) hide->loss[i] = 1;
    *result = hide;
    return PDL_OK;
}

void pdl_hide_destroy(pdl_hide_t *hide)
{
    if (hide == NULL) return;
    if (hide->hidden_all != hide->hidden) free(hide->hidden_all);
    free(hide->loss);
    free(hide->confidence);
    free(hide->flags);
    free(hide->position);
    free(hide->mine);
    free(hide->noted);
    free(hide->hidden);
    free(hide->heavy);
    free(hide->draws);
    free(hide->share);
    free(hide->alias);
    free(hide->drawn);
    free(hide->members);
    pdl__hide_room_free(&hide->room);
    free(hide);
}

static pdl_status_t check_begin(const pdl_hide_t *hide, int64_t epoch, int64_t epochs,
                                const pdl_hide_workers_t *workers)
{
    if (epoch < 0 || epoch >= epochs) {
        return pdl_error(PDL_ERR_INPUT, "hiding in epoch %lld of %lld: there is no such epoch", (long long)epoch,
                         (long long)epochs);
    }
    if (hide->options.method != PDL_HIDE_NONE && hide->samples < workers->batch) {
        return pdl_error(PDL_ERR_INPUT,
                         "--hide: %lld samples are less than one batch of %lld: take a smaller batch or more data",
                         (long long)hide->samples, (long long)workers->batch);
    }
    if (hide->resumed && epoch != hide->epoch) {
        return pdl_error(PDL_ERR_INPUT,
                         "the state of hiding is of the middle of epoch %lld, and epoch %lld is to begin: resume "
                         "where the checkpoint was written",
                         (long long)hide->epoch, (long long)epoch);
    }
    if (hide->mine_count > 0 && pdl_ranks_size(workers->ranks) > 1) {
        return pdl_error(PDL_ERR_INPUT,
                         "an epoch of hiding begins before ranks have combined what they noted: call "
                         "pdl_hide_combine() first");
    }
    return PDL_OK;
}

pdl_status_t pdl__hide_choose(const pdl_hide_t *hide, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally)
{
    switch (hide->options.method) {
    case PDL_HIDE_LOSS: return pdl__hide_lowest(&hide->options, fraction, view, tally);
    case PDL_HIDE_RANDOM: return pdl__hide_random(&hide->options, fraction, view, tally);
    case PDL_HIDE_SELECTIVE: pdl__hide_selective(&hide->options, view, tally); break;
    case PDL_HIDE_UNBIASED: pdl__hide_unbiased(&hide->options, view, tally); break;
    default: break;
    }
    return PDL_OK;
}

/* Every rank has the whole state and so comes to the same choice. That they all have is looked at, because training on
   with different lists would only show as a wrong result. */
static pdl_status_t check_agreement(const pdl_hide_t *hide, pdl_ranks_t *ranks)
{
    uint64_t     hash = UINT64_C(0xcbf29ce484222325);
    double       ends[4];
    pdl_status_t status;

    if (pdl_ranks_size(ranks) == 1) return PDL_OK;
    for (int64_t w = 0; w < hide->words; w++) hash = (hash ^ hide->hidden[w]) * UINT64_C(0x9e3779b97f4a7c15);
    ends[0] = (double)(hash >> 32);
    ends[1] = (double)(hash & UINT32_MAX);
    ends[2] = -ends[0];
    ends[3] = -ends[1];
    status = pdl_ranks_max(ranks, ends, 4);
    if (status) return status;
    if (ends[0] + ends[2] == 0 && ends[1] + ends[3] == 0) return PDL_OK;
    return pdl_error(PDL_ERR_INPUT,
                     "ranks hide different samples: give all of them the same options and checkpoint");
}

static pdl_status_t begin_global(pdl_hide_t *hide, double fraction, const pdl_hide_workers_t *workers,
                                 pdl__hide_tally_t *tally)
{
    const bool       shared = pdl_ranks_size(workers->ranks) > 1 && hide->samples >= hide->share_from;
    pdl__hide_view_t view = {.count = hide->samples,
                             .most_hidden = hide->samples - workers->batch,
                             .loss = hide->loss,
                             .confidence = hide->confidence,
                             .draws = hide->draws,
                             .flags = hide->flags,
                             .hidden = hide->hidden,
                             .heavy = hide->heavy,
                             .ranks = shared ? workers->ranks : NULL};
    pdl_status_t     status = pdl__hide_choose(hide, fraction, &view, tally);

    return status ? status : check_agreement(hide, workers->ranks);
}

/* How long each sample has been hidden without being seen. */
static void grow_older(pdl_hide_t *hide)
{
    for (int64_t i = 0; i < hide->samples; i++) {
        uint8_t age = hide->flags[i] >> 1, correct = hide->flags[i] & PDL__HIDE_CORRECT;
        uint8_t older = age < PDL__HIDE_AGES ? age + 1 : age;

        hide->flags[i] = (uint8_t)(correct | (pdl__bit(hide->hidden_all, i) ? older << 1 : 0));
    }
}

/* F_e, with what is trimmed: no more than leaves a batch. */
static double most_hidden(const pdl_hide_t *hide, double fraction, int64_t batch)
{
    const pdl_hide_options_t *options = &hide->options;
    double                    most = 0, limit = (double)(hide->samples - batch) / (double)hide->samples;

    if (options->method == PDL_HIDE_LOSS || options->method == PDL_HIDE_RANDOM)
        most = (options->lowest ? fraction : 0) + options->trim;
    else if (options->method == PDL_HIDE_UNBIASED)
        most = fraction;
    else if (options->method == PDL_HIDE_SELECTIVE)
        most = limit;
    return most < limit ? most : limit;
}

static bool hides_in(const pdl_hide_options_t *options, int64_t epoch, int64_t epochs)
{
    if (epoch == 0 || options->method == PDL_HIDE_NONE) return false;
    return options->method != PDL_HIDE_UNBIASED || (double)epoch < options->until * (double)epochs;
}

static pdl_status_t begin_new(pdl_hide_t *hide, int64_t epoch, int64_t epochs, const pdl_hide_workers_t *workers)
{
    const bool   reduced = hide->options.method != PDL_HIDE_UNBIASED;
    const double fraction = reduced ? pdl__hide_fraction(&hide->options, epoch, epochs) : hide->options.fraction;
    pdl__hide_tally_t tally = {.threshold_loss = -INFINITY};
    const size_t      bytes = (size_t)hide->words * sizeof(uint64_t);
    pdl_status_t      status = PDL_OK;

    memset(hide->hidden, 0, bytes);
    memset(hide->hidden_all, 0, bytes);
    memset(hide->noted, 0, bytes);
    memset(hide->mine, 0, bytes);
    if (hide->heavy != NULL) memset(hide->heavy, 0, bytes);
    hide->mine_count = 0;
    hide->epoch = epoch;
    if (hides_in(&hide->options, epoch, epochs)) {
        if (hide->draws != NULL) {
            pdl_random_fill(hide->options.seed, pdl_random_stream("hidden samples", (uint64_t)epoch, 0), 0,
                            hide->samples, hide->draws);
        }
        if (hide->drawn != NULL) pdl__hide_draw(hide, epoch);
        status = hide->options.scope == PDL_HIDE_LOCAL ? pdl__hide_local(hide, fraction, workers, &tally)
                                                       : begin_global(hide, fraction, workers, &tally);
    }
    if (status) return status;
    grow_older(hide);
    hide->report = (pdl_hide_report_t){
        .candidates = tally.candidates,
        .moved_back = tally.candidates - tally.hidden,
        .hidden = tally.hidden,
        .most = most_hidden(hide, fraction, workers->batch),
        .fraction = (double)tally.hidden / (double)hide->samples,
        .threshold_loss = isfinite(tally.threshold_loss) ? tally.threshold_loss : 0,
    };
    return PDL_OK;
}

pdl_status_t pdl_hide_begin(pdl_hide_t *hide, int64_t epoch, int64_t epochs, const pdl_hide_workers_t *workers)
{
    double       start_s = pdl__seconds();
    pdl_status_t status = pdl_ranks_agree(workers->ranks, check_begin(hide, epoch, epochs, workers));

    if (status) return status;
    if (hide->resumed) {
        hide->report.select_s = 0;
        if (hide->options.scope == PDL_HIDE_LOCAL) status = pdl__hide_local_resume(hide, workers);
    } else {
        status = begin_new(hide, epoch, epochs, workers);
    }
    if (status) return status;
    hide->resumed = false;
    hide->hidden_here = pdl__bits_count(hide->hidden, hide->words);
    hide->report.select_s = pdl__seconds() - start_s;
    return PDL_OK;
}

const uint64_t *pdl_hide_bits(const pdl_hide_t *hide)
{
    return hide->hidden_here > 0 ? hide->hidden : NULL;
}

const int64_t *pdl_hide_drawn(const pdl_hide_t *hide, int64_t *count)
{
    const bool draws = hide->drawn != NULL && hide->epoch > 0;

    *count = draws ? hide->samples : 0;
    return draws ? hide->drawn : NULL;
}

float pdl_hide_weight(const pdl_hide_t *hide, int64_t index)
{
    if (hide->heavy == NULL || index < 0 || index >= hide->samples || !pdl__bit(hide->heavy, index)) return 1;
    return (float)(1 / (1 - hide->options.fraction));
}

bool pdl_hide_weighs(const pdl_hide_t *hide)
{
    return hide->heavy != NULL && pdl__bits_count(hide->heavy, hide->words) > 0;
}

double pdl_hide_rate(const pdl_hide_t *hide)
{
    const pdl_hide_options_t *options = &hide->options;
    double                    missing = hide->report.fraction;

    if (!options->rate || hide->epoch <= 0) return 1;
    if (options->method == PDL_HIDE_IMPORTANCE || options->method == PDL_HIDE_UNBIASED) return 1;
    /* Selective backprop has no fraction that it would not exceed. */
    if (options->rate_from_most && options->method != PDL_HIDE_SELECTIVE) missing = hide->report.most;
    return missing < 1 ? 1 / (1 - missing) : 1;
}

bool pdl_hide_refreshes(const pdl_hide_t *hide)
{
    int64_t every = pdl__hide_refresh_every(&hide->options);

    return hide->report.hidden > 0 && every > 0 && hide->epoch % every == every - 1;
}

void pdl_hide_report(const pdl_hide_t *hide, pdl_hide_report_t *report)
{
    *report = hide->report;
}

const float *pdl_hide_loss(const pdl_hide_t *hide)
{
    return hide->loss;
}
