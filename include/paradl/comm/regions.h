/*
 * Moving pieces of a tensor between the ranks of a group. Every redistribution of a plan is one idea: rank r owns a
 * region o_r and needs a region q_r, and o_s intersected with q_r goes from s to r. Allgather, halo exchange,
 * all-to-all and shifted cuts differ only in the regions; reduce-scatter is the transpose of an allgather: what was
 * needed goes back and is added at its owner.
 *
 *     own[r]  = rows [10 r, 10 r + 10) of a [n][c][h][w] tensor, need[r] = the same widened by one row
 *     pdl_move_create(&spec, &move);
 *     pdl_move_forward(move, piece, widened);       // halo exchange
 *     pdl_move_backward(move, d_widened, d_piece);  // its transpose: the halo's gradient is added at its owner
 *     pdl_move_destroy(move);
 *
 * A region is dense in memory, in the order of the tensor's dimensions.
 *
 * Who gives what: an element that a member needs comes from that member itself if it owns it, else from the lowest
 * member that owns it; if nobody does it is zero. Forward is thus a linear map from the own regions of all members,
 * laid one after the other, to their need regions, and backward is exactly its transpose: a value goes back to the
 * member it came from and to no other, and is added there. Of members that own the same region, one that gave
 * nothing to others gets only its own contribution back, and their sum is the gradient of what they share.
 * Contributions to an element are added in the order of the ranks, the owner's own among them, so that results have
 * the same bits in every run.
 */
#ifndef PARADL_REGIONS_H
#define PARADL_REGIONS_H

#include <paradl/base/status.h>
#include <paradl/comm/transport.h>
#include <paradl/plan/layout.h>
#include <paradl/tensor/backend.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of all regions of a move the number of dimensions is the same, the ranges of a dimension are increasing and
   disjoint, and indices are 0 or more. */
typedef struct pdl_move_spec {
    pdl_ranks_t        *group; /* borrowed; members are its ranks */
    const pdl_region_t *own;   /* of every member: any two are disjoint, or equal where a tensor is replicated */
    const pdl_region_t *need;  /* of every member */
    pdl_dtype_t         type; /* of the elements: PDL_DTYPE_F32, which is 0, or PDL_DTYPE_BF16. What lies in 32 bits
                                  may be moved as float as long as nothing is added */
    pdl_transport_t    *transport; /* which the group has joined; NULL: regions are in memory of the CPU */
} pdl_move_spec_t;

typedef struct pdl_move pdl_move_t;

/* Local; the same arguments on every member. Makes the lists and buffers of both directions:
   the others do not allocate. */
pdl_status_t pdl_move_create(const pdl_move_spec_t *spec, pdl_move_t **move);
/* Local, before the group is destroyed; the host has waited for the streams of its moves. NULL is allowed. */
void pdl_move_destroy(pdl_move_t *move);

/* Collective over the group; members start their moves in the same order, and several may be under way. `own` holds
   this member's own region; `need` is written. They do not overlap, and may be NULL where a region is empty. What the
   device does is done in `stream`: the caller puts it behind what fills the source, and what reads the target behind it. */
pdl_status_t pdl_move_forward(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *own, void *need);
/* Collective. The transpose: `need` holds this member's contribution to its need region; `own` is written with the
   sum of what comes back to it, zero where nothing does. Elements of 16 bits are added in 32 and rounded once. */
pdl_status_t pdl_move_backward(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *need, void *own);

/* Collective. Either of them in two halves, so that something can be computed in between: the buffers are used
   until finish. In between, forward's target already holds what this member takes from itself. */
pdl_status_t pdl_move_start(pdl_move_t *move, pdl_tensor_stream_t *stream, const void *source, void *target,
                            int backward);
pdl_status_t pdl_move_finish(pdl_move_t *move);

/* Bytes this member sends in one forward or backward. */
int64_t pdl_move_bytes(const pdl_move_t *move, int backward);
/* Bytes of the buffers that the move holds. */
int64_t pdl_move_buffer_bytes(const pdl_move_t *move);

#ifdef __cplusplus
}
#endif
#endif
