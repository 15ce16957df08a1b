/*
 * Convolutions in plain loops: what cuDNN has no plan for, such as groups that do not fit the padding of channels, and everything
 * where there is no cuDNN. A thread has one element of the result, and neighbours have neighbouring channels.
 */
#include "tensor/plugin/cuda/conv/conv.h"

#include "tensor/plugin/cuda/kernel.h"

#define THREADS 128
#define BLOCKS  16

__device__ static inline int64_t row_of(const int (&extent)[3], int64_t sample, int a, int b, int c)
{
    return ((sample * extent[0] + a) * extent[1] + b) * extent[2] + c;
}

__device__ static inline int64_t split(int64_t row, const int (&extent)[3], int (&at)[3])
{
    at[2] = (int)(row % extent[2]);
    row /= extent[2];
    at[1] = (int)(row % extent[1]);
    row /= extent[1];
    at[0] = (int)(row % extent[0]);
    return row / extent[0];
}

/* Row of `wide` under element `k` of the window at `at`, or -1 in the padding. */
__device__ static inline int64_t row_under(const pdl__cuda_form_t &f, int64_t sample, const int (&at)[3],
                                           const int (&k)[3])
{
    int under[3];

    for (int d = 0; d < 3; d++) {
        under[d] = at[d] * f.step[d] - f.pad_low[d] + k[d] * f.dilation[d];
        if (under[d] < 0 || under[d] >= f.wide[d]) return -1;
    }
    return row_of(f.wide, sample, under[0], under[1], under[2]);
}

/* Row of `narrow` whose window has its element `k` at `under`, or -1. */
__device__ static inline int64_t row_over(const pdl__cuda_form_t &f, int64_t sample, const int (&under)[3],
                                          const int (&k)[3])
{
    int at[3];

    for (int d = 0; d < 3; d++) {
        int from = under[d] + f.pad_low[d] - k[d] * f.dilation[d];

        if (from < 0 || from % f.step[d] != 0) return -1;
        at[d] = from / f.step[d];
        if (at[d] >= f.narrow[d]) return -1;
    }
    return row_of(f.narrow, sample, at[0], at[1], at[2]);
}

#define FOR_WINDOW(f, k, element)                                         \
    for (int element = 0, k[3] = {0, 0, 0}; k[0] < (f).kernel[0]; k[0]++) \
        for (k[1] = 0; k[1] < (f).kernel[1]; k[1]++)                      \
            for (k[2] = 0; k[2] < (f).kernel[2]; k[2]++, element++)

template <typename T>
__global__ void make_narrow(pdl__cuda_form_t f, const T *wide, const T *weight, T *narrow, const float *bias,
                            int64_t count)
{
    int in_group = f.channels / f.groups, out_group = f.filters / f.groups;
    int window = f.kernel[0] * f.kernel[1] * f.kernel[2];

    for (int64_t i = pdl_grid_thread(); i < count; i += pdl_grid_threads()) {
        int     filter = (int)(i % f.narrow_stride), at[3];
        int64_t sample = split(i / f.narrow_stride, f.narrow, at);
        float   sum = 0;

        if (filter < f.filters) FOR_WINDOW(f, k, element)
            {
                int64_t  row = row_under(f, sample, at, k);
                const T *x = wide + row * f.wide_stride + filter / out_group * in_group;
                const T *w = weight + ((int64_t)filter * window + element) * in_group;

                for (int c = 0; row >= 0 && c < in_group; c++) sum += (float)x[c] * (float)w[c];
            }
        if (bias != NULL) sum += bias[filter];
        narrow[i] = T(f.relu && sum < 0 ? 0.0f : sum);
    }
}

template <typename T>
__global__ void make_wide(pdl__cuda_form_t f, T *wide, const T *weight, const T *narrow, const float *bias,
                          int64_t count)
{
    int in_group = f.channels / f.groups, out_group = f.filters / f.groups;
    int window = f.kernel[0] * f.kernel[1] * f.kernel[2];

    for (int64_t i = pdl_grid_thread(); i < count; i += pdl_grid_threads()) {
        int     channel = (int)(i % f.wide_stride), under[3], group = channel / in_group;
        int64_t sample = split(i / f.wide_stride, f.wide, under);
        float   sum = 0;

        if (channel < f.channels) FOR_WINDOW(f, k, element)
            {
                int64_t row = row_over(f, sample, under, k);

                for (int o = group * out_group; row >= 0 && o < (group + 1) * out_group; o++)
                    sum += (float)narrow[row * f.narrow_stride + o] *
                           (float)weight[((int64_t)o * window + element) * in_group + channel % in_group];
            }
        wide[i] = T(bias != NULL ? sum + bias[channel] : sum);
    }
}

/* partial[part][weights]: the sum over some of the rows. */
template <typename T>
__global__ void make_weight(pdl__cuda_form_t f, const T *wide, const T *narrow, int64_t rows, int parts,
                            int64_t weights, float *partial)
{
    int in_group = f.channels / f.groups, out_group = f.filters / f.groups;
    int window = f.kernel[0] * f.kernel[1] * f.kernel[2];

    for (int64_t i = pdl_grid_thread(); i < weights * parts; i += pdl_grid_threads()) {
        int64_t at = i % weights, part = i / weights;
        int     channel = (int)(at % in_group), element = (int)(at / in_group % window);
        int     filter = (int)(at / in_group / window), k[3];
        float   sum = 0;

        split(element, f.kernel, k);
        for (int64_t row = part * rows / parts; row < (part + 1) * rows / parts; row++) {
            int     o[3];
            int64_t sample = split(row, f.narrow, o), under = row_under(f, sample, o, k);

            if (under >= 0)
                sum += (float)narrow[row * f.narrow_stride + filter] *
                       (float)wide[under * f.wide_stride + filter / out_group * in_group + channel];
        }
        partial[i] = sum;
    }
}

template <typename T> __global__ void add_parts(int64_t weights, int parts, const float *partial, T *weight)
{
    for (int64_t i = pdl_grid_thread(); i < weights; i += pdl_grid_threads()) {
        double sum = 0;

        for (int p = 0; p < parts; p++) sum += (double)partial[p * weights + i];
        weight[i] = T((float)sum);
    }
}

template <typename T>
static pdl_status_t run_weight(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t &f,
                               const T *wide, T *weight, const T *narrow, float *partial, size_t bytes)
{
    auto         parts_of = make_weight<T>;
    auto         add = add_parts<T>;
    int64_t      rows = (int64_t)f.samples * f.narrow[0] * f.narrow[1] * f.narrow[2];
    int64_t      weights = (int64_t)f.filters * f.kernel[0] * f.kernel[1] * f.kernel[2] * (f.channels / f.groups);
    int64_t      parts = (int64_t)(bytes / ((size_t)weights * sizeof(float)));
    pdl_status_t status;

    if (parts > (rows + 63) / 64) parts = (rows + 63) / 64;
    if (parts > 256) parts = 256;
    status = PDL_LAUNCH(parts_of, pdl__gpu_blocks(gpu, weights * parts, THREADS, BLOCKS), THREADS, 0, stream, f,
                        wide, narrow, rows, (int)parts, weights, partial);
    if (status != PDL_OK) return status;
    return PDL_LAUNCH(add, pdl__gpu_blocks(gpu, weights, THREADS, BLOCKS), THREADS, 0, stream, weights, (int)parts,
                      partial, weight);
}

template <typename T>
static pdl_status_t run_product(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t &f,
                                pdl__conv_product_t product, void *wide, void *weight, void *narrow,
                                const float *bias, void *workspace, size_t bytes)
{
    auto    to_narrow = make_narrow<T>;
    auto    to_wide = make_wide<T>;
    int64_t narrows = (int64_t)f.samples * f.narrow[0] * f.narrow[1] * f.narrow[2] * f.narrow_stride;
    int64_t wides = (int64_t)f.samples * f.wide[0] * f.wide[1] * f.wide[2] * f.wide_stride;

    switch (product) {
    case PDL__CONV_NARROW:
        return PDL_LAUNCH(to_narrow, pdl__gpu_blocks(gpu, narrows, THREADS, BLOCKS), THREADS, 0, stream, f,
                          (const T *)wide, (const T *)weight, (T *)narrow, bias, narrows);
    case PDL__CONV_WIDE:
        return PDL_LAUNCH(to_wide, pdl__gpu_blocks(gpu, wides, THREADS, BLOCKS), THREADS, 0, stream, f, (T *)wide,
                          (const T *)weight, (const T *)narrow, bias, wides);
    default:
        return run_weight<T>(gpu, stream, f, (const T *)wide, (T *)weight, (const T *)narrow, (float *)workspace,
                             bytes);
    }
}

extern "C" pdl_status_t pdl__conv_direct(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                                         pdl__conv_product_t product, void *wide, void *weight, void *narrow,
                                         const float *bias, void *workspace, size_t workspace_bytes)
{
    return form->type == PDL_DTYPE_BF16 ? run_product<pdl_bf16>(gpu, stream, *form, product, wide, weight, narrow,
                                                                bias, workspace, workspace_bytes)
                                        : run_product<float>(gpu, stream, *form, product, wide, weight, narrow,
                                                             bias, workspace, workspace_bytes);
}
