/*
 * Per-layer modes: the dynamic programme finds what trying every combination finds, is never worse than a
 * preset on the same mesh, keeps to memory where that is possible, and gives plans that pass every check.
 */
#include "test.h"

#include "oracle/mixed/mixed.h"

#include <paradl/oracle/search.h>

#include <stdlib.h>

static const char chain[] = "paradl: model/1\nname: chain\ninput: {channels: 8, size: [12, 12]}\nlayers:\n"
                            "  - conv: {name: a, out: 16, kernel: 3, pad: 1}\n"
                            "  - relu: {name: b}\n"
                            "  - conv: {name: c, out: 64, kernel: 3, pad: 1}\n"
                            "  - flatten: {name: d}\n"
                            "  - linear: {name: e, out: 256}\n";

static const char residual[] = "paradl: model/1\nname: residual\ninput: {channels: 32, size: [14, 14]}\nlayers:\n"
                               "  - conv: {name: a, out: 64, kernel: 3, pad: 1}\n"
                               "  - conv: {name: b, out: 64, kernel: 1}\n"
                               "  - conv: {name: c, out: 64, kernel: 3, pad: 1}\n"
                               "  - add: [c, a]\n"
                               "  - global_avg_pool: {name: e}\n";

static const char branches[] = "paradl: model/1\nname: branches\ninput: {channels: 16, size: [16, 16]}\nlayers:\n"
                               "  - conv: {name: a, out: 24, kernel: 3, pad: 1}\n"
                               "  - conv: {name: b, out: 40, kernel: 1}\n"
                               "  - conv: {name: c, from: a, out: 24, kernel: 5, pad: 2}\n"
                               "  - concat: [b, c, a]\n"
                               "  - conv: {name: e, out: 8, kernel: 1}\n";

static const char tokens[] = "paradl: model/1\nname: tokens\ninput: {tokens: 32}\nlayers:\n"
                             "  - embedding: {name: a, vocabulary: 512, out: 64}\n"
                             "  - layer_norm: {name: b}\n"
                             "  - linear: {name: c, out: 192}\n"
                             "  - attention: {name: d, heads: 4}\n"
                             "  - linear: {name: e, out: 64}\n";

/* An oracle whose costs are sums over layers: every collective is a ring and nothing overlaps, unless asked for. */
static pdl_oracle_t *plain_oracle(const pdl_model_t *model, const pdl_system_t *system, bool overlap)
{
    pdl_parameters_t p;
    pdl_oracle_t    *oracle = NULL;

    pdl_parameters_default(&p);
    p.overlap_gradients = overlap;
    p.ring_only = !overlap;
    p.call_s = 0;
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    return oracle;
}

static pdl_config_t on_mesh(int64_t data, int64_t inner, int64_t batch)
{
    pdl_config_t config = pdl_config_default("mixed");

    config.data = data;
    config.tensor = inner;
    config.batch = batch;
    return config;
}

/* The fastest of all combinations of modes that fit in memory, by projection. `plan` is overwritten. */
static double fastest_by_trial(pdl_oracle_t *oracle, pdl_plan_t *plan, int first_mode)
{
    int               axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_TENSOR), i;
    int               layers = pdl_model_layer_count(plan->model);
    const pdl_axis_t *inner = &plan->mesh.axis[axis];
    bool              whole = plan->batch / pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA) < inner->size;
    double            best = INFINITY;

    for (i = 0; i < layers; i++) plan->modes[i].on[axis] = (uint8_t)first_mode;
    do {
        pdl_projection_t projection;
        bool             samples = false;
        for (i = 0; i < layers; i++) samples |= plan->modes[i].on[axis] == PDL_MODE_SAMPLE;
        if (!(whole && samples)) {
            CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &projection));
            if (projection.fits && projection.total_s < best) best = projection.total_s;
        }
        /* Next combination, as an odometer over the allowed modes. */
        for (i = 0; i < layers; i++) {
            int mode = plan->modes[i].on[axis] + 1;
            while (mode < PDL_MODE_COUNT &&
                   !pdl_mode_allowed(pdl_model_layer(plan->model, i), (pdl_mode_t)mode, inner, NULL, 0))
                mode++;
            plan->modes[i].on[axis] = (uint8_t)(mode < PDL_MODE_COUNT ? mode : first_mode);
            if (mode < PDL_MODE_COUNT) break;
        }
    } while (i < layers);
    return best;
}

/* Different modes among the layers that have more than one to choose from. */
static int variety(const pdl_plan_t *plan)
{
    int      axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_TENSOR), count = 0;
    unsigned seen = 0;

    for (int i = 1; i < pdl_model_layer_count(plan->model); i++) {
        count += !(seen >> plan->modes[i].on[axis] & 1);
        seen |= 1u << plan->modes[i].on[axis];
    }
    return count;
}

typedef struct outcome {
    double found_s, best_s;
    int    variety; /* of the plan found */
} outcome_t;

static outcome_t compare_on_system(const char *text, const pdl_system_t *system, pdl_config_t config,
                                   int first_mode, bool overlap)
{
    pdl_model_t     *model = NULL;
    pdl_plan_t      *plan = NULL;
    outcome_t        result = {1, 1, 0};
    pdl_projection_t projection;

    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "test", &model));
    if (!model) return result;
    pdl_oracle_t *oracle = plain_oracle(model, system, overlap);
    CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &projection));
    if (plan) {
        CHECK_OK(pdl_plan_check(plan));
        result = (outcome_t){.found_s = projection.total_s, .variety = variety(plan)};
        result.best_s = fastest_by_trial(oracle, plan, first_mode);
    }
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    return result;
}

static void compare_with_trial(const char *text, const char *system_name, pdl_config_t config, int first_mode)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_load(system_name, &system));
    if (!system) return;
    outcome_t outcome = compare_on_system(text, system, config, first_mode, false);
    CHECK_NEAR(outcome.found_s, outcome.best_s, 1e-9);
    pdl_system_destroy(system);
}

static uint64_t seed = 1;

/* 10 to a power between low and high; splitmix64 draws the same everywhere. */
static double draw(double low, double high)
{
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return pow(10, low + (high - low) * (double)(z >> 11) * 0x1p-53);
}

/* A machine whose computation, links and start-up times stand in any proportion. */
static const pdl_system_t *drawn_system(void)
{
    const pdl_system_t *system = NULL;
    char                text[1024];

    snprintf(text, sizeof(text),
             "paradl: system/1\nname: drawn\ndescription: drawn at random\nsource: none\n"
             "device: {name: d, memory: 1TB, memory_bandwidth: %.0fB/s, peak: {fp32: %.0fFLOP/s},\n"
             "  compute_units: 1, launch: %.12fs, matrix_efficiency: 0.8, memory_efficiency: 0.8,\n"
             "  power: 100W, idle_power: 10W}\n"
             "levels:\n  - {name: node, transport: t, fanout: 4, bandwidth: %.0fB/s, latency: %.12fs, ports: 1}\n"
             "  - {name: machine, transport: t, fanout: 16, bandwidth: %.0fB/s, latency: %.12fs, ports: 1}\n",
             draw(10, 12), draw(10, 13), draw(-9, -7), draw(9, 12), draw(-9, -6), draw(8, 11), draw(-9, -5));
    CHECK_OK(pdl_system_read_memory(text, strlen(text), "drawn", &system));
    return system;
}

static outcome_t compare_on_drawn(int i, bool overlap)
{
    static const char *const texts[] = {chain, residual, branches, tokens};
    static const int64_t     sizes[][2] = {{1, 2}, {1, 4}, {2, 3}, {4, 4}, {8, 2}, {2, 8}};
    const pdl_system_t      *system = drawn_system();
    const int64_t           *size = sizes[i % 6];

    if (!system) return (outcome_t){1, 1, 0};
    pdl_config_t config = on_mesh(size[0], size[1], size[0] * (int64_t)draw(0, 2));
    pdl_mode_t   first = i % 10 ? PDL_MODE_REPLICATE : PDL_MODE_PASS;
    outcome_t    outcome = compare_on_system(texts[i % 4], system, config, first, overlap);
    pdl_system_destroy(system);
    return outcome;
}

static void drawn_machines_equal_trial(void)
{
    int varied = 0;

    for (int i = 0; i < 60; i++) {
        outcome_t outcome = compare_on_drawn(i, false);
        CHECK_NEAR(outcome.found_s, outcome.best_s, 1e-9);
        varied += outcome.variety >= 3;
    }
    CHECK(varied >= 10); /* the cases are not trivial */
}

/* Overlap and the choice of algorithms are not sums over layers: the result is then only close to the best. */
static void overlap_stays_close_to_trial(void)
{
    int far = 0;

    for (int i = 0; i < 60; i++) {
        outcome_t outcome = compare_on_drawn(i, true);
        CHECK(outcome.found_s <= 1.25 * outcome.best_s);
        far += outcome.found_s > 1.01 * outcome.best_s;
    }
    CHECK(far <= 3);
}

static void chain_equals_trial(void)
{
    compare_with_trial(chain, "abci-v", on_mesh(1, 4, 8), PDL_MODE_PASS);
    compare_with_trial(chain, "abci-v", on_mesh(4, 4, 64), PDL_MODE_REPLICATE);
    compare_with_trial(chain, "abci-v", on_mesh(8, 2, 8), PDL_MODE_REPLICATE);
    compare_with_trial(chain, "dgx-h100", on_mesh(2, 3, 4096), PDL_MODE_REPLICATE);
}

static void residual_equals_trial(void)
{
    compare_with_trial(residual, "abci-v", on_mesh(1, 4, 256), PDL_MODE_PASS);
    compare_with_trial(residual, "abci-v", on_mesh(2, 4, 2), PDL_MODE_REPLICATE);
    compare_with_trial(residual, "dgx-h100", on_mesh(4, 8, 4096), PDL_MODE_REPLICATE);
}

static void branches_equal_trial(void)
{
    compare_with_trial(branches, "abci-v", on_mesh(1, 4, 2), PDL_MODE_PASS);
    compare_with_trial(branches, "abci-v", on_mesh(2, 2, 512), PDL_MODE_REPLICATE);
    compare_with_trial(branches, "dgx-h100", on_mesh(2, 8, 2), PDL_MODE_REPLICATE);
}

static void tokens_equal_trial(void)
{
    pdl_config_t config = on_mesh(2, 4, 4);

    compare_with_trial(tokens, "abci-v", config, PDL_MODE_PASS);
    config.batch = 2048;
    compare_with_trial(tokens, "dgx-h100", config, PDL_MODE_REPLICATE);
    config.recompute = PDL_RECOMPUTE_FULL;
    config.micro_batches = 4;
    config.sharding = PDL_SHARDING_ZERO1;
    config.optimizer = PDL_OPTIMIZER_ADAM;
    compare_with_trial(tokens, "abci-v", config, PDL_MODE_REPLICATE);
    config.run_mode = PDL_INFERENCE;
    compare_with_trial(tokens, "abci-v", config, PDL_MODE_REPLICATE);
}

/* A plan file carries the modes of every layer through. */
static void check_round_trip(const pdl_plan_t *plan, const char *model_name)
{
    pdl_plan_file_t file = {0};
    char           *text = NULL;
    size_t          length;
    FILE           *stream = open_memstream(&text, &length);

    if (stream == NULL) return;
    CHECK_OK(pdl_plan_write(plan, model_name, NULL, NULL, NULL, stream));
    fclose(stream);
    pdl_status_t status = pdl_plan_read_memory(text, length, "test", &file);
    CHECK_OK(status);
    if (!status) {
        pdl_plan_t *brief = NULL;

        REQUIRE_OK(pdl_plan_copy(plan, &brief));
        pdl_plan_drop_unit_axes(brief); /* they are not written */
        CHECK_OK(pdl_plan_check(file.plan));
        CHECK_STR(file.plan->strategy, "mixed");
        CHECK(memcmp(file.plan->modes, brief->modes,
                     (size_t)pdl_model_layer_count(plan->model) * sizeof(*plan->modes)) == 0);
        pdl_plan_destroy(brief);
        pdl_plan_file_free(&file);
    }
    free(text);
}

static void check_presets(pdl_oracle_t *oracle, const pdl_config_t *config, const pdl_projection_t *mixed)
{
    static const char *const names[] = {"data+filter", "data+channel", "data+spatial",
                                        "data+tensor", "data+tensor",  "3d",
                                        "3d"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pdl_config_t     preset = *config;
        pdl_plan_t      *plan;
        pdl_projection_t projection;
        preset.strategy = pdl_strategy_find(names[i]);
        preset.sequence_parallel = i == 4 || i == 6;
        if (pdl_strategy_has(preset.strategy, PDL_AXIS_PIPELINE) != (config->pipeline > 1)) continue;
        if (strcmp(names[i], "data+spatial") == 0) {
            preset.spatial = preset.tensor;
            preset.tensor = 1;
        }
        if (pdl_oracle_plan(oracle, &preset, &plan)) continue;
        CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &projection));
        if (projection.fits) CHECK(mixed->fits);
        if (projection.fits == mixed->fits) CHECK(mixed->total_s <= projection.total_s * (1 + 1e-12));
        pdl_plan_destroy(plan);
    }
}

static void compare_with_presets(const char *model_name, const char *system_name, pdl_config_t config)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_parameters_t    p;
    pdl_projection_t    mixed, again;

    pdl_parameters_default(&p);
    REQUIRE_OK(pdl_model_load(model_name, &model));
    REQUIRE_OK(pdl_system_load(system_name, &system));
    if (!model || !system) return;
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &mixed));
    if (plan) {
        CHECK_OK(pdl_plan_check(plan));
        CHECK_STR(plan->strategy, "mixed");
        CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &again));
        CHECK_NEAR(again.total_s, mixed.total_s, 0);
        CHECK_NEAR(again.memory_bytes, mixed.memory_bytes, 0);
        check_presets(oracle, &config, &mixed);
        check_round_trip(plan, model_name);
    }
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* The same in two stages. */
static pdl_config_t in_stages(pdl_config_t config)
{
    config.pipeline = 2;
    config.micro_batches = 4;
    config.batch *= 4;
    return config;
}

static void never_worse_than_presets(void)
{
    static const int64_t     sizes[][2] = {{1, 2}, {1, 4}, {4, 4}, {16, 4}, {8, 16}, {3, 5}};
    static const char *const images[] = {"lenet",          "alexnet", "vgg16",  "resnet50",
                                         "resnet18-cifar", "unet",    "vit-b16"};

    for (size_t m = 0; m < sizeof(images) / sizeof(images[0]); m++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            compare_with_presets(images[m], "abci-v", on_mesh(sizes[i][0], sizes[i][1], 32 * sizes[i][0]));
            compare_with_presets(images[m], "dgx-h100", on_mesh(sizes[i][0], sizes[i][1], sizes[i][0]));
        }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pdl_config_t config = on_mesh(sizes[i][0], sizes[i][1], 4 * sizes[i][0]);
        config.precision = PDL_BF16;
        config.optimizer = PDL_OPTIMIZER_ADAM;
        compare_with_presets("gpt2-124m", "selene", config);
        compare_with_presets("gpt2-124m", "selene", in_stages(config));
        compare_with_presets("resnet50", "abci-v", in_stages(on_mesh(sizes[i][0], sizes[i][1], 8 * sizes[i][0])));
        compare_with_presets("mixtral-8x7b", "dgx-h100", config);
        compare_with_presets("llama3-8b", "dgx-h100", config);
    }
}

/* Few weights and large activations in front, the reverse behind: samples are split first, matrices then. */
static void splits_each_part_of_vgg_its_own_way(void)
{
    pdl_config_t        config = on_mesh(1, 4, 8);
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_projection_t    projection;

    REQUIRE_OK(pdl_model_load("vgg16", &model));
    REQUIRE_OK(pdl_system_load("abci-v", &system));
    if (!model || !system) return;
    pdl_oracle_t *oracle = plain_oracle(model, system, false);
    CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &projection));
    if (plan) {
        int axis = pdl_mesh_find(&plan->mesh, PDL_AXIS_TENSOR);
        int front = plan->modes[pdl_model_find_layer(model, "features.0")].on[axis];
        int back = plan->modes[pdl_model_find_layer(model, "classifier.0")].on[axis];
        CHECK_INT(front, PDL_MODE_SAMPLE);
        CHECK(back == PDL_MODE_FILTER || back == PDL_MODE_CHANNEL);
    }
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* Where the fastest does not fit but another does, that one is found. */
static void keeps_to_memory(void)
{
    pdl_config_t        config = on_mesh(1, 4, 64);
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_projection_t    free_choice, capped;

    CHECK_OK(pdl_model_read_yaml_memory(chain, strlen(chain), "test", &model));
    REQUIRE_OK(pdl_system_load("abci-v", &system));
    if (!model || !system) return;
    pdl_oracle_t *oracle = plain_oracle(model, system, false);
    CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &free_choice));
    if (!plan) return;
    for (int percent = 1; percent <= 64; percent *= 2) {
        pdl_plan_destroy(plan);
        plan = NULL;
        /* All but the variable part of memory is the same for every plan. */
        double fixed = free_choice.memory.workspace + free_choice.memory.context + free_choice.memory.buffers;
        pdl_oracle_set_memory_cap(oracle, fixed + (free_choice.memory_bytes - fixed) * (1 - percent / 100.0));
        CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &capped));
        double best = fastest_by_trial(oracle, plan, PDL_MODE_REPLICATE);
        CHECK_INT(capped.fits, isfinite(best));
        /* A multiplier reaches the lower hull of time over memory only. */
        if (capped.fits) CHECK(capped.total_s <= best * 1.1);
    }
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* Weights that two layers share lie alike for both, and no state is dropped on the way. */
static void shares_tied_weights(void)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_options_t       options;
    pdl_config_t        config = on_mesh(2, 4, 8);
    pdl_mesh_t          mesh = pdl_config_mesh(&config);
    int                 axis = pdl_mesh_find(&mesh, PDL_AXIS_TENSOR);

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    if (!model || !system) return;
    pdl_oracle_t *oracle = plain_oracle(model, system, false);
    config.strategy = pdl_strategy_find("data+tensor");
    CHECK_OK(pdl__plan_of_config(oracle, &config, &mesh, 0, &plan));
    REQUIRE_OK(pdl__options_create(oracle, plan, axis, &options));
    for (int price = 0; price < 6; price++) {
        pdl_mixed_goal_t   goal = {.hidden_share = 1, .seconds_per_byte = price ? pow(10, -15 + price) : 0};
        pdl_mixed_result_t result;
        CHECK_OK(pdl__mixed_run(&options, &goal, axis, plan->modes, &result));
        CHECK(result.possible && result.certified);
        for (int i = 0; i < pdl_model_layer_count(model); i++) {
            int tied = pdl_model_layer(model, i)->tied_to;
            if (tied < 0) continue;
            int first = plan->modes[tied].on[axis], second = plan->modes[i].on[axis];
            CHECK_INT(second == PDL_MODE_FILTER, first == PDL_MODE_VOCABULARY);
            CHECK_INT(second == PDL_MODE_CHANNEL, first == PDL_MODE_FILTER);
        }
    }
    pdl__options_free(&options);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

static void refuses_other_meshes(void)
{
    pdl_config_t        config = on_mesh(2, 2, 8);
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_projection_t    projection;

    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_system_load("abci-v", &system));
    if (!model || !system) return;
    pdl_oracle_t *oracle = plain_oracle(model, system, false);
    config.spatial = 2;
    CHECK_ERROR(pdl_search_mixed(oracle, &config, NULL, &plan, &projection), "pipeline x data x tensor");
    config.spatial = 1;
    config.batch = 1;
    CHECK_ERROR(pdl_search_mixed(oracle, &config, NULL, &plan, &projection), "larger than the batch");
    config.batch = 1 << 20;
    config.data = 1 << 20;
    CHECK_ERROR(pdl_search_mixed(oracle, &config, NULL, &plan, &projection), "devices");
    config = on_mesh(4, 1, 8);
    CHECK_OK(pdl_search_mixed(oracle, &config, NULL, &plan, &projection));
    CHECK_OK(plan ? pdl_plan_check(plan) : PDL_ERR_INPUT);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

int main(void)
{
    RUN(chain_equals_trial);
    RUN(residual_equals_trial);
    RUN(branches_equal_trial);
    RUN(tokens_equal_trial);
    RUN(drawn_machines_equal_trial);
    RUN(overlap_stays_close_to_trial);
    RUN(never_worse_than_presets);
    RUN(splits_each_part_of_vgg_its_own_way);
    RUN(keeps_to_memory);
    RUN(shares_tied_weights);
    RUN(refuses_other_meshes);
    return test_done();
}
