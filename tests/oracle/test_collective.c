/*
 * Prices of collectives: the closed forms of ring, tree and hierarchical algorithms, and what placement on a
 * machine makes of a group.
 */
#include "test.h"

#include "oracle/cost/cost.h"

static const pdl_system_t *abci;

/* Six nodes of four. */
static const pdl_group_t group = {.ranks = 24,
                                  .step_s = 4e-5,
                                  .seconds_per_byte = 1 / 12.5e9,
                                  .phi = 1,
                                  .kappa = 1,
                                  .level = 1,
                                  .nodes = 6,
                                  .ranks_per_node = 4,
                                  .node_step_s = 9e-6,
                                  .node_seconds_per_byte = 1 / 150e9};

#define BY(name) (&(pdl_algorithm_t){.form = PDL_FORM_##name})

static double seconds(pdl_primitive_t primitive, const pdl_algorithm_t *algorithm, double bytes)
{
    return pdl_collective_seconds(&group, primitive, algorithm, false, bytes);
}

static void closed_forms(void)
{
    const double p = 24, n = 6, g = 4, a = 4e-5, b = 1 / 12.5e9, ai = 9e-6, bi = 1 / 150e9;

    for (double m = 1; m < 1e10; m *= 7) {
        double ring = (p - 1) * (a + m / p * b);
        CHECK_NEAR(seconds(PDL_ALLGATHER, BY(RING), m), ring, 1e-12);
        CHECK_NEAR(seconds(PDL_REDUCE_SCATTER, BY(AUTO), m), ring, 1e-12);
        CHECK_NEAR(seconds(PDL_ALLTOALL, BY(AUTO), m), ring, 1e-12);
        CHECK_NEAR(seconds(PDL_ALLREDUCE, BY(RING), m), 2 * ring, 1e-12);
        double tree = 2 * log2(n) * a + 2 * (g - 1) * ai + 2 * m * (p - 1) / p * b;
        CHECK_NEAR(seconds(PDL_ALLREDUCE, BY(TREE), m), tree, 1e-12);
        /* Segmented: g exchanges of m / g at once over ports that one ring would have to itself. */
        double segmented = 2 * (g - 1) * (ai + m / g * bi) + 2 * (n - 1) * (a + m / (g * n) * g * b);
        CHECK_NEAR(seconds(PDL_ALLREDUCE, BY(HIERARCHICAL), m), segmented, 1e-12);
        CHECK_NEAR(seconds(PDL_ALLREDUCE, BY(AUTO), m), fmin(2 * ring, fmin(tree, segmented)), 1e-12);
        CHECK_NEAR(pdl_collective_seconds(&group, PDL_ALLREDUCE, BY(AUTO), true, m), 2 * ring, 1e-12);
        CHECK_NEAR(seconds(PDL_SENDRECV, BY(AUTO), m), a + m * b, 1e-12);
        CHECK_NEAR(seconds(PDL_HALO, BY(AUTO), m), a + m * b, 1e-12);
    }
    CHECK_NEAR(seconds(PDL_LOCAL, BY(AUTO), 1e6), 0, 0);
}

static void startups(void)
{
    CHECK_NEAR(pdl__collective_startup(&group, PDL_ALLGATHER), 23 * 4e-5, 1e-12);
    CHECK_NEAR(pdl__collective_startup(&group, PDL_ALLREDUCE), 46 * 4e-5, 1e-12);
    CHECK_NEAR(pdl__collective_startup(&group, PDL_HALO), 4e-5, 1e-12);
    CHECK_NEAR(pdl__collective_startup(&group, PDL_LOCAL), 0, 0);
}

static void a_group_of_one_is_free(void)
{
    const pdl_group_t alone = {.ranks = 1, .step_s = 1, .seconds_per_byte = 1, .nodes = 1, .ranks_per_node = 1};

    for (int primitive = 0; primitive < PDL_PRIMITIVE_COUNT; primitive++) {
        CHECK_NEAR(pdl_collective_seconds(&alone, (pdl_primitive_t)primitive, BY(AUTO), false, 1e6), 0, 0);
        CHECK_NEAR(pdl__collective_startup(&alone, (pdl_primitive_t)primitive), 0, 0);
    }
}

static pdl_group_t on_abci(int64_t pe, int64_t size, int64_t stride, bool multi_rail)
{
    pdl_parameters_t p;
    pdl_group_t      g = {0};

    pdl_parameters_default(&p);
    p.fabric_efficiency = p.network_efficiency = 1;
    p.multi_rail = multi_rail;
    CHECK_OK(pdl__group(abci, &p, &(pdl_group_query_t){pe, size, stride, false, PDL_PATTERN_RING}, &g));
    return g;
}

/* A node of ABCI is a mesh of NVLink, 50 GB/s to each partner: as many links as partners. */
static void groups_inside_a_node(void)
{
    for (int64_t size = 2; size <= 4; size++) {
        pdl_group_t g = on_abci(size, size, 1, true);
        CHECK_INT(g.level, 0);
        CHECK_NEAR(g.step_s, 9e-6, 1e-12);
        CHECK_NEAR(g.seconds_per_byte, 1 / (50e9 * (double)(size - 1)), 1e-12);
        CHECK_NEAR(g.nodes, 1, 0);
        CHECK_NEAR(g.ranks_per_node, (double)size, 0);
    }
}

static void groups_across_nodes(void)
{
    pdl_group_t g = on_abci(64, 64, 1, false);

    CHECK_INT(g.level, 1);
    CHECK_NEAR(g.step_s, 40.31e-6, 1e-12);
    CHECK_NEAR(g.seconds_per_byte, 1 / 12.5e9, 1e-12);
    CHECK_NEAR(g.nodes, 16, 0);
    /* A dense ring has one edge out of every node; with both ports in use it is two rings. */
    CHECK_NEAR(on_abci(64, 64, 1, true).seconds_per_byte, 1 / 25e9, 1e-12);
    CHECK_NEAR(on_abci(136, 136, 1, false).step_s, 40.49e-6, 1e-12);
    CHECK_NEAR(on_abci(272, 272, 1, false).step_s, 40.98e-6, 1e-12);
}

/* Fast links above slow ports do not make the ports faster. */
static void narrowest_link_of_the_route(void)
{
    pdl_system_t     system = *abci;
    pdl_parameters_t p;
    pdl_group_t      g;

    for (int l = 2; l < system.level_count; l++) system.level[l].bandwidth_bytes_per_s *= 8;
    pdl_parameters_default(&p);
    p.network_efficiency = 1;
    p.multi_rail = false;
    CHECK_OK(pdl__group(&system, &p, &(pdl_group_query_t){272, 272, 1, false, PDL_PATTERN_RING}, &g));
    CHECK_INT(g.level, 3);
    CHECK_NEAR(g.seconds_per_byte, 1 / 12.5e9, 1e-12);
}

/* data+filter: the four ranks of a node each have their own ring over the replicas, on two ports. */
static void four_rings_share_two_ports(void)
{
    for (int rail = 0; rail < 2; rail++) {
        pdl_group_t g = on_abci(64, 16, 4, rail);
        CHECK_NEAR(g.phi, 2, 1e-12);
        CHECK_NEAR(g.seconds_per_byte, 2 / 12.5e9, 1e-12);
        CHECK_NEAR(g.ranks_per_node, 1, 0);
        CHECK_NEAR(g.nodes, 16, 0);
    }
}

/* Small vectors go over trees, large ones not; across nodes the hierarchy spares the network steps. */
static void choice_of_algorithm(void)
{
    pdl_group_t g = on_abci(1088, 1088, 1, true);
    double      ring = pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(RING), false, 1e3);
    double      best = pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(AUTO), false, 1e3);

    CHECK_NEAR(best, pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(TREE), false, 1e3), 1e-12);
    CHECK(best < 0.05 * ring);
    for (double bytes = 1; bytes < 1e10; bytes *= 10) {
        best = pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(AUTO), false, bytes);
        CHECK(best <= pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(RING), false, bytes));
        CHECK(best >= 2 * bytes * 1087 / 1088 * g.seconds_per_byte * 0.99);
        CHECK(best < pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(AUTO), false, 2 * bytes));
    }
    /* Inside one node all three are the same ring. */
    g = on_abci(4, 4, 1, true);
    ring = pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(RING), false, 1e6);
    CHECK_NEAR(pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(TREE), false, 1e6), ring, 1e-12);
    CHECK_NEAR(pdl_collective_seconds(&g, PDL_ALLREDUCE, BY(HIERARCHICAL), false, 1e6), ring, 1e-12);
}

static void messages_through_the_host(void)
{
    pdl_parameters_t  p;
    const pdl_group_t g = {.ranks = 2, .seconds_per_byte = 1e-9};

    pdl_parameters_default(&p);
    CHECK_NEAR(pdl__host_seconds(&p, &g, 1e9), 1, 1e-12);
    p.pinned_bytes = 4e8;
    p.pageable_bytes_per_s = 1e9;
    CHECK_NEAR(pdl__host_seconds(&p, &g, 1e8), 0.1, 1e-12);
    CHECK_NEAR(pdl__host_seconds(&p, &g, 1e9), 1 + 0.6, 1e-12);
}

int main(void)
{
    if (pdl_system_load("abci-v", &abci)) return 1;
    RUN(closed_forms);
    RUN(startups);
    RUN(a_group_of_one_is_free);
    RUN(groups_inside_a_node);
    RUN(groups_across_nodes);
    RUN(narrowest_link_of_the_route);
    RUN(four_rings_share_two_ports);
    RUN(choice_of_algorithm);
    RUN(messages_through_the_host);
    pdl_system_destroy(abci);
    return test_done();
}
