/*
 * Out-of-core training of a chain of blocks: what becomes of the activations of every block between forward and
 * backward, so that a device with little memory takes the least time.
 *
 *     pdl_memory_policy_t policy[BLOCKS];
 *     pdl_chain_result_t  result;
 *     pdl_chain_solve(&chain, policy, &result);
 *     printf("%g s, %g bytes\n", result.step_s, result.peak_bytes);
 *
 * The device computes one block at a time, a link copies activations to the host and another one back, both in order.
 * Forward: a block waits until its activations fit. KEEP holds them; SWAP copies them out and releases them when that is
 * done; RECOMPUTE releases all but the boundary input at once; SWAP_BOUNDARY copies out the boundary input too;
 * RECOMPUTE_CHEAP releases what is cheap to compute again, and SWAP_CHEAP copies out the rest.
 * Backward: what was copied out is copied in, last block first, as soon as the link is free and memory is left for
 * the blocks that are recomputed before it is used; what was released is computed again.
 */
#ifndef PARADL_CHAIN_H
#define PARADL_CHAIN_H

#include <paradl/base/status.h>
#include <paradl/oracle/oracle.h>
#include <paradl/plan/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl_chain_block {
    double forward_s, backward_s;
    double bytes;          /* activations that backward reads, the boundary input included */
    double boundary_bytes; /* input of the block: what recomputation begins with */
    /* What is kept where only cheap layers are computed again, and the time of that; 0 bytes: there are none. */
    double cheap_bytes, cheap_s;
} pdl_chain_block_t;

typedef struct pdl_chain {
    const pdl_chain_block_t *block;
    int                      count;
    double                   memory_bytes;      /* for activations */
    double                   out_rate, in_rate; /* device to host and back, bytes/s; 0: nothing is copied */
    double                   latency_s;         /* of every copy */
} pdl_chain_t;

typedef struct pdl_chain_result {
    double step_s, peak_bytes;
    double stall_s;     /* the device waits for copies or memory */
    double recompute_s; /* forward passes that are repeated */
    double out_s, in_s; /* the links are busy */
    double in_core_s;   /* the step, were there memory enough */
} pdl_chain_result_t;

/* Of every block, where wanted (NULL: not). */
typedef struct pdl_chain_detail {
    double *stall_s;                  /* the device waits for it, forward and backward together */
    int    *release_after, *prefetch; /* distances of its copies, as in pdl_plan_block_t; 1 without copies */
} pdl_chain_detail_t;

/* The step that these policies give; `detail` may be NULL.
   PDL_ERR_UNSUPPORTED when memory does not suffice; the message says at which block. PDL_ERR_INPUT when the chain makes no
   sense. */
pdl_status_t pdl_chain_simulate(const pdl_chain_t *chain, const pdl_memory_policy_t *policy,
                                pdl_chain_result_t *result, const pdl_chain_detail_t *detail);

/* The best policies found: never worse than all blocks alike, or the first ones alike and the others kept.
   PDL_ERR_UNSUPPORTED when none fits; the message names the smallest memory that does. */
pdl_status_t pdl_chain_solve(const pdl_chain_t *chain, pdl_memory_policy_t *policy, pdl_chain_result_t *result);

/* What the activations of a rank may take, and what was counted of the plan while it keeps everything: its arena, and what is
   beside it (0: nothing is). Filled in: what they take with the policies that take least, of those that were tried. */
typedef struct pdl_block_limit {
    double bytes, counted_bytes, least_bytes;
} pdl_block_limit_t;

/* Policies for blocks of a plan without stages, such that activations keep within the limit: the plan gets blocks, or none where it
   fits without. The chain is that of one micro-batch. */
pdl_status_t pdl_oracle_choose_blocks(pdl_oracle_t *oracle, pdl_plan_t *plan, pdl_block_limit_t *limit,
                                      pdl_chain_result_t *result);

/* Bytes of a block under a policy that stay from forward to backward, on the device or copied to the host, and what is
   computed again. */
double pdl_chain_held_bytes(const pdl_chain_block_t *block, pdl_memory_policy_t policy);
double pdl_chain_repeated_s(const pdl_chain_block_t *block, pdl_memory_policy_t policy);

/* The least memory with which any policy works. */
double pdl_chain_least_bytes(const pdl_chain_t *chain);

#ifdef __cplusplus
}
#endif
#endif
