/*
 * A system's machine tree as a topology: one start-up per message, whole ways, and the same times as the messages of
 * self-contention.
 */
#include "test.h"

#include <paradl/topo/contention.h>
#include <paradl/topo/topo.h>

#include <stdlib.h>

static const char *const names[] = {"abci-v", "selene", "frontier", "tsubame3", "gb200", "local"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static double route_latency(const pdl_topology_t *topology, const int *links, int count)
{
    double sum = 0;

    for (int i = 0; i < count; i++) sum += pdl_topology_links(topology)[links[i]].latency_s;
    return sum;
}

static void a_message_pays_its_highest_level_once(void)
{
    for (int n = 0; n < NAMES; n++) {
        const pdl_system_t *system;
        pdl_topology_t     *topology;
        int                 links[PDL_MAX_ROUTE], vertices[PDL_MAX_ROUTE + 1];

        REQUIRE_OK(pdl_system_load(names[n], &system));
        int hosts = system->pe_count < 600 ? (int)system->pe_count : 600;
        CHECK_OK(pdl_topology_of_system(system, hosts, NULL, &topology));
        CHECK_INT(pdl_topology_hosts(topology), hosts);
        for (int a = 0; a < hosts; a += 37)
            for (int b = 0; b < hosts; b += 11) {
                int count = pdl_topology_route(topology, a, b, links);
                int level = pdl_system_common_level(system, a, b);

                CHECK_INT(count, a == b ? 0 : 2 * (level + 1));
                if (a == b) continue;
                CHECK_NEAR(route_latency(topology, links, count), system->level[level].latency_s, 1e-12);
                CHECK_INT(pdl_topology_path(topology, a, links, count, vertices), count + 1);
                CHECK_INT(vertices[count], b);
            }
        pdl_topology_destroy(topology);
        pdl_system_destroy(system);
    }
}

/* Fair rates over these routes give the times that the contention of the oracle is made of. */
static void routes_are_those_of_contention(void)
{
    enum { HOSTS = 256, MESSAGES = 300 };
    const pdl_system_t *system;
    pdl_topology_t     *topology;
    pdl_message_t       messages[MESSAGES];
    double              last, *capacity, *rates = malloc(MESSAGES * sizeof(*rates)), slowest = 0;
    int                 start[MESSAGES + 1] = {0}, *route = malloc(MESSAGES * 16 * sizeof(*route));

    REQUIRE_OK(pdl_system_load("frontier", &system));
    CHECK_OK(pdl_topology_of_system(system, HOSTS, NULL, &topology));
    capacity = malloc((size_t)pdl_topology_link_count(topology) * sizeof(*capacity));
    if (rates == NULL || route == NULL || capacity == NULL) abort();
    for (int i = 0; i < pdl_topology_link_count(topology); i++)
        capacity[i] = pdl_topology_links(topology)[i].bytes_per_s;
    for (int m = 0; m < MESSAGES; m++) {
        int links[PDL_MAX_ROUTE], from = m * 91 % HOSTS, to = (m * 57 + 13) % HOSTS;

        if (to == from) to = (to + 1) % HOSTS;
        messages[m] = (pdl_message_t){from, to, 1e6};
        int count = pdl_topology_route(topology, from, to, links);
        memcpy(route + start[m], links, (size_t)count * sizeof(*links));
        start[m + 1] = start[m] + count;
    }
    /* With equal sizes the slowest rate decides when the last message ends. */
    CHECK_OK(pdl_contention_run(system, false, messages, MESSAGES, NULL, &last));
    CHECK_OK(pdl_maxmin_rates(pdl_topology_link_count(topology), capacity, MESSAGES, start, route, NULL, rates));
    for (int m = 0; m < MESSAGES; m++) slowest = fmax(slowest, 1e6 / rates[m]);
    CHECK_NEAR(last, slowest, 1e-9);
    free(rates);
    free(route);
    free(capacity);
    pdl_topology_destroy(topology);
    pdl_system_destroy(system);
}

static void speeds_are_those_asked_for(void)
{
    const pdl_system_t *system;
    pdl_topology_t     *topology;
    pdl_machine_speed_t speed = {.fabric_share = 0.5, .network_share = 0.25, .network_step_s = 1e-3};
    int                 links[PDL_MAX_ROUTE];

    REQUIRE_OK(pdl_system_load("selene", &system));
    CHECK_OK(pdl_topology_of_system(system, 32, &speed, &topology));
    int count = pdl_topology_route(topology, 0, 31, links);
    CHECK_INT(count, 4);
    CHECK_NEAR(route_latency(topology, links, count), 1e-3, 1e-12);
    CHECK_NEAR(pdl_topology_links(topology)[links[0]].bytes_per_s, 150e9, 1e-12);
    CHECK_NEAR(pdl_topology_links(topology)[links[1]].bytes_per_s, 6.25e9, 1e-12);
    pdl_topology_destroy(topology);
    CHECK_ERROR(pdl_topology_of_system(system, system->pe_count + 1, NULL, &topology), "selene has");
    CHECK_ERROR(pdl_topology_of_system(system, 0, NULL, &topology), "0 devices");
    pdl_system_destroy(system);
}

int main(void)
{
    RUN(a_message_pays_its_highest_level_once);
    RUN(routes_are_those_of_contention);
    RUN(speeds_are_those_asked_for);
    return test_done();
}
