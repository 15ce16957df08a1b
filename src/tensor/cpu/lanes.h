/*
 * Sixteen lanes at a time: a block of channels, or sixteen neighbours. Vectors of the compiler, so that each
 * processor gets them in registers of its own width.
 */
#ifndef PDL_TENSOR_CPU_LANES_H
#define PDL_TENSOR_CPU_LANES_H

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"

typedef float    pdl__f16_t __attribute__((vector_size(64)));
typedef double   pdl__d16_t __attribute__((vector_size(128)));
typedef uint32_t pdl__u16_t __attribute__((vector_size(64)));
typedef int32_t  pdl__i16_t __attribute__((vector_size(64)));
typedef uint16_t pdl__h16_t __attribute__((vector_size(32)));

PDL__INLINE pdl__f16_t pdl__splat(float value)
{
    return (pdl__f16_t){0} + value;
}

PDL__INLINE pdl__f16_t pdl__choose(pdl__i16_t mask, pdl__f16_t yes, pdl__f16_t no)
{
    return (pdl__f16_t)(((pdl__i16_t)yes & mask) | ((pdl__i16_t)no & ~mask));
}

/* Masks: all bits of a lane, or none. They are made from sign bits, because gcc takes comparisons of these vectors
   apart into single lanes when it compiles a function for several processors. */

/* v > 0; also for a NaN without a sign. */
PDL__INLINE pdl__i16_t pdl__positive(pdl__f16_t v)
{
    return (pdl__i16_t)(0u - (pdl__u16_t)v) >> 31 & ~((pdl__i16_t)v >> 31);
}

PDL__INLINE pdl__i16_t pdl__is_nan(pdl__f16_t v)
{
    return (pdl__i16_t)(0x7f800000u - ((pdl__u16_t)v & 0x7fffffffu)) >> 31;
}

PDL__INLINE pdl__i16_t pdl__equal(pdl__i16_t a, int32_t b)
{
    pdl__u16_t difference = (pdl__u16_t)(a ^ b);

    return ~((pdl__i16_t)(difference | (0u - difference)) >> 31);
}

/* As integers, floats without a sign are in order, those with one in reverse order. */
PDL__INLINE pdl__u16_t pdl__rank(pdl__f16_t v)
{
    pdl__i16_t bits = (pdl__i16_t)v;

    return (pdl__u16_t)(bits ^ (pdl__i16_t)((pdl__u16_t)(bits >> 31) >> 1));
}

/* a > b, or a is a NaN: nothing is above a NaN but another. The sign of b - a, corrected where the difference
   overflows. NaNs that arithmetic makes have a sign, so by rank alone they would be below everything. */
PDL__INLINE pdl__i16_t pdl__above(pdl__f16_t a, pdl__f16_t b)
{
    pdl__u16_t x = pdl__rank(a), y = pdl__rank(b), difference = y - x;

    return ((pdl__i16_t)(difference ^ ((y ^ x) & (difference ^ y))) >> 31 & ~pdl__is_nan(b)) | pdl__is_nan(a);
}

/* A NaN stays one, so that it is seen in the loss. */
PDL__INLINE pdl__f16_t pdl__relu(pdl__f16_t v)
{
    return (pdl__f16_t)((pdl__i16_t)v & (~((pdl__i16_t)v >> 31) | pdl__is_nan(v)));
}

/* `lanes` elements; the others are 0 in a load and untouched in a store. 16 as a constant is one instruction. */
PDL__INLINE pdl__f16_t pdl__load_f32(const float *p, int64_t lanes)
{
    pdl__f16_t v = {0};

    memcpy(&v, p, lanes == 16 ? sizeof(v) : (size_t)lanes * sizeof(*p));
    return v;
}

PDL__INLINE void pdl__store_f32(float *p, pdl__f16_t v, int64_t lanes)
{
    memcpy(p, &v, lanes == 16 ? sizeof(v) : (size_t)lanes * sizeof(*p));
}

PDL__INLINE pdl__f16_t pdl__load_bf16(const pdl__bf16_t *p, int64_t lanes)
{
    pdl__h16_t half = {0};

    memcpy(&half, p, lanes == 16 ? sizeof(half) : (size_t)lanes * sizeof(*p));
    return (pdl__f16_t)(__builtin_convertvector(half, pdl__u16_t) << 16);
}

PDL__INLINE void pdl__store_bf16(pdl__bf16_t *p, pdl__f16_t v, int64_t lanes)
{
    pdl__u16_t bits = (pdl__u16_t)v, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    pdl__u16_t nan = (pdl__u16_t)pdl__is_nan(v);
    pdl__h16_t half = __builtin_convertvector((rounded & ~nan) | ((bits >> 16 | 0x40u) & nan), pdl__h16_t);

    memcpy(p, &half, lanes == 16 ? sizeof(half) : (size_t)lanes * sizeof(*p));
}

#endif
