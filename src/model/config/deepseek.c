/*
 * DeepSeek V2 and V3: queries, keys and values come from short latent vectors, and the rotated part of a key is shared
 * by all heads. Some experts are taken by every token; the first layers have none.
 *
 * Keys and values are made anew from their latent vectors, as training does. The projection to latent vectors and that to
 * the shared part of a key are one matrix in the files, two layers here.
 */
#include "model/config/config.h"

#include <string.h>

/* What of a head is rotated and what is not, its value, and the widths of the latent vectors (queries: 0 for none). */
typedef struct latent {
    int64_t rotated, still, value, queries, keys;
} latent_t;

static latent_t read_latent(pdl__config_t *c)
{
    return (latent_t){.rotated = pdl__config_int(c, "qk_rope_head_dim", 1, -1),
                      .still = pdl__config_int(c, "qk_nope_head_dim", 1, -1),
                      .value = pdl__config_int(c, "v_head_dim", 1, -1),
                      .queries = pdl__config_int(c, "q_lora_rank", 1, 0),
                      .keys = pdl__config_int(c, "kv_lora_rank", 1, -1)};
}

static void add_attention(pdl__config_t *c, const pdl__config_decoder_t *d, int64_t index)
{
    latent_t    l = read_latent(c);
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_ATTENTION);
    int         norm = c->last, parts[3];

    (void)index;
    layer.heads = layer.kv_heads = d->heads;
    layer.head_dim = l.still + l.rotated;
    layer.value_dim = l.value;
    layer.shared_dim = l.rotated;
    layer.causal = layer.rotary = true;
    if (l.queries > 0) {
        pdl__config_linear(c, "self_attn.q_a_proj", norm, l.queries, d->qkv_bias);
        pdl__config_norm(c, PDL_LAYER_RMS_NORM, "self_attn.q_a_layernorm", d->epsilon);
    }
    parts[0] = pdl__config_linear(c, l.queries > 0 ? "self_attn.q_b_proj" : "self_attn.q_proj", c->last,
                                  d->heads * layer.head_dim, false);
    pdl__config_linear(c, "self_attn.kv_a_proj", norm, l.keys, d->qkv_bias);
    pdl__config_norm(c, PDL_LAYER_RMS_NORM, "self_attn.kv_a_layernorm", d->epsilon);
    parts[1] = pdl__config_linear(c, "self_attn.kv_b_proj", -1, d->heads * (l.still + l.value), false);
    parts[2] = pdl__config_linear(c, "self_attn.k_rotated_proj", norm, l.rotated, d->qkv_bias);
    pdl__config_join(c, PDL_LAYER_CONCAT, "self_attn.qkv", parts, 3);
    pdl__config_add(c, layer, "self_attn", -1);
    pdl__config_linear(c, "self_attn.o_proj", -1, d->hidden, d->out_bias);
}

static void read_experts(pdl__config_t *c, pdl__config_decoder_t *d)
{
    d->every = 1;
    d->experts = pdl__config_int(c, "n_routed_experts", 0, 0);
    if (d->experts == 0) return;
    d->top_k = pdl__config_int(c, "num_experts_per_tok", 1, -1);
    d->capacity_factor = pdl__config_factor(c, "capacity_factor", 0);
    d->expert_ffn = pdl__config_int(c, "moe_intermediate_size", 1, -1);
    d->shared_ffn = pdl__config_int(c, "n_shared_experts", 0, 0) * d->expert_ffn;
    d->dense_layers = pdl__config_int(c, "first_k_dense_replace", 0, 0);
    if (pdl__config_int(c, "moe_layer_freq", 1, 1) != 1)
        pdl__config_refuse(c, "moe_layer_freq", "only 1 is supported: experts in every layer after the dense ones");
    if (strcmp(c->type, "deepseek_v2") != 0)
        pdl__config_remark(
            c, "the correction of expert scores, %lld numbers a layer that no gradient reaches, is left out",
            (long long)d->experts);
    if (pdl__config_int(c, "num_nextn_predict_layers", 0, 0) > 0)
        pdl__config_remark(c, "num_nextn_predict_layers: the layers that predict further tokens are left out");
}

void pdl__config_deepseek(pdl__config_t *c)
{
    pdl__config_decoder_t d;

    pdl__decoder_read(c, &d);
    d.qkv_bias = d.out_bias = pdl__config_flag(c, "attention_bias", false);
    read_experts(c, &d);
    pdl__config_remark(c,
                       "latent attention is planned, no kernel of paradl trains it; split over a tensor axis, its "
                       "queries, keys and values are priced with a gather that frameworks avoid");
    if (!c->status) pdl__decoder_build(c, &d, add_attention);
}
