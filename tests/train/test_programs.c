/*
 * One program, read by all: what the oracle prices, the simulator times and a session executes is the same list, with the
 * same bytes for every group and the same arena; for every named strategy and for random plans.
 */
#include "random_plan.h"
#include "same_program.h"
#include "test.h"
#include <paradl/oracle/replay.h>
#include <paradl/sim/plan_sim.h>
#include <stdlib.h>

#define RANDOM_PLANS 200

/* Devices of the processor's backend. */
static const char machine_text[] =
    "paradl: system/1\nname: machine\ndevice:\n  name: core\n  memory: 64GB\n  memory_bandwidth: 8GB/s\n"
    "  peak: {fp32: 80GFLOP/s}\nlevels:\n"
    "  - {name: node, transport: shared-memory, fanout: 4, bandwidth: 4GB/s, latency: 2us}\n"
    "  - {name: cluster, transport: mpi, fanout: 16, bandwidth: 1GB/s, latency: 5us}\nbackend: cpu\n";

static const pdl_system_t *machine;
static pdl_backend_t      *backend;
static int                 compared, refused;

static const pdl_program_t *session_program(const pdl_plan_t *plan, int64_t rank, pdl_session_t **session,
                                            pdl_status_t *status)
{
    pdl_session_spec_t spec;

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    *status = pdl_session_create_dry(&spec, (int)rank, session);
    return *status ? NULL : pdl_session_program(*session);
}

/* The program of a rank of every stage, and of any rank. */
static pdl_status_t compare_programs(const pdl_plan_t *plan, const pdl_timeline_t *priced,
                                     const pdl_timeline_t *simulated)
{
    pdl_session_t *session;
    pdl_status_t   status = PDL_OK;

    CHECK_INT(simulated->count, priced->count);
    for (int k = 0; k < priced->count && !status; k++) {
        const pdl_program_t *executed = session_program(plan, priced->ranks[k].rank, &session, &status);
        if (status) break;
        CHECK_INT(simulated->ranks[k].rank, priced->ranks[k].rank);
        status = check_program(executed, priced->ranks[k].program);
        if (!status) status = check_program(executed, simulated->ranks[k].program);
        pdl_session_destroy(session);
    }
    if (status) return status;
    session_program(plan, between(0, pdl_mesh_size(&plan->mesh) - 1), &session, &status);
    if (status) return status;
    status = check_compiled(session);
    pdl_session_destroy(session);
    return status;
}

/* Who refuses a plan is not alone. */
static pdl_status_t compare_refusals(const pdl_plan_t *plan, pdl_status_t why)
{
    pdl_session_t *session;
    pdl_status_t   status;

    if (why != PDL_ERR_LIMIT && why != PDL_ERR_UNSUPPORTED) return why;
    session_program(plan, 0, &session, &status);
    if (!status) pdl_session_destroy(session);
    refused++;
    return status == why ? PDL_OK : pdl_error(PDL_ERR_INPUT, "status %d of the oracle is %d of a run", why, status);
}

static void compare_plan(pdl_plan_t *plan)
{
    pdl_oracle_t          *oracle;
    pdl_parameters_t       parameters;
    pdl_timeline_t        *priced = NULL;
    pdl_plan_sim_t        *sim = NULL;
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();

    pdl_parameters_default(&parameters);
    options.engine = PDL_ENGINE_LOADS;
    REQUIRE_OK(pdl_oracle_create(plan->model, machine, &parameters, &oracle));
    REQUIRE_OK(pdl_oracle_settle(oracle, plan));
    pdl_status_t status = pdl_oracle_timeline(oracle, plan, &priced);
    if (status) {
        CHECK_OK(compare_refusals(plan, status));
    } else {
        REQUIRE_OK(pdl_sim_plan(oracle, plan, &options, &sim));
        REQUIRE(sim->timeline != NULL);
        CHECK_OK(compare_programs(plan, priced, sim->timeline));
        compared++;
    }
    pdl_plan_sim_destroy(sim);
    pdl_timeline_destroy(priced);
    pdl_oracle_destroy(oracle);
}

/* On every mesh of a few devices that the strategy allows. */
static void compare_strategy(const pdl_model_t *model, const pdl_strategy_t *strategy, int64_t devices)
{
    pdl_strategy_mesh_t mesh = {0};

    while (pdl_strategy_next_mesh(strategy, devices, pdl_model_layer_count(model), &mesh)) {
        pdl_config_t     config = pdl_config_on(strategy, &mesh);
        pdl_parameters_t parameters;
        pdl_oracle_t    *oracle;
        pdl_plan_t      *plan;

        config.batch = 16;
        config.micro_batches = config.pipeline > 1 ? 4 : 1;
        pdl_parameters_default(&parameters);
        REQUIRE_OK(pdl_oracle_create(model, machine, &parameters, &oracle));
        if (pdl_oracle_plan(oracle, &config, &plan) == PDL_OK) {
            if (pdl_plan_check(plan) == PDL_OK) compare_plan(plan);
            pdl_plan_destroy(plan);
        }
        pdl_oracle_destroy(oracle);
    }
}

static void named_strategies(void)
{
    static const char *const models[] = {"resnet-tiny", "gpt-char-small"};

    for (int i = 0; pdl_strategy_at(i) != NULL; i++) {
        const pdl_strategy_t *strategy = pdl_strategy_at(i);
        if (strategy->per_layer) continue;
        /* Pipelines of two inner axes are of eight ranks at the least. */
        bool    eight = pdl_strategy_splits_twice(strategy) && pdl_strategy_has(strategy, PDL_AXIS_PIPELINE);
        int64_t devices = strategy->axes == 0 ? 1 : eight ? 8 : 4;
        int     before = compared;
        for (int m = 0; m < 2; m++) {
            pdl_model_t *model;
            REQUIRE_OK(pdl_model_load(models[m], &model));
            compare_strategy(model, strategy, devices);
            pdl_model_destroy(model);
        }
        CHECK(compared > before);
    }
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
    REQUIRE_OK(pdl_plan_create(model, &mesh, 4 + between(0, 2) * ranks + between(0, 1), &plan));
    draw_modes(plan);
    REQUIRE_OK(draw_policies(plan, which > 0));
    plan->sync_batch_norm = between(0, 1);
    if (pdl_plan_check(plan) == PDL_OK) compare_plan(plan);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void random_plans(void)
{
    int before = compared;

    for (int seed = 1; seed < 10 * RANDOM_PLANS && compared - before < RANDOM_PLANS; seed++) random_plan(seed);
    CHECK_INT(compared - before, RANDOM_PLANS);
    CHECK(refused > 0);
}

int main(void)
{
    REQUIRE_OK(pdl_system_read_memory(machine_text, strlen(machine_text), "machine", &machine));
    REQUIRE_OK(pdl_backend_create_cpu(&(pdl_cpu_options_t){.threads = 1}, &backend));
    RUN(named_strategies);
    RUN(random_plans);
    pdl_backend_destroy(backend);
    pdl_system_destroy(machine);
    return test_done();
}
