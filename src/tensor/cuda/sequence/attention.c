/*
 * Attention: channels are all of q, then k, then v, head by head. Forward keeps the log of each query's sum of exponentials.
 * With rotation, q and k are turned into a copy in the workspace first, and their gradients are turned back in place.
 *
 * Generation: keys and values of all tokens so far are in the cache, [2][samples][context][kv_heads][dim], keys turned.
 */
#include "tensor/cuda/cuda.h"

#include <math.h>
#include <paradl/base/random.h>
#include <stdlib.h>

/* Where things are in the workspace: q and k rotated, lse where it is not kept, numbers of backward, and cuDNN's. */
typedef struct places {
    size_t rotated, lse, dots, plans, bytes;
} places_t;

typedef struct attention {
    pdl__cuda_attention_plans_t *plans; /* of cuDNN; NULL: own kernels */
} attention_t;

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

/* Whether cuDNN is asked. */
static bool may_plan(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;

    return op->backend->activation_type == PDL_DTYPE_BF16 && layer->heads == layer->kv_heads &&
           layer->head_dim % 8 == 0 && (layer->rate == 0 || !op->spec.training) && op->spec.context == 0;
}

static places_t place(const pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    size_t             element = pdl_dtype_bytes(op->backend->activation_type);
    size_t             row = padded(rows_of(op) * layer->heads, sizeof(float));
    places_t           p = {0};

    p.lse = layer->rotary ? padded(rows_of(op) * rotated_channels(layer), element) : 0;
    p.dots = p.lse + (op->spec.training ? 0 : row);
    p.plans = p.dots + (op->spec.training ? row : 0);
    p.bytes = p.plans;
    if (may_plan(op))
        p.bytes += pdl__cuda_attention_workspace(op->spec.samples, layer->heads, layer->in.extent[0],
                                                 op->spec.training && op->spec.input_gradient);
    return p;
}

static pdl_status_t attention_describe(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t *layer = op->spec.layer;
    attention_t       *attention;

    if (layer->rotary && layer->head_dim % 2 != 0)
        return pdl_error(PDL_ERR_INPUT, "%s: rotary attention needs an even head_dim, not %lld", layer->name,
                         (long long)layer->head_dim);
    if (layer->head_dim > PDL__ATTENTION_DIM)
        return pdl_error(PDL_ERR_UNSUPPORTED, "%s: a head_dim of %lld; on GPUs it is at most %d", layer->name,
                         (long long)layer->head_dim, PDL__ATTENTION_DIM);
    if (op->spec.context > 0 && (!layer->causal || op->spec.training))
        return pdl_error(PDL_ERR_UNSUPPORTED,
                         "%s: only causal attention that does not train can go on from earlier tokens",
                         layer->name);
    attention = calloc(1, sizeof(*attention));
    if (attention == NULL) return pdl_error(PDL_ERR_NOMEM, "%s: out of memory", layer->name);
    op->private_data = attention;
    op->description.keeps_inputs = 1;
    op->description.keeps_output = op->spec.training;
    if (op->spec.training) op->description.saved_bytes = (size_t)(rows_of(op) * layer->heads) * sizeof(float);
    op->description.workspace_bytes = place(op).bytes;
    op->description.cache_bytes =
        2 * (size_t)(op->spec.samples * op->spec.context * layer->kv_heads * layer->head_dim) *
        pdl_dtype_bytes(cuda->base.activation_type);
    return PDL_OK;
}

/* Heads that begin at `channel` of a tensor with so many channels. */
static pdl__cuda_heads_t heads_at(const pdl_op_t *op, const void *tensor, int64_t channel, int64_t channels)
{
    size_t element = pdl_dtype_bytes(op->backend->activation_type);

    return (pdl__cuda_heads_t){.at = tensor != NULL ? (char *)tensor + (size_t)channel * element : NULL,
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

/* Turning so many heads; the rest is up to the caller. */
static pdl__cuda_rotation_t rotation_of(const pdl_op_t *op, int64_t heads, pdl__cuda_heads_t from,
                                        pdl__cuda_heads_t to)
{
    return (pdl__cuda_rotation_t){.samples = op->spec.samples,
                                  .tokens = op->spec.layer->in.extent[0],
                                  .heads = heads,
                                  .dim = op->spec.layer->head_dim,
                                  .first = op->spec.origin.space[0],
                                  .turns = op->spec.layer->rotary,
                                  .from = from,
                                  .to = to};
}

static pdl_status_t rotate(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl__cuda_rotation_t *rotation)
{
    const pdl__cuda_t *cuda = pdl__cuda_of(op);

    return cuda->api->attentions->rotate(cuda->gpu, stream, cuda->base.activation_type, rotation);
}

/* What both directions need. */
static void fill(const pdl_op_t *op, const pdl_op_run_t *run, pdl__cuda_attention_t *a)
{
    const pdl_layer_t  *layer = op->spec.layer;
    const pdl_origin_t *origin = &op->spec.origin;
    const attention_t  *attention = op->private_data;
    int64_t             turned = rotated_channels(layer);

    *a = (pdl__cuda_attention_t){
        .samples = op->spec.samples,
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
        .lse = op->spec.training ? run->saved : (float *)(void *)((char *)run->workspace + place(op).lse),
        .rate = run->training ? (float)layer->rate : 0,
        .seed = run->seed,
        .root = pdl_random_root("attention", op->spec.id),
        .step = run->step,
        .numbers = run->numbers,
        .first_sample = run->first_sample,
        .all_heads = origin->whole.channels > 0 ? origin->whole.channels / layer->head_dim : layer->heads,
        .first_head = origin->channel / layer->head_dim,
        .plans = attention->plans,
        .workspace = (char *)run->workspace + place(op).plans};
    if (!layer->rotary) return;
    a->q = heads_at(op, (char *)run->workspace + place(op).rotated, 0, turned);
    a->k = heads_at(op, a->q.at, layer->heads * layer->head_dim, turned);
}

/* What backward needs besides. */
static void fill_backward(const pdl_op_t *op, const pdl_op_run_t *run, pdl__cuda_attention_t *a)
{
    a->d_out = heads_at(op, run->output_gradient[0], 0, op->spec.layer->out.channels);
    a->dq = part_of(op, run->input_gradient[0], 0);
    a->dk = part_of(op, run->input_gradient[0], 1);
    a->dv = part_of(op, run->input_gradient[0], 2);
    a->dots = (float *)(void *)((char *)run->workspace + place(op).dots);
}

static pdl_status_t attention_prepare(pdl__cuda_t *cuda, pdl_op_t *op)
{
    const pdl_layer_t    *layer = op->spec.layer;
    attention_t          *attention = op->private_data;
    bool                  backward = op->spec.training && op->spec.input_gradient;
    pdl_op_run_t          nothing = {.phase = 0};
    pdl__cuda_attention_t a;
    pdl_status_t          status;

    status = cuda->api->attentions->prepare(cuda->gpu, cuda->base.activation_type, layer->head_dim);
    if (status || !may_plan(op)) return status;
    fill(op, &nothing, &a);
    fill_backward(op, &nothing, &a);
    return cuda->api->attentions->plan(cuda->gpu, &a, backward,
                                       pdl__cuda_attention_samples(a.samples, a.heads, a.queries),
                                       pdl__cuda_attention_workspace(a.samples, a.heads, a.queries, backward),
                                       &attention->plans);
}

/* Keys (0) or values (1) in the cache. */
static pdl__cuda_heads_t cached(const pdl_op_t *op, const pdl_op_run_t *run, int part)
{
    int64_t width = op->spec.layer->kv_heads * op->spec.layer->head_dim, sample = op->spec.context * width;
    size_t  at = (size_t)(part * op->spec.samples * sample) * pdl_dtype_bytes(op->backend->activation_type);

    return (pdl__cuda_heads_t){.at = (char *)run->cache + at, .sample = sample, .token = width};
}

/* Stores keys and values of the new tokens, and has queries read all that are there. */
static pdl_status_t go_on(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                          pdl__cuda_attention_t *a)
{
    const pdl_layer_t   *layer = op->spec.layer;
    pdl__cuda_rotation_t keys = rotation_of(op, layer->kv_heads, part_of(op, run->input[0], 1), cached(op, run, 0));
    pdl__cuda_rotation_t values =
        rotation_of(op, layer->kv_heads, part_of(op, run->input[0], 2), cached(op, run, 1));
    pdl_status_t status;

    keys.past = values.past = a->past = run->past;
    keys.places = values.places = a->keys = op->spec.context;
    values.turns = false;
    a->k = keys.to;
    a->v = values.to;
    status = rotate(op, stream, &keys);
    return status ? status : rotate(op, stream, &values);
}

/* Rotates q and k where that is asked for; with a cache, k goes there. */
static pdl_status_t begin(const pdl_op_t *op, pdl_tensor_stream_t *stream, const pdl_op_run_t *run,
                          pdl__cuda_attention_t *a)
{
    const pdl_layer_t   *layer = op->spec.layer;
    pdl__cuda_rotation_t rotation;
    pdl_status_t         status = PDL_OK;

    fill(op, run, a);
    if (layer->rotary) {
        rotation = rotation_of(op, op->spec.context > 0 ? layer->heads : layer->heads + layer->kv_heads,
                               part_of(op, run->input[0], 0), a->q);
        rotation.past = op->spec.context > 0 ? run->past : NULL;
        status = rotate(op, stream, &rotation);
    }
    return !status && op->spec.context > 0 ? go_on(op, stream, run, a) : status;
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
    pdl__cuda_attention_t attention;
    pdl__cuda_rotation_t  back;
    pdl_status_t          status;

    if (!(what & PDL_BACKWARD_DATA) || run->input_gradient[0] == NULL) return PDL_OK;
    status = begin(op, stream, run, &attention);
    if (status) return status;
    fill_backward(op, run, &attention);
    status = cuda->api->attentions->backward(cuda->gpu, stream, cuda->base.activation_type, &attention);
    if (status || !op->spec.layer->rotary) return status;
    back = rotation_of(op, op->spec.layer->heads + op->spec.layer->kv_heads, attention.dq, attention.dq);
    back.back = true;
    return rotate(op, stream, &back);
}

const pdl__cuda_kind_t pdl__cuda_attention = {.describe = attention_describe,
                                              .prepare = attention_prepare,
                                              .forward = attention_forward,
                                              .backward = attention_backward};
