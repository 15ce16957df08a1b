/*
 * Batch norm and group norm. Channels are innermost, and what fills a row up to its stride is zero and stays so.
 */
#ifndef PDL_TENSOR_CUDA_NORM_H
#define PDL_TENSOR_CUDA_NORM_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a batch norm knows where the ReLU behind it was zero. */
typedef enum pdl__cuda_mask {
    PDL__MASK_NONE, /* there is no ReLU */
    PDL__MASK_SIGN, /* the sign of scale x + shift */
    PDL__MASK_BITS  /* a bit of every element: something was added in between */
} pdl__cuda_mask_t;

/* Blocks of threads that leave partial sums, at most. */
#define PDL__NORM_PARTIALS 2112

/* Bytes of the partial sums of a batch norm; of any GPU. */
static inline size_t pdl__cuda_partial_bytes(int64_t rows, int64_t stride)
{
    int64_t lanes = stride % 8 == 0 ? stride / 8 : stride, pieces = (lanes + 31) / 32;
    int64_t down = 256 / ((lanes + pieces - 1) / pieces), parts = PDL__NORM_PARTIALS / pieces;

    if (parts > (rows + down - 1) / down) parts = (rows + down - 1) / down;
    return (size_t)((parts > 1 ? parts : 1) * 2 * stride) * sizeof(float);
}

/* Bytes of PDL__MASK_BITS: one for every vector that is read at once. */
static inline size_t pdl__cuda_mask_bytes(int64_t rows, int64_t stride)
{
    return (size_t)(rows * (stride % 8 == 0 ? stride / 8 : stride));
}

/* Batch norm, with the sum and the ReLU that follow it. Arrays of floats and doubles have `stride` elements, but for weights,
   their gradients, running values and totals, which have `channels`. */
typedef struct pdl__cuda_batch_norm {
    int64_t          rows;
    int              channels, stride;
    pdl__cuda_mask_t mask;
    const void      *x, *add; /* `add` may be NULL */
    void            *out;     /* forward: y; backward: dx */
    uint8_t         *bits;    /* PDL__MASK_BITS: see pdl__cuda_mask_bytes; forward it may be NULL */
    const void      *gradient[2];
    void            *kept;    /* backward: where the sum of the gradients behind the mask goes, or NULL */
    float           *partial; /* see pdl__cuda_partial_bytes */
    double          *total;   /* [2][channels]: sums for the meeting of ranks */
    float           *mean, *inverse, *scale, *shift; /* of this batch; y = scale x + shift */
    float           *slope, *offset;                 /* backward: dx = scale (g + slope (x - mean) + offset) */
    const float     *gamma, *beta;                   /* `beta` may be NULL */
    float           *running_mean, *running_var;     /* NULL: they stay */
    float           *gamma_gradient, *beta_gradient; /* may be NULL */
    bool             accumulate;
    bool             shared; /* totals are those of several ranks */
    double           count;  /* values of a channel, over all ranks */
    double           momentum, epsilon;
} pdl__cuda_batch_norm_t;

typedef struct pdl__cuda_group_norm {
    int64_t      samples, positions;
    int          channels, stride, groups;
    const void  *x, *gradient;
    void        *out;
    float       *statistics;                     /* [samples][groups][2]: mean and 1 / deviation */
    double      *sums;                           /* [samples][stride][2] */
    float       *coefficients;                   /* [samples][stride][3] */
    const float *gamma, *beta;                   /* `beta` may be NULL */
    float       *gamma_gradient, *beta_gradient; /* may be NULL */
    bool         accumulate;
    double       epsilon;
} pdl__cuda_group_norm_t;

typedef struct pdl__cuda_norms {
    /* Partial sums of x and of x^2, around the first row. */
    pdl_status_t (*batch_measure)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_batch_norm_t *norm);
    /* From partial sums to totals, where ranks are to meet. */
    pdl_status_t (*batch_total)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                const pdl__cuda_batch_norm_t *norm);
    /* From partial sums, or totals where shared, to mean, inverse, scale, shift and running values. */
    pdl_status_t (*batch_moments)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_batch_norm_t *norm);
    /* Scale and shift from running values. */
    pdl_status_t (*batch_evaluate)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream,
                                   const pdl__cuda_batch_norm_t *norm);
    /* out = relu(scale x + shift + add) */
    pdl_status_t (*batch_apply)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                const pdl__cuda_batch_norm_t *norm);
    /* Partial sums of g and g (x - mean), g being the gradients' sum behind the mask, which goes to `kept`. */
    pdl_status_t (*batch_measure_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                       const pdl__cuda_batch_norm_t *norm);
    /* The gradients of gamma and beta; totals where ranks are to meet, else slope and offset at once. */
    pdl_status_t (*batch_total_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream,
                                     const pdl__cuda_batch_norm_t *norm);
    /* Slope and offset from totals. */
    pdl_status_t (*batch_slope)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_batch_norm_t *norm);
    /* dx from `kept`, or where that is NULL from the gradients again. */
    pdl_status_t (*batch_apply_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                     const pdl__cuda_batch_norm_t *norm);
    pdl_status_t (*group)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                          const pdl__cuda_group_norm_t *norm);
    pdl_status_t (*group_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                               const pdl__cuda_group_norm_t *norm);
} pdl__cuda_norms_t;

extern const pdl__cuda_norms_t pdl__cuda_norms;

#ifdef __cplusplus
}
#endif
#endif
