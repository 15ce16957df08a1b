/*
 * The programs of plans, priced and replayed, against what the oracle projects for these plans: the same computation and
 * exchanges, and a total that is no longer. It is shorter where programs overlap redistributions, which projections do not.
 */
#include "test.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <paradl/oracle/search.h>
#include <paradl/system/fabric.h>

static const pdl_system_t *selene;

typedef struct busy {
    double compute_s, redistribution_s;
    double calls;
} busy_t;

static busy_t sum_streams(const pdl_replay_rank_t *rank)
{
    busy_t busy = {0};

    for (int i = 0; i < rank->program->op_count; i++) {
        pdl_op_stream_t stream = rank->program->op[i].stream;
        if (stream == PDL_STREAM_COMPUTE) busy.compute_s += rank->seconds[i];
        if (stream != PDL_STREAM_REDISTRIBUTION) continue;
        busy.redistribution_s += rank->seconds[i];
        busy.calls++;
    }
    return busy;
}

static void compare(pdl_oracle_t *oracle, pdl_plan_t *plan, const pdl_config_t *config)
{
    pdl_timeline_t  *timeline = NULL;
    pdl_projection_t p;
    double           exchanges = 0;
    busy_t           busy = {0};

    CHECK_OK(pdl_oracle_settle(oracle, plan));
    CHECK_OK(pdl_oracle_replay(oracle, plan, NULL, &p));
    pdl_status_t status = pdl_oracle_timeline(oracle, plan, &timeline);
    if (status) {
        CHECK(status == PDL_ERR_LIMIT || status == PDL_ERR_UNSUPPORTED);
        return;
    }
    CHECK_INT(timeline->count, config->pipeline);
    for (int k = 0; k < timeline->count; k++) {
        busy = sum_streams(&timeline->ranks[k]);
        CHECK(busy.compute_s <= timeline->total_s * (1 + 1e-12));
    }
    exchanges = p.comm[PDL_COMM_LAYER] + p.comm[PDL_COMM_HALO];
    /* A program may reduce and scatter at one place and gather at another what is projected as one collective: two start-ups. */
    double more_s = busy.calls / 2 * selene->fabric->value[PDL_FABRIC_STARTUP];
    CHECK(timeline->total_s <= 1.03 * p.total_s + more_s && timeline->total_s >= 0.8 * p.total_s);
    if (config->pipeline == 1 && config->spatial == 1 && exchanges > 0)
        CHECK(fabs(busy.redistribution_s - exchanges) <= 0.06 * exchanges + more_s);
    pdl_timeline_destroy(timeline);
}

static void programs_take_what_is_projected(void)
{
    static const char *const models[] = {"resnet50", "gpt2-124m"};

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++) {
        pdl_model_t          *model = NULL;
        pdl_oracle_t         *oracle = NULL;
        pdl_parameters_t      parameters;
        const pdl_strategy_t *row;
        int                   compared = 0;

        pdl_parameters_default(&parameters);
        REQUIRE_OK(pdl_model_load(models[m], &model));
        REQUIRE_OK(pdl_oracle_create(model, selene, &parameters, &oracle));
        for (int i = 0; (row = pdl_strategy_at(i)) != NULL; i++) {
            pdl_strategy_mesh_t mesh = {0};

            while (!row->per_layer &&
                   pdl_strategy_next_mesh(row, row->axes == 0 ? 1 : 8, pdl_model_layer_count(model), &mesh)) {
                pdl_config_t config = pdl_config_on(row, &mesh);
                pdl_plan_t  *plan;

                config.batch = 64;
                config.micro_batches = config.pipeline > 1 ? 8 : 1;
                if (pdl_oracle_plan(oracle, &config, &plan)) continue;
                compare(oracle, plan, &config);
                compared++;
                pdl_plan_destroy(plan);
            }
        }
        CHECK(compared > 10);
        pdl_oracle_destroy(oracle);
        pdl_model_destroy(model);
    }
}

/* Micro-batches that a timeline would be too long for are refused, with what to do. */
static void too_long(void)
{
    pdl_model_t     *model = NULL;
    pdl_oracle_t    *oracle = NULL;
    pdl_plan_t      *plan = NULL;
    pdl_timeline_t  *timeline = NULL;
    pdl_parameters_t parameters;
    pdl_mesh_t       mesh = {{{PDL_AXIS_PIPELINE, 4, 0}}, 1};

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_oracle_create(model, selene, &parameters, &oracle));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 100000, &plan));
    plan->micro_batches = 100000;
    CHECK_OK(pdl_plan_apply_preset(plan, "pipeline", NULL));
    CHECK_INT(pdl_oracle_timeline(oracle, plan, &timeline), PDL_ERR_LIMIT);
    CHECK(strstr(pdl_error_message(), "too long a timeline") != NULL);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
}

int main(void)
{
    REQUIRE_OK(pdl_system_load("selene", &selene));
    RUN(programs_take_what_is_projected);
    RUN(too_long);
    pdl_system_destroy(selene);
    return test_done();
}
