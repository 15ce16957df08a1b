/*
 * Linear: y = x w^T + bias for every position, x [rows][C], w [F][C], with an activation or a second tensor on top.
 *
 * The three products are our own (gemm.h): the results do not depend on the number of threads, bias and activation
 * are applied while a part of y is in the cache, and weights stay in the order of PyTorch.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/matmul/columns.h"
#include "tensor/cpu/matmul/gemm.h"
#include "tensor/cpu/pointwise/activation.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

#include <stdlib.h>

typedef struct linear {
    int64_t                  rows, in, out;
    const pdl__activation_t *activation; /* NULL: none */
    bool                     bias, add;
    bool                     keeps_before; /* what the activation was applied to is saved for backward */
} linear_t;

static bool linear_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    const pdl_traits_t *tail = pdl_type_traits(fusion->activation);

    (void)layer;
    return fusion->activation == PDL_NO_ACTIVATION || (tail->activation && tail->fuses_tail && !fusion->add);
}

static pdl_status_t linear_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            dims[2] = {layer->out.channels, layer->in.channels};
    bool               activated = op->spec.fusion.activation != PDL_NO_ACTIVATION;
    /* The next layer keeps the output anyhow. */
    bool      from_output = pdl_type_traits(op->spec.fusion.activation)->keeps_output;
    linear_t *linear;

    linear = calloc(1, sizeof(*linear));
    if (linear == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    linear->rows = op->spec.samples * pdl_shape_positions(&layer->out);
    linear->in = layer->in.channels;
    linear->out = layer->out.channels;
    if (activated) linear->activation = pdl__cpu_activation_of(op->spec.fusion.activation);
    linear->bias = layer->bias;
    linear->add = op->spec.fusion.add;
    linear->keeps_before = op->spec.training && activated && !from_output;
    op->private_data = linear;

    pdl__cpu_add_weight(op, "weight", 2, dims, true);
    if (layer->bias) pdl__cpu_add_weight(op, "bias", 1, dims, true);
    op->description.keeps_inputs = 1;
    op->description.keeps_output = activated && from_output;
    if (linear->add) op->description.gradient_use[op->spec.input_count - 1] = PDL_GRADIENT_PASSED;
    op->description.saved_bytes = linear->keeps_before ? (size_t)(linear->rows * linear->out) * sizeof(float) : 0;
    op->description.workspace_bytes = pdl__gemm_workspace(cpu->base.threads);
    if (activated && op->spec.training)
        op->description.workspace_bytes += (size_t)(linear->rows * linear->out) * sizeof(float);
    return PDL_OK;
}

/* One row: z = product + bias + added is written back, y = activation(z). z and y may be the same. */
PDL__CLONES static void finish_row(const pdl__activation_t *activation, int64_t count, const float *bias,
                                   const float *added, float *z, float *y)
{
    if (bias != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] += bias[i];
    }
    if (added != NULL) {
#pragma omp simd
        for (int64_t i = 0; i < count; i++) z[i] += added[i];
    }
    if (activation != NULL) activation->forward(0, count, z, y);
}

typedef struct finish {
    const linear_t *linear;
    const float    *bias, *added;
    float          *z, *y;
} finish_t;

static void finish_part(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const finish_t *finish = context;

    for (int64_t i = row; i < row + rows; i++) {
        int64_t at = i * finish->linear->out + column;

        finish_row(finish->linear->activation, columns, finish->bias != NULL ? finish->bias + column : NULL,
                   finish->added != NULL ? finish->added + at : NULL, finish->z + at, finish->y + at);
    }
}

static pdl_status_t linear_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const linear_t *linear = op->private_data;
    finish_t    finish = {.linear = linear, .z = linear->keeps_before ? run->saved : run->output, .y = run->output};
    pdl__gemm_t gemm = {.m = linear->rows,
                        .n = linear->out,
                        .k = linear->in,
                        .a = {run->input[0], linear->in, false},
                        .b = {run->weight[0], linear->in, true},
                        .c = finish.z,
                        .c_stride = linear->out,
                        .after_context = &finish};

    if (linear->bias) finish.bias = run->weight[1];
    if (linear->add) finish.added = run->input[op->spec.input_count - 1];
    if (finish.bias != NULL || finish.added != NULL || linear->activation != NULL) gemm.after = finish_part;
    pdl__gemm_run(&gemm, op->backend->threads, run->workspace);
    return PDL_OK;
}

typedef struct slope {
    const pdl__activation_t *activation;
    const float             *kept, *dy;
    float                   *dz;
} slope_t;

static void slope_slice(void *context, int64_t first, int64_t end)
{
    const slope_t *slope = context;

    slope->activation->backward(0, end - first, slope->kept + first, slope->dy + first, slope->dz + first);
}

/* The gradient of the product: that of the output, through the activation; `there`: it is still in the workspace. */
static const float *product_gradient(const pdl_op_t *op, const pdl_op_run_t *run, bool there)
{
    const linear_t *linear = op->private_data;
    slope_t         slope = {.activation = linear->activation,
                             .kept = linear->keeps_before ? run->saved : run->output,
                             .dy = run->output_gradient[0]};

    if (linear->activation == NULL) return slope.dy;
    slope.dz = (float *)((char *)run->workspace + pdl__gemm_workspace(op->backend->threads));
    if (!there) pdl_threads_run(linear->rows * linear->out, 4096, slope_slice, &slope);
    return slope.dz;
}

static pdl_status_t linear_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const linear_t *linear = op->private_data;
    const float    *dz = product_gradient(op, run, what & PDL_BACKWARD_AGAIN);
    pdl__gemm_t     data = {.m = linear->rows,
                            .n = linear->in,
                            .k = linear->out,
                            .a = {dz, linear->out, false},
                            .b = {run->weight[0], linear->in, false},
                            .c = run->input_gradient[0],
                            .c_stride = linear->in};
    pdl__gemm_t     weight = {.m = linear->out,
                              .n = linear->in,
                              .k = linear->rows,
                              .a = {dz, linear->out, true},
                              .b = {run->input[0], linear->in, false},
                              .c = run->weight_gradient[0],
                              .c_stride = linear->in,
                              .add = run->accumulate};

    if ((what & PDL_BACKWARD_WEIGHT) && weight.c != NULL)
        pdl__gemm_run(&weight, op->backend->threads, run->workspace);
    if ((what & PDL_BACKWARD_WEIGHT) && linear->bias && run->weight_gradient[1] != NULL)
        pdl__column_sums(dz, linear->rows, linear->out, linear->out, run->accumulate, run->weight_gradient[1]);
    if ((what & PDL_BACKWARD_DATA) && data.c != NULL) pdl__gemm_run(&data, op->backend->threads, run->workspace);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_linear = {.describe = linear_describe,
                                         .forward = linear_forward,
                                         .backward = linear_backward,
                                         .fuses = linear_fuses,
                                         .wide = true};
