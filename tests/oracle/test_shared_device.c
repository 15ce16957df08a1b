/*
 * Ranks that share a device: what they exchange holds up computation where they have the device in turns, buckets that are in flight
 * together wait for their turns together, and stages that wait leave the device to those that compute.
 */
#include "test.h"
#include <math.h>
#include <paradl/oracle/replay.h>
#include <paradl/plan/collectives.h>
#include <string.h>

#define SHARING 0.8
#define LAYERS  6

/* A layer of 8 samples takes 1 s forward and 2 s back, everything else next to nothing. */
static const char machine[] =
    "paradl: system/1\n"
    "name: here\n"
    "device: {name: one, memory: 10GB, memory_bandwidth: 1000GB/s, peak: {fp32: 1000TFLOP/s}, compute_units: 1, "
    "launch: 1ns, matrix_efficiency: 1, memory_efficiency: 1, queue: 1ns, sharing: 0.8%s}\n"
    "levels:\n  - {name: node, transport: none, fanout: 1, bandwidth: 1000GB/s, latency: 1ns}\n"
    "storage: {node_bandwidth: 100GB/s, decode_samples_per_s: 1}\n"
    "backend: cpu\n"
    "parameters: cuda\n"
    "operations:\n"
    "  - {op: \"linear 2048 to 2048 bias\", samples: 8, seconds: [1, 2, 1, 1]}\n"
    "  - {op: \"linear 2048 to 2048 bias first\", samples: 8, seconds: [1, 2, 1, 1]}\n";
static const char network[] = "paradl: model/1\nname: equal\ninput: {channels: 2048}\nlayers:\n"
                              "  - linear: 2048\n  - linear: 2048\n  - linear: 2048\n"
                              "  - linear: 2048\n  - linear: 2048\n  - linear: 2048\n  - cross_entropy\n";

typedef struct bench {
    const pdl_system_t *system;
    pdl_system_t        wide;
    pdl_model_t        *model;
    pdl_plan_t         *plan;
    pdl_oracle_t       *oracle;
    pdl_timeline_t     *timeline;
} bench_t;

/* The oracle borrows b->wide. */
static void begin(bench_t *b, const char *of_device, const char *strategy, pdl_axis_kind_t axis, int64_t ranks,
                  int64_t micro_batches)
{
    char             text[2048];
    pdl_parameters_t parameters;
    pdl_mesh_t       mesh = {{{axis, ranks, 0}}, 1};

    snprintf(text, sizeof(text), machine, of_device);
    REQUIRE_OK(pdl_system_read_memory(text, strlen(text), "here.yaml", &b->system));
    REQUIRE_OK(pdl_model_read_yaml_memory(network, strlen(network), "equal", &b->model));
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, 8 * (axis == PDL_AXIS_DATA ? ranks : 1), &b->plan));
    REQUIRE_OK(pdl_plan_apply_preset(b->plan, strategy, NULL));
    b->plan->micro_batches = micro_batches;
    REQUIRE_OK(pdl_parameters_choose(NULL, b->system, &parameters));
    b->wide = pdl_system_widen(b->system, ranks);
    REQUIRE_OK(pdl_oracle_create(b->model, &b->wide, &parameters, &b->oracle));
    REQUIRE_OK(pdl_oracle_settle(b->oracle, b->plan));
    REQUIRE_OK(pdl_oracle_timeline(b->oracle, b->plan, &b->timeline));
}

static void end(bench_t *b)
{
    pdl_timeline_destroy(b->timeline);
    pdl_oracle_destroy(b->oracle);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
    pdl_system_destroy(b->system);
}

/* Of the first rank; *buckets: of gradients. */
static double sum_operations(const bench_t *b, int *buckets, double *exchanged)
{
    const pdl_replay_rank_t *rank = &b->timeline->ranks[0];
    double                   sum = 0;

    *buckets = 0;
    *exchanged = 0;
    for (int i = 0; i < rank->program->op_count; i++) {
        sum += rank->seconds[i];
        if (rank->program->op[i].stream != PDL_STREAM_GRADIENT) continue;
        *exchanged += rank->seconds[i];
        (*buckets)++;
    }
    return sum;
}

static double total(const char *strategy, pdl_axis_kind_t axis, int64_t ranks)
{
    bench_t b;

    begin(&b, "", strategy, axis, ranks, 1);
    double seconds = b.timeline->total_s;
    end(&b);
    return seconds;
}

static void gradients_wait_for_turns_together(void)
{
    double  alone = total("serial", PDL_AXIS_DATA, 1), hidden = total("data", PDL_AXIS_DATA, 2), exchanged;
    bench_t b;
    int     buckets;

    begin(&b, ", slice: 100ms", "data", PDL_AXIS_DATA, 2, 1);
    double sum = sum_operations(&b, &buckets, &exchanged);
    double turns = exchanged / 0.2 / ceil((double)buckets / PDL_BUCKETS_IN_FLIGHT);
    CHECK_NEAR(alone, 3 * LAYERS, 0.01);
    CHECK_NEAR(hidden, alone * 2 / SHARING, 0.01);
    CHECK(buckets > PDL_BUCKETS_IN_FLIGHT);
    /* Recursive doubling has one step, the ring two. */
    CHECK(fabs(turns - 1) < 0.01 || fabs(turns - 2) < 0.01);
    CHECK_NEAR(b.timeline->total_s, sum, 1e-6);
    CHECK_NEAR(b.timeline->total_s, hidden + exchanged, 0.01);
    end(&b);
}

static void messages_inside_layers_hold_the_device(void)
{
    double  without = total("filter", PDL_AXIS_TENSOR, 2), exchanged;
    bench_t b;
    int     buckets;

    begin(&b, ", slice: 100ms", "filter", PDL_AXIS_TENSOR, 2, 1);
    CHECK_NEAR(b.timeline->total_s, sum_operations(&b, &buckets, &exchanged), 1e-6);
    CHECK(b.timeline->total_s >= without + 2 * (LAYERS - 1) * 0.2);
    end(&b);
}

/* A pipeline of two stages that are alike: m + 1 passes, of which two are those of a stage alone. */
static void stages_that_wait_leave_the_device(void)
{
    double alone = total("serial", PDL_AXIS_DATA, 1);

    for (int64_t m = 1; m <= 8; m *= 2) {
        double           pass = alone / 2 / (double)m, expected = pass * (2 + (double)(m - 1) * 2 / SHARING);
        bench_t          b;
        pdl_projection_t p;

        begin(&b, "", "pipeline", PDL_AXIS_PIPELINE, 2, m);
        CHECK_NEAR(b.timeline->total_s, expected, 0.01);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < b.timeline->ranks[k].program->op_count; i++)
                CHECK(b.timeline->ranks[k].start_s[i] >= 0 &&
                      b.timeline->ranks[k].end_s[i] >= b.timeline->ranks[k].start_s[i] &&
                      b.timeline->ranks[k].end_s[i] <= b.timeline->total_s * (1 + 1e-9));
        REQUIRE_OK(pdl_oracle_replay(b.oracle, b.plan, NULL, &p));
        CHECK_NEAR(p.total_s, expected, 0.01);
        double sum = p.compute_s + p.bubble_s;
        for (int i = 0; i < PDL_COMM_CLASS_COUNT; i++) sum += p.comm[i];
        CHECK_NEAR(sum, p.total_s, 1e-6);
        CHECK(p.bubble_s >= 0 && p.compute_s >= alone / 2 * (1 - 1e-3));
        end(&b);
    }
}

int main(void)
{
    RUN(gradients_wait_for_turns_together);
    RUN(messages_inside_layers_hold_the_device);
    RUN(stages_that_wait_leave_the_device);
    return test_done();
}
