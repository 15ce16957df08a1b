/*
 * Mixtures of experts with a capacity: operations, exchanges, memory and time are those of full experts, by hand; without one they are
 * those of the tokens' choices.
 */
#include "test.h"

#include <paradl/model/traits.h>
#include <paradl/oracle/oracle.h>
#include <paradl/plan/partition.h>

#include <string.h>

enum { TOKENS = 100, WIDTH = 64, INNER = 96, EXPERTS = 8, TOP_K = 2, SAMPLES = 16 };

/* Two choices of 100 tokens over 8 experts are 25 each; with a factor of 1.25 an expert has room for 31.25, which are 32. */
enum { FULL = EXPERTS * 32 };

static pdl_model_t *with_factor(const char *factor)
{
    static const char form[] =
        "paradl: model/1\nname: mixture\ninput: {tokens: %d, vocabulary: 50}\nlayers:\n  - embedding: {out: %d}\n"
        "  - moe: {name: moe, experts: %d, top_k: %d, hidden: %d, gated: true%s%s}\n  - linear: 50\n  - "
        "cross_entropy:\n";
    char         text[512];
    pdl_model_t *model = NULL;
    int          length = snprintf(text, sizeof(text), form, TOKENS, WIDTH, EXPERTS, TOP_K, INNER,
                          *factor ? ", capacity_factor: " : "", factor);

    REQUIRE_OK(pdl_model_read_yaml_memory(text, (size_t)length, "mixture", &model));
    return model;
}

static const pdl_layer_t *mixture(const pdl_model_t *model)
{
    int at = pdl_model_find_layer(model, "moe");

    REQUIRE(at > 0);
    return pdl_model_layer(model, at);
}

static void operations_are_those_of_full_experts(void)
{
    pdl_model_t       *dropless = with_factor(""), *full = with_factor("1.25"), *even = with_factor("1");
    const pdl_layer_t *a = mixture(dropless), *b = mixture(full), *c = mixture(even);

    CHECK_NEAR(pdl_layer_expert_rows(a), TOP_K, 0);
    CHECK_NEAR(pdl_layer_expert_rows(b), (double)FULL / TOKENS, 1e-15);
    CHECK_INT(pdl_layer_macs(a), TOKENS * WIDTH * EXPERTS + 3 * WIDTH * INNER * TOKENS * TOP_K);
    CHECK_INT(pdl_layer_macs(b), TOKENS * WIDTH * EXPERTS + 3 * WIDTH * INNER * FULL);
    CHECK_INT(c->flop_forward, a->flop_forward);
    CHECK_INT(b->weights, a->weights);
    CHECK(pdl_model_hash(full) != pdl_model_hash(dropless));
    pdl_model_destroy(even);
    pdl_model_destroy(full);
    pdl_model_destroy(dropless);
}

/* Elements of all-to-alls of a rank's micro-batch, and what it keeps. */
static double exchanged(const pdl_model_t *model, double *saved)
{
    pdl_mesh_t              mesh = {{{PDL_AXIS_TENSOR, 4, 0}}, 1};
    pdl_plan_t             *plan;
    pdl_partition_t        *partition;
    pdl_activation_memory_t memory;
    double                  elements = 0;

    REQUIRE_OK(pdl_plan_create(model, &mesh, SAMPLES, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "tensor", NULL));
    REQUIRE_OK(pdl_partition_create(plan, SAMPLES, &partition));
    for (int i = 0; i < partition->transfer_count; i++)
        if (partition->transfers[i].primitive == PDL_ALLTOALL) elements += partition->transfers[i].elements;
    pdl_partition_memory(partition, 0, pdl_model_layer_count(model), &memory);
    *saved = memory.saved;
    pdl_partition_destroy(partition);
    pdl_plan_destroy(plan);
    return elements;
}

static void buffers_are_exchanged_and_kept_full_or_not(void)
{
    pdl_model_t *dropless = with_factor(""), *full = with_factor("1.25");
    double       saved[2], inside = SAMPLES * WIDTH * (1 + 3.0 * INNER / WIDTH);

    CHECK_NEAR(exchanged(dropless, &saved[0]), 4.0 * SAMPLES * TOKENS * TOP_K * WIDTH, 1e-12);
    CHECK_NEAR(exchanged(full, &saved[1]), 4.0 * SAMPLES * FULL * WIDTH, 1e-12);
    /* A rank keeps what its share of the tokens has in experts. */
    CHECK(saved[1] > saved[0]);
    CHECK_NEAR((saved[1] - saved[0]) / (FULL - TOKENS * TOP_K), inside / 4, 1e-9);
    pdl_model_destroy(full);
    pdl_model_destroy(dropless);
}

static double seconds(const pdl_model_t *model)
{
    const pdl_system_t *system;
    pdl_parameters_t    p;
    pdl_oracle_t       *oracle;
    double              both[2];

    REQUIRE_OK(pdl_system_load("dgx-h100", &system));
    pdl_parameters_default(&p);
    p.kernel_s = 1e-30;
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    CHECK_OK(pdl_oracle_layer_seconds(oracle, pdl_model_find_layer(model, "moe"), 1e6, PDL_BF16, both));
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    return both[0] + both[1];
}

/* Products and passes go with the rows; the router's part, 1/37 of the operations, does not. */
static void full_experts_take_their_time(void)
{
    pdl_model_t *dropless = with_factor(""), *full = with_factor("1.25"), *twice = with_factor("2");
    double       ratio = seconds(full) / seconds(dropless);

    CHECK(ratio > 1.24 && ratio < (double)FULL / (TOKENS * TOP_K) + 1e-6);
    CHECK(seconds(twice) > 1.5 * seconds(full));
    pdl_model_destroy(twice);
    pdl_model_destroy(full);
    pdl_model_destroy(dropless);
}

/* config.json names it like the layer; shared experts stand beside the mixture and are no part of what is chosen. */
static void files_of_hugging_face_name_it(void)
{
    static const char form[] =
        "{\"model_type\":\"deepseek_v2\",\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"q_lora_rank\":96,\"kv_lora_rank\":64,\"qk_rope_head_dim\":16,\"qk_nope_head_"
        "dim\":32,"
        "\"v_head_dim\":32,\"vocab_size\":1000,\"n_routed_experts\":8,\"n_shared_experts\":2,\"num_experts_per_"
        "tok\":2,"
        "\"moe_intermediate_size\":64,\"first_k_dense_replace\":1,\"max_position_embeddings\":128,\"capacity_"
        "factor\":%s}";
    char         text[640];
    pdl_model_t *model = NULL;

    snprintf(text, sizeof(text), form, "1.5");
    REQUIRE_OK(pdl_model_read_config_memory(text, strlen(text), "config.json", &model));
    int moe = pdl_model_find_layer(model, "layers.1.block_sparse_moe");
    int shared = pdl_model_find_layer(model, "layers.1.shared_expert.up_proj");
    REQUIRE(moe > 0 && shared > 0);
    CHECK_NEAR(pdl_model_layer(model, moe)->capacity_factor, 1.5, 0);
    CHECK_INT(pdl_model_layer(model, moe)->top_k, 2);
    CHECK_INT(pdl_model_layer(model, shared)->out.channels, 2 * 64);
    pdl_model_destroy(model);
    snprintf(text, sizeof(text), form, "-1");
    CHECK_ERROR(pdl_model_read_config_memory(text, strlen(text), "config.json", &model), "capacity_factor");
    snprintf(text, sizeof(text), form, "1e99");
    CHECK_ERROR(pdl_model_read_config_memory(text, strlen(text), "config.json", &model),
                "a number from 0 to 65536");
}

int main(void)
{
    RUN(operations_are_those_of_full_experts);
    RUN(buffers_are_exchanged_and_kept_full_or_not);
    RUN(full_experts_take_their_time);
    RUN(files_of_hugging_face_name_it);
    return test_done();
}
