/*
 * Our own convolutions: in fp32 by tiles (conv_tiles.cu) where they fit, else in plain loops: what cuDNN has no plan for, such as
 * groups that do not fit the padding of channels, and everything where there is no cuDNN. In loops a thread has one element of the
 * result, and neighbours have neighbouring channels.
 */
#include "tensor/plugin/cuda/conv/conv_places.h"
#include "tensor/plugin/cuda/conv/conv_tiles.h"

#define THREADS     128
#define BLOCKS      16
#define MOST_LAYERS 65535 /* of a grid */

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
        int64_t sample = pdl_conv_split(i / f.narrow_stride, f.narrow, at);
        float   sum = 0;

        if (filter < f.filters) FOR_WINDOW(f, k, element)
            {
                int64_t  row = pdl_conv_under(f, sample, at, k);
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
        int64_t sample = pdl_conv_split(i / f.wide_stride, f.wide, under);
        float   sum = 0;

        if (channel < f.channels) FOR_WINDOW(f, k, element)
            {
                int64_t row = pdl_conv_over(f, sample, under, k);

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

        pdl_conv_split(element, f.kernel, k);
        for (int64_t row = part * rows / parts; row < (part + 1) * rows / parts; row++) {
            int     o[3];
            int64_t sample = pdl_conv_split(row, f.narrow, o), under = pdl_conv_under(f, sample, o, k);

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

/* Of the positions of narrow: as many as there is memory for, none of few positions. */
static int parts_of(const pdl__cuda_form_t &f, int64_t weights, size_t bytes)
{
    int64_t rows = f.samples * pdl_conv_volume(f.narrow),
            parts = (int64_t)(bytes / ((size_t)weights * sizeof(float)));

    if (parts > (rows + 63) / 64) parts = (rows + 63) / 64;
    if (parts > PDL__CONV_PARTS) parts = PDL__CONV_PARTS;
    if (parts > MOST_LAYERS / f.groups) parts = MOST_LAYERS / f.groups;
    return parts > 1 ? (int)parts : 1;
}

template <typename T>
static pdl_status_t run_weight(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t &f,
                               const T *wide, T *weight, const T *narrow, float *partial, size_t bytes)
{
    auto         sum = make_weight<T>;
    auto         add = add_parts<T>;
    int64_t      rows = f.samples * pdl_conv_volume(f.narrow);
    int64_t      weights = f.filters * pdl_conv_volume(f.kernel) * (f.channels / f.groups);
    int          parts = parts_of(f, weights, bytes);
    pdl_status_t status;

    if (pdl__conv_tiles_fit(&f))
        status = pdl__conv_tiles(gpu, stream, &f, PDL__CONV_WEIGHT, (float *)wide, partial, (float *)narrow, NULL,
                                 parts);
    else
        status = PDL_LAUNCH(sum, pdl__gpu_blocks(gpu, weights * parts, THREADS, BLOCKS), THREADS, 0, stream, f,
                            wide, narrow, rows, parts, weights, partial);
    if (status != PDL_OK) return status;
    return PDL_LAUNCH(add, pdl__gpu_blocks(gpu, weights, THREADS, BLOCKS), THREADS, 0, stream, weights, parts,
                      partial, weight);
}

template <typename T>
static pdl_status_t run_product(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t &f,
                                pdl__conv_product_t product, void *wide, void *weight, void *narrow,
                                const float *bias, void *workspace, size_t bytes)
{
    auto    to_narrow = make_narrow<T>;
    auto    to_wide = make_wide<T>;
    int64_t narrows = f.samples * pdl_conv_volume(f.narrow) * f.narrow_stride;
    int64_t wides = f.samples * pdl_conv_volume(f.wide) * f.wide_stride;

    if (product == PDL__CONV_WEIGHT)
        return run_weight<T>(gpu, stream, f, (const T *)wide, (T *)weight, (const T *)narrow, (float *)workspace,
                             bytes);
    if (pdl__conv_tiles_fit(&f))
        return pdl__conv_tiles(gpu, stream, &f, product, (float *)wide, (float *)weight, (float *)narrow, bias, 1);
    if (product == PDL__CONV_NARROW)
        return PDL_LAUNCH(to_narrow, pdl__gpu_blocks(gpu, narrows, THREADS, BLOCKS), THREADS, 0, stream, f,
                          (const T *)wide, (const T *)weight, (T *)narrow, bias, narrows);
    return PDL_LAUNCH(to_wide, pdl__gpu_blocks(gpu, wides, THREADS, BLOCKS), THREADS, 0, stream, f, (T *)wide,
                      (const T *)weight, (const T *)narrow, bias, wides);
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
