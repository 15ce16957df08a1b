/*
 * Every topology over several sizes: routes start and end where they should, hold together, pass through no host
 * unless nodes relay, are as long as documented, and use every link in a direction it has.
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

static pdl_topology_spec_t sized(const char *name, int64_t hosts, int64_t per_switch)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);

    spec.hosts = hosts;
    spec.hosts_per_switch = per_switch;
    return spec;
}

static pdl_topology_spec_t grid(const char *name, int64_t a, int64_t b, int64_t c, int64_t per_switch)
{
    pdl_topology_spec_t spec = sized(name, 0, per_switch);

    spec.dims[spec.dim_count++] = a;
    spec.dims[spec.dim_count++] = b;
    if (c > 0) spec.dims[spec.dim_count++] = c;
    return spec;
}

static pdl_topology_spec_t kautz(int64_t degree, int64_t diameter)
{
    pdl_topology_spec_t spec = pdl_topology_spec("kautz");

    spec.degree = degree;
    spec.diameter = diameter;
    return spec;
}

static pdl_topology_spec_t dragonfly(int64_t p, int64_t a, int64_t h, int64_t per_switch)
{
    pdl_topology_spec_t spec = sized("dragonfly", 0, per_switch);

    spec.shape[0] = p;
    spec.shape[1] = a;
    spec.shape[2] = h;
    spec.shape[3] = a * h + 1;
    return spec;
}

static pdl_topology_spec_t tree(int64_t hosts, int64_t leaf, int64_t uplinks)
{
    pdl_topology_spec_t spec = sized("fat-tree", hosts, 0);

    spec.leaf_hosts = leaf;
    spec.uplinks = uplinks;
    return spec;
}

static pdl_topology_spec_t half(pdl_topology_spec_t spec)
{
    spec.duplex = PDL_HALF_DUPLEX;
    return spec;
}

/* Checks a route and returns its links between vertices; -1 when it is broken. */
static int check_route(const pdl_topology_t *topology, int src, int dst, bool relay)
{
    static int links[PDL_MAX_ROUTE], path[PDL_MAX_ROUTE + 1];
    int        count = pdl_topology_route(topology, src, dst, links), vertices;

    if (count < 0 || count > PDL_MAX_ROUTE) return -1;
    if (src == dst) return count == 0 ? 0 : -1;
    for (int i = 0; i < count; i++)
        if (links[i] < 0 || links[i] >= pdl_topology_link_count(topology)) return -1;
    vertices = pdl_topology_path(topology, src, links, count, path);
    if (vertices < 2 || path[vertices - 1] != dst) return -1;
    for (int i = 1; i + 1 < vertices; i++)
        if (!relay && path[i] < pdl_topology_hosts(topology)) return -1;
    return vertices - 1;
}

/* All pairs; the longest route must have `longest` links between vertices. */
static void check_all(pdl_topology_spec_t spec, bool relay, int longest)
{
    pdl_topology_t *topology = make(spec);
    int             hosts = pdl_topology_hosts(topology), most = 0, broken = 0;

    for (int src = 0; src < hosts; src++)
        for (int dst = 0; dst < hosts; dst++) {
            int length = check_route(topology, src, dst, relay);
            if (length < 0 && broken++ < 3) printf("%s: broken route %d -> %d\n", spec.name, src, dst);
            if (length > most) most = length;
        }
    CHECK_INT(broken, 0);
    if (most != longest) printf("%s (%s), %d hosts\n", spec.name, pdl_topology_description(topology), hosts);
    CHECK_INT(most, longest);
    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        const pdl_link_t *link = &pdl_topology_links(topology)[i];
        int               vertices = pdl_topology_vertices(topology);
        CHECK(link->src >= 0 && link->src < vertices && link->dst >= 0 && link->dst < vertices);
        CHECK(link->bytes_per_s > 0 && link->latency_s >= 0 && link->cables >= 1);
    }
    pdl_topology_destroy(topology);
}

/* The same with shared cables, whose two directions must name the same link. */
static void check_both(pdl_topology_spec_t spec, bool relay, int longest)
{
    check_all(spec, relay, longest);
    check_all(half(spec), relay, longest);
}

static void rings_and_tori_hold_together(void)
{
    for (int n = 1; n <= 9; n++) check_both(sized("ring", n, 0), true, n / 2);
    check_both(sized("ring", 130, 0), true, 65);
    check_both(sized("ring", 24, 4), false, 3 + 2);
    check_both(grid("torus", 4, 4, 0, 0), true, 4);
    check_both(grid("torus", 2, 3, 5, 0), true, 1 + 1 + 2);
    check_both(grid("torus", 1, 2, 7, 2), false, 0 + 1 + 3 + 2);
    check_both(grid("torus", 2, 2, 2, 1), false, 3 + 2);
}

static void hypercubes_hold_together(void)
{
    for (int q = 0; q <= 7; q++) check_both(sized("hypercube", INT64_C(1) << q, 0), true, q);
    check_both(sized("hypercube", 96, 3), false, 5 + 2);
}

static void fully_connected_grids_hold_together(void)
{
    for (int routing = 0; routing < 3; routing++) {
        pdl_topology_spec_t spec = grid("fc2", 5, 3, 0, 0);
        spec.fc2_routing = routing;
        check_both(spec, true, 2);
        spec.hosts_per_switch = 2;
        check_both(spec, false, 4);
    }
    check_both(grid("fc2", 1, 6, 0, 0), true, 1);
}

static void trees_hold_together(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("xgft");
    const int64_t       m[] = {4, 3, 2}, w[] = {2, 2, 3}, q[] = {1, 2, 3};

    check_both(tree(128, 32, 11), false, 4);
    check_both(tree(64, 8, 8), false, 4);
    check_both(tree(16, 32, 0), false, 2);
    check_both(tree(5, 1, 1), false, 4);
    spec.xgft_levels = 3;
    memcpy(spec.xgft_m, m, sizeof(m));
    memcpy(spec.xgft_w, w, sizeof(w));
    memcpy(spec.xgft_q, q, sizeof(q));
    check_both(spec, false, 6);
    spec.xgft_levels = 1;
    check_both(spec, false, 2);
}

static void machines_hold_together(void)
{
    for (int nodes = 1; nodes <= 40; nodes += 13) {
        /* In a group 4 links, and one of NVLink to a receiver on the other rail; through the root 6. */
        int longest = nodes == 1 ? 1 : nodes <= 9 ? 5 : 6;
        check_all(half(sized("tsubame3", 4 * nodes, 0)), true, longest);
        check_all(sized("tsubame3", 4 * nodes, 0), true, longest);
        check_both(sized("abci-v", 4 * nodes, 0), false, nodes == 1 ? 1 : nodes <= 34 ? 6 : 8);
    }
}

static void dragonflies_hold_together(void)
{
    pdl_topology_spec_t spec;

    check_both(dragonfly(1, 16, 1, 0), true, 3);
    check_both(dragonfly(2, 4, 2, 0), false, 3 + 2);
    check_both(dragonfly(1, 3, 2, 1), false, 3 + 2);
    check_both(dragonfly(1, 1, 3, 0), true, 1);
    spec = dragonfly(2, 4, 2, 0);
    spec.valiant = true;
    check_both(spec, false, 5 + 2);
}

static void loops_hold_together(void)
{
    const int64_t strides[] = {1, 12, 6, 3};

    for (int q = 0; q <= 8; q++) check_both(sized("dln", INT64_C(1) << q, 0), true, (q + 1) / 2);
    check_both(sized("dln", 128, 8), false, 2 + 2);
    pdl_topology_spec_t spec = sized("dln", 24, 0);
    memcpy(spec.strides, strides, sizeof(strides));
    spec.stride_count = 4;
    check_both(spec, true, 3);
    spec.stride_count = 1; /* DLN-2 is the ring */
    check_both(spec, true, 12);
    check_both(grid("dln2d", 8, 16, 0, 0), true, 2 + 2);
    check_both(grid("dln2d", 1, 8, 0, 2), false, 2 + 2);
    check_both(grid("dln2d", 2, 4, 0, 3), false, 2 + 2);
}

static void kautz_networks_hold_together(void)
{
    for (int d = 1; d <= 4; d++)
        for (int k = 1; k <= 4; k++) check_all(kautz(d, k), true, d == 1 ? 1 : k);
    check_all(kautz(16, 2), true, 2);
}

static void circuits_are_part_of_routes(void)
{
    pdl_topology_spec_t spec = sized("hybrid", 64, 0);
    pdl_topology_t     *topology;
    int                 links[PDL_MAX_ROUTE], pairs[128], shared[] = {0, 1, 0, 2};

    check_both(spec, false, 4);
    spec.link_latency_s = 2e-6;
    spec.optical_bytes_per_s = 50e9;
    topology = make(spec);
    for (int i = 0; i < 64; i++) {
        pairs[2 * i] = i;
        pairs[2 * i + 1] = (i + 1) % 64;
    }
    CHECK_OK(pdl_topology_set_circuits(topology, pairs, 64));
    for (int i = 0; i < 64; i++) {
        const pdl_link_t *all = pdl_topology_links(topology);
        CHECK_INT(pdl_topology_route(topology, i, (i + 1) % 64, links), 2);
        CHECK(all[links[0]].kind == PDL_LINK_OPTICAL && all[links[1]].kind == PDL_LINK_OPTICAL);
        CHECK_NEAR(all[links[0]].latency_s + all[links[1]].latency_s, 2e-6, 1e-12);
        CHECK_NEAR(all[links[1]].bytes_per_s, 50e9, 0);
        CHECK_INT(check_route(topology, i, (i + 1) % 64, false), 2);
        CHECK(all[links[0]].src == i && all[links[1]].dst == (i + 1) % 64);
    }
    CHECK_INT(pdl_topology_route(topology, 1, 0, links), 2);
    CHECK(pdl_topology_links(topology)[links[0]].kind == PDL_LINK_HOST);
    CHECK_INT(pdl_topology_route_sized(topology, 31, 32, 1e3, links), 4);
    CHECK_INT(pdl_topology_route_sized(topology, 31, 32, 1e6, links), 2);
    CHECK_ERROR(pdl_topology_set_circuits(topology, shared, 2), "no optical port is left");
    CHECK_INT(pdl_topology_route(topology, 31, 32, links), 2); /* as before */
    CHECK_OK(pdl_topology_set_circuits(topology, NULL, 0));
    CHECK_INT(pdl_topology_route(topology, 31, 32, links), 4);
    pairs[1] = 64;
    CHECK_ERROR(pdl_topology_set_circuits(topology, pairs, 1), "no circuit is possible");
    pdl_topology_destroy(topology);
    topology = make(sized("ring", 4, 0));
    CHECK_ERROR(pdl_topology_set_circuits(topology, pairs, 1), "no optical circuits");
    pdl_topology_destroy(topology);
}

static void speeds_go_to_the_right_links(void)
{
    pdl_topology_spec_t spec = sized("dln", 32, 4);
    pdl_topology_t     *topology;
    int                 links[PDL_MAX_ROUTE], count;

    spec.link_bytes_per_s = 25e9;
    spec.link_latency_s = 2e-6;
    spec.host_link_bytes_per_s = 10e9;
    spec.host_link_latency_s = 0;
    topology = make(spec);
    count = pdl_topology_route(topology, 0, 31, links);
    CHECK_INT(count, 3);
    CHECK_NEAR(pdl_topology_links(topology)[links[0]].bytes_per_s, 10e9, 0);
    CHECK_NEAR(pdl_topology_links(topology)[links[0]].latency_s, 0, 0);
    CHECK_NEAR(pdl_topology_links(topology)[links[1]].bytes_per_s, 25e9, 0);
    CHECK_NEAR(pdl_topology_links(topology)[links[2]].bytes_per_s, 10e9, 0);
    CHECK_INT(pdl_topology_hosts_per_switch(topology), 4);
    pdl_topology_destroy(topology);
}

int main(void)
{
    RUN(rings_and_tori_hold_together);
    RUN(hypercubes_hold_together);
    RUN(fully_connected_grids_hold_together);
    RUN(trees_hold_together);
    RUN(machines_hold_together);
    RUN(dragonflies_hold_together);
    RUN(loops_hold_together);
    RUN(kautz_networks_hold_together);
    RUN(circuits_are_part_of_routes);
    RUN(speeds_go_to_the_right_links);
    return test_done();
}
