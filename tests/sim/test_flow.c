/*
 * The flow engine against what can be worked out by hand: closed forms on uniform networks, max-min shares,
 * rendezvous and the refinements.
 */
#include "sim_case.h"

/* A flow of `bytes` from one host to another: a broadcast of two ranks. */
typedef struct pair {
    int     hosts[2];
    int64_t bytes;
    double  start_s[2];
} pair_t;

static pdl_schedule_t *one_message(void)
{
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 2};
    pdl_schedule_t     *schedule = NULL;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    return schedule;
}

/* Runs the flows together; when each of them arrives. */
static void run_pairs(const pdl_topology_t *topology, const pair_t *pairs, int count,
                      const pdl_sim_options_t *options, double *time_s)
{
    pdl_schedule_t  *schedule = one_message();
    pdl_sim_job_t    jobs[16];
    pdl_sim_result_t result = {0};

    for (int i = 0; i < count; i++)
        jobs[i] = (pdl_sim_job_t){schedule, pairs[i].bytes, pairs[i].hosts, pairs[i].start_s};
    CHECK_OK(pdl_sim_run(topology, jobs, count, options, &result));
    for (int i = 0; i < count && result.job_s != NULL; i++) time_s[i] = result.job_s[i];
    CHECK_INT(result.flows, count);
    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
}

static pdl_topology_t *read_graph(const char *links)
{
    char            text[2048];
    pdl_topology_t *topology = NULL;

    snprintf(
        text, sizeof(text),
        "paradl: topology/1\nname: line\nhosts: 6\nswitches: 3\nlink_bandwidth: 10GB/s\nlink_latency: 0s\nlinks:\n"
        "  - {ends: [h0, s0]}\n  - {ends: [h1, s1]}\n  - {ends: [h2, s0]}\n  - {ends: [h3, s2]}\n"
        "  - {ends: [h4, s1]}\n  - {ends: [h5, s2]}\n%s",
        links);
    CHECK_OK(pdl_topology_read_memory(text, strlen(text), "line.yaml", &topology));
    return topology;
}

static void closed_forms_on_a_crossbar(void)
{
    static const int64_t bytes = 56000000;
    pdl_sim_options_t    options = pdl_sim_options_default();
    double               alpha = 2e-6, beta = 1 / 12.5e9, gamma = 1e-11, m = (double)bytes;
    sim_case_t           c = {.topology = "fat-tree", .hosts = 7, .per_switch = 7, .uplinks = 1};

    c.algorithm = "ring";
    c.bytes = bytes;
    CHECK_NEAR(run_case(&c, &options), 12 * alpha + 12.0 / 7 * m * beta, 1e-9);
    options.gamma_s_per_byte = gamma;
    CHECK_NEAR(run_case(&c, &options), 12 * alpha + 12.0 / 7 * m * beta + 6.0 / 7 * m * gamma, 1e-9);
    options.periodic = false;
    CHECK_NEAR(run_case(&c, &options), 12 * alpha + 12.0 / 7 * m * beta + 6.0 / 7 * m * gamma, 1e-9);
    c.hosts = c.per_switch = 8;
    c.algorithm = "rdb";
    CHECK_NEAR(run_case(&c, &options), 3 * (alpha + m * beta + m * gamma), 1e-9);
    c.algorithm = "hd_far";
    CHECK_NEAR(run_case(&c, &options), 6 * alpha + 14.0 / 8 * m * beta + 7.0 / 8 * m * gamma, 1e-9);
    c.hosts = c.per_switch = 1;
    c.algorithm = "ring";
    CHECK_NEAR(run_case(&c, &options), 0, 0);
}

static void max_min_shares_by_hand(void)
{
    pdl_topology_t *line =
        read_graph("  - {ends: [s0, s1], bandwidth: 1GB/s}\n  - {ends: [s1, s2], bandwidth: 2GB/s}\n");
    pdl_sim_options_t options = pdl_sim_options_default();
    const int64_t     gb = 1000000000;
    double            time_s[3];

    /* Shares 0.5, 0.5 and 1.5; when the last one is gone the link before stays the bottleneck. */
    const pair_t equal[] = {{{0, 1}, 3 * gb, {0}}, {{2, 3}, 3 * gb, {0}}, {{4, 5}, 3 * gb, {0}}};
    run_pairs(line, equal, 3, &options, time_s);
    CHECK_NEAR(time_s[0], 6, 1e-12);
    CHECK_NEAR(time_s[1], 6, 1e-12);
    CHECK_NEAR(time_s[2], 2, 1e-12);
    /* At 2 s the first and the last one end together, and the one between them runs at 1. */
    const pair_t shorter[] = {{{0, 1}, 1 * gb, {0}}, {{2, 3}, 3 * gb, {0}}, {{4, 5}, 3 * gb, {0}}};
    run_pairs(line, shorter, 3, &options, time_s);
    CHECK_NEAR(time_s[0], 2, 1e-12);
    CHECK_NEAR(time_s[1], 4, 1e-12);
    /* The second one starts at 1 s: the first has 2 GB to go, at half the rate until one of them ends. */
    const pair_t late[] = {{{0, 1}, 3 * gb, {0}}, {{2, 3}, 1 * gb, {1, 1}}};
    run_pairs(line, late, 2, &options, time_s);
    CHECK_NEAR(time_s[1], 3, 1e-12);
    CHECK_NEAR(time_s[0], 4, 1e-12);
    pdl_topology_destroy(line);
}

static void both_directions_of_a_cable(void)
{
    pdl_sim_options_t options = pdl_sim_options_default();
    const pair_t      both[] = {{{0, 1}, 1000000000, {0}}, {{4, 2}, 1000000000, {0}}};
    pdl_topology_t   *full = read_graph("  - {ends: [s0, s1], bandwidth: 1GB/s}\n  - {ends: [s1, s2]}\n");
    pdl_topology_t   *half =
        read_graph("  - {ends: [s0, s1], bandwidth: 1GB/s, duplex: half}\n  - {ends: [s1, s2]}\n");
    double time_s[2];

    run_pairs(full, both, 2, &options, time_s);
    CHECK_NEAR(time_s[0], 1, 1e-12);
    run_pairs(half, both, 2, &options, time_s);
    CHECK_NEAR(time_s[0], 2, 1e-12);
    options.reverse_share = 0.05;
    run_pairs(full, both, 2, &options, time_s);
    CHECK_NEAR(time_s[0], 1.05, 1e-6);
    CHECK_NEAR(time_s[1], 1.05, 1e-6);
    pdl_topology_destroy(full);
    pdl_topology_destroy(half);
}

/* Two flows over one link, one of them with twice the latency: 2/3 and 1/3 of it instead of a half each. */
static void shares_by_latency(void)
{
    pdl_topology_t   *line = read_graph("  - {ends: [s0, s1], bandwidth: 3GB/s, latency: 1ms}\n"
                                          "  - {ends: [s1, s2], latency: 1ms}\n");
    pdl_sim_options_t options = pdl_sim_options_default();
    const pair_t      pairs[] = {{{0, 1}, 1000000000, {1e-3, 0}}, {{2, 3}, 1000000000, {0, 0}}};
    double            time_s[2];

    run_pairs(line, pairs, 2, &options, time_s);
    CHECK_NEAR(time_s[0], 2e-3 + 2.0 / 3, 1e-9);
    CHECK_NEAR(time_s[1], 2e-3 + 2.0 / 3, 1e-9);
    options.latency_share = true;
    run_pairs(line, pairs, 2, &options, time_s);
    CHECK_NEAR(time_s[0], 2e-3 + 0.5, 1e-9);
    CHECK_NEAR(time_s[1], 2e-3 + 0.5 + 0.5 / 3, 1e-9);
    pdl_topology_destroy(line);
}

static void rendezvous_eager_and_factors(void)
{
    pdl_topology_t *line =
        read_graph("  - {ends: [s0, s1], bandwidth: 1GB/s, latency: 1ms}\n  - {ends: [s1, s2]}\n");
    pdl_sim_options_t  options = pdl_sim_options_default();
    const pair_t       late[] = {{{0, 1}, 1000000, {0, 0.5}}};
    const pdl_factor_t latency[] = {{0, 1}, {1000, 3}}, bandwidth[] = {{0, 1}, {1000000, 0.5}, {1000001, 7}};
    double             time_s;

    run_pairs(line, late, 1, &options, &time_s);
    CHECK_NEAR(time_s, 0.5 + 1e-3 + 1e-3, 1e-12);
    options.eager_bytes = 1000000;
    run_pairs(line, late, 1, &options, &time_s);
    CHECK_NEAR(time_s, 0.5, 1e-12);
    options.eager_bytes = 999999;
    options.latency_factor = latency;
    options.latency_factors = 2;
    options.bandwidth_factor = bandwidth;
    options.bandwidth_factors = 3;
    run_pairs(line, late, 1, &options, &time_s);
    CHECK_NEAR(time_s, 0.5 + 3e-3 + 2e-3, 1e-12);
    pdl_topology_destroy(line);
}

/* Exchanges with one partner keep half of the rate, from a size on; a ring has none. Both engines say so. */
static void exchanges_lose_time(void)
{
    static const char    text[] = "paradl: topology/1\ntopology: fat-tree\nhosts: 8\nleaf_hosts: 8\nuplinks: 1\n"
                                  "messages: {exchange: 0.5, exchange_bytes: 1000000}\n";
    static const int64_t bytes = 8000000;
    double               alpha = 2e-6, beta = 1 / 12.5e9, m = (double)bytes;
    pdl_sim_case_t       asked = {.bytes = bytes, .options = pdl_sim_options_default()};

    REQUIRE_OK(pdl_topology_read_memory(text, strlen(text), "t.yaml", &asked.topology));
    for (int engine = PDL_ENGINE_FLOW; engine <= PDL_ENGINE_LOADS; engine++) {
        static const char *const names[] = {"ring", "rdb", "hd_near"};
        /* Messages of 4, 2 and 1 MB, twice. */
        double expected[] = {14 * (alpha + m / 8 * beta), 3 * (alpha + 2 * m * beta),
                             6 * alpha + 2 * 14.0 / 8 * m * beta};

        asked.options.engine = (pdl_engine_t)engine;
        for (int i = 0; i < 3; i++) {
            pdl_sim_verdict_t verdict;

            REQUIRE_OK(pdl_sim_run_case(&asked, names[i], &verdict));
            CHECK_NEAR(verdict.result.time_s, expected[i], 1e-9);
            pdl_sim_verdict_free(&verdict);
        }
        asked.bytes = bytes / 16; /* all messages are small */
        pdl_sim_verdict_t small;
        REQUIRE_OK(pdl_sim_run_case(&asked, "rdb", &small));
        CHECK_NEAR(small.result.time_s, 3 * (alpha + m / 16 * beta), 1e-9);
        pdl_sim_verdict_free(&small);
        asked.bytes = bytes;
    }
    pdl_topology_destroy(asked.topology);
}

/* A network that was measured says what acknowledgements take on the way back: what comes the other way is slower by it. */
static void acknowledgements_take_a_share(void)
{
    static const char text[] = "paradl: topology/1\ntopology: fat-tree\nhosts: 8\nleaf_hosts: 8\nuplinks: 1\n"
                               "messages: {reverse: 0.05}\n";
    double            alpha = 2e-6, beta = 1 / 12.5e9, m = 8e6;
    pdl_sim_case_t    asked = {.bytes = 8000000, .options = pdl_sim_options_default()};
    pdl_sim_verdict_t verdict;

    REQUIRE_OK(pdl_topology_read_memory(text, strlen(text), "t.yaml", &asked.topology));
    /* In both, every host sends and receives at once: each direction of its cable has a message and acknowledgements. */
    REQUIRE_OK(pdl_sim_run_case(&asked, "rdb", &verdict));
    CHECK_NEAR(verdict.result.time_s, 3 * (alpha + 1.05 * m * beta), 1e-9);
    pdl_sim_verdict_free(&verdict);
    REQUIRE_OK(pdl_sim_run_case(&asked, "ring", &verdict));
    CHECK_NEAR(verdict.result.time_s, 14 * (alpha + 1.05 * m / 8 * beta), 1e-9);
    pdl_sim_verdict_free(&verdict);
    asked.options.reverse_share = 0.1; /* goes before what the file says */
    REQUIRE_OK(pdl_sim_run_case(&asked, "rdb", &verdict));
    CHECK_NEAR(verdict.result.time_s, 3 * (alpha + 1.1 * m * beta), 1e-9);
    pdl_sim_verdict_free(&verdict);
    pdl_topology_destroy(asked.topology);
}

/* With eager messages ranks run ahead of each other; every collective still ends, and never later. */
static double broadcast_s(const pdl_topology_t *topology, const char *algorithm, int64_t segments)
{
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_BROADCAST,
                                .algorithm = algorithm,
                                .ranks = pdl_topology_hosts(topology),
                                .segments = segments};
    pdl_sim_options_t   options = pdl_sim_options_default();
    pdl_sim_result_t    result;
    pdl_schedule_t     *schedule;
    double              seconds;

    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    pdl_sim_job_t job = {.schedule = schedule, .bytes = 8000000};
    REQUIRE_OK(pdl_sim_run(topology, &job, 1, &options, &result));
    seconds = result.time_s;
    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
    return seconds;
}

/* 8 ms a message. Where the root of a tree of four does not wait, its two messages share its link for 16 ms, and the last one follows;
   pieces to one receiver go in order, so that a pipeline takes as long as before. */
static void buffered_senders_go_on(void)
{
    pdl_topology_spec_t spec = pdl_topology_spec("fat-tree");
    pdl_topology_t     *waits, *goes_on;

    spec.hosts = spec.leaf_hosts = 4;
    spec.uplinks = 1;
    spec.link_bytes_per_s = 1e9;
    spec.link_latency_s = 0;
    REQUIRE_OK(pdl_topology_create(&spec, &waits));
    spec.messages.buffered = true;
    REQUIRE_OK(pdl_topology_create(&spec, &goes_on));
    CHECK_NEAR(broadcast_s(waits, "binomial", 0), 0.016, 1e-9);
    CHECK_NEAR(broadcast_s(goes_on, "binomial", 0), 0.024, 1e-9);
    CHECK_NEAR(broadcast_s(waits, "chain", 4), 0.012, 1e-9);
    CHECK_NEAR(broadcast_s(goes_on, "chain", 4), 0.012, 1e-9);
    pdl_topology_destroy(waits);
    pdl_topology_destroy(goes_on);
}

static void eager_rings_end(void)
{
    pdl_sim_options_t options = pdl_sim_options_default();
    sim_case_t        c = {.topology = "dln", .hosts = 64, .per_switch = 4, .algorithm = "ring", .bytes = 65536};
    double            waiting = run_case(&c, &options), eager;

    options.eager_bytes = 4096;
    eager = run_case(&c, &options);
    CHECK(eager > 0 && eager <= waiting * (1 + 1e-12));
}

/* A late rank has all its steps before it, and the others wait for it. */
static void a_straggler_delays_a_ring(void)
{
    sim_case_t c = {
        .topology = "fat-tree", .hosts = 8, .per_switch = 8, .uplinks = 1, .algorithm = "ring", .bytes = 1 << 20};
    pdl_topology_t   *topology = make_topology(&c);
    pdl_schedule_t   *schedule = make_schedule(&c);
    pdl_sim_options_t options = pdl_sim_options_default();
    const double      start_s[8] = {0, 0, 0, 1e-3, 0, 0, 0, 0};
    pdl_sim_job_t     job = {.schedule = schedule, .bytes = c.bytes, .start_s = start_s};
    pdl_sim_result_t  result = {0};

    CHECK_OK(pdl_sim_run(topology, &job, 1, &options, &result));
    CHECK_NEAR(result.time_s, 1e-3 + 14 * (2e-6 + 131072 / 12.5e9), 1e-9);
    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

/* Two rings of four hosts: apart they do not meet; interleaved over two leaves they share the uplinks. */
static void jobs_share_the_network(void)
{
    sim_case_t c = {
        .topology = "fat-tree", .hosts = 8, .per_switch = 4, .uplinks = 1, .algorithm = "ring", .bytes = 4 << 20};
    pdl_topology_t   *topology = make_topology(&c);
    pdl_sim_options_t options = pdl_sim_options_default();
    const int         apart[2][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}}, mixed[2][4] = {{0, 1, 4, 5}, {2, 3, 6, 7}};
    pdl_sim_result_t  result = {0};
    double            alone;

    c.hosts = 4;
    pdl_schedule_t *schedule = make_schedule(&c);
    pdl_sim_job_t   jobs[2] = {{.schedule = schedule, .bytes = c.bytes, .hosts = apart[0]},
                               {.schedule = schedule, .bytes = c.bytes, .hosts = apart[1]}};

    CHECK_OK(pdl_sim_run(topology, jobs, 2, &options, &result));
    alone = 6 * (2e-6 + 1048576 / 12.5e9);
    CHECK_NEAR(result.job_s[0], alone, 1e-9);
    CHECK_NEAR(result.job_s[1], alone, 1e-9);
    pdl_sim_result_free(&result);
    jobs[0].hosts = mixed[0];
    jobs[1].hosts = mixed[1];
    CHECK_OK(pdl_sim_run(topology, jobs, 2, &options, &result));
    CHECK_NEAR(result.time_s, 6 * (4e-6 + 2 * 1048576 / 12.5e9), 1e-9);
    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

static void a_failed_link_costs_time(void)
{
    sim_case_t      c = {.topology = "dln", .hosts = 64, .per_switch = 4, .algorithm = "hd_near", .bytes = 1 << 24};
    pdl_topology_t *topology = make_topology(&c);
    pdl_schedule_t *schedule = make_schedule(&c);
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_job_t     job = {.schedule = schedule, .bytes = c.bytes};
    pdl_sim_result_t  whole = {0}, broken = {0};

    options.link_loads = true;
    CHECK_OK(pdl_sim_run(topology, &job, 1, &options, &whole));
    REQUIRE(whole.busiest_link >= 0 && whole.busiest_link < pdl_topology_link_count(topology));
    for (int i = 0; i < pdl_topology_link_count(topology); i++) {
        if (pdl_topology_links(topology)[i].kind != PDL_LINK_SWITCH || whole.link_bytes[i] == 0) continue;
        CHECK_OK(pdl_topology_fail_link(topology, i));
        CHECK_OK(pdl_sim_run(topology, &job, 1, &options, &broken));
        CHECK(broken.time_s > whole.time_s);
        CHECK_NEAR(broken.link_bytes[i], 0, 0);
        break;
    }
    pdl_sim_result_free(&whole);
    pdl_sim_result_free(&broken);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

static void bad_requests_are_refused(void)
{
    sim_case_t c = {
        .topology = "fat-tree", .hosts = 4, .per_switch = 4, .uplinks = 1, .algorithm = "ring", .bytes = 64};
    pdl_topology_t    *topology = make_topology(&c);
    const int          hosts[4] = {0, 1, 2, 4};
    const double       early[4] = {0, 0, -1, 0};
    const pdl_factor_t factors[2] = {{100, 1}, {50, 1}};
    pdl_sim_options_t  options = pdl_sim_options_default();
    pdl_sim_result_t   result;
    pdl_schedule_t    *schedule = make_schedule(&c);
    pdl_sim_job_t      job = {.schedule = schedule, .bytes = 0};

    CHECK_ERROR(pdl_sim_run(topology, &job, 1, &options, &result), "0 bytes");
    job.bytes = 64;
    job.hosts = hosts;
    CHECK_ERROR(pdl_sim_run(topology, &job, 1, &options, &result), "rank 3 is on host 4");
    job.hosts = NULL;
    job.start_s = early;
    CHECK_ERROR(pdl_sim_run(topology, &job, 1, &options, &result), "rank 2 starts at -1");
    job.start_s = NULL;
    options.latency_factor = factors;
    options.latency_factors = 2;
    CHECK_ERROR(pdl_sim_run(topology, &job, 1, &options, &result), "ascending");
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

int main(void)
{
    RUN(closed_forms_on_a_crossbar);
    RUN(max_min_shares_by_hand);
    RUN(both_directions_of_a_cable);
    RUN(shares_by_latency);
    RUN(rendezvous_eager_and_factors);
    RUN(exchanges_lose_time);
    RUN(acknowledgements_take_a_share);
    RUN(buffered_senders_go_on);
    RUN(eager_rings_end);
    RUN(a_straggler_delays_a_ring);
    RUN(jobs_share_the_network);
    RUN(a_failed_link_costs_time);
    RUN(bad_requests_are_refused);
    return test_done();
}
