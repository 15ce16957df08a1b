/*
 * Flat vectors: copies between types, sums, checks.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"
#include "tensor/steps.h"

#define GRAIN 8192

typedef struct pdl__vectors {
    const void *a, *b;
    void       *out;
    float       factor;
} pdl__vectors_t;

PDL__CLONES static void copy_floats(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;

    memcpy((float *)vectors->out + first, (const float *)vectors->a + first, (size_t)(end - first) * sizeof(float));
}

PDL__CLONES static void narrow(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;
    const float *restrict a = vectors->a;
    pdl__bf16_t *restrict out = vectors->out;

#pragma omp simd
    for (int64_t i = first; i < end; i++) out[i] = pdl__to_bf16(a[i]);
}

PDL__CLONES static void widen(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;
    const pdl__bf16_t *restrict a = vectors->a;
    float *restrict out = vectors->out;

#pragma omp simd
    for (int64_t i = first; i < end; i++) out[i] = pdl__from_bf16(a[i]);
}

pdl_status_t pdl__cpu_from_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const float *source,
                                 int64_t count, void *target)
{
    pdl__vectors_t vectors = {.a = source, .out = target};

    (void)stream;
    pdl_threads_run(count, GRAIN, backend->activation_type == PDL_DTYPE_BF16 ? narrow : copy_floats, &vectors);
    return PDL_OK;
}

pdl_status_t pdl__cpu_to_float(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *source,
                               int64_t count, float *target)
{
    pdl__vectors_t vectors = {.a = source, .out = target};

    (void)stream;
    pdl_threads_run(count, GRAIN, backend->activation_type == PDL_DTYPE_BF16 ? widen : copy_floats, &vectors);
    return PDL_OK;
}

/* `out` may be `a`: each element is read before it is written. */
PDL__CLONES static void sum_f32(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;
    const float          *a = vectors->a, *b = vectors->b;
    float                *out = vectors->out;

#pragma omp simd
    for (int64_t i = first; i < end; i++) out[i] = a[i] + b[i];
}

PDL__CLONES static void sum_bf16(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;
    const pdl__bf16_t    *a = vectors->a, *b = vectors->b;
    pdl__bf16_t          *out = vectors->out;

#pragma omp simd
    for (int64_t i = first; i < end; i++) out[i] = pdl__to_bf16(pdl__from_bf16(a[i]) + pdl__from_bf16(b[i]));
}

pdl_status_t pdl__cpu_sum(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *a, const void *b,
                          size_t bytes, void *sum)
{
    pdl__vectors_t vectors = {.a = a, .b = b, .out = sum};
    int64_t        count = (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type));

    (void)stream;
    pdl_threads_run(count, GRAIN, backend->activation_type == PDL_DTYPE_BF16 ? sum_bf16 : sum_f32, &vectors);
    return PDL_OK;
}

void pdl__cpu_add_floats(float *sum, const void *values, int64_t count)
{
    pdl__vectors_t vectors = {.a = sum, .b = values, .out = sum};

    pdl_threads_run(count, GRAIN, sum_f32, &vectors);
}

typedef struct pdl__mask {
    const void *first, *second, *output;
    void       *masked;
} pdl__mask_t;

PDL__CLONES static void mask_f32(void *context, int64_t first, int64_t end)
{
    const pdl__mask_t *mask = context;
    const float *restrict a = mask->first;
    const float *restrict b = mask->second;
    const float *restrict y = mask->output;
    float *restrict out = mask->masked;

    if (b == NULL) {
#pragma omp simd
        for (int64_t i = first; i < end; i++) out[i] = y[i] > 0 ? a[i] : 0;
    } else {
#pragma omp simd
        for (int64_t i = first; i < end; i++) out[i] = y[i] > 0 ? a[i] + b[i] : 0;
    }
}

PDL__CLONES static void mask_bf16(void *context, int64_t first, int64_t end)
{
    const pdl__mask_t *mask = context;
    const pdl__bf16_t *restrict a = mask->first;
    const pdl__bf16_t *restrict b = mask->second;
    const pdl__bf16_t *restrict y = mask->output;
    pdl__bf16_t *restrict out = mask->masked;

    if (b == NULL) {
#pragma omp simd
        for (int64_t i = first; i < end; i++) out[i] = pdl__from_bf16(y[i]) > 0 ? a[i] : 0;
    } else {
#pragma omp simd
        for (int64_t i = first; i < end; i++)
            out[i] = pdl__from_bf16(y[i]) > 0 ? pdl__to_bf16(pdl__from_bf16(a[i]) + pdl__from_bf16(b[i])) : 0;
    }
}

void pdl__cpu_mask(pdl_backend_t *backend, const void *a, const void *b, const void *output, size_t bytes,
                   void *masked)
{
    pdl__mask_t mask = {a, b, output, masked};
    int64_t     count = (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type));

    pdl_threads_run(count, GRAIN, backend->activation_type == PDL_DTYPE_BF16 ? mask_bf16 : mask_f32, &mask);
}

/* x * 0 is NaN exactly when x is not finite, and NaN survives every sum: one multiply and one add per element. */
PDL__CLONES static int all_finite_f32(const float *values, int64_t count)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += values[i] * 0.0f;
    return sum == 0.0f;
}

PDL__CLONES static int all_finite_bf16(const pdl__bf16_t *values, int64_t count)
{
    int bad = 0;

#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < count; i++) bad |= (values[i] & 0x7f80u) == 0x7f80u;
    return !bad;
}

typedef struct pdl__search {
    const void *values;
    int64_t     count, found[256];
    int         bf16;
} pdl__search_t;

static int64_t chunk_elements(int64_t count, int chunks)
{
    int64_t size = (count + chunks - 1) / chunks;

    return size > 4096 ? size : 4096;
}

static int finite_at(const pdl__search_t *search, int64_t first, int64_t count)
{
    return search->bf16 ? all_finite_bf16((const pdl__bf16_t *)search->values + first, count)
                        : all_finite_f32((const float *)search->values + first, count);
}

static void search_chunks(void *context, int64_t first, int64_t end)
{
    pdl__search_t *search = context;
    int64_t        size = chunk_elements(search->count, 256);

    for (int64_t c = first; c < end; c++) {
        int64_t low = c * size, high = low + size < search->count ? low + size : search->count;

        search->found[c] = -1;
        if (low >= high || finite_at(search, low, high - low)) continue;
        while (finite_at(search, low, 1)) low++;
        search->found[c] = low;
    }
}

pdl_status_t pdl__cpu_find_not_finite(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *data,
                                      size_t bytes, int64_t *index)
{
    pdl__search_t search = {.values = data, .bf16 = backend->activation_type == PDL_DTYPE_BF16};
    int64_t       chunks;

    (void)stream;
    *index = -1;
    search.count = (int64_t)(bytes / pdl_dtype_bytes(backend->activation_type));
    if (search.count == 0) return PDL_OK;
    chunks = (search.count + chunk_elements(search.count, 256) - 1) / chunk_elements(search.count, 256);
    pdl_threads_run(chunks, 2, search_chunks, &search);
    for (int64_t c = 0; c < chunks && *index < 0; c++) *index = search.found[c];
    return PDL_OK;
}

typedef struct pdl__squares {
    const float *values;
    int64_t      count;
    double       sum[256];
} pdl__squares_t;

/* The order of additions depends on the count alone, so that runs with other numbers of threads agree to the bit. */
PDL__CLONES static void sum_chunks(void *context, int64_t first, int64_t end)
{
    pdl__squares_t *squares = context;
    int64_t         size = chunk_elements(squares->count, 256);

    for (int64_t c = first; c < end; c++) {
        int64_t low = c * size, high = low + size < squares->count ? low + size : squares->count;
        double  lane[16] = {0};
        int64_t i = low;

        for (; i + 16 <= high; i += 16) {
#pragma omp simd
            for (int k = 0; k < 16; k++) lane[k] += (double)squares->values[i + k] * (double)squares->values[i + k];
        }
        for (; i < high; i++) lane[0] += (double)squares->values[i] * (double)squares->values[i];
        for (int k = 1; k < 16; k++) lane[0] += lane[k];
        squares->sum[c] = lane[0];
    }
}

static double sum_slice(const float *values, int64_t count)
{
    pdl__squares_t squares = {.values = values, .count = count};
    int64_t        size = chunk_elements(count, 256), chunks = (count + size - 1) / size;
    double         total = 0;

    pdl_threads_run(chunks, 2, sum_chunks, &squares);
    for (int64_t c = 0; c < chunks; c++) total += squares.sum[c];
    return total;
}

pdl_status_t pdl__cpu_sum_squares(pdl_backend_t *backend, pdl_tensor_stream_t *stream, const void *values,
                                  const pdl_slice_t *slices, int count, double *sums)
{
    (void)backend, (void)stream;
    for (int i = 0; i < count; i++) sums[i] = sum_slice((const float *)values + slices[i].at, slices[i].elements);
    return PDL_OK;
}

PDL__CLONES static void blend(void *context, int64_t first, int64_t end)
{
    const pdl__vectors_t *vectors = context;
    const float *restrict w = vectors->a;
    float *restrict ema = vectors->out;
    float keep = vectors->factor, rest = 1.0f - keep;

#pragma omp simd
    for (int64_t i = first; i < end; i++) ema[i] = pdl__step_average(keep, rest, ema[i], w[i]);
}

pdl_status_t pdl__cpu_average(pdl_backend_t *backend, pdl_tensor_stream_t *stream, double keep, int64_t count,
                              void *ema, const void *w)
{
    pdl__vectors_t vectors = {.a = w, .out = ema, .factor = (float)keep};

    (void)backend, (void)stream;
    pdl_threads_run(count, GRAIN, blend, &vectors);
    return PDL_OK;
}
