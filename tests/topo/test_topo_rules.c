/*
 * What communication.md says about single topologies: who owns which cable, which way ties go, how often links are
 * crossed, and counts of all-to-all traffic.
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

static pdl_topology_t *make_sized(const char *name, int64_t hosts)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);

    spec.hosts = hosts;
    return make(spec);
}

/* The vertices of a route; returns how many. */
static int path_of(const pdl_topology_t *topology, int src, int dst, int *path)
{
    int links[PDL_MAX_ROUTE], count = pdl_topology_route(topology, src, dst, links);

    return pdl_topology_path(topology, src, links, count, path);
}

static void tori_break_ties_by_parity(void)
{
    pdl_topology_t *topology = make_sized("ring", 8);
    int             path[PDL_MAX_ROUTE + 1];

    CHECK_INT(path_of(topology, 2, 6, path), 5);
    CHECK_INT(path[1], 3);
    CHECK_INT(path_of(topology, 3, 7, path), 5);
    CHECK_INT(path[1], 2);
    CHECK_INT(path_of(topology, 0, 7, path), 2);
    pdl_topology_destroy(topology);
}

static void torus_goes_dimension_by_dimension(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("torus");
    pdl_topology_t     *topology;
    int                 path[PDL_MAX_ROUTE + 1];

    spec.dims[0] = spec.dims[1] = 5;
    spec.dim_count = 2;
    topology = make(spec);
    CHECK_INT(path_of(topology, 0, 2 + 5 * 4, path), 4);
    CHECK_INT(path[1], 1);
    CHECK_INT(path[2], 2);
    CHECK_INT(path[3], 22);
    CHECK_INT(pdl_topology_link_count(topology), 100);
    pdl_topology_destroy(topology);
}

static void hypercube_corrects_low_bits_first(void)
{
    pdl_topology_t *topology = make_sized("hypercube", 16);
    int             path[PDL_MAX_ROUTE + 1];

    CHECK_INT(path_of(topology, 5, 8, path), 4);
    CHECK_INT(path[1], 4);
    CHECK_INT(path[2], 0);
    CHECK_INT(path[3], 8);
    CHECK_INT(pdl_topology_link_count(topology), 64);
    pdl_topology_destroy(topology);
}

static void half_duplex_shares_one_link(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("dln");
    pdl_topology_t     *topology;
    int                 there[PDL_MAX_ROUTE], back[PDL_MAX_ROUTE];

    spec.hosts = 32;
    spec.hosts_per_switch = 2;
    spec.duplex = PDL_HALF_DUPLEX;
    topology = make(spec);
    CHECK_INT(pdl_topology_link_count(topology), 32 + 16 * 3 + 8);
    CHECK_INT(pdl_topology_route(topology, 0, 2, there), 3);
    CHECK_INT(pdl_topology_route(topology, 2, 0, back), 3);
    for (int i = 0; i < 3; i++) CHECK_INT(there[i], back[2 - i]);
    pdl_topology_destroy(topology);
}

static void full_dln_has_the_cables_of_the_paper(void)
{
    for (int q = 2; q <= 10; q++) {
        int64_t                n = INT64_C(1) << q;
        pdl_topology_t        *topology = make_sized("dln", n);
        pdl_topology_metrics_t metrics;
        CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
        CHECK_INT(metrics.cables, n * (q - 1) + n / 2);
        CHECK_INT(metrics.degree, 2 * q - 1);
        CHECK_INT(metrics.diameter, (q + 1) / 2);
        CHECK_NEAR(metrics.bisection_bytes_per_s, (1.5 * (double)n - 2) * 12.5e9, 1e-12);
        CHECK(!metrics.sampled);
        pdl_topology_destroy(topology);
    }
}

/* The network looks the same from everywhere, so that routes from 0 show all lengths. */
static void dln_routes_are_shortest(void)
{
    for (int q = 1; q <= 12; q++) {
        int             n = 1 << q, links[PDL_MAX_ROUTE], *distance = malloc((size_t)n * sizeof(int));
        int            *queue = malloc((size_t)n * sizeof(int)), head = 0, tail = 0, wrong = 0;
        pdl_topology_t *topology = make_sized("dln", n);
        for (int i = 0; i < n; i++) distance[i] = -1;
        distance[0] = 0;
        queue[tail++] = 0;
        while (head < tail) {
            int at = queue[head++];
            for (int stride = 1; stride < n; stride *= 2)
                for (int sign = 0; sign < 2; sign++) {
                    int next = (at + (sign ? stride : n - stride)) % n;
                    if (distance[next] >= 0) continue;
                    distance[next] = distance[at] + 1;
                    queue[tail++] = next;
                }
        }
        for (int dst = 0; dst < n; dst++) {
            int src = (dst * 7) % n;
            wrong += pdl_topology_route(topology, 0, dst, links) != distance[dst];
            wrong += pdl_topology_route(topology, src, (src + dst) % n, links) != distance[dst];
        }
        CHECK_INT(wrong, 0);
        free(distance);
        free(queue);
        pdl_topology_destroy(topology);
    }
}

static void dln_average_hops_are_those_published(void)
{
    const struct {
        int    n;
        double hops;
    } known[] = {{16, 1.53}, {64, 2.14}, {256, 2.79}, {1024, 3.45}, {4096, 4.11}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        pdl_topology_t        *topology = make_sized("dln", known[i].n);
        pdl_topology_metrics_t metrics;
        CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
        CHECK(fabs(metrics.average_hops - known[i].hops) < 0.00501);
        pdl_topology_destroy(topology);
    }
}

/* A list that leaves out strides is searched; spelt-out powers are routed by digits. Both are shortest. */
static void dln_with_some_strides_matches_the_search(void)
{
    const int64_t       strides[] = {1, 30, 15, 7};
    pdl_topology_spec_t spec = pdl_topology_spec("dln");
    pdl_topology_t     *topology;
    int                 path[PDL_MAX_ROUTE + 1];

    spec.hosts = 60;
    spec.stride_count = 4;
    memcpy(spec.strides, strides, sizeof(strides));
    topology = make(spec);
    CHECK_INT(path_of(topology, 50, 5, path), 2); /* +15 */
    CHECK_INT(path_of(topology, 10, 32, path), 3);
    CHECK_INT(path[1], 25); /* +15 then +7: the search from 0 takes strides in the order of the list */
    pdl_topology_destroy(topology);
    spec.hosts = 8;
    spec.stride_count = 2;
    spec.strides[0] = 2;
    spec.strides[1] = 4;
    CHECK_ERROR(pdl_topology_create(&spec, &topology), "reach 4 of 8 switches");
}

static void fat_tree_spine_is_d_mod_w(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("fat-tree");
    pdl_topology_t     *topology;
    int                 path[PDL_MAX_ROUTE + 1];

    spec.hosts = 256;
    spec.leaf_hosts = 32;
    spec.uplinks = 11;
    topology = make(spec);
    for (int dst = 32; dst < 256; dst++) {
        CHECK_INT(path_of(topology, 3, dst, path), 5);
        CHECK_INT(path[1], 256);
        CHECK_INT(path[2], 256 + 8 + dst % 11);
        CHECK_INT(path[3], 256 + dst / 32);
    }
    CHECK_INT(path_of(topology, 3, 31, path), 3);
    CHECK_INT(pdl_topology_link_count(topology), 2 * (256 + 8 * 11));
    CHECK_INT(pdl_topology_hosts_per_switch(topology), 32);
    pdl_topology_destroy(topology);
}

static void abci_ports_and_switches_follow_the_rules(void)
{
    pdl_topology_t   *topology = make_sized("abci-v", 0);
    const pdl_link_t *links = pdl_topology_links(topology);
    int               path[PDL_MAX_ROUTE + 1], route[PDL_MAX_ROUTE], pcie = 4352, rack = pcie + 2 * 1088, count;
    int               spine = rack + 32 * 7;
    double            latency = 0;

    CHECK_INT(pdl_topology_hosts(topology), 4352);
    CHECK_INT(path_of(topology, 0, 3, path), 2);
    CHECK_INT(path_of(topology, 0, 9, path), 5); /* node 2: again leaf 0 */
    CHECK_INT(path[2], rack);
    CHECK_INT(path_of(topology, 2, 5, path), 7); /* node 1: leaf 2, through an FBB */
    CHECK_INT(path[2], rack + 1);
    CHECK_INT(path[3], rack + 4 + 5 % 3);
    CHECK_INT(path[4], rack + 2);
    for (int dst = 4 * 34; dst < 4352; dst += 97) {
        CHECK_INT(path_of(topology, 1, dst, path), 9);
        CHECK_INT(path[3], rack + 4 + dst % 3);
        CHECK_INT(path[4], spine + dst / 3 % 2);
        CHECK_INT(path[5], rack + 7 * (dst / 136) + 4 + dst % 3);
        CHECK_INT(path[6], rack + 7 * (dst / 136) + dst / 2 % 4);
    }
    count = pdl_topology_route(topology, 1, 4351, route);
    for (int i = 0; i < count; i++) latency += links[route[i]].latency_s;
    CHECK_NEAR(latency, 2 * 7.5e-6 + 6 * 26e-9 + 4 * 90e-9 + 400e-9, 1e-12);
    CHECK_NEAR(links[route[2]].bytes_per_s, 75e9, 0);
    CHECK_NEAR(links[route[3]].bytes_per_s, 50e9, 0);
    CHECK_INT(links[route[2]].cables, 6);
    pdl_topology_destroy(topology);
}

static int count_inside(const pdl_topology_t *topology, const int *links, int count, int vertex)
{
    int found = 0;

    for (int i = 0; i < count; i++) {
        const pdl_link_t *link = &pdl_topology_links(topology)[links[i]];
        found += link->kind == PDL_LINK_INTERNAL && link->src == vertex;
    }
    return found;
}

static void tsubame3_crosses_twice_where_it_turns(void)
{
    pdl_topology_t *topology = make_sized("tsubame3", 256);
    int             links[PDL_MAX_ROUTE], leaf = 256 + 128, root = leaf + 16, count;
    double          latency = 0;

    count = pdl_topology_route(topology, 0, 4, links);
    CHECK_INT(count, 6);
    CHECK_INT(count_inside(topology, links, count, leaf), 2);
    for (int i = 0; i < count; i++) latency += pdl_topology_links(topology)[links[i]].latency_s;
    CHECK_NEAR(latency, 452e-9, 1e-12);
    count = pdl_topology_route(topology, 2, 9 * 4 + 3, links);
    CHECK_INT(count_inside(topology, links, count, leaf + 1), 1);
    CHECK_INT(count_inside(topology, links, count, leaf + 3), 1);
    CHECK_INT(count_inside(topology, links, count, root), 2);
    CHECK_NEAR(pdl_topology_links(topology)[links[0]].idle_w, 10.37, 1e-12);
    count = pdl_topology_route(topology, 3, 36, links); /* the rail changes at the root */
    CHECK_INT(count, 10);
    CHECK_INT(count_inside(topology, links, count, leaf + 1), 1);
    CHECK_INT(count_inside(topology, links, count, leaf + 2), 1);
    count = pdl_topology_route(topology, 3, 4, links); /* it does not inside a group */
    CHECK_INT(count, 7);
    CHECK_INT(count_inside(topology, links, count, leaf + 1), 2);
    CHECK(pdl_topology_links(topology)[links[6]].kind == PDL_LINK_NVLINK);
    CHECK_INT(pdl_topology_links(topology)[links[6]].dst, 7); /* pair (4,7) */
    CHECK_INT(pdl_topology_route(topology, 0, 2, links), 1);
    CHECK_NEAR(pdl_topology_links(topology)[links[0]].bytes_per_s, 100e9, 0);
    CHECK_INT(pdl_topology_hosts_per_switch(topology), 4);
    pdl_topology_destroy(topology);
}

/* Blocks per link when every host sends one to every other. */
static int *all_to_all(const pdl_topology_t *topology)
{
    int  hosts = pdl_topology_hosts(topology), links[PDL_MAX_ROUTE];
    int *load = calloc((size_t)pdl_topology_link_count(topology), sizeof(*load));

    for (int src = 0; src < hosts; src++)
        for (int dst = 0; dst < hosts; dst++) {
            int count = pdl_topology_route(topology, src, dst, links);
            for (int i = 0; i < count; i++) load[links[i]]++;
        }
    return load;
}

static void dragonfly_counts_are_those_of_the_claim(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("dragonfly");
    const int64_t       shape[4] = {1, 16, 1, 17};
    pdl_topology_t     *topology;
    int                *load, locals = 17 * 16 * 15;

    memcpy(spec.shape, shape, sizeof(shape));
    topology = make(spec);
    CHECK_INT(pdl_topology_hosts(topology), 272);
    CHECK_INT(pdl_topology_link_count(topology), locals + 17 * 16);
    load = all_to_all(topology);
    for (int i = 0; i < locals + 17 * 16; i++) CHECK_INT(load[i], i < locals ? 33 : 256);
    free(load);
    pdl_topology_destroy(topology);
}

static void valiant_depends_on_the_seed_only(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("dragonfly");
    const int64_t       shape[4] = {2, 4, 2, 9};
    pdl_topology_t     *a, *b, *c;
    int                 one[PDL_MAX_ROUTE], two[PDL_MAX_ROUTE], differ = 0;

    memcpy(spec.shape, shape, sizeof(shape));
    spec.valiant = true;
    a = make(spec);
    b = make(spec);
    spec.seed = 2;
    c = make(spec);
    for (int dst = 8; dst < 72; dst++) {
        int count = pdl_topology_route(a, 0, dst, one);
        CHECK_INT(pdl_topology_route(b, 0, dst, two), count);
        CHECK(memcmp(one, two, (size_t)count * sizeof(int)) == 0);
        differ += pdl_topology_route(c, 0, dst, two) != count || memcmp(one, two, (size_t)count * sizeof(int)) != 0;
    }
    CHECK(differ > 20);
    pdl_topology_destroy(a);
    pdl_topology_destroy(b);
    pdl_topology_destroy(c);
}

static void kautz_counts_are_those_of_the_claim(void)
{
    pdl_topology_spec_t    spec = pdl_topology_spec("kautz");
    pdl_topology_t        *topology;
    pdl_topology_metrics_t metrics;
    int                   *load, least = 1 << 30, most = 0;

    spec.degree = 16;
    spec.diameter = 2;
    topology = make(spec);
    CHECK_INT(pdl_topology_hosts(topology), 272);
    CHECK_INT(pdl_topology_link_count(topology), 4352);
    CHECK_OK(pdl_topology_metrics(topology, NULL, &metrics));
    CHECK_INT(metrics.diameter, 2);
    CHECK_INT(metrics.degree, 16);
    CHECK(fabs(metrics.average_hops - 1.941) < 0.0005);
    load = all_to_all(topology);
    for (int i = 0; i < 4352; i++) {
        least = load[i] < least ? load[i] : least;
        most = load[i] > most ? load[i] : most;
    }
    CHECK_INT(least, 31);
    CHECK_INT(most, 33);
    free(load);
    pdl_topology_destroy(topology);
}

/* Counts the shortest paths of every pair by powers of the adjacency matrix. */
static void kautz_shortest_paths_are_unique(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("kautz");
    pdl_topology_t     *topology;
    static int          ways[2][64];
    int                 links[PDL_MAX_ROUTE], n, d = 3, wrong = 0;

    spec.degree = d;
    spec.diameter = 3;
    topology = make(spec);
    n = pdl_topology_hosts(topology);
    CHECK_INT(n, 36);
    for (int src = 0; src < n; src++) {
        int seen[64] = {0};
        memset(ways, 0, sizeof(ways));
        ways[0][src] = seen[src] = 1;
        for (int hop = 1; hop <= 3; hop++) {
            int *from = ways[(hop - 1) % 2], *to = ways[hop % 2];
            memset(to, 0, sizeof(ways[0]));
            for (int i = 0; i < n * d; i++)
                to[pdl_topology_links(topology)[i].dst] += from[pdl_topology_links(topology)[i].src];
            for (int v = 0; v < n; v++) {
                if (to[v] == 0 || seen[v]) continue;
                seen[v] = 1;
                wrong += to[v] != 1 || pdl_topology_route(topology, src, v, links) != hop;
            }
        }
        for (int v = 0; v < n; v++) wrong += !seen[v];
    }
    CHECK_INT(wrong, 0);
    pdl_topology_destroy(topology);
}

static void fc2_links_follow_the_routing(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("fc2");
    pdl_topology_t     *topology;
    int                 path[PDL_MAX_ROUTE + 1], *load;

    spec.dims[0] = spec.dims[1] = 8;
    spec.dim_count = 2;
    topology = make(spec);
    CHECK_INT(path_of(topology, 9, 23, path), 3); /* (1,1) to (2,7) */
    CHECK_INT(path[1], 15);
    load = all_to_all(topology);
    for (int i = 0; i < pdl_topology_link_count(topology); i++) CHECK_INT(load[i], 8);
    free(load);
    pdl_topology_destroy(topology);
    spec.fc2_routing = 1;
    topology = make(spec);
    CHECK_INT(path_of(topology, 9, 23, path), 3);
    CHECK_INT(path[1], 17);
    pdl_topology_destroy(topology);
    spec.fc2_routing = 2;
    topology = make(spec);
    CHECK_INT(path_of(topology, 8, 23, path), 3);
    CHECK_INT(path[1], 15);
    CHECK_INT(path_of(topology, 9, 23, path), 3);
    CHECK_INT(path[1], 17);
    pdl_topology_destroy(topology);
}

int main(void)
{
    RUN(tori_break_ties_by_parity);
    RUN(torus_goes_dimension_by_dimension);
    RUN(hypercube_corrects_low_bits_first);
    RUN(half_duplex_shares_one_link);
    RUN(full_dln_has_the_cables_of_the_paper);
    RUN(dln_routes_are_shortest);
    RUN(dln_average_hops_are_those_published);
    RUN(dln_with_some_strides_matches_the_search);
    RUN(fat_tree_spine_is_d_mod_w);
    RUN(abci_ports_and_switches_follow_the_rules);
    RUN(tsubame3_crosses_twice_where_it_turns);
    RUN(dragonfly_counts_are_those_of_the_claim);
    RUN(valiant_depends_on_the_seed_only);
    RUN(kautz_counts_are_those_of_the_claim);
    RUN(kautz_shortest_paths_are_unique);
    RUN(fc2_links_follow_the_routing);
    return test_done();
}
