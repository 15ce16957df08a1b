/*
 * Group norm: the channels of a group, over all positions of a sample.
 */
#include "tensor/cuda/cuda.h"

/* Workspace: two sums and three coefficients of every channel of a sample; where nothing is saved, statistics too. */
static size_t coefficients_at(const pdl_op_t *op)
{
    return (size_t)(op->spec.samples * pdl__cuda_stride(&op->spec.layer->in)) * 2 * sizeof(double);
}

static size_t statistics_at(const pdl_op_t *op)
{
    return coefficients_at(op) +
           (size_t)(op->spec.samples * pdl__cuda_stride(&op->spec.layer->in)) * 3 * sizeof(float);
}

static size_t statistics_bytes(const pdl_op_t *op)
{
    return (size_t)(op->spec.samples * op->spec.layer->groups) * 2 * sizeof(float);
}

static pdl_status_t norm_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cuda;
    pdl__cuda_set_formats(op);
    pdl__cuda_add_weight(op, "weight", 1, &layer->in.channels, true);
    if (layer->bias) pdl__cuda_add_weight(op, "bias", 1, &layer->in.channels, true);
    op->description.keeps_inputs = 1;
    op->description.gradient_use[0] = PDL_GRADIENT_INPLACE;
    op->description.workspace_bytes = statistics_at(op);
    if (op->spec.training)
        op->description.saved_bytes = statistics_bytes(op);
    else
        op->description.workspace_bytes += statistics_bytes(op);
    return PDL_OK;
}

static pdl__cuda_group_norm_t make_pass(const pdl_op_t *op, const pdl_op_run_t *run)
{
    const pdl_layer_t *layer = op->spec.layer;
    char              *workspace = run->workspace;

    return (pdl__cuda_group_norm_t){.samples = op->spec.samples,
                                    .positions = pdl_shape_positions(&layer->in),
                                    .channels = (int)layer->in.channels,
                                    .stride = (int)pdl__cuda_stride(&layer->in),
                                    .groups = (int)layer->groups,
                                    .x = run->input[0],
                                    .statistics =
                                        op->spec.training ? run->saved : (void *)(workspace + statistics_at(op)),
                                    .sums = (double *)workspace,
                                    .coefficients = (float *)(workspace + coefficients_at(op)),
                                    .gamma = run->weight[0],
                                    .beta = layer->bias ? run->weight[1] : NULL,
                                    .accumulate = run->accumulate,
                                    .epsilon = layer->epsilon};
}

static pdl_status_t norm_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    pdl__cuda_t           *cuda = pdl__cuda_of(op);
    pdl__cuda_group_norm_t pass = make_pass(op, run);

    pass.out = run->output;
    return cuda->api->norms->group(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

static pdl_status_t norm_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    pdl__cuda_t           *cuda = pdl__cuda_of(op);
    pdl__cuda_group_norm_t pass = make_pass(op, run);

    pass.gradient = run->output_gradient[0];
    if (what & PDL_BACKWARD_DATA) pass.out = run->input_gradient[0];
    if (what & PDL_BACKWARD_WEIGHT) {
        pass.gamma_gradient = run->weight_gradient[0];
        pass.beta_gradient = op->spec.layer->bias ? run->weight_gradient[1] : NULL;
    }
    return cuda->api->norms->group_back(cuda->gpu, stream, cuda->base.activation_type, &pass);
}

const pdl__cuda_kind_t pdl__cuda_group_norm = {.describe = norm_describe,
                                               .forward = norm_forward,
                                               .backward = norm_backward};
