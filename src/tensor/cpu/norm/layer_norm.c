/*
 * Layer norm and RMS norm: every position's channels to mean 0 (not in RMS norm) and mean square 1, then scaled and
 * shifted. Statistics of each row are kept for backward.
 *
 * Images, whose channels do not lie side by side, are turned into rows first.
 *
 * Gradients of scale and shift are summed over blocks of rows and then over the blocks, in the same way for any
 * number of threads.
 */
#include "tensor/cpu/matmul/columns.h"
#include "tensor/cpu/pointwise/reshape.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

#define BLOCK 32 /* rows whose gradients are summed in single precision */

typedef struct norm {
    int64_t rows, channels;
    float   epsilon;
    bool    centred, bias;
    bool    turns; /* the input is an image */
} norm_t;

typedef struct statistics {
    float mean, scale;
} statistics_t;

static int64_t block_count(const norm_t *norm)
{
    return (norm->rows + BLOCK - 1) / BLOCK;
}

static pdl_status_t norm_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    norm_t            *norm;

    (void)cpu;
    norm = calloc(1, sizeof(*norm));
    if (norm == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    norm->rows = op->spec.samples * pdl_shape_positions(&layer->in);
    norm->channels = layer->in.channels;
    norm->epsilon = (float)layer->epsilon;
    norm->centred = layer->type == PDL_LAYER_LAYER_NORM;
    norm->bias = norm->centred && layer->bias;
    norm->turns = !layer->in.sequence && pdl_shape_positions(&layer->in) > 1;
    op->private_data = norm;

    pdl__cpu_add_weight(op, "weight", 1, &norm->channels, true);
    if (norm->bias) pdl__cpu_add_weight(op, "bias", 1, &norm->channels, true);
    op->description.keeps_inputs = 1;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    if (op->spec.training) op->description.saved_bytes = (size_t)norm->rows * sizeof(statistics_t);
    op->description.workspace_bytes =
        (size_t)(2 * (block_count(norm) + (norm->turns ? norm->rows : 0)) * norm->channels) * sizeof(float);
    return PDL_OK;
}

PDL__CLONES static statistics_t measure(const norm_t *norm, const float *x)
{
    statistics_t s = {0, 0};
    float        sum = 0, squares = 0;

    if (norm->centred) {
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < norm->channels; i++) sum += x[i];
        s.mean = sum / (float)norm->channels;
    }
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < norm->channels; i++) squares += (x[i] - s.mean) * (x[i] - s.mean);
    s.scale = 1.0f / sqrtf(squares / (float)norm->channels + norm->epsilon);
    return s;
}

PDL__CLONES static void apply(const norm_t *norm, statistics_t s, const float *x, const float *weight,
                              const float *bias, float *y)
{
    if (bias != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < norm->channels; i++) y[i] = (x[i] - s.mean) * s.scale * weight[i] + bias[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < norm->channels; i++) y[i] = (x[i] - s.mean) * s.scale * weight[i];
    }
}

typedef struct pass {
    const norm_t       *norm;
    const pdl_op_run_t *run;
    const float        *x, *dy; /* as rows */
    float              *y, *dx;
    statistics_t       *saved; /* [rows]; NULL: not kept */
    float              *sums;  /* backward: [blocks][2][channels] */
    unsigned            what;
} pass_t;

static void forward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    const norm_t *norm = pass->norm;

    for (int64_t row = first; row < end; row++) {
        int64_t      at = row * norm->channels;
        statistics_t s = measure(norm, pass->x + at);

        if (pass->saved != NULL) pass->saved[row] = s;
        apply(norm, s, pass->x + at, pass->run->weight[0], norm->bias ? pass->run->weight[1] : NULL, pass->y + at);
    }
}

/* Two tensors of the input's size behind the sums, where rows lie that are made of images. */
static float *turned(const pass_t *pass, int which)
{
    return pass->sums + (2 * block_count(pass->norm) + which * pass->norm->rows) * pass->norm->channels;
}

static const float *as_rows(const pdl_op_t *op, const pass_t *pass, const void *image, int which)
{
    if (!pass->norm->turns) return image;
    pdl__cpu_to_rows(&op->spec.layer->in, op->spec.samples, PDL_FORMAT_PLAIN, sizeof(float), image,
                     turned(pass, which));
    return turned(pass, which);
}

static void as_image(const pdl_op_t *op, const pass_t *pass, const float *rows, void *image)
{
    if (pass->norm->turns)
        pdl__cpu_from_rows(&op->spec.layer->in, op->spec.samples, PDL_FORMAT_PLAIN, sizeof(float), rows, image);
}

static pdl_status_t norm_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t pass = {.norm = op->private_data, .run = run, .sums = run->workspace};

    if (op->spec.training) pass.saved = run->saved;
    pass.x = as_rows(op, &pass, run->input[0], 0);
    pass.y = pass.norm->turns ? turned(&pass, 1) : run->output;
    pdl_threads_run(pass.norm->rows, 8192 / pass.norm->channels + 1, forward_slice, &pass);
    as_image(op, &pass, pass.y, run->output);
    return PDL_OK;
}

/* With z the normalised x and g = dy * weight: dx = scale (g - mean(g) - z mean(g z)), in RMS norm without
   mean(g). dx may be dy. */
PDL__CLONES static void row_gradient(const norm_t *norm, statistics_t s, const float *x, const float *weight,
                                     const float *dy, float *dx)
{
    float sum_g = 0, sum_gz = 0, mean_g, mean_gz;

#pragma omp simd reduction(+ : sum_g, sum_gz)
    for (int64_t i = 0; i < norm->channels; i++) {
        float g = dy[i] * weight[i];

        sum_g += g;
        sum_gz += g * (x[i] - s.mean) * s.scale;
    }
    mean_g = norm->centred ? sum_g / (float)norm->channels : 0.0f;
    mean_gz = sum_gz / (float)norm->channels;
#pragma omp simd
    for (int64_t i = 0; i < norm->channels; i++)
        dx[i] = s.scale * (dy[i] * weight[i] - mean_g - (x[i] - s.mean) * s.scale * mean_gz);
}

/* Adds one row to the sums of its block. */
PDL__CLONES static void add_row(const norm_t *norm, statistics_t s, const float *x, const float *dy, float *dweight,
                                float *dbias)
{
#pragma omp simd
    for (int64_t i = 0; i < norm->channels; i++) {
        dweight[i] += dy[i] * (x[i] - s.mean) * s.scale;
        dbias[i] += dy[i];
    }
}

static void backward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;
    const norm_t *norm = pass->norm;

    for (int64_t block = first; block < end; block++) {
        float  *dweight = pass->sums + 2 * block * norm->channels, *dbias = dweight + norm->channels;
        int64_t last = (block + 1) * BLOCK < norm->rows ? (block + 1) * BLOCK : norm->rows;

        memset(dweight, 0, (size_t)(2 * norm->channels) * sizeof(float));
        for (int64_t row = block * BLOCK; row < last; row++) {
            int64_t at = row * norm->channels;

            if (pass->what & PDL_BACKWARD_WEIGHT)
                add_row(norm, pass->saved[row], pass->x + at, pass->dy + at, dweight, dbias);
            if (pass->dx != NULL)
                row_gradient(norm, pass->saved[row], pass->x + at, pass->run->weight[0], pass->dy + at,
                             pass->dx + at);
        }
    }
}

static pdl_status_t norm_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t pass = {.norm = op->private_data, .run = run, .saved = run->saved, .sums = run->workspace, .what = what};
    const norm_t *norm = pass.norm;
    int64_t       blocks = block_count(norm);
    const float  *sums = pass.sums;
    bool          data = (what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL;

    pass.x = as_rows(op, &pass, run->input[0], 0);
    pass.dy = as_rows(op, &pass, run->output_gradient[0], 1);
    if (data) pass.dx = norm->turns ? turned(&pass, 1) : run->input_gradient[0];
    pdl_threads_run(blocks, 1, backward_slice, &pass);
    if (data) as_image(op, &pass, pass.dx, run->input_gradient[0]);
    if (!(what & PDL_BACKWARD_WEIGHT)) return PDL_OK;
    if (run->weight_gradient[0] != NULL)
        pdl__column_sums(sums, blocks, norm->channels, 2 * norm->channels, run->accumulate,
                         run->weight_gradient[0]);
    if (norm->bias && run->weight_gradient[1] != NULL)
        pdl__column_sums(sums + norm->channels, blocks, norm->channels, 2 * norm->channels, run->accumulate,
                         run->weight_gradient[1]);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_layer_norm = {.describe = norm_describe,
                                             .forward = norm_forward,
                                             .backward = norm_backward,
                                             .wide = true};
