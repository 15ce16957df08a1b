/*
 * Activations, sums and products.
 */
#include "tensor/plugin/cuda/pointwise/pointwise.h"

#include "tensor/plugin/cuda/channels.h"
#include "tensor/plugin/cuda/pointwise/functions.h"
#include "tensor/plugin/cuda/pointwise/moves.h"

template <typename T, typename F> struct activate_step {
    template <int V> __device__ static void run(const pdl__cuda_activation_t &a, int64_t at)
    {
        float x[V];

        pdl_load<T, V>(a.x, at, x);
#pragma unroll
        for (int i = 0; i < V; i++) {
            x[i] = F::value(x[i], a.slope);
            if (F::moves_zero && a.channels < a.stride && (at + i) % a.stride >= a.channels) x[i] = 0;
        }
        pdl_write<T, V>(a.out, at, x);
    }
};

template <typename T, typename F> struct activate_back_step {
    template <int V> __device__ static void run(const pdl__cuda_activation_t &a, int64_t at)
    {
        float v[V], g[V], second[V];

        pdl_load<T, V>(a.x, at, v);
        pdl_load<T, V>(a.gradient[0], at, g);
        if (a.gradient[1] != NULL) {
            pdl_load<T, V>(a.gradient[1], at, second);
#pragma unroll
            for (int i = 0; i < V; i++) g[i] += second[i];
        }
#pragma unroll
        for (int i = 0; i < V; i++) g[i] = F::back(v[i], g[i], a.slope);
        pdl_write<T, V>(a.out, at, g);
    }
};

/* Every step of a flat tensor, 8 elements at a time, and the last few alone. */
template <typename Step, typename A> __global__ void every_element(A a, int64_t count)
{
    for (int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 8; at < count;
         at += (int64_t)gridDim.x * blockDim.x * 8) {
        if (at + 8 <= count)
            Step::template run<8>(a, at);
        else
            for (int64_t i = at; i < count; i++) Step::template run<1>(a, i);
    }
}

template <typename Step, typename A>
static pdl_status_t run_elements(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const A &a, int64_t count)
{
    auto kernel = every_element<Step, A>;

    return PDL_LAUNCH(kernel, pdl__gpu_blocks(gpu, (count + 7) / 8, 256, 8), 256, 0, stream, a, count);
}

template <typename F>
static pdl_status_t run_activation(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                   const pdl__cuda_activation_t &a, bool back)
{
    int64_t count = a.rows * a.stride;

    if (type == PDL_DTYPE_BF16)
        return back ? run_elements<activate_back_step<pdl_bf16, F>>(gpu, stream, a, count)
                    : run_elements<activate_step<pdl_bf16, F>>(gpu, stream, a, count);
    return back ? run_elements<activate_back_step<float, F>>(gpu, stream, a, count)
                : run_elements<activate_step<float, F>>(gpu, stream, a, count);
}

static pdl_status_t choose_activation(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                      const pdl__cuda_activation_t &a, bool back)
{
    switch (a.function) {
    case PDL_LAYER_RELU: return run_activation<relu>(gpu, stream, type, a, back);
    case PDL_LAYER_LEAKY_RELU: return run_activation<leaky_relu>(gpu, stream, type, a, back);
    case PDL_LAYER_GELU: return run_activation<gelu>(gpu, stream, type, a, back);
    case PDL_LAYER_GELU_TANH: return run_activation<gelu_tanh>(gpu, stream, type, a, back);
    case PDL_LAYER_SILU: return run_activation<silu>(gpu, stream, type, a, back);
    case PDL_LAYER_HARD_SWISH: return run_activation<hard_swish>(gpu, stream, type, a, back);
    case PDL_LAYER_TANH: return run_activation<hyperbolic_tangent>(gpu, stream, type, a, back);
    case PDL_LAYER_SIGMOID: return run_activation<sigmoid>(gpu, stream, type, a, back);
    default: return pdl_error(PDL_ERR_UNSUPPORTED, "GPUs have no kernel for this activation");
    }
}

static pdl_status_t activate(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_activation_t *activation)
{
    return choose_activation(gpu, stream, type, *activation, false);
}

static pdl_status_t activate_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_activation_t *activation)
{
    return choose_activation(gpu, stream, type, *activation, true);
}

struct terms {
    const void *input[PDL_MAX_INPUTS];
    int         count;
    void       *sum;
};

template <typename T> struct sum_step {
    template <int V> __device__ static void run(const terms &t, int64_t at)
    {
        float sum[V], next[V];

        pdl_load<T, V>(t.input[0], at, sum);
        for (int k = 1; k < t.count; k++) {
            pdl_load<T, V>(t.input[k], at, next);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += next[i];
        }
        pdl_write<T, V>(t.sum, at, sum);
    }
};

static pdl_status_t sum(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, int inputs,
                        const void *const *input, int64_t count, void *out)
{
    terms t = {};

    t.count = inputs;
    t.sum = out;
    for (int k = 0; k < inputs; k++) t.input[k] = input[k];
    return type == PDL_DTYPE_BF16 ? run_elements<sum_step<pdl_bf16>>(gpu, stream, t, count)
                                  : run_elements<sum_step<float>>(gpu, stream, t, count);
}

/* Multiplies by all inputs but `wanted`, at one vector of a row. */
template <typename T, int V>
__device__ inline void multiply_by(const pdl__cuda_product_t &p, int64_t row, int channel, float (&value)[V])
{
    for (int k = 0; k < p.count; k++) {
        float factor[V];

        if (p.gradient != NULL && k == p.wanted) continue;
        if (!p.small[k]) {
            pdl_load<T, V>(p.input[k], row * p.stride + channel, factor);
        } else {
            const T *small = static_cast<const T *>(p.input[k]) + row / p.positions * p.channels;

#pragma unroll
            for (int i = 0; i < V; i++) factor[i] = channel + i < p.channels ? (float)small[channel + i] : 0;
        }
#pragma unroll
        for (int i = 0; i < V; i++) value[i] *= factor[i];
    }
}

template <typename T, int V>
__device__ inline void product_at(const pdl__cuda_product_t &p, int64_t row, int channel, float (&value)[V])
{
#pragma unroll
    for (int i = 0; i < V; i++) value[i] = 1;
    if (p.gradient != NULL) pdl_load<T, V>(p.gradient, row * p.stride + channel, value);
    multiply_by<T, V>(p, row, channel, value);
}

template <typename T, int V> __global__ void multiply_rows(pdl__cuda_product_t p, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t row = walk.row; row < r.rows; row += walk.step) {
        float value[V];

        product_at<T, V>(p, row, walk.channel, value);
        pdl_write<T, V>(p.out, row * p.stride + walk.channel, value);
    }
}

/* The gradient of a factor of one position: a sum over the positions of every sample. */
template <typename T, int V> __global__ void multiply_small(pdl__cuda_product_t p, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t n = blockIdx.y; n < p.samples; n += gridDim.y) {
        float sum[1][V] = {};

        for (int64_t position = walk.down; position < r.rows; position += r.down) {
            float value[V];

            product_at<T, V>(p, n * r.rows + position, walk.channel, value);
#pragma unroll
            for (int i = 0; i < V; i++) sum[0][i] += value[i];
        }
        pdl_add_rows<V, 1>(r, sum, [&](int, int channel, float total) {
            if (channel < p.channels) static_cast<T *>(p.out)[n * p.channels + channel] = T(total);
        });
        __syncthreads();
    }
}

template <typename T, int V>
static pdl_status_t run_product(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_product_t &p)
{
    auto       rows = multiply_rows<T, V>;
    auto       small = multiply_small<T, V>;
    pdl_rows_t r;

    if (p.gradient != NULL && p.small[p.wanted]) {
        r = pdl_cover_samples(p.samples, p.positions, (int)p.stride);
        return PDL_LAUNCH(small, r.grid, pdl_row_block(r), 0, stream, p, r);
    }
    r = pdl_cover_rows(gpu, p.samples * p.positions, (int)p.stride, 1, 8);
    return PDL_LAUNCH(rows, r.grid, pdl_row_block(r), 0, stream, p, r);
}

static pdl_status_t multiply(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_product_t *product)
{
    return PDL_ROW_TYPES(type, product->stride, run_product, gpu, stream, *product);
}

const pdl__cuda_pointwise_t pdl__cuda_pointwise = {
    activate,
    activate_back,
    sum,
    multiply,
    pdl__cuda_join,
    pdl__cuda_drop,
    pdl__cuda_drop_back,
    pdl__cuda_transpose,
    pdl__cuda_select,
    pdl__cuda_select_back,
};
