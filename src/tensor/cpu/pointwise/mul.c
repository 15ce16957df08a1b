/*
 * Products. A factor has the shape of the output, or one position only, when it scales whole channels (squeeze and
 * excitation).
 */
#include "tensor/cpu/chunk.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

/* The tensor as tasks of rows. With a factor of one position: BLOCKED, the space of one block; PLAIN images, one
   channel; sequences, one sample. Otherwise chunks. */
typedef struct pdl__product {
    int64_t     tasks, rows, width, total; /* rows of a task, elements of a row and of the tensor */
    int64_t     channels, groups;          /* tasks of one sample */
    int64_t     per_group;                 /* channels of a task */
    bool        bf16;
    int         count;
    bool        small[PDL_MAX_INPUTS]; /* factors of one position */
    const void *input[PDL_MAX_INPUTS];
    const void *gradient;
    int         wanted; /* the input whose gradient is made; -1: the product itself */
    void       *out;
} pdl__product_t;

typedef struct pdl__span {
    int64_t base, count;        /* elements of the tensor */
    int64_t small, small_count; /* and of a factor of one position; one element stands for all */
} pdl__span_t;

PDL__INLINE void multiply(const pdl__product_t *p, int k, const pdl__span_t *span, float *product)
{
    float        buffer[PDL__CHUNK];
    const float *factor;

    if (!p->small[k]) {
        factor = pdl__chunk_read(p->bf16, p->input[k], span->base, span->count, buffer);
#pragma omp simd
        for (int64_t i = 0; i < span->count; i++) product[i] *= factor[i];
        return;
    }
    factor = (const float *)p->input[k] + span->small;
    if (p->per_group == 1) {
#pragma omp simd
        for (int64_t i = 0; i < span->count; i++) product[i] *= factor[0];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < span->small_count; i++) product[i] *= factor[i];
    }
}

PDL__INLINE void add_small(const pdl__product_t *p, const pdl__span_t *span, const float *product)
{
    float *sum = (float *)p->out + span->small, all = 0;

    if (p->per_group == 1) {
#pragma omp simd reduction(+ : all)
        for (int64_t i = 0; i < span->count; i++) all += product[i];
        sum[0] += all;
    } else {
#pragma omp      simd
        for (int64_t i = 0; i < span->small_count; i++) sum[i] += product[i];
    }
}

PDL__INLINE void make_span(const pdl__product_t *p, const pdl__span_t *span)
{
    float product[PDL__CHUNK];
    bool  small = p->wanted >= 0 && p->small[p->wanted];

    if (p->wanted >= 0)
        memcpy(product, pdl__chunk_read(p->bf16, p->gradient, span->base, span->count, product),
               (size_t)span->count * sizeof(float));
    else
        for (int64_t i = 0; i < span->count; i++) product[i] = 1;
    for (int k = 0; k < p->count; k++)
        if (k != p->wanted) multiply(p, k, span, product);
    if (small)
        add_small(p, span, product);
    else if (p->bf16)
        pdl__chunk_write(true, p->out, span->base, span->count, product);
    else
        memcpy((float *)p->out + span->base, product, (size_t)span->count * sizeof(float));
}

PDL__CLONES static void multiply_tasks(void *context, int64_t first, int64_t end)
{
    const pdl__product_t *p = context;

    for (int64_t task = first; task < end; task++) {
        int64_t channel = task % p->groups * p->per_group, small = task / p->groups * p->channels + channel;
        int64_t used = p->channels - channel < p->per_group ? p->channels - channel : p->per_group;

        if (p->wanted >= 0 && p->small[p->wanted]) memset((float *)p->out + small, 0, (size_t)used * sizeof(float));
        for (int64_t i = 0; i < p->rows * p->width; i += p->width)
            for (int64_t k = 0; k < p->width; k += PDL__CHUNK) {
                pdl__span_t span = {.base = task * p->rows * p->width + i + k, .small = small};

                span.count = p->width - k < PDL__CHUNK ? p->width - k : PDL__CHUNK;
                if (span.count > p->total - span.base) span.count = p->total - span.base;
                if (p->per_group > 1) {
                    span.small += k;
                    span.small_count = used - k < span.count ? used - k : span.count;
                }
                make_span(p, &span);
            }
    }
}

static bool is_small(const pdl_op_t *op, int k)
{
    return pdl_shape_positions(&op->spec.inputs[k]) == 1 && pdl_shape_positions(&op->spec.layer->out) > 1;
}

static pdl_status_t mul_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    bool               any_small = false;

    for (int i = 0; i < op->spec.input_count; i++)
        if (op->spec.given[i] == PDL_FORMAT_BLOCKED && pdl__cpu_blockable(out) && pdl_shape_positions(out) > 1 &&
            !is_small(op, i))
            op->description.out_format = PDL_FORMAT_BLOCKED;
    for (int i = 0; i < op->spec.input_count; i++) {
        any_small = any_small || is_small(op, i);
        op->description.in_format[i] = is_small(op, i) ? PDL_FORMAT_PLAIN : op->description.out_format;
        op->description.keeps_inputs |= 1u << i;
    }
    return any_small ? pdl__cpu_require_f32(cpu, op->spec.layer) : PDL_OK;
}

static pdl__product_t describe(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_shape_t *out = &op->spec.layer->out;
    pdl__product_t     p = {.count = op->spec.input_count, .channels = out->channels, .groups = 1, .rows = 1};
    int64_t            positions = pdl_shape_positions(out);
    bool               any_small = false;

    p.bf16 = op->backend->activation_type == PDL_DTYPE_BF16;
    p.total = pdl__cpu_elements(out, op->spec.samples, op->description.out_format);
    for (int i = 0; i < p.count; i++) {
        p.input[i] = run->input[i];
        p.small[i] = is_small(op, i);
        any_small = any_small || p.small[i];
    }
    p.per_group = p.channels;
    if (!any_small) {
        p.width = PDL__CHUNK;
        p.tasks = (p.total + PDL__CHUNK - 1) / PDL__CHUNK;
        return p;
    }
    if (op->description.out_format == PDL_FORMAT_BLOCKED) {
        p.per_group = p.width = PDL__BLOCK;
        p.groups = (p.channels + PDL__BLOCK - 1) / PDL__BLOCK;
        p.rows = positions;
    } else if (pdl__cpu_blockable(out)) {
        p.per_group = 1;
        p.groups = p.channels;
        p.width = positions;
    } else {
        p.rows = positions;
        p.width = p.channels;
    }
    p.tasks = op->spec.samples * p.groups;
    return p;
}

static void multiply_all(pdl__product_t *p)
{
    pdl_threads_run(p->tasks, 1 + PDL__CHUNK_GRAIN / (p->rows * p->width), multiply_tasks, p);
}

static pdl_status_t mul_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__product_t p = describe(op, run);

    p.wanted = -1;
    p.out = run->output;
    multiply_all(&p);
    return PDL_OK;
}

static pdl_status_t mul_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    pdl__product_t p = describe(op, run);

    p.gradient = run->output_gradient[0];
    for (int k = 0; k < p.count; k++) {
        if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[k] == NULL) continue;
        p.wanted = k;
        p.out = run->input_gradient[k];
        multiply_all(&p);
    }
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_mul = {.describe = mul_describe, .forward = mul_forward, .backward = mul_backward};
