/*
 * How hidden samples are chosen among those of a view. Each method is the one of its paper:
 *
 *   lowest     Nguyen and others, KAKURENBO, NeurIPS 2023
 *   selective  Jiang and others, "Accelerating deep learning by focusing on the biggest losers", 2019
 *   unbiased   Qin and others, InfoBatch, ICLR 2024
 *
 * Random hiding is the control of the first.
 */
#include "data/hide/select.h"
#include "data/hide/state.h"

#include <math.h>

#define CDF_BINS 1000

/* Which samples are candidates by their values, and which of these stay hidden. */
typedef struct rule {
    pdl_boundary_t low;  /* candidates are below it */
    bool           trim; /* and, unless they are no numbers, not below `high` */
    pdl_boundary_t high;
    bool           sure; /* only right and confident ones stay hidden, except those at the upper end */
    float          threshold;
    uint8_t        ages; /* and those hidden for less epochs */
} rule_t;

static int64_t whole(double value)
{
    /* 0.8 * 0.3 * 100 is a little less than 24. */
    return (int64_t)floor(value + 1e-6);
}

static uint8_t age_limit(const pdl_hide_options_t *options)
{
    int64_t every = pdl__hide_refresh_every(options);

    return every > 0 ? (uint8_t)every : 1;
}

static inline uint64_t pack_bits(const uint8_t *bytes, int n)
{
    uint64_t word = 0;

    for (int j = 0; j < n; j++) word |= (uint64_t)bytes[j] << j;
    return word;
}

/* Bit j: value j, whose index is base + j, is below the boundary. */
static inline uint64_t below_word(const pdl_boundary_t *boundary, const float *values, int64_t base, int n)
{
    uint8_t bytes[64];

    if (base < boundary->index && boundary->index - base < 64) {
        for (int j = 0; j < n; j++) bytes[j] = pdl_below(boundary, values[j], base + j);
    } else {
        uint32_t limit = boundary->key + (base < boundary->index);

        for (int j = 0; j < n; j++) bytes[j] = pdl__loss_key(values[j]) < limit;
    }
    return pack_bits(bytes, n);
}

static inline uint64_t number_word(const float *values, int n)
{
    uint8_t bytes[64];

    for (int j = 0; j < n; j++) bytes[j] = pdl__loss_key(values[j]) != PDL__KEY_NAN;
    return pack_bits(bytes, n);
}

static inline uint64_t sure_word(const rule_t *rule, const uint8_t *flags, const float *confidence, int n)
{
    uint8_t bytes[64];

    if (!rule->sure) return UINT64_MAX;
    for (int j = 0; j < n; j++) {
        bytes[j] = (uint8_t)((confidence[j] >= rule->threshold) & flags[j] & PDL__HIDE_CORRECT);
    }
    return pack_bits(bytes, n);
}

static inline uint64_t young_word(const rule_t *rule, const uint8_t *flags, int n)
{
    uint8_t bytes[64];

    if (rule->ages == PDL__HIDE_NO_AGE) return UINT64_MAX;
    for (int j = 0; j < n; j++) bytes[j] = flags[j] >> 1 < rule->ages;
    return pack_bits(bytes, n);
}

static inline __attribute__((always_inline)) void mark_word(const pdl__hide_view_t *view, const float *values,
                                                            const rule_t *rule, int64_t base, int n,
                                                            pdl__hide_tally_t *tally)
{
    uint64_t low = below_word(&rule->low, values + base, base, n), high = 0, hidden;

    if (rule->trim) {
        high = number_word(values + base, n) & ~below_word(&rule->high, values + base, base, n) & ~low;
    }
    if ((low | high) == 0) return;
    hidden = (low & sure_word(rule, view->flags + base, view->confidence + base, n)) | high;
    hidden &= young_word(rule, view->flags + base, n);
    view->hidden[base >> 6] = hidden;
    tally->candidates += __builtin_popcountll(low | high);
    tally->hidden += __builtin_popcountll(hidden);
}

/* `values` stand for the losses; their order decides. */
static void mark(const pdl__hide_view_t *view, const float *values, const rule_t *rule, pdl__hide_tally_t *tally)
{
    int64_t base = 0;

    for (; base + 64 <= view->count; base += 64) mark_word(view, values, rule, base, 64, tally);
    if (base < view->count) mark_word(view, values, rule, base, (int)(view->count - base), tally);
}

static pdl_status_t smallest(const pdl__hide_view_t *view, const float *values, int64_t count,
                             pdl_boundary_t *boundary)
{
    int64_t first = 0, last = view->count;

    if (view->ranks != NULL) {
        const int64_t rank = pdl_ranks_rank(view->ranks), size = pdl_ranks_size(view->ranks);

        first = view->count / size * rank + view->count % size * rank / size;
        last = view->count / size * (rank + 1) + view->count % size * (rank + 1) / size;
    }
    return pdl_select_smallest(values + first, last - first, first, count, view->ranks, boundary);
}

static double largest_number(const float *values, int64_t count)
{
    double largest = -INFINITY;

    for (int64_t i = 0; i < count; i++) {
        if (values[i] > largest) largest = values[i];
    }
    return largest;
}

static int64_t count_numbers(const float *values, int64_t count)
{
    int64_t numbers = 0;

    for (int64_t i = 0; i < count; i++) numbers += values[i] == values[i];
    return numbers;
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

/* Candidates at both ends, of which those that are sure stay hidden. */
static pdl_status_t mark_lowest(const pdl_hide_options_t *options, double fraction, const pdl__hide_view_t *view,
                                uint8_t ages, pdl__hide_tally_t *tally)
{
    int64_t low = options->lowest ? at_most(whole(fraction * (double)view->count), view->most_hidden) : 0;
    int64_t high = at_most(whole(options->trim * (double)view->count), view->most_hidden - low);
    rule_t  rule = {.trim = high > 0,
                    .sure = options->move_back,
                    .threshold = (float)options->threshold,
                    .ages = ages};
    double  largest;
    int64_t before = tally->candidates;

    pdl_status_t status = smallest(view, view->loss, low, &rule.low);

    if (!status && high > 0) {
        status = smallest(view, view->loss, count_numbers(view->loss, view->count) - high, &rule.high);
    }
    if (status) return status;
    mark(view, view->loss, &rule, tally);
    if (low == 0 || tally->candidates == before) return PDL_OK;
    largest = rule.low.key == PDL__KEY_NAN ? largest_number(view->loss, view->count) : pdl__key_loss(rule.low.key);
    if (largest > tally->threshold_loss) tally->threshold_loss = largest;
    return PDL_OK;
}

pdl_status_t pdl__hide_lowest(const pdl_hide_options_t *options, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally)
{
    return mark_lowest(options, fraction, view, age_limit(options), tally);
}

pdl_status_t pdl__hide_random(const pdl_hide_options_t *options, double fraction, const pdl__hide_view_t *view,
                              pdl__hide_tally_t *tally)
{
    int64_t           before = tally->hidden;
    rule_t            rule = {.ages = PDL__HIDE_NO_AGE};
    pdl__hide_tally_t drawn = {0};
    pdl_status_t      status = mark_lowest(options, fraction, view, PDL__HIDE_NO_AGE, tally);

    if (!status) status = smallest(view, view->draws, tally->hidden - before, &rule.low);
    if (status) return status;
    memset(view->hidden, 0, (size_t)(view->count + 63) / 64 * sizeof(*view->hidden));
    mark(view, view->draws, &rule, &drawn);
    return PDL_OK;
}

/* One that the rule would hide, unless it has been hidden for too long; highest indices stay when there are too many. */
static void hide_one(const pdl__hide_view_t *view, int64_t i, bool stays, int64_t *hidden, pdl__hide_tally_t *tally)
{
    tally->candidates++;
    if (view->loss[i] > tally->threshold_loss) tally->threshold_loss = view->loss[i];
    if (stays || *hidden >= view->most_hidden) return;
    pdl__bit_set(view->hidden, i);
    ++*hidden;
    tally->hidden++;
}

typedef struct cdf {
    double least, most;
    double keep[CDF_BINS]; /* with this probability */
} cdf_t;

static int cdf_bin(const cdf_t *cdf, float loss)
{
    double place = ((double)loss - cdf->least) / (cdf->most - cdf->least) * CDF_BINS;

    return place < CDF_BINS - 1 ? (int)place : CDF_BINS - 1;
}

/* False where all losses are the same and none is to be preferred. */
static bool make_cdf(const pdl__hide_view_t *view, double beta, cdf_t *cdf)
{
    int64_t counts[CDF_BINS] = {0}, total = 0, sum = 0;

    cdf->least = INFINITY;
    cdf->most = -INFINITY;
    for (int64_t i = 0; i < view->count; i++) {
        if (!isfinite(view->loss[i])) continue;
        cdf->least = view->loss[i] < cdf->least ? view->loss[i] : cdf->least;
        cdf->most = view->loss[i] > cdf->most ? view->loss[i] : cdf->most;
    }
    if (!(cdf->least < cdf->most)) return false;
    for (int64_t i = 0; i < view->count; i++) {
        if (!isfinite(view->loss[i])) continue;
        counts[cdf_bin(cdf, view->loss[i])]++;
        total++;
    }
    for (int b = 0; b < CDF_BINS; b++) {
        sum += counts[b];
        cdf->keep[b] = pow((double)sum / (double)total, beta);
    }
    return true;
}

void pdl__hide_selective(const pdl_hide_options_t *options, const pdl__hide_view_t *view, pdl__hide_tally_t *tally)
{
    const uint8_t ages = age_limit(options);
    int64_t       hidden = 0;
    cdf_t         cdf;

    if (!make_cdf(view, options->beta, &cdf)) return;
    for (int64_t i = 0; i < view->count; i++) {
        if (!isfinite(view->loss[i]) || view->draws[i] < cdf.keep[cdf_bin(&cdf, view->loss[i])]) continue;
        hide_one(view, i, view->flags[i] >> 1 >= ages, &hidden, tally);
    }
}

void pdl__hide_unbiased(const pdl_hide_options_t *options, const pdl__hide_view_t *view, pdl__hide_tally_t *tally)
{
    double  sum = 0, mean;
    int64_t numbers = 0, hidden = 0;

    for (int64_t i = 0; i < view->count; i++) {
        if (!isfinite(view->loss[i])) continue;
        sum += view->loss[i];
        numbers++;
    }
    mean = numbers > 0 ? sum / (double)numbers : 0;
    for (int64_t i = 0; i < view->count; i++) {
        if (!(view->loss[i] < mean)) continue;
        if (view->draws[i] < options->fraction) hide_one(view, i, false, &hidden, tally);
        if (!pdl__bit(view->hidden, i)) pdl__bit_set(view->heavy, i);
    }
}
