/*
 * Pooling over windows: the maximum, with the place of it saved for backward, or the mean.
 *
 * A plane is the space of one block of channels (BLOCKED, 16 lanes) or of one channel (PLAIN, 1 lane). Work is cut
 * into rows of planes: output positions with the same first coordinate. Backward adds to what windows share, so
 * there a plane is cut only when windows do not overlap along the first dimension. Maxima of pairs, on PLAIN, have
 * a kernel of their own (pool_pairs.h).
 */
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/window/pool_pairs.h"

#include <stdlib.h>

typedef struct pdl__pool {
    const pdl_layer_t *layer;
    int64_t            in_positions, out_positions, cuts; /* cuts: pieces of a plane */
    bool               largest, bf16;
    const void        *in; /* forward: x; backward: the output's gradient */
    void              *out;
    uint16_t          *place; /* element of the window with the maximum; NULL: not wanted */
} pdl__pool_t;

/* The part of a window that lies on the input: elements [low, high) of it in each dimension. */
typedef struct pdl__window {
    int64_t start[3], low[3], high[3];
} pdl__window_t;

PDL__INLINE int64_t divide_up(int64_t a, int64_t b)
{
    return b == 1 ? a : (a + b - 1) / b;
}

PDL__INLINE void place_window(const pdl_layer_t *layer, int d, int64_t at, pdl__window_t *w)
{
    int64_t step = layer->dilation[d], start = at * layer->stride[d] - layer->pad_low[d];
    int64_t room = layer->in.extent[d] - start, high = room <= 0 ? 0 : divide_up(room, step);

    w->start[d] = start;
    w->low[d] = start < 0 ? divide_up(-start, step) : 0;
    if (high > layer->kernel[d]) high = layer->kernel[d];
    w->high[d] = high < w->low[d] ? w->low[d] : high;
}

PDL__INLINE float mean_factor(const pdl_layer_t *layer, const pdl__window_t *w)
{
    int64_t count = 1;

    for (int d = 0; d < 3; d++) count *= layer->count_padding ? layer->kernel[d] : w->high[d] - w->low[d];
    return 1.0f / (float)(count > 0 ? count : 1);
}

PDL__INLINE pdl__f16_t load(bool bf16, const void *data, int64_t at, int64_t lanes)
{
    return bf16 ? pdl__load_bf16((const pdl__bf16_t *)data + at, lanes)
                : pdl__load_f32((const float *)data + at, lanes);
}

PDL__INLINE void store(bool bf16, void *data, int64_t at, pdl__f16_t v, int64_t lanes)
{
    if (bf16)
        pdl__store_bf16((pdl__bf16_t *)data + at, v, lanes);
    else
        pdl__store_f32((float *)data + at, v, lanes);
}

/* Visits the elements of a window: `position` is theirs in the plane, `element` their number in the window. */
#define FOR_WINDOW(layer, w, position, element)                                                           \
    for (int64_t k0 = (w).low[0]; k0 < (w).high[0]; k0++)                                                 \
        for (int64_t k1 = (w).low[1]; k1 < (w).high[1]; k1++)                                             \
            for (int64_t k2 = (w).low[2],                                                                 \
                         position = (((w).start[0] + k0 * (layer)->dilation[0]) * (layer)->in.extent[1] + \
                                     (w).start[1] + k1 * (layer)->dilation[1]) *                          \
                                        (layer)->in.extent[2] +                                           \
                                    (w).start[2] + k2 * (layer)->dilation[2],                             \
                         element = (k0 * (layer)->kernel[1] + k1) * (layer)->kernel[2] + k2;              \
                 k2 < (w).high[2]; k2++, position += (layer)->dilation[2], element++)

PDL__INLINE void forward_window(const pdl__pool_t *p, const pdl__window_t *w, int64_t plane, int64_t o,
                                int64_t lanes, bool bf16)
{
    int64_t    base = plane * p->in_positions * lanes, target = (plane * p->out_positions + o) * lanes;
    pdl__f16_t result = {0};
    pdl__i16_t place = {0};
    bool       empty = true;

    if (!p->largest) {
        FOR_WINDOW(p->layer, *w, position, element) result += load(bf16, p->in, base + position * lanes, lanes);
        store(bf16, p->out, target, result * mean_factor(p->layer, w), lanes);
        return;
    }
    FOR_WINDOW(p->layer, *w, position, element)
    {
        pdl__f16_t v = load(bf16, p->in, base + position * lanes, lanes);
        pdl__i16_t better = empty ? ~(pdl__i16_t){0} : pdl__above(v, result);

        result = pdl__choose(better, v, result);
        place = (place & ~better) | ((int32_t)element & better);
        empty = false;
    }
    store(bf16, p->out, target, result, lanes);
    if (p->place != NULL) {
        pdl__h16_t narrow = __builtin_convertvector((pdl__u16_t)(empty ? place + 0xffff : place), pdl__h16_t);

        memcpy(p->place + target, &narrow, (size_t)lanes * sizeof(uint16_t));
    }
}

PDL__INLINE void backward_window(const pdl__pool_t *p, const pdl__window_t *w, int64_t plane, int64_t o,
                                 int64_t lanes, bool bf16)
{
    int64_t    base = plane * p->in_positions * lanes, source = (plane * p->out_positions + o) * lanes;
    pdl__f16_t g = load(bf16, p->in, source, lanes);
    pdl__h16_t narrow = {0};
    pdl__i16_t place;

    if (p->largest) memcpy(&narrow, p->place + source, (size_t)lanes * sizeof(uint16_t));
    place = __builtin_convertvector(narrow, pdl__i16_t);
    if (!p->largest) g *= mean_factor(p->layer, w);
    FOR_WINDOW(p->layer, *w, position, element)
    {
        int64_t    at = base + position * lanes;
        pdl__f16_t share = p->largest ? (pdl__f16_t)((pdl__i16_t)g & pdl__equal(place, (int32_t)element)) : g;

        store(bf16, p->out, at, load(bf16, p->out, at, lanes) + share, lanes);
    }
}

/* Backward adds up in place, so a plane that is one piece is cleared here; see clear_planes for the others. */
PDL__INLINE void pool_pieces(const pdl__pool_t *p, int64_t first, int64_t end, int64_t lanes, bool bf16, bool back)
{
    const int64_t *extent = p->layer->out.extent;
    size_t         plane_bytes = (size_t)(p->in_positions * lanes) * (bf16 ? 2 : 4);

    for (int64_t piece = first; piece < end; piece++) {
        int64_t       plane = piece / p->cuts, cut = piece % p->cuts;
        int64_t       low = extent[0] * cut / p->cuts, high = extent[0] * (cut + 1) / p->cuts;
        int64_t       at[3];
        pdl__window_t w;

        if (back && p->cuts == 1) memset((char *)p->out + (size_t)plane * plane_bytes, 0, plane_bytes);
        for (at[0] = low; at[0] < high; at[0]++) {
            place_window(p->layer, 0, at[0], &w);
            for (at[1] = 0; at[1] < extent[1]; at[1]++) {
                place_window(p->layer, 1, at[1], &w);
                for (at[2] = 0; at[2] < extent[2]; at[2]++) {
                    int64_t o = (at[0] * extent[1] + at[1]) * extent[2] + at[2];

                    place_window(p->layer, 2, at[2], &w);
                    if (back)
                        backward_window(p, &w, plane, o, lanes, bf16);
                    else
                        forward_window(p, &w, plane, o, lanes, bf16);
                }
            }
        }
    }
}

#define DEFINE_POOL(name, lanes, bf16, back)                                \
    PDL__CLONES static void name(void *context, int64_t first, int64_t end) \
    {                                                                       \
        pool_pieces(context, first, end, lanes, bf16, back);                \
    }
DEFINE_POOL(forward_blocked_f32, 16, false, false)
DEFINE_POOL(forward_blocked_bf16, 16, true, false)
DEFINE_POOL(forward_plain_f32, 1, false, false)
DEFINE_POOL(forward_plain_bf16, 1, true, false)
DEFINE_POOL(backward_blocked_f32, 16, false, true)
DEFINE_POOL(backward_blocked_bf16, 16, true, true)
DEFINE_POOL(backward_plain_f32, 1, false, true)
DEFINE_POOL(backward_plain_bf16, 1, true, true)

static void clear_slice(void *context, int64_t first, int64_t end)
{
    memset((char *)context + first, 0, (size_t)(end - first));
}

static pdl_status_t pool_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cpu;
    if (layer->kernel[0] * layer->kernel[1] * layer->kernel[2] >= 0xffff)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: pooling windows have less than 65535 elements", layer->name);
    op->description.in_format[0] = op->description.out_format = op->spec.given[0];
    if (op->spec.training && layer->type == PDL_LAYER_MAX_POOL)
        op->description.saved_bytes =
            (size_t)pdl__cpu_elements(&layer->out, op->spec.samples, op->description.out_format) *
            (pdl__pairs_suit(op) ? sizeof(uint8_t) : sizeof(uint16_t));
    return PDL_OK;
}

static pdl__pool_t describe(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__pool_t){.layer = layer,
                         .in_positions = pdl_shape_positions(&layer->in),
                         .out_positions = pdl_shape_positions(&layer->out),
                         .cuts = layer->out.extent[0],
                         .largest = layer->type == PDL_LAYER_MAX_POOL,
                         .bf16 = op->backend->activation_type == PDL_DTYPE_BF16,
                         .place = op->description.saved_bytes > 0 ? run->saved : NULL};
}

static void run_pieces(const pdl_op_t *op, pdl__pool_t *p, bool back)
{
    static const pdl_slice_fn_t functions[2][2][2] = {{{forward_plain_f32, forward_plain_bf16},
                                                       {forward_blocked_f32, forward_blocked_bf16}},
                                                      {{backward_plain_f32, backward_plain_bf16},
                                                       {backward_blocked_f32, backward_blocked_bf16}}};
    bool                        blocked = op->description.out_format == PDL_FORMAT_BLOCKED;
    int64_t                     channels = p->layer->in.channels;
    int64_t planes = op->spec.samples * (blocked ? (channels + PDL__BLOCK - 1) / PDL__BLOCK : channels);

    pdl_threads_run(planes * p->cuts, 1 + 512 * p->cuts / p->out_positions, functions[back][blocked][p->bf16], p);
}

static pdl_status_t pool_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__pool_t p = describe(op, run);

    if (pdl__pairs_suit(op)) {
        pdl__pairs_forward(op, run->input[0], run->output, op->description.saved_bytes > 0 ? run->saved : NULL);
        return PDL_OK;
    }
    p.in = run->input[0];
    p.out = run->output;
    run_pieces(op, &p, false);
    return PDL_OK;
}

static pdl_status_t pool_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl_layer_t *layer = op->spec.layer;
    pdl__pool_t        p = describe(op, run);
    bool               overlap = layer->stride[0] <= (layer->kernel[0] - 1) * layer->dilation[0];

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (pdl__pairs_suit(op)) {
        pdl__pairs_backward(op, run->output_gradient[0], run->saved, run->input_gradient[0]);
        return PDL_OK;
    }
    p.in = run->output_gradient[0];
    p.out = run->input_gradient[0];
    /* Planes are many, but for volumes of few channels and samples. */
    if (overlap || op->spec.samples * layer->in.channels >= 64 * op->backend->threads) p.cuts = 1;
    if (p.cuts > 1)
        pdl_threads_run(pdl__cpu_elements(&layer->in, op->spec.samples, op->description.in_format[0]) *
                            (p.bf16 ? 2 : 4),
                        65536, clear_slice, p.out);
    run_pieces(op, &p, true);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_pool = {.describe = pool_describe,
                                       .forward = pool_forward,
                                       .backward = pool_backward};
