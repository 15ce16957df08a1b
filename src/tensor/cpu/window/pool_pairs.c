/*
 * Windows of 2x2 with stride 2: eight of a row at a time, or four. The last vector of a row begins where it ends with
 * the row, so some outputs are computed twice, which is faster than one by one.
 */
#include "tensor/cpu/window/pool_pairs.h"

#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

typedef struct pdl__pairs {
    int64_t      in[2], out[2];
    const float *from; /* forward: x; backward: the output's gradient */
    float       *to;
    uint8_t     *place;
} pdl__pairs_t;

bool pdl__pairs_suit(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    if (op->backend->activation_type != PDL_DTYPE_F32 || layer->type != PDL_LAYER_MAX_POOL) return false;
    if (op->spec.given[0] != PDL_FORMAT_PLAIN || layer->in.rank != 2 || layer->out.extent[1] < 4) return false;
    for (int d = 0; d < 2; d++)
        if (layer->kernel[d] != 2 || layer->stride[d] != 2 || layer->dilation[d] != 1 || layer->pad_low[d] != 0 ||
            2 * layer->out.extent[d] > layer->in.extent[d])
            return false;
    return true;
}

/* All for vectors of N lanes. Masks are made from sign bits, as in lanes.h. */
#define DEFINE_PAIRS(N, EVEN, ODD, LOW, HIGH)                                                                  \
    typedef float    f##N##_t __attribute__((vector_size(4 * N), aligned(4), may_alias));                      \
    typedef int32_t  i##N##_t __attribute__((vector_size(4 * N)));                                             \
    typedef uint32_t u##N##_t __attribute__((vector_size(4 * N)));                                             \
    typedef uint8_t  b##N##_t __attribute__((vector_size(N)));                                                 \
                                                                                                               \
    /* The better of v and *best, by pdl__above: larger, or a NaN. */                                          \
    PDL__INLINE void challenge##N(f##N##_t v, int32_t number, f##N##_t *best, i##N##_t *place)                 \
    {                                                                                                          \
        i##N##_t a = (i##N##_t)v, b = (i##N##_t) * best;                                                       \
        u##N##_t x = (u##N##_t)(a ^ (i##N##_t)((u##N##_t)(a >> 31) >> 1));                                     \
        u##N##_t y = (u##N##_t)(b ^ (i##N##_t)((u##N##_t)(b >> 31) >> 1)), difference = y - x;                 \
        i##N##_t nan = (i##N##_t)(0x7f800000u - ((u##N##_t)b & 0x7fffffffu)) >> 31;                            \
        i##N##_t better = ((i##N##_t)(difference ^ ((y ^ x) & (difference ^ y))) >> 31 & ~nan) |               \
                          (i##N##_t)(0x7f800000u - ((u##N##_t)a & 0x7fffffffu)) >> 31;                         \
                                                                                                               \
        *best = (f##N##_t)((a & better) | (b & ~better));                                                      \
        *place = (*place & ~better) | (number & better);                                                       \
    }                                                                                                          \
                                                                                                               \
    PDL__INLINE void forward##N(const float *upper, const float *lower, float *y, uint8_t *place)              \
    {                                                                                                          \
        f##N##_t a = *(const f##N##_t *)upper, b = *(const f##N##_t *)(upper + N);                             \
        f##N##_t c = *(const f##N##_t *)lower, d = *(const f##N##_t *)(lower + N);                             \
        f##N##_t best = __builtin_shufflevector(a, b, EVEN);                                                   \
        i##N##_t at = {0};                                                                                     \
                                                                                                               \
        challenge##N(__builtin_shufflevector(a, b, ODD), 1, &best, &at);                                       \
        challenge##N(__builtin_shufflevector(c, d, EVEN), 2, &best, &at);                                      \
        challenge##N(__builtin_shufflevector(c, d, ODD), 3, &best, &at);                                       \
        *(f##N##_t *)y = best;                                                                                 \
        if (place != NULL) {                                                                                   \
            b##N##_t narrow = __builtin_convertvector(at, b##N##_t);                                           \
                                                                                                               \
            memcpy(place, &narrow, sizeof(narrow));                                                            \
        }                                                                                                      \
    }                                                                                                          \
                                                                                                               \
    /* Where the place is `number`, g, else 0. The difference is -3 to 3. */                                   \
    PDL__INLINE f##N##_t share##N(f##N##_t g, i##N##_t place, int32_t number)                                  \
    {                                                                                                          \
        i##N##_t difference = place ^ number;                                                                  \
                                                                                                               \
        return (f##N##_t)((i##N##_t)g & (difference - 1) >> 31);                                               \
    }                                                                                                          \
                                                                                                               \
    PDL__INLINE void backward##N(const float *dy, const uint8_t *place, float *upper, float *lower)            \
    {                                                                                                          \
        f##N##_t g = *(const f##N##_t *)dy, a, b;                                                              \
        b##N##_t narrow;                                                                                       \
        i##N##_t at;                                                                                           \
                                                                                                               \
        memcpy(&narrow, place, sizeof(narrow));                                                                \
        at = __builtin_convertvector(narrow, i##N##_t);                                                        \
        a = share##N(g, at, 0), b = share##N(g, at, 1);                                                        \
        *(f##N##_t *)upper = __builtin_shufflevector(a, b, LOW);                                               \
        *(f##N##_t *)(upper + N) = __builtin_shufflevector(a, b, HIGH);                                        \
        a = share##N(g, at, 2), b = share##N(g, at, 3);                                                        \
        *(f##N##_t *)lower = __builtin_shufflevector(a, b, LOW);                                               \
        *(f##N##_t *)(lower + N) = __builtin_shufflevector(a, b, HIGH);                                        \
    }                                                                                                          \
                                                                                                               \
    /* One pair of rows of the input, one row of the output; it has at least N elements. */                    \
    PDL__INLINE void forward_row##N(const float *x, int64_t in, int64_t out, float *y, uint8_t *place)         \
    {                                                                                                          \
        for (int64_t i = 0; i < out; i += N) {                                                                 \
            int64_t at = i + N <= out ? i : out - N;                                                           \
                                                                                                               \
            forward##N(x + 2 * at, x + in + 2 * at, y + at, place != NULL ? place + at : NULL);                \
        }                                                                                                      \
    }                                                                                                          \
                                                                                                               \
    PDL__INLINE void backward_row##N(const float *dy, const uint8_t *place, int64_t in, int64_t out, float *x) \
    {                                                                                                          \
        for (int64_t i = 0; i < out; i += N) {                                                                 \
            int64_t at = i + N <= out ? i : out - N;                                                           \
                                                                                                               \
            backward##N(dy + at, place + at, x + 2 * at, x + in + 2 * at);                                     \
        }                                                                                                      \
    }

#define EVEN4 0, 2, 4, 6
#define ODD4  1, 3, 5, 7
#define LOW4  0, 4, 1, 5
#define HIGH4 2, 6, 3, 7
#define EVEN8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD8  1, 3, 5, 7, 9, 11, 13, 15
#define LOW8  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH8 4, 12, 5, 13, 6, 14, 7, 15
DEFINE_PAIRS(4, EVEN4, ODD4, LOW4, HIGH4)
DEFINE_PAIRS(8, EVEN8, ODD8, LOW8, HIGH8)

PDL__CLONES static void forward_planes(void *context, int64_t first, int64_t end)
{
    const pdl__pairs_t *p = context;

    for (int64_t plane = first; plane < end; plane++)
        for (int64_t row = 0; row < p->out[0]; row++) {
            const float *x = p->from + (plane * p->in[0] + 2 * row) * p->in[1];
            int64_t      at = (plane * p->out[0] + row) * p->out[1];
            uint8_t     *place = p->place != NULL ? p->place + at : NULL;

            if (p->out[1] >= 8)
                forward_row8(x, p->in[1], p->out[1], p->to + at, place);
            else
                forward_row4(x, p->in[1], p->out[1], p->to + at, place);
        }
}

/* Rows and columns that no window covers have no gradient. */
PDL__INLINE void clear_rest(const pdl__pairs_t *p, float *plane)
{
    int64_t rows = 2 * p->out[0], columns = 2 * p->out[1];

    if (columns < p->in[1])
        for (int64_t row = 0; row < rows; row++)
            memset(plane + row * p->in[1] + columns, 0, (size_t)(p->in[1] - columns) * sizeof(*plane));
    if (rows < p->in[0])
        memset(plane + rows * p->in[1], 0, (size_t)((p->in[0] - rows) * p->in[1]) * sizeof(*plane));
}

PDL__CLONES static void backward_planes(void *context, int64_t first, int64_t end)
{
    const pdl__pairs_t *p = context;

    for (int64_t plane = first; plane < end; plane++) {
        float *dx = p->to + plane * p->in[0] * p->in[1];

        clear_rest(p, dx);
        for (int64_t row = 0; row < p->out[0]; row++, dx += 2 * p->in[1]) {
            int64_t at = (plane * p->out[0] + row) * p->out[1];

            if (p->out[1] >= 8)
                backward_row8(p->from + at, p->place + at, p->in[1], p->out[1], dx);
            else
                backward_row4(p->from + at, p->place + at, p->in[1], p->out[1], dx);
        }
    }
}

static void run_planes(const pdl_op_t *op, pdl_slice_fn_t function, pdl__pairs_t *p)
{
    const pdl_layer_t *layer = op->spec.layer;

    for (int d = 0; d < 2; d++) {
        p->in[d] = layer->in.extent[d];
        p->out[d] = layer->out.extent[d];
    }
    pdl_threads_run(op->spec.samples * layer->in.channels, 1 + 4096 / (p->out[0] * p->out[1]), function, p);
}

void pdl__pairs_forward(const pdl_op_t *op, const float *x, float *y, uint8_t *place)
{
    pdl__pairs_t p = {.from = x, .to = y, .place = place};

    run_planes(op, forward_planes, &p);
}

void pdl__pairs_backward(const pdl_op_t *op, const float *dy, const uint8_t *place, float *dx)
{
    pdl__pairs_t p = {.from = dy, .to = dx, .place = (uint8_t *)place};

    run_planes(op, backward_planes, &p);
}
