/*
 * Softmax, tables of tokens, and positions.
 */
#ifndef PDL_TENSOR_CUDA_SEQUENCE_H
#define PDL_TENSOR_CUDA_SEQUENCE_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Softmax over the channels of every row; the padding of a row is zero. */
typedef struct pdl__cuda_softmax {
    int64_t     rows, channels, stride;
    const void *x, *y; /* backward: the gradient of y, and y */
    void       *out;   /* may be x */
} pdl__cuda_softmax_t;

/* A table of which this rank has the rows of tokens [first, first + count) of `all`. */
typedef struct pdl__cuda_table {
    int64_t        rows, channels;
    int64_t        first, count, all;
    const int32_t *tokens; /* [rows] */
    const float   *table;  /* [count][channels] */
    void          *out;    /* [rows][channels]: zeros for tokens of others, NaN for those that do not exist */
    /* backward */
    const void *gradient;       /* of out */
    float      *table_gradient; /* is added to */
    int32_t    *workspace;      /* pdl__cuda_table_workspace() bytes */
} pdl__cuda_table_t;

#define PDL__TABLE_CHUNK 256 /* tokens that are sorted together */

/* Two orders of the tokens, and counts of 256 digits in every chunk. */
static inline size_t pdl__cuda_table_workspace(int64_t rows)
{
    return (size_t)(2 * rows + (rows + PDL__TABLE_CHUNK - 1) / PDL__TABLE_CHUNK * 256) * sizeof(int32_t);
}

/* y[n][t] = x[n][t] + weight[t]; with a class token, that is token 0 and the others follow. */
typedef struct pdl__cuda_position {
    int64_t        samples, tokens, channels; /* of y */
    int64_t        rows;                      /* of the weight */
    const int32_t *past;                      /* [samples]: added to t, which rows end; NULL: 0 */
    const void    *x;
    const float   *weight, *class_token; /* class_token NULL: there is none */
    void          *y;                    /* may be x where there is none */
} pdl__cuda_position_t;

typedef struct pdl__cuda_sequences {
    pdl_status_t (*softmax)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_softmax_t *softmax);
    pdl_status_t (*softmax_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_softmax_t *softmax);
    pdl_status_t (*look_up)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_table_t *table);
    pdl_status_t (*look_up_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_table_t *table);
    pdl_status_t (*add_position)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_position_t *position);
} pdl__cuda_sequences_t;

extern const pdl__cuda_sequences_t pdl__cuda_sequences;

/* Inside the plugins (table.cu). */
pdl_status_t pdl__cuda_look_up(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                               const pdl__cuda_table_t *table);
pdl_status_t pdl__cuda_look_up_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                    const pdl__cuda_table_t *table);

#ifdef __cplusplus
}
#endif
#endif
