/*
 * Parts of the table of norm.h.
 */
#ifndef PDL_TENSOR_CUDA_GROUP_NORM_H
#define PDL_TENSOR_CUDA_GROUP_NORM_H

#include "tensor/plugin/cuda/norm/norm.h"

pdl_status_t pdl__group_norm(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_group_norm_t *norm);
pdl_status_t pdl__group_norm_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_group_norm_t *norm);

#endif
