/*
 * Batch norm, with the sum and the ReLU that follow it in residual networks.
 *
 * Saved: mean, 1 / deviation, scale and shift of every channel; with a sum in front of a ReLU also a bit of every element
 * that is not zero behind it, so that backward reads neither the output nor what was added. Without a sum the sign of
 * scale x + shift tells the same.
 */
#include "tensor/cuda/cuda.h"

#include <stdlib.h>

typedef struct norm {
    int64_t          rows;
    int              channels, stride;
    pdl__cuda_mask_t mask;
    /* where things begin, in bytes: in the workspace, */
    size_t partial, total, slope, offset, scale, shift;
    size_t bits; /* and in what is saved: behind four floats of every channel */
} norm_t;

static pdl__cuda_mask_t mask_of(const pdl_op_t *op)
{
    if (op->spec.fusion.activation == PDL_NO_ACTIVATION) return PDL__MASK_NONE;
    return op->spec.fusion.add ? PDL__MASK_BITS : PDL__MASK_SIGN;
}

static void plan_memory(pdl_op_t *op, norm_t *norm)
{
    size_t floats = (size_t)norm->stride * sizeof(float);

    norm->partial = 0;
    norm->total = pdl__cuda_aligned(pdl__cuda_partial_bytes(norm->rows, norm->stride));
    norm->slope = pdl__cuda_aligned(norm->total + 2 * (size_t)norm->channels * sizeof(double));
    norm->offset = norm->slope + floats;
    norm->scale = norm->offset + floats;
    norm->shift = norm->scale + floats;
    op->description.workspace_bytes = norm->shift + floats;
    if (!op->spec.training) return;
    norm->bits = pdl__cuda_aligned(4 * floats);
    op->description.from_saved = true;
    op->description.saved_bytes = norm->bits;
    if (norm->mask == PDL__MASK_BITS) op->description.saved_bytes += pdl__cuda_mask_bytes(norm->rows, norm->stride);
}

static void describe_op(pdl_op_t *op, const norm_t *norm)
{
    const pdl_layer_t    *layer = op->spec.layer;
    pdl_op_description_t *d = &op->description;
    const int64_t        *channels = &layer->in.channels;
    bool                  add = op->spec.fusion.add;

    pdl__cuda_add_weight(op, "weight", 1, channels, true);
    if (layer->bias) pdl__cuda_add_weight(op, "bias", 1, channels, true);
    pdl__cuda_add_weight(op, "running_mean", 1, channels, false);
    pdl__cuda_add_weight(op, "running_var", 1, channels, false);
    d->keeps_inputs = 1;
    d->sums_gradients = true;
    d->gradient_use[0] = add ? PDL_GRADIENT_OWN : PDL_GRADIENT_INPLACE;
    if (add) d->gradient_use[1] = PDL_GRADIENT_INPLACE;
    for (int way = 0; way < 2 && op->spec.shared && op->spec.training; way++) {
        d->meetings[way] = 1;
        d->meeting[way][0] =
            (pdl_meeting_t){.kind = PDL_MEETING_SUM, .at = norm->total, .count = 2 * norm->channels};
    }
}

static pdl_status_t norm_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_shape_t *shape = &op->spec.layer->in;
    norm_t            *norm = calloc(1, sizeof(*norm));

    (void)cuda;
    if (norm == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", op->spec.layer->name);
    pdl__cuda_set_formats(op);
    norm->rows = op->spec.samples * pdl_shape_positions(shape);
    norm->channels = (int)shape->channels;
    norm->stride = (int)pdl__cuda_stride(shape);
    norm->mask = mask_of(op);
    plan_memory(op, norm);
    describe_op(op, norm);
    op->private_data = norm;
    return PDL_OK;
}

static double value_count(const pdl_op_t *op, const pdl_op_run_t *run)
{
    int64_t positions = pdl_shape_positions(&op->spec.layer->in);

    if (op->spec.shared && run->total_values > 0) return (double)run->total_values;
    return (double)(op->spec.shared ? run->total_samples : op->spec.samples) * (double)positions;
}

/* What forward and backward have in common. Statistics are in what is saved; scale and shift of an evaluation in the
   workspace. */
static pdl__cuda_batch_norm_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run, bool batch)
{
    const norm_t          *norm = op->private_data;
    const pdl_layer_t     *layer = op->spec.layer;
    char                  *workspace = run->workspace;
    float                 *saved = run->saved;
    pdl__cuda_batch_norm_t pass = {.rows = norm->rows,
                                   .channels = norm->channels,
                                   .stride = norm->stride,
                                   .mask = norm->mask,
                                   .x = run->input[0],
                                   .partial = (float *)(workspace + norm->partial),
                                   .total = (double *)(workspace + norm->total),
                                   .scale = (float *)(workspace + norm->scale),
                                   .shift = (float *)(workspace + norm->shift),
                                   .slope = (float *)(workspace + norm->slope),
                                   .offset = (float *)(workspace + norm->offset),
                                   .gamma = run->weight[0],
                                   .beta = layer->bias ? run->weight[1] : NULL,
                                   .accumulate = run->accumulate,
                                   .shared = op->spec.shared,
                                   .count = value_count(op, run),
                                   .momentum = layer->momentum,
                                   .epsilon = layer->epsilon};

    if (!batch) return pass;
    pass.mean = saved;
    pass.inverse = saved + norm->stride;
    pass.scale = saved + 2 * norm->stride;
    pass.shift = saved + 3 * norm->stride;
    if (norm->mask == PDL__MASK_BITS) pass.bits = (uint8_t *)run->saved + norm->bits;
    return pass;
}

static pdl_status_t norm_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t             *cuda = pdl__cuda_of(op);
    const pdl__cuda_norms_t *norms = cuda->api->norms;
    bool                     batch = run->training && op->spec.training, measures = batch && !run->from_saved;
    bool                     meets = measures && op->description.meetings[0] > 0;
    pdl__cuda_batch_norm_t   pass = make_pass(op, run, batch);
    int                      running = op->description.weight_count - 2;
    pdl_dtype_t              type = cuda->base.activation_type;
    pdl_status_t             status = PDL_OK;

    if (!batch || !run->again) {
        pass.running_mean = run->weight[running];
        pass.running_var = run->weight[running + 1];
    }
    if (measures && run->phase == 0) status = norms->batch_measure(cuda->gpu, stream, type, &pass);
    if (status == PDL_OK && meets && run->phase == 0) return norms->batch_total(cuda->gpu, stream, type, &pass);
    if (status == PDL_OK)
        status = measures ? norms->batch_moments(cuda->gpu, stream, type, &pass)
                 : batch  ? PDL_OK
                          : norms->batch_evaluate(cuda->gpu, stream, &pass);
    if (status != PDL_OK) return status;
    pass.add = op->spec.fusion.add ? run->input[1] : NULL;
    pass.out = run->output;
    if (run->from_saved) pass.bits = NULL;
    return norms->batch_apply(cuda->gpu, stream, type, &pass);
}

/* Where the masked gradient is kept between the passes, or NULL to make it again. */
static void *kept_gradient(const pdl_op_t *op, const pdl_op_run_t *run, unsigned what)
{
    if (op->spec.fusion.add && run->input_gradient[1] != NULL) return run->input_gradient[1];
    return run->output_gradient[1] != NULL && (what & PDL_BACKWARD_DATA) ? run->input_gradient[0] : NULL;
}

static pdl_status_t norm_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t             *cuda = pdl__cuda_of(op);
    const pdl__cuda_norms_t *norms = cuda->api->norms;
    bool                     meets = op->description.meetings[1] > 0;
    pdl__cuda_batch_norm_t   pass = make_pass(op, run, true);
    pdl_dtype_t              type = cuda->base.activation_type;
    pdl_status_t             status = PDL_OK;

    pass.gradient[0] = run->output_gradient[0];
    pass.gradient[1] = run->output_gradient[1];
    pass.kept = kept_gradient(op, run, what);
    if (what & PDL_BACKWARD_WEIGHT) {
        pass.gamma_gradient = run->weight_gradient[0];
        pass.beta_gradient = op->spec.layer->bias ? run->weight_gradient[1] : NULL;
    }
    if (run->phase == 0) {
        status = norms->batch_measure_back(cuda->gpu, stream, type, &pass);
        if (status == PDL_OK) status = norms->batch_total_back(cuda->gpu, stream, &pass);
        if (status != PDL_OK || meets) return status;
    }
    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    if (meets) status = norms->batch_slope(cuda->gpu, stream, &pass);
    pass.out = run->input_gradient[0];
    return status == PDL_OK ? norms->batch_apply_back(cuda->gpu, stream, type, &pass) : status;
}

static bool norm_fuses(const pdl_layer_t *layer, const pdl_fusion_t *fusion)
{
    (void)layer;
    return fusion->activation == PDL_NO_ACTIVATION || fusion->activation == PDL_LAYER_RELU;
}

const pdl__cuda_kind_t pdl__cuda_batch_norm = {.describe = norm_describe,
                                               .forward = norm_forward,
                                               .backward = norm_backward,
                                               .fuses = norm_fuses};
