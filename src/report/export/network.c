/*
 * The numbers by which frameworks describe a transformer, found in the graph of its layers.
 */
#include "report/export/export.h"

#include <paradl/model/traits.h>

#include <string.h>

static const pdl_layer_t *input_of(const pdl_model_t *model, const pdl_layer_t *layer)
{
    return pdl_model_layer(model, layer->inputs[0]);
}

/* Looks through what only drops values. */
static const pdl_layer_t *source_of(const pdl_model_t *model, const pdl_layer_t *layer)
{
    const pdl_layer_t *source = input_of(model, layer);

    while (pdl_layer_traits(source)->drops) source = input_of(model, source);
    return source;
}

/* A low-rank projection: a matrix behind the norm of another matrix. */
static int64_t rank_behind(const pdl_model_t *model, const pdl_layer_t *linear)
{
    const pdl_layer_t *norm = input_of(model, linear);

    if (!pdl_layer_traits(norm)->norm || norm->input_count == 0 || !pdl_layer_is_linear(input_of(model, norm)))
        return 0;
    return linear->in.channels;
}

static void take_attention(const pdl_model_t *model, const pdl_layer_t *layer, pdl__export_network_t *n)
{
    const pdl_layer_t *source = source_of(model, layer);

    n->layers++;
    n->heads = layer->heads;
    n->kv_heads = layer->kv_heads;
    n->head_dim = layer->head_dim;
    n->value_dim = layer->value_dim;
    n->shared_dim = layer->shared_dim;
    n->window = layer->window;
    n->qk_norm = layer->qk_norm;
    n->rotary = layer->rotary;
    n->causal = layer->causal;
    n->attention_dropout = layer->rate;
    n->tokens = layer->in.extent[0];
    if (pdl_layer_traits(source)->combine == PDL_COMBINE_JOIN && layer->shared_dim > 0) {
        n->query_rank = rank_behind(model, pdl_model_layer(model, source->inputs[0]));
        n->key_rank = rank_behind(model, pdl_model_layer(model, source->inputs[1]));
    }
    n->qkv_bias = pdl_layer_is_linear(source) && source->bias;
}

/* The network behind attention: an activation of a matrix. Where there are experts beside it, it is the shared one. */
static void take_activation(const pdl_model_t *model, const pdl_layer_t *layer, pdl__export_network_t *n)
{
    const pdl_layer_t *matrix = input_of(model, layer);

    if (n->layers == 0 || !layer->out.sequence || !pdl_layer_is_linear(matrix)) return;
    n->activation = layer->type;
    n->bias = matrix->bias;
    if (n->experts > 0)
        n->shared_ffn = layer->out.channels;
    else
        n->ffn = layer->out.channels;
}

static void take_layer(const pdl_model_t *model, const pdl_layer_t *layer, pdl__export_network_t *n)
{
    const pdl_traits_t *traits = pdl_layer_traits(layer);

    if (traits->tokens && n->vocabulary == 0) {
        n->vocabulary = layer->vocabulary;
        n->hidden = layer->out.channels;
    }
    if (traits->work == PDL_WORK_ATTENTION) take_attention(model, layer, n);
    if (traits->work == PDL_WORK_EXPERTS) {
        if (n->experts == 0) n->first_experts = n->layers - 1;
        n->experts = layer->experts;
        n->top_k = layer->top_k;
        n->capacity_factor = layer->capacity_factor;
        n->expert_ffn = layer->expert_hidden;
        n->gated = layer->gated;
        n->activation = PDL_LAYER_SILU;
    }
    if (traits->activation) take_activation(model, layer, n);
    if (traits->combine == PDL_COMBINE_PRODUCT) n->gated = true;
    if (traits->drops && n->layers > 0) n->dropout = layer->rate;
    if (traits->norm && layer->out.sequence && n->hidden == 0) n->hidden = layer->out.channels;
    if (traits->norm && layer->out.sequence) {
        n->rms = layer->type == PDL_LAYER_RMS_NORM;
        n->epsilon = layer->epsilon;
    }
    if (pdl_layer_is_linear(layer) && layer->tied_to >= 0) n->tied = true;
}

pdl__export_network_t pdl__export_network(const pdl_model_t *model)
{
    pdl__export_network_t network = {.layers = 0};

    for (int i = 1; i < pdl_model_layer_count(model); i++) take_layer(model, pdl_model_layer(model, i), &network);
    if (network.ffn == 0) network.ffn = network.expert_ffn;
    return network;
}

/* Layers with attention in one virtual stage. */
static int64_t attentions(const pdl_plan_t *plan, int64_t stage)
{
    int64_t count = 0;

    for (int i = plan->stage_first[stage]; i < plan->stage_first[stage + 1]; i++)
        if (pdl_layer_traits(pdl_model_layer(plan->model, i))->work == PDL_WORK_ATTENTION) count++;
    return count;
}

bool pdl__stage_layout(const pdl_plan_t *plan, char *text, size_t size)
{
    int64_t stages = pdl_plan_stage_count(plan), first = attentions(plan, 0);
    bool    uneven = false;
    size_t  length = 0;

    for (int64_t s = 0; s < stages && length < size; s++) {
        int64_t count = attentions(plan, s);

        uneven = uneven || count != first;
        length += (size_t)snprintf(text + length, size - length, "%s%s", s > 0 ? "|" : "", s == 0 ? "E" : "");
        if (length < size && count > 0)
            length += (size_t)snprintf(text + length, size - length, count > 1 ? "t*%lld" : "t", (long long)count);
    }
    if (length < size) length += (size_t)snprintf(text + length, size - length, "L");
    return uneven && length < size;
}
