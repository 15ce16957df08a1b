/*
 * Mixture of experts that are all here.
 */
#include "tensor/plugin/cuda/sequence/experts.h"

template <typename T> static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    auto         choose_experts = moe_choose<T>;
    auto         combine = moe_combine<T>;
    pdl_status_t status = PASS(choose_experts, 32 * m->rows, *m);

    if (status == PDL_OK) status = order_entries(gpu, stream, m);
    if (status == PDL_OK) status = answer<T>(gpu, stream, m);
    return status == PDL_OK ? PASS(combine, m->rows * m->out, *m) : status;
}

template <typename T> static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const moe_t *m)
{
    pdl_status_t status = order_entries(gpu, stream, m);

    if (status == PDL_OK) status = answer_back<T>(gpu, stream, m);
    return status == PDL_OK ? router_back<T>(gpu, stream, m) : status;
}

static pdl_status_t moe_forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const moe_t *m)
{
    return type == PDL_DTYPE_BF16 ? forward<pdl_bf16>(gpu, stream, m) : forward<float>(gpu, stream, m);
}

static pdl_status_t moe_backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const moe_t *m)
{
    return type == PDL_DTYPE_BF16 ? backward<pdl_bf16>(gpu, stream, m) : backward<float>(gpu, stream, m);
}

extern "C" const pdl__cuda_moes_t pdl__cuda_moes = {moe_forward, moe_backward, pdl__cuda_route};
