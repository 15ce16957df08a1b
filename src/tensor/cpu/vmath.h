/*
 * Functions that vectorise: no branches, no tables, no calls. Used inside loops that are marked `omp simd`.
 */
#ifndef PDL_TENSOR_CPU_VMATH_H
#define PDL_TENSOR_CPU_VMATH_H

#include "tensor/cpu/simd.h"

/* e^x to 1e-7 relative: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. Beyond +-87 it stays at the last
   finite, normal value; a NaN stays one. Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the
   low bits. */
PDL__INLINE float pdl__expf(float x)
{
    const float round = 12582912.0f;
    float       y = x > 88.0f ? 88.0f : x;
    float       shifted, n, r, p, scale;
    uint32_t    bits;

    y = y < -87.0f ? -87.0f : y;
    shifted = y * 1.44269504088896341f + round;
    n = shifted - round;
    r = y - n * 0.693145751953125f;
    r = r - n * 1.42860677e-6f;
    p = 1.3888889e-3f;
    p = p * r + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

/* The largest of `count` >= 1 values, kept in lanes because compilers may not reorder comparisons of floats by
   themselves. */
PDL__INLINE float pdl__largest(int64_t count, const float *x)
{
    float   lane[16], largest = x[0];
    int64_t whole = count / 16 * 16;

    for (int j = 0; j < 16; j++) lane[j] = x[0];
    for (int64_t i = 0; i < whole; i += 16) {
#pragma omp simd
        for (int j = 0; j < 16; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
    for (int j = 0; j < 16; j++) largest = lane[j] > largest ? lane[j] : largest;
    for (int64_t i = whole; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

/* The normal distribution at x: *density its density, *below the probability of a value below x. The tail is
   density * t P(t), t = 1 / (1 + 0.4 |x| / sqrt 2), with P fitted to 3e-7 relative, so that it stays accurate
   where it is tiny. */
PDL__INLINE void pdl__normal(float x, float *density, float *below)
{
    float z = fabsf(x) * 0.70710678118654752f;
    float t = 1.0f / (1.0f + 0.4f * z);
    float e = pdl__expf(-z * z);
    float p = 0.02513668f;
    float tail;

    p = p * t - 0.09147336f;
    p = p * t + 0.084580004f;
    p = p * t - 0.002836095f;
    p = p * t + 0.07073151f;
    p = p * t + 0.08426667f;
    p = p * t + 0.103921965f;
    p = p * t + 0.11283476f;
    p = p * t + 0.11283793f;
    tail = e * t * p;
    *density = e * 0.39894228040143268f;
    *below = x > 0.0f ? 1.0f - tail : tail;
}

PDL__INLINE float pdl__gelu(float x)
{
    float density, below;

    pdl__normal(x, &density, &below);
    return x * below;
}

PDL__INLINE float pdl__gelu_slope(float x)
{
    float density, below;

    pdl__normal(x, &density, &below);
    return below + x * density;
}

PDL__INLINE float pdl__sigmoidf(float x)
{
    return 1.0f / (1.0f + pdl__expf(-x));
}

/* GELU by tanh: x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). Beyond 10 the sigmoid is 0 or 1
   to rounding, and the cube need not overflow. */
PDL__INLINE float pdl__gelu_tanh_inside(float x)
{
    return x > 10.0f ? 10.0f : x < -10.0f ? -10.0f : x;
}

PDL__INLINE float pdl__gelu_tanh(float x)
{
    float z = pdl__gelu_tanh_inside(x);

    return x * pdl__sigmoidf(1.59576912f * (z + 0.044715f * z * z * z));
}

PDL__INLINE float pdl__gelu_tanh_slope(float x)
{
    float z = pdl__gelu_tanh_inside(x);
    float s = pdl__sigmoidf(1.59576912f * (z + 0.044715f * z * z * z));

    return s + z * s * (1.0f - s) * 1.59576912f * (1.0f + 0.134145f * z * z);
}

PDL__INLINE float pdl__silu(float x)
{
    return x * pdl__sigmoidf(x);
}

PDL__INLINE float pdl__silu_slope(float x)
{
    float s = pdl__sigmoidf(x);

    return s + x * s * (1.0f - s);
}

/* Near zero the quotient loses digits, where three terms of the series are exact enough. */
PDL__INLINE float pdl__tanhf(float x)
{
    float square = x * x;
    float series = x * (1.0f + square * (-0.33333333f + square * (0.13333333f - 0.053968254f * square)));
    float e = pdl__expf(-2.0f * fabsf(x));
    float quotient = copysignf((1.0f - e) / (1.0f + e), x);

    return square < 0.02f ? series : quotient;
}

#endif
