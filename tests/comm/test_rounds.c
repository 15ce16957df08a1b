/*
 * What is taken of the rounds of a measurement.
 */
#include "test.h"

#include "comm/rounds.h"

/* Most rounds of a small message meet something else that runs; the least one still says what the network takes. */
static void the_least_round_is_the_undisturbed_one(void)
{
    double        seconds[7] = {9e-3, 8e-3, 1e-4, 12e-3, 2e-4, 7e-3, 10e-3};
    pdl__rounds_t rounds = pdl__rounds_sum_up(seconds, 7);

    CHECK_NEAR(rounds.least_s, 1e-4, 0);
    CHECK_NEAR(rounds.median_s, 8e-3, 0);
    CHECK_NEAR(rounds.mean_s, 46.3e-3 / 7, 1e-12);
}

static void an_even_number_has_its_median_between_two(void)
{
    double seconds[4] = {4, 1, 3, 2}, one = 5;

    CHECK_NEAR(pdl__rounds_sum_up(seconds, 4).median_s, 2.5, 0);
    CHECK_NEAR(pdl__rounds_sum_up(&one, 1).least_s, 5, 0);
}

int main(void)
{
    RUN(the_least_round_is_the_undisturbed_one);
    RUN(an_even_number_has_its_median_between_two);
    return test_done();
}
