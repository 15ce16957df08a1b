/*
 * Convolutions by cuDNN. In the emulation there is no plan for any.
 */
#ifndef PDL_TENSOR_CUDA_CUDNN_CONV_H
#define PDL_TENSOR_CUDA_CUDNN_CONV_H

#include "tensor/plugin/cuda/conv/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl__cudnn_plan pdl__cudnn_plan_t;

/* `tail`: with the bias and ReLU that follow (PDL__CONV_NARROW). PDL_ERR_UNSUPPORTED where cuDNN cannot do it within so many bytes of workspace. */
pdl_status_t pdl__cudnn_conv_create(pdl__gpu_t *gpu, const pdl__cuda_form_t *form, pdl__conv_product_t product,
                                    const pdl__conv_wish_t *wish, bool tail, pdl__cudnn_plan_t **plan);
pdl_status_t pdl__cudnn_conv_run(pdl__cudnn_plan_t *plan, pdl_tensor_stream_t *stream, void *wide, void *weight,
                                 void *narrow, const float *bias, void *workspace);
/* See pdl__cuda_convs_t. */
pdl_status_t pdl__cudnn_conv_propose(const char *device, const pdl__cuda_form_t *form, const pdl__conv_wish_t *wish,
                                     char name[PDL__CONV_PRODUCTS][PDL__CONV_NAME]);
void         pdl__cudnn_destroy(pdl__cudnn_plan_t *plan);

#ifdef __cplusplus
}
#endif
#endif
