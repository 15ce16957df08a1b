/*
 * Between bf16 tensors and layers that compute in fp32.
 */
#include "tensor/cpu/matmul/wide.h"

/* Where the fp32 tensors lie; NULL: there is none. */
typedef struct wide {
    float *input[PDL_MAX_INPUTS], *output, *target;
    float *output_gradient, *input_gradient[PDL_MAX_INPUTS];
    size_t bytes;
} wide_t;

/* Elements of input i; 0 for tokens, which are integers. */
static int64_t input_count(const pdl_op_t *op, int i)
{
    if (pdl_layer_traits(op->spec.layer)->tokens) return 0;
    return pdl__cpu_elements(&op->spec.inputs[i], op->spec.samples, op->description.in_format[i]);
}

/* Elements of the output; 0 for losses, which are float already. */
static int64_t output_count(const pdl_op_t *op)
{
    return pdl_layer_traits(op->spec.layer)->loss
               ? 0
               : pdl__cpu_elements(&op->spec.layer->out, op->spec.samples, op->description.out_format);
}

static float *reserve(wide_t *wide, char *memory, int64_t count)
{
    size_t at = wide->bytes;

    if (count == 0) return NULL;
    wide->bytes += ((size_t)count * sizeof(float) + 63) / 64 * 64;
    return memory != NULL ? (float *)(memory + at) : NULL;
}

static wide_t place(const pdl_op_t *op, char *memory)
{
    wide_t wide = {.bytes = 0};

    for (int i = 0; i < op->spec.input_count; i++) wide.input[i] = reserve(&wide, memory, input_count(op, i));
    wide.output = reserve(&wide, memory, output_count(op));
    if (pdl_layer_traits(op->spec.layer)->loss == PDL_LOSS_VALUES)
        wide.target = reserve(&wide, memory, input_count(op, 0));
    if (!op->spec.training) return wide;
    wide.output_gradient = reserve(&wide, memory, output_count(op));
    for (int i = 0; i < op->spec.input_count; i++)
        if (op->description.gradient_use[i] != PDL_GRADIENT_PASSED)
            wide.input_gradient[i] = reserve(&wide, memory, input_count(op, i));
    return wide;
}

size_t pdl__wide_bytes(const pdl_op_t *op)
{
    return place(op, NULL).bytes;
}

/* The same tensor in fp32: `from` itself where there is nothing to widen. Later phases find the copies of the first. */
static void *widen(const pdl_op_t *op, int phase, const void *from, int64_t count, float *to)
{
    if (from == NULL || to == NULL) return (void *)from;
    if (phase == 0) (void)pdl__cpu_to_float(op->backend, NULL, from, count, to);
    return to;
}

pdl_status_t pdl__wide_forward(const pdl__cpu_kind_t *kind, pdl_op_t *op, const pdl_op_run_t *run, size_t at)
{
    wide_t       wide = place(op, (char *)run->workspace + at);
    pdl_op_run_t inner = *run;
    pdl_status_t status;

    for (int i = 0; i < op->spec.input_count; i++)
        inner.input[i] = widen(op, run->phase, run->input[i], input_count(op, i), wide.input[i]);
    inner.target = widen(op, run->phase, run->target, input_count(op, 0), wide.target);
    if (wide.output != NULL) inner.output = wide.output;
    status = kind->forward(op, &inner);
    if (status == PDL_OK && wide.output != NULL && run->phase == pdl_op_meetings(op, run, false))
        (void)pdl__cpu_from_float(op->backend, NULL, wide.output, output_count(op), run->output);
    return status;
}

pdl_status_t pdl__wide_backward(const pdl__cpu_kind_t *kind, pdl_op_t *op, const pdl_op_run_t *run, unsigned what,
                                size_t at)
{
    wide_t       wide = place(op, (char *)run->workspace + at);
    pdl_op_run_t inner = *run;
    pdl_status_t status;

    for (int i = 0; i < op->spec.input_count; i++) {
        if (op->description.keeps_inputs & (1u << i))
            inner.input[i] = widen(op, run->phase, run->input[i], input_count(op, i), wide.input[i]);
        inner.input_gradient[i] = run->input_gradient[i] != NULL ? wide.input_gradient[i] : NULL;
    }
    if (op->description.keeps_output)
        inner.output = widen(op, run->phase, run->output, output_count(op), wide.output);
    inner.target = widen(op, run->phase, run->target, input_count(op, 0), wide.target);
    inner.output_gradient[0] =
        widen(op, run->phase, run->output_gradient[0], output_count(op), wide.output_gradient);
    status = kind->backward(op, &inner, what);
    if (run->phase < pdl_op_meetings(op, run, true)) return status;
    for (int i = 0; status == PDL_OK && (what & PDL_BACKWARD_DATA) && i < op->spec.input_count; i++)
        if (inner.input_gradient[i] != NULL)
            (void)pdl__cpu_from_float(op->backend, NULL, inner.input_gradient[i], input_count(op, i),
                                      run->input_gradient[i]);
    return status;
}
