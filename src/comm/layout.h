/*
 * Where the blocks of a schedule are in memory. Two views: the global one, the same on every rank, in which messages are
 * cut; and the local one, which says where a rank keeps what it sends and receives.
 *
 * Except for all-to-all both are the vector itself. Its blocks are in order, or, where every rank has a part of
 * its own (reduce-scatter, allgather), each block is in the part of the rank that owns it. All-to-all has
 * blocks for P*P pairs of ranks, of which a rank keeps only three kinds: its input, its result, and what it
 * passes on.
 */
#ifndef PDL_COMM_LAYOUT_H
#define PDL_COMM_LAYOUT_H

#include <paradl/coll/coll.h>
#include <stdbool.h>

typedef enum pdl__area { PDL__AREA_DATA, PDL__AREA_INPUT, PDL__AREA_RELAY, PDL__AREA_COUNT } pdl__area_t;

typedef struct pdl__piece {
    pdl__area_t area;
    int64_t     first, count; /* elements */
} pdl__piece_t;

typedef struct pdl__layout {
    int               rank, ranks;
    bool              all_to_all;
    int64_t           blocks;
    pdl_block_span_t *block; /* elements of each; NULL for all-to-all */
    int64_t          *part;  /* first element of each rank's part, and the end; 0 where ranks have none */
    /* All-to-all: */
    int64_t  pair_elements; /* from one rank to another */
    int64_t  pieces;        /* blocks that these are cut into */
    int64_t *relay;         /* the pairs source*P + destination of which this rank passes something on, ascending */
    int64_t  relay_count;
} pdl__layout_t;

/* `elements` and `counts` as in pdl_executor_spec_t. `scratch` is overwritten. */
pdl_status_t pdl__layout_init(const pdl_schedule_t *schedule, int rank, int64_t elements, const int64_t *counts,
                              pdl_moves_t *scratch, pdl__layout_t *layout);
void         pdl__layout_fini(pdl__layout_t *layout);

/* A block in the global view. */
pdl_block_span_t pdl__layout_block(const pdl__layout_t *layout, int64_t block);
/* The longest stretch of at most `count` elements from `first` on, both in the global view, that is one segment
   of this rank. */
pdl__piece_t pdl__layout_locate(const pdl__layout_t *layout, int64_t first, int64_t count);

#endif
