/*
 * Kernels that look around themselves: pooling, upsampling and local response norm. Channels are innermost, and what
 * fills a row up to its stride is zero and stays so.
 */
#ifndef PDL_TENSOR_CUDA_WINDOW_H
#define PDL_TENSOR_CUDA_WINDOW_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Windows over three dimensions, those that a tensor lacks being 1. */
typedef struct pdl__cuda_window {
    int samples, stride; /* of a row */
    int in[PDL_MAX_SPACE], out[PDL_MAX_SPACE];
    int kernel[PDL_MAX_SPACE], step[PDL_MAX_SPACE], dilation[PDL_MAX_SPACE], pad[PDL_MAX_SPACE];
} pdl__cuda_window_t;

typedef struct pdl__cuda_pool {
    pdl__cuda_window_t window;
    bool               largest, count_padding;
    bool               wide; /* places of maxima are 16 bits instead of 8 */
    const void        *in;   /* backward: the gradient of the output */
    void              *out;  /* backward: the gradient of the input */
    void *
        place; /* of the maximum in its window, the largest number where the window is empty; may be NULL forward */
} pdl__cuda_pool_t;

typedef struct pdl__cuda_upsample {
    int         samples, stride;
    int         in[PDL_MAX_SPACE], out[PDL_MAX_SPACE];
    bool        linear;
    const void *from;
    void       *to;
} pdl__cuda_upsample_t;

/* y = x s^-beta, s = k + alpha * the sum of squares over the channels c - low to c + high. */
typedef struct pdl__cuda_response {
    int64_t     rows;
    int         channels, stride, low, high;
    float       alpha, beta, k;
    const void *x, *gradient;
    void       *out;
    float      *s; /* [rows][stride], kept for backward; may be NULL forward */
} pdl__cuda_response_t;

typedef struct pdl__cuda_windows {
    pdl_status_t (*pool)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                         const pdl__cuda_pool_t *pool);
    pdl_status_t (*pool_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                              const pdl__cuda_pool_t *pool);
    /* Means of all positions times `factor`: [n][channels] without filling. Back: every position gets the gradient times the
       factor. */
    pdl_status_t (*global_pool)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                                int64_t positions, int64_t channels, int64_t stride, double factor, const void *in,
                                void *out);
    pdl_status_t (*global_pool_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                     int64_t samples, int64_t positions, int64_t channels, int64_t stride,
                                     double factor, const void *in, void *out);
    pdl_status_t (*upsample)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_upsample_t *upsample);
    pdl_status_t (*upsample_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_upsample_t *upsample);
    pdl_status_t (*response)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_response_t *response);
    pdl_status_t (*response_back)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_response_t *response);
} pdl__cuda_windows_t;

extern const pdl__cuda_windows_t pdl__cuda_windows;

#ifdef __cplusplus
}
#endif
#endif
