/*
 * Flat vectors: copies between types, sums, checks, averages.
 */
#include "tensor/plugin/cuda/spans.h"
#include "tensor/plugin/cuda/vectors.h"
#include "tensor/plugin/cuda/vectors_parts.h"
#include "tensor/steps.h"

template <typename A, typename B> struct cast_each {
    const A *from;
    B       *to;

    __device__ void eight(int64_t i) const
    {
        float values[8];

        pdl_load8(from + i, values);
        pdl_store8(to + i, values);
    }
    __device__ void one(int64_t i) const
    {
        to[i] = B((float)from[i]);
    }
};

static pdl_status_t cast(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t from, const void *source,
                         pdl_dtype_t to, void *target, int64_t count)
{
    bool aligned = pdl_aligned(source) && pdl_aligned(target);

    if (from == to)
        return pdl__cuda_runtime.copy(gpu, stream, target, source, (size_t)count * pdl_dtype_size(from));
    if (from == PDL_DTYPE_F32)
        return pdl_each(gpu, stream, count, aligned,
                        cast_each<float, pdl_bf16>{(const float *)source, (pdl_bf16 *)target});
    return pdl_each(gpu, stream, count, aligned,
                    cast_each<pdl_bf16, float>{(const pdl_bf16 *)source, (float *)target});
}

/* sum = a + b, with `sum` of type S. */
template <typename T, typename S> struct sum_each {
    const S *a;
    const T *b;
    S       *sum;

    __device__ void eight(int64_t i) const
    {
        float first[8], second[8];

        pdl_load8(a + i, first);
        pdl_load8(b + i, second);
        for (int k = 0; k < 8; k++) first[k] += second[k];
        pdl_store8(sum + i, first);
    }
    __device__ void one(int64_t i) const
    {
        sum[i] = S((float)a[i] + (float)b[i]);
    }
};

struct sum_doubles {
    const double *values;
    double       *sum;

    __device__ void eight(int64_t i) const
    {
        for (int k = 0; k < 8; k++) sum[i + k] += values[i + k];
    }
    __device__ void one(int64_t i) const
    {
        sum[i] += values[i];
    }
};

template <typename T, typename S>
static pdl_status_t sum_typed(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const void *a, const void *b,
                              int64_t count, void *sum)
{
    return pdl_each(gpu, stream, count, pdl_aligned(a) && pdl_aligned(b) && pdl_aligned(sum),
                    sum_each<T, S>{(const S *)a, (const T *)b, (S *)sum});
}

static pdl_status_t add(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *a,
                        const void *b, int64_t count, void *sum)
{
    return type == PDL_DTYPE_BF16 ? sum_typed<pdl_bf16, pdl_bf16>(gpu, stream, a, b, count, sum)
                                  : sum_typed<float, float>(gpu, stream, a, b, count, sum);
}

static pdl_status_t reduce(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *values,
                           void *sum, int64_t count)
{
    if (type == PDL_DTYPE_F64)
        return pdl_each(gpu, stream, count, false, sum_doubles{(const double *)values, (double *)sum});
    return type == PDL_DTYPE_BF16 ? sum_typed<pdl_bf16, float>(gpu, stream, sum, values, count, sum)
                                  : sum_typed<float, float>(gpu, stream, sum, values, count, sum);
}

struct average_each {
    float       *ema;
    const float *w;
    float        keep, rest;

    __device__ void eight(int64_t i) const
    {
        float old[8], now[8];

        pdl_load8(ema + i, old);
        pdl_load8(w + i, now);
        for (int k = 0; k < 8; k++) old[k] = pdl__step_average(keep, rest, old[k], now[k]);
        pdl_store8(ema + i, old);
    }
    __device__ void one(int64_t i) const
    {
        ema[i] = pdl__step_average(keep, rest, ema[i], w[i]);
    }
};

static pdl_status_t average(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, double keep, int64_t count, float *ema,
                            const float *w)
{
    return pdl_each(gpu, stream, count, pdl_aligned(ema) && pdl_aligned(w),
                    average_each{ema, w, (float)keep, 1.0f - (float)keep});
}

/* The first element that is not finite has the smallest index: a minimum of integers, in any order the same. */
template <typename T> struct not_finite_each {
    const T            *data;
    unsigned long long *index;

    __device__ void one(int64_t i) const
    {
        if (!isfinite((float)data[i])) atomicMin(index, (unsigned long long)i);
    }
    __device__ void eight(int64_t i) const
    {
        float values[8], zero = 0;

        pdl_load8(data + i, values);
        for (int k = 0; k < 8; k++) zero += values[k] * 0.0f;
        if (zero == 0) return;
        for (int k = 0; k < 8; k++) one(i + k);
    }
};

__global__ void set_none(int64_t *index)
{
    *index = -1;
}

static pdl_status_t find_not_finite(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                    const void *data, int64_t count, int64_t *index)
{
    unsigned long long *least = (unsigned long long *)index; /* -1 is the largest of them */
    pdl_status_t        status = PDL_LAUNCH(set_none, 1, 1, 0, stream, index);

    if (status) return status;
    if (type == PDL_DTYPE_BF16)
        return pdl_each(gpu, stream, count, pdl_aligned(data),
                        not_finite_each<pdl_bf16>{(const pdl_bf16 *)data, least});
    return pdl_each(gpu, stream, count, pdl_aligned(data), not_finite_each<float>{(const float *)data, least});
}

#define LARGEST_THREADS 512

/* The larger of two values with their places, or the earlier of equal ones. */
struct placed {
    float   value;
    int32_t at;

    __device__ void take(float other, int32_t place)
    {
        if (!(other > value || (other == value && place < at))) return;
        value = other;
        at = place;
    }
};

/* A block to a row. Every thread begins with the first value, so that a NaN there stays. */
template <typename T>
__global__ void __launch_bounds__(LARGEST_THREADS)
    find_largest(const T *values, int64_t count, int64_t stride, int32_t *index)
{
    __shared__ placed shared[LARGEST_THREADS];
    const T          *row = values + blockIdx.x * stride;
    placed            best = {(float)row[0], 0};

    for (int64_t i = threadIdx.x; i < count; i += LARGEST_THREADS) best.take((float)row[i], (int32_t)i);
    shared[threadIdx.x] = best;
    for (int half = LARGEST_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half)
            shared[threadIdx.x].take(shared[threadIdx.x + half].value, shared[threadIdx.x + half].at);
    }
    if (threadIdx.x == 0) index[blockIdx.x] = shared[0].at;
}

static pdl_status_t largest(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const void *values,
                            int64_t rows, int64_t count, int64_t stride, int32_t *index)
{
    (void)gpu;
    if (type == PDL_DTYPE_BF16) {
        auto kernel = find_largest<pdl_bf16>;
        return PDL_LAUNCH(kernel, (int)rows, LARGEST_THREADS, 0, stream, (const pdl_bf16 *)values, count, stride,
                          index);
    }
    auto kernel = find_largest<float>;
    return PDL_LAUNCH(kernel, (int)rows, LARGEST_THREADS, 0, stream, (const float *)values, count, stride, index);
}

/* Of losses: those that count must be finite. */
struct check_each {
    const float *results, *weight;
    int64_t     *flag;

    __device__ void one(int64_t i) const
    {
        if (!isfinite(results[i]) && (weight == NULL || weight[i] != 0)) *flag = 1;
    }
    __device__ void eight(int64_t i) const
    {
        for (int k = 0; k < 8; k++) one(i + k);
    }
};

static pdl_status_t check_results(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *results,
                                  const float *sample_weight, int64_t count, int64_t *flag)
{
    return pdl_each(gpu, stream, count, false, check_each{results, sample_weight, flag});
}

struct square_step {
    const float *values;
    double      *sum;

    __device__ void one(int64_t i) const
    {
        *sum += (double)values[i] * (double)values[i];
    }
    __device__ void eight(int64_t i) const
    {
        float x[8];

        pdl_load8(values + i, x);
        for (int k = 0; k < 8; k++) *sum += (double)x[k] * (double)x[k];
    }
};

__global__ void square_spans(const __grid_constant__ pdl_spans spans, const float *values, double *partial)
{
    __shared__ double shared[32];
    const pdl_span   &span = spans.mine();
    double            sum = 0;

    pdl_walk(span, square_step{values + span.at[0], &sum});
    sum = pdl_block_sum(sum, shared);
    if (pdl_thread() == 0) partial[blockIdx.x] = sum;
}

static pdl_status_t sum_squares(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const float *values,
                                const pdl_slice_t *slices, int count, double *sums)
{
    double       *partial = (double *)stream->scratch;
    const double *scale = NULL;
    pdl_status_t  status = PDL_OK;

    (void)gpu;
    for (int i = 0; i < count && !status;) {
        pdl_spans spans = {};

        for (; i < count && spans.count < PDL__SPANS; i++) {
            pdl_span span = {slices[i].elements, {slices[i].at}};

            span.index = i;
            span.aligned = pdl_aligned(values + slices[i].at);
            spans.add(span, PDL__SPAN_PARTIALS);
        }
        status = PDL_LAUNCH(square_spans, spans.blocks, PDL__SPAN_THREADS, 0, stream, spans, values, partial);
        if (!status)
            status = PDL_LAUNCH(pdl__finish_spans, spans.count, PDL__SPAN_THREADS, 0, stream, spans, partial, scale,
                                sums);
    }
    return status;
}

__global__ void find_clip(const double *sums, int count, double allowed, const int64_t *flag, double *clip)
{
    __shared__ double shared[32];
    double            sum = 0;

    for (int i = pdl_thread(); i < count; i += pdl_threads()) sum += sums[i];
    sum = sqrt(pdl_block_sum(sum, shared));
    if (pdl_thread() > 0) return;
    clip[0] = sum;
    clip[1] = allowed > 0 ? fmin(1.0, allowed / (sum + 1e-6)) : 1;
    if (!isfinite(sum) || (flag != NULL && *flag != 0)) clip[1] = NAN;
}

static pdl_status_t clip(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const double *sums, int count,
                         double allowed, const int64_t *flag, double *clip)
{
    (void)gpu;
    return PDL_LAUNCH(find_clip, 1, 128, 0, stream, sums, count, allowed, flag, clip);
}

extern "C" const pdl__cuda_vectors_t pdl__cuda_vectors = {
    .cast = cast,
    .convert = pdl__cuda_convert,
    .load = pdl__cuda_load,
    .add = add,
    .boxes = pdl__cuda_boxes,
    .reduce = reduce,
    .largest = largest,
    .find_not_finite = find_not_finite,
    .check_results = check_results,
    .sum_squares = sum_squares,
    .clip = clip,
    .update = pdl__cuda_update,
    .average = average,
};
