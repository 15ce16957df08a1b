/*
 * Inside the plugins: entries of the table of vectors that have a file of their own.
 */
#ifndef PDL_TENSOR_CUDA_VECTORS_PARTS_H
#define PDL_TENSOR_CUDA_VECTORS_PARTS_H

#include "tensor/plugin/cuda/vectors.h"

extern "C" {

/* convert.cu */
pdl_status_t pdl__cuda_convert(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t samples,
                               int64_t channels, int64_t padded, int64_t positions, bool to_blocked,
                               const void *source, void *target);
/* boxes.cu */
pdl_status_t pdl__cuda_boxes(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl_boxes_t *boxes, int from,
                             pdl_dtype_t type, const void *source, void *target, bool add);
/* input.cu */
pdl_status_t pdl__cuda_load(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_load_t *load, void *target);
/* update.cu */
pdl_status_t pdl__cuda_update(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                              const pdl_update_t *update, const pdl_update_range_t *ranges, int count);
}

#endif
