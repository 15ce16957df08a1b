/*
 * Attention of many heads: out = softmax(scale q k^T) v, for every sample and head, with scores that are never all in
 * memory. Two ways: a graph of cuDNN where it has one, and own kernels for everything.
 */
#ifndef PDL_TENSOR_CUDA_ATTENTION_H
#define PDL_TENSOR_CUDA_ATTENTION_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PDL__ATTENTION_DIM 256 /* the largest head */

/* Vectors of a tensor: head h of token t of sample n is at n * sample + t * token + h * dim. */
typedef struct pdl__cuda_heads {
    void   *at;
    int64_t sample, token; /* elements from one to the next */
} pdl__cuda_heads_t;

typedef struct pdl__cuda_attention_plans pdl__cuda_attention_plans_t;

typedef struct pdl__cuda_attention {
    int64_t           samples, heads, kv_heads, dim; /* query head h reads key head h / (heads / kv_heads) */
    int64_t           queries, keys;                 /* keys begin with token 0, queries of sample n with past[n] */
    const int32_t    *past;                          /* [samples]; NULL: 0 */
    bool              causal;
    float             scale;
    pdl__cuda_heads_t q, k, v, out;
    float            *lse; /* [samples][heads][queries]: log of the sum of exp; NULL: not kept */
    /* Of probabilities, a share is dropped: drawn at ((n * all_heads + h) * keys + token) * keys + key. */
    float                     rate;
    uint64_t                  seed, root, step; /* of pdl_random_root() and pdl_random_part() */
    const pdl_step_numbers_t *numbers;          /* NULL, or where `step` is on the device */
    int64_t                   first_sample, all_heads, first_head;
    /* backward */
    pdl__cuda_heads_t d_out, dq, dk, dv;
    float            *dots; /* [samples][heads][queries]: workspace */
    /* cuDNN's way; NULL: own kernels. With it lse is always kept, and there is neither dropout nor past. */
    pdl__cuda_attention_plans_t *plans;
    void                        *workspace; /* pdl__cuda_attention_workspace() bytes */
} pdl__cuda_attention_t;

/* Samples that cuDNN does at a time, a divisor of all: backward keeps a number of 2 bytes for every query and key, and half a
   GiB is to be enough. */
static inline int64_t pdl__cuda_attention_samples(int64_t samples, int64_t heads, int64_t tokens)
{
    int64_t padded = (tokens + 127) / 128 * 128, most = ((int64_t)512 << 20) / (2 * heads * padded * padded);

    for (int64_t turn = most < samples ? most : samples; turn > 1; turn--)
        if (samples % turn == 0) return turn;
    return 1;
}

static inline size_t pdl__cuda_attention_workspace(int64_t samples, int64_t heads, int64_t tokens, bool backward)
{
    int64_t padded = (tokens + 127) / 128 * 128;
    size_t  pairs =
        backward ? (size_t)(2 * pdl__cuda_attention_samples(samples, heads, tokens) * heads * padded * padded) : 0;

    return pairs + ((size_t)16 << 20);
}

/* Vectors are copied, or elements i and i + dim / 2 of them turned by the angle position * 10000^(-i / (dim / 2)), or back.
   Token t of sample n is at position first + past[n] + t. */
typedef struct pdl__cuda_rotation {
    int64_t           samples, tokens, heads, dim, first;
    const int32_t    *past; /* [samples]; NULL: 0 */
    bool              turns, back;
    int64_t           places;   /* 0: token t goes to token t; else to past[n] + t, and nowhere from here on */
    pdl__cuda_heads_t from, to; /* may be the same */
} pdl__cuda_rotation_t;

typedef struct pdl__cuda_attentions {
    /* Before own kernels run with heads of this size. */
    pdl_status_t (*prepare)(pdl__gpu_t *gpu, pdl_dtype_t type, int64_t dim);
    /* cuDNN's plans for attention of this shape in bf16, so many samples at a time; *plans NULL: it has none. The GPU keeps
       them. */
    pdl_status_t (*plan)(pdl__gpu_t *gpu, const pdl__cuda_attention_t *attention, bool backward, int64_t samples,
                         size_t workspace, pdl__cuda_attention_plans_t **plans);
    pdl_status_t (*forward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_attention_t *attention);
    pdl_status_t (*backward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_attention_t *attention);
    pdl_status_t (*rotate)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const pdl__cuda_rotation_t *rotation);
} pdl__cuda_attentions_t;

extern const pdl__cuda_attentions_t pdl__cuda_attentions;

/* Inside the plugins (attention_step.cu): few new tokens to many earlier ones; whether that can do it, and does. */
bool         pdl__cuda_attention_steps(const pdl__cuda_attention_t *attention);
pdl_status_t pdl__cuda_attention_step(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                      const pdl__cuda_attention_t *attention);
/* Inside the plugins (attention_tiles.cu): bf16 by tensor cores; whether that can do it, what it needs before, and does. In
   backward the dots are there. */
bool         pdl__cuda_attention_fits(pdl_dtype_t type, const pdl__cuda_attention_t *attention);
pdl_status_t pdl__cuda_attention_prepare(pdl_dtype_t type, int64_t dim);
pdl_status_t pdl__cuda_attention_tile(pdl_tensor_stream_t *stream, const pdl__cuda_attention_t *attention,
                                      bool backward);
/* Inside the plugins (attention_graph.c). */
pdl_status_t pdl__cuda_attention_plan(pdl__gpu_t *gpu, const pdl__cuda_attention_t *attention, bool backward,
                                      int64_t samples, size_t workspace, pdl__cuda_attention_plans_t **plans);
pdl_status_t pdl__cuda_attention_run(pdl_tensor_stream_t *stream, const pdl__cuda_attention_t *attention,
                                     bool backward);

#ifdef __cplusplus
}
#endif
#endif
