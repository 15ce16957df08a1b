/*
 * Machines whose outermost groups are joined by a topology: ways go over its routes, messages share its links, and what does not fit
 * is refused in one line.
 */
#include "test.h"

#include <paradl/topo/contention.h>
#include <paradl/topo/topo.h>

#include <stdlib.h>

#define SYSTEM(fanout, ports, network)                                                                     \
    "paradl: system/1\nname: made\ndevice: {name: d, memory: 16GB, memory_bandwidth: 1TB/s, peak: {fp32: " \
    "1TFLOP/s}}\n"                                                                                         \
    "levels:\n  - {name: node, fanout: 2, bandwidth: 50GB/s, latency: 1us}\n"                              \
    "  - {name: machine, fanout: " fanout ", bandwidth: 20GB/s, latency: 5us, ports: " ports "}\n"         \
    "network: " network "\n"
#define TORUS "{topology: torus, dims: [4, 3], link_bandwidth: 10GB/s, link_latency: 100ns}"

static const pdl_system_t *read_system(const char *text)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "made.yaml", &system));
    return system;
}

/* Two links inside each node, the port out and in, and between them what the torus has. */
static void ways_go_over_the_network(void)
{
    const pdl_system_t   *system = read_system(SYSTEM("12", "1", TORUS));
    const pdl_topology_t *torus;
    pdl_topology_t       *machine;
    int                   way[PDL_MAX_ROUTE], across[PDL_MAX_ROUTE], vertices[PDL_MAX_ROUTE + 1];

    CHECK_OK(pdl_topology_network(system, &torus));
    CHECK_OK(pdl_topology_of_system(system, 24, NULL, &machine));
    for (int a = 0; a < 24; a++)
        for (int b = 0; b < 24; b++) {
            int count = pdl_topology_route(machine, a, b, way),
                hops = pdl_topology_route(torus, a / 2, b / 2, across);
            double latency_s = 0;

            CHECK_INT(count, a == b ? 0 : a / 2 == b / 2 ? 2 : 4 + hops);
            if (a == b) continue;
            CHECK_INT(pdl_topology_path(machine, a, way, count, vertices), count + 1);
            CHECK_INT(vertices[count], b);
            for (int i = 0; i < count; i++) latency_s += pdl_topology_links(machine)[way[i]].latency_s;
            CHECK_NEAR(latency_s, a / 2 == b / 2 ? 1e-6 : 5e-6 + hops * 100e-9, 1e-12);
            CHECK_OK(pdl_contention_latency(system, a, b, &latency_s));
            CHECK_NEAR(latency_s, hops * 100e-9, 1e-12);
        }
    pdl_topology_destroy(machine);
    pdl_system_destroy(system);
}

/* Counting the busiest link of equal messages is as exact as running them, on networks too. */
static void counting_is_running(void)
{
    static const char *const texts[] = {
        SYSTEM("12", "1", TORUS), SYSTEM("12", "2", "{topology: kautz, degree: 2, diameter: 4}"),
        SYSTEM("20", "1", "{topology: dragonfly, shape: [2, 2, 2, 5], link_bandwidth: 5GB/s}"),
        SYSTEM("16", "1", "{topology: dln, hosts: 16, hosts_per_switch: 2, duplex: half}")};

    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        const pdl_system_t *system = read_system(texts[t]);
        int                 devices = (int)system->pe_count, stride = t % 2 == 0 ? 1 : 2, size = devices / stride;
        pdl_message_t      *messages = malloc((size_t)devices * 2 * sizeof(*messages));
        pdl_contention_answer_t answer;

        if (messages == NULL) abort();
        for (int pattern = 0; pattern < 2; pattern++) {
            pdl_contention_query_t query = {devices, size, stride, 0, (pdl_pattern_t)pattern, false};
            int                    count = 0;
            double                 last_s;

            for (int i = 0; i < devices; i++) {
                int k = i / stride;

                if (pattern == PDL_PATTERN_RING) {
                    messages[count++] = (pdl_message_t){i, (k + 1) % size * stride + i % stride, 1};
                    continue;
                }
                if (k + 1 < size) messages[count++] = (pdl_message_t){i, i + stride, 1};
                if (k > 0) messages[count++] = (pdl_message_t){i, i - stride, 1};
            }
            CHECK_OK(pdl_contention_run(system, false, messages, count, NULL, &last_s));
            CHECK_OK(pdl_contention_explain(system, &query, &answer));
            CHECK_NEAR(answer.seconds_per_byte, last_s, 1e-9);
            CHECK_INT(answer.level, 1);
            CHECK(answer.phi >= 1 && answer.latency_s > 0);
        }
        free(messages);
        pdl_system_destroy(system);
    }
}

/* A copy with ports of twice the speed, as the question what bandwidth is worth has it, has links of twice the speed. */
static void links_follow_the_ports(void)
{
    const pdl_system_t     *system = read_system(SYSTEM("12", "1", TORUS));
    pdl_system_t            fast = *system;
    pdl_contention_query_t  query = {24, 24, 1, 0, PDL_PATTERN_PAIRWISE, false};
    pdl_contention_answer_t slow_answer, fast_answer;

    fast.level[1].bandwidth_bytes_per_s *= 2;
    CHECK_OK(pdl_contention_explain(system, &query, &slow_answer));
    CHECK_OK(pdl_contention_explain(&fast, &query, &fast_answer));
    CHECK_NEAR(slow_answer.seconds_per_byte, 2 * fast_answer.seconds_per_byte, 1e-12);
    pdl_system_destroy(system);
}

static void what_does_not_fit_is_refused(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {SYSTEM("11", "1", TORUS), "the network of made has 12 hosts, but level machine has 11"},
        {SYSTEM("12", "2", TORUS), "fanout 12 x 2 ports"},
        {SYSTEM("12", "1", "{topology: toros}"), "no built-in topology is named 'toros'"},
        {SYSTEM("12", "1", "{topology: torus, dims: [4, 3], lanes: 2}"), "lanes"},
        {SYSTEM("12", "1", "none/such.yaml"), "none/such.yaml"},
        {SYSTEM("64", "1", "{topology: hybrid, hosts: 64}"), "circuits"},
        {SYSTEM("2000", "1", "{topology: ring, hosts: 2000}"), "too long"},
    };
    static const struct {
        const char *text, *message;
    } unreadable[] = {
        {SYSTEM("12", "2, oversubscription: 2", TORUS), "leave out shared and oversubscription"},
        {SYSTEM("12", "1", "[1, 2]"), "a topology or the path of a topology file"},
        {SYSTEM("12", "1", "{}"), "a network without a topology"},
        {SYSTEM("12", "1", "{paradl: topology/1, topology: ring}"), "needs no line 'paradl'"},
    };
    const pdl_topology_t *network;
    const pdl_system_t   *system;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        system = read_system(bad[i].text);
        CHECK_ERROR(pdl_topology_network(system, &network), bad[i].message);
        pdl_system_destroy(system);
    }
    for (size_t i = 0; i < sizeof(unreadable) / sizeof(unreadable[0]); i++)
        CHECK_ERROR(pdl_system_read_memory(unreadable[i].text, strlen(unreadable[i].text), "made.yaml", &system),
                    unreadable[i].message);
}

int main(void)
{
    RUN(ways_go_over_the_network);
    RUN(counting_is_running);
    RUN(links_follow_the_ports);
    RUN(what_does_not_fit_is_refused);
    return test_done();
}
