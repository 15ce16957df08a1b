/*
 * Exact search: over many small spaces branch and bound finds what evaluating everything finds, its counts add up, no bound is
 * above what it bounds, and neither threads nor the number of answers change the answer.
 */
#include "oracle/bench.h"
#include "oracle/internal.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <paradl/oracle/exact.h>
#include <string.h>

#define SPACES 40

static const pdl_system_t *selene, *abci;

static bool same_config(const pdl_config_t *a, const pdl_config_t *b)
{
    return a->strategy == b->strategy && a->pipeline == b->pipeline && a->data == b->data &&
           a->spatial == b->spatial && a->tensor == b->tensor && a->experts == b->experts && a->order == b->order &&
           a->micro_batches == b->micro_batches && a->schedule == b->schedule &&
           a->virtual_stages == b->virtual_stages && a->recompute == b->recompute && a->sharding == b->sharding &&
           a->optimizer_tier == b->optimizer_tier && a->sequence_parallel == b->sequence_parallel &&
           a->part_order == b->part_order;
}

static pdl_exact_t *search(bench_t *b, const pdl_request_t *request, bool exhaustive, int threads)
{
    pdl_exact_options_t options = {.exhaustive = exhaustive, .checks = true, .top = 5, .threads = threads};
    pdl_exact_t        *exact = NULL;

    REQUIRE_OK(pdl_exact_search(b->oracle, request, &options, &exact));
    return exact;
}

static int64_t all_of(const pdl_exact_t *e)
{
    int64_t sum = e->evaluated;

    for (int k = 0; k < PDL_BOUND_COUNT; k++) sum += e->removed[k];
    return sum;
}

static void check_same(const pdl_exact_t *a, const pdl_exact_t *b)
{
    CHECK(a->certified && b->certified);
    CHECK_INT(a->configurations, b->configurations);
    CHECK_INT(all_of(a), a->configurations);
    CHECK_INT(all_of(b), b->configurations);
    CHECK_INT(a->count, b->count);
    for (int i = 0; i < a->count && i < b->count; i++) {
        CHECK(a->best[i].score == b->best[i].score);
        CHECK(same_config(&a->best[i].config, &b->best[i].config));
    }
}

static pdl_request_t random_request(const char *model)
{
    pdl_request_t r = pdl_request_default();

    r.pe = between(0, 2) ? INT64_C(1) << between(0, 6) : between(1, 40);
    r.batch = r.pe * between(1, 4) + (between(0, 3) ? 0 : between(1, 5));
    if (between(0, 4) == 0) r.micro_batches = between(1, 2);
    r.goal = between(0, 2) ? PDL_GOAL_TIME : (pdl_goal_t)between(0, PDL_GOAL_COUNT - 1);
    r.precision = between(0, 1) ? PDL_FP32 : PDL_FP16;
    r.optimizer = (pdl_optimizer_t)between(0, PDL_OPTIMIZER_COUNT - 1);
    r.run_mode = between(0, 5) ? PDL_TRAINING : PDL_INFERENCE;
    if (between(0, 2) == 0) r.max_memory = (strcmp(model, "lenet") == 0 ? 4e8 : 1e9) * (double)between(1, 6);
    return r;
}

static void random_parameters(pdl_parameters_t *p)
{
    pdl_parameters_default(p);
    p->overlap_gradients = between(0, 3) > 0;
    p->overlap_stages = between(0, 1);
    p->zero_bubble = between(0, 3) > 0;
    p->fused_attention = between(0, 1);
    p->pack_gradients = between(0, 1);
}

static void bounded_is_exhaustive(void)
{
    static const char *const models[] = {"gpt2-124m", "lenet", "resnet50", "llama2-7b"};
    int64_t                  removed[PDL_BOUND_COUNT] = {0};
    int                      found = 0;

    for (int seed = 1; seed <= SPACES; seed++) {
        pdl_parameters_t p;
        random_seed = (uint64_t)seed * 104729;
        random_parameters(&p);
        const char   *model = models[between(0, 3)];
        bench_t       b = begin(model, between(0, 1) ? selene : abci, p);
        pdl_request_t request = random_request(model);
        pdl_exact_t  *bounded = search(&b, &request, false, 1 + seed % 3), *all = search(&b, &request, true, 1);
        check_same(bounded, all);
        CHECK_INT(all->evaluated, all->configurations);
        CHECK_INT(all->broken, 0);
        for (int k = 0; k < PDL_BOUND_COUNT; k++) removed[k] += bounded->removed[k];
        found += all->count > 0;
        if (test_failures > 0) printf("  (seed %d: %s on %lld)\n", seed, model, (long long)request.pe);
        pdl_exact_destroy(bounded);
        pdl_exact_destroy(all);
        end(&b);
    }
    CHECK(found > SPACES / 2);
    for (int k = 0; k < PDL_BOUND_COUNT; k++) CHECK(removed[k] > 0);
}

/* Tokens and channels at once, which larger spaces choose too seldom. */
static void both_inner_axes(void)
{
    static const char *const strategies[] = {"4d", "data+tensor+context"}, *const models[] = {"gpt2-124m",
                                                                                              "llama2-7b"};
    int found = 0;

    for (int seed = 1; seed <= 12; seed++) {
        pdl_parameters_t p;
        random_seed = (uint64_t)seed * 7919;
        random_parameters(&p);
        const char   *model = models[between(0, 1)];
        bench_t       b = begin(model, between(0, 1) ? selene : abci, p);
        pdl_request_t request = random_request(model);
        request.pe = INT64_C(1) << between(3, 6);
        request.batch = request.pe * between(1, 2);
        request.strategy = pdl_strategy_find(strategies[seed % 2]);
        pdl_exact_t *bounded = search(&b, &request, false, 2), *all = search(&b, &request, true, 1);
        check_same(bounded, all);
        CHECK_INT(all->broken, 0);
        CHECK(all->configurations > 0);
        for (int i = 0; i < all->count; i++)
            CHECK(all->best[i].config.spatial > 1 && all->best[i].config.tensor > 1);
        found += all->count > 0;
        if (test_failures > 0) printf("  (seed %d: %s on %lld)\n", seed, model, (long long)request.pe);
        pdl_exact_destroy(bounded);
        pdl_exact_destroy(all);
        end(&b);
    }
    CHECK(found > 6);
}

/* Replicas that share experts out, as a choice. */
static void experts_of_replicas(void)
{
    bool shared = false, whole = false;

    for (int seed = 1; seed <= 8; seed++) {
        pdl_parameters_t p;
        random_seed = (uint64_t)seed * 15485863;
        random_parameters(&p);
        bench_t       b = begin("mixtral-8x7b", between(0, 1) ? selene : abci, p);
        pdl_request_t request = random_request("mixtral-8x7b");
        request.pe = INT64_C(1) << between(1, 5);
        request.batch = request.pe * between(1, 2);
        request.max_memory = seed % 2 ? 1e12 : 8e10;
        pdl_exact_t *bounded = search(&b, &request, false, 2), *all = search(&b, &request, true, 1);
        check_same(bounded, all);
        CHECK_INT(all->broken, 0);
        for (int i = 0; i < all->count; i++) *(all->best[i].config.experts > 1 ? &shared : &whole) = true;
        if (test_failures > 0) printf("  (seed %d on %lld)\n", seed, (long long)request.pe);
        pdl_exact_destroy(bounded);
        pdl_exact_destroy(all);
        end(&b);
    }
    CHECK(shared && whole);
}

/* A part of a machine: nodes of one of four devices, which are fast, or have much memory, or both, or cost little. */
static int add_part(char *text, size_t size, int part, int nodes)
{
    static const char *const devices[] = {
        "memory: 80GB, memory_bandwidth: 2039GB/s, launch: 3us, power: 400W, idle_power: 60W, "
        "peak: {fp32: 19.5TFLOP/s, fp16: 312TFLOP/s}, host_link: {d2h: 24GB/s, h2d: 24GB/s}",
        "memory: 32GB, memory_bandwidth: 900GB/s, launch: 5us, power: 300W, idle_power: 40W, "
        "peak: {fp32: 15.7TFLOP/s, fp16: 125TFLOP/s}, host_link: {d2h: 12GB/s, h2d: 12GB/s}",
        "memory: 11GB, memory_bandwidth: 616GB/s, launch: 5us, power: 250W, idle_power: 20W, "
        "peak: {fp32: 13.4TFLOP/s, fp16: 53.8TFLOP/s}, reserved: 0.5GB",
        "memory: 192GB, memory_bandwidth: 300GB/s, launch: 9us, power: 150W, idle_power: 20W, "
        "peak: {fp32: 40TFLOP/s, fp16: 60TFLOP/s}"};
    int kind = (int)between(0, 3);

    return snprintf(text, size, "  - {name: p%d, nodes: %d, cost_per_pe_hour: %d, device: {name: d%d, %s}}\n", part,
                    nodes, 1 + kind, kind, devices[kind]);
}

/* A machine of two to four parts; how many devices it has. */
static const pdl_system_t *random_machine(int64_t *devices)
{
    char                text[4096] = "paradl: system/1\nname: toy\ndevices:\n";
    int                 parts = (int)between(2, 4), fanout = between(0, 2) ? 4 : 2, nodes = 0;
    size_t              used = strlen(text);
    const pdl_system_t *system = NULL;

    for (int i = 0; i < parts; i++) {
        int more = (int)between(1, parts > 3 ? 1 : 2);
        used += (size_t)add_part(text + used, sizeof(text) - used, i, more);
        nodes += more;
    }
    snprintf(text + used, sizeof(text) - used,
             "levels:\n  - {name: node, fanout: %d, bandwidth: 60GB/s, latency: 4us}\n"
             "  - {name: all, fanout: %d, bandwidth: 12.5GB/s, latency: 8us}\n",
             fanout, nodes);
    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "toy", &system));
    *devices = (int64_t)fanout * nodes;
    return system;
}

/* Machines with several kinds of devices: the order of parts is a choice, and bounds are those of the devices of the stages. */
static void different_devices(void)
{
    static const char *const models[] = {"gpt2-124m", "lenet", "llama2-7b"};
    int                      found = 0, reordered = 0;
    int64_t                  removed[PDL_BOUND_COUNT] = {0};

    for (int seed = 1; seed <= 24; seed++) {
        pdl_parameters_t p;
        int64_t          devices;
        random_seed = (uint64_t)seed * 32452843;
        random_parameters(&p);
        const char         *model = models[between(0, 2)];
        const pdl_system_t *system = random_machine(&devices);
        bench_t             b = begin(model, system, p);
        pdl_request_t       request = random_request(model);
        request.pe = between(0, 2) ? devices : between(1, devices);
        request.batch = request.pe * between(1, 4);
        request.micro_batches = 0;
        pdl_exact_t *bounded = search(&b, &request, false, 1 + seed % 3), *all = search(&b, &request, true, 2);
        check_same(bounded, all);
        CHECK_INT(all->broken, 0);
        for (int k = 0; k < PDL_BOUND_COUNT; k++) removed[k] += bounded->removed[k];
        found += all->count > 0;
        reordered += all->count > 0 && all->best[0].config.part_order > 0;
        if (test_failures > 0) printf("  (seed %d: %s on %lld)\n", seed, model, (long long)request.pe);
        pdl_exact_destroy(bounded);
        pdl_exact_destroy(all);
        end(&b);
        pdl_system_destroy(system);
    }
    CHECK(found > 12 && reordered > 0);
    for (int k = 0; k < PDL_BOUND_COUNT; k++) CHECK(removed[k] > 0);
}

/* Counts too: they are part of the certificate. */
static void threads_change_nothing_on(const pdl_system_t *system)
{
    pdl_parameters_t p;
    pdl_request_t    request = pdl_request_default();

    pdl_parameters_default(&p);
    bench_t b = begin("gpt2-124m", system, p);
    request.pe = request.batch = 64;
    pdl_exact_t *one = search(&b, &request, false, 1), *three = search(&b, &request, false, 3);
    check_same(one, three);
    CHECK_INT(one->evaluated, three->evaluated);
    CHECK_INT(one->too_large, three->too_large);
    for (int k = 0; k < PDL_BOUND_COUNT; k++) CHECK_INT(one->removed[k], three->removed[k]);
    CHECK(one->evaluated < one->configurations / 2);
    pdl_exact_destroy(one);
    pdl_exact_destroy(three);
    end(&b);
}

static void threads_change_nothing(void)
{
    const pdl_system_t *mixed;

    REQUIRE_OK(pdl_system_load("a100-v100", &mixed));
    threads_change_nothing_on(selene);
    threads_change_nothing_on(mixed);
    pdl_system_destroy(mixed);
}

static bool beats(const pdl_projection_t *a, const pdl_projection_t *b)
{
    return a->total_s <= b->total_s && a->memory_bytes <= b->memory_bytes && a->energy_j <= b->energy_j;
}

static void front_is_a_front(void)
{
    pdl_parameters_t p;
    pdl_request_t    request = pdl_request_default();

    pdl_parameters_default(&p);
    bench_t b = begin("gpt2-124m", selene, p);
    request.pe = 16;
    request.batch = 64;
    pdl_exact_t *e = search(&b, &request, true, 2);
    CHECK(e->front_count > 3);
    CHECK(e->front[0].projection.total_s == e->best[0].projection.total_s);
    for (int i = 0; i < e->front_count; i++)
        for (int j = 0; j < e->front_count; j++)
            CHECK(i == j || !beats(&e->front[i].projection, &e->front[j].projection));
    pdl_exact_destroy(e);
    end(&b);
}

static bool stop_at_once(void *context, double share)
{
    ++*(int *)context;
    CHECK(share >= 0 && share <= 1);
    return true;
}

/* What was not looked at is not certified. */
static void stopped_is_not_certified(void)
{
    pdl_parameters_t    p;
    pdl_request_t       request = pdl_request_default();
    int                 asked = 0;
    pdl_exact_options_t options = {
        .exhaustive = true, .top = 1, .threads = 1, .stop = stop_at_once, .context = &asked};
    pdl_exact_t *e;

    pdl_parameters_default(&p);
    bench_t b = begin("gpt3-175b", selene, p);
    request.pe = request.batch = 1024;
    request.precision = PDL_BF16;
    REQUIRE_OK(pdl_exact_search(b.oracle, &request, &options, &e));
    CHECK(asked == 0 || !e->certified);
    CHECK(asked == 0 || e->evaluated < e->configurations);
    CHECK(asked > 0 || e->certified);
    pdl_exact_destroy(e);
    end(&b);
}

static void refusals(void)
{
    pdl_parameters_t    p;
    pdl_request_t       request = pdl_request_default();
    pdl_exact_options_t options = {.top = 1};
    pdl_exact_t        *e;

    pdl_parameters_default(&p);
    bench_t b = begin("lenet", selene, p);
    request.pe = 0;
    CHECK_INT(pdl_exact_search(b.oracle, &request, &options, &e), PDL_ERR_INPUT);
    request.pe = INT64_C(1) << 40;
    CHECK_INT(pdl_exact_search(b.oracle, &request, &options, &e), PDL_ERR_INPUT);
    request.pe = 4;
    request.strategy = pdl_strategy_find("mixed");
    CHECK_INT(pdl_exact_search(b.oracle, &request, &options, &e), PDL_ERR_INPUT);
    end(&b);
}

int main(void)
{
    REQUIRE_OK(pdl_system_load("selene", &selene));
    REQUIRE_OK(pdl_system_load("abci-v", &abci));
    RUN(bounded_is_exhaustive);
    RUN(both_inner_axes);
    RUN(experts_of_replicas);
    RUN(different_devices);
    RUN(threads_change_nothing);
    RUN(front_is_a_front);
    RUN(stopped_is_not_certified);
    RUN(refusals);
    pdl_system_destroy(selene);
    pdl_system_destroy(abci);
    return test_done();
}
