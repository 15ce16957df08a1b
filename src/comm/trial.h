/*
 * A short trial of schedules for a bucket.
 */
#ifndef PDL_COMM_TRIAL_H
#define PDL_COMM_TRIAL_H

#include "comm/transport.h"

#include <paradl/comm/exchange.h>

#define PDL__CLASSES 64 /* sizes of buckets, by powers of two */

/* Of one exchange, whose buckets of about one size are tried once. */
typedef struct pdl__trials {
    const pdl_exchange_spec_t *spec;
    const pdl__lanes_t        *lanes;
    const char                *fastest[PDL__CLASSES]; /* where known */
} pdl__trials_t;

/* Collective. The fastest way to sum so many elements: a common schedule, or "library". The name lasts forever. */
pdl_status_t pdl__trials_run(pdl__trials_t *trials, int64_t elements, const char **algorithm);

#endif
