/*
 * CUDA's language for a C++ compiler: as much of it as our kernels use. Threads of a block are fibers that run one after the
 * other, each until it waits for others; blocks follow one another. What is wrong ends the program with a line: threads that
 * wait at different barriers, functions of warps in a block that is no multiple of 32, addresses that are not aligned.
 *
 * Dynamic shared memory is full of NaN when a block begins. PARADL_CUDA_ORDER=SEED in the environment runs threads and blocks
 * in another order, which finds barriers that are missing.
 */
#ifndef PDL_TENSOR_CUDA_EMULATE_H
#define PDL_TENSOR_CUDA_EMULATE_H

#include <math.h>
#include <new>
#include <paradl/base/status.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __shared__   static
#define __constant__ static const
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
/* glibc has these names. */
#define __expf expf
#define __logf logf

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;

    constexpr dim3(unsigned first = 1, unsigned second = 1, unsigned third = 1) : x(first), y(second), z(third)
    {
    }
};

/* clang-format off */
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }
/* clang-format on */

/* Where the thread that runs now is. */
struct pdl__place {
    uint3 thread, block;
    dim3  block_size, grid_size;
};
extern pdl__place pdl__here;
#define threadIdx (pdl__here.thread)
#define blockIdx  (pdl__here.block)
#define blockDim  (pdl__here.block_size)
#define gridDim   (pdl__here.grid_size)
#define warpSize  32

/* ---- streams: work is done at once, or kept ---- */

struct pdl_tensor_stream;
/* Whether the stream keeps its work. */
bool pdl__emulated_keeps(const pdl_tensor_stream *stream);
/* Memory for the next work of a stream, which run() does; NULL: there is none. */
void *pdl__emulated_keep(const pdl_tensor_stream *stream, size_t bytes, pdl_status_t (*run)(void *work));

/* `work` has copies of all that it needs. */
template <typename F> static inline pdl_status_t pdl__emulated_give(const void *where, const F &work)
{
    const pdl_tensor_stream *stream = (const pdl_tensor_stream *)where;
    void                    *memory;

    if (!pdl__emulated_keeps(stream)) return work();
    memory = pdl__emulated_keep(stream, sizeof(F), [](void *kept) { return (*(const F *)kept)(); });
    if (memory == nullptr) return pdl_error(PDL_ERR_NOMEM, "out of memory");
    new (memory) F(work);
    return PDL_OK;
}

/* ---- waiting ---- */

pdl_status_t      pdl__emulate(const char *name, dim3 grid, dim3 block, size_t shared, void (*body)(void *context),
                               void *context);
void             *pdl__emulated_shared();
[[noreturn]] void pdl__emulated_fail(const char *what);
/* Leaves eight bytes for the other lanes of the warp, and waits for theirs, which are valid until the next call. */
const uint64_t *pdl__emulated_exchange(uint64_t mine, unsigned mask);
int             pdl__emulated_lane();

void __syncthreads();
void __syncwarp(unsigned mask = 0xffffffffu);

template <typename T> static inline const T *pdl__emulated_aligned(const T *pointer)
{
    if ((uintptr_t)pointer % 16 != 0) pdl__emulated_fail("an access of 16 bytes is not aligned");
    return pointer;
}
#define PDL_ALIGNED(pointer) pdl__emulated_aligned((const char *)(pointer))

template <typename T> static inline T pdl__emulated_from(T value, int lane, unsigned mask)
{
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t mine = 0;

    memcpy(&mine, &value, sizeof(value));
    memcpy(&value, pdl__emulated_exchange(mine, mask) + lane, sizeof(value));
    return value;
}

/* The values of all lanes: one wait instead of the five of a reduction by shuffles. */
template <typename T> static inline void pdl__emulated_gather(T value, T all[32])
{
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t        mine = 0;
    const uint64_t *slots;

    memcpy(&mine, &value, sizeof(value));
    slots = pdl__emulated_exchange(mine, 0xffffffffu);
    for (int lane = 0; lane < 32; lane++) memcpy(&all[lane], &slots[lane], sizeof(value));
}

template <typename T> static inline T __shfl_sync(unsigned mask, T value, int lane)
{
    return pdl__emulated_from(value, lane & 31, mask);
}

template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits)
{
    return pdl__emulated_from(value, pdl__emulated_lane() ^ bits, mask);
}

template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, int by)
{
    int lane = pdl__emulated_lane();

    return pdl__emulated_from(value, lane + by < 32 ? lane + by : lane, mask);
}

template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, int by)
{
    int lane = pdl__emulated_lane();

    return pdl__emulated_from(value, lane - by >= 0 ? lane - by : lane, mask);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const uint64_t *all = pdl__emulated_exchange(predicate != 0, mask);
    unsigned        bits = 0;

    for (int lane = 0; lane < 32; lane++) bits |= (unsigned)(all[lane] != 0) << lane;
    return bits;
}

static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}

static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == 0xffffffffu;
}

static inline void __threadfence()
{
}

/* ---- numbers ---- */

template <typename A, typename B> static inline std::common_type_t<A, B> min(A a, B b)
{
    typedef std::common_type_t<A, B> C;

    if constexpr (std::is_floating_point_v<C>) return (C)fmin((C)a, (C)b);
    return (C)a < (C)b ? (C)a : (C)b;
}

template <typename A, typename B> static inline std::common_type_t<A, B> max(A a, B b)
{
    typedef std::common_type_t<A, B> C;

    if constexpr (std::is_floating_point_v<C>) return (C)fmax((C)a, (C)b);
    return (C)a > (C)b ? (C)a : (C)b;
}

/* clang-format off */
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
/* clang-format on */

static inline uint32_t __float_as_uint(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float __uint_as_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

template <typename T> static inline T __ldg(const T *address)
{
    return *address;
}

/* One thread runs at a time. */
template <typename T, typename V> static inline T atomicAdd(T *at, V value)
{
    static_assert(std::is_integral_v<T>, "sums of floats by atomics depend on the order");
    T before = *at;

    *at = (T)(before + (T)value);
    return before;
}

template <typename T, typename V> static inline T atomicMin(T *at, V value)
{
    T before = *at;

    if ((T)value < before) *at = (T)value;
    return before;
}

template <typename T, typename V> static inline T atomicMax(T *at, V value)
{
    T before = *at;

    if ((T)value > before) *at = (T)value;
    return before;
}

template <typename T, typename V> static inline T atomicOr(T *at, V value)
{
    T before = *at;

    *at = (T)(before | (T)value);
    return before;
}

template <typename T, typename V> static inline T atomicExch(T *at, V value)
{
    T before = *at;

    *at = (T)value;
    return before;
}

#endif
