/*
 * Softmax and positions.
 */
#include "tensor/plugin/cuda/sequence/sequence.h"
#include "tensor/plugin/cuda/teams.h"

#include <float.h>

/* ---- softmax ---- */

#define LONG_ROW 1024 /* channels from which a row has a block */
#define THREADS  256

typedef pdl__cuda_softmax_t softmax_t;

template <typename T, bool BLOCK> static __global__ void __launch_bounds__(THREADS) softmax_rows(softmax_t s)
{
    typedef pdl_team<BLOCK> team;

    __shared__ float shared[32];

    for (int64_t row = team::first(); row < s.rows; row += team::step()) {
        const T *x = (const T *)s.x + row * s.stride;
        T       *y = (T *)s.out + row * s.stride;
        float    largest = -FLT_MAX, sum = 0;

        for (int64_t c = team::member(); c < s.channels; c += team::members())
            largest = (float)x[c] > largest ? (float)x[c] : largest;
        largest = team::largest(largest, shared);
        for (int64_t c = team::member(); c < s.channels; c += team::members()) sum += expf((float)x[c] - largest);
        sum = team::sum(sum, shared);
        for (int64_t c = team::member(); c < s.stride; c += team::members())
            y[c] = T(c < s.channels ? expf((float)x[c] - largest) / sum : 0.0f);
    }
}

template <typename T, bool BLOCK> static __global__ void __launch_bounds__(THREADS) softmax_gradient(softmax_t s)
{
    typedef pdl_team<BLOCK> team;

    __shared__ float shared[32];

    for (int64_t row = team::first(); row < s.rows; row += team::step()) {
        const T *dy = (const T *)s.x + row * s.stride, *y = (const T *)s.y + row * s.stride;
        T       *dx = (T *)s.out + row * s.stride;
        float    sum = 0;

        for (int64_t c = team::member(); c < s.channels; c += team::members()) sum += (float)y[c] * (float)dy[c];
        sum = team::sum(sum, shared);
        for (int64_t c = team::member(); c < s.stride; c += team::members())
            dx[c] = T(c < s.channels ? (float)y[c] * ((float)dy[c] - sum) : 0.0f);
    }
}

template <typename T>
static pdl_status_t launch_softmax(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const softmax_t *s, bool back)
{
    bool block = s->channels >= LONG_ROW;
    auto softmax_forward = block ? softmax_rows<T, true> : softmax_rows<T, false>;
    auto softmax_backward = block ? softmax_gradient<T, true> : softmax_gradient<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, s->rows, block ? 1 : THREADS / 32, 8);

    return back ? PDL_LAUNCH(softmax_backward, blocks, THREADS, 0, stream, *s)
                : PDL_LAUNCH(softmax_forward, blocks, THREADS, 0, stream, *s);
}

static pdl_status_t softmax(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const softmax_t *s)
{
    return type == PDL_DTYPE_BF16 ? launch_softmax<pdl_bf16>(gpu, stream, s, false)
                                  : launch_softmax<float>(gpu, stream, s, false);
}

static pdl_status_t softmax_back(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type, const softmax_t *s)
{
    return type == PDL_DTYPE_BF16 ? launch_softmax<pdl_bf16>(gpu, stream, s, true)
                                  : launch_softmax<float>(gpu, stream, s, true);
}

/* ---- positions ---- */

typedef pdl__cuda_position_t position_t;

template <typename T, bool WHOLE> static __global__ void __launch_bounds__(THREADS) position_rows(position_t p)
{
    int64_t vectors = (p.channels + 7) / 8, moved = p.class_token != NULL ? 1 : 0;

    for (int64_t i = pdl_grid_thread(); i < p.samples * p.tokens * vectors; i += pdl_grid_threads()) {
        int64_t      c = i % vectors * 8, n = i / vectors / p.tokens, t = i / vectors % p.tokens;
        const T     *x = (const T *)p.x + (n * (p.tokens - moved) + t - moved) * p.channels + c;
        T           *y = (T *)p.y + (n * p.tokens + t) * p.channels + c;
        int64_t      at = p.past != NULL ? min(p.past[n] + t, p.rows - 1) : t;
        const float *weight = p.weight + at * p.channels + c;
        float        value[8], add[8];

        if (WHOLE) {
            pdl_load8(weight, add);
            if (t < moved)
                pdl_load8(p.class_token + c, value);
            else
                pdl_load8(x, value);
            for (int k = 0; k < 8; k++) value[k] += add[k];
            pdl_store8(y, value);
        } else {
            for (int k = 0; k < 8 && c + k < p.channels; k++)
                y[k] = T((t < moved ? p.class_token[c + k] : (float)x[k]) + weight[k]);
        }
    }
}

template <typename T>
static pdl_status_t launch_position(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, const position_t *p)
{
    bool whole = pdl_has_vectors(p->x, p->channels, p->channels) && pdl_is_aligned(p->y) &&
                 pdl_is_aligned(p->weight) && (p->class_token == NULL || pdl_is_aligned(p->class_token));
    auto position = whole ? position_rows<T, true> : position_rows<T, false>;
    int  blocks = pdl__gpu_blocks(gpu, p->samples * p->tokens * ((p->channels + 7) / 8), THREADS, 8);

    return PDL_LAUNCH(position, blocks, THREADS, 0, stream, *p);
}

static pdl_status_t add_position(pdl__gpu_t *gpu, pdl_tensor_stream_t *stream, pdl_dtype_t type,
                                 const position_t *p)
{
    return type == PDL_DTYPE_BF16 ? launch_position<pdl_bf16>(gpu, stream, p)
                                  : launch_position<float>(gpu, stream, p);
}

extern "C" const pdl__cuda_sequences_t pdl__cuda_sequences = {softmax, softmax_back, pdl__cuda_look_up,
                                                              pdl__cuda_look_up_back, add_position};
