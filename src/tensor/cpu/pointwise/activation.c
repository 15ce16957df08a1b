/*
 * Activations: ReLU, leaky ReLU, GELU (with the error function, and by tanh), SiLU, hard swish, tanh, sigmoid.
 *
 * Those whose slope follows from the output keep only that, so they may work in place; GELU and both swishes keep the input.
 */
#include "tensor/cpu/pointwise/activation.h"
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"
#include "tensor/cpu/vmath.h"

/* Defines NAME_forward and NAME_backward from the value at x and the derivative at v, what was kept. */
#define ACTIVATION(name, value, derivative)                                                                 \
    PDL__CLONES static void name##_forward(float slope, int64_t count, const float *in, float *out)         \
    {                                                                                                       \
        (void)slope;                                                                                        \
        PDL__SIMD                                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                               \
            float x = in[i];                                                                                \
            out[i] = value;                                                                                 \
        }                                                                                                   \
    }                                                                                                       \
    PDL__CLONES static void name##_backward(float slope, int64_t count, const float *kept, const float *dy, \
                                            float *dx)                                                      \
    {                                                                                                       \
        (void)slope;                                                                                        \
        PDL__SIMD                                                                                           \
        for (int64_t i = 0; i < count; i++) {                                                               \
            float v = kept[i], g = dy[i];                                                                   \
            dx[i] = derivative;                                                                             \
        }                                                                                                   \
    }
#define PDL__SIMD _Pragma("omp simd")

ACTIVATION(relu, x<0 ? 0 : x, v> 0 ? g : 0)
ACTIVATION(leaky_relu, x<0 ? slope * x : x, v> 0 ? g : slope *g)
ACTIVATION(gelu, pdl__gelu(x), g *pdl__gelu_slope(v))
ACTIVATION(gelu_tanh, pdl__gelu_tanh(x), g *pdl__gelu_tanh_slope(v))
ACTIVATION(silu, pdl__silu(x), g *pdl__silu_slope(v))
ACTIVATION(hard_swish, x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6, v <= -3 ? 0 : v >= 3 ? g : g * (2 * v + 3) / 6)
ACTIVATION(tanh, pdl__tanhf(x), g *(1.0f - v * v))
ACTIVATION(sigmoid, pdl__sigmoidf(x), g *v *(1.0f - v))

static const pdl__activation_t activations[PDL_LAYER_TYPE_COUNT] = {
    [PDL_LAYER_RELU] = {relu_forward, relu_backward},
    [PDL_LAYER_LEAKY_RELU] = {leaky_relu_forward, leaky_relu_backward},
    [PDL_LAYER_GELU] = {gelu_forward, gelu_backward},
    [PDL_LAYER_GELU_TANH] = {gelu_tanh_forward, gelu_tanh_backward},
    [PDL_LAYER_SILU] = {silu_forward, silu_backward},
    [PDL_LAYER_HARD_SWISH] = {hard_swish_forward, hard_swish_backward},
    [PDL_LAYER_TANH] = {tanh_forward, tanh_backward},
    [PDL_LAYER_SIGMOID] = {sigmoid_forward, sigmoid_backward},
};

const pdl__activation_t *pdl__cpu_activation_of(pdl_layer_type_t type)
{
    return &activations[type];
}

typedef struct pass {
    const pdl__activation_t *activation;
    float                    slope;
    bool                     bf16;
    const void              *x, *y, *gradient[2]; /* backward: x or y, whichever was kept */
    void                    *out;
} pass_t;

PDL__CLONES static void forward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *a = context;
    float         in_buffer[PDL__CHUNK], out_buffer[PDL__CHUNK];

    for (int64_t count; first < end; first += count) {
        const float *in;
        float       *out = pdl__chunk_target(a->bf16, a->out, first, out_buffer);

        count = pdl__chunk_size(first, end);
        in = pdl__chunk_read(a->bf16, a->x, first, count, in_buffer);
        a->activation->forward(a->slope, count, in, out);
        pdl__chunk_write(a->bf16, a->out, first, count, out);
    }
}

PDL__CLONES static void backward_slice(void *context, int64_t first, int64_t end)
{
    const pass_t *a = context;
    float         kept_buffer[PDL__CHUNK], g_buffer[PDL__CHUNK], second_buffer[PDL__CHUNK];

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
        a->activation->backward(a->slope, count, kept, g, out);
        pdl__chunk_write(a->bf16, a->out, first, count, out);
    }
}

/* The output of a leaky ReLU without a slope does not tell the sign of the input. */
static bool keeps_input(const pdl_layer_t *layer)
{
    return pdl_layer_traits(layer)->keeps_inputs || layer->slope <= 0;
}

static pdl_status_t activation_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    /* The zeros that fill a block up must stay zeros. */
    bool whole = !pdl_layer_traits(layer)->moves_zero || layer->in.channels % PDL__BLOCK == 0;

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

static pass_t describe(const pdl_op_t *op)
{
    return (pass_t){.activation = &activations[op->spec.layer->type],
                    .slope = (float)op->spec.layer->slope,
                    .bf16 = op->backend->activation_type == PDL_DTYPE_BF16};
}

static int64_t count_elements(const pdl_op_t *op)
{
    return pdl__cpu_elements(&op->spec.layer->in, op->spec.samples, op->description.out_format);
}

static pdl_status_t activation_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pass_t a = describe(op);

    a.x = run->input[0];
    a.out = run->output;
    pdl_threads_run(count_elements(op), PDL__CHUNK_GRAIN, forward_slice, &a);
    return PDL_OK;
}

static pdl_status_t activation_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pass_t a = describe(op);

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (keeps_input(op->spec.layer))
        a.x = run->input[0];
    else
        a.y = run->output;
    a.gradient[0] = run->output_gradient[0];
    a.gradient[1] = run->output_gradient[1];
    a.out = run->input_gradient[0];
    pdl_threads_run(count_elements(op), PDL__CHUNK_GRAIN, backward_slice, &a);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_activation = {.describe = activation_describe,
                                             .forward = activation_forward,
                                             .backward = activation_backward};
