/*
 * Local response norm: y = x s^-beta, s = k + alpha / size * the sum of squares over a window of channels around
 * x's.
 *
 * The channels of one position are gathered into a column, where windows are sums of shifted neighbours. Saved: s,
 * by position, so that backward can read columns as they are.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

/* Columns lie on the stack. */
#define MOST_CHANNELS 4096
#define MOST_SIZE     256

typedef struct pdl__response {
    int64_t      channels, space, low, high; /* the window is [c - low, c + high] */
    int64_t      block, block_step; /* channel c of a sample begins at c / block * block_step + c % block */
    int64_t      sample_step;
    float        alpha, beta, k;
    const float *x, *gradient;
    float       *out, *s;
} pdl__response_t;

PDL__INLINE int64_t column_at(const pdl__response_t *r, int64_t position, int64_t c)
{
    return position / r->space * r->sample_step + c / r->block * r->block_step + position % r->space * r->block +
           c % r->block;
}

PDL__INLINE void gather(const pdl__response_t *r, const float *data, int64_t position, float *column)
{
    for (int64_t c = 0; c < r->channels; c++) column[c] = data[column_at(r, position, c)];
}

/* s^-beta; the exponents that networks use need no general power. */
PDL__INLINE void raise_column(const pdl__response_t *r, const float *s, float *power)
{
    if (r->beta == 0.75f) {
#pragma omp simd
        for (int64_t c = 0; c < r->channels; c++) power[c] = 1.0f / sqrtf(s[c] * sqrtf(s[c]));
    } else {
        for (int64_t c = 0; c < r->channels; c++) power[c] = powf(s[c], -r->beta);
    }
}

/* sum[c] = column[c - below] + ... + column[c + above]; `padded` has room for that on both sides. */
PDL__INLINE void add_window(const float *column, int64_t channels, int64_t below, int64_t above, float *padded,
                            float *sum)
{
    memset(padded, 0, (size_t)below * sizeof(float));
    memcpy(padded + below, column, (size_t)channels * sizeof(float));
    memset(padded + below + channels, 0, (size_t)above * sizeof(float));
    memset(sum, 0, (size_t)channels * sizeof(float));
    for (int64_t w = 0; w <= below + above; w++) {
#pragma omp simd
        for (int64_t c = 0; c < channels; c++) sum[c] += padded[c + w];
    }
}

PDL__CLONES static void forward_columns(void *context, int64_t first, int64_t end)
{
    const pdl__response_t *r = context;
    float x[MOST_CHANNELS], square[MOST_CHANNELS], s[MOST_CHANNELS], padded[MOST_CHANNELS + MOST_SIZE];

    for (int64_t i = first; i < end; i++) {
        gather(r, r->x, i, x);
#pragma omp simd
        for (int64_t c = 0; c < r->channels; c++) square[c] = x[c] * x[c];
        add_window(square, r->channels, r->low, r->high, padded, s);
#pragma omp simd
        for (int64_t c = 0; c < r->channels; c++) s[c] = r->k + r->alpha * s[c];
        if (r->s != NULL) memcpy(r->s + i * r->channels, s, (size_t)r->channels * sizeof(float));
        raise_column(r, s, square);
        for (int64_t c = 0; c < r->channels; c++) r->out[column_at(r, i, c)] = x[c] * square[c];
    }
}

/* dx = g s^-beta - 2 alpha beta x * the sum of g x s^(-beta - 1) over the windows that x is in. */
PDL__CLONES static void backward_columns(void *context, int64_t first, int64_t end)
{
    const pdl__response_t *r = context;
    float                  x[MOST_CHANNELS], g[MOST_CHANNELS], power[MOST_CHANNELS], sum[MOST_CHANNELS];
    float                  padded[MOST_CHANNELS + MOST_SIZE];

    for (int64_t i = first; i < end; i++) {
        const float *s = r->s + i * r->channels;

        gather(r, r->x, i, x);
        gather(r, r->gradient, i, g);
        raise_column(r, s, power);
#pragma omp simd
        for (int64_t c = 0; c < r->channels; c++) {
            g[c] *= power[c];
            power[c] = g[c] * x[c] / s[c];
        }
        add_window(power, r->channels, r->high, r->low, padded, sum);
        for (int64_t c = 0; c < r->channels; c++)
            r->out[column_at(r, i, c)] = g[c] - 2.0f * r->alpha * r->beta * x[c] * sum[c];
    }
}

static pdl_status_t lrn_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    pdl_status_t       status = pdl__cpu_require_f32(cpu, layer);

    if (status != PDL_OK) return status;
    if (layer->in.channels > MOST_CHANNELS || layer->lrn_size > MOST_SIZE)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: local_response_norm has at most %d channels and size %d",
                         layer->name, MOST_CHANNELS, MOST_SIZE);
    if (pdl__cpu_blockable(&layer->in)) op->description.in_format[0] = op->spec.given[0];
    op->description.out_format = op->description.in_format[0];
    if (!op->spec.training) return PDL_OK;
    op->description.keeps_inputs = 1;
    op->description.saved_bytes = (size_t)(pdl_shape_elements(&layer->in) * op->spec.samples) * sizeof(float);
    return PDL_OK;
}

static pdl__response_t describe(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    const pdl_shape_t *shape = &layer->in;
    pdl__response_t    r = {.channels = shape->channels,
                            .space = pdl_shape_positions(shape),
                            .low = layer->lrn_size / 2,
                            .high = (layer->lrn_size - 1) / 2,
                            .block = 1,
                            .alpha = (float)(layer->lrn_alpha / (double)layer->lrn_size),
                            .beta = (float)layer->lrn_beta,
                            .k = (float)layer->lrn_k,
                            .x = run->input[0],
                            .s = op->description.saved_bytes > 0 ? run->saved : NULL};

    if (op->description.out_format == PDL_FORMAT_BLOCKED) r.block = PDL__BLOCK;
    if (!pdl__cpu_blockable(shape)) r.block = shape->channels;
    r.block_step = r.space * r.block;
    r.sample_step = (r.channels + r.block - 1) / r.block * r.block_step;
    return r;
}

/* What fills up the last block stays zero. */
static void clear_padding(const pdl_op_t *op, float *data)
{
    int64_t channels = op->spec.layer->in.channels, left = channels % PDL__BLOCK;
    int64_t space = pdl_shape_positions(&op->spec.layer->in), blocks = (channels + PDL__BLOCK - 1) / PDL__BLOCK;

    if (op->description.out_format != PDL_FORMAT_BLOCKED || left == 0) return;
    for (int64_t n = 0; n < op->spec.samples; n++)
        for (int64_t p = 0; p < space; p++)
            memset(data + ((n * blocks + blocks - 1) * space + p) * PDL__BLOCK + left, 0,
                   (size_t)(PDL__BLOCK - left) * sizeof(float));
}

static pdl_status_t lrn_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__response_t r = describe(op, run);

    r.out = run->output;
    pdl_threads_run(op->spec.samples * r.space, 1 + 4096 / r.channels, forward_columns, &r);
    clear_padding(op, r.out);
    return PDL_OK;
}

static pdl_status_t lrn_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__response_t r = describe(op, run);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    r.gradient = run->output_gradient[0];
    r.out = run->input_gradient[0];
    pdl_threads_run(op->spec.samples * r.space, 1 + 4096 / r.channels, backward_columns, &r);
    clear_padding(op, r.out);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_lrn = {.describe = lrn_describe, .forward = lrn_forward, .backward = lrn_backward};
