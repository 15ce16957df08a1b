/*
 * The simulator of a chain without checks and allocations, for the solver.
 */
#ifndef PDL_ORACLE_CHAIN_SIMULATE_H
#define PDL_ORACLE_CHAIN_SIMULATE_H

#include <paradl/oracle/chain.h>
#include <stdbool.h>

typedef struct pdl__chain_run {
    const pdl_chain_t         *chain;
    const pdl_memory_policy_t *policy;
    double                    *out_end; /* when the copy out of every block is complete */
    const pdl_chain_detail_t  *detail;  /* NULL: not wanted */
    double                     now, used, out_free;
    int                        leaving; /* the first block whose copy out has not released its memory */
    /* backward */
    int                next;   /* the block that computes, or will */
    int                coming; /* the block whose activations are copied in, or will be; below 0: none is left */
    bool               computes, copies_in;
    double             compute_start, compute_end, in_end, idle_since;
    pdl_chain_result_t result;
} pdl__chain_run_t;

/* -1, or the block for which memory does not suffice. `out_end` has room for every block. */
int pdl__chain_run(const pdl_chain_t *chain, const pdl_memory_policy_t *policy, double *out_end,
                   const pdl_chain_detail_t *detail, pdl_chain_result_t *result);

/* Without a link nothing is copied, and without cheap layers there is nothing to gain from them. */
bool pdl__chain_allows(const pdl_chain_t *chain, pdl_memory_policy_t policy);

#endif
