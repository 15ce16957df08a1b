/*
 * Plans of networks whose weights are frozen but for adapters: states and exchanges of adapters alone, by hand; what is frozen is on
 * every replica; time without gradients of frozen weights; closed form and replay.
 */
#include "test.h"

#include <paradl/oracle/oracle.h>
#include <paradl/plan/partition.h>

#include <string.h>

static const pdl_system_t *selene;
static pdl_model_t        *whole, *adapted;

/* GPT-2 124M, rank 8: queries, keys, values (768 to 2,304) and the projection behind attention (768 to 768), in 12 blocks. */
enum { ADAPTERS = 12 * 8 * (768 + 2304 + 768 + 768), WEIGHTS = 124439808 };

static pdl_config_t config_of(const char *strategy, int64_t data, int64_t tensor, int64_t pipeline)
{
    pdl_config_t c = pdl_config_default(strategy);

    c.data = data;
    c.tensor = tensor;
    c.pipeline = pipeline;
    c.batch = 64;
    c.micro_batches = 8;
    c.precision = PDL_BF16;
    c.optimizer = PDL_OPTIMIZER_ADAM;
    return c;
}

static pdl_projection_t project(const pdl_model_t *model, const pdl_config_t *config)
{
    pdl_parameters_t p;
    pdl_projection_t projection = {0};
    pdl_oracle_t    *oracle = NULL;

    pdl_parameters_default(&p);
    REQUIRE_OK(pdl_oracle_create(model, selene, &p, &oracle));
    CHECK_OK(pdl_oracle_evaluate(oracle, config, NULL, &projection));
    pdl_oracle_destroy(oracle);
    return projection;
}

/* bf16: two bytes of every weight; gradients of adapters in two, and their copy and moments in twelve. */
static void states_are_those_of_adapters(void)
{
    pdl_config_t     c = config_of("data", 8, 1, 1);
    pdl_projection_t p = project(adapted, &c), before = project(whole, &c);

    CHECK_NEAR(p.memory.weights, 2.0 * (WEIGHTS + ADAPTERS), 1e-12);
    CHECK_NEAR(p.memory.gradients, 2.0 * ADAPTERS, 1e-12);
    CHECK_NEAR(p.memory.optimizer, 12.0 * ADAPTERS, 1e-12);
    CHECK_NEAR(before.memory.weights, 2.0 * WEIGHTS, 1e-12);
    CHECK_NEAR(before.memory.optimizer, 12.0 * WEIGHTS, 1e-12);
    CHECK(p.update_s < 0.1 * before.update_s);
    CHECK(p.backward_s < 0.8 * before.backward_s && p.backward_s > 0.4 * before.backward_s);
    /* Shards are of what is trained. */
    c.sharding = PDL_SHARDING_ZERO3;
    p = project(adapted, &c);
    CHECK_NEAR(p.memory.weights, 2.0 * WEIGHTS + 2.0 * ADAPTERS / 8, 1e-12);
    CHECK_NEAR(p.memory.optimizer, 12.0 * ADAPTERS / 8, 1e-12);
    c.run_mode = PDL_INFERENCE;
    c.sharding = PDL_SHARDING_NONE;
    CHECK_NEAR(project(adapted, &c).memory.weights, 2.0 * (WEIGHTS + ADAPTERS), 1e-12);
}

/* A ring of 8 sends 14/8 of what it sums. */
static void only_gradients_of_adapters_are_exchanged(void)
{
    pdl_mesh_t       mesh = {{{PDL_AXIS_DATA, 8, 0}}, 1};
    pdl_plan_t      *plan;
    pdl_partition_t *partition;
    double           elements = 0;

    REQUIRE_OK(pdl_plan_create(adapted, &mesh, 64, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    REQUIRE_OK(pdl_partition_create(plan, 8, &partition));
    for (int i = 0; i < partition->transfer_count; i++) {
        const pdl_transfer_t *t = &partition->transfers[i];
        if (t->phase != PDL_PHASE_GRADIENT) continue;
        CHECK(strstr(pdl_model_layer(adapted, t->layer)->name, ".lora_") != NULL);
        elements += t->elements;
    }
    CHECK_NEAR(elements, ADAPTERS, 1e-12);
    pdl_partition_destroy(partition);
    pdl_plan_destroy(plan);
}

/* Adapters beside pairs of matrices: a filter beside filters, channels beside channels, and no more moves between than small ones. */
static void adapters_are_split_as_what_they_adapt(void)
{
    static const struct {
        const char *layer;
        pdl_mode_t  mode;
    } modes[] = {{"h.3.attn.c_attn", PDL_MODE_FILTER},          {"h.3.attn.c_attn.lora_a", PDL_MODE_REPLICATE},
                 {"h.3.attn.c_attn.lora_b", PDL_MODE_FILTER},   {"h.3.attn.c_attn.lora_sum", PDL_MODE_PASS},
                 {"h.3.attn.c_proj", PDL_MODE_CHANNEL},         {"h.3.attn.c_proj.lora_a", PDL_MODE_CHANNEL},
                 {"h.3.attn.c_proj.lora_b", PDL_MODE_REPLICATE}};
    pdl_mesh_t  mesh = {{{PDL_AXIS_TENSOR, 4, 0}}, 1};
    pdl_plan_t *plan;

    REQUIRE_OK(pdl_plan_create(adapted, &mesh, 64, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "tensor", NULL));
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        int at = pdl_model_find_layer(adapted, modes[i].layer);
        REQUIRE(at > 0);
        CHECK_INT(plan->modes[at].on[0], modes[i].mode);
    }
    pdl_plan_destroy(plan);
}

/* What is shown is replayed: the closed form is near it, on every mesh. */
static void replays_are_near_the_closed_form(void)
{
    static const struct {
        const char *strategy;
        int64_t     data, tensor, pipeline;
    } cases[] = {{"data", 8, 1, 1}, {"data+tensor", 4, 2, 1}, {"data+pipeline", 4, 1, 2}, {"3d", 2, 2, 2}};
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_config_t     c = config_of(cases[i].strategy, cases[i].data, cases[i].tensor, cases[i].pipeline);
        pdl_oracle_t    *oracle = NULL;
        pdl_projection_t closed, replayed;
        pdl_plan_t      *plan = NULL;

        c.batch = 128;
        c.micro_batches = 16;
        REQUIRE_OK(pdl_oracle_create(adapted, selene, &p, &oracle));
        REQUIRE_OK(pdl_oracle_evaluate(oracle, &c, NULL, &closed));
        REQUIRE_OK(pdl_oracle_plan(oracle, &c, &plan));
        replayed = closed;
        CHECK_OK(pdl_oracle_replay(oracle, plan, NULL, &replayed));
        CHECK_NEAR(replayed.total_s, closed.total_s, 0.06);
        pdl_plan_destroy(plan);
        pdl_oracle_destroy(oracle);
    }
}

/* Of the two gradients of a product, or of experts' products, a frozen layer has that of its input: half of backward where operations
   decide. A convolution is frozen likewise. */
static void frozen_layers_make_one_gradient(void)
{
    static const char form[] =
        "paradl: model/1\nname: m\ninput: {tokens: 4096, vocabulary: 50}\nlayers:\n  - embedding: {out: 4096}\n"
        "  - linear: {name: product, out: 8192, frozen: %s}\n"
        "  - moe: {name: experts, experts: 4, top_k: 2, hidden: 8192, gated: true, frozen: %s}\n  - linear: 50\n"
        "  - cross_entropy:\n";
    static const char *const names[] = {"product", "experts"};
    pdl_parameters_t         p;
    double                   seconds[2][2][2];

    pdl_parameters_default(&p);
    for (int frozen = 0; frozen < 2; frozen++) {
        const char   *word = frozen ? "true" : "false";
        char          text[512];
        int           length = snprintf(text, sizeof(text), form, word, word);
        pdl_model_t  *model = NULL;
        pdl_oracle_t *oracle = NULL;

        REQUIRE_OK(pdl_model_read_yaml_memory(text, (size_t)length, "m", &model));
        REQUIRE_OK(pdl_oracle_create(model, selene, &p, &oracle));
        for (int i = 0; i < 2; i++)
            CHECK_OK(pdl_oracle_layer_seconds(oracle, pdl_model_find_layer(model, names[i]), 4, PDL_BF16,
                                              seconds[frozen][i]));
        pdl_oracle_destroy(oracle);
        pdl_model_destroy(model);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_NEAR(seconds[1][i][0], seconds[0][i][0], 1e-12);
        CHECK_NEAR(seconds[1][i][1], seconds[0][i][1] / 2, i == 0 ? 1e-3 : 0.1);
    }
}

int main(void)
{
    pdl_lora_t lora = {8, PDL_LORA_ATTENTION};

    if (pdl_system_load("selene", &selene) || pdl_model_load("gpt2-124m", &whole) ||
        pdl_model_adapt(whole, &lora, &adapted))
        return 1;
    RUN(states_are_those_of_adapters);
    RUN(only_gradients_of_adapters_are_exchanged);
    RUN(adapters_are_split_as_what_they_adapt);
    RUN(replays_are_near_the_closed_form);
    RUN(frozen_layers_make_one_gradient);
    pdl_model_destroy(adapted);
    pdl_model_destroy(whole);
    pdl_system_destroy(selene);
    return test_done();
}
