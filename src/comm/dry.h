/*
 * What a reduction of dry ranks would send and hold on one rank: counted, not sent.
 */
#ifndef PDL_COMM_DRY_H
#define PDL_COMM_DRY_H

#include "comm/inside.h"

#include <stdint.h>

typedef struct pdl__counted {
    int64_t sent;                    /* bytes in one run */
    int64_t slots_bytes, pack_bytes; /* of the lane: the most that any of its reductions needs */
    size_t  held;                    /* of its own */
} pdl__counted_t;

/* As pdl__reduction_create() would make it on rank `rank` of `ranks`. */
pdl_status_t pdl__count_reduction(const pdl__reduction_spec_t *spec, int rank, int ranks, pdl__counted_t *counted);
/* MPI does not say what it sends; every collective of least volume sends as much as a ring. */
int64_t pdl__library_bytes(const pdl__reduction_spec_t *spec, int ranks);

/* What a rank chooses by in a sparse sum. */
pdl_topk_spec_t pdl__topk_of(const pdl__reduction_spec_t *spec);
/* Words of its longest message. */
int64_t pdl__sparse_words(const pdl__reduction_spec_t *spec, int ranks);
/* Of a sparse sum: bytes to expect that a rank sends, and memory that it holds. */
pdl_status_t pdl__count_sparse(const pdl__reduction_spec_t *spec, int ranks, pdl__counted_t *counted);

#endif
