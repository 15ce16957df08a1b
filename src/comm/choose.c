/*
 * Chooses the algorithm of a bucket by its price, alpha start-ups + bytes / beta + gamma reduced bytes, or in a
 * short trial.
 *
 * A price cannot tell the MPI library from the schedule that it happens to use, so "auto" stays with the schedules,
 * whose order of additions is known; the trial compares with the library as well.
 */
#include "comm/choose.h"

#include "comm/clock.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_ALPHA_S           2e-6
#define MEMORY_BYTES_PER_S       5e9
#define SECONDS_PER_REDUCED_BYTE 0.2e-9    /* an addition reads two streams and writes one, out of cache */
#define TRIAL_BYTES              (4 << 20) /* beyond that time grows with size, whatever the algorithm */
#define TRIAL_RUNS               7
#define TRIAL_S                  0.1  /* or when they have taken so long */
#define HOPELESS                 3    /* so many times the lowest price are not tried */
#define CLEARLY                  0.95 /* of the time, or less */

pdl_status_t pdl__create_sized(pdl_schedule_spec_t spec, double bytes, pdl_schedule_t **schedule)
{
    pdl_status_t status = pdl_schedule_tune(&spec, bytes, MEMORY_ALPHA_S, MEMORY_BYTES_PER_S);

    return status ? status : pdl_schedule_create(&spec, schedule);
}

/* Of equal prices the first is taken. What needs other networks than a node's memory is not here. */
static const char *const candidates[PDL__CANDIDATES] = {"rdb", "hd_near", "circulant", "ring", "recmul"};

/* Where every rank has a part some schedules need a power of two, as they would leave a rank without. */
static bool possible(const pdl_exchange_spec_t *spec, const char *algorithm)
{
    int ranks = pdl_ranks_size(spec->ranks);

    if (spec->collective == PDL_COLL_ALLREDUCE || strcmp(algorithm, "ring") == 0) return true;
    return strcmp(algorithm, "hd_near") == 0 && (ranks & (ranks - 1)) == 0;
}

void pdl__chooser_init(const pdl_exchange_spec_t *spec, const pdl__lanes_t *lanes, pdl__chooser_t *chooser)
{
    const double bytes = 1e12; /* rounding does not matter */

    *chooser = (pdl__chooser_t){.spec = spec, .lanes = lanes};
    for (int c = 0; c < PDL__CANDIDATES; c++) {
        pdl_schedule_spec_t wanted = {.collective = spec->collective,
                                      .algorithm = candidates[c],
                                      .ranks = pdl_ranks_size(spec->ranks)};
        pdl_schedule_t     *schedule;

        chooser->price[c].startups = -1;
        if (!possible(spec, candidates[c]) || pdl_schedule_create(&wanted, &schedule) != PDL_OK) continue;
        chooser->price[c] = pdl_schedule_price(schedule, bytes);
        chooser->price[c].bytes /= bytes;
        chooser->price[c].reduced_bytes /= bytes;
        pdl_schedule_destroy(schedule);
    }
}

static double seconds_of(const pdl__chooser_t *chooser, int c, double bytes)
{
    const pdl_coll_price_t *price = &chooser->price[c];
    double                  alpha = chooser->spec->alpha_s > 0 ? chooser->spec->alpha_s : MEMORY_ALPHA_S;
    double                  rate = chooser->spec->bytes_per_s > 0 ? chooser->spec->bytes_per_s : MEMORY_BYTES_PER_S;

    return price->startups * alpha +
           bytes * (price->bytes / rate + price->reduced_bytes * SECONDS_PER_REDUCED_BYTE);
}

/* Every rank count has one: recursive doubling folds, and a ring gives everyone a part. */
static int cheapest(const pdl__chooser_t *chooser, double bytes)
{
    int best = -1;

    for (int c = 0; c < PDL__CANDIDATES; c++) {
        if (chooser->price[c].startups < 0) continue;
        if (best < 0 || seconds_of(chooser, c, bytes) < seconds_of(chooser, best, bytes)) best = c;
    }
    return best;
}

/* What is compared for one size: the schedules that are not hopeless, and the library in the last place. */
typedef struct trial {
    const char       *name[PDL__CANDIDATES + 1];
    pdl__reduction_t *reduction[PDL__CANDIDATES + 1];
    double            seconds[PDL__CANDIDATES + 1]; /* of the fastest run, in which the slowest rank counts */
    int               count;
    float            *data;
} trial_t;

static pdl_status_t make_trial(const pdl__chooser_t *chooser, double bytes, trial_t *trial)
{
    int64_t      elements = (int64_t)(bytes < TRIAL_BYTES ? bytes : TRIAL_BYTES) / (int64_t)sizeof(float);
    double       limit = HOPELESS * seconds_of(chooser, cheapest(chooser, bytes), bytes);
    pdl_status_t status = PDL_OK;

    for (int c = 0; c < PDL__CANDIDATES; c++) {
        if (chooser->price[c].startups >= 0 && seconds_of(chooser, c, bytes) <= limit)
            trial->name[trial->count++] = candidates[c];
    }
    trial->name[trial->count++] = "library";
    trial->data = calloc((size_t)elements, sizeof(*trial->data));
    if (trial->data == NULL) return pdl_error(PDL_ERR_NOMEM, "out of memory for a trial");
    for (int i = 0; !status && i < trial->count; i++)
        status = pdl__reduction_create(chooser->lanes,
                                       &(pdl__reduction_spec_t){.algorithm = trial->name[i],
                                                                .elements = elements,
                                                                .chunk_bytes = chooser->spec->chunk_bytes},
                                       &trial->reduction[i]);
    return status;
}

/* One after the other in every round, so that what disturbs the machine disturbs all of them. */
static pdl_status_t run_trial(pdl_ranks_t *ranks, trial_t *trial)
{
    pdl_status_t status = PDL_OK;
    double       spent = 0; /* the same on all ranks, like the times */

    for (int run = -1; !status && run < TRIAL_RUNS && spent < TRIAL_S; run++) {
        double times[PDL__CANDIDATES + 1];

        for (int i = 0; !status && i < trial->count; i++) {
            bool   done = false;
            double begin;

            status = pdl_ranks_barrier(ranks);
            begin = pdl__seconds();
            if (!status) status = pdl__reduction_start(trial->reduction[i], trial->data);
            while (!status && !done) status = pdl__reduction_test(trial->reduction[i], &done);
            times[i] = pdl__seconds() - begin;
        }
        if (!status) status = pdl_ranks_max(ranks, times, trial->count);
        for (int i = 0; !status && run >= 0 && i < trial->count; i++) { /* the first round warms up */
            if (run == 0 || times[i] < trial->seconds[i]) trial->seconds[i] = times[i];
            spent += times[i];
        }
    }
    return status;
}

/* The price decides unless something is clearly faster. */
static const char *winner(const trial_t *trial, const char *favourite)
{
    double least = 0;

    for (int i = 0; i < trial->count; i++) {
        if (strcmp(trial->name[i], favourite) == 0) least = CLEARLY * trial->seconds[i];
    }
    for (int i = 0; i < trial->count; i++) {
        if (trial->seconds[i] >= least) continue;
        least = trial->seconds[i];
        favourite = trial->name[i];
    }
    return favourite;
}

static pdl_status_t find_fastest(const pdl__chooser_t *chooser, double bytes, const char **fastest)
{
    trial_t      trial = {.count = 0};
    pdl_status_t status = pdl_ranks_agree(chooser->spec->ranks, make_trial(chooser, bytes, &trial));

    if (!status) status = run_trial(chooser->spec->ranks, &trial);
    if (!status) *fastest = winner(&trial, candidates[cheapest(chooser, bytes)]);
    for (int i = 0; i < trial.count; i++) pdl__reduction_destroy(trial.reduction[i]);
    free(trial.data);
    return status;
}

/* What is asked for sums may not exist for parts, or not be measured. A name that does not exist at all stays. */
static const char *in_parts(const pdl__chooser_t *chooser, const char *wanted)
{
    const char *const *name = pdl_coll_algorithms(PDL_COLL_ALLREDUCE);

    while (*name != NULL && strcmp(*name, wanted) != 0) name++;
    if (strcmp(wanted, "measure") == 0 || (*name != NULL && !possible(chooser->spec, wanted))) return "auto";
    return wanted;
}

pdl_status_t pdl__choose_algorithm(pdl__chooser_t *chooser, const char *wanted, int64_t elements,
                                   const char **algorithm)
{
    double       bytes = (double)elements * (double)sizeof(float), size = sizeof(float);
    pdl_status_t status = PDL_OK;
    int class = 0;

    if (chooser->spec->collective != PDL_COLL_ALLREDUCE) wanted = in_parts(chooser, wanted);
    *algorithm = wanted;
    if (strcmp(wanted, "auto") == 0) {
        *algorithm = candidates[cheapest(chooser, bytes)];
    } else if (strcmp(wanted, "measure") == 0) {
        for (; size < bytes; size *= 2) class ++;
        if (chooser->fastest[class] == NULL) status = find_fastest(chooser, size, &chooser->fastest[class]);
        *algorithm = chooser->fastest[class];
    }
    return status;
}
