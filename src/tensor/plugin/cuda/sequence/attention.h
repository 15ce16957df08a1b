/*
 * Attention of many heads: out = softmax(scale q k^T) v, for every sample and head, with scores that are never all in
 * memory. Two ways: a graph of cuDNN where it has one, and own kernels for everything.
 */
#ifndef PDL_TENSOR_CUDA_ATTENTION_H
#define PDL_TENSOR_CUDA_ATTENTION_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PDL__ATTENTION_DIM 256 /* the largest head */

/* Vectors of a tensor: head h of token t of sample n is at n * sample + t * token + h * dim. */
typedef struct pdl__cuda_heads {
    void   *at;
    int64_t sample, token; /* elements from one to the next */
} pdl__cuda_heads_t;

typedef struct pdl__cuda_attention {
    int64_t           samples, heads, kv_heads, dim; /* query head h reads key head h / (heads / kv_heads) */
    int64_t           queries, keys;                 /* keys begin with token 0, queries of sample n with past[n] */
    const int32_t    *past;                          /* [samples]; NULL: 0 */
    bool              causal;
    float             scale;
    pdl__cuda_heads_t q, k, v, out;
    float            *lse; /* [samples][heads][queries]: log of the sum of exp; NULL: not kept */
    /* Of probabilities, a share is dropped: drawn at ((n * all_heads + h) * keys + token) * keys + key. */
    float    rate;
    uint64_t seed, stream;
    int64_t  first_sample, all_heads, first_head;
    /* backward */
    pdl__cuda_heads_t d_out, dq, dk, dv;
    float            *dots; /* [samples][heads][queries]: workspace */
} pdl__cuda_attention_t;

/* Elements i and i + dim / 2 of vectors are turned by the angle (first + token) * 10000^(-i / (dim / 2)), or back. */
typedef struct pdl__cuda_rotation {
    int64_t           samples, tokens, heads, dim, first;
    bool              back;
    pdl__cuda_heads_t from, to; /* may be the same */
} pdl__cuda_rotation_t;

typedef struct pdl__cuda_attentions {
    /* Before own kernels run with heads of this size. */
    pdl_status_t (*prepare)(pdl__gpu_t *gpu, pdl_dtype_t type, int64_t dim);
    pdl_status_t (*forward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_attention_t *attention);
    pdl_status_t (*backward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_attention_t *attention);
    pdl_status_t (*rotate)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const pdl__cuda_rotation_t *rotation);
} pdl__cuda_attentions_t;

extern const pdl__cuda_attentions_t pdl__cuda_attentions;

#ifdef __cplusplus
}
#endif
#endif
