/*
 * Upsampling. An output lies between two inputs in each dimension (nearest: on one), whose indices and shares are
 * tabled when the op is made. A plane is the space of one block of channels or of one channel; backward adds up
 * inside a plane.
 */
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

typedef struct pdl__between {
    int64_t low, high;
    float   share; /* of the high one */
} pdl__between_t;

typedef struct pdl__upsample {
    int64_t         in[3], out[3];
    pdl__between_t *between[3];
    pdl__between_t  table[]; /* all of them, one after the other */
} pdl__upsample_t;

typedef struct pdl__upsampling {
    const pdl__upsample_t *table;
    const float           *in; /* forward: x; backward: the output's gradient */
    float                 *out;
} pdl__upsampling_t;

static pdl__between_t lie_between(bool linear, int64_t i, int64_t in, int64_t out)
{
    double         centre = ((double)i + 0.5) * (double)in / (double)out - 0.5;
    pdl__between_t b = {.low = i * in / out, .high = i * in / out};

    if (!linear) return b;
    if (centre < 0) centre = 0;
    b.low = (int64_t)centre < in - 1 ? (int64_t)centre : in - 1;
    b.high = b.low + 1 < in ? b.low + 1 : b.low;
    b.share = (float)(centre - (double)b.low);
    return b;
}

static pdl_status_t upsample_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    op->description.in_format[0] = op->description.out_format = op->spec.given[0];
    return pdl__cpu_require_f32(cpu, op->spec.layer); /* backward adds up in place */
}

static pdl_status_t upsample_prepare(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    const int64_t     *out = layer->out.extent;
    pdl__upsample_t   *up;
    pdl__between_t    *next;

    (void)cpu;
    up = calloc(1, sizeof(*up) + (size_t)(out[0] + out[1] + out[2]) * sizeof(up->table[0]));
    if (up == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    next = up->table;
    for (int d = 0; d < 3; d++) {
        up->in[d] = layer->in.extent[d];
        up->out[d] = out[d];
        up->between[d] = next;
        for (int64_t i = 0; i < out[d]; i++) *next++ = lie_between(layer->bilinear, i, up->in[d], out[d]);
    }
    op->private_data = up;
    return PDL_OK;
}

/* The corners of the cell around one output; those without weight are left out. */
PDL__INLINE void visit_cell(const pdl__upsampling_t *u, const pdl__between_t *const b[3], int64_t in_base,
                            int64_t out_at, int64_t lanes, bool back)
{
    const pdl__upsample_t *t = u->table;
    pdl__f16_t             sum = {0}, g = {0};

    if (back) g = pdl__load_f32(u->in + out_at, lanes);
    for (int corner = 0; corner < 8; corner++) {
        float   weight = 1;
        int64_t position = 0;

        for (int d = 0; d < 3; d++) {
            bool high = corner >> d & 1;

            weight *= high ? b[d]->share : 1 - b[d]->share;
            position = position * t->in[d] + (high ? b[d]->high : b[d]->low);
        }
        if (weight == 0) continue;
        position = in_base + position * lanes;
        if (back)
            pdl__store_f32(u->out + position, pdl__load_f32(u->out + position, lanes) + g * weight, lanes);
        else
            sum += pdl__load_f32(u->in + position, lanes) * weight;
    }
    if (!back) pdl__store_f32(u->out + out_at, sum, lanes);
}

PDL__INLINE void visit_planes(const pdl__upsampling_t *u, int64_t first, int64_t end, int64_t lanes, bool back)
{
    const pdl__upsample_t *t = u->table;
    int64_t                in = t->in[0] * t->in[1] * t->in[2], out = t->out[0] * t->out[1] * t->out[2];

    for (int64_t plane = first; plane < end; plane++) {
        int64_t at = plane * out * lanes;

        if (back) memset(u->out + plane * in * lanes, 0, (size_t)(in * lanes) * sizeof(float));
        for (int64_t i = 0; i < t->out[0]; i++)
            for (int64_t j = 0; j < t->out[1]; j++)
                for (int64_t k = 0; k < t->out[2]; k++, at += lanes) {
                    const pdl__between_t *const b[3] = {&t->between[0][i], &t->between[1][j], &t->between[2][k]};

                    visit_cell(u, b, plane * in * lanes, at, lanes, back);
                }
    }
}

#define DEFINE_UPSAMPLE(name, lanes, back)                                  \
    PDL__CLONES static void name(void *context, int64_t first, int64_t end) \
    {                                                                       \
        visit_planes(context, first, end, lanes, back);                     \
    }
DEFINE_UPSAMPLE(forward_blocked, 16, false)
DEFINE_UPSAMPLE(forward_plain, 1, false)
DEFINE_UPSAMPLE(backward_blocked, 16, true)
DEFINE_UPSAMPLE(backward_plain, 1, true)

static int64_t plane_count(const pdl_op_t *op)
{
    int64_t channels = op->spec.layer->in.channels;

    if (op->description.out_format == PDL_FORMAT_BLOCKED) channels = (channels + PDL__BLOCK - 1) / PDL__BLOCK;
    return op->spec.samples * channels;
}

static pdl_status_t upsample_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    bool              blocked = op->description.out_format == PDL_FORMAT_BLOCKED;
    pdl__upsampling_t u = {.table = op->private_data, .in = run->input[0], .out = run->output};

    pdl_threads_run(plane_count(op), 1, blocked ? forward_blocked : forward_plain, &u);
    return PDL_OK;
}

static pdl_status_t upsample_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    bool              blocked = op->description.out_format == PDL_FORMAT_BLOCKED;
    pdl__upsampling_t u = {.table = op->private_data, .in = run->output_gradient[0], .out = run->input_gradient[0]};

    if (!(what & PDL_BACKWARD_DATA) || u.out == NULL) return PDL_OK;
    pdl_threads_run(plane_count(op), 1, blocked ? backward_blocked : backward_plain, &u);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_upsample = {.describe = upsample_describe,
                                           .prepare = upsample_prepare,
                                           .forward = upsample_forward,
                                           .backward = upsample_backward};
