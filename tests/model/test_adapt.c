/*
 * Low-rank adaptation: which layers have adapters, what of the network is trained, and what stays as it was.
 */
#include "test.h"

#include <paradl/model/traits.h>

#include <string.h>

static pdl_model_t *adapted(const char *name, int64_t rank, pdl_lora_layers_t layers)
{
    pdl_model_t *model = NULL, *other = NULL;
    pdl_lora_t   lora = {rank, layers};

    REQUIRE_OK(pdl_model_load(name, &model));
    REQUIRE_OK(pdl_model_adapt(model, &lora, &other));
    pdl_model_destroy(model);
    return other;
}

static int count_named(const pdl_model_t *model, const char *end)
{
    int count = 0;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const char *name = pdl_model_layer(model, i)->name;
        size_t      length = strlen(name), part = strlen(end);

        count += length > part && strcmp(name + length - part, end) == 0;
    }
    return count;
}

/* Llama 3 8B: 32 blocks of width 4,096; queries, keys and values of 6,144; a network of 14,336. An adapter of rank r beside a matrix
   of m x n has r (m + n) weights. */
static void adapters_have_the_weights_of_their_rank(void)
{
    static const struct {
        pdl_lora_layers_t layers;
        int64_t           sides; /* of a block */
        int               count;
    } cases[] = {{PDL_LORA_QKV, 4096 + 6144, 1},
                 {PDL_LORA_ATTENTION, 4096 + 6144 + 2 * 4096, 2},
                 {PDL_LORA_ALL, 4096 + 6144 + 2 * 4096 + 3 * (4096 + 14336), 5}};
    pdl_model_t       *whole;
    pdl_model_totals_t before, after;

    REQUIRE_OK(pdl_model_load("llama3-8b", &whole));
    pdl_model_totals(whole, &before);
    CHECK_INT(before.trained, before.weights);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_model_t *model = adapted("llama3-8b", 16, cases[i].layers);

        pdl_model_totals(model, &after);
        CHECK_INT(after.trained, 32 * 16 * cases[i].sides);
        CHECK_INT(after.weights, before.weights + after.trained);
        CHECK_INT(count_named(model, ".lora_a"), 32 * cases[i].count);
        CHECK_INT(pdl_model_layer_count(model), pdl_model_layer_count(whole) + 3 * 32 * cases[i].count);
        CHECK_INT(pdl_model_lora(model).rank, 16);
        pdl_model_destroy(model);
    }
    pdl_model_destroy(whole);
}

/* Gradients go down to the first adapter; of frozen products backward makes that of the input alone, and keeps nothing for it. */
static void frozen_layers_have_no_gradients_of_weights(void)
{
    pdl_model_t *model = adapted("gpt-char-small", 4, PDL_LORA_ATTENTION);
    int          first = pdl_model_find_layer(model, "h.0.attn.c_attn"),
        above = pdl_model_find_layer(model, "h.1.attn.c_attn");

    REQUIRE(first > 0 && above > 0);
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        bool               adapter = strstr(layer->name, ".lora_") != NULL;

        if (layer->weights > 0) CHECK_INT(layer->frozen, !adapter);
        if (layer->frozen) CHECK_INT(layer->flop_backward_weight, 0);
        if (layer->frozen) CHECK_INT(pdl_layer_trained(layer), 0);
        if (layer->frozen && pdl_layer_is_linear(layer)) CHECK(!pdl_layer_keeps_inputs(layer));
        if (i <= first + 1) CHECK(!layer->needs_input_gradient);
    }
    const pdl_layer_t *low = pdl_model_layer(model, first + 1), *high = pdl_model_layer(model, first + 2);
    CHECK_STR(low->name, "h.0.attn.c_attn.lora_a");
    CHECK_INT(low->inputs[0], pdl_model_layer(model, first)->inputs[0]);
    CHECK(low->flop_backward_weight > 0 && low->flop_backward_data == 0 && pdl_layer_keeps_inputs(low));
    CHECK(high->needs_input_gradient && high->init == PDL_INIT_ZERO);
    CHECK(pdl_model_layer(model, above)->flop_backward_data > 0);
    /* Attention reads the sum. */
    CHECK_STR(pdl_model_layer(model, pdl_model_layer(model, first + 4)->inputs[0])->name,
              "h.0.attn.c_attn.lora_sum");
    pdl_model_destroy(model);
}

/* Projections of latent attention come in pairs; experts and their router have none. */
static void latent_attention_has_adapters_at_both_projections(void)
{
    static const char config[] =
        "{\"model_type\":\"deepseek_v2\",\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"q_lora_rank\":96,\"kv_lora_rank\":64,\"qk_rope_head_dim\":16,\"qk_nope_head_"
        "dim\":32,"
        "\"v_head_dim\":32,\"vocab_size\":1000,\"n_routed_experts\":8,\"n_shared_experts\":1,\"num_experts_per_"
        "tok\":2,"
        "\"moe_intermediate_size\":64,\"first_k_dense_replace\":1,\"max_position_embeddings\":128}";
    pdl_model_t *model = NULL, *other = NULL;
    pdl_lora_t   lora = {4, PDL_LORA_ATTENTION};

    REQUIRE_OK(pdl_model_read_config_memory(config, strlen(config), "config.json", &model));
    REQUIRE_OK(pdl_model_adapt(model, &lora, &other));
    CHECK_INT(count_named(other, ".lora_a"), 2 * 6); /* q_a, q_b, kv_a, kv_b, k_rotated, o */
    CHECK_INT(count_named(other, "q_a_proj.lora_b"), 2);
    CHECK(pdl_model_find_layer(other, "layers.1.block_sparse_moe.lora_a") < 0);
    pdl_model_destroy(other);
    lora.layers = PDL_LORA_ALL;
    REQUIRE_OK(pdl_model_adapt(model, &lora, &other));
    CHECK_INT(count_named(other, "shared_expert.up_proj.lora_a"), 1);
    CHECK_INT(count_named(other, "lm_head.lora_a"), 0);
    pdl_model_destroy(other);
    pdl_model_destroy(model);
}

static void an_adapted_model_is_written_and_read(void)
{
    pdl_model_t *model = adapted("gpt-char-small", 4, PDL_LORA_ALL), *again = NULL, *other = NULL;
    char        *text = NULL;
    size_t       size = 0;
    FILE        *stream = open_memstream(&text, &size);

    REQUIRE(stream != NULL);
    CHECK_OK(pdl_model_write_yaml(model, stream));
    fclose(stream);
    REQUIRE_OK(pdl_model_read_yaml_memory(text, size, "adapted", &again));
    CHECK(pdl_model_hash(again) == pdl_model_hash(model));
    pdl_lora_t lora = {4, PDL_LORA_ALL};
    CHECK_ERROR(pdl_model_adapt(again, &lora, &other), "has frozen layers already");
    pdl_model_destroy(again);
    pdl_model_destroy(model);
    free(text);
}

static void adaptation_is_refused_where_there_is_nothing_to_adapt(void)
{
    static const struct {
        const char *model, *message;
        pdl_lora_t  lora;
    } cases[] = {{"resnet50", "no attention whose projections", {4, PDL_LORA_ATTENTION}},
                 {"resnet50", "no linear layer but the last", {4, PDL_LORA_ALL}},
                 {"resnet50-orig", "is a table of layers", {4, PDL_LORA_ALL}},
                 {"gpt-char-small", "h.0.attn.c_attn of gpt-char-small has 128 channels", {128, PDL_LORA_QKV}},
                 {"gpt-char-small", "expected at least 1", {0, PDL_LORA_QKV}}};
    static const char tied[] =
        "paradl: model/1\nname: m\ninput: {tokens: 8, vocabulary: 16}\nlayers:\n"
        "- embedding: {name: e, out: 4}\n- linear: {out: 16, tied: e, bias: false, frozen: true}\n"
        "- cross_entropy:\n";
    pdl_model_t *model = NULL, *other = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        REQUIRE_OK(pdl_model_load(cases[i].model, &model));
        CHECK_ERROR(pdl_model_adapt(model, &cases[i].lora, &other), cases[i].message);
        pdl_model_destroy(model);
    }
    CHECK_ERROR(pdl_model_read_yaml_memory(tied, strlen(tied), "tied.yaml", &model),
                "it is frozen, and e, whose weights it uses, is not");
}

int main(void)
{
    RUN(adapters_have_the_weights_of_their_rank);
    RUN(frozen_layers_have_no_gradients_of_weights);
    RUN(latent_attention_has_adapters_at_both_projections);
    RUN(an_adapted_model_is_written_and_read);
    RUN(adaptation_is_refused_where_there_is_nothing_to_adapt);
    return test_done();
}
