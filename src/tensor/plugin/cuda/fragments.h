/*
 * Products of small matrices by tensor cores (mma.sync, compute capability 8.0): a warp has a matrix together, in registers.
 * bf16 in, fp32 sums. The emulation exchanges all of it and multiplies by loops.
 *
 * Lane l of a warp has, with g = l / 4 and t = l % 4:
 *     a, 16 x 16:   [0] (g, 2t), (g, 2t + 1)   [1] (g + 8, ...)   [2] (g, 2t + 8), (g, 2t + 9)   [3] (g + 8, ...)
 *     b, 16 x 8:    [0] (2t, g), (2t + 1, g)   [1] (2t + 8, g), (2t + 9, g)
 *     sum, 16 x 8:  [0] (g, 2t)   [1] (g, 2t + 1)   [2] (g + 8, 2t)   [3] (g + 8, 2t + 1)
 */
#ifndef PDL_TENSOR_CUDA_FRAGMENTS_H
#define PDL_TENSOR_CUDA_FRAGMENTS_H

#include "tensor/plugin/cuda/kernel.h"

/* Two numbers of a fragment, the first in the low half. */
__device__ __forceinline__ uint32_t pdl_pair(float first, float second)
{
#ifdef PDL_CUDA_EMULATED
    return pdl_bf16(first).bits | (uint32_t)pdl_bf16(second).bits << 16;
#else
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);

    return *(uint32_t *)&pair;
#endif
}

/* sum += a b. */
__device__ __forceinline__ void pdl_multiply(float sum[4], const uint32_t a[4], const uint32_t b[2])
{
#ifdef PDL_CUDA_EMULATED
    uint64_t words[3][32];
    int      lane = pdl__emulated_lane();
    auto     value = [](uint64_t two, int which) {
        return __uint_as_float((uint32_t)(two >> 16 * which & 0xffffu) << 16);
    };

    pdl__emulated_gather(a[0] | (uint64_t)a[1] << 32, words[0]);
    pdl__emulated_gather(a[2] | (uint64_t)a[3] << 32, words[1]);
    pdl__emulated_gather(b[0] | (uint64_t)b[1] << 32, words[2]);
    for (int i = 0; i < 4; i++) {
        int row = lane / 4, column = 2 * (lane % 4) + i % 2;

        for (int k = 0; k < 16; k++)
            sum[i] += value(words[k / 8][4 * row + k % 8 / 2], k % 2 + 2 * (i / 2)) *
                      value(words[2][4 * column + k % 8 / 2], k % 2 + 2 * (k / 8));
    }
#else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/* Four matrices of 8 x 8 from shared memory: lane l has the address of row l % 8 of matrix l / 8, and gets of each elements
   (g, 2t) and (g, 2t + 1), or where they are TURNED (2t, g) and (2t + 1, g). */
template <bool TURNED> __device__ __forceinline__ void pdl_load_matrices(uint32_t to[4], const pdl_bf16 *row)
{
#ifdef PDL_CUDA_EMULATED
    const pdl_bf16 *rows[32];
    int             g = pdl__emulated_lane() / 4, t = pdl__emulated_lane() % 4;

    pdl__emulated_gather((const pdl_bf16 *)PDL_ALIGNED(row), rows);
    for (int i = 0; i < 4; i++) {
        const pdl_bf16 *const *matrix = rows + 8 * i;

        to[i] = TURNED ? matrix[2 * t][g].bits | (uint32_t)matrix[2 * t + 1][g].bits << 16
                       : matrix[g][2 * t].bits | (uint32_t)matrix[g][2 * t + 1].bits << 16;
    }
    __syncwarp();
#else
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);

    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address)
                     : "memory");
#endif
}

/* Sixteen bytes to shared memory, or zeros, in flight while the thread goes on. pdl_async_end() closes a group of copies;
   pdl_async_wait<N>() waits for all of the thread's groups but the last N. */
__device__ __forceinline__ void pdl_copy_async(void *shared, const void *from, bool valid)
{
#ifdef PDL_CUDA_EMULATED
    uint4 words = make_uint4(0, 0, 0, 0);

    if (valid) words = *(const uint4 *)PDL_ALIGNED(from);
    *(uint4 *)PDL_ALIGNED(shared) = words;
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
#endif
}

__device__ __forceinline__ void pdl_async_end()
{
#ifndef PDL_CUDA_EMULATED
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

template <int N> __device__ __forceinline__ void pdl_async_wait()
{
#ifndef PDL_CUDA_EMULATED
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
#endif
}

#endif
