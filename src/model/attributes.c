/*
 * The attributes of layers: one table that the YAML reader and writer, the builder's checks and the hash of
 * a model all walk, so that a new attribute is one line here.
 */
#include "model/builder.h"
#include "model/internal.h"

#include <string.h>

#define T(name)   (UINT64_C(1) << PDL_LAYER_##name)
#define WINDOW    (T(CONV) | T(CONV_TRANSPOSE) | T(MAX_POOL) | T(AVG_POOL))
#define NORM      (T(BATCH_NORM) | T(LAYER_NORM) | T(RMS_NORM) | T(GROUP_NORM))
#define DENSE     (T(CONV) | T(CONV_TRANSPOSE) | T(LINEAR) | T(EMBEDDING) | T(MOE))
#define ALL       ((UINT64_C(1) << PDL_LAYER_TYPE_COUNT) - 1)
#define AT(field) offsetof(pdl_layer_t, field)
#define INT       PDL__ATTRIBUTE_INT
#define EXTENTS   PDL__ATTRIBUTE_EXTENTS
#define BOOL      PDL__ATTRIBUTE_BOOL
#define NUMBER    PDL__ATTRIBUTE_NUMBER
#define MAX       PDL_MAX_ATTRIBUTE

const pdl__attribute_t pdl__attributes[] = {
    {"out", AT(out.channels), INT, DENSE, 0, MAX},
    {"kernel", AT(kernel), EXTENTS, WINDOW | T(LINEAR), 0, MAX}, /* linear: only in tables of layers */
    {"stride", AT(stride), EXTENTS, WINDOW, 0, MAX},
    {"pad", AT(pad_low), EXTENTS, WINDOW, 0, MAX},
    {"pad_high", AT(pad_high), EXTENTS, WINDOW, -(double)MAX, MAX},
    {"dilation", AT(dilation), EXTENTS, T(CONV) | T(CONV_TRANSPOSE) | T(MAX_POOL), 1, MAX},
    {"factor", AT(stride), EXTENTS, T(UPSAMPLE), 0, MAX},
    {"size", AT(out.extent), EXTENTS, T(UPSAMPLE), 0, MAX},
    {"bilinear", AT(bilinear), BOOL, T(UPSAMPLE), 0, 1},
    {"groups", AT(groups), INT, T(CONV) | T(CONV_TRANSPOSE) | T(GROUP_NORM), 1, MAX},
    {"bias", AT(bias), BOOL, T(CONV) | T(CONV_TRANSPOSE) | T(LINEAR) | (NORM & ~T(RMS_NORM)), 0, 1},
    {"count_padding", AT(count_padding), BOOL, T(AVG_POOL), 0, 1},
    {"heads", AT(heads), INT, T(ATTENTION), 0, MAX},
    {"kv_heads", AT(kv_heads), INT, T(ATTENTION), 0, MAX},
    {"head_dim", AT(head_dim), INT, T(ATTENTION), 0, MAX},
    {"value_dim", AT(value_dim), INT, T(ATTENTION) | PDL__ATTRIBUTE_LATE, 0, MAX},
    {"shared_dim", AT(shared_dim), INT, T(ATTENTION) | PDL__ATTRIBUTE_LATE, 0, MAX},
    {"window", AT(window), INT, T(ATTENTION) | PDL__ATTRIBUTE_LATE, 0, MAX},
    {"qk_norm", AT(qk_norm), BOOL, T(ATTENTION) | PDL__ATTRIBUTE_LATE, 0, 1},
    {"causal", AT(causal), BOOL, T(ATTENTION), 0, 1},
    {"rotary", AT(rotary), BOOL, T(ATTENTION), 0, 1},
    {"vocabulary", AT(vocabulary), INT, T(EMBEDDING) | T(INPUT), 0, MAX},
    {"experts", AT(experts), INT, T(MOE), 0, 65536},
    {"top_k", AT(top_k), INT, T(MOE), 0, 65536},
    {"hidden", AT(expert_hidden), INT, T(MOE), 0, MAX},
    {"capacity_factor", AT(capacity_factor), NUMBER, T(MOE) | PDL__ATTRIBUTE_LATE, 0, 65536},
    {"gated", AT(gated), BOOL, T(MOE), 0, 1},
    {"class_token", AT(class_token), BOOL, T(POSITION), 0, 1},
    {"rows", AT(rows), INT, T(POSITION) | PDL__ATTRIBUTE_LATE, 0, MAX},
    {"index", AT(index), INT, T(SELECT), -(double)MAX, MAX},
    {"epsilon", AT(epsilon), NUMBER, NORM, 0, 1},
    {"momentum", AT(momentum), NUMBER, T(BATCH_NORM), 0, 1},
    {"rate", AT(rate), NUMBER, T(DROPOUT) | T(ATTENTION), 0, 0.999999},
    {"slope", AT(slope), NUMBER, T(LEAKY_RELU), 0, 1e6},
    {"size", AT(lrn_size), INT, T(LOCAL_RESPONSE_NORM), 1, MAX},
    {"alpha", AT(lrn_alpha), NUMBER, T(LOCAL_RESPONSE_NORM), 0, 1e6},
    {"beta", AT(lrn_beta), NUMBER, T(LOCAL_RESPONSE_NORM), 0, 1e6},
    {"k", AT(lrn_k), NUMBER, T(LOCAL_RESPONSE_NORM), 0, 1e6},
    {"init", AT(init), PDL__ATTRIBUTE_INIT, DENSE | NORM | T(POSITION), 0, PDL__INIT_COUNT - 1},
    {"std", AT(init_std), NUMBER, DENSE | T(POSITION), 0, 1e6},
    {"seconds", AT(measured_s), NUMBER, ALL & ~T(INPUT), 0, 1e12},
    {"frozen", AT(frozen), BOOL, DENSE | NORM | T(POSITION) | T(ATTENTION) | PDL__ATTRIBUTE_LATE, 0, 1},
    {.key = NULL},
};

const char *const pdl__init_names[] = {"default", "he", "xavier", "normal", "zero", "one"};

const pdl__attribute_t *pdl__attribute_find(pdl_layer_type_t type, const char *key)
{
    for (const pdl__attribute_t *a = pdl__attributes; a->key != NULL; a++)
        if (pdl__attribute_of(a, type) && strcmp(a->key, key) == 0) return a;
    return NULL;
}

size_t pdl__attribute_size(const pdl__attribute_t *attribute)
{
    switch (attribute->kind) {
    case PDL__ATTRIBUTE_INT: return sizeof(int64_t);
    case PDL__ATTRIBUTE_EXTENTS: return PDL_MAX_SPACE * sizeof(int64_t);
    case PDL__ATTRIBUTE_BOOL: return sizeof(bool);
    case PDL__ATTRIBUTE_NUMBER: return sizeof(double);
    case PDL__ATTRIBUTE_INIT: return sizeof(pdl_init_t);
    }
    return 0;
}

static void set_extents(int64_t extents[PDL_MAX_SPACE], int64_t value)
{
    for (int d = 0; d < PDL_MAX_SPACE; d++) extents[d] = value;
}

pdl_layer_t pdl__layer_default(pdl_layer_type_t type)
{
    const pdl_traits_t *traits = pdl_type_traits(type);
    bool                scaled = traits->positions == PDL_POSITIONS_SCALED;
    pdl_layer_t         layer = {.name = "", .type = type, .groups = 1, .tied_to = -1};

    set_extents(layer.in.extent, 1);
    set_extents(layer.out.extent, scaled ? 0 : 1);
    set_extents(layer.kernel, traits->window ? 0 : 1);
    set_extents(layer.stride, traits->pool || scaled ? 0 : 1);
    set_extents(layer.dilation, 1);
    layer.bias = traits->bias;
    layer.top_k = 1;
    layer.epsilon = traits->epsilon;
    layer.momentum = 0.1;
    layer.rate = traits->rate;
    layer.slope = 0.01;
    layer.lrn_size = 5;
    layer.lrn_alpha = 1e-4;
    layer.lrn_beta = 0.75;
    layer.lrn_k = 1;
    layer.init_std = 0.02;
    return layer;
}
