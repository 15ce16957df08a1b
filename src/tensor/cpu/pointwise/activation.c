/*
 * Activations: ReLU, leaky ReLU, GELU (with the error function), SiLU, tanh, sigmoid.
 *
 * Those whose slope follows from the output keep only that, so they may work in place; GELU and SiLU keep the input.
 */
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

typedef struct pdl__activation {
    pdl_layer_type_t type;
    float            slope;
    bool             bf16;
    const void      *x, *y, *gradient[2]; /* backward: x or y, whichever was kept */
    void            *out;
} pdl__activation_t;

/* `in` and `out` may be the same. */
PDL__INLINE void activate(pdl_layer_type_t type, float slope, const float *in, int64_t count, float *out)
{
    switch (type) {
    case PDL_LAYER_RELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = in[i] < 0 ? 0 : in[i];
        break;
    case PDL_LAYER_LEAKY_RELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = in[i] < 0 ? slope * in[i] : in[i];
        break;
    case PDL_LAYER_GELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = pdl__gelu(in[i]);
        break;
    case PDL_LAYER_SILU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = pdl__silu(in[i]);
        break;
    case PDL_LAYER_TANH:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = pdl__tanhf(in[i]);
        break;
    default:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = pdl__sigmoidf(in[i]);
    }
}

/* out = g * slope; `v` is what was kept. `out` may be `g`. */
PDL__INLINE void differentiate(pdl_layer_type_t type, float slope, const float *v, const float *g, int64_t count,
                               float *out)
{
    switch (type) {
    case PDL_LAYER_RELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = v[i] > 0 ? g[i] : 0;
        break;
    case PDL_LAYER_LEAKY_RELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = v[i] > 0 ? g[i] : slope * g[i];
        break;
    case PDL_LAYER_GELU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = g[i] * pdl__gelu_slope(v[i]);
        break;
    case PDL_LAYER_SILU:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = g[i] * pdl__silu_slope(v[i]);
        break;
    case PDL_LAYER_TANH:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = g[i] * (1.0f - v[i] * v[i]);
        break;
    default:
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[i] = g[i] * v[i] * (1.0f - v[i]);
    }
}

PDL__CLONES static void forward_slice(void *context, int64_t first, int64_t end)
{
    const pdl__activation_t *a = context;
    float                    in_buffer[PDL__CHUNK], out_buffer[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        const float *in;
        float       *out = pdl__chunk_target(a->bf16, a->out, first, out_buffer);

        count = pdl__chunk_size(first, end);
        in = pdl__chunk_read(a->bf16, a->x, first, count, in_buffer);
        activate(a->type, a->slope, in, count, out);
        pdl__chunk_write(a->bf16, a->out, first, count, out);
    }
}

PDL__CLONES static void backward_slice(void *context, int64_t first, int64_t end)
{
    const pdl__activation_t *a = context;
    float                    kept_buffer[PDL__CHUNK], g_buffer[PDL__CHUNK], second_buffer[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        const float *kept, *g;
        float       *out = pdl__chunk_target(a->bf16, a->out, first, g_buffer);

        count = pdl__chunk_size(first, end);
        kept = pdl__chunk_read(a->bf16, a->x != NULL ? a->x : a->y, first, count, kept_buffer);
        g = pdl__chunk_read(a->bf16, a->gradient[0], first, count, g_buffer);
        if (a->gradient[1] != NULL) {
            const float *second = pdl__chunk_read(a->bf16, a->gradient[1], first, count, second_buffer);

#pragma omp simd
            for (int64_t i = 0; i < count; i++) second_buffer[i] = g[i] + second[i];
            g = second_buffer;
        }
        differentiate(a->type, a->slope, kept, g, count, out);
        pdl__chunk_write(a->bf16, a->out, first, count, out);
    }
}

static bool keeps_input(const pdl_layer_t *layer)
{
    return layer->type == PDL_LAYER_GELU || layer->type == PDL_LAYER_SILU ||
           (layer->type == PDL_LAYER_LEAKY_RELU && layer->slope <= 0);
}

static pdl_status_t activation_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    /* A sigmoid would make ones half of the zeros that fill a block up. */
    bool whole = layer->type != PDL_LAYER_SIGMOID || layer->in.channels % PDL__BLOCK == 0;

    (void)cpu;
    if (pdl__cpu_blockable(&layer->in) && whole) op->description.in_format[0] = op->spec.given[0];
    op->description.out_format = op->description.in_format[0];
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    op->description.sums_gradients = true;
    op->description.inplace = true;
    if (!op->spec.training) return PDL_OK;
    op->description.keeps_inputs = keeps_input(layer);
    op->description.keeps_output = !keeps_input(layer);
    op->description.inplace = !keeps_input(layer);
    return PDL_OK;
}

static pdl__activation_t describe(const pdl_op_t *op)
{
    return (pdl__activation_t){.type = op->spec.layer->type,
                               .slope = (float)op->spec.layer->slope,
                               .bf16 = op->backend->activation_type == PDL_DTYPE_BF16};
}

static int64_t count_elements(const pdl_op_t *op)
{
    return pdl__cpu_elements(&op->spec.layer->in, op->spec.samples, op->description.out_format);
}

static pdl_status_t activation_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__activation_t a = describe(op);

    a.x = run->input[0];
    a.out = run->output;
    pdl__parallel(count_elements(op), PDL__CHUNK_GRAIN, forward_slice, &a);
    return PDL_OK;
}

static pdl_status_t activation_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__activation_t a = describe(op);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (keeps_input(op->spec.layer))
        a.x = run->input[0];
    else
        a.y = run->output;
    a.gradient[0] = run->output_gradient[0];
    a.gradient[1] = run->output_gradient[1];
    a.out = run->input_gradient[0];
    pdl__parallel(count_elements(op), PDL__CHUNK_GRAIN, backward_slice, &a);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_activation = {.describe = activation_describe,
                                             .forward = activation_forward,
                                             .backward = activation_backward};
