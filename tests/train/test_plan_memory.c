/*
 * The memory of a plan is that of the rank that holds most: one rank of every class and a few micro-batches tell what all
 * ranks with all of them take.
 */
#include "random_plan.h"
#include "test.h"
#include <math.h>
#include <paradl/oracle/search.h>
#include <paradl/train/dry.h>
#include <string.h>

/* Parts of buckets are whole lines, so that ranks differ by some of them; where modes are drawn by chance, also by messages. */
#define LOST        0.003
#define LOST_RANDOM 0.05

static pdl_backend_t *backend;
static int            compared, looked_at, ranks_in_all;

static pdl_status_t most_of_all(const pdl_plan_t *plan, size_t *most)
{
    pdl_session_spec_t   spec;
    pdl_session_memory_t memory;
    pdl_status_t         status = PDL_OK;

    pdl_session_defaults(&spec);
    spec.optimizer.method = plan->optimizer == PDL_OPTIMIZER_ADAM ? PDL_METHOD_ADAMW : PDL_METHOD_SGD;
    spec.optimizer.momentum = plan->optimizer == PDL_OPTIMIZER_SGD ? 0 : 0.9;
    spec.plan = plan;
    spec.backend = backend;
    *most = 0;
    for (int rank = 0; rank < pdl_mesh_size(&plan->mesh) && !status; rank++) {
        pdl_session_t *session;

        status = pdl_session_create_dry(&spec, rank, &session);
        if (status) break;
        pdl_session_memory(session, &memory);
        pdl_session_destroy(session);
        if (memory.total > *most) *most = memory.total;
    }
    return status;
}

static void compare(const pdl_plan_t *plan, double lost)
{
    pdl_plan_memory_t found;
    size_t            most;
    pdl_status_t      status = most_of_all(plan, &most);

    CHECK_INT(pdl_plan_memory(plan, backend, &found), status);
    if (status) return;
    CHECK(found.memory.total <= most);
    CHECK((double)found.memory.total >= (1 - lost) * (double)most);
    compared++;
    looked_at += found.looked_at;
    ranks_in_all += (int)pdl_mesh_size(&plan->mesh);
}

static void random_plan(int seed)
{
    pdl_model_t *model;
    pdl_plan_t  *plan;
    pdl_mesh_t   mesh;

    random_seed = (uint64_t)seed * 7919 + 1;
    int which = (int)between(0, NETWORKS - 1), ranks = (int)between(2, 12);
    REQUIRE_OK(pdl_model_read_yaml_memory(networks[which], strlen(networks[which]), "network", &model));
    draw_mesh(&mesh, model, ranks);
    int64_t micro_batches = between(1, 9);
    REQUIRE_OK(pdl_plan_create(model, &mesh, pdl_mesh_extent(&mesh, PDL_AXIS_DATA) * micro_batches * between(1, 3),
                               &plan));
    draw_modes(plan);
    REQUIRE_OK(draw_policies(plan, which > 0));
    plan->micro_batches = micro_batches;
    if (pdl_plan_check(plan) == PDL_OK) compare(plan, LOST_RANDOM);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void random_plans(void)
{
    for (int seed = 1; seed <= 150; seed++) random_plan(seed);
    CHECK(compared > 50);
}

static void compare_strategy(const pdl_model_t *model, const pdl_system_t *system, const pdl_strategy_t *strategy)
{
    pdl_strategy_mesh_t mesh = {0};

    while (pdl_strategy_next_mesh(strategy, 8, pdl_model_layer_count(model), &mesh)) {
        pdl_config_t     config = pdl_config_on(strategy, &mesh);
        pdl_parameters_t parameters;
        pdl_oracle_t    *oracle;
        pdl_plan_t      *plan;

        config.batch = 256;
        config.micro_batches = 32;
        config.optimizer = PDL_OPTIMIZER_ADAM;
        config.sharding = config.data > 1 ? PDL_SHARDING_ZERO2 : PDL_SHARDING_NONE;
        if (config.pipeline > 1 && config.pipeline < 4) {
            config.schedule = config.data == 4 ? PDL_SCHEDULE_INTERLEAVED : PDL_SCHEDULE_GPIPE;
            config.virtual_stages = config.data == 4 ? 2 : 1;
        }
        pdl_parameters_default(&parameters);
        REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
        if (pdl_oracle_plan(oracle, &config, &plan) == PDL_OK) {
            if (pdl_oracle_settle(oracle, plan) == PDL_OK && pdl_plan_check(plan) == PDL_OK) compare(plan, LOST);
            pdl_plan_destroy(plan);
        }
        pdl_oracle_destroy(oracle);
    }
}

static void named_strategies(void)
{
    static const char *const models[] = {"resnet-tiny", "gpt-char-small"};
    const pdl_system_t      *system;

    REQUIRE_OK(pdl_system_load("frontier", &system));
    for (int m = 0; m < 2; m++) {
        pdl_model_t *model;
        REQUIRE_OK(pdl_model_load(models[m], &model));
        for (int i = 0; pdl_strategy_at(i) != NULL; i++)
            if (!pdl_strategy_at(i)->per_layer && pdl_strategy_at(i)->axes > 0)
                compare_strategy(model, system, pdl_strategy_at(i));
        pdl_model_destroy(model);
    }
    pdl_system_destroy(system);
    CHECK(2 * looked_at < ranks_in_all);
}

/* Two devices whose exchanges take long: every gather of sharded weights, and every reduction of a part, counts. */
static const char pair[] =
    "paradl: system/1\nname: pair\nsource: a test\nbackend: cpu\n"
    "device: {name: core, memory: 1GB, memory_bandwidth: 800GB/s, peak: {fp32: 8TFLOP/s}, launch: 1us, reserved: "
    "1MB}\n"
    "levels:\n  - {name: node, transport: shared-memory, fanout: 2, bandwidth: 4GB/s, latency: 100us}\n";
static const char blocks[] =
    "paradl: model/1\nname: two\nextends: gpt2-124m\n"
    "parameters: {layers: 2, hidden: 64, heads: 4, tokens: 64, vocabulary: 65, dropout: 0, bias: "
    "0, gelu_tanh: 0}\n";

/* The seconds of data parallelism within so much memory; 0: it is not possible. */
static double seconds_within(const pdl_model_t *model, const pdl_system_t *system, double bytes)
{
    pdl_request_t         request = pdl_request_default();
    pdl_memory_counter_t *counter;
    pdl_parameters_t      parameters;
    pdl_oracle_t         *oracle;
    pdl_search_t         *search;

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    REQUIRE_OK(pdl_memory_counter_create(system, 2, &counter));
    request.pe = 2;
    request.batch = 16;
    request.strategy = pdl_strategy_find("data");
    request.optimizer = PDL_OPTIMIZER_ADAM;
    request.max_memory = bytes;
    request.memory = pdl_memory_counter_count;
    request.memory_context = counter;
    REQUIRE_OK(pdl_search_run(oracle, &request, &search));
    const pdl_projection_t *p = &search->candidates[0].projection;
    double                  seconds = search->possible > 0 ? p->total_s : 0;
    CHECK(seconds == 0 || p->memory_bytes <= bytes);
    pdl_search_destroy(search);
    pdl_memory_counter_destroy(counter);
    pdl_oracle_destroy(oracle);
    return seconds;
}

/* A plan that fits in some memory fits in more; a heavier policy must win by 2 %, which is all that may be lost. */
static void more_memory_is_not_slower(void)
{
    static const double mib[] = {2.8, 3, 3.2, 3.4, 4.8};
    const pdl_system_t *system;
    pdl_model_t        *model;
    double              fastest = INFINITY;

    REQUIRE_OK(pdl_system_read_memory(pair, strlen(pair), "pair", &system));
    REQUIRE_OK(pdl_model_read_yaml_memory(blocks, strlen(blocks), "two", &model));
    for (size_t i = 0; i < sizeof(mib) / sizeof(*mib); i++) {
        double seconds = seconds_within(model, system, mib[i] * 1024 * 1024);
        CHECK(seconds > 0);
        CHECK(seconds <= fastest / 0.98);
        fastest = fmin(fastest, seconds);
    }
    pdl_model_destroy(model);
    pdl_system_destroy(system);
}

int main(void)
{
    REQUIRE_OK(pdl_backend_create_describing(NULL, 1, PDL_DTYPE_F32, &backend));
    RUN(random_plans);
    RUN(named_strategies);
    RUN(more_memory_is_not_slower);
    pdl_backend_destroy(backend);
    return test_done();
}
