/*
 * The winners of a search are plans that others can read: each is written, read back and simulated, with the time that the search
 * projected. So are the best configurations of the exact search, also where memory is so short that state is on the host.
 */
#include "test.h"

#include <paradl/oracle/exact.h>
#include <paradl/sim/plan_sim.h>

#include <math.h>
#include <stdlib.h>

static const pdl_system_t *machine;
static pdl_parameters_t    parameters;
static pdl_precision_t     precision = PDL_BF16;
static pdl_engine_t        engine = PDL_ENGINE_LOADS;
static int                 read_back, offloaded, contexts, interleaved;

static void count(const pdl_plan_t *plan)
{
    read_back++;
    offloaded += plan->optimizer_tier != PDL_TIER_DEVICE;
    contexts += pdl_mesh_extent(&plan->mesh, PDL_AXIS_SPATIAL) > 1;
    interleaved += plan->schedule == PDL_SCHEDULE_INTERLEAVED;
}

/* The time of the plan that was read is the projected one; schedules of its collectives are those of the network. */
static void check_plan(const pdl_plan_t *plan, double seconds)
{
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();
    pdl_plan_file_t        file = {.plan = NULL};
    pdl_oracle_t          *oracle;
    pdl_plan_sim_t        *sim = NULL;
    char                  *text = NULL;
    size_t                 size = 0;
    FILE                  *stream = open_memstream(&text, &size);

    options.engine = engine;
    REQUIRE_OK(pdl_plan_write(plan, NULL, NULL, NULL, NULL, stream));
    fclose(stream);
    REQUIRE_OK(pdl_plan_read_memory(text, size, "plan", &file));
    REQUIRE_OK(pdl_oracle_create(file.model, machine, &parameters, &oracle));
    REQUIRE_OK(pdl_sim_plan(oracle, file.plan, &options, &sim));
    CHECK_NEAR(sim->projected.total_s, seconds, 1e-6);
    CHECK(sim->simulated.total_s > 0.8 * seconds && sim->simulated.total_s < 1.25 * seconds);
    if (test_failures > 0) printf("%.*s%g s, simulated %g s\n", (int)size, text, seconds, sim->simulated.total_s);
    count(file.plan);
    pdl_plan_sim_destroy(sim);
    pdl_oracle_destroy(oracle);
    pdl_plan_file_free(&file);
    free(text);
}

static void check_config(pdl_oracle_t *oracle, const pdl_config_t *config)
{
    pdl_plan_t      *plan;
    pdl_projection_t replayed;

    REQUIRE_OK(pdl_oracle_plan(oracle, config, &plan));
    REQUIRE_OK(pdl_oracle_settle(oracle, plan));
    REQUIRE_OK(pdl_oracle_replay(oracle, plan, NULL, &replayed));
    check_plan(plan, replayed.total_s);
    pdl_plan_destroy(plan);
}

static void winners(const char *name, int64_t pe, int64_t batch, double max_memory)
{
    pdl_exact_options_t exact = {.top = 3, .threads = 1};
    pdl_request_t       request = pdl_request_default();
    pdl_model_t        *model;
    pdl_oracle_t       *oracle;
    pdl_search_t       *search;

    REQUIRE_OK(pdl_model_load(name, &model));
    REQUIRE_OK(pdl_oracle_create(model, machine, &parameters, &oracle));
    request.pe = pe;
    request.batch = batch;
    request.precision = precision;
    request.optimizer = PDL_OPTIMIZER_ADAM;
    request.max_memory = max_memory;
    request.exact = &exact;
    REQUIRE_OK(pdl_search_run(oracle, &request, &search));
    CHECK(search->possible > 0 || search->exact->count > 0);
    for (int i = 0; i < search->possible; i++) {
        const pdl_candidate_t *c = &search->candidates[i];

        check_plan(c->plan, c->projection.total_s);
        CHECK(i == 0 || c->score >= search->candidates[i - 1].score || pdl_candidates_tie(c, c - 1));
    }
    for (int i = 0; i < search->exact->count; i++) check_config(oracle, &search->exact->best[i].config);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
}

static void winners_are_read_and_simulated(void)
{
    winners("gpt2-124m", 16, 32, 0);
    winners("lenet", 8, 64, 0);
    winners("gpt3-1.3b", 2, 2, 1e10);
    CHECK(read_back > 20 && offloaded > 0 && contexts > 0 && interleaved > 0);
}

/* Where the cheapest schedules are others than the formulas assume while configurations are compared. */
static void rows_show_what_is_written(void)
{
    winners("bert-large", 32, 128, 0);
    winners("resnet18", 16, 1024, 0);
}

int main(void)
{
    static const char *const others[] = {"dgx-h100", "frontier", "abci-v"};

    REQUIRE_OK(pdl_system_load("selene", &machine));
    pdl_parameters_default(&parameters);
    RUN(winners_are_read_and_simulated);
    pdl_system_destroy(machine);
    engine = PDL_ENGINE_FLOW;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        REQUIRE_OK(pdl_system_load(others[i], &machine));
        REQUIRE_OK(pdl_parameters_choose(NULL, machine, &parameters));
        precision = i == 0 ? PDL_BF16 : PDL_FP32;
        RUN(rows_show_what_is_written);
        pdl_system_destroy(machine);
    }
    return test_done();
}
