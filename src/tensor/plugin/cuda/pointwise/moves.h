/*
 * Parts of the table of pointwise.h that only move elements, or drop some.
 */
#ifndef PDL_TENSOR_CUDA_MOVES_H
#define PDL_TENSOR_CUDA_MOVES_H

#include "tensor/plugin/cuda/pointwise/pointwise.h"

pdl_status_t pdl__cuda_join(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_pieces_t *pieces);
pdl_status_t pdl__cuda_drop(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_dropout_t *dropout);
pdl_status_t pdl__cuda_drop_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_dropout_t *dropout);
pdl_status_t pdl__cuda_transpose(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                                 int64_t rows, int64_t columns, const void *in, void *out);
pdl_status_t pdl__cuda_select(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                              int64_t rows, int64_t columns, int64_t row, const void *in, void *out);
pdl_status_t pdl__cuda_select_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int64_t n,
                                   int64_t rows, int64_t columns, int64_t row, const void *in, void *out);

#endif
