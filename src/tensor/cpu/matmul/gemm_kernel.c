/*
 * The register kernels: an 8 x 32 part of C stays in registers while k runs. With AVX-512 that is 16 accumulators;
 * with 256-bit registers, of which there are only 16, the part is done in four quarters.
 */
#include "tensor/cpu/matmul/gemm.h"
#include "tensor/cpu/simd.h"

#if defined(__x86_64__)
#define TARGET(name) __attribute__((target(name)))
#else
#define TARGET(name)
#endif

/* Unaligned, and allowed to look at floats. */
typedef float v16_t __attribute__((vector_size(64), aligned(4), may_alias));
typedef float v8_t __attribute__((vector_size(32), aligned(4), may_alias));

#define ROWS    PDL__GEMM_ROWS
#define COLUMNS PDL__GEMM_COLUMNS

/* Asks for the part of C, which is needed only after the last step, before the first. */
PDL__INLINE void fetch(const float *c, int64_t c_stride)
{
    for (int i = 0; i < ROWS; i++) {
        __builtin_prefetch(c + i * c_stride, 1);
        __builtin_prefetch(c + i * c_stride + 16, 1);
        __builtin_prefetch(c + i * c_stride + COLUMNS - 1, 1);
    }
}

#if defined(__x86_64__)
/* The sums of an 8 x 32 part, where element (i, p) of A lies at i * row + p * step. */
TARGET("avx512f")
PDL__INLINE void part_avx512(int64_t k, const float *a, int64_t row, int64_t step, const float *b, float *c,
                             int64_t c_stride, bool add)
{
    v16_t left[ROWS], right[ROWS];

    fetch(c, c_stride);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) left[i] = right[i] = (v16_t){0};
    for (int64_t p = 0; p < k; p++) {
        v16_t b0 = *(const v16_t *)(b + p * COLUMNS), b1 = *(const v16_t *)(b + p * COLUMNS + 16);

#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            left[i] += a[i * row + p * step] * b0;
            right[i] += a[i * row + p * step] * b1;
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++) {
        v16_t *out = (v16_t *)(c + i * c_stride);

        if (add) {
            left[i] += out[0];
            right[i] += out[1];
        }
        out[0] = left[i];
        out[1] = right[i];
    }
}

TARGET("avx512f")
static void kernel_avx512(int64_t k, const float *a, const float *b, float *c, int64_t c_stride, bool add)
{
    part_avx512(k, a, 1, ROWS, b, c, c_stride, add);
}

TARGET("avx512f")
static void direct_avx512(int64_t k, const pdl__left_t *a, const float *b, float *c, int64_t c_stride, bool add)
{
    if (a->step == 1)
        part_avx512(k, a->data, a->row, 1, b, c, c_stride, add);
    else
        part_avx512(k, a->data, 1, a->step, b, c, c_stride, add);
}
#endif

/* Four rows and sixteen columns: eight accumulators of eight. */
PDL__INLINE void quarter(int64_t k, const float *a, int64_t row, int64_t step, const float *b, float *c,
                         int64_t c_stride, bool add)
{
    v8_t left[4], right[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) left[i] = right[i] = (v8_t){0};
    for (int64_t p = 0; p < k; p++) {
        v8_t b0 = *(const v8_t *)(b + p * COLUMNS), b1 = *(const v8_t *)(b + p * COLUMNS + 8);

#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            left[i] += a[i * row + p * step] * b0;
            right[i] += a[i * row + p * step] * b1;
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v8_t *out = (v8_t *)(c + i * c_stride);

        if (add) {
            left[i] += out[0];
            right[i] += out[1];
        }
        out[0] = left[i];
        out[1] = right[i];
    }
}

PDL__INLINE void quarters(int64_t k, const float *a, int64_t row, int64_t step, const float *b, float *c,
                          int64_t c_stride, bool add)
{
    fetch(c, c_stride);
    for (int i = 0; i < ROWS; i += 4)
        for (int j = 0; j < COLUMNS; j += 16)
            quarter(k, a + i * row, row, step, b + j, c + i * c_stride + j, c_stride, add);
}

PDL__INLINE void direct_quarters(int64_t k, const pdl__left_t *a, const float *b, float *c, int64_t c_stride,
                                 bool add)
{
    if (a->step == 1)
        quarters(k, a->data, a->row, 1, b, c, c_stride, add);
    else
        quarters(k, a->data, 1, a->step, b, c, c_stride, add);
}

#if defined(__x86_64__)
TARGET("avx2,fma")
static void kernel_avx2(int64_t k, const float *a, const float *b, float *c, int64_t c_stride, bool add)
{
    quarters(k, a, 1, ROWS, b, c, c_stride, add);
}

TARGET("avx2,fma")
static void direct_avx2(int64_t k, const pdl__left_t *a, const float *b, float *c, int64_t c_stride, bool add)
{
    direct_quarters(k, a, b, c, c_stride, add);
}
#endif

static void kernel_any(int64_t k, const float *a, const float *b, float *c, int64_t c_stride, bool add)
{
    quarters(k, a, 1, ROWS, b, c, c_stride, add);
}

static void direct_any(int64_t k, const pdl__left_t *a, const float *b, float *c, int64_t c_stride, bool add)
{
    direct_quarters(k, a, b, c, c_stride, add);
}

pdl__gemm_kernel_fn_t pdl__gemm_kernel(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return kernel_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kernel_avx2;
#endif
    return kernel_any;
}

pdl__gemm_direct_fn_t pdl__gemm_direct(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return direct_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return direct_avx2;
#endif
    return direct_any;
}
