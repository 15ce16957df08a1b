/*
 * Frameworks: the built-in ones are read, lie over their parameter set and change nothing else; mistakes are named.
 */
#include "test.h"
#include <math.h>
#include <paradl/base/share.h>
#include <paradl/oracle/framework.h>
#include <stdlib.h>
#include <string.h>

static void built_in_frameworks_are_read(void)
{
    static const char *const extensions[] = {".yaml", NULL};
    char                   **names = NULL;
    size_t                   count = 0;

    REQUIRE_OK(pdl_share_list("frameworks", extensions, &names, &count));
    CHECK(count >= 10);
    for (size_t i = 0; i < count; i++) {
        pdl_framework_t  f;
        pdl_parameters_t p;
        CHECK_OK(pdl_framework_load(names[i], &f));
        CHECK_STR(f.name, names[i]);
        CHECK_OK(pdl_parameters_load(f.base, &p));
    }
    pdl_share_free_list(names, count);
}

static void a_framework_lies_over_its_set(void)
{
    const pdl_system_t *system = NULL;
    pdl_framework_t     f;
    pdl_parameters_t    base, over, ideal;

    REQUIRE_OK(pdl_system_load("h200", &system));
    REQUIRE_OK(pdl_framework_load("pytorch", &f));
    REQUIRE_OK(pdl_parameters_load("published", &base));
    over = base;
    pdl_framework_apply(&f, &over);
    CHECK_STR(over.framework, "pytorch");
    CHECK(over.autocast && !base.autocast);
    CHECK_NEAR(over.pool_index_bytes, 8, 0);
    /* What it does not name stays. */
    CHECK_NEAR(over.network_efficiency, base.network_efficiency, 0);
    CHECK_INT(over.overlap_gradients, base.overlap_gradients);
    /* A set that is named comes before that of the framework, and without a framework the set of the system is taken. */
    REQUIRE_OK(pdl_framework_choose("pytorch", "default", system, &over));
    CHECK_STR(over.name, "default");
    CHECK_NEAR(over.network_efficiency, 0.85, 0);
    REQUIRE_OK(pdl_framework_choose(NULL, NULL, system, &ideal));
    CHECK_STR(ideal.framework, "");
    CHECK_NEAR(ideal.queue_layer_s, 0, 0);
    pdl_system_destroy(system);
}

/* Half of the interval, in ln. */
static double width_on(const char *machine, const char *framework, pdl_run_mode_t mode)
{
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_parameters_t    p;
    pdl_config_t        config = pdl_config_default("serial");
    pdl_projection_t    projection = {0};

    config.batch = 64;
    config.run_mode = mode;
    REQUIRE_OK(pdl_system_load(machine, &system));
    REQUIRE_OK(pdl_model_load("resnet50", &model));
    REQUIRE_OK(pdl_framework_choose(framework, NULL, system, &p));
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    CHECK_OK(pdl_oracle_evaluate(oracle, &config, NULL, &projection));
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    pdl_system_destroy(system);
    return 0.5 * log(projection.high_s / projection.low_s);
}

/* The framework was measured on one machine, its set fitted to several; no machine of either has shares that are estimates. */
static void intervals_are_wide_on_other_machines(void)
{
    CHECK(width_on("h200", "pytorch", PDL_TRAINING) < 0.2);
    CHECK_NEAR(width_on("selene", "pytorch", PDL_TRAINING), 0.25, 1e-9);
    CHECK(width_on("selene", "megatron", PDL_TRAINING) < 0.2);
    CHECK_NEAR(width_on("frontier", "megatron", PDL_TRAINING), 0.25, 1e-9);
    /* No run that anything was fitted to was inference. */
    CHECK_NEAR(width_on("h200", "pytorch", PDL_INFERENCE), 0.65, 1e-9);
}

static void defaults_are_read(void)
{
    pdl_framework_t f;

    REQUIRE_OK(pdl_framework_load("megatron", &f));
    CHECK_INT(f.sharding, PDL_SHARDING_ZERO1);
    CHECK(f.sequence_parallel && f.interleaved && !f.dropout && !f.recompute_given);
    REQUIRE_OK(pdl_framework_load("megatron-lm", &f));
    CHECK(f.recompute_given && f.recompute == PDL_RECOMPUTE_FULL && f.dropout);
}

/* Kernels that were written for an older device are no faster on a newer one. */
static void attention_has_a_bound(void)
{
    static const char   yaml[] = "paradl: model/1\nname: one\ninput: {tokens: 8192, vocabulary: 2}\nlayers:\n"
                                 "  - embedding: {out: 12288}\n  - attention: {heads: 32, causal: true}\n";
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_parameters_t    p;
    double              free_s[2], bound_s[2], flop = 4.0 * 8192 * 8192 * 4096 / 2;

    REQUIRE_OK(pdl_system_load("h200", &system));
    REQUIRE_OK(pdl_framework_choose("pytorch", NULL, system, &p));
    REQUIRE_OK(pdl_model_read_yaml_memory(yaml, sizeof(yaml) - 1, "attention", &model));
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    int last = pdl_model_layer_count(model) - 1;
    CHECK_OK(pdl_oracle_layer_seconds(oracle, last, 4, PDL_BF16, free_s));
    p.attention_flop_per_s = 100e12;
    pdl_oracle_set_parameters(oracle, &p);
    CHECK_OK(pdl_oracle_layer_seconds(oracle, last, 4, PDL_BF16, bound_s));
    CHECK(bound_s[0] > 4 * flop / 100e12 && bound_s[0] > 3 * free_s[0] && bound_s[1] > 3 * free_s[1]);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    pdl_system_destroy(system);
}

/* Host time counts alike in the closed form and when passes are replayed one after the other. */
static void host_time_is_replayed(void)
{
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_parameters_t    p;
    pdl_config_t        config = pdl_config_default("serial");
    pdl_projection_t    closed, replayed;

    REQUIRE_OK(pdl_system_load("h200", &system));
    REQUIRE_OK(pdl_framework_choose("pytorch", NULL, system, &p));
    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    config.precision = PDL_BF16;
    config.optimizer = PDL_OPTIMIZER_ADAM;
    for (int recompute = PDL_RECOMPUTE_NONE; recompute <= PDL_RECOMPUTE_FULL; recompute++) {
        config.batch = 4;
        config.recompute = (pdl_recompute_t)recompute;
        REQUIRE_OK(pdl_oracle_evaluate(oracle, &config, NULL, &closed));
        REQUIRE_OK(pdl_oracle_plan(oracle, &config, &plan));
        CHECK_OK(pdl_oracle_replay(oracle, plan, NULL, &replayed));
        CHECK_NEAR(replayed.total_s, closed.total_s, 0.02);
        pdl_plan_destroy(plan);
    }
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    pdl_system_destroy(system);
}

static void mistakes_are_named(void)
{
    static const struct {
        const char *line, *message;
    } cases[] = {{"parameters: {launch: 1us}", "unknown parameter \"launch\""},
                 {"switches: {fused: true}", "unknown switch \"fused\""},
                 {"defaults: {sharding: zero9}", "zero9"},
                 {"colour: red", "colour"}};
    pdl_framework_t f;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char  path[] = "/tmp/paradl-framework-XXXXXX";
        int   fd = mkstemp(path);
        FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
        CHECK(file != NULL);
        if (!file) return;
        fprintf(file, "paradl: framework/1\nname: mine\n%s\n", cases[i].line);
        fclose(file);
        CHECK_ERROR(pdl_framework_load(path, &f), cases[i].message);
        remove(path);
    }
    CHECK_ERROR(pdl_framework_load("pytroch", &f), "pytorch");
}

int main(void)
{
    RUN(built_in_frameworks_are_read);
    RUN(a_framework_lies_over_its_set);
    RUN(intervals_are_wide_on_other_machines);
    RUN(defaults_are_read);
    RUN(attention_has_a_bound);
    RUN(host_time_is_replayed);
    RUN(mistakes_are_named);
    return test_done();
}
