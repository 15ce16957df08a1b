/*
 * Losses: cross-entropy over the channels of every row, and the mean of squared differences.
 */
#ifndef PDL_TENSOR_CUDA_LOSS_H
#define PDL_TENSOR_CUDA_LOSS_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What one row comes to. A class beyond those that there are makes the loss NaN. */
typedef struct pdl__cuda_entropy_result {
    float loss, right, probability;
} pdl__cuda_entropy_result_t;

/* Numbers of rows that are split over ranks, one array after the other: the largest logit of this rank and of all; then what is
   summed: exp(x - largest), the logit of the right class, 1 for this being a largest less 1 for one before it, the
   logits; and the largest logit of this rank before the right class. */
#define PDL__ENTROPY_ARRAYS 7

typedef struct pdl__cuda_entropy {
    int64_t                     samples, positions, channels, stride; /* rows: samples * positions */
    int64_t                     first, all;                           /* channel 0 is class `first` of `all` */
    const void                 *x;
    const int32_t              *classes; /* [rows]; below 0: left out */
    double                      smoothing;
    float                      *lse;    /* [rows]: log of the sum of exp x; NULL: not kept */
    pdl__cuda_entropy_result_t *result; /* [rows] */
    double                     *split;  /* [PDL__ENTROPY_ARRAYS][rows] */
    float                      *output; /* [3][samples] */
    /* backward, and forward that does the same at once */
    double       scale;
    const float *sample_weight; /* [samples]; NULL: all 1 */
    float       *factor;        /* [samples] */
    void        *dx;            /* may be x; forward: NULL where it is not wanted */
} pdl__cuda_entropy_t;

typedef struct pdl__cuda_squares {
    int64_t      samples, channels, stride, positions; /* predictions [samples][positions][stride]; */
    const void  *x, *target; /* targets [samples][channels][positions], both without gaps */
    bool         sequence;   /* where they are as predictions are */
    float       *output;     /* [3][samples] */
    double       scale;
    const float *sample_weight;
    void        *dx;
} pdl__cuda_squares_t;

typedef struct pdl__cuda_losses {
    /* Before the first run with rows of so many elements. */
    pdl_status_t (*entropy_prepare)(pdl__gpu_t *gpu, pdl_dtype_t type, int64_t stride);
    /* Results and lse of all rows, then means of samples; and the gradient. */
    pdl_status_t (*entropy)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_entropy_t *entropy);
    /* The same where classes are on several ranks, in phases 0 to 2. */
    pdl_status_t (*entropy_split)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_entropy_t *entropy, int phase);
    pdl_status_t (*entropy_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_entropy_t *entropy);
    pdl_status_t (*squares)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_squares_t *squares);
    pdl_status_t (*squares_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_squares_t *squares);
} pdl__cuda_losses_t;

extern const pdl__cuda_losses_t pdl__cuda_losses;

#ifdef __cplusplus
}
#endif
#endif
