/*
 * Batch norm, with the sum and the ReLU that follow it in residual networks.
 *
 * It is bound by memory, so passes are few. Forward: one for the statistics, one that writes relu(norm(x) + add).
 * Backward: the first pass reads the output's gradients (two may come, from the two readers of a block's end), adds
 * and masks them, and sums; the second makes the gradient of x. What the first pass masked is written once, where
 * the gradient of the added tensor goes; without an added tensor the sign that ReLU saw is computed again from x,
 * which both passes read anyway.
 *
 * Statistics are sums of x - c and (x - c)^2, c being the first value of the channel: a large mean does not swallow
 * a small variance. In double they become sums of x and x^2, which are added up over ranks.
 */
#include "tensor/cpu/norm/batch_norm.h"

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

typedef struct pdl__batch_norm {
    pdl__panels_t              panels;
    const pdl__norm_kernels_t *kernels;
    int64_t                    channels, positions, grain;
    /* where things begin in the workspace, in bytes */
    size_t partial, total, center, scale, shift, slope, offset;
} pdl__batch_norm_t;

static void plan_memory(pdl_op_t *op, pdl__batch_norm_t *norm)
{
    size_t padded = (size_t)norm->panels.padded;

    norm->partial = 0;
    norm->total = (size_t)(norm->panels.samples * norm->panels.parts) * 2 * padded * sizeof(double);
    norm->center = norm->total + 2 * padded * sizeof(double);
    norm->scale = norm->center + padded * sizeof(float);
    norm->shift = norm->scale + padded * sizeof(float);
    norm->slope = norm->shift + padded * sizeof(float);
    norm->offset = norm->slope + padded * sizeof(float);
    op->description.workspace_bytes = norm->offset + padded * sizeof(float);
    op->description.from_saved = op->spec.training;
    if (op->spec.training) op->description.saved_bytes = 2 * padded * sizeof(double); /* mean and 1 / deviation */
}

static void describe_op(pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    const int64_t     *channels = &layer->in.channels;
    bool               add = op->spec.fusion.add;

    pdl__cpu_add_weight(op, "weight", 1, channels, true);
    if (layer->bias) pdl__cpu_add_weight(op, "bias", 1, channels, true);
    pdl__cpu_add_weight(op, "running_mean", 1, channels, false);
    pdl__cpu_add_weight(op, "running_var", 1, channels, false);
    op->description.keeps_inputs = 1;
    op->description.keeps_output = add && op->spec.fusion.activation == PDL_LAYER_RELU;
    op->description.sums_gradients = true;
    op->description.gradient_use[0] = add ? PDL_GRADIENT_OWN : PDL_GRADIENT_INPLACE;
    if (add) op->description.gradient_use[1] = PDL_GRADIENT_INPLACE;
}

static pdl_status_t norm_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    pdl__batch_norm_t *norm = calloc(1, sizeof(*norm));

    if (norm == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    for (int i = 0; i < op->spec.input_count; i++) {
        op->description.in_format[i] = op->spec.given[0];
        if (!pdl__cpu_blockable(shape)) op->description.in_format[i] = PDL_FORMAT_PLAIN;
    }
    op->description.out_format = op->description.in_format[0];
    norm->kernels = cpu->base.activation_type == PDL_DTYPE_BF16 ? &pdl__norm_bf16 : &pdl__norm_f32;
    norm->channels = shape->channels;
    norm->positions = pdl_shape_positions(shape);
    norm->panels = pdl__panels_cut(shape, op->spec.samples, op->description.in_format[0], true);
    norm->grain = 1 + 4096 / (norm->panels.part_rows * 16);
    plan_memory(op, norm);
    describe_op(op);
    for (int way = 0; way < 2 && op->spec.shared && op->spec.training; way++) {
        op->description.meetings[way] = 1;
        op->description.meeting[way][0] =
            (pdl_meeting_t){.kind = PDL_MEETING_SUM, .at = norm->total, .count = 2 * norm->channels};
    }
    op->private_data = norm;
    return PDL_OK;
}

/* Weights follow each other; the shift may be missing. */
static const float *shift_weight(const pdl_op_t *op, const pdl_op_run_t *run)
{
    return op->spec.layer->bias ? run->weight[1] : NULL;
}

static float *running(const pdl_op_t *op, const pdl_op_run_t *run, int which)
{
    return run->weight[op->description.weight_count - 2 + which];
}

typedef struct pdl__totals {
    const pdl__panels_t *panels;
    const double        *partial;
    double              *total;
} pdl__totals_t;

/* In the order of samples and parts, whatever the number of threads. */
PDL__CLONES static void add_partials(void *context, int64_t first, int64_t end)
{
    const pdl__totals_t *t = context;
    int64_t              width = t->panels->padded, pieces = t->panels->samples * t->panels->parts;

    for (int64_t c = first; c < end; c++) t->total[c] = 0;
    for (int64_t i = 0; i < pieces; i++) {
        const double *row = t->partial + i * 2 * width;

#pragma omp simd
        for (int64_t c = first; c < end; c++) t->total[c] += row[c];
    }
}

static double *add_up(const pdl__batch_norm_t *norm, const pdl_op_run_t *run)
{
    char         *workspace = run->workspace;
    pdl__totals_t totals = {&norm->panels, (const double *)(workspace + norm->partial),
                            (double *)(workspace + norm->total)};

    pdl_threads_run(2 * norm->panels.padded, 512, add_partials, &totals);
    return totals.total;
}

static double value_count(const pdl_op_t *op, const pdl_op_run_t *run, int64_t positions)
{
    if (op->spec.shared && run->total_values > 0) return (double)run->total_values;
    return (double)(op->spec.shared ? run->total_samples : op->spec.samples) * (double)positions;
}

static float first_value(const pdl_op_t *op, const pdl__batch_norm_t *norm, const void *x, int64_t channel)
{
    const pdl__panels_t *p = &norm->panels;
    int64_t              at = p->single ? channel * p->group_step : channel / 16 * p->group_step + channel % 16;

    return op->backend->activation_type == PDL_DTYPE_BF16 ? pdl__from_bf16(((const pdl__bf16_t *)x)[at])
                                                          : ((const float *)x)[at];
}

/* The sums of every channel and of its squares, of this rank, one behind the other in the workspace. */
static void sum_batch(pdl_op_t *op, const pdl_op_run_t *run, pdl__norm_t *pass)
{
    const pdl__batch_norm_t *norm = op->private_data;
    float                   *center = (float *)((char *)run->workspace + norm->center);
    double                  *squares = run->saved, *total;
    double                   local = (double)op->spec.samples * (double)norm->positions;

    for (int64_t c = 0; c < norm->panels.padded; c++)
        center[c] = c < norm->channels ? first_value(op, norm, run->input[0], c) : 0;
    pass->center = center;
    pdl_threads_run(pdl__panels_count(&norm->panels), norm->grain, norm->kernels->measure, pass);
    total = add_up(norm, run);
    for (int64_t c = 0; c < norm->channels; c++) {
        double sum = total[c], at = center[c];

        total[c] = sum + local * at;
        squares[c] = total[norm->panels.padded + c] + at * (2 * sum + local * at);
    }
    for (int64_t c = 0; c < norm->channels; c++) total[norm->channels + c] = squares[c];
}

/* Mean and 1 / deviation of the batch go to `saved`, the running ones follow. */
static void measure_batch(pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl__batch_norm_t *norm = op->private_data;
    const pdl_layer_t       *layer = op->spec.layer;
    const double            *total = (const double *)((char *)run->workspace + norm->total);
    double                  *mean = run->saved, *inverse = mean + norm->panels.padded;
    double                   count = value_count(op, run, norm->positions);

    for (int64_t c = 0; c < norm->channels; c++) {
        double variance, unbiased;

        mean[c] = total[c] / count;
        variance = total[norm->channels + c] / count - mean[c] * mean[c];
        if (variance < 0) variance = 0;
        unbiased = count > 1 ? variance * count / (count - 1) : variance;
        inverse[c] = 1.0 / sqrt(variance + layer->epsilon);
        if (run->again) continue;
        running(op, run, 0)[c] =
            (float)((1 - layer->momentum) * running(op, run, 0)[c] + layer->momentum * mean[c]);
        running(op, run, 1)[c] =
            (float)((1 - layer->momentum) * running(op, run, 1)[c] + layer->momentum * unbiased);
    }
}

/* y = scale x + shift; padded channels get 0 and 0, so that they stay zero. */
static void set_scale(pdl_op_t *op, const pdl_op_run_t *run, bool batch, pdl__norm_t *pass)
{
    const pdl__batch_norm_t *norm = op->private_data;
    char                    *workspace = run->workspace;
    float        *scale = (float *)(workspace + norm->scale), *shift = (float *)(workspace + norm->shift);
    const float  *gamma = run->weight[0], *beta = shift_weight(op, run);
    const double *saved = run->saved;

    for (int64_t c = 0; c < norm->panels.padded; c++) {
        double mean, inverse;

        scale[c] = shift[c] = 0;
        if (c >= norm->channels) continue;
        mean = batch ? saved[c] : (double)running(op, run, 0)[c];
        inverse = batch ? saved[norm->panels.padded + c]
                        : 1.0 / sqrt((double)running(op, run, 1)[c] + op->spec.layer->epsilon);
        scale[c] = (float)(inverse * gamma[c]);
        shift[c] = (float)((beta != NULL ? (double)beta[c] : 0.0) - mean * inverse * gamma[c]);
    }
    pass->scale = scale;
    pass->shift = shift;
}

static pdl_status_t norm_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl__batch_norm_t *norm = op->private_data;
    bool                     batch = run->training && op->spec.training, measures = batch && !run->from_saved;
    pdl__norm_t              pass = {.panels = norm->panels,
                                     .x = run->input[0],
                                     .add = op->spec.fusion.add ? run->input[1] : NULL,
                                     .out = run->output,
                                     .relu = op->spec.fusion.activation == PDL_LAYER_RELU,
                                     .partial = (double *)((char *)run->workspace + norm->partial)};

    if (measures && run->phase == 0) sum_batch(op, run, &pass);
    if (run->phase < pdl_op_meetings(op, run, false)) return PDL_OK;
    if (measures) measure_batch(op, run);
    set_scale(op, run, batch, &pass);
    pdl_threads_run(pdl__panels_count(&norm->panels), norm->grain, norm->kernels->apply, &pass);
    return PDL_OK;
}

static void write_gradient(const pdl_op_run_t *run, int k, int64_t c, double value)
{
    float *gradient = run->weight_gradient[k];

    if (gradient != NULL) gradient[c] = (float)(run->accumulate ? (double)gradient[c] + value : value);
}

/* The sums of g and g (x - mean) are this rank's gradients of shift and scale. */
static void sum_back(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl__batch_norm_t *norm = op->private_data;
    double                  *total = add_up(norm, run);
    const double            *inverse = (const double *)run->saved + norm->panels.padded;

    for (int64_t c = 0; c < norm->channels; c++) {
        total[norm->channels + c] = total[norm->panels.padded + c];
        if (!(what & PDL_BACKWARD_WEIGHT)) continue;
        write_gradient(run, 0, c, total[norm->channels + c] * inverse[c]);
        if (op->spec.layer->bias) write_gradient(run, 1, c, total[c]);
    }
}

/* The gradient of x wants the sums of all ranks:
   dx = scale (g - mean(g) - (x - mean) / deviation^2 mean(g (x - mean))). */
static void set_slope(pdl_op_t *op, const pdl_op_run_t *run, pdl__norm_t *pass)
{
    const pdl__batch_norm_t *norm = op->private_data;
    const double            *total = (const double *)((char *)run->workspace + norm->total);
    double                   count = value_count(op, run, norm->positions);
    const double            *inverse = (const double *)run->saved + norm->panels.padded;
    float                   *slope = (float *)((char *)run->workspace + norm->slope);
    float                   *offset = (float *)((char *)run->workspace + norm->offset);

    for (int64_t c = 0; c < norm->panels.padded; c++) {
        bool used = c < norm->channels;

        offset[c] = used ? (float)(-total[c] / count) : 0;
        slope[c] = used ? (float)(-total[norm->channels + c] / count * inverse[c] * inverse[c]) : 0;
    }
    pass->offset = offset;
    pass->slope = slope;
}

/* Where the masked gradient is kept between the passes, or NULL to make it again. */
static void *kept_gradient(const pdl_op_t *op, const pdl_op_run_t *run)
{
    if (op->spec.fusion.add && run->input_gradient[1] != NULL) return run->input_gradient[1];
    return run->output_gradient[1] != NULL ? run->input_gradient[0] : NULL;
}

static pdl_status_t norm_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl__batch_norm_t *norm = op->private_data;
    float                   *center = (float *)((char *)run->workspace + norm->center);
    const double            *mean = run->saved;
    pdl__norm_t              pass = {.panels = norm->panels,
                                     .x = run->input[0],
                                     .y = run->output,
                                     .gradient = {run->output_gradient[0], run->output_gradient[1]},
                                     .out = run->input_gradient[0],
                                     .kept = kept_gradient(op, run),
                                     .relu = op->spec.fusion.activation == PDL_LAYER_RELU,
                                     .mask_by_output = op->spec.fusion.add,
                                     .center = center,
                                     .partial = (double *)((char *)run->workspace + norm->partial)};

    for (int64_t c = 0; c < norm->panels.padded; c++) center[c] = c < norm->channels ? (float)mean[c] : 0;
    set_scale(op, run, true, &pass);
    if (run->phase == 0) {
        pdl_threads_run(pdl__panels_count(&norm->panels), norm->grain, norm->kernels->measure_back, &pass);
        sum_back(op, run, what);
    }
    if (run->phase < pdl_op_meetings(op, run, true)) return PDL_OK;
    set_slope(op, run, &pass);
    if ((what & PDL_BACKWARD_DATA) && run->input_gradient[0] != NULL)
        pdl_threads_run(pdl__panels_count(&norm->panels), norm->grain, norm->kernels->apply_back, &pass);
    return PDL_OK;
}

static bool norm_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    (void)layer;
    return fusion->activation == PDL_NO_ACTIVATION || fusion->activation == PDL_LAYER_RELU;
}

const pdl__cpu_kind_t pdl__cpu_batch_norm = {.describe = norm_describe,
                                             .forward = norm_forward,
                                             .backward = norm_backward,
                                             .fuses = norm_fuses};
