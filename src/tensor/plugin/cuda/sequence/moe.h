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
    int64_t     d_stride;                          /* elements from one row of d_rows to the next */
    float      *d_share;                           /* [entries] */
    float      *d_router, *d_gate, *d_up, *d_down; /* NULL: not wanted */
    bool        add;                               /* to gradients of weights */
} pdl__cuda_moe_t;

#define PDL__MOE_RANKS 256 /* that have experts of a layer, at most */

/* Experts on several ranks. A copy of a token for each expert that it chose is in the order of all experts, which is that of
   the ranks too, and is sent; a rank gets rows from every rank in the order of its own experts. */
typedef struct pdl__cuda_routes {
    pdl__cuda_moe_t home;  /* the own rows, which choose among all experts */
    pdl__cuda_moe_t there; /* rows that may come, one entry each, and the experts here */
    int             ranks;
    int32_t         first[PDL__MOE_RANKS + 1]; /* where experts of every rank begin */
    int64_t        *sent;                      /* [all experts]: copies for each of them */
    int64_t        *arrived;                   /* [ranks][experts]: rows from a rank for an expert here */
    int64_t        *to, *from;                 /* [ranks]: bytes */
    void           *rows;                      /* copies of tokens of this rank, sent or come back */
    const void     *come;                      /* backward: gradients of answers, each with its share */
    void           *dy_rows;                   /* those without their shares: there.dy */
    void           *go;                        /* rows as they go back */
} pdl__cuda_routes_t;

/* Behind a row of so many elements of two or four bytes, a float. */
static inline int64_t pdl__cuda_route_width(pdl_dtype_t type, int64_t elements)
{
    return elements + (type == PDL_DTYPE_BF16 ? 2 : 1);
}

typedef struct pdl__cuda_moes {
    pdl_status_t (*forward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_moe_t *moe);
    pdl_status_t (*backward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_moe_t *moe);
    /* One phase of experts on several ranks: forward 0 to 3, backward 0 to 2. */
    pdl_status_t (*route)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                          const pdl__cuda_routes_t *routes, bool backward, int phase);
} pdl__cuda_moes_t;

extern const pdl__cuda_moes_t pdl__cuda_moes;

/* Inside the plugins (moe_route.cu). */
pdl_status_t pdl__cuda_route(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_routes_t *routes, bool backward, int phase);

#ifdef __cplusplus
}
#endif
#endif
