/*
 * Element-wise kernels work on chunks of floats. With bf16 a chunk is widened into a buffer that stays in the
 * first-level cache, and narrowed back; with fp32 it is the tensor's own memory.
 */
#ifndef PDL_TENSOR_CPU_CHUNK_H
#define PDL_TENSOR_CPU_CHUNK_H

#include "tensor/cpu/simd.h"

#include <stdbool.h>

#define PDL__CHUNK 1024
/* Elements below which a second thread does not pay. */
#define PDL__CHUNK_GRAIN 8192

PDL__INLINE int64_t pdl__chunk_size(int64_t first, int64_t end)
{
    return end - first < PDL__CHUNK ? end - first : PDL__CHUNK;
}

PDL__INLINE const float *pdl__chunk_read(bool bf16, const void *data, int64_t first, int64_t count, float *buffer)
{
    const pdl__bf16_t *narrow = (const pdl__bf16_t *)data + first;

    if (!bf16) return (const float *)data + first;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) buffer[i] = pdl__from_bf16(narrow[i]);
    return buffer;
}

/* Where the results of a chunk go; with bf16 pdl__chunk_write takes them from there. */
PDL__INLINE float *pdl__chunk_target(bool bf16, void *data, int64_t first, float *buffer)
{
    return bf16 ? buffer : (float *)data + first;
}

PDL__INLINE void pdl__chunk_write(bool bf16, void *data, int64_t first, int64_t count, const float *values)
{
    pdl__bf16_t *narrow = (pdl__bf16_t *)data + first;

    if (!bf16) return;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) narrow[i] = pdl__to_bf16(values[i]);
}

#endif
