/*
 * Decoders: RMS norms before attention and before a gated network or experts. Queries, keys and values are projected by
 * one matrix, as frameworks that train do.
 */
#include "model/config/config.h"

#include <string.h>

static bool is(const pdl__config_t *c, const char *type)
{
    return strcmp(c->type, type) == 0;
}

/* Where positions were stretched after training, the length before that. */
static int64_t trained_tokens(pdl__config_t *c)
{
    return pdl__config_int(c, "rope_scaling.original_max_position_embeddings", 1,
                           pdl__config_int(c, "max_position_embeddings", 1, 2048));
}

static void read_window(pdl__config_t *c, pdl__config_decoder_t *d)
{
    bool qwen = strncmp(c->type, "qwen", 4) == 0;

    d->window = pdl__config_int(c, "sliding_window", 0, 0);
    d->window_every = is(c, "gpt_oss") ? 2 : 1;
    if (qwen && !pdl__config_flag(c, "use_sliding_window", false)) d->window = 0;
    if (qwen && d->window > 0) d->window_from = pdl__config_int(c, "max_window_layers", 0, d->layers);
    if (d->window >= d->tokens) d->window = 0;
    if (d->window > 0)
        pdl__config_remark(c,
                           "attention looks at the last %lld tokens: planned so, but no kernel of paradl trains it",
                           (long long)d->window);
}

static void read_experts(pdl__config_t *c, pdl__config_decoder_t *d)
{
    bool oss = is(c, "gpt_oss"), mixtral = is(c, "mixtral") || oss, qwen2 = is(c, "qwen2_moe");

    d->every = 1;
    d->expert_ffn = d->ffn;
    if (!mixtral && !qwen2 && !is(c, "qwen3_moe")) return;
    d->experts = pdl__config_int(c, mixtral ? "num_local_experts" : "num_experts", 1, -1);
    d->top_k = pdl__config_int(c, "num_experts_per_tok", 1, -1);
    d->capacity_factor = pdl__config_factor(c, "capacity_factor", 0);
    if (oss)
        pdl__config_remark(
            c, "sinks of attention, and biases of the router and of experts, %lld weights a layer, are left out",
            (long long)(d->heads + d->experts * (1 + 2 * d->expert_ffn + d->hidden)));
    if (mixtral) return;
    d->expert_ffn = pdl__config_int(c, "moe_intermediate_size", 1, -1);
    d->every = pdl__config_int(c, "decoder_sparse_step", 1, 1);
    if (pdl_json_first(c->root, "mlp_only_layers") != NULL)
        pdl__config_refuse(c, "mlp_only_layers", "single dense layers among those with experts are not supported");
    if (!qwen2) return;
    d->shared_ffn = pdl__config_int(c, "shared_expert_intermediate_size", 1, -1);
    pdl__config_remark(c, "the gate of the shared expert, %lld weights a layer, is left out", (long long)d->hidden);
}

void pdl__decoder_read(pdl__config_t *c, pdl__config_decoder_t *d)
{
    *d = (pdl__config_decoder_t){
        .layers = pdl__config_int(c, "num_hidden_layers", 1, -1),
        .hidden = pdl__config_int(c, "hidden_size", 1, -1),
        .ffn = pdl__config_int(c, "intermediate_size", 1, -1),
        .heads = pdl__config_int(c, "num_attention_heads", 1, -1),
        .vocabulary = pdl__config_int(c, "vocab_size", 1, -1),
        .epsilon = pdl__config_rate(c, "rms_norm_eps", 1e-6),
        .activation = pdl__config_activation(c, "hidden_act", "silu"),
        .tied = pdl__config_flag(c, "tie_word_embeddings", false),
    };
    d->kv_heads = pdl__config_int(c, "num_key_value_heads", 1, d->heads);
    d->tokens = trained_tokens(c);
    if (!c->status && d->heads % d->kv_heads != 0)
        pdl__config_refuse(c, "num_key_value_heads", "%lld do not divide the %lld of num_attention_heads",
                           (long long)d->kv_heads, (long long)d->heads);
}

static void read_attention(pdl__config_t *c, pdl__config_decoder_t *d)
{
    bool qwen2 = is(c, "qwen2") || is(c, "qwen2_moe"),
         all = pdl__config_flag(c, "attention_bias", is(c, "gpt_oss"));

    d->head_dim = pdl__config_int(c, "head_dim", 1, 0);
    if (d->head_dim == 0 && d->hidden % d->heads != 0)
        pdl__config_refuse(c, "num_attention_heads", "%lld do not divide the %lld of hidden_size",
                           (long long)d->heads, (long long)d->hidden);
    if (d->head_dim == 0) d->head_dim = d->hidden / d->heads;
    d->qkv_bias = qwen2 || all;
    d->out_bias = !qwen2 && all;
    d->mlp_bias = is(c, "llama") && pdl__config_flag(c, "mlp_bias", false);
    d->qk_norm = strncmp(c->type, "qwen3", 5) == 0;
    if (d->qk_norm)
        pdl__config_remark(c, "the norms of queries and keys are counted as weights; their time is not, and no "
                              "kernel of paradl trains them");
}

static void add_attention(pdl__config_t *c, const pdl__config_decoder_t *d, int64_t index)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_ATTENTION);

    layer.heads = d->heads;
    layer.kv_heads = d->kv_heads;
    layer.head_dim = d->head_dim;
    layer.causal = layer.rotary = true;
    layer.qk_norm = d->qk_norm;
    if (index >= d->window_from && index % d->window_every == 0) layer.window = d->window;
    pdl__config_linear(c, "self_attn.qkv_proj", -1, (d->heads + 2 * d->kv_heads) * d->head_dim, d->qkv_bias);
    pdl__config_add(c, layer, "self_attn", -1);
    pdl__config_linear(c, "self_attn.o_proj", -1, d->hidden, d->out_bias);
}

/* Gate and up read the same norm. */
static int add_gated(pdl__config_t *c, const pdl__config_decoder_t *d, const char *stem, int from, int64_t ffn)
{
    char name[4][64];
    int  factors[2];

    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof(name[i]), "%s.%s", stem,
                 (const char *[]){"gate_proj", "act", "up_proj", "mul"}[i]);
    pdl__config_linear(c, name[0], from, ffn, d->mlp_bias);
    factors[0] = pdl__config_plain(c, d->activation, name[1], -1);
    factors[1] = pdl__config_linear(c, name[2], from, ffn, d->mlp_bias);
    pdl__config_join(c, PDL_LAYER_MUL, name[3], factors, 2);
    snprintf(name[0], sizeof(name[0]), "%s.down_proj", stem);
    return pdl__config_linear(c, name[0], -1, d->hidden, d->mlp_bias);
}

static int add_experts(pdl__config_t *c, const pdl__config_decoder_t *d, int from)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_MOE);
    int         terms[2];

    layer.experts = d->experts;
    layer.top_k = d->top_k;
    layer.capacity_factor = d->capacity_factor;
    layer.expert_hidden = d->expert_ffn;
    layer.gated = true;
    layer.init = PDL_INIT_NORMAL;
    layer.init_std = c->std;
    terms[0] = pdl__config_add(c, layer, "block_sparse_moe", from);
    if (d->shared_ffn == 0) return terms[0];
    terms[1] = add_gated(c, d, "shared_expert", from, d->shared_ffn);
    return pdl__config_join(c, PDL_LAYER_ADD, "add_experts", terms, 2);
}

static bool has_experts(const pdl__config_decoder_t *d, int64_t layer)
{
    return d->experts > 0 && layer >= d->dense_layers && (layer + 1) % d->every == 0;
}

void pdl__decoder_build(pdl__config_t *c, const pdl__config_decoder_t *d,
                        void (*attention)(pdl__config_t *, const pdl__config_decoder_t *, int64_t))
{
    int embedding, terms[2], norm;

    pdl__config_tokens(c, d->tokens, d->vocabulary);
    terms[0] = embedding = pdl__config_embedding(c, "embed_tokens", d->hidden);
    for (int64_t i = 0; i < d->layers && !c->status; i++) {
        pdl__config_block(c, "layers", i);
        pdl__config_norm(c, PDL_LAYER_RMS_NORM, "input_layernorm", d->epsilon);
        attention(c, d, i);
        terms[1] = c->last;
        terms[0] = pdl__config_join(c, PDL_LAYER_ADD, "add_1", terms, 2);
        norm = pdl__config_norm(c, PDL_LAYER_RMS_NORM, "post_attention_layernorm", d->epsilon);
        terms[1] = has_experts(d, i) ? add_experts(c, d, norm) : add_gated(c, d, "mlp", norm, d->ffn);
        terms[0] = pdl__config_join(c, PDL_LAYER_ADD, "add_2", terms, 2);
    }
    pdl__config_block(c, NULL, 0);
    pdl__config_norm(c, PDL_LAYER_RMS_NORM, "norm", d->epsilon);
    pdl__config_head(c, "lm_head", d->tied ? embedding : -1, d->vocabulary, false);
}

void pdl__config_decoder(pdl__config_t *c)
{
    pdl__config_decoder_t d;

    pdl__decoder_read(c, &d);
    read_attention(c, &d);
    read_experts(c, &d);
    read_window(c, &d);
    if (!c->status) pdl__decoder_build(c, &d, add_attention);
}
