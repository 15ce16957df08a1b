/*
 * Compares the common schedules and the MPI library for one size of buckets.
 */
#include "comm/trial.h"

#include "base/clock.h"
#include "comm/device/carrier.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NAMES  16
#define TRIAL_BYTES (4 << 20) /* beyond that time grows with size, whatever the algorithm */
#define TRIAL_RUNS  7
#define TRIAL_S     0.1  /* or when they have taken so long */
#define CLEARLY     0.95 /* of the time, or less */

/* What is compared for one size: the schedules that these ranks have, the simplest first, and the library at last. */
typedef struct trial {
    const char       *name[MOST_NAMES];
    pdl__reduction_t *reduction[MOST_NAMES];
    double            seconds[MOST_NAMES]; /* of the fastest run, in which the slowest rank counts */
    int               count;
    float            *data;
    size_t            bytes;
} trial_t;

static pdl_status_t add_schedule(const pdl__trials_t *trials, const char *name, int64_t elements, trial_t *trial)
{
    pdl__reduction_spec_t spec = {.algorithm = name,
                                  .ranks_per_node = trials->spec->ranks_per_node,
                                  .elements = elements};
    pdl_status_t          status;

    pdl__cut_messages(trials->spec, &spec);
    status = pdl__reducers_create(trials->reducers, &spec, &trial->reduction[trial->count]);
    if (status == PDL_ERR_LIMIT) return PDL_OK; /* on all ranks alike */
    if (!status) trial->name[trial->count++] = name;
    return status;
}

static pdl_status_t make_trial(const pdl__trials_t *trials, double bytes, trial_t *trial)
{
    pdl_tensor_device_t *device = pdl_transport_device(trials->spec->transport);
    int64_t              elements = (int64_t)(bytes < TRIAL_BYTES ? bytes : TRIAL_BYTES) / (int64_t)sizeof(float);
    void                *data = NULL;
    pdl_status_t         status;

    trial->bytes = (size_t)elements * sizeof(*trial->data);
    status = pdl_transport_take(trials->spec->transport, trial->bytes, &data);
    trial->data = data;
    if (!status) status = device->ops->fill(device, trials->spec->stream, data, trial->bytes);
    for (const char *const *name = pdl_coll_common(); *name != NULL && !status; name++) {
        if (trial->count + 1 == MOST_NAMES) break;
        if (!pdl_coll_nested(*name) || trials->spec->ranks_per_node > 1)
            status = add_schedule(trials, *name, elements, trial);
    }
    return status ? status : add_schedule(trials, "library", elements, trial);
}

/* One after the other in every round, so that what disturbs the machine disturbs all of them. */
static pdl_status_t run_trial(const pdl_exchange_spec_t *spec, trial_t *trial)
{
    pdl_tensor_device_t *device = pdl_transport_device(spec->transport);
    pdl_ranks_t         *ranks = spec->ranks;
    pdl_status_t         status = PDL_OK;
    double               spent = 0; /* the same on all ranks, like the times */

    for (int run = -1; !status && run < TRIAL_RUNS && spent < TRIAL_S; run++) {
        double times[MOST_NAMES];

        for (int i = 0; !status && i < trial->count; i++) {
            bool   done = false;
            double begin;

            status = pdl_ranks_barrier(ranks);
            begin = pdl__seconds();
            if (!status) status = pdl__reduction_start(trial->reduction[i], trial->data);
            while (!status && !done) {
                status = pdl__reduction_test(trial->reduction[i], &done);
                if (!status && !done) status = pdl__progress(ranks->progress);
            }
            if (!status) status = device->ops->synchronise(device, spec->stream);
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

/* The simplest unless something is clearly faster. */
static const char *winner(const trial_t *trial)
{
    int    best = 0;
    double least = CLEARLY * trial->seconds[0];

    for (int i = 1; i < trial->count; i++) {
        if (trial->seconds[i] >= least) continue;
        least = trial->seconds[i];
        best = i;
    }
    return trial->name[best];
}

static pdl_status_t find_fastest(const pdl__trials_t *trials, double bytes, const char **fastest)
{
    trial_t      trial = {.count = 0};
    pdl_status_t status = pdl_ranks_agree(trials->spec->ranks, make_trial(trials, bytes, &trial));

    if (!status) status = run_trial(trials->spec, &trial);
    if (!status) *fastest = winner(&trial);
    for (int i = 0; i < trial.count; i++) pdl__reduction_destroy(trial.reduction[i]);
    pdl_transport_give(trials->spec->transport, trial.data, trial.bytes);
    return status;
}

pdl_status_t pdl__trials_run(pdl__trials_t *trials, int64_t elements, const char **algorithm)
{
    double       bytes = (double)elements * (double)sizeof(float), size = sizeof(float);
    pdl_status_t status = PDL_OK;
    int class = 0;

    for (; size < bytes; size *= 2) class ++;
    if (trials->fastest[class] == NULL) status = find_fastest(trials, size, &trials->fastest[class]);
    *algorithm = trials->fastest[class];
    return status;
}
