/*
 * Networks from the config.json of Hugging Face. The file names an architecture and gives its numbers; what the
 * architecture is, is written here once for each family. Fields are asked for by name: the first one that is missing or
 * makes no sense is reported with its name, and everything after it does nothing.
 */
#ifndef PDL_MODEL_CONFIG_H
#define PDL_MODEL_CONFIG_H

#include "model/builder.h"

#include <paradl/base/json_read.h>

typedef struct pdl__config {
    const pdl_json_value_t *root;
    const char             *file, *type; /* model_type */
    pdl_model_builder_t    *builder;
    pdl_status_t            status;
    double                  std;    /* initializer_range */
    char                    at[40]; /* of the block that is added: "layers.3.", or "" */
    int                     last;   /* the layer that was added last */
} pdl__config_t;

/* A whole number from `least` up; one that is not in the file, or null, is `standard`, or an error where that is negative. */
int64_t pdl__config_int(pdl__config_t *c, const char *field, int64_t least, int64_t standard);
double  pdl__config_rate(pdl__config_t *c, const char *field, double standard);
double  pdl__config_factor(pdl__config_t *c, const char *field, double standard); /* 0 and more */
bool    pdl__config_flag(pdl__config_t *c, const char *field, bool standard);
/* The type of the activation that a field names. */
pdl_layer_type_t pdl__config_activation(pdl__config_t *c, const char *field, const char *standard);
/* Records "FILE: field NAME: what", unless something was wrong before. */
void pdl__config_refuse(pdl__config_t *c, const char *field, const char *format, ...) PDL_PRINTF(3, 4);
void pdl__config_remark(pdl__config_t *c, const char *format, ...) PDL_PRINTF(2, 3);

/* Names of the layers that follow begin with "STEM.INDEX."; NULL: with nothing. */
void pdl__config_block(pdl__config_t *c, const char *stem, int64_t index);
/* Adds a layer behind `from`, or the one before where that is negative; its index. */
int pdl__config_add(pdl__config_t *c, pdl_layer_t layer, const char *name, int from);
int pdl__config_join(pdl__config_t *c, pdl_layer_type_t type, const char *name, const int *from, int count);
/* A linear layer with weights from a normal distribution. */
int pdl__config_linear(pdl__config_t *c, const char *name, int from, int64_t out, bool bias);
int pdl__config_plain(pdl__config_t *c, pdl_layer_type_t type, const char *name, int from);
int pdl__config_norm(pdl__config_t *c, pdl_layer_type_t type, const char *name, double epsilon);
int pdl__config_dropout(pdl__config_t *c, const char *name, double rate);
int pdl__config_input(pdl__config_t *c, pdl_layer_t layer);
int pdl__config_tokens(pdl__config_t *c, int64_t tokens, int64_t vocabulary); /* the input */
int pdl__config_embedding(pdl__config_t *c, const char *name, int64_t hidden);
/* The logits, by the embedding where it is tied, and the loss. */
void pdl__config_head(pdl__config_t *c, const char *name, int embedding, int64_t vocabulary, bool bias);

/* Families. */
void pdl__config_decoder(pdl__config_t *c);  /* Llama and those that grew from it */
void pdl__config_deepseek(pdl__config_t *c); /* with latent attention */
void pdl__config_gpt2(pdl__config_t *c);
void pdl__config_bert(pdl__config_t *c);
void pdl__config_vit(pdl__config_t *c);

/* What decoders have in common. */
typedef struct pdl__config_decoder {
    int64_t          layers, hidden, ffn, heads, kv_heads, head_dim, tokens, vocabulary;
    int64_t          experts, top_k, expert_ffn, shared_ffn; /* experts 0: none */
    double           capacity_factor;                        /* 0: no token is dropped */
    int64_t          dense_layers, every;                    /* the first are dense, then every n-th has experts */
    int64_t          window, window_from;                    /* of the layers from there on; 0: none */
    int64_t          window_every;                           /* of these, of the first of so many */
    bool             qkv_bias, out_bias, mlp_bias, qk_norm, tied;
    double           epsilon;
    pdl_layer_type_t activation;
} pdl__config_decoder_t;

void pdl__decoder_read(pdl__config_t *c, pdl__config_decoder_t *d);
/* Embedding, blocks with the attention that the function adds, and head. */
void pdl__decoder_build(pdl__config_t *c, const pdl__config_decoder_t *d,
                        void (*attention)(pdl__config_t *, const pdl__config_decoder_t *, int64_t layer));

#endif
