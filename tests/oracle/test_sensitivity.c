/* What hardware numbers are worth: the one that is short binds, elasticities are those of the projection, and the upgrade does
   what it says. */
#include <paradl/oracle/framework.h>
#include <paradl/oracle/sensitivity.h>

#include "test.h"

#include <math.h>

static pdl_model_t     *model;
static pdl_parameters_t parameters;

/* Two levels: nodes of four with links of `inner`, joined by links of `outer`. */
static const pdl_system_t *make_system(const char *peak, const char *memory, const char *inner, const char *outer)
{
    const pdl_system_t *system = NULL;
    char                text[700];

    snprintf(text, sizeof(text),
             "paradl: system/1\nname: s\ndevice: {name: d, memory: 64GB, memory_bandwidth: %s, peak: {fp32: %s}}\n"
             "levels:\n  - {name: node, fanout: 4, bandwidth: %s, latency: 1us}\n"
             "  - {name: machine, fanout: 4, bandwidth: %s, latency: 1us}\n",
             memory, peak, inner, outer);
    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "s", &system));
    return system;
}

static double step_on(const pdl_system_t *system, pdl_sensitivity_t *s)
{
    pdl_oracle_t *oracle = NULL;
    pdl_search_t *search = NULL;
    pdl_request_t request = pdl_request_default();
    double        seconds;

    request.pe = 16;
    request.batch = 64;
    request.strategy = pdl_strategy_find("data");
    REQUIRE_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    REQUIRE_OK(pdl_search_run(oracle, &request, &search));
    REQUIRE(search->possible > 0);
    if (s != NULL) CHECK_OK(pdl_search_sensitivity(oracle, &request, search, s));
    seconds = search->candidates[0].projection.total_s;
    pdl_search_destroy(search);
    pdl_oracle_destroy(oracle);
    return seconds;
}

static void what_is_short_binds(void)
{
    static const struct {
        const char *peak, *memory, *inner, *outer, *binds;
    } cases[] = {
        {"1TFLOP/s", "100TB/s", "1TB/s", "1TB/s", "peak of the device"},
        {"9000TFLOP/s", "10GB/s", "1TB/s", "1TB/s", "memory bandwidth"},
        {"9000TFLOP/s", "100TB/s", "10TB/s", "10MB/s", "bandwidth of a link: machine"},
    };

    for (int i = 0; i < 3; i++) {
        const pdl_system_t *system = make_system(cases[i].peak, cases[i].memory, cases[i].inner, cases[i].outer);
        pdl_sensitivity_t   s;

        step_on(system, &s);
        CHECK_STR(s.row[0].name, cases[i].binds);
        CHECK(s.row[0].elasticity > 0.5 && s.row[0].elasticity < 1.01);
        CHECK_INT(s.cheapest, 0);
        CHECK(s.row[0].factor > 1.1 && s.row[0].factor < 1.35);
        for (int k = 1; k < s.count; k++) CHECK(s.row[k].elasticity <= s.row[k - 1].elasticity);
        CHECK(!s.measured && s.memory_s > 0);
        pdl_system_destroy(system);
    }
}

static void the_upgrade_does_what_it_says(void)
{
    const pdl_system_t *system = make_system("10TFLOP/s", "1TB/s", "100GB/s", "10GB/s"), *better;
    pdl_sensitivity_t   s;
    double              before = step_on(system, &s), after;
    char                peak[40];

    CHECK_STR(s.row[s.cheapest].name, "peak of the device");
    snprintf(peak, sizeof(peak), "%.9gTFLOP/s", 10 * s.row[s.cheapest].factor);
    better = make_system(peak, "1TB/s", "100GB/s", "10GB/s");
    after = step_on(better, NULL);
    CHECK_NEAR(after / before, 1 - PDL_UPGRADE_GAIN, 0.015);
    pdl_system_destroy(better);
    pdl_system_destroy(system);
}

int main(void)
{
    const pdl_system_t *system = make_system("1TFLOP/s", "1TB/s", "1GB/s", "1GB/s");

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_framework_choose(NULL, NULL, system, &parameters));
    pdl_system_destroy(system);
    RUN(what_is_short_binds);
    RUN(the_upgrade_does_what_it_says);
    pdl_model_destroy(model);
    return test_done();
}
