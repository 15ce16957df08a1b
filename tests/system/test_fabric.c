/*
 * Collectives inside a node: rings over a mesh of links, and what they take.
 */
#include "test.h"

#include <paradl/system/fabric.h>

static double rings(const pdl_system_t *system, int devices, int stride, int groups)
{
    pdl_fabric_use_t use = {devices, stride, groups, 2};

    return pdl_fabric_rings(system->fabric, &use);
}

/* Each of two quads has rings of its own; with part of the second, few links lead there and back. */
static void rings_of_a_cube_mesh(void)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_load("dgx-v100", &system));
    REQUIRE(system->fabric != NULL);
    CHECK_NEAR(rings(system, 2, 1, 1), 1, 0);
    CHECK_NEAR(rings(system, 3, 1, 1), 2, 0);
    CHECK_NEAR(rings(system, 4, 1, 1), 4, 0);
    CHECK_NEAR(rings(system, 6, 1, 1), 2, 0);
    CHECK_NEAR(rings(system, 8, 1, 1), 6, 0);
    /* The fifth device has links to one of the others only: through the host. */
    CHECK_NEAR(rings(system, 5, 1, 1), 12e9 / 23.8e9, 1e-9);
    /* Two groups at once: the worse counts. Pairs 0-2, 1-3 have one link, 0-4 two, but 2-6 one. */
    CHECK_NEAR(rings(system, 4, 1, 2), 4, 0);
    CHECK_NEAR(rings(system, 2, 2, 2), 1, 0);
    CHECK_NEAR(rings(system, 2, 4, 2), 2, 0);
    CHECK_NEAR(rings(system, 2, 4, 4), 1, 0);
    pdl_system_destroy(system);
}

static void the_time_has_four_terms(void)
{
    const pdl_system_t *system = NULL;
    pdl_fabric_use_t    all = {8, 1, 1, 2}, half = {8, 1, 1, 1}, alone = {1, 1, 1, 2};

    REQUIRE_OK(pdl_system_load("selene", &system));
    REQUIRE(system->fabric != NULL);
    CHECK_NEAR(pdl_fabric_seconds(system->fabric, &all, 1e9), 38.1e-6 + 7 * 4.55e-6 + 1.75e9 / 300e9 + 1e9 / 507e9,
               1e-12);
    CHECK_NEAR(pdl_fabric_seconds(system->fabric, &half, 1e9),
               38.1e-6 + 3.5 * 4.55e-6 + 0.875e9 / 300e9 + 0.5e9 / 507e9, 1e-12);
    CHECK_NEAR(pdl_fabric_seconds(system->fabric, &alone, 1e9), 0, 0);
    pdl_system_destroy(system);
}

static void read(const char *fabric, const char *message)
{
    char                text[1024];
    const pdl_system_t *system = NULL;

    snprintf(text, sizeof(text),
             "paradl: system/1\nname: s\ndevice: {name: d, memory: 1GB, memory_bandwidth: 1GB/s, peak: {fp32: "
             "1TFLOP/s}}\n"
             "levels: [{name: node, fanout: 4, bandwidth: 1GB/s, latency: 1us}]\nfabric: %s\n",
             fabric);
    CHECK_ERROR(pdl_system_read_memory(text, strlen(text), "s.yaml", &system), message);
}

static void mistakes_are_named(void)
{
    read("{startup: 1us}", "s.yaml:5: key \"link\" is missing");
    read("{startup: 1us, link: 1GB/s, lanes: 2}", "lanes");
    read("{startup: 1us, link: 0GB/s}", "link must be between 1 B/s");
    read("{startup: 1us, link: 1GB/s, links: [[0, 1]]}", "such as [0, 1, 2]");
    read("{startup: 1us, link: 1GB/s, links: [[0, 4, 1]]}", "3");
    read("{startup: 1us, link: 1GB/s, links: [[1, 1, 1]]}", "two different devices");
    read("{startup: 1us, link: 1GB/s, links: [[0, 1, 1], [1, 0, 1]]}", "given twice");
}

int main(void)
{
    RUN(rings_of_a_cube_mesh);
    RUN(the_time_has_four_terms);
    RUN(mistakes_are_named);
    return test_done();
}
