/* What a whole training takes: the interval between checkpoints is the best one, times are those of simulated failures, and
   what a description does not say is named. */
#include <paradl/oracle/ownership.h>

#include "test.h"

#include <math.h>

static void the_interval_is_young_s_when_failures_are_rare(void)
{
    CHECK_NEAR(pdl_ownership_interval(10, 1e9) / sqrt(2 * 10 * 1e9), 1, 1e-3);
    CHECK_NEAR(pdl_ownership_interval(100, 40), 40, 0);
}

static void no_other_interval_is_better(void)
{
    static const double written[] = {1, 30, 300, 3000}, between[] = {3600, 36000, 360000};

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
            double best = pdl_ownership_interval(written[i], between[k]);
            double time = pdl_ownership_time(1e6, best, written[i], 600, between[k]);

            CHECK(time > 1e6);
            CHECK(time <= 1.001 * pdl_ownership_time(1e6, 0.8 * best, written[i], 600, between[k]));
            CHECK(time <= 1.001 * pdl_ownership_time(1e6, 1.25 * best, written[i], 600, between[k]));
        }
}

static uint64_t state = 88172645463325252u;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static double next_failure(double mtbf)
{
    return -mtbf * log1p(-uniform());
}

/* Segments of work, each repeated until no failure comes; failures also come during restarts. */
static void time_is_that_of_simulated_failures(void)
{
    double interval = 3000, written = 200, restart = 500, mtbf = 20000, total = 0;
    int    segments = 40000;

    for (int i = 0; i < segments; i++)
        for (double need = interval + written;;) {
            double failure = next_failure(mtbf);

            if (failure >= need) {
                total += need;
                break;
            }
            total += failure;
            need = restart + interval + written;
        }
    CHECK_NEAR(total / pdl_ownership_time(segments * interval, interval, written, restart, mtbf), 1, 0.01);
}

static void says_what_is_not_known(void)
{
    static const char text[] =
        "paradl: system/1\nname: s\ndevice: {name: d, memory: 80GB, memory_bandwidth: 1TB/s, peak: "
        "{fp32: 1TFLOP/s}, power: 100W}\nlevels:\n  - {name: node, fanout: 8, bandwidth: "
        "1GB/s, latency: 1us}\n";
    static const char known[] =
        "ownership: {device_mtbf: 100h, restart: 1min, checkpoint_bandwidth: 1GB/s, pue: 2, "
        "node_power: 100W, price_per_kwh: 1}\ncost_per_pe_hour: 3\n";
    const pdl_system_t *system = NULL;
    pdl_model_t        *model = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_mesh_t          mesh = {{{PDL_AXIS_DATA, 8, 0}}, 1};
    pdl_projection_t    projection = {.total_s = 1, .low_s = 0.5, .high_s = 2, .energy_j = 800};
    pdl_ownership_t     o;
    char                whole[1000];

    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 64, &plan));
    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "s", &system));
    pdl_ownership_project(system, plan, &projection, 6400001, &o);
    CHECK_NEAR(o.iterations, 100001, 0);
    CHECK_NEAR(o.total_s, 100001, 0);
    CHECK_NEAR(o.energy_j, 800 * 100001, 1);
    CHECK(isnan(o.goodput) && isnan(o.cost));
    CHECK_STR(o.missing, "ownership.device_mtbf (failures), ownership.checkpoint_bandwidth (checkpoints), "
                         "cost_per_pe_hour (money)");
    pdl_system_destroy(system);

    snprintf(whole, sizeof(whole), "%s%s", text, known);
    REQUIRE_OK(pdl_system_read_memory(whole, strlen(whole), "s", &system));
    pdl_ownership_project(system, plan, &projection, 6400001, &o);
    CHECK_STR(o.missing, "");
    CHECK_NEAR(o.mtbf_s, 45000, 1e-9);
    CHECK_NEAR(o.checkpoint_bytes, 61706 * 8.0, 1e-9); /* weights and momentum */
    CHECK(o.goodput > 0.99 && o.goodput < 1);
    CHECK_NEAR(o.cost, o.total_s * 8 / 3600 * 3, 1e-6);
    CHECK_NEAR(o.energy_j, 2 * o.total_s * 900, 1e-3);
    CHECK_NEAR(o.energy_cost, o.energy_j / 3.6e6, 1e-9);
    pdl_system_destroy(system);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void refuses_what_cannot_be(void)
{
    static const char *const wrong[][2] = {{"{pue: 0.5}", "pue must be at least 1"},
                                           {"{device_mtbf: 0s}", "device_mtbf must be at least 1"},
                                           {"{mtbf: 3h}", "unknown key"},
                                           {"3", "what the machine costs"}};

    for (int i = 0; i < 4; i++) {
        const pdl_system_t *system = NULL;
        char                text[600];

        snprintf(
            text, sizeof(text),
            "paradl: system/1\nname: s\ndevice: {name: d, memory: 1GB, memory_bandwidth: 1TB/s, peak: {fp32: "
            "1TFLOP/s}}\nlevels:\n  - {name: node, fanout: 8, bandwidth: 1GB/s, latency: 1us}\nownership: %s\n",
            wrong[i][0]);
        CHECK_INT(pdl_system_read_memory(text, strlen(text), "s", &system), PDL_ERR_INPUT);
        if (strstr(pdl_error_message(), wrong[i][1]) == NULL) CHECK_STR(pdl_error_message(), wrong[i][1]);
    }
}

int main(void)
{
    RUN(the_interval_is_young_s_when_failures_are_rare);
    RUN(no_other_interval_is_better);
    RUN(time_is_that_of_simulated_failures);
    RUN(says_what_is_not_known);
    RUN(refuses_what_cannot_be);
    return test_done();
}
