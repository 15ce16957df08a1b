/*
 * Checks the regions of a move.
 */
#include "comm/regions_check.h"
#include "comm/regions_copy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ELEMENTS (INT64_MAX / (int64_t)sizeof(float))

static pdl_status_t check_dimension(const char *what, int member, const pdl_region_t *region, int d)
{
    int64_t next = 0;

    if (region->segments[d] < 0 || region->segments[d] > PDL_REGION_SEGMENTS)
        return pdl_error(PDL_ERR_INPUT,
                         "the region that member %d %s: dimension %d has %d ranges: expected 0 to %d", member, what,
                         d, region->segments[d], PDL_REGION_SEGMENTS);
    for (int s = 0; s < region->segments[d]; s++) {
        pdl_range_t range = region->range[d][s];

        if (range.low < next || range.high < range.low)
            return pdl_error(PDL_ERR_INPUT,
                             "the region that member %d %s: range %d of dimension %d is [%" PRId64 ", %" PRId64
                             "): expected increasing ranges from %" PRId64,
                             member, what, s, d, range.low, range.high, next);
        next = range.high;
    }
    return PDL_OK;
}

static pdl_status_t check_region(const char *what, int member, const pdl_region_t *region, int rank)
{
    int64_t room = MOST_ELEMENTS;

    if (region->rank < 1 || region->rank > PDL_REGION_DIMS)
        return pdl_error(PDL_ERR_INPUT, "the region that member %d %s has %d dimensions: expected 1 to %d", member,
                         what, region->rank, PDL_REGION_DIMS);
    if (region->rank != rank)
        return pdl_error(PDL_ERR_INPUT, "the region that member %d %s has %d dimensions, that of member 0 has %d",
                         member, what, region->rank, rank);
    for (int d = 0; d < rank; d++) {
        pdl_status_t status = check_dimension(what, member, region, d);

        if (status) return status;
        room /= pdl_region_extent(region, d) > 0 ? pdl_region_extent(region, d) : 1;
    }
    if (room == 0)
        return pdl_error(PDL_ERR_LIMIT, "the region that member %d %s has more than %" PRId64 " elements", member,
                         what, MOST_ELEMENTS);
    return PDL_OK;
}

static pdl_status_t find_owners(pdl__members_t *members)
{
    for (int r = 0; r < members->count; r++) {
        members->owner[r] = r;
        for (int s = 0; s < r; s++) {
            if (!pdl__region_meet(&members->own[r], &members->own[s])) continue;
            if (!pdl__region_equal(&members->own[r], &members->own[s]))
                return pdl_error(PDL_ERR_INPUT,
                                 "members %d and %d own regions that overlap and are not equal: only whole regions "
                                 "can be replicated",
                                 s, r);
            members->owner[r] = members->owner[s];
            break;
        }
    }
    return PDL_OK;
}

pdl_status_t pdl__members_init(const pdl_move_spec_t *spec, pdl__members_t *members)
{
    size_t       count = (size_t)pdl_ranks_size(spec->group);
    pdl_status_t status = PDL_OK;

    *members = (pdl__members_t){.count = (int)count};
    for (int r = 0; !status && r < members->count; r++) {
        status = check_region("owns", r, &spec->own[r], spec->own[0].rank);
        if (!status) status = check_region("needs", r, &spec->need[r], spec->own[0].rank);
    }
    if (status) return status;
    members->own = malloc(count * sizeof(*members->own));
    members->need = malloc(count * sizeof(*members->need));
    members->owner = malloc(count * sizeof(*members->owner));
    if (members->own == NULL || members->need == NULL || members->owner == NULL) {
        pdl__members_fini(members);
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the regions of %zu members", count);
    }
    memcpy(members->own, spec->own, count * sizeof(*members->own));
    memcpy(members->need, spec->need, count * sizeof(*members->need));
    for (size_t r = 0; r < count; r++) {
        pdl__region_tidy(&members->own[r]);
        pdl__region_tidy(&members->need[r]);
    }
    status = find_owners(members);
    if (status) pdl__members_fini(members);
    return status;
}

void pdl__members_fini(pdl__members_t *members)
{
    free(members->own);
    free(members->need);
    free(members->owner);
    *members = (pdl__members_t){0};
}
