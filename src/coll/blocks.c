/*
 * Where the blocks of a vector are.
 */
#include "base/memory.h"
#include "coll/internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Where the parts of the ranks begin, and the end. */
static pdl_status_t find_parts(int ranks, int64_t elements, const int64_t *counts, int64_t *part)
{
    part[0] = 0;
    for (int r = 0; r < ranks; r++)
        part[r + 1] = counts != NULL ? part[r] + counts[r] : pdl__first_element(r + 1, ranks, elements);
    if (part[ranks] != elements)
        return pdl_error(PDL_ERR_INPUT, "the parts of the ranks have %" PRId64 " elements, the vector has %" PRId64,
                         part[ranks], elements);
    return PDL_OK;
}

/* The blocks that a rank owns, in order, share its part [low, high); true if all is well. */
static bool place_part(const pdl_schedule_t *schedule, const pdl_moves_t *owned, int64_t low, int64_t high,
                       pdl_block_span_t *block)
{
    int64_t blocks = pdl_schedule_blocks(schedule), share = blocks / pdl_schedule_ranks(schedule), j = 0;

    for (int i = 0; i < owned->range_count; i++)
        for (int64_t k = 0; k < owned->range[i].count; k++, j++) {
            pdl_block_span_t *b = &block[(owned->range[i].first + k) % blocks];

            if (j >= share || b->first >= 0) return false;
            b->first = low + pdl__first_element(j, share, high - low);
            b->count = low + pdl__first_element(j + 1, share, high - low) - b->first;
        }
    return j == share;
}

pdl_status_t pdl__unequal_parts(const pdl_schedule_t *schedule)
{
    return pdl_error(PDL_ERR_LIMIT,
                     "%s on %d ranks does not give every rank an equal part: choose another algorithm",
                     pdl_schedule_algorithm(schedule), pdl_schedule_ranks(schedule));
}

static pdl_status_t place_parts(const pdl_schedule_t *schedule, int64_t elements, const int64_t *counts,
                                int64_t *part, pdl_block_span_t *block)
{
    int          ranks = pdl_schedule_ranks(schedule);
    pdl_moves_t *owned = malloc(sizeof(*owned));
    bool         fits = pdl_schedule_blocks(schedule) % ranks == 0;
    pdl_status_t status =
        owned == NULL ? pdl__no_memory("for the plan of a collective") : find_parts(ranks, elements, counts, part);

    for (int64_t b = 0; b < pdl_schedule_blocks(schedule); b++) block[b].first = -1;
    for (int r = 0; fits && r < ranks && !status; r++) {
        pdl_schedule_owned(schedule, r, owned);
        fits = place_part(schedule, owned, part[r], part[r + 1], block);
    }
    if (!status && !fits) status = pdl__unequal_parts(schedule);
    free(owned);
    return status;
}

pdl_status_t pdl_schedule_place(const pdl_schedule_t *schedule, int64_t elements, const int64_t *counts,
                                int64_t *part, pdl_block_span_t *block)
{
    pdl_collective_t collective = pdl_schedule_collective(schedule);
    int64_t          blocks = pdl_schedule_blocks(schedule);

    if (collective == PDL_COLL_REDUCE_SCATTER || collective == PDL_COLL_ALLGATHER)
        return place_parts(schedule, elements, counts, part, block);
    for (int64_t b = 0; b < blocks; b++) {
        block[b].first = pdl__first_element(b, blocks, elements);
        block[b].count = pdl__first_element(b + 1, blocks, elements) - block[b].first;
    }
    return PDL_OK;
}
