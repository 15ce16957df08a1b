/*
 * Group norm: every pass first sums channel by channel of a sample, then adds up the channels of a group, so groups need not
 * fit the vectors in which channels are read.
 */
#include "tensor/plugin/cuda/norm/group_norm.h"

#include "tensor/plugin/cuda/channels.h"

/* Sums of a and a b over the positions of a sample: of x and x^2, or of dy and dy x. */
template <typename T, int V, bool BACK> __global__ void sum_samples(pdl__cuda_group_norm_t g, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t n = blockIdx.y; n < g.samples; n += gridDim.y) {
        float sum[2][V] = {}, center[V];

        /* Around the first row, as in batch norm; backward around 0. */
        pdl_load<T, V>(g.x, n * r.rows * g.stride + walk.channel, center);
        for (int64_t position = walk.down; position < r.rows; position += r.down) {
            int64_t at = (n * r.rows + position) * g.stride + walk.channel;
            float   a[V], b[V];

            pdl_load<T, V>(BACK ? g.gradient : g.x, at, a);
            pdl_load<T, V>(g.x, at, b);
#pragma unroll
            for (int i = 0; i < V; i++) {
                b[i] -= center[i];
                if (!BACK) a[i] = b[i];
                sum[0][i] += a[i];
                sum[1][i] += a[i] * b[i];
            }
        }
        pdl_add_rows<V, 2>(r, sum, [&](int which, int channel, float total) {
            g.sums[(n * g.stride + channel) * 2 + which] = (double)total;
        });
        __syncthreads();
    }
}

/* A thread for a group of a sample, forward: statistics, and y = u x + w. */
template <typename T> __global__ void set_groups(pdl__cuda_group_norm_t g)
{
    int width = g.channels / g.groups;

    for (int64_t at = pdl_grid_thread(); at < g.samples * g.groups; at += pdl_grid_threads()) {
        int64_t  n = at / g.groups;
        int      first = (int)(at % g.groups) * width;
        const T *center = static_cast<const T *>(g.x) + n * g.positions * g.stride;
        double   sum = 0, squares = 0, count = (double)width * (double)g.positions, mean, variance, inverse;

        for (int c = first; c < first + width; c++) {
            const double *s = g.sums + (n * g.stride + c) * 2;
            double        middle = (double)(float)center[c], local = (double)g.positions;

            sum += s[0] + local * middle;
            squares += s[1] + middle * (2 * s[0] + local * middle);
        }
        mean = sum / count;
        variance = squares / count - mean * mean;
        inverse = 1 / sqrt((variance > 0 ? variance : 0) + g.epsilon);
        g.statistics[2 * at] = (float)mean;
        g.statistics[2 * at + 1] = (float)inverse;
        for (int c = first; c < first + width; c++) {
            float *k = g.coefficients + (n * g.stride + c) * 3;

            k[0] = (float)(inverse * (double)g.gamma[c]);
            k[1] = 0;
            k[2] = (float)((g.beta != NULL ? (double)g.beta[c] : 0.0) - mean * inverse * (double)g.gamma[c]);
        }
    }
}

/* Backward: sums of dy and dy z, z = (x - mean) / deviation, in place, and
   dx = inverse (gamma dy - mean(gamma dy) - z mean(gamma dy z)) = u dy + v x + w. */
template <typename T> __global__ void set_groups_back(pdl__cuda_group_norm_t g)
{
    int width = g.channels / g.groups;

    for (int64_t at = pdl_grid_thread(); at < g.samples * g.groups; at += pdl_grid_threads()) {
        int64_t  n = at / g.groups;
        int      first = (int)(at % g.groups) * width;
        const T *center = static_cast<const T *>(g.x) + n * g.positions * g.stride;
        double   mean = (double)g.statistics[2 * at], inverse = (double)g.statistics[2 * at + 1], plain = 0,
               product = 0, count = (double)width * (double)g.positions;

        for (int c = first; c < first + width; c++) {
            double *s = g.sums + (n * g.stride + c) * 2;

            s[1] = (s[1] + ((double)(float)center[c] - mean) * s[0]) * inverse;
            plain += (double)g.gamma[c] * s[0];
            product += (double)g.gamma[c] * s[1];
        }
        for (int c = first; c < first + width; c++) {
            float *k = g.coefficients + (n * g.stride + c) * 3;
            double v = -inverse * inverse * product / count;

            k[0] = (float)(inverse * (double)g.gamma[c]);
            k[1] = (float)v;
            k[2] = (float)(-inverse * plain / count - v * mean);
        }
    }
}

static __global__ void gradient_of_weights(pdl__cuda_group_norm_t g)
{
    for (int c = (int)pdl_grid_thread(); c < g.channels; c += (int)pdl_grid_threads()) {
        double sum = 0, product = 0;

        for (int64_t n = 0; n < g.samples; n++) {
            sum += g.sums[(n * g.stride + c) * 2];
            product += g.sums[(n * g.stride + c) * 2 + 1];
        }
        if (g.gamma_gradient != NULL)
            g.gamma_gradient[c] = (g.accumulate ? g.gamma_gradient[c] : 0) + (float)product;
        if (g.beta_gradient != NULL) g.beta_gradient[c] = (g.accumulate ? g.beta_gradient[c] : 0) + (float)sum;
    }
}

/* out = u a + v x + w, with the coefficients of sample and channel; a is x or dy. */
template <typename T, int V, bool BACK> __global__ void combine_samples(pdl__cuda_group_norm_t g, pdl_rows_t r)
{
    pdl_row_walk<V> walk(r);

    for (int64_t n = blockIdx.y; n < g.samples; n += gridDim.y) {
        float u[V], v[V], w[V];

#pragma unroll
        for (int i = 0; i < V; i++) {
            const float *k = g.coefficients + (n * g.stride + walk.channel + i) * 3;
            bool         used = walk.channel + i < g.channels;

            u[i] = used ? k[0] : 0;
            v[i] = used ? k[1] : 0;
            w[i] = used ? k[2] : 0;
        }
        for (int64_t position = walk.down; position < r.rows; position += r.down) {
            int64_t at = (n * r.rows + position) * g.stride + walk.channel;
            float   a[V], x[V];

            pdl_load<T, V>(BACK ? g.gradient : g.x, at, a);
            if (BACK) pdl_load<T, V>(g.x, at, x);
#pragma unroll
            for (int i = 0; i < V; i++) a[i] = u[i] * a[i] + (BACK ? v[i] * x[i] : 0.0f) + w[i];
            pdl_write<T, V>(g.out, at, a);
        }
    }
}

template <typename T, int V, bool BACK>
static pdl_status_t run_group(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_group_norm_t &g)
{
    auto         sums = sum_samples<T, V, BACK>;
    auto         groups = BACK ? set_groups_back<T> : set_groups<T>;
    auto         combine = combine_samples<T, V, BACK>;
    pdl_rows_t   r = pdl_cover_samples(g.samples, g.positions, g.stride);
    int          blocks = pdl__gpu_blocks(gpu, g.samples * g.groups, 32, 32);
    pdl_status_t status = PDL_LAUNCH(sums, r.grid, pdl_row_block(r), 0, stream, g, r);

    if (status == PDL_OK) status = PDL_LAUNCH(groups, blocks, 32, 0, stream, g);
    if (status == PDL_OK && BACK && (g.gamma_gradient != NULL || g.beta_gradient != NULL))
        status = PDL_LAUNCH(gradient_of_weights, pdl__gpu_blocks(gpu, g.channels, 32, 32), 32, 0, stream, g);
    if (status == PDL_OK && g.out != NULL) status = PDL_LAUNCH(combine, r.grid, pdl_row_block(r), 0, stream, g, r);
    return status;
}

template <typename T, int V>
static pdl_status_t run_forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_group_norm_t &g)
{
    return run_group<T, V, false>(gpu, stream, g);
}

template <typename T, int V>
static pdl_status_t run_backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const pdl__cuda_group_norm_t &g)
{
    return run_group<T, V, true>(gpu, stream, g);
}

pdl_status_t pdl__group_norm(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                             const pdl__cuda_group_norm_t *norm)
{
    return PDL_ROW_TYPES(type, norm->stride, run_forward, gpu, stream, *norm);
}

pdl_status_t pdl__group_norm_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const pdl__cuda_group_norm_t *norm)
{
    return PDL_ROW_TYPES(type, norm->stride, run_backward, gpu, stream, *norm);
}
