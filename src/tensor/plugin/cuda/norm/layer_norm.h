/*
 * Layer norm and RMS norm: rows of channels to mean 0 (not in RMS norm) and mean square 1, then scaled and shifted.
 */
#ifndef PDL_TENSOR_CUDA_LAYER_NORM_H
#define PDL_TENSOR_CUDA_LAYER_NORM_H

#include "tensor/plugin/cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pdl__cuda_rows_norm {
    int64_t      rows, channels, stride; /* of a row: elements used, and all of them; the others are zero */
    bool         centred;                /* layer norm */
    float        epsilon;
    const void  *x;
    const float *weight, *bias; /* bias NULL: none */
    void        *y;
    float       *statistics; /* [rows][2]: mean and inverse deviation; forward: NULL where they are not kept */
    /* backward */
    const void *dy;
    const void *added;           /* to dx; NULL: nothing */
    void       *dx;              /* NULL: not wanted; may be dy */
    float      *dweight, *dbias; /* likewise */
    bool        add;             /* to dweight and dbias */
    float      *parts;           /* pdl__cuda_rows_norm_workspace() bytes */
} pdl__cuda_rows_norm_t;

/* Gradients of weight and bias are summed in parts of the rows first, at most so many. */
static inline int64_t pdl__cuda_rows_norm_parts(int64_t rows)
{
    return rows + 7 < 512 * 8 ? (rows + 7) / 8 : 512;
}

static inline size_t pdl__cuda_rows_norm_workspace(int64_t rows, int64_t channels)
{
    return (size_t)(pdl__cuda_rows_norm_parts(rows) * 2 * channels) * sizeof(float);
}

/* Threads of a block that has a row; 0: rows are not wide, or cannot be read by vectors. */
static inline int pdl__cuda_wide_norm_threads(const pdl__cuda_rows_norm_t *norm)
{
    bool even = norm->channels % 8 == 0 && norm->stride == norm->channels;

    if (!even || norm->channels <= 1792 || norm->channels > 8192) return 0;
    return (int)((norm->channels / 8 + 31) / 32 * 32);
}

pdl_status_t pdl__cuda_wide_norm(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_rows_norm_t *norm);
/* Sums of dweight and dbias are left in *parts parts, at most those that are given. */
pdl_status_t pdl__cuda_wide_norm_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                      const pdl__cuda_rows_norm_t *norm, int64_t *parts);

typedef struct pdl__cuda_layer_norms {
    pdl_status_t (*forward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_rows_norm_t *norm);
    pdl_status_t (*backward)(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_rows_norm_t *norm);
} pdl__cuda_layer_norms_t;

extern const pdl__cuda_layer_norms_t pdl__cuda_layer_norms;

#ifdef __cplusplus
}
#endif
#endif
