/*
 * Instead of cuDNN: nothing. Convolutions are those of conv_direct.cu.
 */
#include "tensor/plugin/cuda/conv/cudnn_conv.h"

extern "C" pdl_status_t pdl__cudnn_conv_create(pdl__gpu_t *, const pdl__cuda_form_t *, pdl__conv_product_t,
                                               const pdl__conv_wish_t *, bool, pdl__cudnn_plan_t **)
{
    return pdl_error(PDL_ERR_UNSUPPORTED, "there is no cuDNN in the emulation");
}

extern "C" pdl_status_t pdl__cudnn_conv_run(pdl__cudnn_plan_t *, pdl_tensor_stream_t *, void *, void *, void *,
                                            const float *, void *)
{
    return PDL_OK;
}

extern "C" pdl_status_t pdl__cudnn_conv_propose(const char *, const pdl__cuda_form_t *, const pdl__conv_wish_t *,
                                                char (*)[PDL__CONV_NAME])
{
    return pdl_error(PDL_ERR_UNSUPPORTED, "there is no cuDNN in the emulation");
}

extern "C" void pdl__cudnn_destroy(pdl__cudnn_plan_t *)
{
}
