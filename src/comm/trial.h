/*
 * A short trial of schedules for a bucket.
 */
#ifndef PDL_COMM_TRIAL_H
#define PDL_COMM_TRIAL_H

#include "comm/inside.h"

#include <paradl/comm/exchange.h>

#define PDL__CLASSES 64 /* sizes of buckets, by powers of two */

/* Where reductions are made: in memory of the host, or of a device. */
typedef struct pdl__reducers {
    pdl__lanes_t             *mpi;
    struct pdl__device_lanes *device;
} pdl__reducers_t;

/* exchange.c */
pdl_status_t pdl__reducers_create(const pdl__reducers_t *reducers, const pdl__reduction_spec_t *spec,
                                  pdl__reduction_t **reduction);
/* Fills in how long messages may be. */
void pdl__cut_messages(const pdl_exchange_spec_t *spec, pdl__reduction_spec_t *wanted);

/* Of one exchange, whose buckets of about one size are tried once. */
typedef struct pdl__trials {
    const pdl_exchange_spec_t *spec;
    const pdl__reducers_t     *reducers;              /* NULL: of dry ranks */
    const char                *fastest[PDL__CLASSES]; /* where known */
} pdl__trials_t;

/* Collective. The fastest way to sum so many elements: a common schedule, or "library". The name lasts forever. */
pdl_status_t pdl__trials_run(pdl__trials_t *trials, int64_t elements, const char **algorithm);

#endif
