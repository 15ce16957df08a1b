/*
 * Softmax over channels, at every position: rows of sequences and vectors, columns of images.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#define WIDTH 64 /* positions of an image at a time */

typedef struct pass {
    const float *from, *y; /* forward: x; backward: dy, and y */
    float       *to;
    int64_t      channels, positions; /* positions 1: channels are contiguous */
} pass_t;

static pdl_status_t softmax_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    op->description.keeps_output = true;
    op->description.inplace = true;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    return PDL_OK;
}

PDL__CLONES static void forward_row(int64_t channels, const float *x, float *y)
{
    float largest = pdl__largest(channels, x), sum = 0, scale;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < channels; i++) {
        y[i] = pdl__expf(x[i] - largest);
        sum += y[i];
    }
    scale = 1.0f / sum;
#pragma omp simd
    for (int64_t i = 0; i < channels; i++) y[i] *= scale;
}

PDL__CLONES static void backward_row(int64_t channels, const float *y, const float *dy, float *dx)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < channels; i++) sum += y[i] * dy[i];
#pragma omp simd
    for (int64_t i = 0; i < channels; i++) dx[i] = y[i] * (dy[i] - sum);
}

/* `width` positions side by side, channels `stride` apart. */
PDL__CLONES static void forward_columns(int64_t channels, int64_t stride, int64_t width, const float *x, float *y)
{
    float largest[WIDTH], sum[WIDTH] = {0};

    memcpy(largest, x, (size_t)width * sizeof(float));
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            largest[i] = x[c * stride + i] > largest[i] ? x[c * stride + i] : largest[i];
    }
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) {
            y[c * stride + i] = pdl__expf(x[c * stride + i] - largest[i]);
            sum[i] += y[c * stride + i];
        }
    }
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[c * stride + i] /= sum[i];
    }
}

PDL__CLONES static void backward_columns(int64_t channels, int64_t stride, int64_t width, const float *y,
                                         const float *dy, float *dx)
{
    float sum[WIDTH] = {0};

    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sum[i] += y[c * stride + i] * dy[c * stride + i];
    }
    for (int64_t c = 0; c < channels; c++) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) dx[c * stride + i] = y[c * stride + i] * (dy[c * stride + i] - sum[i]);
    }
}

/* One item is a row, or WIDTH positions of an image. */
static void slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    int64_t       bands = (pass->positions + WIDTH - 1) / WIDTH;

    for (int64_t i = first; i < end; i++) {
        int64_t position = i % bands * WIDTH,
                width = pass->positions - position < WIDTH ? pass->positions - position : WIDTH;
        int64_t at = i / bands * pass->channels * pass->positions + position;

        if (pass->positions == 1 && pass->y == NULL)
            forward_row(pass->channels, pass->from + at, pass->to + at);
        else if (pass->positions == 1)
            backward_row(pass->channels, pass->y + at, pass->from + at, pass->to + at);
        else if (pass->y == NULL)
            forward_columns(pass->channels, pass->positions, width, pass->from + at, pass->to + at);
        else
            backward_columns(pass->channels, pass->positions, width, pass->y + at, pass->from + at, pass->to + at);
    }
}

static void run_pass(const pdl_op_t *op, pass_t *pass)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    int64_t            rows = op->spec.samples * (shape->sequence ? pdl_shape_positions(shape) : 1);

    pass->channels = shape->channels;
    pass->positions = shape->sequence ? 1 : pdl_shape_positions(shape);
    pdl_threads_run(rows * ((pass->positions + WIDTH - 1) / WIDTH), 4096 / shape->channels + 1, slice, pass);
}

static pdl_status_t softmax_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t pass = {.from = run->input[0], .to = run->output};

    run_pass(op, &pass);
    return PDL_OK;
}

static pdl_status_t softmax_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t pass = {.from = run->output_gradient[0], .y = run->output, .to = run->input_gradient[0]};

    if ((what & PDL_BACKWARD_DATA) && pass.to != NULL) run_pass(op, &pass);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_softmax = {.describe = softmax_describe,
                                          .forward = softmax_forward,
                                          .backward = softmax_backward,
                                          .wide = true};
