/*
 * What is around the products of a convolution: weights in the order that they read, bias and ReLU.
 */
#include "tensor/plugin/cuda/conv/conv.h"

#include "tensor/plugin/cuda/channels.h"

#define THREADS 256
#define BLOCKS  8

/* Element of the plain window that is at element `at` of the packed one, in phase (y, x) of a folded image; -1: none. */
__device__ static inline int plain_element(const pdl__conv_packing_t &p, int at, int phase)
{
    int y, x;

    if (!p.folded) return at;
    y = 2 * (at / p.packed_window[1] + p.first[0]) + phase / 2 + p.pad[0];
    x = 2 * (at % p.packed_window[1] + p.first[1]) + phase % 2 + p.pad[1];
    return (unsigned)y < (unsigned)p.window[0] && (unsigned)x < (unsigned)p.window[1] ? y * p.window[1] + x : -1;
}

/* Where an element of the plain window is in the packed one, and its first channel. */
__device__ static inline int packed_element(const pdl__conv_packing_t &p, int element, int *channel)
{
    int y, x;

    *channel = 0;
    if (!p.folded) return element;
    y = element / p.window[1] - p.pad[0] - 2 * p.first[0]; /* not negative */
    x = element % p.window[1] - p.pad[1] - 2 * p.first[1];
    *channel = (y % 2 * 2 + x % 2) * 4;
    return y / 2 * p.packed_window[1] + x / 2;
}

/* Weights are counted in 32 bits: divisions of 64 would take longer than the memory. */
template <typename T>
__global__ void pack_weights(pdl__conv_packing_t p, unsigned window, unsigned packed_window, const float *plain,
                             T *packed)
{
    unsigned channels = (unsigned)p.packed_channels, count = (unsigned)p.packed_filters * packed_window * channels;

    for (unsigned i = (unsigned)pdl_grid_thread(); i < count; i += (unsigned)pdl_grid_threads()) {
        unsigned filter = i / channels / packed_window;
        int      channel = (int)(i % channels),
            element = plain_element(p, (int)(i / channels % packed_window), channel / 4);
        float value = 0;

        if (p.folded) channel %= 4;
        if (filter < (unsigned)p.filters && channel < p.channels && element >= 0)
            value = plain[((int64_t)filter * p.channels + channel) * window + element];
        packed[i] = T(value);
    }
}

template <typename T>
__global__ void unpack_weights(pdl__conv_packing_t p, unsigned window, unsigned packed_window, const T *packed,
                               float *plain, bool add)
{
    unsigned channels = (unsigned)p.channels, count = (unsigned)p.filters * channels * window;

    for (unsigned i = (unsigned)pdl_grid_thread(); i < count; i += (unsigned)pdl_grid_threads()) {
        unsigned rest = i / window, channel = rest % channels, filter = rest / channels;
        int      first, at = packed_element(p, (int)(i - rest * window), &first);
        float value = (float)packed[((int64_t)filter * packed_window + at) * p.packed_channels + first + channel];

        plain[i] = add ? plain[i] + value : value;
    }
}

static unsigned volume(const int (&extent)[3])
{
    return (unsigned)(extent[0] * extent[1] * extent[2]);
}

extern "C" pdl_status_t pdl__conv_pack(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                       const pdl__conv_packing_t *p, const float *plain, void *packed)
{
    auto     narrow = pack_weights<pdl_bf16>;
    auto     wide = pack_weights<float>;
    unsigned window = volume(p->window), packed_window = volume(p->packed_window);
    int64_t  count = (int64_t)p->packed_filters * packed_window * p->packed_channels;
    int      blocks = pdl__gpu_blocks(gpu, count, THREADS, BLOCKS);

    return type == PDL_DTYPE_BF16
               ? PDL_LAUNCH(narrow, blocks, THREADS, 0, stream, *p, window, packed_window, plain,
                            (pdl_bf16 *)packed)
               : PDL_LAUNCH(wide, blocks, THREADS, 0, stream, *p, window, packed_window, plain, (float *)packed);
}

extern "C" pdl_status_t pdl__conv_unpack(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                         const pdl__conv_packing_t *p, const void *packed, float *plain, bool add)
{
    auto     narrow = unpack_weights<pdl_bf16>;
    auto     wide = unpack_weights<float>;
    unsigned window = volume(p->window), packed_window = volume(p->packed_window);
    int64_t  count = (int64_t)p->filters * p->channels * window;
    int      blocks = pdl__gpu_blocks(gpu, count, THREADS, BLOCKS);

    return type == PDL_DTYPE_BF16 ? PDL_LAUNCH(narrow, blocks, THREADS, 0, stream, *p, window, packed_window,
                                               (const pdl_bf16 *)packed, plain, add)
                                  : PDL_LAUNCH(wide, blocks, THREADS, 0, stream, *p, window, packed_window,
                                               (const float *)packed, plain, add);
}

template <typename T, int V> __global__ void finish_rows(pdl_rows_t r, const float *bias, bool relu, void *y)
{
    pdl_row_walk<V> walk(r);
    float           shift[V] = {};

    if (bias != NULL) pdl_load_floats<V>(bias, walk.channel, shift);
    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        float value[V];

        pdl_load<T, V>(y, row * r.stride + walk.channel, value);
#pragma unroll
        for (int i = 0; i < V; i++) {
            value[i] += shift[i];
            if (relu) value[i] = value[i] < 0 ? 0 : value[i];
        }
        pdl_write<T, V>(y, row * r.stride + walk.channel, value);
    }
}

template <typename T, int V>
static pdl_status_t run_finish(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, int64_t rows, int stride,
                               const float *bias, bool relu, void *y)
{
    auto       kernel = finish_rows<T, V>;
    pdl_rows_t r = pdl_cover_rows(gpu, rows, stride, 2, BLOCKS);

    return PDL_LAUNCH(kernel, r.grid, pdl_row_block(r), 0, stream, r, bias, relu, y);
}

extern "C" pdl_status_t pdl__conv_finish(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_form_t *form,
                                         pdl__conv_product_t product, const float *bias, void *made)
{
    bool    narrow = product == PDL__CONV_NARROW, relu = narrow && form->relu;
    int64_t rows = (int64_t)form->samples * (narrow ? volume(form->narrow) : volume(form->wide));
    int     stride = narrow ? form->narrow_stride : form->wide_stride;

    if (bias == NULL && !relu) return PDL_OK;
    return PDL_ROW_TYPES(form->type, stride, run_finish, gpu, stream, rows, stride, bias, relu, made);
}
