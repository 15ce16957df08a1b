/*
 * Kernels on flat vectors and on formats of tensors, and the steps of optimizers.
 */
#ifndef PDL_TENSOR_CUDA_VECTORS_H
#define PDL_TENSOR_CUDA_VECTORS_H

#include "tensor/plugin/cuda/runtime.h"

#include <paradl/tensor/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Channels of a position in a folded image; four positions are side by side. */
#define PDL__FOLDED 4

/* Samples that become a tensor in a format: images of bytes as in pdl_backend_ops_t, or values in a format. */
typedef struct pdl__cuda_load {
    pdl_shape_t               shape;
    int64_t                   samples;
    const uint8_t            *bytes; /* NULL: values */
    const pdl_image_change_t *changes;
    pdl_image_scale_t         scale;
    pdl_dtype_t               type; /* of the values */
    const void               *values;
    pdl_format_t              from; /* plain or blocked */
    pdl_format_t              format;
} pdl__cuda_load_t;

typedef struct pdl__cuda_vectors {
    /* Between F32 and BF16. */
    pdl_status_t (*cast)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t from, const void *source,
                         pdl_dtype_t to, void *target, int64_t count);
    /* [n][channels][positions] to [n][positions][padded], zeros behind the channels, or back. */
    pdl_status_t (*convert)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                            int64_t channels, int64_t padded, int64_t positions, bool to_blocked,
                            const void *source, void *target);
    pdl_status_t (*load)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                         const pdl__cuda_load_t *load, void *target);
    /* sum = a + b; `sum` may be either. */
    pdl_status_t (*add)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *a,
                        const void *b, int64_t count, void *sum);
    /* As in pdl_device_ops_t. */
    pdl_status_t (*boxes)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes, int from,
                          pdl_dtype_t type, const void *source, void *target, bool add);
    pdl_status_t (*reduce)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *values,
                           void *sum, int64_t count);
    /* As in pdl_backend_ops_t. */
    pdl_status_t (*largest)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *values,
                            int64_t rows, int64_t count, int64_t stride, int32_t *index);
    pdl_status_t (*find_not_finite)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                    const void *data, int64_t count, int64_t *index);
    pdl_status_t (*check_results)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *results,
                                  const float *sample_weight, int64_t count, int64_t *flag);
    pdl_status_t (*sum_squares)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *values,
                                const pdl_slice_t *slices, int count, double *sums);
    pdl_status_t (*clip)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const double *sums, int count,
                         double allowed, const int64_t *flag, double *clip);
    /* `type`: of packed copies. */
    pdl_status_t (*update)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                           const pdl_update_t *update, const pdl_update_range_t *ranges, int count);
    pdl_status_t (*average)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, double keep, int64_t count, float *ema,
                            const float *w);
} pdl__cuda_vectors_t;

extern const pdl__cuda_vectors_t pdl__cuda_vectors;

#ifdef __cplusplus
}
#endif
#endif
