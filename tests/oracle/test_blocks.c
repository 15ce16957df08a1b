/*
 * Projections of plans with a memory policy per block.
 */
#include "oracle/bench.h"
#include "test.h"

static const pdl_system_t *selene;

static pdl_projection_t project(bench_t *b, pdl_plan_t *plan)
{
    pdl_projection_t out;

    memset(&out, 0, sizeof(out));
    CHECK_OK(pdl_oracle_project(b->oracle, plan, NULL, &out));
    return out;
}

static void check_alike(const pdl_projection_t *a, const pdl_projection_t *b)
{
    CHECK_NEAR(a->total_s, b->total_s, 1e-12);
    CHECK_NEAR(a->backward_s, b->backward_s, 1e-12);
    CHECK_NEAR(a->comm[PDL_COMM_LAYER], b->comm[PDL_COMM_LAYER], 1e-12);
    CHECK_NEAR(a->memory_bytes, b->memory_bytes, 1e-12);
}

/* A plan of two stages, a block each: all alike is the rule for all, one of each lies between. */
static void blocks_are_counted_by_their_policy(void)
{
    bench_t          b = begin("gpt2-124m", selene, simple());
    pdl_config_t     config = pdl_config_default("3d");
    pdl_plan_t      *plan = NULL;
    pdl_projection_t rule[PDL_RECOMPUTE_COUNT], both[2], one;

    config.pipeline = config.tensor = config.data = 2;
    config.batch = 16;
    config.micro_batches = 4;
    REQUIRE_OK(pdl_oracle_plan(b.oracle, &config, &plan));
    (void)project(&b, plan);
    plan->stages_given = true;
    for (int k = 0; k < PDL_RECOMPUTE_COUNT; k++) {
        plan->recompute = (pdl_recompute_t)k;
        rule[k] = project(&b, plan);
    }
    plan->recompute = PDL_RECOMPUTE_NONE;
    pdl_plan_block_t blocks[] = {{.last = plan->stage_first[1] - 1, .policy = PDL_MEMORY_KEEP},
                                 {.last = plan->stage_first[2] - 1, .policy = PDL_MEMORY_KEEP}};
    for (int k = 0; k < 2; k++) {
        blocks[0].policy = blocks[1].policy = k == 0 ? PDL_MEMORY_KEEP : PDL_MEMORY_RECOMPUTE;
        CHECK_OK(pdl_plan_set_blocks(plan, blocks, 2));
        CHECK_OK(pdl_plan_check(plan));
        both[k] = project(&b, plan);
    }
    check_alike(&both[0], &rule[PDL_RECOMPUTE_NONE]);
    check_alike(&both[1], &rule[PDL_RECOMPUTE_FULL]);
    blocks[0].policy = PDL_MEMORY_KEEP;
    CHECK_OK(pdl_plan_set_blocks(plan, blocks, 2));
    one = project(&b, plan);
    CHECK(one.total_s > both[0].total_s && one.total_s < both[1].total_s);
    /* The first stage holds more micro-batches, and keeps all. */
    CHECK_NEAR(one.memory_bytes, both[0].memory_bytes, 1e-12);
    pdl_plan_destroy(plan);
    end(&b);
}

int main(void)
{
    REQUIRE_OK(pdl_system_load("selene", &selene));
    RUN(blocks_are_counted_by_their_policy);
    pdl_system_destroy(selene);
    return test_done();
}
