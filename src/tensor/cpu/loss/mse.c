/*
 * Mean squared error of a sample's elements.
 */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/simd.h"
#include "tensor/cpu/threads.h"

#define RUN 4096 /* elements summed in single precision lanes */

typedef struct pass {
    const float *x, *target;
    int64_t      elements; /* of a sample */
    float       *output, *dx;
    double       loss_scale;
    const float *sample_weight;
} pass_t;

static pdl_status_t mse_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    (void)cpu;
    op->description.out_bytes = (size_t)(3 * op->spec.samples) * sizeof(float);
    op->description.keeps_inputs = 1;
    return PDL_OK;
}

PDL__CLONES static float squares(int64_t count, const float *x, const float *target)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++) sum += (x[i] - target[i]) * (x[i] - target[i]);
    return sum;
}

PDL__CLONES static void difference(int64_t count, float factor, const float *x, const float *target, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) dx[i] = factor * (x[i] - target[i]);
}

static void forward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;

    for (int64_t n = first; n < end; n++) {
        double sum = 0;

        for (int64_t i = 0; i < pass->elements; i += RUN) {
            int64_t at = n * pass->elements + i;

            sum += (double)squares(pass->elements - i < RUN ? pass->elements - i : RUN, pass->x + at,
                                   pass->target + at);
        }
        pass->output[n] = (float)(sum / (double)pass->elements);
    }
}

static pass_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    return (pass_t){.x = run->input[0],
                    .target = run->target,
                    .elements = pdl_shape_elements(&op->spec.layer->in),
                    .output = run->output,
                    .dx = run->input_gradient[0],
                    .loss_scale = run->loss_scale,
                    .sample_weight = run->sample_weight};
}

static pdl_status_t mse_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t pass = make_pass(op, run);

    memset(pass.output + op->spec.samples, 0, (size_t)(2 * op->spec.samples) * sizeof(float));
    pdl_threads_run(op->spec.samples, 8192 / pass.elements + 1, forward_slice, &pass);
    return PDL_OK;
}

static void backward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *pass = context;

    for (int64_t n = first; n < end; n++) {
        double  weight = pass->sample_weight != NULL ? (double)pass->sample_weight[n] : 1;
        int64_t at = n * pass->elements;

        difference(pass->elements, (float)(pass->loss_scale * weight * 2 / (double)pass->elements), pass->x + at,
                   pass->target + at, pass->dx + at);
    }
}

static pdl_status_t mse_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t pass = make_pass(op, run);

    if ((what & PDL_BACKWARD_DATA) && pass.dx != NULL)
        pdl_threads_run(op->spec.samples, 8192 / pass.elements + 1, backward_slice, &pass);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_mse = {.describe = mse_describe,
                                      .forward = mse_forward,
                                      .backward = mse_backward,
                                      .wide = true};
