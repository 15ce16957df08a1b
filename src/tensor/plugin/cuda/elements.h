/*
 * Kernels over the elements of vectors, eight at a time where addresses allow it.
 *
 *     struct scale_each {
 *         float *x;
 *         __device__ void eight(int64_t i) const { ... elements i to i + 7 ... }
 *         __device__ void one(int64_t i) const { x[i] *= 2; }
 *     };
 *     return pdl_each(gpu, stream, count, pdl_aligned(x), scale_each{x});
 */
#ifndef PDL_TENSOR_CUDA_ELEMENTS_H
#define PDL_TENSOR_CUDA_ELEMENTS_H

#include "tensor/plugin/cuda/kernel.h"

#define PDL__EACH_THREADS 256

static inline bool pdl_aligned(const void *pointer)
{
    return (uintptr_t)pointer % 16 == 0;
}

static inline size_t pdl_dtype_size(pdl_dtype_t type)
{
    return type == PDL_DTYPE_BF16 ? 2 : type == PDL_DTYPE_F64 ? 8 : 4;
}

/* `packs` times eight elements, then the rest one by one. */
template <typename F> __global__ void pdl__each_kernel(F function, int64_t packs, int64_t count)
{
    for (int64_t i = pdl_grid_thread(); i < packs; i += pdl_grid_threads()) function.eight(8 * i);
    for (int64_t i = 8 * packs + pdl_grid_thread(); i < count; i += pdl_grid_threads()) function.one(i);
}

template <typename F>
static inline pdl_status_t pdl_each(const pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, int64_t count, bool aligned,
                                    F function)
{
    int64_t packs = aligned ? count / 8 : 0;
    auto    kernel = pdl__each_kernel<F>;

    if (count == 0) return PDL_OK;
    return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, packs > 0 ? packs : count, PDL__EACH_THREADS, 8),
                      PDL__EACH_THREADS, 0, stream, function, packs, count);
}

#endif
