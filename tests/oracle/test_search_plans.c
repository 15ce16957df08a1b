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

static void search_model(const char *name, const char *system_name, int64_t pe)
{
    pdl_request_t       request = pdl_request_default();
    pdl_model_t        *model;
    const pdl_system_t *system;
    pdl_oracle_t       *oracle;
    pdl_search_t       *search;

    request.pe = pe;
    REQUIRE_OK(pdl_model_load(name, &model));
    REQUIRE_OK(pdl_system_load(system_name, &system));
    oracle = make_oracle(model, system);
    CHECK_OK(pdl_search_run(oracle, &request, &search));
    CHECK(search->possible > 3);
    for (int i = 0; i < search->possible; i++) {
        const char *path = scratch_path("plan.yaml");
        FILE       *file = fopen(path, "w");

        CHECK(file != NULL);
        CHECK_OK(pdl_plan_write(search->candidates[i].plan, name, system_name, NULL, NULL, file));
        fclose(file);
        check_read_back(path, &search->candidates[i], system);
    }
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

static void plans_of_a_convolutional_network(void)
{
    search_model("resnet50", "abci-v", 64);
}

static void plans_of_a_transformer(void)
{
    search_model("gpt2-124m", "selene", 12);
}

int main(void)
{
    if (!scratch_begin()) return 1;
    RUN(plans_of_a_convolutional_network);
    RUN(plans_of_a_transformer);
    scratch_end();
    return test_done();
}
