/*
 * The simulated rate of an exchange is where the closed form says, and never above it.
 */
#include "test.h"

#include <paradl/oracle/data_policy.h>
#include <paradl/sim/plan_sim.h>

static void near_the_closed_form(void)
{
    static const int64_t cases[][2] = {{4, 4}, {64, 64}, {64, 16}, {136, 136}, {512, 512}};
    const pdl_system_t  *system;
    pdl_parameters_t     p;

    pdl_parameters_default(&p);
    REQUIRE_OK(pdl_system_load("abci-v", &system));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double rate = 0, closed = pdl_policy_exchange_rate(system, &p, cases[i][0], cases[i][1]);

        CHECK_OK(pdl_sim_exchange_rate(system, &p, cases[i][0], cases[i][1], &rate));
        CHECK(rate <= closed * 1.0001 && rate >= closed / 4);
    }
    pdl_system_destroy(system);
}

static void refuses(void)
{
    const pdl_system_t *system;
    pdl_parameters_t    p;
    double              rate;

    pdl_parameters_default(&p);
    REQUIRE_OK(pdl_system_load("abci-v", &system));
    CHECK(pdl_sim_exchange_rate(system, &p, 4, 1, &rate) == PDL_ERR_LIMIT);
    CHECK(pdl_sim_exchange_rate(system, &p, 4, 8, &rate) == PDL_ERR_LIMIT);
    CHECK(pdl_sim_exchange_rate(system, &p, 8192, 8192, &rate) == PDL_ERR_LIMIT);
    pdl_system_destroy(system);
}

int main(void)
{
    RUN(near_the_closed_form);
    RUN(refuses);
    return test_done();
}
