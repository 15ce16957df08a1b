/*
 * What the kernels of the CPU backend share: versions for each generation of processors, and the elements they
 * load.
 */
#ifndef PDL_TENSOR_CPU_SIMD_H
#define PDL_TENSOR_CPU_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A function marked with this is compiled for AVX-512, for AVX2 and for any processor; the loader picks one.
   Sanitizers instrument the loader's choice before they are ready, so under them there is one version. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PDL__CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PDL__CLONES
#endif

#define PDL__INLINE static inline __attribute__((always_inline))

typedef uint16_t pdl__bf16_t;

/* Rounds to nearest, ties to even; a NaN stays one. */
PDL__INLINE pdl__bf16_t pdl__to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (pdl__bf16_t)((bits >> 16) | 0x40u);
    return (pdl__bf16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

PDL__INLINE float pdl__from_bf16(pdl__bf16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float    result;

    memcpy(&result, &bits, sizeof(result));
    return result;
}

#endif
