/*
 * Every plan that a search finds can be written, read again, and is projected as before.
 */
#include "base/scratch.h"

#include <paradl/oracle/search.h>

/* Without parameters, so that the test does not depend on a fit. */
static pdl_oracle_t *make_oracle(const pdl_model_t *model, const pdl_system_t *system)
{
    pdl_parameters_t parameters;
    pdl_oracle_t    *oracle = NULL;

    pdl_parameters_default(&parameters);
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    return oracle;
}

static void check_read_back(const char *path, const pdl_candidate_t *candidate, const pdl_system_t *system)
{
    pdl_plan_file_t  file;
    pdl_projection_t projection;
    pdl_oracle_t    *oracle;
    char             before[64], after[64];

    CHECK_OK(pdl_plan_read(path, &file));
    CHECK_STR(file.plan->strategy, candidate->config.strategy->name);
    CHECK_INT(file.plan->batch, candidate->config.batch);
    CHECK_STR(pdl_mesh_format(&file.plan->mesh, after, sizeof(after)),
              pdl_mesh_format(&candidate->plan->mesh, before, sizeof(before)));
    oracle = make_oracle(file.model, system);
    CHECK_OK(pdl_plan_check(file.plan));
    CHECK_OK(pdl_oracle_replay(oracle, file.plan, NULL, &projection));
    CHECK_NEAR(projection.total_s, candidate->projection.total_s, 1e-12);
    CHECK_NEAR(projection.memory_bytes, candidate->projection.memory_bytes, 1e-12);
    pdl_oracle_destroy(oracle);
    pdl_plan_file_free(&file);
}

/* With one block fewer, in every virtual stage, the plan does not fit; with all of them it takes longer. */
static void check_fewest(pdl_oracle_t *oracle, const pdl_candidate_t *c, double most)
{
    pdl_plan_t      *plan;
    pdl_projection_t fewer, all;

    REQUIRE_OK(pdl_plan_copy(c->plan, &plan));
    for (int k = 0; k < plan->block_count; k++) {
        int first = k > 0 ? plan->block[k - 1].last + 1 : 0, attentions = 0, last = first;
        if (plan->block[k].policy != PDL_MEMORY_RECOMPUTE) continue;
        for (int i = first; i <= plan->block[k].last; i++) attentions += pdl_model_layer(plan->model, i)->heads > 0;
        CHECK(attentions > 0 && attentions <= c->config.recomputed_blocks);
        if (attentions < c->config.recomputed_blocks) continue; /* all that the stage has */
        for (int i = first; i <= plan->block[k].last; i++)
            if (pdl_model_layer(plan->model, i)->heads > 0) last = i - 3; /* before the norm and the projection */
        plan->block[k].last = last;                                       /* within the block that is kept then */
    }
    CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &fewer));
    CHECK(fewer.memory_bytes > most && c->projection.memory_bytes <= most);
    REQUIRE_OK(pdl_plan_set_blocks(plan, NULL, 0));
    plan->recompute = PDL_RECOMPUTE_FULL;
    CHECK_OK(pdl_oracle_replay(oracle, plan, NULL, &all));
    CHECK(all.fits && all.total_s > 1.005 * c->projection.total_s);
    pdl_plan_destroy(plan);
}

/* What is copied to the host and back is, is faster than what is recomputed, and over a slow link it is not. */
static void check_offload(const pdl_candidate_t *c, const pdl_model_t *model, const pdl_system_t *system)
{
    pdl_system_t     slow = *system;
    pdl_oracle_t    *fast_oracle = make_oracle(model, system), *slow_oracle;
    pdl_plan_t      *plan;
    pdl_projection_t all, held;
    int              swapped = 0;

    for (int w = 0; w < PDL_HOST_WAYS; w++) slow.device.host_link.bytes_per_s[w] /= 1000;
    slow_oracle = make_oracle(model, &slow);
    REQUIRE_OK(pdl_plan_copy(c->plan, &plan));
    for (int k = 0; k < plan->block_count; k++) swapped += plan->block[k].policy == PDL_MEMORY_SWAP;
    CHECK_INT(swapped, c->config.recomputed_blocks * pdl_plan_stage_count(plan));
    CHECK_OK(pdl_oracle_replay(slow_oracle, plan, NULL, &held));
    CHECK(held.total_s > 10 * c->projection.total_s);
    CHECK_NEAR(held.memory_bytes, c->projection.memory_bytes, 1e-12);
    /* Two devices that share the link. */
    pdl_system_t  half = slow;
    pdl_oracle_t *half_oracle;
    half.host_level[0].shared_medium = true;
    half.host_level[0].ports = (double)half.host_level[0].fanout / 2;
    half_oracle = make_oracle(model, &half);
    CHECK_OK(pdl_oracle_replay(half_oracle, plan, NULL, &all));
    CHECK(all.total_s > 1.9 * held.total_s);
    pdl_oracle_destroy(half_oracle);
    REQUIRE_OK(pdl_plan_set_blocks(plan, NULL, 0));
    plan->recompute = PDL_RECOMPUTE_FULL;
    CHECK_OK(pdl_oracle_replay(fast_oracle, plan, NULL, &all));
    CHECK(all.total_s > 1.02 * c->projection.total_s);
    pdl_plan_destroy(plan);
    pdl_oracle_destroy(slow_oracle);
    pdl_oracle_destroy(fast_oracle);
}

static void search_model(const char *name, const char *system_name, const pdl_request_t *asked, int some_blocks)
{
    pdl_request_t       request = *asked;
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_oracle_t       *oracle;
    pdl_search_t       *search;

    int some = 0;

    REQUIRE_OK(pdl_model_load(name, &model));
    REQUIRE_OK(pdl_system_load(system_name, &system));
    oracle = make_oracle(model, system);
    CHECK_OK(pdl_search_run(oracle, &request, &search));
    CHECK(search->possible > 3 - some_blocks);
    for (int i = 0; i < search->possible; i++) {
        const char *path = scratch_path("plan.yaml");
        FILE       *file = fopen(path, "w");

        CHECK(file != NULL);
        CHECK_OK(pdl_plan_write(search->candidates[i].plan, name, system_name, NULL, NULL, file));
        fclose(file);
        check_read_back(path, &search->candidates[i], system);
        if (search->candidates[i].config.recomputed_blocks == 0) continue;
        if (search->candidates[i].config.offloaded)
            check_offload(&search->candidates[i], model, system);
        else
            check_fewest(oracle, &search->candidates[i], request.max_memory);
        some++;
    }
    CHECK(some >= some_blocks);
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

static pdl_request_t request_for(int64_t pe)
{
    pdl_request_t request = pdl_request_default();

    request.pe = pe;
    return request;
}

static void plans_of_a_convolutional_network(void)
{
    const pdl_request_t request = request_for(64);

    search_model("resnet50", "abci-v", &request, 0);
}

static void plans_of_a_transformer(void)
{
    const pdl_request_t request = request_for(12);

    search_model("gpt2-124m", "selene", &request, 0);
}

/* Where not all blocks need to be recomputed, as many as need to be are, in one stage and in two. */
static void plans_that_recompute_some_blocks(void)
{
    pdl_request_t request = request_for(8);

    request.batch = 64;
    request.micro_batches = 1;
    request.max_memory = 26e9;
    request.precision = PDL_BF16;
    request.optimizer = PDL_OPTIMIZER_ADAM;
    search_model("gpt2-1.5b", "selene", &request, 2);
    request.max_memory = 24e9;
    search_model("gpt2-1.5b", "gh200", &request, 2);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(plans_of_a_convolutional_network);
    RUN(plans_of_a_transformer);
    RUN(plans_that_recompute_some_blocks);
    scratch_end();
    return test_done();
}
