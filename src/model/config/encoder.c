/*
 * Encoders: BERT, with norms behind every sum, and the vision transformer, with norms before.
 */
#include "model/config/config.h"

#include <string.h>

typedef struct encoder {
    int64_t          layers, hidden, heads, ffn;
    double           rate, attention_rate, epsilon;
    bool             bias;
    pdl_layer_type_t activation;
} encoder_t;

static encoder_t read_encoder(pdl__config_t *c, double rate)
{
    encoder_t e = {.layers = pdl__config_int(c, "num_hidden_layers", 1, -1),
                   .hidden = pdl__config_int(c, "hidden_size", 1, -1),
                   .heads = pdl__config_int(c, "num_attention_heads", 1, -1),
                   .ffn = pdl__config_int(c, "intermediate_size", 1, -1),
                   .rate = pdl__config_rate(c, "hidden_dropout_prob", rate),
                   .attention_rate = pdl__config_rate(c, "attention_probs_dropout_prob", rate),
                   .epsilon = pdl__config_rate(c, "layer_norm_eps", 1e-12),
                   .bias = pdl__config_flag(c, "qkv_bias", true),
                   .activation = pdl__config_activation(c, "hidden_act", "gelu")};

    if (e.hidden % e.heads != 0)
        pdl__config_refuse(c, "num_attention_heads", "%lld do not divide the %lld of hidden_size",
                           (long long)e.heads, (long long)e.hidden);
    return e;
}

static void add_attention(pdl__config_t *c, const encoder_t *e)
{
    pdl_layer_t attention = pdl__layer_default(PDL_LAYER_ATTENTION);

    attention.heads = e->heads;
    attention.rate = e->attention_rate;
    pdl__config_linear(c, "attention.self.qkv", -1, 3 * e->hidden, e->bias);
    pdl__config_add(c, attention, "attention.self", -1);
    pdl__config_linear(c, "attention.output.dense", -1, e->hidden, true);
    pdl__config_dropout(c, "attention.output.dropout", e->rate);
}

static void add_network(pdl__config_t *c, const encoder_t *e)
{
    pdl__config_linear(c, "intermediate.dense", -1, e->ffn, true);
    pdl__config_plain(c, e->activation, "intermediate.act", -1);
    pdl__config_linear(c, "output.dense", -1, e->hidden, true);
    pdl__config_dropout(c, "output.dropout", e->rate);
}

static int add_sum(pdl__config_t *c, const char *name, int first)
{
    const int terms[2] = {first, c->last};

    return pdl__config_join(c, PDL_LAYER_ADD, name, terms, 2);
}

static bool ends_in(const char *text, const char *ending)
{
    return text != NULL && strlen(text) >= strlen(ending) &&
           strcmp(text + strlen(text) - strlen(ending), ending) == 0;
}

/* What the first of the architectures computes from the body, such as "ForMaskedLM"; "Model": the body alone. */
static const char *architecture(const pdl__config_t *c)
{
    const pdl_json_value_t *first = pdl_json_first(c->root, "architectures");

    return first != NULL && first->kind == PDL_JSON_STRING ? first->text : NULL;
}

/* Of one position, as the head for sentences reads it. */
static void add_pooler(pdl__config_t *c, const encoder_t *e)
{
    pdl__config_plain(c, PDL_LAYER_SELECT, "pooler.first", -1);
    pdl__config_linear(c, "pooler.dense", -1, e->hidden, true);
    pdl__config_plain(c, PDL_LAYER_TANH, "pooler.activation", -1);
}

static void add_bert_head(pdl__config_t *c, const encoder_t *e, int embedding, int64_t vocabulary)
{
    const char *name = architecture(c);

    if (ends_in(name, "Model")) {
        add_pooler(c, e);
        pdl__config_plain(c, PDL_LAYER_MSE, "loss", -1);
        return;
    }
    if (name != NULL && !ends_in(name, "ForMaskedLM") && !ends_in(name, "ForPreTraining"))
        pdl__config_refuse(c, "architectures", "%.60s is none of BertModel, BertForMaskedLM and BertForPreTraining",
                           name);
    if (ends_in(name, "ForPreTraining"))
        pdl__config_remark(c, "the head that says whether a sentence follows, and its pooler, are left out");
    pdl__config_linear(c, "cls.transform.dense", -1, e->hidden, true);
    pdl__config_plain(c, e->activation, "cls.transform.act", -1);
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "cls.transform.LayerNorm", e->epsilon);
    pdl__config_head(c, "cls.decoder", pdl__config_flag(c, "tie_word_embeddings", true) ? embedding : -1,
                     vocabulary, true);
}

void pdl__config_bert(pdl__config_t *c)
{
    encoder_t   e = read_encoder(c, 0.1);
    int64_t     vocabulary = pdl__config_int(c, "vocab_size", 1, -1);
    int64_t     tokens = pdl__config_int(c, "max_position_embeddings", 1, 512);
    pdl_layer_t position = pdl__layer_default(PDL_LAYER_POSITION);
    int         embedding, block;

    /* Positions and segments are added to the words: one table has the rows of both. */
    position.rows = tokens + pdl__config_int(c, "type_vocab_size", 0, 2);
    position.init = PDL_INIT_NORMAL;
    position.init_std = c->std;
    pdl__config_tokens(c, tokens, vocabulary);
    embedding = pdl__config_embedding(c, "embeddings.word_embeddings", e.hidden);
    pdl__config_add(c, position, "embeddings.position_embeddings", -1);
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "embeddings.LayerNorm", e.epsilon);
    block = pdl__config_dropout(c, "embeddings.dropout", e.rate);
    for (int64_t i = 0; i < e.layers && !c->status; i++) {
        pdl__config_block(c, "encoder.layer", i);
        add_attention(c, &e);
        add_sum(c, "add_1", block);
        block = pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "attention.output.LayerNorm", e.epsilon);
        add_network(c, &e);
        add_sum(c, "add_2", block);
        block = pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "output.LayerNorm", e.epsilon);
    }
    pdl__config_block(c, NULL, 0);
    add_bert_head(c, &e, embedding, vocabulary);
}

static void add_patches(pdl__config_t *c, const encoder_t *e)
{
    int64_t     size = pdl__config_int(c, "image_size", 1, 224), patch = pdl__config_int(c, "patch_size", 1, 16);
    pdl_layer_t input = pdl__layer_default(PDL_LAYER_INPUT), conv = pdl__layer_default(PDL_LAYER_CONV);
    pdl_layer_t position = pdl__layer_default(PDL_LAYER_POSITION);

    if (size % patch != 0)
        pdl__config_refuse(c, "patch_size", "%lld does not divide the %lld of image_size", (long long)patch,
                           (long long)size);
    input.out =
        (pdl_shape_t){.channels = pdl__config_int(c, "num_channels", 1, 3), .extent = {size, size, 1}, .rank = 2};
    conv.out.channels = e->hidden;
    for (int d = 0; d < PDL_MAX_SPACE; d++) conv.kernel[d] = conv.stride[d] = patch;
    conv.init = position.init = PDL_INIT_NORMAL;
    conv.init_std = position.init_std = c->std;
    position.class_token = true;
    pdl__config_add(c, conv, "embeddings.projection", pdl__config_input(c, input));
    pdl__config_plain(c, PDL_LAYER_TO_SEQUENCE, "embeddings.patches", -1);
    pdl__config_add(c, position, "embeddings.position_embeddings", -1);
}

static int64_t classes(pdl__config_t *c)
{
    const pdl_json_value_t *labels = pdl_json_get(c->root, "id2label");

    return pdl__config_int(c, "num_labels", 1, labels != NULL && labels->count > 0 ? labels->count : 2);
}

void pdl__config_vit(pdl__config_t *c)
{
    encoder_t e = read_encoder(c, 0);
    int       block;

    add_patches(c, &e);
    block = pdl__config_dropout(c, "embeddings.dropout", e.rate);
    for (int64_t i = 0; i < e.layers && !c->status; i++) {
        pdl__config_block(c, "encoder.layer", i);
        pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "layernorm_before", e.epsilon);
        add_attention(c, &e);
        block = add_sum(c, "add_1", block);
        pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "layernorm_after", e.epsilon);
        add_network(c, &e);
        block = add_sum(c, "add_2", block);
    }
    pdl__config_block(c, NULL, 0);
    pdl__config_norm(c, PDL_LAYER_LAYER_NORM, "layernorm", e.epsilon);
    if (ends_in(architecture(c), "Model")) {
        add_pooler(c, &e);
        pdl__config_plain(c, PDL_LAYER_MSE, "loss", -1);
        return;
    }
    pdl__config_plain(c, PDL_LAYER_SELECT, "class_token", -1);
    pdl__config_linear(c, "classifier", -1, classes(c), true);
    pdl__config_plain(c, PDL_LAYER_CROSS_ENTROPY, "loss", -1);
}
