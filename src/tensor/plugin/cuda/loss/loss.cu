/*
 * Cross-entropy with label smoothing: with q = (1 - s) [c = class] + s / C, loss = log sum exp x - (1 - s) x_class - s mean x,
 * and its gradient exp(x - log sum exp x) - q.
 *
 * Logits can be the largest tensor of a network: forward reads them once, with sums that follow the largest value so far,
 * and backward once more; or forward makes the gradient too, and rows wait for it in shared memory. Blocks stay and take row
 * after row; long rows have a block each, short ones a warp.
 */
#include "tensor/plugin/cuda/loss/loss.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

typedef pdl__cuda_entropy_t        entropy_t;
typedef pdl__cuda_entropy_result_t result_t;

#define LONG_ROW 1024 /* channels from which a row has a block */
#define THREADS  512
#define DEPTH    4 /* vectors of a thread in flight together */

/* What a thread, and then its team, has seen of a row. */
struct seen {
    float before;  /* largest in front of the right class */
    float largest; /* of all */
    float sum;     /* of exp(x - largest) */
    float total;   /* of x */
};

/* The first `count` of eight values, which begin at channel c. Nearly all of them are whole and on one side of the right class. */
static __device__ __forceinline__ void see(seen &s, const float *value, int count, int64_t c, int64_t right)
{
    float high = value[0], sum = 0, total = 0;

#pragma unroll
    for (int i = 1; i < 8; i++)
        if (i < count) high = pdl_larger(high, value[i]);
    if (c + count <= right) s.before = pdl_larger(s.before, high);
    if (c < right && right < c + count) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < count && c + i < right) s.before = pdl_larger(s.before, value[i]);
    }
    high = pdl_larger(s.largest, high);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (i >= count) continue;
        sum += pdl_exp(value[i] - high);
        total += value[i];
    }
    s.sum = s.sum * pdl_exp(s.largest - high) + sum;
    s.total += total;
    s.largest = high;
}

/* Channels of a row that begin and end at addresses for vectors, in two rows at once. */
struct middle {
    int64_t first, end;
};

template <typename T> static __device__ middle middle_of(const T *a, const T *b, int64_t channels)
{
    int64_t first = (int64_t)((16 - (uintptr_t)a % 16) % 16 / sizeof(T));

    if (first > channels || (uintptr_t)a % 16 != (uintptr_t)b % 16) return {0, 0};
    return {first, first + (channels - first) / 8 * 8};
}

/* Everything of one row; `right` is the channel of its class. Every thread of the team has the result. `stage`: where a
   thread leaves the vectors that it has read, to read them again; NULL: nowhere. */
template <typename T, bool BLOCK, bool WHOLE>
static __device__ void see_row(const T *x, int64_t channels, int64_t right, float *shared, double *wide,
                               pdl_raw8<T> *stage, seen *row, double *sum, double *total)
{
    typedef pdl_team<BLOCK> team;

    seen    mine = {-FLT_MAX, -FLT_MAX, 0, 0};
    middle  m = WHOLE ? middle{0, channels} : middle_of(x, x, channels);
    int64_t step = team::members() * 8;
    float   value[8];

    for (int64_t c = m.first + team::member() * 8; c < m.end; c += DEPTH * step) {
        pdl_raw8<T> raw[DEPTH];

#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            if (c + d * step < m.end) raw[d].load(x + c + d * step);
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            if (c + d * step >= m.end) continue;
            if (stage != NULL) stage[(c + d * step) / 8] = raw[d];
            raw[d].unpack(value);
            see(mine, value, 8, c + d * step, right);
        }
    }
    for (int64_t i = team::member(); !WHOLE && i < channels - (m.end - m.first); i += team::members()) {
        int64_t c = i < m.first ? i : i - m.first + m.end;

        value[0] = (float)x[c];
        see(mine, value, 1, c, right);
    }
    row->largest = team::largest(mine.largest, shared);
    row->before = team::largest(mine.before, shared);
    *sum = team::sum((double)(mine.sum * pdl_exp(mine.largest - row->largest)), wide);
    *total = team::sum((double)mine.total, wide);
}

static __device__ result_t conclude(const entropy_t &e, double largest, double sum, double total, double at_class,
                                    bool right, float *lse)
{
    double   log_sum = largest + log(sum);
    result_t result;

    *lse = (float)log_sum;
    result.loss = (float)(log_sum - (1 - e.smoothing) * at_class - e.smoothing * total / (double)e.all);
    /* Comparisons with a NaN are false, so `right` says nothing where a logit is one. */
    result.right = right && isfinite(log_sum) ? 1.0f : 0.0f;
    result.probability = (float)exp(at_class - log_sum);
    return result;
}

/* Eight gradients from channel c on. */
static __device__ __forceinline__ void gradients(float value[8], float lse, float factor, float everywhere,
                                                 int64_t c, int64_t right, float at_class)
{
#pragma unroll
    for (int i = 0; i < 8; i++) value[i] = factor * pdl_exp(value[i] - lse) - everywhere;
    if (right < c || right >= c + 8) return;
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (c + i == right) value[i] -= at_class;
}

/* The gradient of one row, from x or from where its vectors were left; zeros for a row that is left out and in the padding. */
template <typename T, bool BLOCK, bool WHOLE>
static __device__ void row_gradient(const entropy_t &e, int64_t i, float lse, const pdl_raw8<T> *stage)
{
    typedef pdl_team<BLOCK> team;

    const T *x = (const T *)e.x + i * e.stride;
    T       *dx = (T *)e.dx + i * e.stride;
    bool     counts = e.classes[i] >= 0;
    int64_t  right = e.classes[i] - e.first, step = team::members() * 8;
    float    factor = e.factor[i / e.positions], everywhere = factor * (float)(e.smoothing / (double)e.all);
    float    at_class = factor * (float)(1 - e.smoothing), value[8];

    middle m = WHOLE ? middle{0, e.channels} : middle_of(x, (const T *)dx, e.channels);

#pragma unroll 4
    for (int64_t c = m.first + team::member() * 8; c < m.end; c += step) {
        if (stage != NULL)
            stage[c / 8].unpack(value);
        else
            pdl_load8(x + c, value);
        if (counts)
            gradients(value, lse, factor, everywhere, c, right, at_class);
        else
            for (int k = 0; k < 8; k++) value[k] = 0;
        pdl_store8(dx + c, value);
    }
    for (int64_t k = team::member(); k < e.stride - (m.end - m.first); k += team::members()) {
        int64_t c = k < m.first ? k : k - m.first + m.end;

        value[0] = c < e.channels ? (float)x[c] : 0.0f;
        gradients(value, lse, factor, everywhere, c, right, at_class);
        dx[c] = T(counts && c < e.channels ? value[0] : 0.0f);
    }
}

/* `staged`: rows stay in shared memory from the sums to the gradient, which is made where there is a place for it. */
template <typename T, bool BLOCK, bool WHOLE>
static __global__ void __launch_bounds__(THREADS) entropy_rows(entropy_t e, bool staged)
{
    typedef pdl_team<BLOCK> team;

    PDL_SHARED(pdl_raw8<T>, rows);
    __shared__ float  shared[32];
    __shared__ double wide[32];
    pdl_raw8<T>      *stage = staged ? rows : NULL;

    for (int64_t i = team::first(); i < e.samples * e.positions; i += team::step()) {
        const T *x = (const T *)e.x + i * e.stride;
        int64_t  right = e.classes[i];
        result_t result = {0, 0, 0};
        float    lse = 0;

        if (right >= 0) {
            /* Before anybody writes the gradient there. */
            double at_class = right < e.channels ? (double)(float)x[right] : (double)NAN, sum, total;
            seen   row;

            see_row<T, BLOCK, WHOLE>(x, e.channels, right, shared, wide, stage, &row, &sum, &total);
            result = conclude(e, (double)row.largest, sum, total, at_class,
                              at_class >= (double)row.largest && row.before < row.largest, &lse);
        }
        if (e.dx != NULL) row_gradient<T, BLOCK, WHOLE>(e, i, lse, stage);
        if (team::member() != 0) continue;
        e.result[i] = result;
        if (e.lse != NULL) e.lse[i] = lse;
    }
}

/* Means over the rows of a sample that count, a block each. */
static __global__ void __launch_bounds__(256) entropy_samples(entropy_t e)
{
    __shared__ double shared[32];

    for (int64_t n = blockIdx.x; n < e.samples; n += gridDim.x) {
        double sum[4] = {0, 0, 0, 0};

        for (int64_t p = threadIdx.x; p < e.positions; p += blockDim.x) {
            int64_t i = n * e.positions + p;

            sum[0] += (double)e.result[i].loss;
            sum[1] += (double)e.result[i].right;
            sum[2] += (double)e.result[i].probability;
            sum[3] += e.classes[i] >= 0 ? 1 : 0;
        }
        for (int k = 0; k < 4; k++) sum[k] = pdl_block_sum(sum[k], shared);
        if (threadIdx.x < 3)
            e.output[threadIdx.x * e.samples + n] = sum[3] > 0 ? (float)(sum[threadIdx.x] / sum[3]) : 0.0f;
    }
}

/* ---- classes on several ranks ---- */

template <typename T, bool BLOCK, bool WHOLE>
static __global__ void __launch_bounds__(THREADS) split_rows(entropy_t e)
{
    typedef pdl_team<BLOCK> team;

    __shared__ float  shared[32];
    __shared__ double wide[32];
    int64_t           rows = e.samples * e.positions;

    for (int64_t i = team::first(); i < rows; i += team::step()) {
        seen   row = {0, 0, 0, 0};
        double sum = 0, total = 0;

        if (e.classes[i] >= 0)
            see_row<T, BLOCK, WHOLE>((const T *)e.x + i * e.stride, e.channels, e.classes[i] - e.first, shared,
                                     wide, (pdl_raw8<T> *)NULL, &row, &sum, &total);
        if (team::member() != 0) continue;
        e.split[i] = e.split[rows + i] = (double)row.largest;
        e.split[2 * rows + i] = sum;
        e.split[5 * rows + i] = total;
        e.split[6 * rows + i] = (double)row.before;
    }
}

/* Of several largest the first counts as the answer, on whichever rank it is. */
template <typename T> static __global__ void split_share(entropy_t e)
{
    int64_t rows = e.samples * e.positions;

    for (int64_t i = pdl_grid_thread(); i < rows; i += pdl_grid_threads()) {
        int64_t channel = e.classes[i] - e.first;
        double  largest = e.split[rows + i], at_class = 0, right = 0;

        if (e.classes[i] >= 0) {
            e.split[2 * rows + i] *= exp(e.split[i] - largest);
            if (channel >= 0 && channel < e.channels) {
                at_class = (double)(float)((const T *)e.x)[i * e.stride + channel];
                right = at_class >= largest ? 1 : 0;
            }
            if (channel > 0 && e.split[6 * rows + i] >= largest) right -= 1;
            if (e.classes[i] >= e.all) at_class = (double)NAN;
        }
        e.split[3 * rows + i] = at_class;
        e.split[4 * rows + i] = right;
    }
}

static __global__ void split_conclude(entropy_t e)
{
    int64_t rows = e.samples * e.positions;

    for (int64_t i = pdl_grid_thread(); i < rows; i += pdl_grid_threads()) {
        result_t result = {0, 0, 0};
        float    lse = 0;

        if (e.classes[i] >= 0)
            result = conclude(e, e.split[rows + i], e.split[2 * rows + i], e.split[5 * rows + i],
                              e.split[3 * rows + i], e.split[4 * rows + i] > 0, &lse);
        e.result[i] = result;
        if (e.lse != NULL) e.lse[i] = lse;
    }
}

/* ---- backward ---- */

/* What the gradient of a sample's rows is multiplied with, a block each. */
static __global__ void __launch_bounds__(256) entropy_factors(entropy_t e)
{
    __shared__ double shared[32];

    for (int64_t n = blockIdx.x; n < e.samples; n += gridDim.x) {
        double count = 0, weight = e.sample_weight != NULL ? (double)e.sample_weight[n] : 1;

        for (int64_t p = threadIdx.x; p < e.positions; p += blockDim.x)
            count += e.classes[n * e.positions + p] >= 0 ? 1 : 0;
        count = pdl_block_sum(count, shared);
        if (threadIdx.x == 0) e.factor[n] = count > 0 ? (float)(e.scale * weight / count) : 0.0f;
    }
}

template <typename T, bool BLOCK, bool WHOLE>
static __global__ void __launch_bounds__(THREADS) entropy_gradient(entropy_t e)
{
    typedef pdl_team<BLOCK> team;

    for (int64_t i = team::first(); i < e.samples * e.positions; i += team::step())
        row_gradient<T, BLOCK, WHOLE>(e, i, e.lse[i], (const pdl_raw8<T> *)NULL);
}

/* ---- squares ---- */

typedef pdl__cuda_squares_t squares_t;

/* Where the target of element i of a sample's predictions is; -1: it is padding. */
static __device__ __forceinline__ int64_t target_of(const squares_t &s, int64_t i)
{
    int64_t position = i / s.stride, channel = i % s.stride;

    if (channel >= s.channels) return -1;
    return s.sequence ? position * s.channels + channel : channel * s.positions + position;
}

template <typename T> static __global__ void __launch_bounds__(THREADS) squares_samples(squares_t s)
{
    __shared__ double shared[32];
    int64_t           elements = s.channels * s.positions, all = s.stride * s.positions;

    for (int64_t n = blockIdx.x; n < s.samples; n += gridDim.x) {
        double sum = 0;

        for (int64_t i = threadIdx.x; i < all; i += blockDim.x) {
            int64_t at = target_of(s, i);
            if (at < 0) continue;
            float difference =
                (float)((const T *)s.x)[n * all + i] - (float)((const T *)s.target)[n * elements + at];
            sum += (double)(difference * difference);
        }
        sum = pdl_block_sum(sum, shared);
        if (threadIdx.x < 3)
            s.output[threadIdx.x * s.samples + n] = threadIdx.x == 0 ? (float)(sum / (double)elements) : 0.0f;
    }
}

template <typename T> static __global__ void squares_gradient(squares_t s)
{
    int64_t elements = s.channels * s.positions, all = s.stride * s.positions;

    for (int64_t j = pdl_grid_thread(); j < s.samples * all; j += pdl_grid_threads()) {
        int64_t n = j / all, at = target_of(s, j % all);
        double  weight = s.sample_weight != NULL ? (double)s.sample_weight[n] : 1;
        float   factor = (float)(s.scale * weight * 2 / (double)elements), value = 0;

        if (at >= 0)
            value = factor * ((float)((const T *)s.x)[j] - (float)((const T *)s.target)[n * elements + at]);
        ((T *)s.dx)[j] = T(value);
    }
}

/* ---- launches ---- */

/* A kernel of rows: for long or short ones, read by vectors or one by one. */
#define ROW_KERNEL(name, T, e, whole)                                                   \
    ((e)->channels >= LONG_ROW ? ((whole) ? name<T, true, true> : name<T, true, false>) \
                               : ((whole) ? name<T, false, true> : name<T, false, false>))

static int row_blocks(const pdl__gpu_t *gpu, const entropy_t *e)
{
    int64_t rows = e->samples * e->positions;

    return pdl__gpu_blocks(gpu, rows, e->channels >= LONG_ROW ? 1 : THREADS / 32, 4);
}

static bool has_vectors(const entropy_t *e)
{
    return pdl_has_vectors(e->x, e->channels, e->stride) && (e->dx == NULL || pdl_is_aligned(e->dx));
}

/* Shared memory for a row of so many elements, all of which can be read by vectors, where two blocks of a multiprocessor
   have room for theirs; else 0. */
static size_t stage_bytes(pdl_dtype_t type, int64_t stride)
{
    size_t bytes = (size_t)stride * pdl__gpu_element(type);

    return stride >= LONG_ROW && stride % 8 == 0 && bytes <= (size_t)(110 << 10) ? bytes : 0;
}

template <typename T> static pdl_status_t set_limits(size_t bytes)
{
    pdl_status_t status = PDL_SHARED_LIMIT((entropy_rows<T, true, true>), bytes);

    (void)bytes;
    return status ? status : PDL_SHARED_LIMIT((entropy_rows<T, true, false>), bytes);
}

static pdl_status_t entropy_prepare(pdl__gpu_t *gpu, pdl_dtype_t type, int64_t stride)
{
    size_t bytes = stage_bytes(type, stride);

    (void)gpu;
    if (bytes <= (48 << 10)) return PDL_OK;
    return type == PDL_DTYPE_BF16 ? set_limits<pdl_bf16>(bytes) : set_limits<float>(bytes);
}

/* Whether all rows, with their padding, begin at addresses for vectors. */
static bool is_even(const entropy_t *e)
{
    return pdl_is_aligned(e->x) && pdl_is_aligned(e->dx) && e->stride % 8 == 0;
}

static pdl_status_t conclude_samples(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const entropy_t *e)
{
    return PDL_LAUNCH(entropy_samples, pdl__gpu_blocks(gpu, e->samples, 1, 8), 256, 0, stream, *e);
}

static pdl_status_t find_factors(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const entropy_t *e)
{
    return PDL_LAUNCH(entropy_factors, pdl__gpu_blocks(gpu, e->samples, 1, 8), 256, 0, stream, *e);
}

template <typename T>
static pdl_status_t forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const entropy_t *e)
{
    auto         cross_entropy = ROW_KERNEL(entropy_rows, T, e, has_vectors(e));
    size_t       stage = e->dx != NULL && e->channels >= LONG_ROW && is_even(e) ? stage_bytes(type, e->stride) : 0;
    pdl_status_t status = e->dx != NULL ? find_factors(gpu, stream, e) : PDL_OK;

    if (status == PDL_OK)
        status = PDL_LAUNCH(cross_entropy, row_blocks(gpu, e), THREADS, stage, stream, *e, stage > 0);
    return status != PDL_OK ? status : conclude_samples(gpu, stream, e);
}

template <typename T>
static pdl_status_t split_forward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const entropy_t *e, int phase)
{
    auto         cross_entropy = ROW_KERNEL(split_rows, T, e, has_vectors(e));
    auto         share = split_share<T>;
    int          blocks = pdl__gpu_blocks(gpu, e->samples * e->positions, 256, 4);
    pdl_status_t status;

    if (phase == 0) return PDL_LAUNCH(cross_entropy, row_blocks(gpu, e), THREADS, 0, stream, *e);
    if (phase == 1) return PDL_LAUNCH(share, blocks, 256, 0, stream, *e);
    status = PDL_LAUNCH(split_conclude, blocks, 256, 0, stream, *e);
    return status != PDL_OK ? status : conclude_samples(gpu, stream, e);
}

template <typename T> static pdl_status_t backward(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const entropy_t *e)
{
    auto         cross_entropy_gradient = ROW_KERNEL(entropy_gradient, T, e, has_vectors(e));
    pdl_status_t status = find_factors(gpu, stream, e);

    return status != PDL_OK ? status
                            : PDL_LAUNCH(cross_entropy_gradient, row_blocks(gpu, e), THREADS, 0, stream, *e);
}

static pdl_status_t entropy(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const entropy_t *e)
{
    return type == PDL_DTYPE_BF16 ? forward<pdl_bf16>(gpu, stream, type, e) : forward<float>(gpu, stream, type, e);
}

static pdl_status_t entropy_split(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                  const entropy_t *e, int phase)
{
    return type == PDL_DTYPE_BF16 ? split_forward<pdl_bf16>(gpu, stream, e, phase)
                                  : split_forward<float>(gpu, stream, e, phase);
}

static pdl_status_t entropy_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const entropy_t *e)
{
    return type == PDL_DTYPE_BF16 ? backward<pdl_bf16>(gpu, stream, e) : backward<float>(gpu, stream, e);
}

static pdl_status_t squares(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const squares_t *s)
{
    auto mean_squares = type == PDL_DTYPE_BF16 ? squares_samples<pdl_bf16> : squares_samples<float>;

    return PDL_LAUNCH(mean_squares, pdl__gpu_blocks(gpu, s->samples, 1, 4), THREADS, 0, stream, *s);
}

static pdl_status_t squares_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const squares_t *s)
{
    auto    mean_squares_gradient = type == PDL_DTYPE_BF16 ? squares_gradient<pdl_bf16> : squares_gradient<float>;
    int64_t count = s->samples * s->stride * s->positions;

    return PDL_LAUNCH(mean_squares_gradient, pdl__gpu_blocks(gpu, count, 256, 8), 256, 0, stream, *s);
}

extern "C" const pdl__cuda_losses_t pdl__cuda_losses = {entropy_prepare, entropy, entropy_split,
                                                        entropy_back,    squares, squares_back};
