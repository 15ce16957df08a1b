/*
 * Mixture of experts: a router chooses top_k experts for every row, whose answers are added by their shares. A choice is an
 * entry; entries are brought into the order of the experts, and what an expert does is products of its segment. How long
 * segments are only the GPU knows.
 */
#ifndef PDL_TENSOR_CUDA_MOE_H
#define PDL_TENSOR_CUDA_MOE_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl__cuda_moe_choice {
    int32_t expert;
    float   share;
} pdl__cuda_moe_choice_t;

#define PDL__MOE_CHUNK 256 /* entries that are ordered together */

typedef struct pdl__cuda_moe {
    int64_t                 rows, in, out, hidden, experts, top_k;
    bool                    gated;
    const void             *x;                         /* [rows][in] */
    const float            *router, *gate, *up, *down; /* [E][in], [E][hidden][in] twice, [E][out][hidden] */
    void                   *y;                         /* [rows][out] */
    pdl__cuda_moe_choice_t *choice;                    /* [entries], entries = rows * top_k */
    float                  *logit;                     /* [rows][E]; backward: its gradient */
    int64_t                *start;                     /* [E + 1]: where segments begin */
    int32_t                *slot, *entry;              /* [entries]: place of an entry, and the other way round */
    int32_t                *counts;                    /* [chunks of entries][E] */
    void                   *in_rows, *out_rows; /* [entries][in], [entries][out]; in the order of the experts */
    void                   *g, *u, *a;          /* [entries][hidden] */
    /* backward */
    const void *dy;
    void       *dx;                                /* NULL: not wanted */
    void       *da, *dg, *du, *d_rows;             /* [entries][hidden] three times, [entries][in] */
    float      *d_share;                           /* [entries] */
    float      *d_router, *d_gate, *d_up, *d_down; /* NULL: not wanted */
    bool        add;                               /* to gradients of weights */
} pdl__cuda_moe_t;

typedef struct pdl__cuda_moes {
    pdl_status_t (*forward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_moe_t *moe);
    pdl_status_t (*backward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_moe_t *moe);
} pdl__cuda_moes_t;

extern const pdl__cuda_moes_t pdl__cuda_moes;

#ifdef __cplusplus
}
#endif
#endif
