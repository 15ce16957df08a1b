/*
 * Dropout. The mask is drawn at the indices that elements have in the whole tensor of the global batch, in plain
 * order: it does not depend on how many ranks share the work, nor on how the tensor lies here.
 */
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"

#include <paradl/base/random.h>

typedef struct pdl__dropping {
    const pdl_op_t *op;
    uint64_t        seed, stream;
    int64_t         first_sample, space;
    float           rate, scale;
    bool            bf16;
    const void     *in;
    void           *out;
    uint8_t        *mask; /* 1: the element stays */
} pdl__dropping_t;

/* The dimensions of one sample in plain order, outermost first; how many there are. */
static int plain_dims(const pdl_shape_t *shape, int64_t dims[4])
{
    int count = 0;

    if (shape->sequence) {
        dims[count++] = shape->extent[0];
        dims[count++] = shape->channels;
        return count;
    }
    dims[count++] = shape->channels;
    for (int d = 0; d < shape->rank; d++) dims[count++] = shape->extent[d];
    return count;
}

static void plain_origin(const pdl_op_t *op, int64_t origin[4])
{
    const pdl_origin_t *o = &op->spec.origin;
    int                 count = 0;

    if (op->spec.layer->in.sequence) origin[count++] = o->space[0];
    origin[count++] = o->channel;
    if (op->spec.layer->in.sequence) return;
    for (int d = 0; d < op->spec.layer->in.rank; d++) origin[count++] = o->space[d];
}

/* Index in the whole tensor of the local element `i` in plain order, and how many follow it without a gap. */
static uint64_t global_index(const pdl__dropping_t *d, int64_t i, int64_t *run)
{
    const pdl_op_spec_t *spec = &d->op->spec;
    const pdl_shape_t   *shape = &spec->layer->in;
    int64_t              dims[4], whole[4], origin[4], step = 1, index = 0, rest = i;
    int                  count = plain_dims(shape, dims);

    plain_dims(&spec->origin.whole, whole);
    plain_origin(d->op, origin);
    *run = dims[count - 1] - i % dims[count - 1];
    for (int k = count - 1; k >= 0; k--) {
        index += (rest % dims[k] + origin[k]) * step;
        step *= whole[k];
        rest /= dims[k];
    }
    return (uint64_t)((d->first_sample + rest) * step + index);
}

/* Whether this rank has whole samples: then neighbours here are neighbours there. */
static bool whole_samples(const pdl_op_t *op)
{
    return pdl_shape_elements(&op->spec.layer->in) == pdl_shape_elements(&op->spec.origin.whole);
}

static void draw(const pdl__dropping_t *d, int64_t first, int64_t count, float *uniform)
{
    bool whole = whole_samples(d->op);

    while (count > 0) {
        int64_t  run;
        uint64_t index = global_index(d, first, &run);

        if (whole || run > count) run = count;
        pdl_random_fill(d->seed, d->stream, index, run, uniform);
        first += run;
        uniform += run;
        count -= run;
    }
}

static void draw_plain(void *context, int64_t first, int64_t end)
{
    const pdl__dropping_t *d = context;
    float                  uniform[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        count = pdl__chunk_size(first, end);
        draw(d, first, count, uniform);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) d->mask[first + i] = uniform[i] >= d->rate;
    }
}

/* A task is the space of one block of channels. */
static void draw_blocked(void *context, int64_t first, int64_t end)
{
    const pdl__dropping_t *d = context;
    int64_t channels = d->op->spec.layer->in.channels, blocks = (channels + PDL__BLOCK - 1) / PDL__BLOCK;
    float   uniform[PDL__CHUNK];

    for (int64_t task = first; task < end; task++) {
        uint8_t *mask = d->mask + task * d->space * PDL__BLOCK;
        int64_t  sample = task / blocks, block = task % blocks;

        memset(mask, 0, (size_t)(d->space * PDL__BLOCK));
        for (int64_t k = 0; k < PDL__BLOCK && block * PDL__BLOCK + k < channels; k++) {
            int64_t plain = (sample * channels + block * PDL__BLOCK + k) * d->space, count;

            for (int64_t p = 0; p < d->space; p += count) {
                count = pdl__chunk_size(p, d->space);
                draw(d, plain + p, count, uniform);
                for (int64_t i = 0; i < count; i++) mask[(p + i) * PDL__BLOCK + k] = uniform[i] >= d->rate;
            }
        }
    }
}

/* `in` and `out` may be the same. */
PDL__CLONES static void apply_mask(void *context, int64_t first, int64_t end)
{
    const pdl__dropping_t *d = context;
    float                  buffer[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        const float   *in;
        float         *out = pdl__chunk_target(d->bf16, d->out, first, buffer);
        const uint8_t *mask = d->mask + first;

        count = pdl__chunk_size(first, end);
        in = pdl__chunk_read(d->bf16, d->in, first, count, buffer);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = mask[i] != 0 ? in[i] * d->scale : 0;
        pdl__chunk_write(d->bf16, d->out, first, count, out);
    }
}

static pdl_status_t dropout_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cpu;
    if (pdl__cpu_blockable(&layer->in)) op->description.in_format[0] = op->spec.given[0];
    op->description.out_format = op->description.in_format[0];
    op->description.inplace = true;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    if (op->spec.training && layer->rate > 0)
        op->description.saved_bytes =
            (size_t)pdl__cpu_elements(&layer->in, op->spec.samples, op->description.out_format);
    return PDL_OK;
}

static void apply(const pdl_op_t *op, const pdl_op_run_t *run, const void *in, void *out)
{
    pdl__dropping_t d = {.op = op,
                         .scale = (float)(1 / (1 - op->spec.layer->rate)),
                         .bf16 = op->backend->activation_type == PDL_DTYPE_BF16,
                         .in = in,
                         .out = out,
                         .mask = run->saved};
    int64_t         count = pdl__cpu_elements(&op->spec.layer->in, op->spec.samples, op->description.out_format);

    if (run->training && op->description.saved_bytes > 0)
        pdl_threads_run(count, PDL__CHUNK_GRAIN, apply_mask, &d);
    else if (in != out)
        memcpy(out, in, op->description.out_bytes);
}

static pdl_status_t dropout_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    pdl__dropping_t    d = {.op = op,
                            .seed = run->seed,
                            .stream = pdl_random_stream("dropout", op->spec.id, run->step),
                            .first_sample = run->first_sample,
                            .space = pdl_shape_positions(shape),
                            .rate = (float)op->spec.layer->rate,
                            .mask = run->saved};

    if (run->training && op->description.saved_bytes > 0) {
        if (op->description.out_format == PDL_FORMAT_BLOCKED)
            pdl_threads_run(op->spec.samples * ((shape->channels + PDL__BLOCK - 1) / PDL__BLOCK), 1, draw_blocked,
                            &d);
        else
            pdl_threads_run(op->spec.samples * pdl_shape_elements(shape), 4096, draw_plain, &d);
    }
    apply(op, run, run->input[0], run->output);
    return PDL_OK;
}

static pdl_status_t dropout_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    if ((what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL)
        apply(op, run, run->output_gradient[0], run->input_gradient[0]);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_dropout = {.describe = dropout_describe,
                                          .forward = dropout_forward,
                                          .backward = dropout_backward};
