/*
 * For kernels that work row by row: eight elements as they are in memory, and teams of threads that have a row together,
 * a warp or a whole block.
 */
#ifndef PDL_TENSOR_CUDA_TEAMS_H
#define PDL_TENSOR_CUDA_TEAMS_H

#include "tensor/plugin/cuda/kernel.h"

/* Eight elements of a row, in flight to a register: not converted yet, so that the load need not be waited for. */
template <typename T> struct pdl_raw8 {
    uint4 words[sizeof(T) / 2];

    __device__ __forceinline__ void load(const T *from)
    {
        for (unsigned i = 0; i < sizeof(T) / 2; i++) words[i] = ((const uint4 *)PDL_ALIGNED(from))[i];
    }
    __device__ __forceinline__ void unpack(float to[8]) const
    {
        const T *at = (const T *)words;

        for (int i = 0; i < 8; i++) to[i] = (float)at[i];
    }
};

static inline bool pdl_is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

/* Whether rows can be read eight elements at a time. */
static inline bool pdl_has_vectors(const void *address, int64_t channels, int64_t stride)
{
    return pdl_is_aligned(address) && channels % 8 == 0 && stride % 8 == 0;
}

/* A team of threads that has a row: BLOCK, all threads of the block, else a warp. `shared` has 32 elements. */
template <bool BLOCK> struct pdl_team {
    static __device__ __forceinline__ int64_t first()
    {
        return BLOCK ? (int64_t)blockIdx.x : (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    }
    static __device__ __forceinline__ int64_t step()
    {
        return BLOCK ? (int64_t)gridDim.x : (int64_t)gridDim.x * (blockDim.x / 32);
    }
    static __device__ __forceinline__ int member()
    {
        return BLOCK ? (int)threadIdx.x : (int)threadIdx.x % 32;
    }
    static __device__ __forceinline__ int members()
    {
        return BLOCK ? (int)blockDim.x : 32;
    }
    template <typename V> static __device__ __forceinline__ V sum(V value, V *shared)
    {
        return BLOCK ? pdl_block_sum(value, shared) : pdl_warp_sum(value);
    }
    template <typename V> static __device__ __forceinline__ V largest(V value, V *shared)
    {
        return BLOCK ? pdl_block_max(value, shared) : pdl_warp_max(value);
    }
};

#endif
