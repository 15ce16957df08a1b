/*
 * The emulated GPU has no cuDNN: attention is always computed by own kernels.
 */
#include "tensor/plugin/cuda/sequence/attention.h"

extern "C" pdl_status_t pdl__cuda_attention_plan(pdl__gpu_t *, const pdl__cuda_attention_t *, bool, int64_t, size_t,
                                                 pdl__cuda_attention_plans_t **plans)
{
    *plans = NULL;
    return PDL_OK;
}

extern "C" pdl_status_t pdl__cuda_attention_run(pdl_tensor_stream_t *, const pdl__cuda_attention_t *, bool)
{
    return pdl_error(PDL_ERR_UNSUPPORTED, "there is no cuDNN");
}
