/*
 * Mixture of experts: a router sends each token to its top_k experts, whose answers are weighed by the softmax over
 * the logits of these (as in Mixtral). An expert is down (silu(gate x) * up x) when gated, else down gelu(up x).
 *
 * Tokens are gathered expert by expert, a limited number at a time, so that everything is a matrix product of
 * moderate size; backward makes the inner values again. Where experts are on several ranks (moe_route.c), tokens
 * are sent to those who have the experts they chose, and what these make of them comes back.
 */
#ifndef PDL_TENSOR_CPU_MOE_H
#define PDL_TENSOR_CPU_MOE_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/matmul/gemm.h"

#define PDL__MOE_TOKENS 256 /* gathered at a time */

typedef struct pdl__moe {
    int64_t rows, in, out, hidden, top_k;
    int64_t experts, all; /* those here, and of all ranks */
    bool    gated;
    int     up; /* index of the weight `up`; gate, if there is one, comes before it and down after it */
    /* Where experts are on several ranks: */
    int      rank, ranks; /* 1: all are here */
    int64_t *first;       /* [ranks + 1]: where those of every rank begin */
    int64_t  most;        /* rows that may come here */
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
    const float        *from;   /* rows of which the expert at work takes its tokens */
    int64_t             share;  /* of an entry of the list: so many choices have a row in common */
    int64_t            *list;   /* what the expert at work has to do: choices, or rows that have come */
    int64_t             count;  /* of them */
    float              *logit;  /* [rows][all]; backward: its gradient */
    float *x, *g, *u, *a, *y;   /* of the tokens gathered: [count][in], 3 [count][hidden], [count][out] */
    float *da, *dg, *du, *dx;   /* backward */
    void  *gemm;
    void  *routes; /* what moe_route.c needs besides */
} pdl__moe_pass_t;

/* Places the buffers in the workspace; with workspace NULL only their bytes count. Returns these. */
size_t pdl__moe_place(const pdl__moe_t *moe, int threads, bool backward, char *workspace, pdl__moe_pass_t *pass);
/* A pass over an op's tensors, either way. */
pdl__moe_pass_t pdl__moe_begin(const pdl_op_t *op, const pdl_op_run_t *run);

/* Logits of all tokens, and the experts they choose. */
void pdl__moe_choose(pdl__moe_pass_t *pass);

/* The next choices of `expert`, from *from on, into the list; false when there are none left. */
bool pdl__moe_next(pdl__moe_pass_t *pass, int64_t expert, int64_t *from);

/* Gathers the tokens of the list and computes g, u and a of an expert; and y from a. */
void pdl__moe_inner(pdl__moe_pass_t *pass, int64_t expert);
void pdl__moe_answer(const pdl__moe_pass_t *pass, int64_t expert);

/* to += share from, elements of a row. */
void pdl__moe_add(int64_t count, float share, const float *from, float *to);

/* c (+)= a b, with all threads. */
void pdl__moe_multiply(const pdl__moe_pass_t *pass, int64_t m, int64_t n, int64_t k, pdl__matrix_t a,
                       pdl__matrix_t b, float *c, bool add);

pdl_status_t pdl__moe_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what);

/* moe_backward.c, in this order for the tokens of the list, whose dy is in y. da; for entry i the gradient of its
   share, and dg and du for that share, by which y is multiplied; the gradients of the weights; dx. */
void  pdl__moe_activation_gradients(const pdl__moe_pass_t *pass, int64_t expert);
float pdl__moe_share_gradient(const pdl__moe_pass_t *pass, int64_t i, float share);
void  pdl__moe_weight_gradients(const pdl__moe_pass_t *pass, int64_t expert, bool add);
void  pdl__moe_input_gradients(const pdl__moe_pass_t *pass, int64_t expert);
/* An expert that nobody asked has gradients too: zero. */
void pdl__moe_clear_gradients(const pdl__moe_pass_t *pass, int64_t expert);
/* From gradients of shares in pass->logit to those of the router and, if `data`, of the tokens, which are added. */
void pdl__moe_router_gradients(pdl__moe_pass_t *pass, bool data, bool weights);

/* moe_route.c */
size_t pdl__route_saved(const pdl__moe_t *moe);
size_t pdl__route_workspace(const pdl__moe_t *moe, bool backward);
/* Its meetings; the workspace of routes begins at `at`. */
void pdl__route_meetings(const pdl__moe_t *moe, bool training, size_t at, pdl_op_description_t *description);
/* One phase. */
void pdl__route_forward(pdl__moe_pass_t *pass, bool training);
void pdl__route_backward(pdl__moe_pass_t *pass, bool data, bool weights);

#endif
