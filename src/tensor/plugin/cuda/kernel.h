/*
 * The language of our kernels. The same text is compiled by nvcc for GPUs and by a C++ compiler for the emulation
 * (emulate.h), so kernels use only what is here, in gpu.h and in the list of emulate.h.
 *
 *     template <typename T> __global__ void scale(const T *x, T *y, int64_t count, float by)
 *     {
 *         for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
 *             y[i] = T(by * (float)x[i]);
 *     }
 *
 *     auto kernel = scale<pdl_bf16>;
 *     return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, count, 256, 8), 256, 0, stream, x, y, count, by);
 *
 * Rules. Every kernel is deterministic: no floating-point atomics. All threads of a block reach every __syncthreads. Functions
 * of warps want the full mask and blocks of a multiple of 32 threads. A kernel that loops needs a barrier before shared memory is
 * written again. Sums are made in float, final sums of norms, losses and statistics in double.
 */
#ifndef PDL_TENSOR_CUDA_KERNEL_H
#define PDL_TENSOR_CUDA_KERNEL_H

#ifdef PDL_CUDA_EMULATED
#include "tensor/plugin/cuda/emulate.h"
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define PDL_ALIGNED(pointer) (pointer) /* the emulation looks */
#endif

#include "tensor/plugin/cuda/gpu.h"

#include <stdint.h>

#define PDL_ALL_LANES 0xffffffffu

/* ---- numbers ---- */

/* Sixteen bits of a float, rounded to nearest, ties to even. */
struct pdl_bf16 {
    uint16_t bits;

    pdl_bf16() = default;
    __host__ __device__ explicit pdl_bf16(float value)
    {
#ifdef PDL_CUDA_EMULATED
        uint32_t all = __float_as_uint(value);

        if ((all & 0x7fffffffu) > 0x7f800000u)
            bits = (uint16_t)(all >> 16 | 0x40u);
        else
            bits = (uint16_t)((all + 0x7fffu + (all >> 16 & 1u)) >> 16);
#else
        bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#endif
    }
    __host__ __device__ operator float() const
    {
#ifdef PDL_CUDA_EMULATED
        return __uint_as_float((uint32_t)bits << 16);
#else
        return __bfloat162float(__ushort_as_bfloat16(bits));
#endif
    }
};

template <typename T> struct pdl_pack8 {
    T at[8];
};

/* Eight elements of 2 or 4 bytes at an address that divides by 16, in one or two accesses. */
template <typename T> __device__ __forceinline__ void pdl_load8(const T *from, float to[8])
{
    alignas(16) pdl_pack8<T> pack;
    uint4                   *words = (uint4 *)&pack;

    for (unsigned i = 0; i < sizeof(pack) / sizeof(uint4); i++) words[i] = ((const uint4 *)PDL_ALIGNED(from))[i];
    for (int i = 0; i < 8; i++) to[i] = (float)pack.at[i];
}

template <typename T> __device__ __forceinline__ void pdl_store8(T *to, const float from[8])
{
    alignas(16) pdl_pack8<T> pack;
    const uint4             *words = (const uint4 *)&pack;

    for (int i = 0; i < 8; i++) pack.at[i] = T(from[i]);
    for (unsigned i = 0; i < sizeof(pack) / sizeof(uint4); i++) ((uint4 *)PDL_ALIGNED(to))[i] = words[i];
}

/* Four elements in one access: neighbouring threads that read neighbouring fours of floats leave no gap, as eights would. */
template <typename T> __device__ __forceinline__ void pdl_load4(const T *from, float to[4])
{
    alignas(16) T at[4];

    if (sizeof(T) == 4)
        *(uint4 *)at = *(const uint4 *)PDL_ALIGNED(from);
    else
        *(uint2 *)at = *(const uint2 *)from;
    for (int i = 0; i < 4; i++) to[i] = (float)at[i];
}

template <typename T> __device__ __forceinline__ void pdl_store4(T *to, const float from[4])
{
    alignas(16) T at[4];

    for (int i = 0; i < 4; i++) at[i] = T(from[i]);
    if (sizeof(T) == 4)
        *(uint4 *)PDL_ALIGNED(to) = *(const uint4 *)at;
    else
        *(uint2 *)to = *(const uint2 *)at;
}

/* 2^x to two ulps; numbers below 2^-126 are 0. */
__device__ __forceinline__ float pdl_exp2(float x)
{
#ifdef PDL_CUDA_EMULATED
    return exp2f(x);
#else
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

#define PDL_LOG2E 1.44269504f

__device__ __forceinline__ float pdl_exp(float x)
{
    return pdl_exp2(x * PDL_LOG2E);
}

/* The larger of two. A NaN wins. */
template <typename V> __device__ __forceinline__ V pdl_larger(V a, V b)
{
    return b > a || b != b ? b : a;
}

__device__ __forceinline__ float pdl_larger(float a, float b)
{
#ifdef PDL_CUDA_EMULATED
    return pdl_larger<float>(a, b);
#else
    float larger;

    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
#endif
}

/* ---- threads ---- */

__device__ __forceinline__ int pdl_thread()
{
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

__device__ __forceinline__ int pdl_threads()
{
    return (int)(blockDim.x * blockDim.y * blockDim.z);
}

/* The first element of a thread in a loop over the whole grid, and its step; both of one dimension. */
__device__ __forceinline__ int64_t pdl_grid_thread()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t pdl_grid_threads()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* Every lane has the result: of pairs of lanes, pairs of pairs and so on. */
#ifdef PDL_CUDA_EMULATED
#define PDL__WARP_REDUCE(value, combine)                                                          \
    V all[32];                                                                                    \
    pdl__emulated_gather(value, all);                                                             \
    for (int step = 16; step > 0; step /= 2)                                                      \
        for (int lane = 0; lane < step; lane++) all[lane] = combine(all[lane], all[lane + step]); \
    return all[0]
#else
#define PDL__WARP_REDUCE(value, combine)                                                                          \
    for (int step = 16; step > 0; step /= 2) value = combine(value, __shfl_xor_sync(PDL_ALL_LANES, value, step)); \
    return value
#endif
#define PDL__PLUS(a, b) ((a) + (b))

template <typename V> __device__ __forceinline__ V pdl_warp_sum(V value)
{
    PDL__WARP_REDUCE(value, PDL__PLUS);
}

template <typename V> __device__ __forceinline__ V pdl_warp_max(V value)
{
    PDL__WARP_REDUCE(value, pdl_larger);
}

/* Every thread of the block has the result. `shared` has 32 elements, which may be used again at once. */
template <typename V> __device__ __forceinline__ V pdl_block_sum(V value, V *shared)
{
    int lane = pdl_thread() % 32, warp = pdl_thread() / 32, warps = pdl_threads() / 32;

    value = pdl_warp_sum(value);
    __syncthreads();
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    return pdl_warp_sum(lane < warps ? shared[lane] : V(0));
}

template <typename V> __device__ __forceinline__ V pdl_block_max(V value, V *shared)
{
    int lane = pdl_thread() % 32, warp = pdl_thread() / 32, warps = pdl_threads() / 32;

    value = pdl_warp_max(value);
    __syncthreads();
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    return pdl_warp_max(shared[lane < warps ? lane : 0]);
}

/* ---- random numbers: those of base/random.h ---- */

/* pdl_random_part() */
__device__ __forceinline__ uint64_t pdl_random_part_of(uint64_t root, uint64_t b)
{
    uint64_t x = (root ^ b) + UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

/* The four uniforms of a block: elements 4 * block to 4 * block + 3 of pdl_random_fill(). */
__device__ __forceinline__ void pdl_random4(uint64_t seed, uint64_t stream, uint64_t block, float out[4])
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)stream,
             c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = (float)(c0 >> 8) * 0x1p-24f;
    out[1] = (float)(c1 >> 8) * 0x1p-24f;
    out[2] = (float)(c2 >> 8) * 0x1p-24f;
    out[3] = (float)(c3 >> 8) * 0x1p-24f;
}

/* Element `index` of pdl_random_fill(). */
__device__ __forceinline__ float pdl_random(uint64_t seed, uint64_t stream, uint64_t index)
{
    float four[4];

    pdl_random4(seed, stream, index / 4, four);
    return index % 4 < 2 ? (index % 4 == 0 ? four[0] : four[1]) : (index % 4 == 2 ? four[2] : four[3]);
}

/* ---- launches ---- */

#ifdef PDL_CUDA_EMULATED

#define PDL_SHARED(type, name)         type *name = (type *)pdl__emulated_shared()
#define PDL_SHARED_LIMIT(kernel, size) PDL_OK

template <typename... P, typename... A>
static inline pdl_status_t pdl_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                      const void *stream, A... arguments)
{
    return pdl__emulated_give(stream, [=] {
        auto body = [=] { kernel((P)arguments...); };

        return pdl__emulate(
            name, grid, block, shared, [](void *context) { (*(const decltype(body) *)context)(); }, (void *)&body);
    });
}

#else

#define PDL_SHARED(type, name)                                    \
    extern __shared__ __align__(16) unsigned char pdl__dynamic[]; \
    type                                         *name = (type *)pdl__dynamic
#define PDL_SHARED_LIMIT(kernel, size)                                                                        \
    pdl__cuda_check(cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, \
                                         (int)(size)),                                                        \
                    #kernel)

/* The status of a call of CUDA; the message has its text and what was being done. */
extern "C" pdl_status_t pdl__cuda_check(cudaError_t error, const char *what);

template <typename... P, typename... A>
static inline pdl_status_t pdl_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                      const void *stream, A... arguments)
{
    kernel<<<grid, block, shared, PDL__CUDA_STREAM(stream)>>>((P)arguments...);
    return pdl__cuda_check(cudaGetLastError(), name);
}

#endif

/* Runs a kernel in a stream; the status says whether it could be started. `kernel` is a name without commas: give an
   instance of a template a name first. */
#define PDL_LAUNCH(kernel, grid, block, shared, stream, ...) \
    pdl_launch(#kernel, kernel, grid, block, shared, stream, __VA_ARGS__)

#endif
