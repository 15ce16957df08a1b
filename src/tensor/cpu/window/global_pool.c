/*
 * The mean over all positions. The output is PLAIN: usually a linear layer reads it.
 *
 * Forward adds up panels as batch norm does, with its kernel.
 */
#include "tensor/cpu/lanes.h"
#include "tensor/cpu/norm/batch_norm.h"
#include "tensor/cpu/threads.h"

#include <stdlib.h>

typedef struct pdl__global_pool {
    pdl__panels_t panels;
    int64_t       channels;
    double        positions; /* of all ranks that share a sample */
} pdl__global_pool_t;

typedef struct pdl__spread {
    pdl__panels_t panels;
    int64_t       channels;
    const void   *gradient;
    void         *out;
    float         factor;
    bool          bf16;
} pdl__spread_t;

static pdl_status_t global_describe(pdl__cpu_t *cpu, pdl_op_t *op)
{
    const pdl_shape_t  *shape = &op->spec.layer->in;
    pdl__global_pool_t *pool = calloc(1, sizeof(*pool));

    (void)cpu;
    if (pool == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    if (pdl__cpu_blockable(shape)) op->description.in_format[0] = op->spec.given[0];
    pool->panels = pdl__panels_cut(shape, op->spec.samples, op->description.in_format[0], false);
    pool->channels = shape->channels;
    pool->positions = (double)pdl_shape_positions(shape) / (op->spec.share > 0 ? op->spec.share : 1);
    op->description.workspace_bytes =
        (size_t)(pool->panels.samples * pool->panels.parts * 2 * pool->panels.padded) * sizeof(double);
    op->private_data = pool;
    return PDL_OK;
}

static pdl_status_t global_forward(pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl__global_pool_t *pool = op->private_data;
    const pdl__panels_t      *panels = &pool->panels;
    bool                      bf16 = op->backend->activation_type == PDL_DTYPE_BF16;
    pdl__norm_t               pass = {.panels = *panels, .x = run->input[0], .partial = run->workspace};

    pdl_threads_run(pdl__panels_count(panels), 1 + 512 / panels->part_rows,
                    bf16 ? pdl__norm_bf16.measure : pdl__norm_f32.measure, &pass);
    for (int64_t n = 0; n < panels->samples; n++)
        for (int64_t c = 0; c < pool->channels; c++) {
            double  sum = 0;
            int64_t at = n * pool->channels + c;

            for (int64_t part = 0; part < panels->parts; part++)
                sum += pass.partial[(n * panels->parts + part) * 2 * panels->padded + c];
            sum /= pool->positions;
            if (bf16)
                ((pdl__bf16_t *)run->output)[at] = pdl__to_bf16((float)sum);
            else
                ((float *)run->output)[at] = (float)sum;
        }
    return PDL_OK;
}

PDL__INLINE void fill_row(const pdl__spread_t *s, int64_t at, pdl__f16_t v, int64_t lanes)
{
    if (s->bf16)
        pdl__store_bf16((pdl__bf16_t *)s->out + at, v, lanes);
    else
        pdl__store_f32((float *)s->out + at, v, lanes);
}

/* Every position of a panel gets the gradient of its channel. */
PDL__CLONES static void spread_panels(void *context, int64_t first, int64_t end)
{
    const pdl__spread_t *s = context;
    const pdl__panels_t *p = &s->panels;

    for (int64_t i = first; i < end; i++) {
        int64_t part = i % p->parts, group = i / p->parts % p->groups, sample = i / p->parts / p->groups;
        int64_t rows = p->rows - part * p->part_rows < p->part_rows ? p->rows - part * p->part_rows : p->part_rows;
        int64_t base = sample * p->sample_step + group * p->group_step + part * p->part_rows * p->distance;
        int64_t channel = p->single ? group : group * 16, known = p->single ? 1 : s->channels - channel;
        int64_t lanes = !p->single && group == p->groups - 1 ? p->last_lanes : 16,
                at = sample * s->channels + channel;
        pdl__f16_t v;

        if (known > 16) known = 16;
        v = s->bf16 ? pdl__load_bf16((const pdl__bf16_t *)s->gradient + at, known)
                    : pdl__load_f32((const float *)s->gradient + at, known);
        if (p->single) v = pdl__splat(v[0]);
        v *= s->factor;
        for (int64_t r = 0; r < rows; r++) fill_row(s, base + r * p->distance, v, lanes);
        if (p->single && p->last_lanes > 0) fill_row(s, base + rows * 16, v, p->last_lanes);
    }
}

static pdl_status_t global_backward(pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    const pdl__global_pool_t *pool = op->private_data;
    pdl__spread_t             spread = {.panels = pool->panels,
                                        .channels = pool->channels,
                                        .gradient = run->output_gradient[0],
                                        .out = run->input_gradient[0],
                                        .factor = 1.0f / (float)pool->positions,
                                        .bf16 = op->backend->activation_type == PDL_DTYPE_BF16};

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    pdl_threads_run(pdl__panels_count(&pool->panels), 1 + 512 / pool->panels.part_rows, spread_panels, &spread);
    return PDL_OK;
}

const pdl__cpu_kind_t pdl__cpu_global_pool = {.describe = global_describe,
                                              .forward = global_forward,
                                              .backward = global_backward};
