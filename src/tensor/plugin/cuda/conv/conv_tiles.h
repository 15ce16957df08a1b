/*
 * Convolutions in fp32 with all bits of their factors: products of tiles that a block keeps in shared memory and registers.
 */
#ifndef PDL_TENSOR_CUDA_CONV_TILES_H
#define PDL_TENSOR_CUDA_CONV_TILES_H

#include "tensor/plugin/cuda/conv/conv.h"

/* Groups of whole eights of channels and filters, in fp32. */
bool pdl__conv_tiles_fit(const pdl__cuda_form_t *form);

/* One of the three tensors. The weight is made in so many parts, each the sum over some of the positions, one behind the other. */
pdl_status_t pdl__conv_tiles(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                             pdl__conv_product_t product, float *wide, float *weight, float *narrow,
                             const float *bias, int parts);

#endif
