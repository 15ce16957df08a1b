/*
 * Convolutions as matrix products of unrolled windows.
 *
 * `narrow` is the tensor with one position per window (the output of a convolution, the input of its transpose), `wide`
 * the one that the windows cover. Of one sample and group, with K = channels of wide times window and P positions of
 * narrow, the windows are a matrix U [K][P], and the three products are
 *
 *     narrow [N][P] = w [N][K] U          dw [N][K] = narrow [N][P] U^T          U = w^T narrow, folded into wide
 *
 * which is forward and the two ways back of a convolution, and, with narrow and wide exchanged, of its transpose. Samples
 * are computed one after the other: gradients of weights are summed in their order, whatever the threads.
 */
#include "tensor/cpu/window/conv_unroll.h"

#include "tensor/cpu/matmul/gemm.h"
#include "tensor/cpu/threads.h"

#include <string.h>

typedef struct form {
    const pdl_layer_t *layer;
    const pdl_shape_t *narrow, *wide;
    int64_t            narrow_channels, wide_channels; /* of a group */
    int64_t            window, k, positions, wide_positions;
    int                threads;
    float             *unrolled;
    void              *scratch;
} form_t;

static form_t form_of(const pdl_op_t *op, void *workspace)
{
    const pdl_layer_t *layer = op->spec.layer;
    bool               transposed = layer->type == PDL_LAYER_CONV_TRANSPOSE;
    form_t             f = {.layer = layer,
                            .narrow = transposed ? &layer->in : &layer->out,
                            .wide = transposed ? &layer->out : &layer->in,
                            .threads = pdl__threads_count(),
                            .unrolled = workspace};

    f.narrow_channels = f.narrow->channels / layer->groups;
    f.wide_channels = f.wide->channels / layer->groups;
    f.window = layer->kernel[0] * layer->kernel[1] * layer->kernel[2];
    f.k = f.wide_channels * f.window;
    f.positions = pdl_shape_positions(f.narrow);
    f.wide_positions = pdl_shape_positions(f.wide);
    if (workspace != NULL) f.scratch = f.unrolled + (f.k * f.positions + 15) / 16 * 16;
    return f;
}

/* Bytes in front of all else: the gradient before ReLU, where there is one. */
static size_t gradient_bytes(const pdl_op_t *op)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    size_t             bytes = (size_t)(op->spec.samples * pdl_shape_elements(out)) * sizeof(float);

    return op->spec.training && op->spec.fusion.activation == PDL_LAYER_RELU ? (bytes + 63) / 64 * 64 : 0;
}

pdl_status_t pdl__unroll_describe(const pdl__cpu_t *cpu, pdl_op_t *op)
{
    form_t f = form_of(op, NULL);
    size_t unrolled = (size_t)((f.k * f.positions + 15) / 16 * 16) * sizeof(float);

    op->description.in_format[0] = op->description.out_format = PDL_FORMAT_PLAIN;
    op->description.workspace_bytes = gradient_bytes(op) + unrolled + pdl__gemm_workspace(cpu->base.threads);
    return pdl__cpu_require_f32(cpu, op->spec.layer);
}

/* What rows of U, [first, end) of them, have to do with wide. */
typedef struct rows {
    const form_t *form;
    const float  *from; /* wide of the group, to be unrolled; NULL: U is folded */
    float        *into;
} rows_t;

/* The range [*low, *high) of windows along dimension d whose element k is inside of wide. */
static void inside(const form_t *f, int d, int64_t k, int64_t *low, int64_t *high)
{
    int64_t stride = f->layer->stride[d], shift = k * f->layer->dilation[d] - f->layer->pad_low[d];
    int64_t extent = f->wide->extent[d], count = f->narrow->extent[d];

    *low = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    *high = extent - 1 - shift < 0 ? 0 : (extent - 1 - shift) / stride + 1;
    if (*high > count) *high = count;
    if (*low > *high) *low = *high;
}

/* One row of U: element k of the window over one channel. */
typedef struct tap {
    int64_t low[3], high[3], shift[3];
} tap_t;

static tap_t tap_of(const form_t *f, int64_t element)
{
    const int64_t *kernel = f->layer->kernel;
    int64_t        k[3] = {element / (kernel[1] * kernel[2]), element / kernel[2] % kernel[1], element % kernel[2]};
    tap_t          tap;

    for (int d = 0; d < 3; d++) {
        inside(f, d, k[d], &tap.low[d], &tap.high[d]);
        tap.shift[d] = k[d] * f->layer->dilation[d] - f->layer->pad_low[d];
    }
    return tap;
}

static void unroll_row(const form_t *f, const float *channel, const tap_t *tap, float *row)
{
    const int64_t *stride = f->layer->stride, *n = f->narrow->extent, *w = f->wide->extent;

    memset(row, 0, (size_t)f->positions * sizeof(*row));
    for (int64_t i = tap->low[0]; i < tap->high[0]; i++)
        for (int64_t j = tap->low[1]; j < tap->high[1]; j++) {
            const float *line =
                channel + ((i * stride[0] + tap->shift[0]) * w[1] + j * stride[1] + tap->shift[1]) * w[2];
            float *to = row + (i * n[1] + j) * n[2];
            for (int64_t l = tap->low[2]; l < tap->high[2]; l++) to[l] = line[l * stride[2] + tap->shift[2]];
        }
}

static void fold_row(const form_t *f, const float *row, const tap_t *tap, float *channel)
{
    const int64_t *stride = f->layer->stride, *n = f->narrow->extent, *w = f->wide->extent;

    for (int64_t i = tap->low[0]; i < tap->high[0]; i++)
        for (int64_t j = tap->low[1]; j < tap->high[1]; j++) {
            float *line = channel + ((i * stride[0] + tap->shift[0]) * w[1] + j * stride[1] + tap->shift[1]) * w[2];
            const float *from = row + (i * n[1] + j) * n[2];
            for (int64_t l = tap->low[2]; l < tap->high[2]; l++) line[l * stride[2] + tap->shift[2]] += from[l];
        }
}

/* Channels of wide [first, end): each thread has its own, so that sums do not depend on threads. */
static void do_channels(void *context, int64_t first, int64_t end)
{
    const rows_t *r = context;
    const form_t *f = r->form;

    for (int64_t c = first; c < end; c++) {
        if (!r->from) memset(r->into + c * f->wide_positions, 0, (size_t)f->wide_positions * sizeof(float));
        for (int64_t e = 0; e < f->window; e++) {
            tap_t  tap = tap_of(f, e);
            float *row = f->unrolled + (c * f->window + e) * f->positions;
            if (r->from)
                unroll_row(f, r->from + c * f->wide_positions, &tap, row);
            else
                fold_row(f, row, &tap, r->into + c * f->wide_positions);
        }
    }
}

static void unroll(const form_t *f, const float *wide)
{
    pdl_threads_run(f->wide_channels, 1, do_channels, &(rows_t){.form = f, .from = wide});
}

static void fold(const form_t *f, float *wide)
{
    pdl_threads_run(f->wide_channels, 1, do_channels, &(rows_t){.form = f, .into = wide});
}

/* narrow = w U */
static void to_narrow(const form_t *f, const float *weight, const float *wide, float *narrow)
{
    pdl__gemm_t gemm = {.m = f->narrow_channels,
                        .n = f->positions,
                        .k = f->k,
                        .a = {weight, f->k, false},
                        .b = {f->unrolled, f->positions, false},
                        .c = narrow,
                        .c_stride = f->positions};

    unroll(f, wide);
    pdl__gemm_run(&gemm, f->threads, f->scratch);
}

/* U = w^T narrow, folded */
static void to_wide(const form_t *f, const float *weight, const float *narrow, float *wide)
{
    pdl__gemm_t gemm = {.m = f->k,
                        .n = f->positions,
                        .k = f->narrow_channels,
                        .a = {weight, f->k, true},
                        .b = {narrow, f->positions, false},
                        .c = f->unrolled,
                        .c_stride = f->positions};

    pdl__gemm_run(&gemm, f->threads, f->scratch);
    fold(f, wide);
}

/* dw = narrow U^T */
static void to_weight(const form_t *f, const float *narrow, const float *wide, bool add, float *weight)
{
    pdl__gemm_t gemm = {.m = f->narrow_channels,
                        .n = f->k,
                        .k = f->positions,
                        .a = {narrow, f->positions, false},
                        .b = {f->unrolled, f->positions, true},
                        .c = weight,
                        .c_stride = f->k,
                        .add = add};

    unroll(f, wide);
    pdl__gemm_run(&gemm, f->threads, f->scratch);
}

/* Adds the bias and applies ReLU. */
static void finish_output(const pdl_op_t *op, const float *bias, float *y)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    int64_t            positions = pdl_shape_positions(out);
    bool               relu = op->spec.fusion.activation == PDL_LAYER_RELU;

    for (int64_t i = 0; i < op->spec.samples * out->channels; i++, y += positions) {
        float b = bias ? bias[i % out->channels] : 0;
        for (int64_t p = 0; p < positions; p++) {
            float value = y[p] + b;
            y[p] = relu && !(value > 0) ? (value == value ? 0 : value) : value; /* not a number stays so */
        }
    }
}

void pdl__unroll_forward(const pdl_op_t *op, const pdl_op_run_t *run)
{
    form_t       f = form_of(op, (char *)run->workspace + gradient_bytes(op));
    const float *weight = run->weight[0];
    int64_t      weights = f.narrow_channels * f.k;

    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t g = 0; g < f.layer->groups; g++) {
            int64_t narrow = (n * f.layer->groups + g) * f.narrow_channels * f.positions;
            int64_t wide = (n * f.layer->groups + g) * f.wide_channels * f.wide_positions;
            if (f.narrow == &f.layer->out)
                to_narrow(&f, weight + g * weights, (const float *)run->input[0] + wide,
                          (float *)run->output + narrow);
            else
                to_wide(&f, weight + g * weights, (const float *)run->input[0] + narrow,
                        (float *)run->output + wide);
        }
    finish_output(op, f.layer->bias ? run->weight[1] : NULL, run->output);
}

static void bias_gradient(const pdl_op_t *op, const float *dy, bool add, float *bias)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    int64_t            positions = pdl_shape_positions(out);

    for (int64_t c = 0; c < out->channels; c++) {
        double sum = 0;
        for (int64_t n = 0; n < op->spec.samples; n++)
            for (int64_t p = 0; p < positions; p++) sum += (double)dy[(n * out->channels + c) * positions + p];
        bias[c] = add ? bias[c] + (float)sum : (float)sum;
    }
}

/* One group of one sample backward. */
static void backward_group(const form_t *f, const pdl_op_run_t *run, const float *dy, int64_t sample, int64_t g,
                           unsigned what)
{
    int64_t at = sample * f->layer->groups + g, weights = f->narrow_channels * f->k;
    int64_t narrow = at * f->narrow_channels * f->positions, wide = at * f->wide_channels * f->wide_positions;
    bool    transposed = f->narrow == &f->layer->in, add = run->accumulate || sample > 0;

    if (what & PDL_BACKWARD_DATA && run->input_gradient[0] && !transposed)
        to_wide(f, (const float *)run->weight[0] + g * weights, dy + narrow,
                (float *)run->input_gradient[0] + wide);
    if (what & PDL_BACKWARD_DATA && run->input_gradient[0] && transposed)
        to_narrow(f, (const float *)run->weight[0] + g * weights, dy + wide,
                  (float *)run->input_gradient[0] + narrow);
    if (!(what & PDL_BACKWARD_WEIGHT) || !run->weight_gradient[0]) return;
    const float *from_narrow = transposed ? (const float *)run->input[0] + narrow : dy + narrow;
    const float *from_wide = transposed ? dy + wide : (const float *)run->input[0] + wide;
    to_weight(f, from_narrow, from_wide, add, (float *)run->weight_gradient[0] + g * weights);
}

void pdl__unroll_backward(const pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    form_t       f = form_of(op, (char *)run->workspace + gradient_bytes(op));
    const float *dy = run->output_gradient[0];

    if (op->spec.fusion.activation == PDL_LAYER_RELU) {
        if (!(what & PDL_BACKWARD_AGAIN))
            pdl__cpu_mask(op->backend, dy, run->output_gradient[1], run->output, op->description.out_bytes,
                          run->workspace);
        dy = run->workspace;
    }
    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t g = 0; g < f.layer->groups; g++) backward_group(&f, run, dy, n, g, what);
    if (what & PDL_BACKWARD_WEIGHT && f.layer->bias && run->weight_gradient[1])
        bias_gradient(op, dy, run->accumulate, run->weight_gradient[1]);
}
