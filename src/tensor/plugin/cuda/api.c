/*
 * The table of the plugin, and of the emulated one.
 */
#include "tensor/plugin/cuda/api.h"

#include "base/plugin.h"

static const pdl__cuda_api_t functions = {
    .runtime = &pdl__cuda_runtime,
    .ipc = &pdl__cuda_ipc,
    .nccl = &pdl__cuda_nccl,
    .vectors = &pdl__cuda_vectors,
    .pointwise = &pdl__cuda_pointwise,
    .windows = &pdl__cuda_windows,
    .norms = &pdl__cuda_norms,
    .convs = &pdl__cuda_convs,
    .products = &pdl__cuda_products,
    .layer_norms = &pdl__cuda_layer_norms,
    .sequences = &pdl__cuda_sequences,
    .attentions = &pdl__cuda_attentions,
    .moes = &pdl__cuda_moes,
    .losses = &pdl__cuda_losses,
};

#ifdef PDL_CUDA_EMULATED
PDL__PLUGIN(cuda_emulated, functions)
#else
PDL__PLUGIN(cuda, functions)
#endif
