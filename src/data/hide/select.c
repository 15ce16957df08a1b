/*
 * The smallest of many losses, without sorting: histograms of the upper, middle and lower bits of their keys narrow the
 * boundary down to one key, and among samples with this key the lower indices are taken. Three passes over the losses
 * whatever they are; ranks that have a part each sum their histograms, whose size does not depend on the losses.
 */
#include "data/hide/select.h"

#include <paradl/data/hide.h>

#include <math.h>
#include <stdlib.h>

#define DIGITS     3
#define DIGIT_BINS 2048
#define TABLES     4         /* neighbours with the same key do not wait for each other's counter */
#define BLOCK      512       /* keys made at once, by vector instructions */
#define COUNTED    (1 << 30) /* losses before a counter of 32 bits could overflow */

typedef struct digit {
    int shift, bits;
} digit_t;

static const digit_t digits[DIGITS] = {{21, 11}, {10, 11}, {0, 10}};

typedef struct counters {
    uint32_t table[TABLES][DIGIT_BINS + 1]; /* the last counts those of another prefix */
} counters_t;

/* The digit of BLOCK losses whose key begins with `prefix`, that is, with the bits above the digit. The first loop has a
   fixed length, no branches and only whole numbers, so that compilers make vector instructions of it. */
static void count_block(const float *loss, const digit_t *digit, uint32_t prefix, counters_t *counters)
{
    const int shift = digit->shift;
    const int above = digit->shift + digit->bits - 1; /* in two shifts, for the first digit has nothing above */
    const uint32_t mask = (UINT32_C(1) << digit->bits) - 1;
    uint32_t       place[BLOCK];

    memcpy(place, loss, sizeof(place));
    for (int i = 0; i < BLOCK; i++) {
        uint32_t key = pdl__bits_key(place[i]), here = key >> shift & mask;

        here = key >> above >> 1 == prefix ? here : DIGIT_BINS;
        place[i] = key == PDL__KEY_NAN ? DIGIT_BINS : here;
    }
    for (int i = 0; i < BLOCK; i += TABLES) {
        for (int t = 0; t < TABLES; t++) counters->table[t][place[i + t]]++;
    }
}

static void count_some(const float *loss, int64_t total, const digit_t *digit, uint32_t prefix,
                       counters_t *counters)
{
    int64_t first = 0;

    for (; first + BLOCK <= total; first += BLOCK) count_block(loss + first, digit, prefix, counters);
    if (first < total) {
        float rest[BLOCK];

        for (int i = 0; i < BLOCK; i++) rest[i] = first + i < total ? loss[first + i] : NAN;
        count_block(rest, digit, prefix, counters);
    }
}

/* Over all ranks. Whole numbers in doubles are exact, and so are their sums. */
static pdl_status_t histogram(const float *loss, int64_t total, const digit_t *digit, uint32_t prefix,
                              pdl_ranks_t *ranks, double *bins)
{
    memset(bins, 0, DIGIT_BINS * sizeof(*bins));
    for (int64_t first = 0; first < total; first += COUNTED) {
        counters_t counters = {0};

        count_some(loss + first, total - first < COUNTED ? total - first : COUNTED, digit, prefix, &counters);
        for (int b = 0; b < DIGIT_BINS; b++) {
            for (int t = 0; t < TABLES; t++) bins[b] += counters.table[t][b];
        }
    }
    return ranks != NULL ? pdl_ranks_sum(ranks, bins, DIGIT_BINS) : PDL_OK;
}

/* How many losses with this key come before the first of this rank. */
static pdl_status_t count_before(int64_t here, int64_t first, pdl_ranks_t *ranks, int64_t *before)
{
    const int    size = ranks != NULL ? pdl_ranks_size(ranks) : 1;
    const int    rank = ranks != NULL ? pdl_ranks_rank(ranks) : 0;
    double      *parts = NULL;
    pdl_status_t status = PDL_OK;

    *before = 0;
    if (size == 1) return PDL_OK;
    parts = calloc((size_t)size, 2 * sizeof(*parts));
    if (parts == NULL) status = pdl_error(PDL_ERR_NOMEM, "out of memory for %d ranks", size);
    status = pdl_ranks_agree(ranks, status);
    if (!status) {
        parts[2 * rank] = (double)first;
        parts[2 * rank + 1] = (double)here;
        status = pdl_ranks_sum(ranks, parts, 2 * size);
    }
    for (int r = 0; !status && r < size; r++) {
        if (r != rank && parts[2 * r] < (double)first) *before += (int64_t)parts[2 * r + 1];
    }
    free(parts);
    return status;
}

/* The index behind the `rest` first ones with this key: one rank finds it, and all are told. */
static pdl_status_t break_tie(const float *loss, int64_t total, int64_t first, uint32_t key, int64_t rest,
                              pdl_ranks_t *ranks, int64_t *index)
{
    int64_t      here = 0, before, i = 0;
    double       found = 0;
    pdl_status_t status;

    for (i = 0; i < total; i++) here += pdl__loss_key(loss[i]) == key;
    status = count_before(here, first, ranks, &before);
    if (status) return status;
    rest -= before;
    if (rest > 0 && rest <= here) {
        for (i = 0; rest > 0; i++) rest -= pdl__loss_key(loss[i]) == key;
        found = (double)(first + i);
    }
    if (ranks != NULL) status = pdl_ranks_sum(ranks, &found, 1);
    *index = (int64_t)found;
    return status;
}

pdl_status_t pdl_select_smallest(const float *loss, int64_t total, int64_t first, int64_t count, pdl_ranks_t *ranks,
                                 pdl_boundary_t *boundary)
{
    double       bins[DIGIT_BINS], rest = (double)count;
    uint32_t     prefix = 0;
    pdl_status_t status;

    *boundary = (pdl_boundary_t){0, 0};
    if (count <= 0) return PDL_OK;
    for (int d = 0; d < DIGITS; d++) {
        int b = 0;

        status = histogram(loss, total, &digits[d], prefix, ranks, bins);
        if (status) return status;
        while (b < DIGIT_BINS && bins[b] < rest) rest -= bins[b++];
        if (b == DIGIT_BINS) { /* in the first digit only: there are not so many */
            *boundary = (pdl_boundary_t){PDL__KEY_NAN, 0};
            return PDL_OK;
        }
        prefix = prefix << digits[d].bits | (uint32_t)b;
        if (d == DIGITS - 1 && bins[b] == rest) {
            *boundary = (pdl_boundary_t){prefix, INT64_MAX};
            return PDL_OK;
        }
    }
    status = break_tie(loss, total, first, prefix, (int64_t)rest, ranks, &boundary->index);
    boundary->key = prefix;
    return status;
}

bool pdl_below(const pdl_boundary_t *boundary, float loss, int64_t index)
{
    uint32_t key = pdl__loss_key(loss);

    return key < boundary->key || (key == boundary->key && index < boundary->index && key != PDL__KEY_NAN);
}
