/*
 * One process by itself, with or without MPI in the build: there is one rank, sums are what they were, and nothing
 * is started.
 */
#include <paradl/comm/exchange.h>
#include <paradl/comm/launch.h>

#include "test.h"

#include <stdlib.h>

static void clear_environment(void)
{
    static const char *const variables[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",    "PMI_RANK", "PMIX_RANK", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) unsetenv(variables[i]);
}

static void launchers_are_recognised(void)
{
    CHECK(!pdl_launch_active());
    CHECK(pdl_launch_wanted(4));
    CHECK(!pdl_launch_wanted(1));
    CHECK(pdl_launch_speaks());
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    CHECK(pdl_launch_active() && !pdl_launch_wanted(4));
    unsetenv("OMPI_COMM_WORLD_SIZE");
    setenv("PMIX_RANK", "1", 1);
    CHECK(pdl_launch_active() && !pdl_launch_speaks());
    unsetenv("PMIX_RANK");
}

/* A batch script of Slurm has the variables of a job, but only srun starts ranks. */
static void batch_script_is_no_rank(void)
{
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "4", 1);
    CHECK(!pdl_launch_active() && pdl_launch_wanted(4));
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    CHECK(pdl_launch_active());
    clear_environment();
}

static void one_rank_keeps_its_sums(void)
{
    pdl_ranks_t *ranks = NULL;
    double       values[2] = {1.5, -2};
    char         text[6] = "";
    int64_t      size = 0;

    REQUIRE_OK(pdl_ranks_create(&ranks));
    CHECK_OK(pdl_ranks_gather_all(ranks, "alone", 6, NULL, &size));
    CHECK_INT(size, 6);
    CHECK_OK(pdl_ranks_gather_all(ranks, "alone", 6, text, &size));
    CHECK_STR(text, "alone");
    CHECK_OK(pdl_ranks_gather_all(ranks, NULL, 0, text, &size));
    CHECK_INT(size, 0);
    CHECK_INT(pdl_ranks_rank(ranks), 0);
    CHECK_INT(pdl_ranks_size(ranks), 1);
    CHECK_INT(pdl_ranks_node_size(ranks), 1);
    CHECK_OK(pdl_ranks_sum(ranks, values, 2));
    CHECK_OK(pdl_ranks_max(ranks, values, 2));
    CHECK_OK(pdl_ranks_broadcast(ranks, values, sizeof(values), 0));
    CHECK_OK(pdl_ranks_barrier(ranks));
    CHECK_NEAR(values[0], 1.5, 0);
    CHECK_NEAR(values[1], -2, 0);
    CHECK_OK(pdl_ranks_agree(ranks, PDL_OK));
    CHECK_ERROR(pdl_ranks_agree(ranks, pdl_error(PDL_ERR_IO, "as it was")), "as it was");
    pdl_ranks_destroy(ranks);
    pdl_ranks_destroy(NULL);
}

static void one_rank_exchanges_nothing(void)
{
    float               data[5] = {1, 2, 3, 4, 5};
    const int64_t       bounds[] = {0, 2, 2, 5};
    pdl_ranks_t        *ranks = NULL;
    pdl_exchange_t     *exchange = NULL;
    pdl_exchange_spec_t spec = {.data = data, .bound = bounds, .buckets = 3, .algorithm = "ring", .overlap = true};
    double              bytes, waited, polled;

    REQUIRE_OK(pdl_ranks_create(&ranks));
    spec.ranks = ranks;
    REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
    for (int step = 0; step < 3; step++) {
        for (int b = 2; b >= 0; b--) CHECK_OK(pdl_exchange_ready(exchange, b));
        CHECK_OK(pdl_exchange_poll(exchange));
        for (int b = 0; b < 3; b++) CHECK_OK(pdl_exchange_wait(exchange, b));
    }
    for (int i = 0; i < 5; i++) CHECK_NEAR(data[i], i + 1, 0);
    pdl_exchange_counters(exchange, &bytes, &waited, &polled);
    CHECK_NEAR(bytes, 0, 0);
    CHECK_STR(pdl_exchange_algorithm(exchange, 0), "none");
    pdl_exchange_destroy(exchange);
    spec.buckets = 0;
    REQUIRE_OK(pdl_exchange_create(&spec, &exchange));
    pdl_exchange_destroy(exchange);
    pdl_ranks_destroy(ranks);
}

int main(void)
{
    clear_environment();
    RUN(launchers_are_recognised);
    RUN(batch_script_is_no_rank);
    RUN(one_rank_keeps_its_sums);
    RUN(one_rank_exchanges_nothing);
    return test_done();
}
