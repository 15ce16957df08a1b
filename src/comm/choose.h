/*
 * The algorithm of a bucket.
 */
#ifndef PDL_COMM_CHOOSE_H
#define PDL_COMM_CHOOSE_H

#include "comm/transport.h"

#include <paradl/coll/coll.h>
#include <paradl/comm/exchange.h>

#define PDL__CANDIDATES 5
#define PDL__CLASSES    64 /* sizes of buckets, by powers of two */

typedef struct pdl__chooser {
    const pdl_exchange_spec_t *spec;
    const pdl__lanes_t        *lanes;
    pdl_coll_price_t price[PDL__CANDIDATES]; /* per byte but for the start-ups; those below 0: impossible */
    const char      *fastest[PDL__CLASSES];  /* where measured */
} pdl__chooser_t;

/* A schedule for so many bytes on this machine's memory: pdl_schedule_create() with the segments that suit the size. */
pdl_status_t pdl__create_sized(pdl_schedule_spec_t spec, double bytes, pdl_schedule_t **schedule);

void pdl__chooser_init(const pdl_exchange_spec_t *spec, const pdl__lanes_t *lanes, pdl__chooser_t *chooser);

/* Collective for "measure". The name is that of `wanted`, or lasts forever. */
pdl_status_t pdl__choose_algorithm(pdl__chooser_t *chooser, const char *wanted, int64_t elements,
                                   const char **algorithm);

#endif
