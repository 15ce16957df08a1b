/*
 * The borders of virtual stages: those that are projected, simulated, written and run are the same.
 */
#include "oracle/project/passes.h"
#include "program/lower/pipe.h"
#include "test.h"

#include <paradl/sim/plan_sim.h>

#include <stdlib.h>
#include <string.h>

typedef struct bench {
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_parameters_t    parameters;
    pdl_oracle_t       *oracle;
} bench_t;

static void set_up(bench_t *b, const char *model)
{
    CHECK_OK(pdl_model_load(model, &b->model));
    CHECK_OK(pdl_system_load("dgx-v100", &b->system));
    CHECK_OK(pdl_parameters_choose(NULL, b->system, &b->parameters));
    CHECK_OK(pdl_oracle_create(b->model, b->system, &b->parameters, &b->oracle));
}

static void tear_down(bench_t *b)
{
    pdl_oracle_destroy(b->oracle);
    pdl_system_destroy(b->system);
    pdl_model_destroy(b->model);
}

static pdl_plan_t *make_plan(const bench_t *b, int64_t ranks, int virtual_stages)
{
    pdl_mesh_t  mesh = {{{PDL_AXIS_PIPELINE, ranks, 0}}, 1};
    pdl_plan_t *plan = NULL;

    CHECK_OK(pdl_plan_create(b->model, &mesh, 32, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "pipeline", NULL));
    plan->micro_batches = 8;
    plan->schedule = virtual_stages > 1 ? PDL_SCHEDULE_INTERLEAVED : PDL_SCHEDULE_1F1B;
    CHECK_OK(pdl_plan_set_virtual_stages(plan, virtual_stages));
    CHECK_OK(pdl_plan_check(plan));
    return plan;
}

/* What the trainer runs is what the plan says, layer by layer. */
static void check_run(const pdl_plan_t *plan)
{
    pdl__pipe_t *pipe = NULL;
    int          ranks = (int)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);

    CHECK_OK(pdl__pipe_create(plan, 0, &pipe));
    for (int k = 0; k < pdl_plan_stage_count(plan); k++)
        for (int i = plan->stage_first[k]; i < plan->stage_first[k + 1]; i++) {
            CHECK_INT(pipe->run[i], k);
            CHECK_INT(pdl__pipe_stage_of(pipe, i), k % ranks);
        }
    pdl__pipe_destroy(pipe);
}

/* What the oracle replays. */
static void check_projected(bench_t *b, const pdl_plan_t *plan)
{
    int                  ranks = (int)pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE), v = plan->virtual_stages;
    pdl__pass_prices_t   pp = {0};
    pdl__pass_spec_t     spec = {.stage_first = plan->stage_first};
    pdl__closed_prices_t prices = pdl__closed_prices(b->oracle, ranks, false);

    CHECK_OK(pdl__case_of_plan(b->oracle, plan, NULL, &spec.c));
    spec.prices = &prices.prices;
    CHECK_OK(pdl__profile_create(b->oracle, plan, spec.c.micro_batch, &spec.profile));
    CHECK_OK(pdl__price_passes(b->oracle, &spec, &pp));
    for (int k = 0; k < ranks * v; k++) {
        CHECK_INT(pp.chunks[k % ranks * v + k / ranks].first, plan->stage_first[k]);
        CHECK_INT(pp.chunks[k % ranks * v + k / ranks].last, plan->stage_first[k + 1]);
    }
    pdl__pass_prices_free(&pp);
    pdl__profile_destroy(spec.profile);
}

static void check_simulated(bench_t *b, pdl_plan_t *plan)
{
    pdl_plan_sim_options_t options = pdl_plan_sim_options_default();
    pdl_plan_sim_t        *sim = NULL;

    CHECK_OK(pdl_sim_plan(b->oracle, plan, &options, &sim));
    for (int s = 0; s < sim->stage_count; s++) {
        CHECK_INT(sim->stages[s].first_layer, plan->stage_first[s]);
        CHECK_INT(sim->stages[s].last_layer, plan->stage_first[s + 1]);
    }
    pdl_plan_sim_destroy(sim);
}

/* The plan after it was written and read. */
static void read_again(const pdl_plan_t *plan, const char *model, pdl_plan_file_t *file)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *stream = open_memstream(&text, &size);

    CHECK_OK(pdl_plan_write(plan, model, NULL, NULL, NULL, stream));
    fclose(stream);
    CHECK_OK(pdl_plan_read_memory(text, size, "p.yaml", file));
    free(text);
}

static void compare(const char *model, int64_t ranks, int virtual_stages)
{
    bench_t          b;
    pdl_plan_file_t  file;
    pdl_projection_t planned, again;

    set_up(&b, model);
    pdl_plan_t *plan = make_plan(&b, ranks, virtual_stages);
    size_t      bytes = (size_t)(pdl_plan_stage_count(plan) + 1) * sizeof(int);
    int        *by_work = malloc(bytes);
    memcpy(by_work, plan->stage_first, bytes);
    check_run(plan); /* without a machine */
    CHECK_OK(pdl_oracle_settle(b.oracle, plan));
    CHECK(plan->stages_given);
    CHECK(memcmp(by_work, plan->stage_first, bytes) !=
          0); /* times differ from operations, so this is no accident */
    CHECK_OK(pdl_plan_check(plan));
    CHECK_OK(pdl_oracle_replay(b.oracle, plan, NULL, &planned));
    read_again(plan, model, &file);
    CHECK(file.plan->stages_given);
    CHECK_INT(file.plan->virtual_stages, virtual_stages);
    CHECK(memcmp(file.plan->stage_first, plan->stage_first, bytes) == 0);
    CHECK_OK(pdl_oracle_replay(b.oracle, file.plan, NULL, &again));
    CHECK(planned.total_s == again.total_s);
    check_projected(&b, file.plan);
    check_simulated(&b, file.plan);
    check_run(file.plan);
    pdl_plan_file_free(&file);
    pdl_plan_destroy(plan);
    free(by_work);
    tear_down(&b);
}

static void same_borders_everywhere(void)
{
    compare("resnet50", 4, 1);
    compare("resnet50", 4, 3);
    compare("gpt2-124m", 2, 4);
}

/* Borders that somebody has written are projected and run, not better ones. */
static void given_borders_are_kept(void)
{
    bench_t          b;
    pdl_projection_t balanced, moved;

    set_up(&b, "resnet50");
    pdl_plan_t *plan = make_plan(&b, 2, 2);
    CHECK_OK(pdl_oracle_replay(b.oracle, plan, NULL, &balanced));
    for (int k = 1; k < 4; k++) plan->stage_first[k] = 4 * k;
    plan->stages_given = true;
    CHECK_OK(pdl_plan_check(plan));
    CHECK_OK(pdl_oracle_settle(b.oracle, plan));
    CHECK_OK(pdl_oracle_replay(b.oracle, plan, NULL, &moved));
    for (int k = 1; k < 4; k++) CHECK_INT(plan->stage_first[k], 4 * k);
    CHECK(moved.total_s > 1.1 * balanced.total_s);
    check_projected(&b, plan);
    check_run(plan);
    pdl_plan_destroy(plan);
    tear_down(&b);
}

int main(void)
{
    RUN(same_borders_everywhere);
    RUN(given_borders_are_kept);
    return test_done();
}
