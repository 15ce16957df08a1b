/*
 * Inside our own kernels of convolutions: positions, and the elements of windows over them.
 */
#ifndef PDL_TENSOR_CUDA_CONV_PLACES_H
#define PDL_TENSOR_CUDA_CONV_PLACES_H

#include "tensor/plugin/cuda/conv/conv.h"
#include "tensor/plugin/cuda/kernel.h"

__host__ __device__ static inline int64_t pdl_conv_volume(const int (&extent)[3])
{
    return (int64_t)extent[0] * extent[1] * extent[2];
}

__device__ static inline int64_t pdl_conv_row(const int (&extent)[3], int64_t sample, int a, int b, int c)
{
    return ((sample * extent[0] + a) * extent[1] + b) * extent[2] + c;
}

/* The position of a row; returns its sample. */
__device__ static inline int64_t pdl_conv_split(int64_t row, const int (&extent)[3], int (&at)[3])
{
    at[2] = (int)(row % extent[2]);
    row /= extent[2];
    at[1] = (int)(row % extent[1]);
    row /= extent[1];
    at[0] = (int)(row % extent[0]);
    return row / extent[0];
}

/* Row of `wide` under element `k` of the window at `at`, or -1 in the padding. */
__device__ static inline int64_t pdl_conv_under(const pdl__cuda_form_t &f, int64_t sample, const int (&at)[3],
                                                const int (&k)[3])
{
    int under[3];

    for (int d = 0; d < 3; d++) {
        under[d] = at[d] * f.step[d] - f.pad_low[d] + k[d] * f.dilation[d];
        if (under[d] < 0 || under[d] >= f.wide[d]) return -1;
    }
    return pdl_conv_row(f.wide, sample, under[0], under[1], under[2]);
}

/* Row of `narrow` whose window has its element `k` at `under`, or -1. */
__device__ static inline int64_t pdl_conv_over(const pdl__cuda_form_t &f, int64_t sample, const int (&under)[3],
                                               const int (&k)[3])
{
    int at[3];

    for (int d = 0; d < 3; d++) {
        int from = under[d] + f.pad_low[d] - k[d] * f.dilation[d];

        if (from < 0 || from % f.step[d] != 0) return -1;
        at[d] = from / f.step[d];
        if (at[d] >= f.narrow[d]) return -1;
    }
    return pdl_conv_row(f.narrow, sample, at[0], at[1], at[2]);
}

#endif
