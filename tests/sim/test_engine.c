/*
 * Properties of the engines: the same answer from a slow and simple simulator, from the periodic shortcut, and
 * from the link loads of symmetric steps; energy, traces, determinism and lower bounds.
 */
#include "random.h"
#include "sim_case.h"

#define SOME 40  /* flows of a random case */
#define MOST 150 /* of one in which all have the same destination */

/* A plain simulator of flows with given starts: all rates anew at every event. */
typedef struct plain {
    const pdl_topology_t *topology;
    int                   links[MOST][2 * PDL_MAX_ROUTE], forward[MOST], hops[MOST], count;
    double                back; /* load of a flow on the links of the way back */
    double                start_s[MOST], left[MOST], rate[MOST], end_s[MOST]; /* start: when bytes begin to move */
} plain_t;

static bool moves(const plain_t *p, int f, double now)
{
    return p->start_s[f] <= now && p->left[f] > 0;
}

static double load_of(const plain_t *p, int f, int hop)
{
    return hop < p->forward[f] ? 1 : p->back;
}

/* The link with the least capacity for each of its open flows. */
static int tightest(const plain_t *p, double now, const double *residual, double *share)
{
    int best = -1;

    *share = INFINITY;
    for (int l = 0; l < pdl_topology_link_count(p->topology); l++) {
        double open = 0;

        for (int f = 0; f < p->count; f++)
            for (int h = 0; h < p->hops[f]; h++)
                if (moves(p, f, now) && p->rate[f] < 0 && p->links[f][h] == l) open += load_of(p, f, h);
        if (open > 0 && residual[l] / open < *share) {
            *share = residual[l] / open;
            best = l;
        }
    }
    return best;
}

static void share_links(plain_t *p, double now)
{
    double residual[512], share;
    int    link;

    for (int l = 0; l < pdl_topology_link_count(p->topology); l++)
        residual[l] = pdl_topology_links(p->topology)[l].bytes_per_s;
    for (int f = 0; f < p->count; f++) p->rate[f] = moves(p, f, now) ? -1 : 0;
    while ((link = tightest(p, now, residual, &share)) >= 0) {
        for (int f = 0; f < p->count; f++) {
            bool on = false;

            for (int h = 0; h < p->hops[f]; h++) on = on || p->links[f][h] == link;
            if (!on || p->rate[f] >= 0) continue;
            p->rate[f] = share;
            for (int h = 0; h < p->hops[f]; h++) residual[p->links[f][h]] -= share * load_of(p, f, h);
        }
    }
}

static void run_plain(plain_t *p)
{
    double now = 0;

    for (;;) {
        double next = INFINITY;

        share_links(p, now);
        for (int f = 0; f < p->count; f++) {
            if (p->left[f] > 0 && p->start_s[f] > now) next = fmin(next, p->start_s[f]);
            if (moves(p, f, now)) next = fmin(next, now + p->left[f] / p->rate[f]);
        }
        if (next == INFINITY) return;
        for (int f = 0; f < p->count; f++) {
            if (!moves(p, f, now)) continue;
            p->left[f] -= p->rate[f] * (next - now);
            if (p->left[f] > 1e-3) continue;
            p->left[f] = 0;
            p->end_s[f] = next;
        }
        now = next;
    }
}

/* Flows between random hosts, or to the first one, with random sizes and starts. */
static void compare_with_plain(const sim_case_t *c, double reverse_share, int rounds, bool to_one)
{
    int                 count = to_one ? MOST : SOME;
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 2};
    pdl_topology_t     *topology = make_topology(c);
    pdl_schedule_t     *schedule = NULL;
    pdl_sim_options_t   options = pdl_sim_options_default();
    static plain_t      plain;

    options.reverse_share = reverse_share;
    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    for (int round = 0; round < rounds; round++) {
        pdl_sim_job_t    jobs[MOST];
        int              hosts[MOST][2];
        double           start_s[MOST][2];
        pdl_sim_result_t result = {0};

        plain = (plain_t){.topology = topology, .count = count, .back = reverse_share};
        for (int f = 0; f < count; f++) {
            int64_t bytes = between(1000, 1000000);

            hosts[f][0] = (int)between(to_one ? 1 : 0, c->hosts - 1);
            hosts[f][1] = to_one ? 0 : (hosts[f][0] + (int)between(1, c->hosts - 1)) % c->hosts;
            start_s[f][0] = start_s[f][1] = 1e-6 * (double)between(0, 49);
            jobs[f] = (pdl_sim_job_t){schedule, bytes, hosts[f], start_s[f]};
            plain.forward[f] = pdl_topology_route(topology, hosts[f][0], hosts[f][1], plain.links[f]);
            plain.hops[f] = plain.forward[f];
            if (reverse_share > 0)
                plain.hops[f] +=
                    pdl_topology_route(topology, hosts[f][1], hosts[f][0], plain.links[f] + plain.forward[f]);
            plain.left[f] = (double)bytes;
            plain.start_s[f] = start_s[f][0] + plain.forward[f] * 1e-6;
        }
        CHECK_OK(pdl_sim_run(topology, jobs, count, &options, &result));
        run_plain(&plain);
        for (int f = 0; f < count; f++) CHECK_NEAR(result.job_s[f], plain.end_s[f], 1e-8);
        pdl_sim_result_free(&result);
    }
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

static void a_plain_simulator_agrees(void)
{
    static const sim_case_t tree = {.topology = "fat-tree", .hosts = 12, .per_switch = 4, .uplinks = 2};
    static const sim_case_t dragonfly = {.topology = "dragonfly", .hosts = 12, .shape = {1, 3, 1, 4}};
    static const sim_case_t torus = {.topology = "torus", .hosts = 12, .dims = {4, 3}};

    compare_with_plain(&tree, 0, 30, false);
    compare_with_plain(&dragonfly, 0, 30, false);
    compare_with_plain(&torus, 0, 30, false);
    compare_with_plain(&tree, 0.05, 20, false);
    compare_with_plain(&torus, 0.3, 20, false);
}

/* What rounding leaves of a link that many flows fill is not what a flow on it gets. */
static void flows_to_one_host_share_its_link(void)
{
    static const sim_case_t tree = {
        .topology = "fat-tree", .hosts = 48, .per_switch = 16, .uplinks = 4, .host_bytes_per_s = 5e9};
    static const sim_case_t dragonfly = {.topology = "dragonfly", .hosts = 72, .shape = {2, 4, 2, 9}};

    compare_with_plain(&tree, 0, 20, true);
    compare_with_plain(&dragonfly, 0, 6, true);
    compare_with_plain(&tree, 0.1, 3, true);
}

static void simulate(const sim_case_t *c, const pdl_sim_options_t *options, pdl_sim_result_t *result)
{
    pdl_topology_t *topology = make_topology(c);
    pdl_schedule_t *schedule = make_schedule(c);
    pdl_sim_job_t   job = {.schedule = schedule, .bytes = c->bytes};

    CHECK_OK(pdl_sim_run(topology, &job, 1, options, result));
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

static int link_count(const sim_case_t *c)
{
    pdl_topology_t *topology = make_topology(c);
    int             count = pdl_topology_link_count(topology);

    pdl_topology_destroy(topology);
    return count;
}

static void periodic_shortcut_is_exact(void)
{
    static const sim_case_t cases[] = {
        {.topology = "dln", .hosts = 256, .per_switch = 8, .algorithm = "ring", .bytes = 1 << 22},
        {.topology = "fat-tree",
         .hosts = 256,
         .per_switch = 16,
         .uplinks = 5,
         .algorithm = "ring",
         .bytes = 1 << 22},
        {.topology = "torus", .hosts = 60, .dims = {6, 10}, .algorithm = "ring", .bytes = 60 << 12},
        {.topology = "tsubame3", .hosts = 256, .per_switch = 4, .algorithm = "ring", .bytes = 1 << 25},
        {.topology = "tsubame3", .hosts = 256, .per_switch = 4, .algorithm = "ring_ring", .bytes = 1 << 25},
        {.topology = "abci-v", .hosts = 272, .per_switch = 4, .algorithm = "ring_ring", .bytes = 272 << 14},
        {.topology = "fat-tree",
         .hosts = 64,
         .per_switch = 8,
         .uplinks = 3,
         .algorithm = "ring",
         .bytes = 64 << 10,
         .duplex = PDL_HALF_DUPLEX},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_sim_options_t options = {.link_loads = true, .gamma_s_per_byte = i % 2 * 1e-11};
        pdl_sim_result_t  whole = {0}, shortcut = {0};

        simulate(&cases[i], &options, &whole);
        options.periodic = true;
        simulate(&cases[i], &options, &shortcut);
        CHECK_NEAR(shortcut.time_s, whole.time_s, 0);
        CHECK_INT(shortcut.flows, whole.flows);
        CHECK_NEAR(shortcut.energy_used_j, whole.energy_used_j, 1e-12);
        for (int l = 0; l < link_count(&cases[i]); l++)
            CHECK_NEAR(shortcut.link_bytes[l], whole.link_bytes[l], 1e-12);
        pdl_sim_result_free(&whole);
        pdl_sim_result_free(&shortcut);
    }
}

/* Times, messages and bytes of every link with and without the shortcut. */
static void compare_shortcut(const sim_case_t *c, pdl_engine_t engine)
{
    pdl_sim_options_t options = {.engine = engine, .link_loads = true};
    pdl_sim_result_t  whole = {0}, shortcut = {0};

    simulate(c, &options, &whole);
    options.periodic = true;
    simulate(c, &options, &shortcut);
    CHECK_NEAR(shortcut.time_s, whole.time_s, engine == PDL_ENGINE_FLOW ? 0 : 1e-12);
    CHECK_INT(shortcut.flows, whole.flows);
    CHECK(!shortcut.mean_blocks);
    for (int l = 0; l < link_count(c); l++) CHECK_NEAR(shortcut.link_bytes[l], whole.link_bytes[l], 1e-12);
    pdl_sim_result_free(&whole);
    pdl_sim_result_free(&shortcut);
}

/* Blocks that differ by an element repeat after several steps, or not at all; there are blocks of nothing. */
static void periodic_shortcut_with_uneven_blocks(void)
{
    static const char *const algorithms[] = {"ring", "ring_ring", "leader"};
    static const sim_case_t  kautz = {
         .topology = "kautz", .shape = {3, 3}, .hosts = 36, .algorithm = "ring", .bytes = 100 << 10};

    compare_shortcut(&kautz, PDL_ENGINE_FLOW);
    for (int round = 0; round < 80; round++) {
        int        leaf = (int)between(1, 6);
        sim_case_t c = {.topology = round % 3 == 0 ? "ring" : "fat-tree",
                        .hosts = leaf * (int)between(2, 16),
                        .per_switch = leaf,
                        .uplinks = (int)between(1, leaf),
                        .algorithm = algorithms[between(0, 2)],
                        .collective = PDL_COLL_ALLREDUCE,
                        .bytes = between(1, round % 2 == 0 ? 100 : 100000)};

        compare_shortcut(&c, round % 5 == 0 ? PDL_ENGINE_LOADS : PDL_ENGINE_FLOW);
    }
}

/* To follow each of very many uneven messages would take too long: the result says that blocks have their mean size. */
static void very_many_uneven_blocks_have_their_mean(void)
{
    sim_case_t        c = {.topology = "fat-tree",
                           .hosts = 2500,
                           .per_switch = 50,
                           .uplinks = 50,
                           .algorithm = "ring",
                           .bytes = 4 * 2500 * 1000 + 4};
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_result_t  result = {0};

    simulate(&c, &options, &result);
    CHECK(result.mean_blocks);
    pdl_sim_result_free(&result);
}

static void link_loads_equal_flows_of_symmetric_steps(void)
{
    static const char *const algorithms[] = {"hd_near", "hd_far", "shd_near", "shd_far", "rdb"};

    for (int i = 0; i < 5; i++) {
        sim_case_t c = {
            .topology = "dln", .hosts = 256, .per_switch = 8, .algorithm = algorithms[i], .bytes = 1 << 24};
        pdl_sim_options_t options = {.gamma_s_per_byte = 1e-11};
        double            flow_s = run_case(&c, &options);

        options.engine = PDL_ENGINE_LOADS;
        CHECK_NEAR(run_case(&c, &options), flow_s, 1e-9);
    }
}

static void same_input_same_bits(void)
{
    sim_case_t        c = {.topology = "fat-tree",
                           .hosts = 96,
                           .per_switch = 16,
                           .uplinks = 5,
                           .algorithm = "circulant",
                           .bytes = 1 << 22};
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_result_t  a = {0}, b = {0};

    options.link_loads = true;
    simulate(&c, &options, &a);
    simulate(&c, &options, &b);
    CHECK(memcmp(&a.time_s, &b.time_s, sizeof(double)) == 0);
    CHECK(memcmp(a.link_bytes, b.link_bytes, (size_t)link_count(&c) * sizeof(double)) == 0);
    CHECK_INT(a.events, b.events);
    pdl_sim_result_free(&a);
    pdl_sim_result_free(&b);
}

/* Two hosts and a cable of 1 GB/s with 10 W idle and 30 W at peak, half of it for each direction: 1 GB there,
   nothing back. */
static void energy_of_links(void)
{
    static const char text[] = "paradl: topology/1\nname: pair\nhosts: 2\nlink_bandwidth: 1GB/s\nlink_latency: 1s\n"
                               "links:\n  - {ends: [h0, h1], idle_power: 10W, peak_power: 30W}\n";
    pdl_schedule_spec_t spec = {.collective = PDL_COLL_BROADCAST, .algorithm = "binomial", .ranks = 2};
    pdl_topology_t     *topology = NULL;
    pdl_schedule_t     *schedule = NULL;
    pdl_sim_options_t   options = pdl_sim_options_default();
    pdl_sim_result_t    result = {0};

    CHECK_OK(pdl_topology_read_memory(text, sizeof(text) - 1, "pair.yaml", &topology));
    REQUIRE_OK(pdl_schedule_create(&spec, &schedule));
    pdl_sim_job_t job = {.schedule = schedule, .bytes = 1000000000};
    CHECK_OK(pdl_sim_run(topology, &job, 1, &options, &result));
    CHECK_NEAR(result.time_s, 2, 1e-12);
    CHECK_NEAR(result.energy_used_j, 2 * 5 + 1 * 10, 1e-12);
    CHECK_NEAR(result.energy_all_j, 2 * (2 * 5) + 1 * 10, 1e-12);
    pdl_sim_result_free(&result);
    pdl_schedule_destroy(schedule);
    pdl_topology_destroy(topology);
}

static void trace_has_every_flow(void)
{
    sim_case_t c = {.topology = "dln", .hosts = 16, .per_switch = 2, .algorithm = "hd_near", .bytes = 1 << 20};
    pdl_sim_options_t options = pdl_sim_options_default();
    pdl_sim_result_t  result = {0};
    FILE             *file = tmpfile();
    char             *text = NULL;
    size_t            room = 0;
    int               slices = 0;

    CHECK(file != NULL);
    options.trace = file;
    simulate(&c, &options, &result);
    rewind(file);
    REQUIRE(getdelim(&text, &room, '\0', file) > 3);
    for (const char *at = text; (at = strstr(at, "\"ph\": \"X\"")) != NULL; at++) slices++;
    CHECK_INT(slices, result.flows);
    CHECK_STR(text + strlen(text) - 3, "]}\n");
    free(text);
    fclose(file);
    pdl_sim_result_free(&result);
}

static void nothing_beats_its_lower_bound(void)
{
    static const sim_case_t cases[] = {
        {.topology = "dln", .hosts = 256, .per_switch = 4, .algorithm = "rshd", .bytes = 1 << 26},
        {.topology = "fat-tree",
         .hosts = 256,
         .per_switch = 32,
         .uplinks = 11,
         .algorithm = "hd_near",
         .bytes = 1 << 26},
        {.topology = "fat-tree",
         .hosts = 64,
         .per_switch = 16,
         .uplinks = 1,
         .algorithm = "ring",
         .bytes = 1 << 20},
        {.topology = "tsubame3", .hosts = 64, .per_switch = 4, .algorithm = "ring_rab", .bytes = 1 << 25},
        {.topology = "kautz", .shape = {4, 2}, .hosts = 20, .algorithm = "kautz", .bytes = 20 << 16},
        {.topology = "ring", .hosts = 16, .algorithm = "ring", .collective = PDL_COLL_ALLGATHER, .bytes = 1 << 24},
        {.topology = "fc2",
         .hosts = 64,
         .dims = {8, 8},
         .algorithm = "fc2",
         .collective = PDL_COLL_ALLTOALL,
         .bytes = 1LL << 32},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_topology_t   *topology = make_topology(&cases[i]);
        pdl_sim_options_t options = pdl_sim_options_default();
        double            time_s = run_case(&cases[i], &options);
        pdl_bound_t       bound;

        CHECK_OK(pdl_sim_bound(topology, cases[i].collective, cases[i].hosts, (double)cases[i].bytes, 0, &bound));
        CHECK(bound.total_s > 0 && bound.total_s <= time_s * (1 + 1e-9));
        CHECK(bound.total_s >= fmax(bound.latency_s, fmax(bound.bandwidth_s, bound.cut_s)));
        /* RSHD meets the capacity of the host links, all-to-all on the 2-D network that of all links. */
        if (strcmp(cases[i].algorithm, "rshd") == 0 || strcmp(cases[i].algorithm, "fc2") == 0)
            CHECK_NEAR(time_s, bound.total_s, 0.05);
        pdl_topology_destroy(topology);
    }
}

int main(void)
{
    RUN(a_plain_simulator_agrees);
    RUN(flows_to_one_host_share_its_link);
    RUN(periodic_shortcut_is_exact);
    RUN(periodic_shortcut_with_uneven_blocks);
    RUN(very_many_uneven_blocks_have_their_mean);
    RUN(link_loads_equal_flows_of_symmetric_steps);
    RUN(same_input_same_bits);
    RUN(energy_of_links);
    RUN(trace_has_every_flow);
    RUN(nothing_beats_its_lower_bound);
    return test_done();
}
