/*
 * Levels of the machine tree, precisions, and that every built-in system can be read and makes sense.
 */
#include "test.h"

#include <paradl/base/share.h>
#include <paradl/system/system.h>

static const pdl_system_t *load(const char *name)
{
    const pdl_system_t *system = NULL;
    char                path[1024];

    snprintf(path, sizeof path, "%s/share/systems/%s.yaml", PDL_TEST_SOURCE, name);
    REQUIRE_OK(pdl_system_load(path, &system));
    return system;
}

static void levels_follow_the_number_of_pes(void)
{
    const pdl_system_t *abci = load("abci-v");

    CHECK_INT(abci->pe_count, 4352);
    CHECK_INT(pdl_system_group_size(abci, 0), 4);
    CHECK_INT(pdl_system_group_size(abci, 1), 68);
    CHECK_INT(pdl_system_group_size(abci, 2), 136);
    CHECK_INT(pdl_system_group_size(abci, 3), 4352);
    CHECK_INT(pdl_system_level_of_span(abci, 1), 0);
    CHECK_INT(pdl_system_level_of_span(abci, 4), 0);
    CHECK_INT(pdl_system_level_of_span(abci, 5), 1);
    CHECK_INT(pdl_system_level_of_span(abci, 68), 1);
    CHECK_INT(pdl_system_level_of_span(abci, 69), 2);
    CHECK_INT(pdl_system_level_of_span(abci, 136), 2);
    CHECK_INT(pdl_system_level_of_span(abci, 137), 3);
    CHECK_INT(pdl_system_level_of_span(abci, 4352), 3);
    CHECK_INT(pdl_system_common_level(abci, 0, 3), 0);
    CHECK_INT(pdl_system_common_level(abci, 3, 4), 1);
    CHECK_INT(pdl_system_common_level(abci, 67, 68), 2);
    CHECK_INT(pdl_system_common_level(abci, 135, 136), 3);
    CHECK_INT(pdl_system_common_level(abci, 7, 7), 0);
    pdl_system_destroy(abci);
}

static void abci_has_its_documented_numbers(void)
{
    static const double latency_us[] = {9, 40.31, 40.49, 40.98};
    static const double host_latency_us[] = {3000.11, 80.53};
    const pdl_system_t *abci = load("abci-v");

    CHECK_INT(abci->level_count, 4);
    for (int l = 0; l < 4; l++) {
        CHECK_NEAR(abci->level[l].latency_s, latency_us[l] * 1e-6, 1e-12);
        CHECK_NEAR(abci->level[l].bandwidth_bytes_per_s, l == 0 ? 50e9 : 12.5e9, 0);
        CHECK_NEAR(abci->level[l].oversubscription, l == 3 ? 3 : 1, 0);
    }
    CHECK_NEAR(abci->level[1].ports, 2, 0);
    CHECK(abci->has_host_path);
    for (int l = 0; l < 2; l++) {
        CHECK_NEAR(abci->host_level[l].latency_s, host_latency_us[l] * 1e-6, 1e-12);
        CHECK_NEAR(abci->host_level[l].bandwidth_bytes_per_s, l == 0 ? 16e9 : 12.5e9, 0);
        CHECK_INT(abci->host_level[l].fanout, abci->level[l].fanout);
    }
    CHECK(abci->host_level[0].shared_medium);
    CHECK_NEAR(abci->device.memory_bytes, 16e9, 0);
    CHECK_NEAR(abci->device.peak_flop_per_s[PDL_FP64], 7.8e12, 1e-15);
    CHECK_NEAR(abci->device.peak_flop_per_s[PDL_FP32], 15.7e12, 1e-15);
    CHECK_NEAR(abci->device.peak_flop_per_s[PDL_FP16], 125e12, 1e-15);
    CHECK_NEAR(abci->device.peak_flop_per_s[PDL_BF16], 0, 0);
    pdl_system_destroy(abci);
}

static void check_plausible(const pdl_system_t *system, const char *name)
{
    CHECK_STR(system->name, name);
    CHECK(strlen(system->description) > 0 && strlen(system->source) > 0);
    CHECK(system->device.memory_bytes > 1e9 && system->device.memory_bytes < 1e12);
    CHECK(system->device.peak_flop_per_s[PDL_FP32] >= 1e10);
    CHECK(system->device.matrix_efficiency > 0.1 && system->device.matrix_efficiency <= 1);
    CHECK(system->device.idle_power_w < system->device.power_w);
    for (int l = 0; l < system->level_count; l++) {
        CHECK(system->level[l].bandwidth_bytes_per_s >= 1e9 && system->level[l].bandwidth_bytes_per_s <= 1e12);
        CHECK(system->level[l].latency_s > 0 && system->level[l].latency_s < 1e-3);
        if (l > 0) CHECK(system->level[l].latency_s >= system->level[l - 1].latency_s);
    }
}

static void all_built_in_systems_are_plausible(void)
{
    static const struct {
        const char *name;
        int64_t     pe_count;
    } systems[] = {
        {"abci-v", 4352}, {"abci-a", 960},     {"tsubame3", 2160}, {"selene", 4480}, {"dgx-h100", 1024},
        {"gh200", 10752}, {"frontier", 78848}, {"h200", 1},        {"local", 2},
    };

    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        const pdl_system_t *system = load(systems[i].name);
        if (system == NULL) continue;
        check_plausible(system, systems[i].name);
        CHECK_INT(system->pe_count, systems[i].pe_count);
        pdl_system_destroy(system);
    }
}

static void precisions_have_names_and_sizes(void)
{
    static const int    bytes[PDL_PRECISION_COUNT] = {8, 4, 4, 2, 2, 2, 2};
    static const double factors[PDL_PRECISION_COUNT] = {8, 4, 4, 2, 2, 1, 0.5};

    for (int i = 0; i < PDL_PRECISION_COUNT; i++) {
        pdl_precision_t p = (pdl_precision_t)i;

        CHECK_INT(pdl_precision_bytes(p), bytes[i]);
        CHECK_NEAR(pdl_precision_factor_bytes(p), factors[i], 0);
        CHECK_NEAR(pdl_precision_scale_bytes(p), p == PDL_NVFP4 ? 0.0625 : 0, 0);
        CHECK_INT(pdl_precision_narrow(p), factors[i] < bytes[i]);
    }
    CHECK_STR(pdl_precision_names[PDL_BF16], "bf16");
    CHECK_STR(pdl_precision_names[PDL_FP8], "fp8");
    CHECK_STR(pdl_precision_names[PDL_NVFP4], "nvfp4");
}

/* Dense peaks of the data sheets, of a rack of 72 or a node of 8 over its devices. */
static void devices_that_have_it_compute_in_nvfp4(void)
{
    static const struct {
        const char *name;
        double      peak;
    } systems[] = {
        {"gb200", 720e15 / 72}, {"gb300", 1080e15 / 72}, {"dgx-b200", 72e15 / 8}, {"dgx-h100", 0}, {"h200", 0}};

    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        const pdl_system_t *system = load(systems[i].name);
        if (system == NULL) continue;
        CHECK_NEAR(system->device.peak_flop_per_s[PDL_NVFP4], systems[i].peak, 1);
        CHECK_INT(pdl_system_check_precision(system, PDL_NVFP4), systems[i].peak > 0 ? PDL_OK : PDL_ERR_INPUT);
        pdl_system_destroy(system);
    }
}

int main(void)
{
    RUN(levels_follow_the_number_of_pes);
    RUN(abci_has_its_documented_numbers);
    RUN(all_built_in_systems_are_plausible);
    RUN(precisions_have_names_and_sizes);
    RUN(devices_that_have_it_compute_in_nvfp4);
    return test_done();
}
