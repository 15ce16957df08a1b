/*
 * What a reduction would send and hold on one rank, worked out without anybody to send to.
 */
#ifndef PDL_COMM_PRETEND_H
#define PDL_COMM_PRETEND_H

#include "comm/transport.h"

#include <stdint.h>

typedef struct pdl__pretended {
    int64_t sent;                    /* bytes in one run */
    int64_t slots_bytes, pack_bytes; /* of the lane: the most that any of its reductions needs */
} pdl__pretended_t;

/* As pdl__reduction_create() would make it on rank `rank` of `ranks`. */
pdl_status_t pdl__pretend_reduction(const pdl__reduction_spec_t *spec, int rank, int ranks,
                                    pdl__pretended_t *pretended);
/* MPI keeps its ways to itself; every collective of least volume sends as much as a ring. */
int64_t pdl__library_bytes(const pdl__reduction_spec_t *spec, int ranks);

#endif
