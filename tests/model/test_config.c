/* Networks from config.json of Hugging Face: parameters to the last one as published, the same networks as our own
   descriptions of them, and mistakes that name the field. The texts are written from the published fields. Parameters are those that
   Hugging Face counts in the weights of gpt2, Llama-2-7b-hf, Mistral-7B-v0.1, Mixtral-8x7B-v0.1, Qwen2.5-0.5B, Qwen3-8B, Qwen3-30B-A3B,
   DeepSeek-V2-Lite, gpt-oss-20b (20,914,757,184 with the biases and sinks that are left out), bert-base-uncased, and torchvision in vit_b_16. DeepSeek-V3 has 671,026,419,200 there without its prediction of more
   tokens: 256 biases in each of 58 routers are no weights here. */
#include <paradl/model/traits.h>

#include "test.h"

#include <stdlib.h>

#define LLAMA                                                                                          \
    "\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,\"rms_norm_eps\":1e-05," \
    "\"vocab_size\":32000,\"hidden_act\":\"silu\",\"initializer_range\":0.02"
#define QWEN3 "\"head_dim\":128,\"max_position_embeddings\":40960,\"vocab_size\":151936,\"rms_norm_eps\":1e-06"
#define BERT                                                                                           \
    "\"model_type\":\"bert\",\"hidden_size\":768,\"intermediate_size\":3072,\"num_hidden_layers\":12," \
    "\"num_attention_heads\":12,\"max_position_embeddings\":512,\"type_vocab_size\":2,\"vocab_size\":30522"
#define LATENT                                                                                  \
    "\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128," \
    "\"max_position_embeddings\":163840,\"rope_scaling\":{\"original_max_position_embeddings\":4096}"

static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_layer\":12,\"n_embd\":768,\"n_head\":12,"
                           "\"n_positions\":1024,\"vocab_size\":50257,\"n_inner\":null}";
static const char llama2[] = "{\"model_type\":\"llama\",\"intermediate_size\":11008,\"num_key_value_heads\":32,"
                             "\"max_position_embeddings\":4096,\"rope_scaling\":null," LLAMA "}";
static const char mistral[] = "{\"model_type\":\"mistral\",\"intermediate_size\":14336,\"num_key_value_heads\":8,"
                              "\"max_position_embeddings\":32768,\"sliding_window\":4096," LLAMA "}";
static const char mixtral[] = "{\"model_type\":\"mixtral\",\"intermediate_size\":14336,\"num_key_value_heads\":8,"
                              "\"max_position_embeddings\":4096,\"num_local_experts\":8,\"num_experts_per_tok\":2,"
                              "\"sliding_window\":null," LLAMA "}";
static const char qwen2[] = "{\"model_type\":\"qwen2\",\"hidden_size\":896,\"intermediate_size\":4864,"
                            "\"num_hidden_layers\":24,\"num_attention_heads\":14,\"num_key_value_heads\":2,"
                            "\"max_position_embeddings\":131072,\"sliding_window\":4096,\"max_window_layers\":24,"
                            "\"use_sliding_window\":false,\"vocab_size\":151936,\"tie_word_embeddings\":true}";
static const char qwen3[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":4096,\"intermediate_size\":12288,"
    "\"num_hidden_layers\":36,\"num_attention_heads\":32,\"num_key_value_heads\":8," QWEN3 "}";
static const char qwen3_moe[] = "{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"intermediate_size\":6144,"
                                "\"moe_intermediate_size\":768,\"num_experts\":128,\"num_experts_per_tok\":8,"
                                "\"mlp_only_layers\":[],\"num_hidden_layers\":48,\"num_attention_heads\":32,"
                                "\"num_key_value_heads\":4," QWEN3 "}";
static const char deepseek_v2[] =
    "{\"model_type\":\"deepseek_v2\",\"hidden_size\":2048,\"intermediate_size\":10944,"
    "\"moe_intermediate_size\":1408,\"n_routed_experts\":64,\"n_shared_experts\":2,"
    "\"num_experts_per_tok\":6,\"first_k_dense_replace\":1,\"num_hidden_layers\":27,"
    "\"num_attention_heads\":16,\"q_lora_rank\":null,\"vocab_size\":102400," LATENT "}";
static const char deepseek_v3[] =
    "{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"intermediate_size\":18432,"
    "\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"n_shared_experts\":1,"
    "\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"num_hidden_layers\":61,"
    "\"num_attention_heads\":128,\"q_lora_rank\":1536,\"vocab_size\":129280," LATENT "}";
static const char gpt_oss[] =
    "{\"model_type\":\"gpt_oss\",\"hidden_size\":2880,\"intermediate_size\":2880,\"num_hidden_layers\":24,\"head_"
    "dim\":64,"
    "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"num_local_experts\":32,\"num_experts_per_tok\":4,"
    "\"attention_bias\":true,\"rms_norm_eps\":1e-05,\"sliding_window\":128,\"max_position_embeddings\":131072,"
    "\"vocab_size\":201088,"
    "\"rope_scaling\":{\"original_max_position_embeddings\":4096}}";
static const char kimi_k2[] = "{\"model_type\":\"kimi_k2\",\"hidden_size\":7168,\"intermediate_size\":18432,"
                              "\"moe_intermediate_size\":2048,\"n_routed_experts\":384,\"n_shared_experts\":1,"
                              "\"num_experts_per_tok\":8,\"first_k_dense_replace\":1,\"num_hidden_layers\":61,"
                              "\"num_attention_heads\":64,\"q_lora_rank\":1536,\"vocab_size\":163840," LATENT "}";
static const char bert[] = "{\"architectures\":[\"BertModel\"]," BERT "}";
static const char bert_words[] = "{\"architectures\":[\"BertForMaskedLM\"]," BERT "}";
static const char vit[] = "{\"model_type\":\"vit\",\"hidden_size\":768,\"intermediate_size\":3072,"
                          "\"num_hidden_layers\":12,\"num_attention_heads\":12,\"image_size\":224,"
                          "\"patch_size\":16,\"num_labels\":1000}";

static pdl_model_t *read(const char *text)
{
    pdl_model_t *model = NULL;

    REQUIRE_OK(pdl_model_read_config_memory(text, strlen(text), "net/config.json", &model));
    return model;
}

static void has_the_published_parameters(void)
{
    static const struct {
        const char *text;
        int64_t     weights;
    } known[] = {
        {gpt2, 124439808},           {llama2, 6738415616},   {mistral, 7241732096},    {mixtral, 46702792704},
        {qwen2, 494032768},          {qwen3, 8190735360},    {qwen3_moe, 30532122624}, {deepseek_v2, 15706484224},
        {deepseek_v3, 671026404352}, {gpt_oss, 20908119360}, {kimi_k2, 1026408209408}, {bert, 109482240},
        {bert_words, 109514298},     {vit, 86567656},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        pdl_model_t       *model = read(known[i].text);
        pdl_model_totals_t totals;

        pdl_model_totals(model, &totals);
        CHECK_INT(totals.weights, known[i].weights);
        CHECK_STR(pdl_model_name(model), "net");
        pdl_model_destroy(model);
    }
}

/* The same layers with the same numbers, whatever their names. */
static void is_the_network_that_we_describe(void)
{
    static const struct {
        const char *text, *name;
    } same[] = {{gpt2, "gpt2-124m"}, {llama2, "llama2-7b"}, {mixtral, "mixtral-8x7b"}, {gpt_oss, "gpt-oss-20b"}};

    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        pdl_model_t *model = read(same[i].text), *ours = NULL;

        REQUIRE_OK(pdl_model_load(same[i].name, &ours));
        CHECK(pdl_model_hash(model) == pdl_model_hash(ours));
        /* Layers in pairs have classes of their own. */
        if (same[i].text != gpt_oss) CHECK_INT(pdl_model_class_count(model), pdl_model_class_count(ours));
        pdl_model_destroy(model);
        pdl_model_destroy(ours);
    }
}

static const pdl_layer_t *attention_of(const pdl_model_t *model)
{
    int i = 0;

    while (pdl_model_layer(model, i)->type != PDL_LAYER_ATTENTION) i++;
    return pdl_model_layer(model, i);
}

/* Of 32,768 tokens a query looks at 4,096; a pair takes the elements of a query and of a value. */
static void counts_windows_and_latent_heads(void)
{
    pdl_model_t       *windowed = read(mistral), *latent = read(deepseek_v3), *whole = read(qwen2);
    const pdl_layer_t *a = attention_of(windowed), *b = attention_of(latent);
    int64_t            pairs = INT64_C(2) * 32768 * 4096 - INT64_C(4096) * 4096;

    CHECK_INT(a->window, 4096);
    CHECK_INT(pdl_layer_macs(a), 2 * pairs * 4096);
    CHECK_INT(b->out.channels, 128 * 128);
    CHECK_INT(b->in.channels, 128 * (192 + 128 + 128) + 64);
    CHECK_INT(pdl_layer_macs(b), INT64_C(4096) * 4096 * 128 * (192 + 128));
    CHECK_INT(attention_of(whole)->window, 0);
    CHECK_INT(pdl_model_input(latent).extent[0], 4096);
    CHECK(strstr(pdl_model_remarks(windowed)[0], "last 4096 tokens") != NULL);
    /* Every other layer of gpt-oss. */
    pdl_model_t *every = read(gpt_oss);
    int          layers[2] = {0, 0};
    for (int i = 0; i < pdl_model_layer_count(every); i++)
        if (pdl_model_layer(every, i)->heads > 0) layers[pdl_model_layer(every, i)->window == 128]++;
    CHECK(layers[0] == 12 && layers[1] == 12 && attention_of(every)->window == 128);
    CHECK(strstr(pdl_model_remarks(every)[0], "276576 weights a layer, are left out") != NULL);
    pdl_model_destroy(every);
    pdl_model_destroy(windowed);
    pdl_model_destroy(latent);
    pdl_model_destroy(whole);
}

/* DeepSeek V3: down to vectors of 1,536 and of 512 with a rotated part of 64 (what generation keeps of a token: 576), up to 128 heads. The
   shared expert is a network beside the mixture, and no part of its eight. */
static void latent_attention_goes_down_and_up(void)
{
    static const struct {
        const char *name;
        int64_t     in, out;
    } layers[] = {{"self_attn.q_a_proj", 7168, 1536},     {"self_attn.q_b_proj", 1536, 128 * (128 + 64)},
                  {"self_attn.kv_a_proj", 7168, 512},     {"self_attn.kv_b_proj", 512, 128 * (128 + 128)},
                  {"self_attn.k_rotated_proj", 7168, 64}, {"self_attn.o_proj", 128 * 128, 7168},
                  {"shared_expert.up_proj", 7168, 2048},  {"shared_expert.gate_proj", 7168, 2048},
                  {"shared_expert.down_proj", 2048, 7168}};
    pdl_model_t *model = read(deepseek_v3);
    char         name[64];

    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        snprintf(name, sizeof(name), "layers.60.%s", layers[i].name);
        int at = pdl_model_find_layer(model, name);
        REQUIRE(at > 0);
        CHECK_INT(pdl_model_layer(model, at)->in.channels, layers[i].in);
        CHECK_INT(pdl_model_layer(model, at)->out.channels, layers[i].out);
        CHECK_INT(pdl_layer_macs(pdl_model_layer(model, at)), 4096 * layers[i].in * layers[i].out);
    }
    const pdl_layer_t *moe = pdl_model_layer(model, pdl_model_find_layer(model, "layers.60.block_sparse_moe"));
    CHECK_INT(moe->top_k, 8);
    CHECK_INT(moe->experts, 256);
    CHECK(pdl_model_find_layer(model, "layers.2.shared_expert.up_proj") < 0);
    pdl_model_destroy(model);
}

static void survives_writing_as_yaml(void)
{
    pdl_model_t *model = read(deepseek_v2), *again = NULL;
    char        *text;
    size_t       length;
    FILE        *stream = open_memstream(&text, &length);

    CHECK_OK(pdl_model_write_yaml(model, stream));
    fclose(stream);
    REQUIRE_OK(pdl_model_read_yaml_memory(text, length, "written", &again));
    CHECK(pdl_model_hash(again) == pdl_model_hash(model));
    pdl_model_destroy(again);
    pdl_model_destroy(model);
    free(text);
}

static void mistakes_name_the_field(void)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"{\"model_type\":\"mamba\"}", "field model_type: mamba is an unknown architecture; known are bert,"},
        {"{}", "field model_type: is missing"},
        {"[]", "no config.json"},
        {"{\"model_type\":\"llama\",", "config.json:1: no JSON"},
        {"{\"model_type\":\"llama\"}", "field num_hidden_layers: is missing, a model of type llama needs it"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":1.5}", "field n_layer: expected a whole number from 1"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":\"12\"}",
         "n_layer: expected a whole number from 1 to 2147483647, not "},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":10,\"n_head\":3,\"vocab_size\":9}",
         "field n_head: 3 do not divide the 10 of n_embd"},
        {"{\"model_type\":\"vit\",\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
         "\"intermediate_size\":8,\"hidden_act\":\"xielu\"}",
         "field hidden_act: xielu is none of"},
        {"{\"architectures\":[\"BertForTokenClassification\"]," BERT "}", "field architectures: BertForTokenCl"},
        {"{\"model_type\":\"gpt2\",\"n_layer\":2000000000,\"n_embd\":2,\"n_head\":1,\"vocab_size\":9}",
         "at most 100000 layers"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pdl_model_t *model = NULL;

        CHECK_INT(pdl_model_read_config_memory(wrong[i].text, strlen(wrong[i].text), "config.json", &model),
                  PDL_ERR_INPUT);
        CHECK(model == NULL);
        if (strstr(pdl_error_message(), wrong[i].says) == NULL) CHECK_STR(pdl_error_message(), wrong[i].says);
    }
}

int main(void)
{
    RUN(has_the_published_parameters);
    RUN(is_the_network_that_we_describe);
    RUN(counts_windows_and_latent_heads);
    RUN(latent_attention_goes_down_and_up);
    RUN(survives_writing_as_yaml);
    RUN(mistakes_name_the_field);
    return test_done();
}
