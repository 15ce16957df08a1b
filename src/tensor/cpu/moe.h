/*
 * Mixture of experts: a router sends each token to its top_k experts, whose answers are weighed by the softmax over
 * the logits of these (as in Mixtral). An expert is down (silu(gate x) * up x) when gated, else down gelu(up x).
 *
 * Tokens are gathered expert by expert, a limited number at a time, so that everything is a matrix product of
 * moderate size; backward makes the inner values again.
 */
#ifndef PDL_TENSOR_CPU_MOE_H
#define PDL_TENSOR_CPU_MOE_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/gemm.h"

#define PDL__MOE_TOKENS 256 /* gathered at a time */

typedef struct pdl__moe {
    int64_t rows, in, out, hidden, top_k;
    int64_t experts, first, all; /* those here, where they begin among all, and how many these are */
    bool    gated;
    int     up; /* index of the weight `up`; gate, if there is one, comes before it and down after it */
} pdl__moe_t;

/* One expert that a token was sent to. */
typedef struct pdl__moe_choice {
    int32_t expert;
    float   share;
} pdl__moe_choice_t;

/* One run: what is saved, and the workspace. */
typedef struct pdl__moe_pass {
    const pdl__moe_t   *moe;
    const pdl_op_run_t *run;
    int                 threads;
    pdl__moe_choice_t  *choice; /* [rows][top_k] */
    int64_t            *list;   /* choices of the expert at work, as indices into `choice` */
    int64_t             count;  /* of them */
    float              *logit;  /* [rows][all]; backward: its gradient */
    float *x, *g, *u, *a, *y;   /* of the tokens gathered: [count][in], 3 [count][hidden], [count][out] */
    float *da, *dg, *du, *dx;   /* backward */
    void  *gemm;
} pdl__moe_pass_t;

/* Places the buffers in the workspace; with workspace NULL only their bytes count. Returns these. */
size_t pdl__moe_place(const pdl__moe_t *moe, int threads, bool backward, char *workspace, pdl__moe_pass_t *pass);

/* The next choices of `expert` of this rank, from *from on, into the list; false when there are none left. */
bool pdl__moe_next(pdl__moe_pass_t *pass, int64_t expert, int64_t *from);

/* Gathers the tokens of the list and computes g, u and a of an expert. */
void pdl__moe_inner(pdl__moe_pass_t *pass, int64_t expert);

/* c (+)= a b, with all threads. */
void pdl__moe_multiply(const pdl__moe_pass_t *pass, int64_t m, int64_t n, int64_t k, pdl__matrix_t a,
                       pdl__matrix_t b, float *c, bool add);

pdl_status_t pdl__moe_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what);

#endif
