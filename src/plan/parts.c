/*
 * What members of a move give and take.
 */
#include <paradl/plan/parts.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT     64 /* bytes: of each message in a buffer, that of a cache line */
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

/* The regions of all members, tidy. */
typedef struct members {
    int           count;
    pdl_region_t *own, *need;
    int          *owner; /* the lowest member that owns the same region */
} members_t;

/* Whether members follow one another along some dimension: then nobody owns what another one does. */
static bool in_a_row(const members_t *members)
{
    for (int d = 0; d < members->own[0].rank; d++) {
        bool row = true;
        for (int r = 0; r < members->count && row; r++)
            row = members->own[r].segments[d] == 1 &&
                  (r == 0 || members->own[r - 1].range[d][0].high <= members->own[r].range[d][0].low);
        if (row) return true;
    }
    return false;
}

static pdl_status_t find_owners(members_t *members)
{
    for (int r = 0; r < members->count; r++) members->owner[r] = r;
    if (in_a_row(members)) return PDL_OK;
    for (int r = 0; r < members->count; r++) {
        for (int s = 0; s < r; s++) {
            if (!pdl_region_meet(&members->own[r], &members->own[s])) continue;
            if (!pdl_region_equal(&members->own[r], &members->own[s]))
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

static void free_members(members_t *members)
{
    free(members->own);
    free(members->need);
    free(members->owner);
}

static pdl_status_t take_members(const pdl_region_t *own, const pdl_region_t *need, int count, members_t *members)
{
    size_t       size = (size_t)count;
    pdl_status_t status = PDL_OK;

    *members = (members_t){.count = count};
    for (int r = 0; !status && r < count; r++) {
        status = check_region("owns", r, &own[r], own[0].rank);
        if (!status) status = check_region("needs", r, &need[r], own[0].rank);
    }
    if (status) return status;
    members->own = malloc(size * sizeof(*members->own));
    members->need = malloc(size * sizeof(*members->need));
    members->owner = malloc(size * sizeof(*members->owner));
    if (members->own == NULL || members->need == NULL || members->owner == NULL)
        return pdl_error(PDL_ERR_NOMEM, "out of memory for the regions of %d members", count);
    memcpy(members->own, own, size * sizeof(*own));
    memcpy(members->need, need, size * sizeof(*need));
    for (int r = 0; r < count; r++) {
        pdl_region_tidy(&members->own[r]);
        pdl_region_tidy(&members->need[r]);
    }
    return find_owners(members);
}

/* Whether member r takes from s what s owns and r needs. */
static bool takes_from(const members_t *members, int r, int s)
{
    return r == s || (members->owner[s] == s && members->owner[r] != s);
}

static pdl_status_t add_part(pdl_parts_t *parts, int peer, const pdl_region_t *own, const pdl_region_t *need,
                             bool gives)
{
    pdl_part_t  *part = &parts->part[parts->count];
    pdl_status_t status =
        pdl_boxes_init(own, need, gives ? PDL_BOXES_A_MESSAGE : PDL_BOXES_B_MESSAGE, &part->boxes);

    if (status || part->boxes.elements == 0) return status;
    part->peer = peer;
    part->run = pdl_boxes_run(&part->boxes);
    part->packed = parts->count++;
    for (int i = 0; gives && i < part->packed; i++) {
        if (pdl_boxes_equal(&parts->part[i].boxes, &part->boxes)) part->packed = i;
    }
    parts->elements += part->boxes.elements;
    return PDL_OK;
}

static pdl_status_t find_parts(const members_t *members, pdl_move_parts_t *parts)
{
    int                 me = parts->member;
    const pdl_region_t *own = &members->own[me], *need = &members->need[me];
    pdl_status_t        status = pdl_boxes_init(own, need, PDL_BOXES_A_B, &parts->local);

    parts->own_elements = pdl_region_elements(own);
    parts->need_elements = pdl_region_elements(need);
    for (int peer = 0; !status && peer < members->count; peer++) {
        if (peer == me) continue;
        if (takes_from(members, peer, me)) status = add_part(&parts->gives, peer, own, &members->need[peer], true);
        if (!status && takes_from(members, me, peer))
            status = add_part(&parts->takes, peer, &members->own[peer], need, false);
    }
    parts->gaps = parts->local.elements + parts->takes.elements < parts->need_elements;
    return status;
}

/* As a + b is b + a, our own contribution may come first as long as no element gets two from lower members. */
static bool may_add_local_first(const members_t *members, const pdl_move_parts_t *parts)
{
    const pdl_parts_t *gives = &parts->gives;

    if (parts->local.elements == 0) return false;
    for (int i = 0; i < gives->count && gives->part[i].peer < parts->member; i++) {
        for (int k = 0; k < i; k++) {
            if (pdl_region_meet(&members->need[gives->part[i].peer], &members->need[gives->part[k].peer]))
                return false;
        }
    }
    return true;
}

pdl_status_t pdl_move_parts_init(const pdl_region_t *own, const pdl_region_t *need, int count, int member,
                                 pdl_move_parts_t *parts)
{
    members_t    members;
    pdl_status_t status = take_members(own, need, count, &members);

    *parts = (pdl_move_parts_t){.member = member};
    if (!status) {
        parts->gives.part = calloc((size_t)count, sizeof(pdl_part_t));
        parts->takes.part = calloc((size_t)count, sizeof(pdl_part_t));
        if (parts->gives.part == NULL || parts->takes.part == NULL)
            status = pdl_error(PDL_ERR_NOMEM, "out of memory for a move between %d members", count);
    }
    if (!status) status = find_parts(&members, parts);
    if (!status) parts->local_first = may_add_local_first(&members, parts);
    if (status) pdl_move_parts_fini(parts);
    free_members(&members);
    return status;
}

static void free_parts(pdl_parts_t *parts)
{
    for (int i = 0; i < parts->count; i++) pdl_boxes_fini(&parts->part[i].boxes);
    free(parts->part);
}

void pdl_move_parts_fini(pdl_move_parts_t *parts)
{
    free_parts(&parts->gives);
    free_parts(&parts->takes);
    pdl_boxes_fini(&parts->local);
    *parts = (pdl_move_parts_t){0};
}

bool pdl_move_buffers(const pdl_move_parts_t *parts, const pdl_parts_t *side, int i)
{
    return side == &parts->gives || !side->part[i].run;
}

int64_t pdl_move_padded(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

bool pdl_move_sums_apart(const pdl_move_parts_t *parts, int64_t item)
{
    return item < (int64_t)sizeof(float) && parts->gives.count > 0;
}

int64_t pdl_move_buffer_size(const pdl_move_parts_t *parts, int64_t item)
{
    const pdl_parts_t *both[2] = {&parts->gives, &parts->takes};
    int64_t            bytes = 0;

    for (int b = 0; b < 2; b++)
        for (int i = 0; i < both[b]->count; i++)
            if (pdl_move_buffers(parts, both[b], i))
                bytes += pdl_move_padded(both[b]->part[i].boxes.elements * item);
    if (pdl_move_sums_apart(parts, item)) bytes += pdl_move_padded(parts->own_elements * (int64_t)sizeof(float));
    return bytes;
}
