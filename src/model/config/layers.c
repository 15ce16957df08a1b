/*
 * Layers of a network that a config.json describes, one call each.
 */
#include "model/config/config.h"

#include <string.h>

void pdl__config_block(pdl__config_t *c, const char *stem, int64_t index)
{
    c->at[0] = '\0';
    if (stem != NULL) snprintf(c->at, sizeof(c->at), "%s.%lld.", stem, (long long)index);
}

static int add(pdl__config_t *c, pdl_layer_t *layer, const char *name, const int *from, int count)
{
    char full[128];

    if (c->status) return 0;
    snprintf(full, sizeof(full), "%s%s", c->at, name);
    layer->name = full;
    layer->inputs = from;
    layer->input_count = count;
    c->status = pdl__builder_add(c->builder, layer, c->file, &c->last);
    return c->last;
}

int pdl__config_add(pdl__config_t *c, pdl_layer_t layer, const char *name, int from)
{
    int input = from < 0 ? c->last : from;

    return add(c, &layer, name, &input, 1);
}

int pdl__config_join(pdl__config_t *c, pdl_layer_type_t type, const char *name, const int *from, int count)
{
    pdl_layer_t layer = pdl__layer_default(type);

    return add(c, &layer, name, from, count);
}

int pdl__config_linear(pdl__config_t *c, const char *name, int from, int64_t out, bool bias)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_LINEAR);

    layer.out.channels = out;
    layer.bias = bias;
    layer.init = PDL_INIT_NORMAL;
    layer.init_std = c->std;
    return pdl__config_add(c, layer, name, from);
}

int pdl__config_plain(pdl__config_t *c, pdl_layer_type_t type, const char *name, int from)
{
    return pdl__config_add(c, pdl__layer_default(type), name, from);
}

int pdl__config_norm(pdl__config_t *c, pdl_layer_type_t type, const char *name, double epsilon)
{
    pdl_layer_t layer = pdl__layer_default(type);

    layer.epsilon = epsilon;
    return pdl__config_add(c, layer, name, -1);
}

int pdl__config_dropout(pdl__config_t *c, const char *name, double rate)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_DROPOUT);

    layer.rate = rate;
    return pdl__config_add(c, layer, name, -1);
}

int pdl__config_input(pdl__config_t *c, pdl_layer_t layer)
{
    return add(c, &layer, "input", NULL, 0);
}

int pdl__config_tokens(pdl__config_t *c, int64_t tokens, int64_t vocabulary)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_INPUT);

    layer.out = (pdl_shape_t){.channels = 1, .extent = {tokens, 1, 1}, .rank = 1, .sequence = true};
    layer.vocabulary = vocabulary;
    return pdl__config_input(c, layer);
}

int pdl__config_embedding(pdl__config_t *c, const char *name, int64_t hidden)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_EMBEDDING);

    layer.out.channels = hidden;
    layer.init = PDL_INIT_NORMAL;
    layer.init_std = c->std;
    return pdl__config_add(c, layer, name, -1);
}

void pdl__config_head(pdl__config_t *c, const char *name, int embedding, int64_t vocabulary, bool bias)
{
    pdl_layer_t layer = pdl__layer_default(PDL_LAYER_LINEAR);

    layer.out.channels = vocabulary;
    layer.bias = bias;
    layer.tied_to = embedding;
    if (embedding < 0) {
        layer.init = PDL_INIT_NORMAL;
        layer.init_std = c->std;
    }
    pdl__config_add(c, layer, name, -1);
    pdl__config_plain(c, PDL_LAYER_CROSS_ENTROPY, "loss", -1);
}
