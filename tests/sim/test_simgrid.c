/*
 * SimGrid as the referee: the same cases in both engines, over every topology, within 0.5 %. SimGrid gives flows
 * of short latency a larger share of a link, so its engine is compared with latency_share on. Where flows that
 * meet have the same latency, which holds for most cases, equal shares give the same; the table shows both.
 */
#include "sim_case.h"

#define AR PDL_COLL_ALLREDUCE
#define AA PDL_COLL_ALLTOALL
#define AG PDL_COLL_ALLGATHER

static const sim_case_t cases[] = {
    {.topology = "ring", .hosts = 16, .algorithm = "hd_near", .bytes = 1 << 22},
    {.topology = "ring", .hosts = 12, .algorithm = "ring", .bytes = 3 << 20},
    {.topology = "torus", .hosts = 32, .per_switch = 2, .dims = {4, 4}, .algorithm = "swing", .bytes = 1 << 23},
    {.topology = "torus", .hosts = 16, .dims = {4, 4}, .algorithm = "rdb", .bytes = 1 << 20},
    {.topology = "hypercube", .hosts = 32, .per_switch = 2, .algorithm = "hd_far", .bytes = 1 << 23},
    {.topology = "hypercube", .hosts = 16, .algorithm = "pairwise", .collective = AA, .bytes = 1 << 24},
    {.topology = "fc2", .hosts = 16, .dims = {4, 4}, .algorithm = "fc2", .collective = AA, .bytes = 1 << 24},
    {.topology = "fc2", .hosts = 16, .dims = {4, 4}, .algorithm = "rdb", .bytes = 1 << 20},
    {.topology = "fat-tree", .hosts = 64, .per_switch = 16, .uplinks = 5, .algorithm = "hd_far", .bytes = 1 << 24},
    {.topology = "fat-tree",
     .hosts = 64,
     .per_switch = 16,
     .uplinks = 16,
     .algorithm = "hd_near",
     .bytes = 1 << 24},
    {.topology = "fat-tree",
     .hosts = 48,
     .per_switch = 16,
     .uplinks = 5,
     .algorithm = "circulant",
     .bytes = 3 << 22},
    {.topology = "fat-tree",
     .hosts = 32,
     .per_switch = 8,
     .uplinks = 3,
     .algorithm = "ring",
     .bytes = 1 << 20,
     .duplex = PDL_HALF_DUPLEX},
    {.topology = "abci-v", .hosts = 32, .per_switch = 4, .algorithm = "ring", .bytes = 1 << 25},
    {.topology = "abci-v", .hosts = 64, .per_switch = 4, .algorithm = "ring_ring", .bytes = 1 << 26},
    {.topology = "abci-v", .hosts = 32, .per_switch = 4, .algorithm = "hd_near", .bytes = 1 << 25},
    {.topology = "tsubame3", .hosts = 64, .per_switch = 4, .algorithm = "ring", .bytes = 1 << 25},
    {.topology = "tsubame3", .hosts = 44, .per_switch = 4, .algorithm = "ring_ring", .bytes = 44 << 17},
    {.topology = "tsubame3", .hosts = 64, .per_switch = 4, .algorithm = "ring_rab", .bytes = 1 << 25},
    {.topology = "dragonfly", .shape = {2, 4, 2, 9}, .hosts = 72, .algorithm = "ring", .bytes = 72 << 14},
    {.topology = "dragonfly", .shape = {2, 4, 2, 9}, .hosts = 72, .algorithm = "circulant", .bytes = 72 << 14},
    {.topology = "dragonfly",
     .shape = {1, 4, 1, 5},
     .hosts = 20,
     .algorithm = "pairwise",
     .collective = AA,
     .bytes = 400 << 10},
    {.topology = "dln", .hosts = 64, .per_switch = 4, .algorithm = "shd_near", .bytes = 1 << 24},
    {.topology = "dln", .hosts = 64, .per_switch = 4, .algorithm = "shd_far", .bytes = 1 << 24},
    {.topology = "dln", .hosts = 64, .per_switch = 4, .algorithm = "rshd", .bytes = 1 << 24},
    {.topology = "dln", .hosts = 128, .per_switch = 8, .algorithm = "ring", .bytes = 1 << 24},
    {.topology = "dln2d", .hosts = 64, .per_switch = 4, .dims = {4, 4}, .algorithm = "shd2d", .bytes = 1 << 24},
    {.topology = "dln2d", .hosts = 64, .per_switch = 4, .dims = {4, 4}, .algorithm = "hd_near", .bytes = 1 << 24},
    {.topology = "kautz", .shape = {4, 2}, .hosts = 20, .algorithm = "kautz", .bytes = 20 << 16},
    {.topology = "kautz", .shape = {4, 2}, .hosts = 20, .algorithm = "kautz", .collective = AA, .bytes = 400 << 12},
    {.topology = "kautz", .shape = {4, 2}, .hosts = 20, .algorithm = "ring", .collective = AG, .bytes = 20 << 16},
    {.topology = "hybrid", .hosts = 32, .per_switch = 8, .uplinks = 8, .algorithm = "ring", .bytes = 32 << 21},
    {.topology = "hybrid", .hosts = 32, .per_switch = 8, .uplinks = 3, .algorithm = "hd_far", .bytes = 1 << 20},
};

static void engines_agree_on_every_topology(void)
{
    int count = (int)(sizeof(cases) / sizeof(cases[0])), equal = 0;

    for (int i = 0; i < count; i++) {
        const sim_case_t *c = &cases[i];
        pdl_sim_options_t options = pdl_sim_options_default();
        double            referee_s, flow_s, plain_s;

        options.engine = PDL_ENGINE_SIMGRID;
        referee_s = run_case(c, &options);
        options.engine = PDL_ENGINE_FLOW;
        plain_s = run_case(c, &options);
        options.latency_share = true;
        flow_s = run_case(c, &options);
        if (fabs(plain_s - referee_s) <= 5e-3 * referee_s) equal++;
        printf("     %-10s %-10s P %4d  flow %.9f s  equal shares %.9f s  SimGrid %.9f s\n", c->topology,
               c->algorithm, c->hosts, flow_s, plain_s, referee_s);
        CHECK_NEAR(flow_s, referee_s, 5e-3);
    }
    printf("     %d of %d cases agree with equal shares too\n", equal, count);
    CHECK(count >= 24 && 3 * equal >= 2 * count);
}

/* Stragglers, reductions and a second job, in both engines. */
static void engines_agree_on_jobs_and_stragglers(void)
{
    sim_case_t        c = {.topology = "dln", .hosts = 32, .per_switch = 4, .algorithm = "ring", .bytes = 1 << 20};
    pdl_topology_t   *topology = make_topology(&c);
    pdl_sim_options_t options = {.gamma_s_per_byte = 1e-10};
    int               hosts[2][16];
    double            start_s[16] = {[5] = 20e-6, [6] = 3e-6};
    pdl_sim_result_t  flow = {0}, referee = {0};

    for (int r = 0; r < 16; r++) {
        hosts[0][r] = 2 * r;
        hosts[1][r] = 2 * r + 1;
    }
    c.hosts = 16;
    pdl_schedule_t *schedule = make_schedule(&c);
    pdl_sim_job_t   jobs[2] = {{schedule, c.bytes, hosts[0], start_s}, {schedule, c.bytes, hosts[1], NULL}};

    options.latency_share = true;
    CHECK_OK(pdl_sim_run(topology, jobs, 2, &options, &flow));
    options.engine = PDL_ENGINE_SIMGRID;
    options.latency_share = false;
    CHECK_OK(pdl_sim_run(topology, jobs, 2, &options, &referee));
    CHECK_NEAR(flow.job_s[0], referee.job_s[0], 5e-3);
    CHECK_NEAR(flow.job_s[1], referee.job_s[1], 5e-3);
    pdl_sim_result_free(&flow);
    pdl_sim_result_free(&referee);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

int main(void)
{
    if (!pdl_sim_has_engine(PDL_ENGINE_SIMGRID)) {
        printf("skipped: there is no SimGrid (install libsimgrid-dev and configure again)\n");
        return TEST_SKIPPED;
    }
    RUN(engines_agree_on_every_topology);
    RUN(engines_agree_on_jobs_and_stragglers);
    return test_done();
}
