/*
 * Stages on different devices: computed by hand, by the closed form, by replaying; machines whose parts are equal answer as those
 * without parts; the slowest device decides where a stage is on several; searches against all configurations.
 */
#include "oracle/bench.h"
#include "oracle/cost/places.h"
#include "oracle/project/passes.h"

#include <paradl/oracle/exact.h>
#include <paradl/oracle/replay.h>
#include <paradl/oracle/search.h>

#include <stddef.h>

/* Memory that costs nothing to read, links that cost nothing to use: what is left are operations. */
#define RATES    "memory_bandwidth: 1e9GB/s, launch: 0s"
#define FAST     "{name: fast, memory: 80GB, " RATES ", peak: {fp32: 10TFLOP/s}, power: 300W, idle_power: 50W}"
#define SLOW     "{name: slow, memory: 40GB, " RATES ", peak: {fp32: 5TFLOP/s}, power: 200W, idle_power: 40W}"
#define HEAD     "paradl: system/1\nname: toy\n"
#define LINKS    "bandwidth: 1e8GB/s, latency: 0s"
#define NODES(n) "levels:\n  - {name: node, fanout: 2, " LINKS "}\n  - {name: all, fanout: " n ", " LINKS "}\n"
#define MIXED(n, all)                                                                                         \
    HEAD "devices:\n  - {name: a, nodes: " n ", device: " FAST "}\n  - {name: b, nodes: " n ", device: " SLOW \
         "}\n" NODES(all)

static const char equal_layers[] =
    "paradl: model/1\nname: equal\ninput: {channels: 512}\nblocks:\n  same:\n    layers:\n"
    "      - linear: {name: l, out: 512, bias: false}\nlayers:\n"
    "  - {block: same, name: body, repeat: 18}\n  - cross_entropy\n";

static const pdl_system_t *load(const char *text)
{
    const pdl_system_t *system = NULL;

    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "toy", &system));
    return system;
}

static pdl_config_t pipeline(int64_t stages, int64_t micro_batches)
{
    pdl_config_t config = pdl_config_default("pipeline");

    config.pipeline = stages;
    config.micro_batches = micro_batches;
    config.batch = 64 * micro_batches;
    config.optimizer = PDL_OPTIMIZER_SGD;
    return config;
}

static pdl_projection_t replayed(bench_t *b, const pdl_config_t *config)
{
    pdl_projection_t out;

    memset(&out, 0, sizeof(out));
    CHECK_OK(pdl__evaluate_replayed(b->oracle, config, NULL, &out));
    return out;
}

enum { MOST = 32 };
typedef struct pass {
    int number, backward;
} pass_t;

/* One pass forward, one backward, after `ahead` passes forward. */
static int list_passes(int ahead, int m, pass_t *list)
{
    int count = 0, forward = 0, backward = 0;

    while (forward < ahead && forward < m) list[count++] = (pass_t){forward++, 0};
    while (backward < m) {
        list[count++] = (pass_t){backward++, 1};
        if (forward < m) list[count++] = (pass_t){forward++, 0};
    }
    return count;
}

/* Two stages: each does its list in order, and waits for what the other one makes; over and over until nothing changes. */
static double two_stages(const double forward[2], const double backward[2], int m)
{
    double end[2][2][MOST] = {{{0}}}, last = -1, now = 0;
    pass_t list[2 * MOST];

    for (; now != last;) {
        last = now;
        now = 0;
        for (int s = 0; s < 2; s++) {
            double free_s = 0;
            int    count = list_passes(2 - s, m, list);
            for (int i = 0; i < count; i++) {
                int    k = list[i].number, back = list[i].backward;
                double input = s == back ? 0 : end[1 - s][back][k];
                free_s = fmax(free_s, input) + (back ? backward[s] : forward[s]);
                end[s][back][k] = free_s;
            }
            now = fmax(now, free_s);
        }
    }
    return now;
}

/* Operations of the layers [first, last) over the rate of a device; the first layer makes no gradient of its input. */
static void passes_of(const pdl_model_t *model, int first, int last, double rate, double *forward, double *backward)
{
    *forward = *backward = 0;
    for (int i = first; i < last; i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->weights == 0) continue;
        *forward += 64.0 * (double)layer->flop_forward / rate;
        *backward += 64.0 *
                     ((double)layer->flop_backward_weight +
                      (layer->needs_input_gradient ? (double)layer->flop_backward_data : 0)) /
                     rate;
    }
}

/* Stages of an order of the parts, as the oracle cuts them. */
static void cut(bench_t *b, const pdl_config_t *config, int first[3])
{
    pdl_plan_t *plan = NULL;

    REQUIRE_OK(pdl_oracle_plan(b->oracle, config, &plan));
    CHECK_OK(pdl_oracle_settle(b->oracle, plan));
    memcpy(first, plan->stage_first, 3 * sizeof(*first));
    CHECK_STR(plan->stage_devices, config->part_order == 0 ? "stage 0: a, 1: b" : "stage 0: b, 1: a");
    pdl_plan_destroy(plan);
}

static void two_devices_by_hand(void)
{
    static const double rate[2] = {10e12, 5e12};
    const pdl_system_t *system = load(MIXED("1", "2"));
    bench_t             b = begin(equal_layers, system, simple());

    for (int order = 0; order < 2; order++)
        for (int m = 1; m <= 8; m++) {
            pdl_config_t config = pipeline(4, m);
            double       forward[2], backward[2];
            int          first[3];

            /* One device of each part: two stages, of two tensor ranks each, would cost the same. */
            config.pipeline = 2;
            config.data = 2;
            config.strategy = pdl_strategy_find("data+pipeline");
            config.batch *= 2;
            config.part_order = order;
            cut(&b, &config, first);
            for (int s = 0; s < 2; s++)
                passes_of(b.model, first[s], first[s + 1], rate[s ^ order], &forward[s], &backward[s]);
            double by_hand = two_stages(forward, backward, m);
            CHECK_NEAR(evaluate(&b, &config).total_s, by_hand, 1e-5);
            CHECK_NEAR(replayed(&b, &config).total_s, by_hand, 1e-5);
        }
    end(&b);
    pdl_system_destroy(system);
}

/* Twice as fast: twice as many of 18 layers, first or last. */
static void borders_follow_speeds(void)
{
    const pdl_system_t *system = load(MIXED("1", "2"));
    bench_t             b = begin(equal_layers, system, simple());

    for (int order = 0; order < 2; order++) {
        pdl_config_t config = pipeline(2, 8);
        int          first[3], layers;

        config.data = 2;
        config.strategy = pdl_strategy_find("data+pipeline");
        config.part_order = order;
        cut(&b, &config, first);
        layers = first[1] - 1; /* without the input */
        CHECK_INT(layers, order == 0 ? 12 : 6);
    }
    end(&b);
    pdl_system_destroy(system);
}

/* Programs of ranks, by which a plan is drawn, compute as long as the passes of their stages. */
static void programs_are_those_of_the_stage(void)
{
    const pdl_system_t *system = load(MIXED("1", "2"));
    bench_t             b = begin(equal_layers, system, simple());

    for (int order = 0; order < 2; order++) {
        pdl_config_t     config = pipeline(2, 4);
        pdl_plan_t      *plan = NULL;
        pdl_timeline_t  *timeline = NULL;
        pdl_stage_time_t stages[2];
        pdl_plan_parts_t parts;

        config.data = 2;
        config.strategy = pdl_strategy_find("data+pipeline");
        config.part_order = order;
        REQUIRE_OK(pdl_oracle_plan(b.oracle, &config, &plan));
        CHECK_OK(pdl_oracle_settle(b.oracle, plan));
        /* Not along the speeds: then stages differ. */
        plan->stage_first[1] = 10;
        pdl__closed_prices_t prices = pdl__closed_prices(b.oracle, 4, false);
        CHECK_OK(pdl_oracle_time_stages(b.oracle, plan, &prices.prices, (pdl_slow_t){0, 0}, stages, &parts));
        REQUIRE_OK(pdl_oracle_timeline(b.oracle, plan, &timeline));
        for (int s = 0; s < 2; s++) {
            double sum = 0;
            for (int i = 0; i < timeline->ranks[s].program->op_count; i++)
                if (timeline->ranks[s].program->op[i].stream == PDL_STREAM_COMPUTE)
                    sum += timeline->ranks[s].seconds[i];
            CHECK_NEAR(sum, stages[s].compute_s, 1e-4);
        }
        CHECK(order == 0 ? stages[1].compute_s > 1.8 * stages[0].compute_s
                         : stages[0].compute_s > 1.8 * stages[1].compute_s);
        pdl_timeline_destroy(timeline);
        pdl_plan_destroy(plan);
    }
    end(&b);
    pdl_system_destroy(system);
}

/* Every number of a projection but names. */
static void check_same(const pdl_projection_t *a, const pdl_projection_t *b)
{
    CHECK(memcmp(a, b, offsetof(pdl_projection_t, memory_device)) == 0);
    CHECK_NEAR(a->energy_j, b->energy_j, 0);
    CHECK_NEAR(a->total_s, b->total_s, 0);
    CHECK_NEAR(a->memory_bytes, b->memory_bytes, 0);
    CHECK_NEAR(a->flop, b->flop, 0);
}

#define V100                                                                                                      \
    "{name: V100, memory: 32GB, memory_bandwidth: 900GB/s, peak: {fp32: 15.7TFLOP/s, fp16: 125TFLOP/s}, launch: " \
    "5us, "                                                                                                       \
    "compute_units: 80, matrix_efficiency: 0.5, memory_efficiency: 0.85, power: 300W, idle_power: 45W, "          \
    "host_link: {d2h: 12GB/s}, reserved: 0.8GB}"
#define V100_NODES                                                                                        \
    "levels:\n  - {name: node, fanout: 4, bandwidth: 150GB/s, latency: 4us}\n  - {name: all, fanout: 4, " \
    "bandwidth: 12GB/s, latency: 8us, ports: 2}\n"

/* All strategies, policies and schedules, frameworks that share out blocks evenly, and whole searches. */
static void equal_parts_are_no_parts(void)
{
    const pdl_system_t *plain = load(HEAD "device: " V100 "\n" V100_NODES);
    const pdl_system_t *parts = load(HEAD "devices:\n  - {name: a, nodes: 1, device: " V100
                                          "}\n  - {name: b, nodes: 3, device: " V100 "}\n" V100_NODES);

    for (int evenly = 0; evenly < 2; evenly++) {
        pdl_parameters_t p;
        pdl_request_t    request = pdl_request_default();
        pdl_search_t    *one = NULL, *other = NULL;

        pdl_parameters_default(&p);
        p.even_stages = p.block_segments = evenly;
        p.update_tensor_s = 1e-5;
        bench_t a = begin("gpt2-124m", plain, p), b = begin("gpt2-124m", parts, p);
        request.pe = 16;
        request.batch = 64;
        request.precision = PDL_FP16;
        request.optimizer = PDL_OPTIMIZER_ADAM;
        REQUIRE_OK(pdl_search_run(a.oracle, &request, &one));
        REQUIRE_OK(pdl_search_run(b.oracle, &request, &other));
        CHECK_INT(one->count, other->count);
        CHECK_INT(one->possible, other->possible);
        CHECK_INT(one->configurations, other->configurations);
        for (int i = 0; i < one->count && i < other->count; i++) {
            CHECK_STR(one->candidates[i].config.strategy->name, other->candidates[i].config.strategy->name);
            CHECK_STR(one->candidates[i].reason, other->candidates[i].reason);
            CHECK_NEAR(other->candidates[i].score, one->candidates[i].score, 0);
            if (one->candidates[i].possible)
                check_same(&one->candidates[i].projection, &other->candidates[i].projection);
        }
        pdl_search_destroy(one);
        pdl_search_destroy(other);
        end(&a);
        end(&b);
    }
    pdl_system_destroy(plain);
    pdl_system_destroy(parts);
}

/* Ranks that share a stage wait for the slowest of them, whichever axis they are on. */
static void the_slowest_decides(void)
{
    static const char *const names[] = {"data", "filter", "data+filter", "data+pipeline"};
    const pdl_system_t      *slow = load(HEAD "device: " SLOW "\n" NODES("2")), *mixed = load(MIXED("1", "2"));
    bench_t                  a = begin(equal_layers, slow, simple()), b = begin(equal_layers, mixed, simple());

    for (int i = 0; i < 4; i++) {
        pdl_config_t config = pdl_config_default(names[i]);

        config.batch = 256;
        config.data = i == 0 ? 4 : i == 1 ? 1 : 2;
        config.tensor = i == 1 ? 4 : i == 2 ? 2 : 1;
        config.pipeline = i == 3 ? 2 : 1;
        config.micro_batches = i == 3 ? 4 : 1;
        config.order = PDL_ORDER_DATA_PIPELINE_INNER; /* every stage has a rank on either */
        pdl_projection_t x = evaluate(&a, &config), y = evaluate(&b, &config);
        CHECK_NEAR(y.total_s, x.total_s, 0);
        CHECK_NEAR(y.memory_bytes, x.memory_bytes, 0);
        CHECK_NEAR(replayed(&b, &config).total_s, replayed(&a, &config).total_s, 0);
        CHECK_NEAR(x.energy_j, 4 * (200 * x.compute_s + 40 * (x.total_s - x.compute_s)), 1e-12);
        CHECK_NEAR(y.energy_j, 2 * (500 * y.compute_s + 90 * (y.total_s - y.compute_s)), 1e-12);
    }
    end(&a);
    end(&b);
    pdl_system_destroy(slow);
    pdl_system_destroy(mixed);
}

/* What fits the first stage's devices is too much for those of the second; the stage and its device are named. */
static void memory_is_that_of_the_stage(void)
{
    const pdl_system_t *system = load(HEAD "devices:\n  - {name: a, nodes: 1, device: " V100
                                           "}\n  - {name: b, nodes: 1, device: {name: tiny, memory: 1GB, "
                                           "memory_bandwidth: 900GB/s, peak: {fp32: 15TFLOP/s}}}\n" NODES("2"));
    pdl_parameters_t    p;
    pdl_request_t       request = pdl_request_default();
    pdl_search_t       *search = NULL;

    pdl_parameters_default(&p);
    bench_t      b = begin("gpt2-355m", system, p);
    pdl_config_t config = pipeline(4, 4);
    config.batch = 4;
    for (int order = 0; order < 2; order++) {
        config.part_order = order;
        pdl_projection_t out = evaluate(&b, &config);
        CHECK(!out.fits);
        CHECK_STR(out.memory_device, "tiny");
        CHECK(order == 0 ? out.memory_stage >= 2 : out.memory_stage < 2);
        CHECK_NEAR(out.memory_room, 1e9, 0);
    }
    request.pe = 4;
    request.batch = 4;
    request.strategy = config.strategy;
    REQUIRE_OK(pdl_search_run(b.oracle, &request, &search));
    CHECK_INT(search->possible, 0);
    CHECK(strncmp(search->candidates[0].reason, "stage ", 6) == 0);
    CHECK(strstr(search->candidates[0].reason, "(tiny)") != NULL);
    pdl_search_destroy(search);
    end(&b);
    pdl_system_destroy(system);
}

/* Where fewer devices are asked for than there are, the faster ones are taken, though they come second. */
static void faster_parts_are_taken(void)
{
    const pdl_system_t *system = load(HEAD "devices:\n  - {name: b, nodes: 1, device: " SLOW
                                           "}\n  - {name: a, nodes: 1, device: " FAST "}\n" NODES("2"));
    bench_t             b = begin(equal_layers, system, simple());
    pdl_request_t       request = pdl_request_default();
    pdl_search_t       *search = NULL;

    request.pe = 2;
    request.batch = 256;
    REQUIRE_OK(pdl_search_run(b.oracle, &request, &search));
    for (int i = 0; i < search->possible; i++) CHECK_INT(search->candidates[i].config.part_order, 1);
    CHECK(search->possible >= 4);
    pdl_search_destroy(search);
    end(&b);
    pdl_system_destroy(system);
}

/* Seconds of a configuration by one of four schedules; what its bounds say is no more. */
static double check_bounds(bench_t *b, pdl_config_t config, int way)
{
    static const pdl_pipeline_schedule_t schedules[] = {PDL_SCHEDULE_1F1B, PDL_SCHEDULE_GPIPE,
                                                        PDL_SCHEDULE_INTERLEAVED, PDL_SCHEDULE_ZERO_BUBBLE};
    double                               least = 0, bound = 0;

    config.schedule = schedules[way];
    if (config.schedule == PDL_SCHEDULE_INTERLEAVED) config.virtual_stages = 2;
    if (config.schedule == PDL_SCHEDULE_INTERLEAVED && config.micro_batches % config.pipeline != 0) return INFINITY;
    double total = replayed(b, &config).total_s, closed = evaluate(b, &config).total_s;
    CHECK_OK(pdl__lower_bound(b->oracle, &config, &least));
    CHECK_OK(pdl__replay_bound(b->oracle, &config, 0, &bound));
    CHECK(least <= total * (1 + 1e-9));
    CHECK(bound <= total * (1 + 1e-9));
    CHECK(closed <= total * (1 + 1e-5)); /* beside the update */
    return config.schedule == PDL_SCHEDULE_GPIPE ? INFINITY : total;
}

/* Bounds that remove configurations hold for all of them, and the search finds the best of a plain enumeration. */
static void search_finds_the_best(const char *text, int part_orders)
{
    static const pdl_order_t orders[] = {PDL_ORDER_PIPELINE_DATA_INNER, PDL_ORDER_DATA_PIPELINE_INNER};
    const pdl_system_t      *system = load(text);
    bench_t                  b = begin(equal_layers, system, simple());
    pdl_request_t            request = pdl_request_default();
    pdl_search_t            *search = NULL;
    double                   best = INFINITY;

    request.pe = 8;
    request.batch = 64;
    request.strategy = pdl_strategy_find("data+pipeline");
    for (int o = 0; o < 2; o++)
        for (int part_order = 0; part_order < part_orders; part_order++)
            for (int64_t stages = 2; stages <= 4; stages *= 2)
                for (int64_t micro = 1; micro <= 16; micro *= 2) {
                    pdl_config_t config = pipeline(stages, micro);

                    config.strategy = request.strategy;
                    config.data = 8 / stages;
                    config.batch = 64;
                    config.optimizer = request.optimizer;
                    config.order = orders[o];
                    config.part_order = part_order;
                    if (64 / config.data < micro) continue;
                    for (int way = 0; way < 4; way++) best = fmin(best, check_bounds(&b, config, way));
                }
    REQUIRE_OK(pdl_search_run(b.oracle, &request, &search));
    REQUIRE(search->possible == 1);
    CHECK(search->candidates[0].projection.total_s <= best * 1.02);
    CHECK((search->candidates[0].plan->stage_devices[0] != '\0') == (part_orders > 1));
    pdl_search_destroy(search);
    end(&b);
    pdl_system_destroy(system);
}

static void searches_find_the_best(void)
{
    search_finds_the_best(MIXED("2", "4"), 2);
    search_finds_the_best(HEAD "device: " FAST "\n" NODES("4"), 1);
}

static void same_answers(const pdl_exact_t *one, const pdl_exact_t *other)
{
    CHECK_INT(one->configurations, other->configurations);
    CHECK_INT(one->count, other->count);
    for (int i = 0; i < one->count && i < other->count; i++) {
        CHECK(one->best[i].score == other->best[i].score);
        CHECK_INT(one->best[i].config.part_order, 0);
        CHECK_INT(one->best[i].config.pipeline, other->best[i].config.pipeline);
    }
}

/* What an exact search finds where devices differ is not slower than what the rules do; on parts that are equal it is what one without
   parts finds. */
static void searches_are_exact(void)
{
    static const char *const machines[] = {MIXED("1", "2"),
                                           HEAD "devices:\n  - {name: a, nodes: 1, device: " FAST
                                                "}\n  - {name: b, nodes: 1, device: " FAST "}\n" NODES("2"),
                                           HEAD "device: " FAST "\n" NODES("2")};
    pdl_request_t            request = pdl_request_default();
    pdl_exact_options_t      options = {.top = 3};
    pdl_exact_t             *exact[3];

    request.pe = 4;
    request.batch = 64;
    request.exact = &options;
    for (int i = 0; i < 3; i++) {
        const pdl_system_t *system = load(machines[i]);
        bench_t             b = begin(equal_layers, system, simple());
        pdl_search_t       *search = NULL;
        REQUIRE_OK(pdl_exact_search(b.oracle, &request, &options, &exact[i]));
        REQUIRE_OK(pdl_search_run(b.oracle, &request, &search));
        CHECK(search->certified && search->not_certified[0] == '\0' && search->exact != NULL);
        CHECK(search->possible > 0 && exact[i]->best[0].score <= search->candidates[0].score * (1 + 1e-9));
        pdl_search_destroy(search);
        end(&b);
        pdl_system_destroy(system);
    }
    CHECK(exact[0]->configurations > exact[2]->configurations);
    same_answers(exact[1], exact[2]);
    for (int i = 0; i < 3; i++) pdl_exact_destroy(exact[i]);
}

int main(void)
{
    RUN(two_devices_by_hand);
    RUN(borders_follow_speeds);
    RUN(programs_are_those_of_the_stage);
    RUN(equal_parts_are_no_parts);
    RUN(the_slowest_decides);
    RUN(memory_is_that_of_the_stage);
    RUN(faster_parts_are_taken);
    RUN(searches_find_the_best);
    RUN(searches_are_exact);
    return test_done();
}
