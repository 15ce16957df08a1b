/*
 * Positions of tensors with channels innermost, and the parts of the table of window.h that are in files of their own.
 */
#ifndef PDL_TENSOR_CUDA_PLACES_H
#define PDL_TENSOR_CUDA_PLACES_H

#include "tensor/plugin/cuda/channels.h"
#include "tensor/plugin/cuda/window/window.h"

#define PDL_WINDOW_BLOCKS 8 /* of a multiprocessor */

/* A position of a sample, from its row. */
struct pdl_place {
    int sample, at[3];

    __device__ pdl_place(int64_t row, const int (&extent)[3])
    {
        unsigned rest = (unsigned)row;

        at[2] = (int)(rest % (unsigned)extent[2]);
        rest /= (unsigned)extent[2];
        at[1] = (int)(rest % (unsigned)extent[1]);
        rest /= (unsigned)extent[1];
        at[0] = (int)(rest % (unsigned)extent[0]);
        sample = (int)(rest / (unsigned)extent[0]);
    }
};

__device__ inline int64_t pdl_row_of(const int (&extent)[3], int sample, int a, int b, int c)
{
    return (((int64_t)sample * extent[0] + a) * extent[1] + b) * extent[2] + c;
}

static inline int64_t pdl_count_rows(int samples, const int (&extent)[3])
{
    return (int64_t)samples * extent[0] * extent[1] * extent[2];
}

/* pool.cu */
pdl_status_t pdl__cuda_pool(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                            const pdl__cuda_pool_t *pool);
pdl_status_t pdl__cuda_pool_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const pdl__cuda_pool_t *pool);

#endif
