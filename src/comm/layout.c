/*
 * Where the blocks of a schedule are in memory.
 */
#include "comm/layout.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* floor(b n / B), without overflow for any vector that fits into memory. */
static int64_t cut(int64_t n, int64_t b, int64_t blocks)
{
    return n / blocks * b + n % blocks * b / blocks;
}

static int compare_pairs(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Appends the pairs of which one step brings something that is for somebody else. */
static pdl_status_t add_relays(pdl__layout_t *layout, const pdl_moves_t *received, int64_t *capacity)
{
    for (int i = 0; i < received->range_count; i++) {
        for (int64_t k = 0; k < received->range[i].count; k++) {
            int64_t pair = (received->range[i].first + k) % layout->blocks / layout->pieces;

            if (pair % layout->ranks == layout->rank) continue;
            if (layout->relay_count == *capacity) {
                int64_t  more = *capacity > 0 ? 2 * *capacity : 64;
                int64_t *grown = realloc(layout->relay, (size_t)more * sizeof(*grown));

                if (grown == NULL) return pdl__no_memory("for the plan of a collective");
                layout->relay = grown;
                *capacity = more;
            }
            layout->relay[layout->relay_count++] = pair;
        }
    }
    return PDL_OK;
}

static pdl_status_t lay_all_to_all(pdl__layout_t *layout, const pdl_schedule_t *schedule, int64_t elements,
                                   pdl_moves_t *scratch)
{
    int64_t      capacity = 0;
    pdl_status_t status = PDL_OK;

    if (elements % layout->ranks != 0)
        return pdl_error(PDL_ERR_INPUT, "all-to-all of %" PRId64 " elements on %d ranks: the parts must be equal",
                         elements, layout->ranks);
    layout->pair_elements = elements / layout->ranks;
    layout->pieces = layout->blocks / ((int64_t)layout->ranks * layout->ranks);
    for (int s = 0; !status && s < pdl_schedule_steps(schedule); s++) {
        pdl_schedule_receives(schedule, s, layout->rank, scratch);
        status = add_relays(layout, scratch, &capacity);
    }
    if (layout->relay_count > 0)
        qsort(layout->relay, (size_t)layout->relay_count, sizeof(*layout->relay), compare_pairs);
    return status;
}

static pdl_status_t lay_vector(pdl__layout_t *layout, const pdl_schedule_t *schedule, int64_t elements,
                               const int64_t *counts)
{
    layout->block = calloc((size_t)layout->blocks, sizeof(*layout->block));
    layout->part = calloc((size_t)layout->ranks + 1, sizeof(*layout->part));
    if (layout->block == NULL || layout->part == NULL) return pdl__no_memory("for the plan of a collective");
    return pdl_schedule_place(schedule, elements, counts, layout->part, layout->block);
}

pdl_status_t pdl__layout_init(const pdl_schedule_t *schedule, int rank, int64_t elements, const int64_t *counts,
                              pdl_moves_t *scratch, pdl__layout_t *layout)
{
    pdl_status_t status;

    *layout = (pdl__layout_t){.rank = rank,
                              .ranks = pdl_schedule_ranks(schedule),
                              .blocks = pdl_schedule_blocks(schedule),
                              .all_to_all = pdl_schedule_collective(schedule) == PDL_COLL_ALLTOALL};
    if (layout->all_to_all)
        status = lay_all_to_all(layout, schedule, elements, scratch);
    else
        status = lay_vector(layout, schedule, elements, counts);
    if (status) pdl__layout_fini(layout);
    return status;
}

void pdl__layout_fini(pdl__layout_t *layout)
{
    free(layout->block);
    free(layout->part);
    free(layout->relay);
    *layout = (pdl__layout_t){0};
}

pdl_block_span_t pdl__layout_block(const pdl__layout_t *layout, int64_t block)
{
    int64_t pair, piece, first;

    if (!layout->all_to_all) return layout->block[block];
    pair = block / layout->pieces;
    piece = block % layout->pieces;
    first = cut(layout->pair_elements, piece, layout->pieces);
    return (pdl_block_span_t){.first = pair * layout->pair_elements + first,
                              .count = cut(layout->pair_elements, piece + 1, layout->pieces) - first};
}

pdl__piece_t pdl__layout_locate(const pdl__layout_t *layout, int64_t first, int64_t count)
{
    pdl__piece_t segment = {.area = PDL__AREA_DATA, .first = first, .count = count};
    int64_t      m = layout->pair_elements, pair, from, to;

    if (!layout->all_to_all) return segment;
    pair = first / m;
    from = pair / layout->ranks;
    to = pair % layout->ranks;
    if (to == layout->rank) {
        segment.first = from * m + first % m;
    } else if (from == layout->rank) {
        segment.area = PDL__AREA_INPUT;
        segment.first = to * m + first % m;
    } else {
        const int64_t *found =
            bsearch(&pair, layout->relay, (size_t)layout->relay_count, sizeof(pair), compare_pairs);

        assert(found != NULL && "a rank passes on only what it has received");
        segment.area = PDL__AREA_RELAY;
        segment.first = (found - layout->relay) * m + first % m;
    }
    if (segment.count > m - first % m) segment.count = m - first % m;
    return segment;
}
