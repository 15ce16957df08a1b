/*
 * The table of the plugin, and of the emulated one.
 */
#include "tensor/plugin/cuda/api.h"

#include "base/plugin.h"

static const pdl__cuda_api_t functions = {
    .runtime = &pdl__cuda_runtime,
    .vectors = &pdl__cuda_vectors,
    .pointwise = &pdl__cuda_pointwise,
    .windows = &pdl__cuda_windows,
    .norms = &pdl__cuda_norms,
};

#ifdef PDL_CUDA_EMULATED
PDL__PLUGIN(cuda_emulated, functions)
#else
PDL__PLUGIN(cuda, functions)
#endif
