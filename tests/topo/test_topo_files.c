/*
 * Graphs from YAML, built-in topologies named in YAML, failed links, metrics, exports, and what is refused.
 */
#include "test.h"

#include <paradl/topo/topo.h>

#include <stdlib.h>

static pdl_topology_t *make(pdl_topology_spec_t spec)
{
    pdl_topology_t *topology = NULL;

    REQUIRE_OK(pdl_topology_create(&spec, &topology));
    if (topology == NULL) exit(1);
    return topology;
}

static pdl_topology_t *make_sized(const char *name, int64_t hosts, int64_t per_switch)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);

    spec.hosts = hosts;
    spec.hosts_per_switch = per_switch;
    return make(spec);
}

static pdl_status_t read_text(const char *text, pdl_topology_t **topology)
{
    return pdl_topology_read_memory(text, strlen(text), "net.yaml", topology);
}

static const char *const leaves = "paradl: topology/1\n"
                                  "name: two-leaves\n"
                                  "hosts: 4\n"
                                  "switches: [left, right, spare]\n"
                                  "link_latency: 2us\n"
                                  "links:\n"
                                  "  - {ends: [h0, left]}\n"
                                  "  - {ends: [h1, left]}\n"
                                  "  - {ends: [h2, right]}\n"
                                  "  - {ends: [right, h3]}\n"
                                  "  - {ends: [left, right], bandwidth: 25GB/s, cables: 2}\n"
                                  "  - {ends: [left, right], bandwidth: 5GB/s, duplex: half}\n"
                                  "  - {ends: [left, spare]}\n"
                                  "  - {ends: [spare, right]}\n";

static void graph_routes_take_the_lowest_link(void)
{
    pdl_topology_t        *topology;
    pdl_topology_metrics_t metrics;
    int                    links[PDL_MAX_ROUTE];

    CHECK_OK(read_text(leaves, &topology));
    CHECK_STR(pdl_topology_name(topology), "two-leaves");
    CHECK_INT(pdl_topology_hosts(topology), 4);
    CHECK_INT(pdl_topology_vertices(topology), 7);
    CHECK_INT(pdl_topology_link_count(topology), 2 * 7 + 1);
    CHECK_INT(pdl_topology_hosts_per_switch(topology), 2);
    CHECK_INT(pdl_topology_route(topology, 0, 3, links), 3);
    CHECK_INT(links[0], 0);
    CHECK_INT(links[1], 8);
    CHECK_INT(links[2], 6);
    CHECK_NEAR(pdl_topology_links(topology)[8].bytes_per_s, 25e9, 0);
    CHECK_NEAR(pdl_topology_links(topology)[8].latency_s, 2e-6, 1e-12);
    CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
    CHECK_INT(metrics.cables, 9);
    CHECK_INT(metrics.diameter, 1);
    CHECK_NEAR(metrics.bisection_bytes_per_s, 25e9, 1e-12); /* two host links are the narrowest */
    /* First the trunk fails, then the shared cable, then the way over the spare switch. */
    CHECK_OK(pdl_topology_fail_link(topology, 8));
    CHECK_INT(pdl_topology_route(topology, 0, 3, links), 3);
    CHECK_INT(links[1], 10);
    CHECK_INT(pdl_topology_route(topology, 3, 0, links), 3);
    CHECK_INT(links[1], 9); /* the other direction has not failed */
    CHECK_OK(pdl_topology_fail_link(topology, 10));
    CHECK_INT(pdl_topology_route(topology, 0, 3, links), 4);
    CHECK_ERROR(pdl_topology_fail_link(topology, 11), "cut off");
    CHECK_INT(pdl_topology_route(topology, 0, 3, links), 4);
    CHECK_ERROR(pdl_topology_fail_link(topology, 15), "has no link 15");
    pdl_topology_destroy(topology);
}

static void hosts_forward_only_when_asked(void)
{
    const char     *text = "paradl: topology/1\nhosts: [a, b, c]\nswitches: 1\n%s"
                           "links:\n  - {ends: [a, b]}\n  - {ends: [b, c]}\n  - {ends: [c, s0]}\n";
    pdl_topology_t *topology;
    char            with[300];
    int             links[PDL_MAX_ROUTE];

    snprintf(with, sizeof(with), text, "");
    CHECK_ERROR(read_text(with, &topology), "cut off");
    snprintf(with, sizeof(with), text, "relay: true\n");
    CHECK_OK(read_text(with, &topology));
    CHECK_INT(pdl_topology_route(topology, 0, 2, links), 2);
    pdl_topology_destroy(topology);
}

static void files_can_name_built_in_topologies(void)
{
    pdl_topology_t *topology;

    CHECK_OK(read_text("paradl: topology/1\ntopology: dln\nhosts: 64\nhosts_per_switch: 4\nlink_bandwidth: 25GB/s\n"
                       "duplex: half\n",
                       &topology));
    CHECK_STR(pdl_topology_name(topology), "dln");
    CHECK_INT(pdl_topology_link_count(topology), 64 + 16 * 3 + 8);
    CHECK_NEAR(pdl_topology_get_spec(topology)->link_bytes_per_s, 25e9, 0);
    pdl_topology_destroy(topology);
    CHECK_OK(read_text("paradl: topology/1\ntopology: dragonfly\nshape: [1, 4, 1, 5]\n", &topology));
    CHECK_INT(pdl_topology_hosts(topology), 20);
    pdl_topology_destroy(topology);
    CHECK_ERROR(read_text("paradl: topology/1\ntopology: other.yaml\n", &topology),
                "net.yaml:2: no built-in topology is named 'other.yaml'");
    CHECK_ERROR(read_text("paradl: topology/1\ntopology: ring\nhosts: 8\ncolour: red\n", &topology), "net.yaml:4:");
}

static void mistakes_in_graphs_have_a_place(void)
{
    pdl_topology_t *topology;

    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nlinks:\n  - {ends: [h0, h2]}\n", &topology),
                "net.yaml:4: no host or switch is named 'h2'");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nlinks:\n  - {ends: [h0]}\n", &topology), "net.yaml:4:");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nlinks:\n  - {ends: [h0, h0]}\n", &topology),
                "with itself");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\n", &topology), "falls apart");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 0\n", &topology), "net.yaml:2:");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: []\n", &topology), "at least one host");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: [a, a]\n", &topology), "two vertices are named 'a'");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nswitches: [h1]\n", &topology),
                "two vertices are named 'h1'");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nlinks:\n  - {ends: [h0, h1], latency: 3}\n", &topology),
                "latency is 3 seconds: write its unit, such as 3us");
    CHECK_ERROR(read_text("paradl: topology/1\nhosts: 2\nlinks:\n  - {ends: [h0, h1], bandwidth: 0}\n", &topology),
                "net.yaml:4: bandwidth");
    CHECK_ERROR(read_text("paradl: topology/1\nlinks: []\n", &topology), "hosts is missing");
    CHECK_ERROR(read_text("paradl: model/1\nhosts: 2\n", &topology), "topology");
}

static void refuse(pdl_topology_spec_t spec, const char *part)
{
    pdl_topology_t *topology;

    CHECK_ERROR(pdl_topology_create(&spec, &topology), part);
}

static void impossible_networks_are_refused(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("hypercube");

    spec.hosts = 12;
    refuse(spec, "a hypercube has a power of two of switches, not 12");
    spec.hosts_per_switch = 5;
    refuse(spec, "not a multiple");
    refuse(pdl_topology_spec("ring"), "needs a number of hosts");
    refuse(pdl_topology_spec("rign"), "did you mean ring");
    refuse(pdl_topology_spec("no-such-file.yaml"), "no-such-file.yaml");
    spec = pdl_topology_spec("ring");
    spec.hosts = 5000;
    refuse(spec, "at most 1022");
    spec.hosts = INT64_MAX;
    refuse(spec, "more than");
    spec.hosts = -3;
    refuse(spec, "-3 hosts");
    spec = pdl_topology_spec("dln");
    spec.hosts = 12;
    refuse(spec, "a power of two of switches, not 12");
    spec.hosts = 1 << 24;
    refuse(spec, "links");
    spec.stride_count = 1;
    spec.strides[0] = 13;
    spec.hosts = 16;
    refuse(spec, "must be between 1 and 8");
}

static void wrong_shapes_are_refused(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("torus");

    refuse(spec, "--dims");
    spec.dim_count = 2;
    spec.dims[0] = spec.dims[1] = 4;
    spec.hosts = 15;
    refuse(spec, "this torus has 16 hosts");
    spec.hosts = 0;
    spec.dims[1] = 0;
    refuse(spec, "a dimension of 0 switches");
    spec.dims[0] = spec.dims[1] = INT64_MAX / 2;
    refuse(spec, "more than");
    spec = pdl_topology_spec("dragonfly");
    refuse(spec, "--shape");
    spec.shape[0] = 1, spec.shape[1] = 4, spec.shape[2] = 2, spec.shape[3] = 8;
    refuse(spec, "has 9 groups, not 8");
    spec = pdl_topology_spec("kautz");
    refuse(spec, "degree");
    spec.degree = 100;
    spec.diameter = 20;
    refuse(spec, "more than");
    spec.degree = 2, spec.diameter = 2, spec.hosts = 7;
    refuse(spec, "has 6 nodes, not 7");
    spec = pdl_topology_spec("fat-tree");
    spec.hosts = 100;
    refuse(spec, "not a multiple");
    spec.leaf_hosts = 0;
    refuse(spec, "at least one host");
    spec = pdl_topology_spec("xgft");
    refuse(spec, "levels");
    spec = pdl_topology_spec("tsubame3");
    spec.hosts = 6;
    refuse(spec, "not a multiple");
    spec = pdl_topology_spec("ring");
    spec.hosts = 4;
    spec.link_bytes_per_s = -1;
    refuse(spec, "bandwidth of links");
}

/* Taking out any single link of a ring of shared cables leaves the long way round. */
static void routes_go_round_failed_links(void)
{
    pdl_topology_t *topology = make_sized("dln", 64, 2);
    int             links[PDL_MAX_ROUTE], path[PDL_MAX_ROUTE + 1], route[PDL_MAX_ROUTE];

    pdl_topology_route(topology, 0, 20, links);
    CHECK_OK(pdl_topology_fail_link(topology, links[1]));
    for (int src = 0; src < 64; src++)
        for (int dst = 0; dst < 64; dst++) {
            int count = pdl_topology_route(topology, src, dst, route), vertices;
            vertices = pdl_topology_path(topology, src, route, count, path);
            CHECK(vertices >= 1 && path[vertices - 1] == dst);
            for (int i = 0; i < count; i++) CHECK(route[i] != links[1]);
        }
    CHECK_ERROR(pdl_topology_fail_link(topology, 0), "host 0 is cut off");
    pdl_topology_destroy(topology);
    /* GPUs behind a failed port go by NVLink through their neighbours. */
    topology = make_sized("tsubame3", 80, 0);
    pdl_topology_route(topology, 3, 7, links);
    CHECK_OK(pdl_topology_fail_link(topology, links[1]));
    CHECK(pdl_topology_route(topology, 3, 7, route) > 6);
    CHECK(pdl_topology_links(topology)[route[0]].kind == PDL_LINK_NVLINK);
    CHECK_ERROR(pdl_topology_fail_link(topology, pdl_topology_link_count(topology) - 1), "inside of a switch");
    pdl_topology_destroy(topology);
}

static void large_networks_are_searched_when_asked(void)
{
    pdl_topology_t *topology = make_sized("dln", 16384, 8);
    int             links[PDL_MAX_ROUTE], route[PDL_MAX_ROUTE], count, shortest;

    shortest = pdl_topology_route(topology, 0, 9000, links);
    CHECK_OK(pdl_topology_fail_link(topology, links[2]));
    count = pdl_topology_route(topology, 0, 9000, route);
    CHECK(count >= shortest && count <= shortest + 2);
    for (int i = 0; i < count; i++) CHECK(route[i] != links[2]);
    pdl_topology_destroy(topology);
}

static void metrics_agree_with_closed_forms(void)
{
    pdl_topology_spec_t    spec = pdl_topology_spec("fat-tree");
    pdl_topology_metrics_t metrics;
    pdl_topology_t        *topology;

    spec.hosts = 1024;
    spec.uplinks = 11;
    topology = make(spec);
    CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
    CHECK_INT(metrics.switches, 32 + 11);
    CHECK_INT(metrics.cables, 1024 + 32 * 11);
    CHECK_INT(metrics.diameter, 2);
    CHECK_NEAR(metrics.average_hops, 2, 0);
    CHECK_NEAR(metrics.bisection_bytes_per_s, 16 * 11 * 12.5e9, 1e-9);
    pdl_topology_destroy(topology);
    topology = make_sized("hypercube", 64, 0);
    CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
    CHECK_INT(metrics.diameter, 6);
    CHECK_INT(metrics.degree, 6);
    CHECK_NEAR(metrics.average_hops, 6 * 32.0 / 63, 1e-12);
    CHECK_NEAR(metrics.bisection_bytes_per_s, 32 * 12.5e9, 1e-12);
    pdl_topology_destroy(topology);
    topology = make_sized("abci-v", 0, 0);
    CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
    CHECK_INT(metrics.cables, 2 * 1088 + 32 * (4 * 3 * 6 + 3 * 2 * 4));
    CHECK_NEAR(metrics.bisection_bytes_per_s, 16 * 24 * 12.5e9, 1e-9);
    pdl_topology_destroy(topology);
}

/* 16 x 16 cabinets one metre apart: the longest cable of the 2-D network spans 15 of them, that of the 1-D
   network of one row 255. */
static void cables_get_shorter_in_two_dimensions(void)
{
    pdl_topology_spec_t    spec = pdl_topology_spec("dln2d");
    pdl_room_t             room = pdl_room_default();
    pdl_topology_metrics_t two, one;
    pdl_topology_t        *topology;

    room.pitch_x_m = room.pitch_y_m = 1;
    room.slack_m = 0;
    spec.dims[0] = spec.dims[1] = 16;
    spec.dim_count = 2;
    topology = make(spec);
    CHECK_OK(pdl_topology_metrics(topology, &room, &two));
    CHECK_NEAR(two.longest_cable_m, 15, 1e-12);
    CHECK_INT(two.degree, 14);
    pdl_topology_destroy(topology);
    topology = make_sized("dln", 256, 0);
    CHECK_OK(pdl_topology_metrics(topology, &room, &one));
    CHECK(two.cable_m < one.cable_m);
    CHECK(two.cost < one.cost && two.cost > 0);
    room.switches_per_cabinet = 0;
    CHECK_ERROR(pdl_topology_metrics(topology, &room, &one), "a cabinet holds");
    pdl_topology_destroy(topology);
}

/* What a writer writes, as text that the caller frees. */
static char *written(const pdl_topology_t *topology, pdl_status_t (*writer)(const pdl_topology_t *, FILE *))
{
    FILE *file = tmpfile();
    long  size;
    char *text;

    if (file == NULL) exit(1);
    CHECK_OK(writer(topology, file));
    size = ftell(file);
    text = calloc((size_t)size + 1, 1);
    rewind(file);
    if (text == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) exit(1);
    fclose(file);
    return text;
}

/* Hands the text to a command; its exit status. */
static int feed(const char *command, const char *text)
{
    FILE *pipe = popen(command, "w");

    if (pipe == NULL) return -1;
    fputs(text, pipe);
    return pclose(pipe);
}

static void exports_can_be_read(void)
{
    const struct {
        const char *name;
        int64_t     hosts, per_switch;
    } cases[] = {{"dln", 32, 2}, {"tsubame3", 40, 0}, {"fat-tree", 64, 0}, {"ring", 8, 0}, {"hybrid", 32, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_topology_t *topology = make_sized(cases[i].name, cases[i].hosts, cases[i].per_switch);
        char           *xml = written(topology, pdl_topology_write_simgrid), *again;
        char           *dot = written(topology, pdl_topology_write_dot);
        CHECK(strstr(xml, "<platform version=\"4.1\">") != NULL);
        CHECK(strstr(xml, "<route src=\"h1\" dst=\"h0\" symmetrical=\"NO\">") != NULL);
        CHECK_INT(feed("python3 -c 'import sys, xml.etree.ElementTree as t; t.fromstring(sys.stdin.read())'", xml),
                  0);
        if (system("dot -V >/dev/null 2>&1") == 0) CHECK_INT(feed("dot -Tcanon >/dev/null", dot), 0);
        again = written(topology, pdl_topology_write_simgrid);
        CHECK_STR(xml, again); /* the same bytes every time */
        free(xml);
        free(again);
        free(dot);
        pdl_topology_destroy(topology);
    }
    pdl_topology_t *large = make_sized("dln", 2048, 0);
    CHECK_ERROR(pdl_topology_write_simgrid(large, stdout), "2048 hosts are too many");
    pdl_topology_destroy(large);
}

/* Two leaves of four hosts with three spines: one may fail, and another, but not the last. */
static void routes_go_round_failed_switches(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("fat-tree");
    pdl_topology_t     *topology;
    int                 links[PDL_MAX_ROUTE], path[PDL_MAX_ROUTE + 1];

    spec.hosts = 8;
    spec.leaf_hosts = 4;
    spec.uplinks = 3;
    REQUIRE_OK(pdl_topology_create(&spec, &topology));
    CHECK_OK(pdl_topology_fail_switch(topology, 10));
    CHECK_OK(pdl_topology_fail_switch(topology, 12));
    for (int a = 0; a < 4; a++)
        for (int b = 4; b < 8; b++) {
            CHECK_INT(pdl_topology_path(topology, a, links, pdl_topology_route(topology, a, b, links), path), 5);
            CHECK_INT(path[2], 11);
        }
    CHECK_ERROR(pdl_topology_fail_switch(topology, 11), "cut off");
    CHECK_ERROR(pdl_topology_fail_switch(topology, 8), "cut off");
    CHECK_ERROR(pdl_topology_fail_switch(topology, 7), "no switch");
    CHECK_ERROR(pdl_topology_fail_switch(topology, 13), "no switch");
    CHECK_INT(pdl_topology_route(topology, 0, 4, links), 4);
    pdl_topology_destroy(topology);
}

/* 4 hosts at a switch: 4 short cables and 4 ports. */
static void rooms_have_prices_and_powers(void)
{
    pdl_topology_spec_t    spec = pdl_topology_spec("fat-tree");
    pdl_room_t             room = pdl_room_default();
    pdl_topology_metrics_t before, after;
    pdl_topology_t        *topology;

    spec.hosts = spec.leaf_hosts = 4;
    spec.uplinks = 1;
    REQUIRE_OK(pdl_topology_create(&spec, &topology));
    CHECK_OK(pdl_topology_metrics(topology, &room, &before));
    CHECK_OK(pdl_room_set(&room, "switch-cost=1000"));
    CHECK_OK(pdl_room_set(&room, "host-cost=10"));
    CHECK_OK(pdl_room_set(&room, "port-power=7W"));
    CHECK_OK(pdl_room_set(&room, "switch-power=0.1kW"));
    CHECK_OK(pdl_room_set(&room, "copper-power=0.5"));
    CHECK_OK(pdl_topology_metrics(topology, &room, &after));
    CHECK_NEAR(after.cost - before.cost, 1000 * after.switches + 10 * 4, 1e-9);
    CHECK_NEAR(after.power_w - before.power_w, 100 * after.switches + 2 * (before.power_w / 5) + 0.5 * after.cables,
               1e-9);
    CHECK_ERROR(pdl_room_set(&room, "price=3"), "has no \"price=3\"; it has pitch-x");
    CHECK_ERROR(pdl_room_set(&room, "port-cost"), "expected a number");
    CHECK_ERROR(pdl_room_set(&room, "port-cost=3W"), "expected a number");
    pdl_topology_destroy(topology);
}

int main(void)
{
    RUN(graph_routes_take_the_lowest_link);
    RUN(hosts_forward_only_when_asked);
    RUN(files_can_name_built_in_topologies);
    RUN(mistakes_in_graphs_have_a_place);
    RUN(impossible_networks_are_refused);
    RUN(wrong_shapes_are_refused);
    RUN(routes_go_round_failed_links);
    RUN(routes_go_round_failed_switches);
    RUN(rooms_have_prices_and_powers);
    RUN(large_networks_are_searched_when_asked);
    RUN(metrics_agree_with_closed_forms);
    RUN(cables_get_shorter_in_two_dimensions);
    RUN(exports_can_be_read);
    return test_done();
}
