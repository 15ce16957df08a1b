/*
 * Who gives what when pieces of a tensor move between the members of a group: member r owns a region and needs another,
 * and gets what it lacks from the lowest member that owns it. From regions alone: comm moves the parts, a program says
 * how many bytes they are.
 */
#ifndef PARADL_PARTS_H
#define PARADL_PARTS_H

#include <paradl/plan/boxes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What one other member gets from here, or gives; the first side of its boxes is the region here, the second the
   message. */
typedef struct pdl_part {
    int         peer;
    pdl_boxes_t boxes;
    bool        run;    /* of memory: forward needs no buffer */
    int         packed; /* the part whose buffer forward sends: an earlier one where several members get the same */
} pdl_part_t;

typedef struct pdl_parts {
    pdl_part_t *part;
    int         count;
    int64_t     elements;
} pdl_parts_t;

typedef struct pdl_move_parts {
    int         member;
    pdl_boxes_t local;        /* between own and need */
    pdl_parts_t gives, takes; /* in the order of the members */
    int64_t     own_elements, need_elements;
    bool        gaps;        /* some of what is needed is owned by nobody */
    bool        local_first; /* backward may add its own contribution before the others */
} pdl_move_parts_t;

/* Of all regions the number of dimensions is the same, the ranges of a dimension are increasing and disjoint, and
   indices are 0 or more; two own regions are disjoint, or equal where a tensor is replicated. Else PDL_ERR_INPUT. */
pdl_status_t pdl_move_parts_init(const pdl_region_t *own, const pdl_region_t *need, int members, int member,
                                 pdl_move_parts_t *parts);
void         pdl_move_parts_fini(pdl_move_parts_t *parts);

/* Whether a part goes through a buffer: every gift does, because backward adds what comes back. */
bool pdl_move_buffers(const pdl_move_parts_t *parts, const pdl_parts_t *side, int i);
/* Bytes of a buffer, padded to a cache line; and of all of them, with elements of `item` bytes. Behind the parts there
   are sums in float where elements are shorter. */
int64_t pdl_move_padded(int64_t bytes);
int64_t pdl_move_buffer_size(const pdl_move_parts_t *parts, int64_t item);
bool    pdl_move_sums_apart(const pdl_move_parts_t *parts, int64_t item);

#ifdef __cplusplus
}
#endif
#endif
