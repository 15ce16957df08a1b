/*
 * Mixture of experts (plugin/cuda/sequence/moe.h). Backward makes the inner values again.
 */
#include "tensor/cuda/cuda.h"

/* Takes `elements` of `item` bytes from the workspace, of which *used are taken. */
static void *take(char *workspace, size_t *used, int64_t elements, size_t item)
{
    size_t at = *used;

    *used += ((size_t)elements * item + 255) / 256 * 256;
    return workspace != NULL ? workspace + at : NULL;
}

/* Places the buffers; with workspace NULL only their bytes count. */
static size_t place(const pdl_op_t *op, char *workspace, pdl__cuda_moe_t *m)
{
    size_t  element = pdl_dtype_bytes(op->backend->activation_type), used = 0;
    int64_t entries = m->rows * m->top_k, chunks = (entries + PDL__MOE_CHUNK - 1) / PDL__MOE_CHUNK;

    m->logit = take(workspace, &used, m->rows * m->experts, sizeof(float));
    m->start = take(workspace, &used, m->experts + 1, sizeof(int64_t));
    m->slot = take(workspace, &used, entries, sizeof(int32_t));
    m->entry = take(workspace, &used, entries, sizeof(int32_t));
    m->counts = take(workspace, &used, chunks * m->experts, sizeof(int32_t));
    m->in_rows = take(workspace, &used, entries * m->in, element);
    m->out_rows = take(workspace, &used, entries * m->out, element);
    if (m->gated) m->g = take(workspace, &used, entries * m->hidden, element);
    m->u = take(workspace, &used, entries * m->hidden, element);
    m->a = take(workspace, &used, entries * m->hidden, element);
    if (!op->spec.training) return used;
    m->da = take(workspace, &used, entries * m->hidden, element);
    if (m->gated) m->dg = take(workspace, &used, entries * m->hidden, element);
    m->du = take(workspace, &used, entries * m->hidden, element);
    m->d_rows = take(workspace, &used, entries * m->in, element);
    m->d_share = take(workspace, &used, entries, sizeof(float));
    return used;
}

static pdl__cuda_moe_t form_of(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    return (pdl__cuda_moe_t){.rows = op->spec.samples * pdl_shape_positions(&layer->in),
                             .in = layer->in.channels,
                             .out = layer->out.channels,
                             .hidden = layer->expert_hidden,
                             .experts = layer->experts,
                             .top_k = layer->top_k,
                             .gated = layer->gated};
}

static pdl_status_t moe_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            router[2] = {layer->experts, layer->in.channels};
    int64_t            up[3] = {layer->experts, layer->expert_hidden, layer->in.channels};
    int64_t            down[3] = {layer->experts, layer->out.channels, layer->expert_hidden};
    pdl__cuda_moe_t    m = form_of(op);

    (void)cuda;
    if (op->spec.expert_first != NULL && op->spec.expert_ranks > 1)
        return pdl_error(
            PDL_ERR_UNSUPPORTED,
            "%s: experts on several ranks are not computed on GPUs; use --device cpu, or a plan without "
            "expert parallelism",
            layer->name);
    pdl__cuda_add_weight(op, "router", 2, router, true);
    if (layer->gated) pdl__cuda_add_weight(op, "gate", 3, up, true);
    pdl__cuda_add_weight(op, "up", 3, up, true);
    pdl__cuda_add_weight(op, "down", 3, down, true);
    op->description.keeps_inputs = 1;
    op->description.saved_bytes = (size_t)(m.rows * m.top_k) * sizeof(pdl__cuda_moe_choice_t);
    op->description.workspace_bytes = place(op, NULL, &m);
    return PDL_OK;
}

static pdl__cuda_moe_t moe_of(const pdl_op_t *op, const pdl_op_run_t *run)
{
    pdl__cuda_moe_t m = form_of(op);
    int             up = m.gated ? 2 : 1;

    place(op, run->workspace, &m);
    m.x = run->input[0];
    m.router = run->weight[0];
    m.gate = m.gated ? run->weight[1] : NULL;
    m.up = run->weight[up];
    m.down = run->weight[up + 1];
    m.choice = run->saved;
    return m;
}

static pdl_status_t moe_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_moe_t    m = moe_of(op, run);

    m.y = run->output;
    return cuda->api->moes->forward(cuda->gpu, stream, cuda->base.activation_type, &m);
}

static pdl_status_t moe_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run, unsigned what)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);
    pdl__cuda_moe_t    m = moe_of(op, run);
    int                up = m.gated ? 2 : 1;

    m.dy = run->output_gradient[0];
    m.add = run->accumulate;
    if (what & PDL_BACKWARD_DATA) m.dx = run->input_gradient[0];
    if (what & PDL_BACKWARD_WEIGHT) {
        m.d_router = run->weight_gradient[0];
        m.d_gate = m.gated ? run->weight_gradient[1] : NULL;
        m.d_up = run->weight_gradient[up];
        m.d_down = run->weight_gradient[up + 1];
    }
    return cuda->api->moes->backward(cuda->gpu, stream, cuda->base.activation_type, &m);
}

const pdl__cuda_kind_t pdl__cuda_moe = {.describe = moe_describe, .forward = moe_forward, .backward = moe_backward};
