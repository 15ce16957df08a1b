/*
 * Kernels that go element by element, or only move elements: activations, sums, products, concatenation, dropout.
 *
 * A tensor with channels innermost is seen as rows: the positions of all samples. The elements of a row that only fill
 * it up to a multiple of 8 are zero, before and after.
 */
#ifndef PDL_TENSOR_CUDA_POINTWISE_H
#define PDL_TENSOR_CUDA_POINTWISE_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out = f(x), or backward: out = (g0 + g1) f'(x), where x is what was kept, input or output. */
typedef struct pdl__cuda_activation {
    pdl_layer_type_t function;
    float            slope;
    int64_t          rows, channels, stride; /* of a row: elements used, and all of them */
    const void      *x;
    const void      *gradient[2]; /* the second may be NULL */
    void            *out;         /* may be any of the others */
} pdl__cuda_activation_t;

/* out = the product of all inputs, or backward: gradient times all inputs but one. */
typedef struct pdl__cuda_product {
    int64_t     samples, positions, channels, stride;
    int         count;
    bool        small[PDL_MAX_INPUTS]; /* a factor of one position: [sample][channel] without filling */
    const void *input[PDL_MAX_INPUTS];
    const void *gradient; /* NULL: forward */
    int         wanted;   /* the input whose gradient is made */
    void       *out;
} pdl__cuda_product_t;

/* Rows of one tensor are those of several side by side. */
typedef struct pdl__cuda_pieces {
    int64_t rows;
    int     count;
    int64_t channels[PDL_MAX_INPUTS], stride[PDL_MAX_INPUTS]; /* of the parts */
    void   *part[PDL_MAX_INPUTS];                             /* NULL: not wanted */
    int64_t whole_channels, whole_stride;
    void   *whole;
    bool    apart; /* from the whole to the parts */
} pdl__cuda_pieces_t;

/* Which elements dropout keeps: a bit each, drawn at the index that the element has in the whole plain tensor. */
typedef struct pdl__cuda_dropout {
    int64_t  samples, channels, stride, positions, extent[PDL_MAX_SPACE];
    bool     sequence;
    int64_t  whole_channels, whole_extent[PDL_MAX_SPACE], first_channel, first[PDL_MAX_SPACE], first_sample;
    uint64_t seed, root, step;         /* the stream is pdl_random_part(root, step) */
    const pdl_step_numbers_t *numbers; /* NULL, or where `step` is on the device */
    float                     rate, scale;
    const void               *in;
    void                     *out;  /* may be `in` */
    uint8_t                  *mask; /* a bit of every element, rounded up to whole bytes */
} pdl__cuda_dropout_t;

typedef struct pdl__cuda_pointwise {
    pdl_status_t (*activate)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_activation_t *activation);
    pdl_status_t (*activate_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_activation_t *activation);
    /* sum = the inputs, 2 to PDL_MAX_INPUTS of them, added in order; it may be the first. */
    pdl_status_t (*sum)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int inputs,
                        const void *const *input, int64_t count, void *sum);
    pdl_status_t (*multiply)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_product_t *product);
    pdl_status_t (*join)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                         const pdl__cuda_pieces_t *pieces);
    /* Draws the mask and applies it; or only applies it, backward. */
    pdl_status_t (*drop)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                         const pdl__cuda_dropout_t *dropout);
    pdl_status_t (*drop_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                              const pdl__cuda_dropout_t *dropout);
    /* [n][rows][columns] to [n][columns][rows] */
    pdl_status_t (*transpose)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                              int64_t rows, int64_t columns, const void *in, void *out);
    /* One row of every sample: out[n] = in[n][row]. Back: that row, and zeros in all others. */
    pdl_status_t (*select)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n, int64_t rows,
                           int64_t columns, int64_t row, const void *in, void *out);
    pdl_status_t (*select_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                                int64_t rows, int64_t columns, int64_t row, const void *in, void *out);
} pdl__cuda_pointwise_t;

extern const pdl__cuda_pointwise_t pdl__cuda_pointwise;

#ifdef __cplusplus
}
#endif
#endif
