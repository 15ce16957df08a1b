/*
 * GPT-2: layer norms, learned positions, biases everywhere, logits by the embedding.
 */
#include "model/config/config.h"

#include <math.h>

typedef struct gpt2 {
    int64_t          layers, hidden, heads, ffn, tokens, vocabulary;
    double           attention_rate, rate, embedding_rate, epsilon;
    pdl_layer_type_t activation;
} gpt2_t;

static gpt2_t read_fields(pdl__config_t *c)
{
    gpt2_t g = {.layers = pdl__config_int(c, "n_layer", 1, -1),
                .hidden = pdl__config_int(c, "n_embd", 1, -1),
                .heads = pdl__config_int(c, "n_head", 1, -1),
                .tokens = pdl__config_int(c, "n_positions", 1, 1024),
                .vocabulary = pdl__config_int(c, "vocab_size", 1, -1),
                .attention_rate = pdl__config_rate(c, "attn_pdrop", 0.1),
                .rate = pdl__config_rate(c, "resid_pdrop", 0.1),
                .embedding_rate = pdl__config_rate(c, "embd_pdrop", 0.1),
                .epsilon = pdl__config_rate(c, "layer_norm_epsilon", 1e-5),
                .activation = pdl__config_activation(c, "activation_function", "gelu_new")};

    g.ffn = pdl__config_int(c, "n_inner", 1, 4 * g.hidden);
    if (g.hidden % g.heads != 0)
        pdl__config_refuse(c, "n_head", "%lld do not divide the %lld of n_embd", (long long)g.heads,
                           (long long)g.hidden);
    return g;
}

/* Matrices whose results are summed begin smaller, by the count of sums. */
static void add_summed(pdl__config_t *c, const gpt2_t *g, const char *name)
{
    double std = c->std;

    c->std = std / sqrt(2.0 * (double)g->layers);
    pdl__config_linear(c, name, -1, g->hidden, true);
    c->std = std;
}

static void add_block(pdl__config_t *c, const gpt2_t *g)
{
    pdl_layer_t attention = pdl__layer_default(PDL_LAYER_ATTENTION);
    int         terms[2] = {c->last};

    attention.heads = g->heads;
    attention.causal = true;
    attention.rate = g->attention_rate;
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "ln_1", g->epsilon);
    pdl__config_linear(c, "attn.c_attn", -1, 3 * g->hidden, true);
    pdl__config_add(c, attention, "attn", -1);
    add_summed(c, g, "attn.c_proj");
    terms[1] = pdl__config_dropout(c, "attn.resid_dropout", g->rate);
    terms[0] = pdl__config_join(c, PDL_LAYER_ADD, "add_1", terms, 2);
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "ln_2", g->epsilon);
    pdl__config_linear(c, "mlp.c_fc", -1, g->ffn, true);
    pdl__config_plain(c, g->activation, "mlp.gelu", -1);
    add_summed(c, g, "mlp.c_proj");
    terms[1] = pdl__config_dropout(c, "mlp.dropout", g->rate);
    pdl__config_join(c, PDL_LAYER_ADD, "add_2", terms, 2);
}

void pdl__config_gpt2(pdl__config_t *c)
{
    gpt2_t      g = read_fields(c);
    pdl_layer_t position = pdl__layer_default(PDL_LAYER_POSITION);
    bool        tied = pdl__config_flag(c, "tie_word_embeddings", true);
    int         embedding;

    position.init = PDL_INIT_NORMAL;
    position.init_std = c->std;
    pdl__config_tokens(c, g.tokens, g.vocabulary);
    embedding = pdl__config_embedding(c, "wte", g.hidden);
    pdl__config_add(c, position, "wpe", -1);
    pdl__config_dropout(c, "drop", g.embedding_rate);
    for (int64_t i = 0; i < g.layers && !c->status; i++) {
        pdl__config_block(c, "h", i);
        add_block(c, &g);
    }
    pdl__config_block(c, NULL, 0);
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "ln_f", g.epsilon);
    pdl__config_head(c, "lm_head", tied ? embedding : -1, g.vocabulary, false);
}
