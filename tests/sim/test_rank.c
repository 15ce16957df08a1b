/*
 * Rankings: order, reasons, bounds, groups, circuits, and what does not support a case.
 */
#include "test.h"

#include <math.h>
#include <paradl/coll/sparse.h>
#include <paradl/sim/sim.h>
#include <stdlib.h>
#include <string.h>

static pdl_topology_t *network(const char *name, int64_t hosts, int64_t per_switch)
{
    pdl_topology_spec_t spec = pdl_topology_spec(name);
    pdl_topology_t     *topology = NULL;

    spec.hosts = hosts;
    spec.hosts_per_switch = per_switch;
    spec.optical_bytes_per_s = 50e9;
    REQUIRE_OK(pdl_topology_create(&spec, &topology));
    return topology;
}

static pdl_sim_case_t ask(pdl_topology_t *topology, int64_t bytes)
{
    return (pdl_sim_case_t){.topology = topology, .bytes = bytes, .options = pdl_sim_options_default()};
}

static void test_order(void)
{
    pdl_topology_t    *topology = network("dln", 64, 8);
    pdl_sim_case_t     asked = ask(topology, 64 << 20);
    pdl_sim_verdict_t *verdicts;
    int                count, possible = 0;

    CHECK_OK(pdl_sim_rank(&asked, NULL, 0, &verdicts, &count));
    for (int i = 0; i < count; i++) {
        double sum = 0;

        if (!verdicts[i].possible) {
            CHECK(verdicts[i].problem[0] != '\0');
            continue;
        }
        CHECK(i == possible++);
        CHECK(i == 0 || verdicts[i - 1].result.time_s <= verdicts[i].result.time_s);
        CHECK(verdicts[i].ratio > 0.999);
        for (int p = 0; p < PDL_PART_COUNT; p++) sum += verdicts[i].part_s[p];
        CHECK(sum > 0.999 * verdicts[i].result.time_s);
        if (strcmp(verdicts[i].algorithm, "hd_far") == 0) CHECK(verdicts[i].limit == PDL_PART_CONTENTION);
        if (strcmp(verdicts[i].algorithm, "ring") == 0) CHECK(verdicts[i].limit == PDL_PART_BANDWIDTH);
    }
    CHECK(possible > 10);
    for (int i = 0; i < count; i++) pdl_sim_verdict_free(&verdicts[i]);
    free(verdicts);
    pdl_topology_destroy(topology);
}

/* Groups of consecutive hosts on switches of their own do not disturb each other; distant ones do. */
static void test_groups(void)
{
    pdl_topology_t   *topology = network("dln", 64, 8);
    pdl_sim_case_t    asked = ask(topology, 1 << 20);
    pdl_sim_verdict_t near, far;

    asked.groups = 8;
    CHECK_OK(pdl_sim_run_case(&asked, "ring", &near));
    asked.strided = true;
    CHECK_OK(pdl_sim_run_case(&asked, "ring", &far));
    CHECK(near.part_s[PDL_PART_CONTENTION] <= 0 && far.limit == PDL_PART_CONTENTION);
    CHECK(far.result.time_s > 3 * near.result.time_s);
    pdl_sim_verdict_free(&near);
    pdl_sim_verdict_free(&far);
    asked.groups = 7;
    CHECK(pdl_sim_run_case(&asked, "ring", &far) == PDL_ERR_INPUT);
    pdl_topology_destroy(topology);
}

/* A ring on circuits takes the reconfiguration and then what the optical links take. */
static void test_circuits(void)
{
    pdl_topology_t   *topology = network("hybrid", 32, 0);
    pdl_sim_case_t    asked = ask(topology, 256 << 20);
    pdl_sim_verdict_t verdict;
    double            expected = 10e-3 + 62 * (1e-6 + (256 << 20) / 32.0 / 50e9);

    CHECK_OK(pdl_sim_run_case(&asked, "ring", &verdict));
    CHECK(verdict.circuits == 32);
    CHECK(verdict.result.time_s > 0.999 * expected && verdict.result.time_s < 1.001 * expected);
    pdl_sim_verdict_free(&verdict);
    asked.bytes = 1 << 20;
    CHECK_OK(pdl_sim_run_case(&asked, "ring", &verdict));
    CHECK(verdict.circuits == 0 && verdict.part_s[PDL_PART_WAITING] <= 0);
    pdl_sim_verdict_free(&verdict);
    pdl_topology_destroy(topology);
}

/* At density 1 the sparse ring sends what the dense one does, and a header with each message. */
static void test_sparse(void)
{
    pdl_topology_t   *topology = network("abci-v", 16, 0);
    pdl_sim_case_t    asked = ask(topology, 64 << 20);
    pdl_sim_verdict_t dense, sparse;

    asked.density = 1;
    CHECK_OK(pdl_sim_run_case(&asked, "ring_ring", &dense));
    CHECK_OK(pdl_sim_run_case(&asked, "sparse_ring_ring", &sparse));
    CHECK(sparse.ratio <= 0);
    CHECK(sparse.result.time_s > 0.99 * dense.result.time_s && sparse.result.time_s < 1.01 * dense.result.time_s);
    pdl_sim_verdict_free(&dense);
    pdl_sim_verdict_free(&sparse);
    asked.density = 0;
    CHECK(pdl_sim_run_case(&asked, "sparse_ring", &sparse) == PDL_ERR_LIMIT);
    pdl_topology_destroy(topology);
}

/* Drawn supports have the messages that are expected of them, one after the other as by link loads; the same support at all ranks
   never grows; groups and stragglers are those of any schedule. */
static void test_supports(void)
{
    enum { RANKS = 16, ELEMENTS = 1 << 20 };
    pdl_topology_t   *topology = network("abci-v", RANKS, 0);
    pdl_sim_case_t    asked = ask(topology, ELEMENTS * 4);
    pdl_stream_t      support[RANKS];
    double            start_s[RANKS] = {[5] = 1};
    pdl_sim_verdict_t drawn, expected;

    for (int common = 0; common < 2; common++) {
        asked.density = 1.0 / 128;
        asked.common = common;
        for (int r = 0; r < RANKS; r++)
            REQUIRE_OK(pdl_stream_draw(ELEMENTS, asked.density, common, 7, r, NULL, &support[r]));
        CHECK_NEAR((double)support[3].count, ELEMENTS / 128.0, 0.05);
        for (const char *const *name = pdl_sparse_algorithms; *name != NULL; name++) {
            asked.supports = NULL;
            asked.options.engine = PDL_ENGINE_LOADS;
            CHECK_OK(pdl_sim_run_case(&asked, *name, &expected));
            asked.supports = support;
            asked.options.engine = PDL_ENGINE_FLOW;
            CHECK_OK(pdl_sim_run_case(&asked, *name, &drawn));
            CHECK_NEAR(drawn.result.time_s, expected.result.time_s, 0.02);
            CHECK_INT(drawn.result.flows, expected.result.flows);
            pdl_sim_verdict_free(&drawn);
            pdl_sim_verdict_free(&expected);
        }
        if (common == 0)
            for (int r = 0; r < RANKS; r++) pdl_stream_free(&support[r]);
    }
    asked.start_s = start_s;
    CHECK_OK(pdl_sim_run_case(&asked, "sparse_ring", &drawn));
    CHECK(drawn.result.time_s > 1 && drawn.limit == PDL_PART_WAITING);
    pdl_sim_verdict_free(&drawn);
    asked.start_s = NULL;
    asked.groups = 2;
    CHECK_OK(pdl_sim_run_case(&asked, "sparse_ring_ring", &drawn));
    CHECK_INT(drawn.result.flows, 2 * 8 * 8);
    pdl_sim_verdict_free(&drawn);
    asked.bytes += 4;
    CHECK(pdl_sim_run_case(&asked, "sparse_ring", &drawn) == PDL_ERR_LIMIT);
    for (int r = 0; r < RANKS; r++) pdl_stream_free(&support[r]);
    pdl_topology_destroy(topology);
}

static void test_mistakes(void)
{
    pdl_topology_t   *topology = network("ring", 12, 0);
    pdl_sim_case_t    asked = ask(topology, 1 << 20);
    pdl_sim_verdict_t verdict;

    CHECK(pdl_sim_run_case(&asked, "swing", &verdict) == PDL_ERR_LIMIT);
    CHECK(pdl_sim_run_case(&asked, "nonsense", &verdict) == PDL_ERR_INPUT);
    asked.bytes = 0;
    CHECK(pdl_sim_run_case(&asked, "ring", &verdict) == PDL_ERR_INPUT);
    pdl_topology_destroy(topology);
}

/* Without a number of segments, a pipelined algorithm is as fast as with the best number that can be given. */
static void test_segments(void)
{
    pdl_topology_t *topology = network("fat-tree", 32, 0);

    for (int round = 0; round < 4; round++) {
        bool              broadcast = round % 2 == 0;
        pdl_sim_case_t    asked = ask(topology, round < 2 ? 64 << 10 : 4 << 20);
        pdl_sim_verdict_t chosen, given;
        double            best = INFINITY;

        asked.collective = broadcast ? PDL_COLL_BROADCAST : PDL_COLL_ALLREDUCE;
        CHECK_OK(pdl_sim_run_case(&asked, broadcast ? "chain" : "double_tree", &chosen));
        for (asked.segments = 1; asked.segments <= 512; asked.segments *= 2) {
            CHECK_OK(pdl_sim_run_case(&asked, broadcast ? "chain" : "double_tree", &given));
            CHECK_INT(given.segments, asked.segments);
            best = fmin(best, given.result.time_s);
            pdl_sim_verdict_free(&given);
        }
        CHECK_NEAR(chosen.result.time_s, best, 1e-12);
        CHECK(chosen.segments > 1);
        pdl_sim_verdict_free(&chosen);
    }
    pdl_topology_destroy(topology);
}

int main(void)
{
    RUN(test_order);
    RUN(test_groups);
    RUN(test_circuits);
    RUN(test_sparse);
    RUN(test_supports);
    RUN(test_mistakes);
    RUN(test_segments);
    return test_done();
}
