/*
 * Attention: channels are all of q, then k, then v, head by head. Forward keeps the log of each query's sum of exponentials.
 * With rotation, q and k are turned into a copy in the workspace first, and their gradients are turned back in place.
 */
#include "tensor/cuda/cuda.h"

#include <math.h>
#include <paradl/base/random.h>
#include <stdlib.h>

/* Where things are in the workspace. */
typedef struct places {
    size_t rotated, dots, bytes;
} places_t;

static size_t padded(int64_t elements, size_t item)
{
    return ((size_t)elements * item + 255) / 256 * 256;
}

static int64_t rows_of(const pdl_op_t *op)
{
    return op->spec.samples * op->spec.layer->in.extent[0];
}

/* Channels of q and k. */
static int64_t rotated_channels(const pdl_layer_t *layer)
{
    return (layer->heads + layer->kv_heads) * layer->head_dim;
}

static places_t place(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    size_t             element = pdl_dtype_bytes(op->backend->activation_type);
    places_t           p = {0};

    p.dots = layer->rotary ? padded(rows_of(op) * rotated_channels(layer), element) : 0;
    p.bytes = p.dots + (op->spec.training ? padded(rows_of(op) * layer->heads, sizeof(float)) : 0);
    return p;
}

static pdl_status_t attention_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    (void)cuda;
    if (layer->rotary && layer->head_dim % 2 != 0)
        return pdl_error(PDL_ERR_INPUT, "%s: rotary attention needs an even head_dim, not %lld", layer->name,
                         (long long)layer->head_dim);
    if (layer->head_dim > PDL__ATTENTION_DIM)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: a head_dim of %lld; on GPUs it is at most %d", layer->name,
                         (long long)layer->head_dim, PDL__ATTENTION_DIM);
    op->description.keeps_inputs = 1;
    op->description.keeps_output = op->spec.training;
    if (op->spec.training) op->description.saved_bytes = (size_t)(rows_of(op) * layer->heads) * sizeof(float);
    op->description.workspace_bytes = place(op).bytes;
    return PDL_OK;
}

static pdl_status_t attention_prepare(pdl__cuda_t *cuda, pdl_op_t *op)
{
    return cuda->api->attentions->prepare(cuda->gpu, cuda->base.activation_type, op->spec.layer->head_dim);
}

/* Heads that begin at `channel` of a tensor with so many channels. */
static pdl__cuda_heads_t heads_at(const pdl_op_t *op, const void *tensor, int64_t channel, int64_t channels)
{
    size_t element = pdl_dtype_bytes(op->backend->activation_type);

    return (pdl__cuda_heads_t){.at = (char *)tensor + (size_t)channel * element,
                               .sample = op->spec.layer->in.extent[0] * channels,
                               .token = channels};
}

/* q, k or v of a packed tensor: 0, 1, 2. */
static pdl__cuda_heads_t part_of(const pdl_op_t *op, const void *tensor, int part)
{
    const pdl_layer_t *layer = op->spec.layer;
    int64_t            first[] = {0, layer->heads * layer->head_dim, rotated_channels(layer)};

    return heads_at(op, tensor, first[part], layer->in.channels);
}

/* Turns q and k, which have the same place in both tensors. */
static pdl_status_t rotate(const pdl_op_t *op, pdl_tensor_stream_t *stream, bool back, pdl__cuda_heads_t from,
                           pdl__cuda_heads_t to)
{
    const pdl__cuda_t   *cuda = pdl__cuda_of(op);
    const pdl_layer_t   *layer = op->spec.layer;
    pdl__cuda_rotation_t rotation = {.samples = op->spec.samples,
                                     .tokens = layer->in.extent[0],
                                     .heads = layer->heads + layer->kv_heads,
                                     .dim = layer->head_dim,
                                     .first = op->spec.origin.space[0],
                                     .back = back,
                                     .from = from,
                                     .to = to};

    return cuda->api->attentions->rotate(cuda->gpu, stream, cuda->base.activation_type, &rotation);
}

/* Fills in what both directions need, and rotates. */
static pdl_status_t begin(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                          pdl__cuda_attention_t *a)
{
    const pdl_layer_t  *layer = op->spec.layer;
    const pdl_origin_t *origin = &op->spec.origin;
    int64_t             turned = rotated_channels(layer);
    pdl__cuda_heads_t   rotated = heads_at(op, (char *)run->workspace + place(op).rotated, 0, turned);

    *a = (pdl__cuda_attention_t){.samples = op->spec.samples,
                                 .heads = layer->heads,
                                 .kv_heads = layer->kv_heads,
                                 .dim = layer->head_dim,
                                 .queries = layer->in.extent[0],
                                 .keys = layer->in.extent[0],
                                 .causal = layer->causal,
                                 .scale = (float)(1 / sqrt((double)layer->head_dim)),
                                 .q = part_of(op, run->input[0], 0),
                                 .k = part_of(op, run->input[0], 1),
                                 .v = part_of(op, run->input[0], 2),
                                 .out = heads_at(op, run->output, 0, layer->out.channels),
                                 .lse = op->spec.training ? run->saved : NULL,
                                 .rate = run->training ? (float)layer->rate : 0,
                                 .seed = run->seed,
                                 .stream = pdl_random_stream("attention", op->spec.id, run->step),
                                 .first_sample = run->first_sample,
                                 .all_heads = origin->whole.channels > 0 ? origin->whole.channels / layer->head_dim
                                                                         : layer->heads,
                                 .first_head = origin->channel / layer->head_dim};
    if (!layer->rotary) return PDL_OK;
    a->q = rotated;
    a->k = heads_at(op, rotated.at, layer->heads * layer->head_dim, turned);
    return rotate(op, stream, false, part_of(op, run->input[0], 0), rotated);
}

static pdl_status_t attention_forward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run)
{
    const pdl__cuda_t    *cuda = pdl__cuda_of(op);
    pdl__cuda_attention_t attention;
    pdl_status_t          status = begin(op, stream, run, &attention);

    if (status) return status;
    return cuda->api->attentions->forward(cuda->gpu, stream, cuda->base.activation_type, &attention);
}

static pdl_status_t attention_backward(pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                                       unsigned what)
{
    const pdl__cuda_t    *cuda = pdl__cuda_of(op);
    const void           *dx = run->input_gradient[0];
    pdl__cuda_attention_t attention;
    pdl_status_t          status;

    if (!(what & PDL_BACKWARD_DATA) || dx == NULL) return PDL_OK;
    status = begin(op, stream, run, &attention);
    if (status) return status;
    attention.d_out = heads_at(op, run->output_gradient[0], 0, op->spec.layer->out.channels);
    attention.dq = part_of(op, dx, 0);
    attention.dk = part_of(op, dx, 1);
    attention.dv = part_of(op, dx, 2);
    attention.dots = (float *)(void *)((char *)run->workspace + place(op).dots);
    status = cuda->api->attentions->backward(cuda->gpu, stream, cuda->base.activation_type, &attention);
    if (status || !op->spec.layer->rotary) return status;
    return rotate(op, stream, true, attention.dq, attention.dq);
}

const pdl__cuda_kind_t pdl__cuda_attention = {.describe = attention_describe,
                                              .prepare = attention_prepare,
                                              .forward = attention_forward,
                                              .backward = attention_backward};
