/*
 * What the fit projects for rows it has not seen: all rows of one number of devices, and all rows of one model and strategy,
 * left out at a time. Every fold starts from the prior.
 */
#include "test.h"
#include <paradl/validate/validate.h>

static pdl_cross_validation_t cross(pdl_leave_out_t what)
{
    pdl_validation_t      *validation = NULL;
    pdl_parameters_t       parameters;
    pdl_cross_validation_t result = {0};

    CHECK_OK(pdl_validation_read(PDL_TEST_SOURCE "/share/measured/abci_measured.csv", "abci", &validation));
    REQUIRE_OK(pdl_parameters_load(pdl_validation_parameters(validation), &parameters));
    CHECK_OK(pdl_validation_cross(validation, &parameters, what, &result, NULL));
    pdl_validation_destroy(validation);
    return result;
}

static void other_numbers_of_pes(void)
{
    pdl_cross_validation_t result = cross(PDL_LEAVE_PE);

    CHECK(result.total >= 0.88);
    CHECK(result.compute >= 0.80);
    CHECK(result.comm >= 0.70);
    CHECK(result.ranking >= 0.95);
    CHECK(result.covered >= 0.85 && result.covered <= 0.95);
}

static void other_models_and_strategies(void)
{
    pdl_cross_validation_t result = cross(PDL_LEAVE_PAIR);

    CHECK(result.total >= 0.82);
    CHECK(result.compute >= 0.80);
    CHECK(result.comm >= 0.70);
    CHECK(result.covered >= 0.85 && result.covered <= 0.95);
}

int main(void)
{
    RUN(other_numbers_of_pes);
    RUN(other_models_and_strategies);
    return test_done();
}
