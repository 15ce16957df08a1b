/*
 * Simulated plans against closed forms: equal where the network is uniform, and where not, different in the way
 * that the schedule explains.
 */
#include "test.h"

#include <paradl/sim/plan_sim.h>

#include <stdlib.h>

/* Sixteen equal layers; the first has something to train before it, or its backward pass would be shorter. A
   machine whose devices hang on one switch, and another whose memory takes no time so that only those layers do. */
static const char uniform_text[] =
    "paradl: model/1\nname: uniform\ninput: {channels: 4096}\nblocks:\n  layer:\n    layers:\n"
    "      - linear: {name: fc, out: 4096, bias: false}\nlayers:\n  - layer_norm\n"
    "  - {block: layer, name: body, repeat: 16}\n";
static const char switch_text[] = "paradl: system/1\nname: switch\ndevice:\n  name: d\n  memory: 80GB\n"
                                  "  memory_bandwidth: 1000GB/s\n  peak: {fp32: 10TFLOP/s, bf16: 100TFLOP/s}\n"
                                  "levels:\n  - {name: switch, transport: any, fanout: 64, bandwidth: 10GB/s, "
                                  "latency: 5us}\n";

static const char ideal_text[] = "paradl: system/1\nname: ideal\ndevice:\n  name: d\n  memory: 80GB\n"
                                 "  memory_bandwidth: 1e15GB/s\n  peak: {fp32: 10TFLOP/s}\n"
                                 "levels:\n  - {name: switch, transport: any, fanout: 64, bandwidth: 10GB/s, "
                                 "latency: 5us}\n";

static const pdl_system_t *one_switch, *ideal, *abci, *selene, *frontier, *tsubame3;
static pdl_model_t        *uniform, *resnet50, *gpt2, *gpt3;

/* Nothing but operations, bytes and rings, one after the other. */
static pdl_parameters_t plain(void)
{
    pdl_parameters_t p;

    pdl_parameters_default(&p);
    p.kernel_s = 1e-30;
    p.update_tensor_s = 0;
    p.ring_only = true;
    p.overlap_gradients = false;
    p.overlap_slowdown = 1;
    return p;
}

static pdl_plan_sim_t *simulate_with(const pdl_model_t *model, const pdl_system_t *system,
                                     const pdl_parameters_t *p, const pdl_config_t *config,
                                     const pdl_plan_sim_options_t *options)
{
    pdl_oracle_t   *oracle;
    pdl_plan_t     *plan;
    pdl_plan_sim_t *sim = NULL;

    REQUIRE_OK(pdl_oracle_create(model, system, p, &oracle));
    CHECK_OK(pdl_oracle_plan(oracle, config, &plan));
    CHECK_OK(pdl_sim_plan(oracle, plan, options, &sim));
    if (sim == NULL) abort();
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    return sim;
}

static pdl_plan_sim_t *simulate(const pdl_model_t *model, const pdl_system_t *system, const pdl_parameters_t *p,
                                const pdl_config_t *config)
{
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    return simulate_with(model, system, p, config, &options);
}

static pdl_config_t pipeline(pdl_pipeline_schedule_t schedule, int64_t stages, int64_t micro_batches)
{
    pdl_config_t config = pdl_config_default("pipeline");

    config.pipeline = stages;
    config.batch = 16 * micro_batches;
    config.micro_batches = micro_batches;
    config.schedule = schedule;
    return config;
}

static double parts_sum(const pdl_plan_sim_t *sim)
{
    double sum = sim->simulated.compute_s + sim->simulated.bubble_s;

    for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) sum += sim->simulated.comm[i];
    return sum;
}

static void one_rank_is_the_sum_of_its_layers(void)
{
    pdl_parameters_t p;
    pdl_config_t     config = pdl_config_default("serial");

    pdl_parameters_default(&p);
    config.batch = 32;
    config.micro_batches = 4;
    pdl_plan_sim_t *sim = simulate(resnet50, selene, &p, &config);
    CHECK_NEAR(sim->simulated.total_s, sim->projected.total_s, 1e-12);
    CHECK_NEAR(sim->simulated.compute_s, sim->projected.compute_s, 1e-12);
    CHECK_INT(sim->flows, 0);
    CHECK_STR(sim->busiest_link, "");
    pdl_plan_sim_destroy(sim);
}

/* Work without the update, which follows the last pass. */
static double passes_s(const pdl_plan_sim_t *sim)
{
    return sim->simulated.compute_s - sim->projected.update_s;
}

static void bubble_is_stages_less_one_over_micro_batches(void)
{
    pdl_parameters_t p = plain();

    for (int stages = 2; stages <= 8; stages *= 2)
        for (int m = 1; m <= 16; m *= 4)
            for (int schedule = PDL_SCHEDULE_GPIPE; schedule <= PDL_SCHEDULE_1F1B; schedule++) {
                pdl_config_t    config = pipeline((pdl_pipeline_schedule_t)schedule, stages, m);
                pdl_plan_sim_t *sim = simulate(uniform, ideal, &p, &config);

                CHECK_NEAR(sim->simulated.bubble_s / passes_s(sim), (stages - 1.0) / m, 1e-9);
                CHECK_NEAR(sim->simulated.bubble_s, sim->projected.bubble_s, 1e-9);
                CHECK_NEAR(parts_sum(sim), sim->simulated.total_s, 1e-9);
                pdl_plan_sim_destroy(sim);
            }
}

static void interleaving_divides_the_bubble(void)
{
    pdl_parameters_t p = plain();
    pdl_config_t     config = pipeline(PDL_SCHEDULE_INTERLEAVED, 4, 8);

    for (int chunks = 1; chunks <= 4; chunks *= 2) {
        config.virtual_stages = chunks;
        pdl_plan_sim_t *sim = simulate(uniform, ideal, &p, &config);
        CHECK_NEAR(sim->simulated.bubble_s / passes_s(sim), 3.0 / 8 / chunks, 1e-9);
        CHECK_NEAR(sim->simulated.bubble_s, sim->projected.bubble_s, 1e-9);
        pdl_plan_sim_destroy(sim);
    }
}

/* GPipe pays a transfer only while the pipeline fills and drains. With 1F1B and equal stages neighbours wait for
   each other, and every micro-batch pays one. */
static void equal_stages_of_1f1b_pay_every_transfer(void)
{
    pdl_parameters_t p = plain();

    for (int m = 8; m <= 32; m *= 2) {
        pdl_config_t    gpipe = pipeline(PDL_SCHEDULE_GPIPE, 2, m), one = pipeline(PDL_SCHEDULE_1F1B, 2, m);
        pdl_plan_sim_t *a = simulate(uniform, ideal, &p, &gpipe), *b = simulate(uniform, ideal, &p, &one);
        double          once = a->projected.comm[PDL_COMM_STAGE] / 2;

        CHECK_NEAR(a->simulated.comm[PDL_COMM_STAGE], 2 * once, 1e-6);
        CHECK_NEAR(b->simulated.comm[PDL_COMM_STAGE], m * once, 1e-6);
        pdl_plan_sim_destroy(a);
        pdl_plan_sim_destroy(b);
    }
}

typedef struct equal_case {
    const char         *what, *strategy;
    pdl_model_t *const *model;
    int64_t             pipeline, data, spatial, tensor, batch, micro_batches;
    pdl_sharding_t      sharding;
    pdl_recompute_t     recompute;
    bool                any_algorithm;
} equal_case_t;

static pdl_config_t config_of(const equal_case_t *e)
{
    pdl_config_t config = pdl_config_default(e->strategy);

    config.pipeline = e->pipeline;
    config.data = e->data;
    config.spatial = e->spatial;
    config.tensor = e->tensor;
    config.batch = e->batch;
    config.micro_batches = e->micro_batches;
    config.sharding = e->sharding;
    config.recompute = e->recompute;
    return config;
}

/* One switch, nothing overlapped: the closed form is exact, whatever the strategy. */
static void equals_the_closed_form_on_one_switch(void)
{
    static const equal_case_t cases[] = {
        {"data", "data", &resnet50, 1, 64, 1, 1, 2048, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"data, least", "data", &resnet50, 1, 64, 1, 1, 2048, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, true},
        {"data, odd", "data", &resnet50, 1, 7, 1, 1, 224, 2, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"zero1", "data", &gpt2, 1, 16, 1, 1, 64, 2, PDL_SHARDING_ZERO1, PDL_RECOMPUTE_NONE, false},
        {"zero3", "data", &gpt2, 1, 16, 1, 1, 64, 2, PDL_SHARDING_ZERO3, PDL_RECOMPUTE_FULL, false},
        {"spatial", "spatial", &resnet50, 1, 1, 4, 1, 32, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"data+spatial", "data+spatial", &resnet50, 1, 16, 4, 1, 512, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE,
         false},
        {"filter", "filter", &resnet50, 1, 1, 1, 8, 32, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"channel", "channel", &resnet50, 1, 1, 1, 2, 32, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"tensor", "tensor", &gpt2, 1, 1, 1, 4, 8, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, false},
        {"data+tensor", "data+tensor", &gpt2, 1, 16, 1, 4, 128, 2, PDL_SHARDING_NONE, PDL_RECOMPUTE_FULL, true},
    };
    pdl_parameters_t p = plain();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const equal_case_t *e = &cases[i];
        pdl_config_t        config = config_of(e);

        p.ring_only = !e->any_algorithm;
        pdl_plan_sim_t *sim = simulate(*e->model, one_switch, &p, &config);
        printf("     %-14s projected %.6g s, simulated %.6g s\n", e->what, sim->projected.total_s,
               sim->simulated.total_s);
        CHECK_NEAR(sim->simulated.total_s, sim->projected.total_s, 0.01);
        for (int k = 0; k < PDL_COMM_CLASS_COUNT; k++)
            if (k != PDL_COMM_STAGE) CHECK_NEAR(sim->simulated.comm[k], sim->projected.comm[k], 0.01);
        pdl_plan_sim_destroy(sim);
    }
}

/* A machine with contention on several levels, and the parameters fitted to it: nothing overlaps there. */
static void equals_the_closed_form_of_a_measured_machine(void)
{
    static const equal_case_t cases[] = {
        {"data", "data", &resnet50, 1, 512, 1, 1, 16384, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, true},
        {"data+spatial", "data+spatial", &resnet50, 1, 128, 4, 1, 4096, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE,
         true},
        {"data+filter", "data+filter", &resnet50, 1, 32, 1, 4, 1024, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE,
         true},
        {"filter", "filter", &resnet50, 1, 1, 1, 16, 32, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, true},
        {"channel", "channel", &resnet50, 1, 1, 1, 4, 32, 1, PDL_SHARDING_NONE, PDL_RECOMPUTE_NONE, true},
    };
    pdl_parameters_t p;

    CHECK_OK(pdl_parameters_choose(NULL, abci, &p));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_config_t    config = config_of(&cases[i]);
        pdl_plan_sim_t *sim = simulate(*cases[i].model, abci, &p, &config);

        printf("     %-14s projected %.6g s, simulated %.6g s\n", cases[i].what, sim->projected.total_s,
               sim->simulated.total_s);
        CHECK_NEAR(sim->simulated.total_s, sim->projected.total_s, 0.01);
        pdl_plan_sim_destroy(sim);
    }
}

/* The defaults, on machines with several levels: what the project asks of closed forms holds for 3-D plans too. */
static void three_dimensions_on_a_large_machine(void)
{
    pdl_config_t     config = pdl_config_default("3d");
    pdl_parameters_t p;

    CHECK_OK(pdl_parameters_choose(NULL, selene, &p));
    config.pipeline = 16;
    config.data = 8;
    config.tensor = 8;
    config.batch = 512;
    config.micro_batches = 64;
    config.precision = PDL_BF16;
    config.optimizer = PDL_OPTIMIZER_ADAM;
    config.recompute = PDL_RECOMPUTE_FULL;
    pdl_plan_sim_t *sim = simulate(gpt3, selene, &p, &config);
    CHECK_INT(sim->ranks, 1024);
    CHECK_INT(sim->stage_count, 16);
    CHECK_NEAR(sim->simulated.total_s, sim->projected.total_s, 0.01);
    CHECK_NEAR(parts_sum(sim), sim->simulated.total_s, 1e-9);
    for (int s = 0; s < sim->stage_count; s++)
        CHECK(sim->stages[s].idle_share > 0 && sim->stages[s].idle_share < 0.5);
    CHECK(sim->busiest_share > 0 && sim->busiest_share < 1);
    pdl_plan_sim_destroy(sim);
}

static void thousand_ranks_of_data_and_spatial(void)
{
    pdl_config_t     config = pdl_config_default("data+spatial");
    pdl_parameters_t p;

    CHECK_OK(pdl_parameters_choose(NULL, frontier, &p));
    config.data = 256;
    config.spatial = 4;
    config.batch = 8192;
    pdl_plan_sim_t *a = simulate(resnet50, frontier, &p, &config), *b = simulate(resnet50, frontier, &p, &config);
    CHECK_INT(a->ranks, 1024);
    CHECK(a->flows > 1000 && a->simulated.comm[PDL_COMM_HALO] > 0);
    CHECK_NEAR(a->simulated.total_s, a->projected.total_s, 0.01);
    /* The same question has the same answer, to the bit. */
    CHECK_NEAR(b->simulated.total_s, a->simulated.total_s, 0);
    CHECK_NEAR(b->busiest_bytes, a->busiest_bytes, 0);
    CHECK_INT(b->flows, a->flows);
    pdl_plan_sim_destroy(a);
    pdl_plan_sim_destroy(b);
}

/* devices with a link per partner: a halo has one of the three, not all. */
static void a_halo_has_one_link_of_a_mesh(void)
{
    pdl_parameters_t p = plain();
    pdl_config_t     config = pdl_config_default("spatial");

    config.spatial = 4;
    config.batch = 32;
    pdl_plan_sim_t *sim = simulate(resnet50, tsubame3, &p, &config);
    for (int i = 0; i < sim->comm_count; i++) {
        const pdl_comm_sim_t *comm = &sim->comms[i];
        double                volume = comm->bytes / (20e9 * p.fabric_efficiency);

        if (comm->primitive != PDL_HALO) continue;
        CHECK_NEAR(comm->simulated_s, 10e-6 + volume, 1e-6);
        CHECK_NEAR(comm->projected_s, 10e-6 + volume, 1e-6);
    }
    pdl_plan_sim_destroy(sim);
}

static void engines_agree_where_steps_are_symmetric(void)
{
    pdl_parameters_t       p = plain();
    pdl_config_t           config = pdl_config_default("data");
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    config.data = 64;
    config.batch = 2048;
    pdl_plan_sim_t *a = simulate_with(resnet50, one_switch, &p, &config, &options);
    options.engine = PDL_ENGINE_LOADS;
    pdl_plan_sim_t *b = simulate_with(resnet50, one_switch, &p, &config, &options);
    CHECK_NEAR(b->simulated.total_s, a->simulated.total_s, 1e-6);
    pdl_plan_sim_destroy(a);
    pdl_plan_sim_destroy(b);
}

/* Overlapped: nothing that can be hidden is paid, the last bucket always is. */
static void buckets_hide_behind_backward(void)
{
    pdl_parameters_t p = plain();
    pdl_config_t     config = pdl_config_default("data");

    config.data = 8;
    config.batch = 8 * 256;
    pdl_plan_sim_t *after = simulate(resnet50, selene, &p, &config);
    p.overlap_gradients = true;
    pdl_plan_sim_t *beside = simulate(resnet50, selene, &p, &config);
    double          exposed = beside->simulated.comm[PDL_COMM_GRADIENT];
    CHECK(exposed > 0 && exposed < 0.5 * after->simulated.comm[PDL_COMM_GRADIENT]);
    CHECK(beside->comm_count > 1);
    CHECK_NEAR(beside->simulated.compute_s, after->simulated.compute_s, 1e-9);
    p.bucket_bytes = 1e12;
    pdl_plan_sim_t *one = simulate(resnet50, selene, &p, &config);
    CHECK_NEAR(one->simulated.comm[PDL_COMM_GRADIENT], after->simulated.comm[PDL_COMM_GRADIENT], 1e-9);
    pdl_plan_sim_destroy(after);
    pdl_plan_sim_destroy(beside);
    pdl_plan_sim_destroy(one);
}

static void everyone_waits_for_a_slow_rank(void)
{
    pdl_parameters_t       p = plain();
    pdl_config_t           config = pdl_config_default("data");
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    config.data = 8;
    config.batch = 256;
    options.slow_rank = 5;
    options.slow_factor = 1.5;
    pdl_plan_sim_t *sim = simulate_with(resnet50, one_switch, &p, &config, &options);
    CHECK_NEAR(sim->simulated.compute_s, 1.5 * sim->projected.compute_s, 1e-9);
    CHECK_NEAR(sim->simulated.comm[PDL_COMM_GRADIENT], sim->projected.comm[PDL_COMM_GRADIENT], 0.01);
    pdl_plan_sim_destroy(sim);
    config = pipeline(PDL_SCHEDULE_1F1B, 4, 8);
    options.slow_rank = 2;
    sim = simulate_with(uniform, one_switch, &p, &config, &options);
    CHECK_NEAR(sim->stages[2].compute_s, 1.5 * sim->stages[1].compute_s, 1e-9);
    CHECK(sim->stages[2].idle_share < sim->stages[1].idle_share);
    pdl_plan_sim_destroy(sim);
}

/* On networks that are not trees everything but symmetric steps is counted link by link. */
static void equals_the_closed_form_on_any_network(void)
{
    static const struct {
        const char *network, *strategy, *expected;
        int         nodes, devices; /* of a node */
    } cases[] = {
        {"{topology: torus, dims: [4, 4], link_bandwidth: 5GB/s}", "data", NULL, 16, 2},
        {"{topology: torus, dims: [3, 3], link_bandwidth: 2GB/s}", "data", "multiport:3", 9, 1},
        {"{topology: torus, dims: [4, 4], link_bandwidth: 2GB/s}", "data", "multiport:4", 16, 1},
        {"{topology: kautz, degree: 3, diameter: 2, link_bandwidth: 2GB/s}", "data", "kautz", 12, 1},
        {"{topology: dln, hosts: 32, hosts_per_switch: 2, link_bandwidth: 5GB/s}", "data", NULL, 32, 2},
        {"{topology: dragonfly, shape: [2, 4, 2, 9], link_bandwidth: 5GB/s}", "data", NULL, 72, 2},
        {"{topology: dragonfly, shape: [2, 4, 2, 9], link_bandwidth: 5GB/s}", "pipeline", NULL, 72, 2},
        {"{topology: torus, dims: [4, 4], link_bandwidth: 5GB/s}", "spatial", NULL, 16, 2},
        {"{topology: hypercube, hosts: 16, link_bandwidth: 5GB/s}", "tensor", NULL, 16, 2},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_parameters_t    p = plain();
        pdl_config_t        config = pdl_config_default(cases[i].strategy);
        const pdl_system_t *system;
        char                text[640];
        int                 length =
            snprintf(text, sizeof(text),
                     "paradl: system/1\nname: net\ndevice: {name: d, memory: 80GB, memory_bandwidth: 1000GB/s, "
                     "peak: {fp32: 10TFLOP/s}}\nlevels:\n  - {name: node, fanout: %d, bandwidth: 50GB/s, latency: "
                     "1us}\n  - {name: machine, fanout: %d, bandwidth: 10GB/s, latency: 5us}\nnetwork: %s\n",
                     cases[i].devices, cases[i].nodes, cases[i].network);

        p.ring_only = false;
        config.batch = 16 * cases[i].nodes;
        if (strcmp(cases[i].strategy, "data") == 0) config.data = cases[i].devices * cases[i].nodes;
        if (strcmp(cases[i].strategy, "pipeline") == 0) config.pipeline = config.micro_batches = 16;
        if (strcmp(cases[i].strategy, "spatial") == 0) config.spatial = 8;
        if (strcmp(cases[i].strategy, "tensor") == 0) config.tensor = 4;
        REQUIRE_OK(pdl_system_read_memory(text, (size_t)length, "net", &system));
        pdl_plan_sim_t *sim =
            simulate(strcmp(cases[i].strategy, "spatial") == 0 ? resnet50 : gpt2, system, &p, &config);
        printf("     %-9s projected %g s, simulated %g s on %s\n", cases[i].strategy, sim->projected.total_s,
               sim->simulated.total_s, cases[i].network);
        CHECK_NEAR(sim->simulated.total_s, sim->projected.total_s, 0.01);
        CHECK(sim->simulated.total_s > sim->simulated.compute_s);
        if (cases[i].expected != NULL && sim->comm_count > 0) CHECK_STR(sim->comms[0].algorithm, cases[i].expected);
        pdl_plan_sim_destroy(sim);
        pdl_system_destroy(system);
    }
}

static void bad_questions_are_refused(void)
{
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();
    pdl_parameters_t       p = plain();
    pdl_config_t           config = pipeline(PDL_SCHEDULE_INTERLEAVED, 4, 8);
    pdl_oracle_t          *oracle;
    pdl_plan_t            *plan;
    pdl_plan_sim_t        *sim;

    REQUIRE_OK(pdl_oracle_create(uniform, one_switch, &p, &oracle));
    CHECK_OK(pdl_oracle_plan(oracle, &config, &plan));
    options.engine = PDL_ENGINE_SIMGRID;
    CHECK_ERROR(pdl_sim_plan(oracle, plan, &options, &sim), "flow and loads");
    options = pdl_plan_sim_options_default();
    options.slow_rank = 4;
    CHECK_ERROR(pdl_sim_plan(oracle, plan, &options, &sim), "ranks 0 to 3");
    options = pdl_plan_sim_options_default();
    options.slow_factor = 0;
    CHECK_ERROR(pdl_sim_plan(oracle, plan, &options, &sim), "above 0");
    options.slow_factor = 1;
    plan->virtual_stages = 8;
    CHECK_ERROR(pdl_sim_plan(oracle, plan, &options, &sim), "layers");
    plan->virtual_stages = 1;
    plan->stage_first[1] = plan->stage_first[2];
    CHECK_ERROR(pdl_sim_plan(oracle, plan, &options, &sim), "empty");
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
}

int main(void)
{
    CHECK_OK(pdl_system_read_memory(switch_text, sizeof(switch_text) - 1, "switch", &one_switch));
    CHECK_OK(pdl_system_read_memory(ideal_text, sizeof(ideal_text) - 1, "ideal", &ideal));
    REQUIRE_OK(pdl_system_load("abci-v", &abci));
    REQUIRE_OK(pdl_system_load("selene", &selene));
    REQUIRE_OK(pdl_system_load("frontier", &frontier));
    REQUIRE_OK(pdl_system_load("tsubame3", &tsubame3));
    CHECK_OK(pdl_model_read_yaml_memory(uniform_text, sizeof(uniform_text) - 1, "uniform", &uniform));
    REQUIRE_OK(pdl_model_load("resnet50", &resnet50));
    REQUIRE_OK(pdl_model_load("gpt2-124m", &gpt2));
    REQUIRE_OK(pdl_model_load("gpt3-175b", &gpt3));
    RUN(one_rank_is_the_sum_of_its_layers);
    RUN(bubble_is_stages_less_one_over_micro_batches);
    RUN(interleaving_divides_the_bubble);
    RUN(equal_stages_of_1f1b_pay_every_transfer);
    RUN(equals_the_closed_form_on_one_switch);
    RUN(equals_the_closed_form_of_a_measured_machine);
    RUN(three_dimensions_on_a_large_machine);
    RUN(thousand_ranks_of_data_and_spatial);
    RUN(a_halo_has_one_link_of_a_mesh);
    RUN(engines_agree_where_steps_are_symmetric);
    RUN(buckets_hide_behind_backward);
    RUN(everyone_waits_for_a_slow_rank);
    RUN(equals_the_closed_form_on_any_network);
    RUN(bad_questions_are_refused);
    pdl_model_destroy(uniform);
    pdl_model_destroy(resnet50);
    pdl_model_destroy(gpt2);
    pdl_model_destroy(gpt3);
    pdl_system_destroy(one_switch);
    pdl_system_destroy(ideal);
    pdl_system_destroy(abci);
    pdl_system_destroy(selene);
    pdl_system_destroy(frontier);
    pdl_system_destroy(tsubame3);
    return test_done();
}
