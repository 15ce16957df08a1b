/*
 * Under mpirun: sharded state. Losses of 20 updates and the weights after them are those without sharding, under
 * every optimizer; memory falls with the number of ranks; a rank holds and sends what a dry session says of it.
 *
 *     program_sharding          all of it
 *     program_sharding all      also every network with every optimizer on more than 2 ranks
 *     program_sharding bf16     in 16 bits
 */
#include <math.h>
#include <paradl/plan/plan.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 20
#define BATCH 12
#define ROOM  1024

#include "batch_fixture.h"
#include "dry_check.h"

static const char lenet[] =
    "paradl: model/1\nname: lenet\ninput: {channels: 1, size: [28, 28]}\nlayers:\n"
    "  - conv: {name: conv1, out: 6, kernel: 5, pad: 2}\n  - relu: {name: r1}\n  - max_pool: {name: p1, kernel: "
    "2}\n"
    "  - conv: {name: conv2, out: 16, kernel: 5}\n  - relu: {name: r2}\n  - max_pool: {name: p2, kernel: 2}\n"
    "  - flatten: {name: flat}\n  - linear: {name: fc1, out: 120}\n  - relu: {name: r3}\n"
    "  - linear: {name: fc2, out: 84}\n  - relu: {name: r4}\n  - linear: {name: fc3, out: 10}\n"
    "  - cross_entropy: {name: loss}\n";

static const char residual[] =
    "paradl: model/1\nname: residual\ninput: {channels: 3, size: [12, 10]}\nlayers:\n"
    "  - conv: {name: stem, out: 9, kernel: 3, pad: 1, bias: false}\n  - batch_norm: {name: bn0}\n"
    "  - relu: {name: r0}\n  - conv: {name: a, out: 9, kernel: 3, pad: 1, bias: false}\n"
    "  - batch_norm: {name: bn1}\n  - add: {name: sum, from: [bn1, r0]}\n  - relu: {name: r1}\n"
    "  - conv: {name: b, out: 17, kernel: 3, stride: 2, pad: 1}\n  - gelu: {name: g}\n"
    "  - global_avg_pool: {name: avg}\n  - flatten: {name: flat}\n  - linear: {name: fc, out: 5}\n"
    "  - cross_entropy: {name: loss}\n";

static const char gpt[] =
    "paradl: model/1\nname: gpt\ninput: {tokens: 12, vocabulary: 13}\nlayers:\n"
    "  - embedding: {name: wte, out: 16, init: normal, std: 0.3}\n"
    "  - position: {name: wpe, init: normal, std: 0.3}\n"
    "  - layer_norm: {name: ln1}\n  - linear: {name: qkv, out: 48}\n"
    "  - attention: {name: attn, heads: 4, causal: true}\n  - linear: {name: proj, out: 16}\n"
    "  - add: {name: sum1, from: [wpe, proj]}\n  - layer_norm: {name: ln2}\n  - linear: {name: up, out: 32}\n"
    "  - gelu: {name: g}\n  - linear: {name: down, out: 16}\n  - add: {name: sum2, from: [sum1, down]}\n"
    "  - layer_norm: {name: ln3}\n  - linear: {name: head, out: 13, bias: false, tied: wte}\n"
    "  - cross_entropy: {name: loss}\n";

static pdl_ranks_t *ranks;
static bool         bf16, all;

/* What is run: everything but the sharding. */
typedef struct setting {
    const char  *network;
    pdl_mesh_t   mesh;
    const char  *preset; /* NULL: data */
    int          micro_batches, virtual_stages;
    size_t       bucket_bytes;
    bool         no_overlap, sync;
    double       ema;
    const char  *algorithm;
    pdl_method_t method;
} setting_t;

typedef struct outcome {
    double               loss[STEPS], averaged, sum;
    pdl_session_memory_t memory;
} outcome_t;

static void options_of(const setting_t *setting, pdl_optimizer_options_t *options)
{
    static const double rate[PDL_METHOD_COUNT] = {0.02, 0.002, 2, 0.005};

    options->method = setting->method;
    options->lr = rate[setting->method];
    options->weight_decay = 0.01;
    options->ema = setting->ema;
    options->clip_norm = setting->method == PDL_METHOD_LAMB ? 0.5 : 0;
}

/* A sum over all weights and statistics that no exchange of two of them leaves as it was. */
static double sum_magnitudes(pdl_session_t *session)
{
    double sum = 0;

    for (int i = 0; i < pdl_session_tensor_count(session); i++) {
        const pdl_session_tensor_t *info = pdl_session_tensor(session, i);
        float                      *plain = malloc((size_t)info->elements * sizeof(*plain));
        CHECK_OK(pdl_session_get(session, i, PDL_ARRAY_WEIGHT, plain));
        for (int64_t k = 0; k < info->elements; k++) sum += fabs((double)plain[k]) * (1 + (double)(k % 7));
        free(plain);
    }
    return sum;
}

static pdl_status_t train(const pdl_plan_t *plan, const setting_t *setting, outcome_t *outcome)
{
    pdl_cpu_options_t  cpu = {.threads = 1, .direct = true, .precision = bf16 ? PDL_DTYPE_BF16 : PDL_DTYPE_F32};
    pdl_session_spec_t spec;
    pdl_session_t     *session = NULL;
    pdl_backend_t     *backend = NULL;
    pdl_status_t       status = pdl_backend_create_cpu(&cpu, &backend);
    pdl_step_result_t  result;
    size_t             held = pdl_memory_held();

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.bucket_bytes = setting->bucket_bytes;
    spec.overlap = !setting->no_overlap;
    if (setting->algorithm) spec.algorithm = setting->algorithm;
    options_of(setting, &spec.optimizer);
    if (!status) status = pdl_session_create(&spec, &session);
    pdl_session_traffic_t said;
    double                before[PDL_SENT_KINDS];
    if (!status) status = pdl_ranks_agree(ranks, check_dry(&spec, session, pdl_memory_held() - held, &said));
    for (int k = 0; k < PDL_SENT_KINDS; k++) before[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k);
    for (int step = 0; step < STEPS && !status; step++) {
        random_seed = (uint64_t)step * 977 + 5;
        fill_batch(5);
        pdl_batch_t batch = part_of_batch(plan, session);
        status = pdl_session_step(session, &batch, &result);
        outcome->loss[step] = result.loss;
    }
    if (!status) status = pdl_ranks_agree(ranks, check_sent(session, ranks, before, STEPS, &said));
    if (!status) {
        pdl_batch_t batch = part_of_batch(plan, session);
        CHECK_OK(pdl_session_swap_ema(session));
        CHECK_OK(pdl_session_evaluate(session, &batch, &result));
        CHECK_OK(pdl_session_swap_ema(session));
        outcome->averaged = result.loss;
        outcome->sum = sum_magnitudes(session);
        pdl_session_memory(session, &outcome->memory);
    }
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
    return status;
}

static void run_setting(const setting_t *setting, pdl_sharding_t sharding, outcome_t *outcome)
{
    pdl_model_t *model;
    pdl_plan_t  *plan;

    *outcome = (outcome_t){.sum = 0};
    CHECK_OK(pdl_model_read_yaml_memory(setting->network, strlen(setting->network), "network", &model));
    REQUIRE_OK(pdl_plan_create(model, &setting->mesh, BATCH, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, setting->preset ? setting->preset : "data", NULL));
    plan->micro_batches = setting->micro_batches ? setting->micro_batches : 1;
    plan->sharding = sharding;
    if (setting->virtual_stages) {
        plan->schedule = PDL_SCHEDULE_INTERLEAVED;
        CHECK_OK(pdl_plan_set_virtual_stages(plan, setting->virtual_stages));
    }
    plan->sync_batch_norm = setting->sync;
    plan->precision = bf16 ? PDL_BF16 : PDL_FP32;
    CHECK_OK(pdl_plan_check(plan));
    CHECK_OK(train(plan, setting, outcome));
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* Every sharding against none. Sums over two ranks have no order: their bits are the same. */
static void compare(const setting_t *setting, double tolerance)
{
    outcome_t plain, sharded;
    bool exact = pdl_ranks_size(ranks) == 2 && setting->micro_batches <= 1 && setting->method <= PDL_METHOD_ADAMW;

    run_setting(setting, PDL_SHARDING_NONE, &plain);
    for (int z = PDL_SHARDING_ZERO1; z <= PDL_SHARDING_ZERO3; z++) {
        run_setting(setting, (pdl_sharding_t)z, &sharded);
        for (int step = 0; step < STEPS; step++) {
            CHECK_NEAR(sharded.loss[step], plain.loss[step], tolerance);
            if (exact && !setting->preset) CHECK(sharded.loss[step] == plain.loss[step]);
        }
        CHECK_NEAR(sharded.averaged, plain.averaged, tolerance);
        /* Adam makes steps of full length out of gradients that are nothing but rounding, such as those of the
           biases of keys. */
        CHECK_NEAR(sharded.sum, plain.sum, 10 * tolerance);
    }
}

static pdl_mesh_t data_mesh(void)
{
    return (pdl_mesh_t){{{PDL_AXIS_DATA, pdl_ranks_size(ranks), 0}}, 1};
}

static void every_optimizer_agrees(void)
{
    const char *const network[] = {lenet, residual, gpt};

    for (int method = 0; method < PDL_METHOD_COUNT; method++)
        for (int n = 0; n < 3; n++)
            if (all || pdl_ranks_size(ranks) == 2 || method % 3 == n)
                compare(&(setting_t){.network = network[n],
                                     .mesh = data_mesh(),
                                     .bucket_bytes = n == 0 ? 20000 : 1000,
                                     .sync = true,
                                     .ema = method == n ? 0.9 : 0,
                                     .method = (pdl_method_t)method},
                        bf16 ? 2e-3 : 1e-6);
}

static void micro_batches_agree(void)
{
    if (BATCH % (2 * pdl_ranks_size(ranks)) || (!all && pdl_ranks_size(ranks) == 4)) return;
    compare(&(setting_t){.network = gpt,
                         .mesh = data_mesh(),
                         .micro_batches = 2,
                         .bucket_bytes = 3000,
                         .method = PDL_METHOD_ADAMW},
            bf16 ? 2e-3 : 2e-6);
    compare(&(setting_t){.network = residual, .mesh = data_mesh(), .micro_batches = 2, .bucket_bytes = 1000},
            bf16 ? 2e-3 : 2e-6);
}

static void without_overlap_and_by_the_library(void)
{
    if (!all && pdl_ranks_size(ranks) != 3) return;
    compare(&(setting_t){.network = residual, .mesh = data_mesh(), .bucket_bytes = 1000, .no_overlap = true}, 2e-6);
    compare(&(setting_t){.network = lenet, .mesh = data_mesh(), .bucket_bytes = 1 << 20, .algorithm = "library"},
            2e-6);
    compare(&(setting_t){.network = gpt, .mesh = data_mesh(), .bucket_bytes = 500, .algorithm = "ring"}, 2e-6);
    compare(&(setting_t){.network = gpt, .mesh = data_mesh(), .bucket_bytes = 500, .algorithm = "circulant"}, 2e-6);
}

static void together_with_other_axes(void)
{
    if (pdl_ranks_size(ranks) != 4) return;
    compare(&(setting_t){.network = gpt,
                         .mesh = {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2},
                         .preset = "data+tensor",
                         .bucket_bytes = 1000,
                         .method = PDL_METHOD_LAMB},
            1e-5);
    compare(&(setting_t){.network = residual,
                         .mesh = {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2},
                         .preset = "data+spatial",
                         .sync = true,
                         .bucket_bytes = 1000,
                         .method = PDL_METHOD_LARS},
            1e-5);
    compare(&(setting_t){.network = gpt,
                         .mesh = {{{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_DATA, 2, 0}}, 2},
                         .preset = "data+pipeline",
                         .micro_batches = 3,
                         .bucket_bytes = 1000,
                         .ema = 0.5,
                         .method = PDL_METHOD_LAMB},
            1e-5);
    compare(&(setting_t){.network = gpt,
                         .mesh = {{{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_DATA, 2, 0}}, 2},
                         .preset = "data+pipeline",
                         .micro_batches = 2,
                         .virtual_stages = 2,
                         .bucket_bytes = 5000},
            1e-5);
}

/* Layer-wise scaling goes by the norms of whole weights, also of those that are split. */
static void norms_of_split_weights(void)
{
    setting_t data = {.network = gpt, .mesh = data_mesh(), .bucket_bytes = 4096};
    setting_t split = data;
    outcome_t whole, parts;

    if (pdl_ranks_size(ranks) != 4) return;
    split.mesh = (pdl_mesh_t){{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2};
    split.preset = "data+tensor";
    for (int method = PDL_METHOD_LARS; method <= PDL_METHOD_LAMB; method++) {
        data.method = split.method = (pdl_method_t)method;
        run_setting(&data, PDL_SHARDING_NONE, &whole);
        run_setting(&split, PDL_SHARDING_NONE, &parts);
        for (int step = 0; step < STEPS; step++) CHECK_NEAR(parts.loss[step], whole.loss[step], 1e-5);
    }
}

/* Of what is sharded a rank has its part, and besides a few buckets. */
static void memory_falls(void)
{
    setting_t setting = {.network = lenet, .mesh = data_mesh(), .bucket_bytes = 4096, .method = PDL_METHOD_ADAMW};
    size_t    p = (size_t)pdl_ranks_size(ranks), slack = 4096;
    outcome_t plain, zero[4];

    run_setting(&setting, PDL_SHARDING_NONE, &plain);
    for (int z = PDL_SHARDING_ZERO1; z <= PDL_SHARDING_ZERO3; z++) {
        run_setting(&setting, (pdl_sharding_t)z, &zero[z]);
        CHECK(zero[z].memory.optimizer <= plain.memory.optimizer / p + slack);
        CHECK(zero[z].memory.activations == plain.memory.activations);
    }
    size_t largest = 120 * 400 * sizeof(float) + slack; /* fc1: the largest bucket, and those around it */
    size_t buckets = largest + 120 * 84 * sizeof(float) + 6 * slack;
    CHECK(zero[1].memory.weights == plain.memory.weights && zero[1].memory.gradients == plain.memory.gradients);
    /* Buckets begin at cache lines, and there are more of them. */
    CHECK(zero[2].memory.weights <= plain.memory.weights + 16 * 64);
    CHECK(zero[2].memory.gradients <= plain.memory.gradients / p + buckets);
    CHECK(zero[3].memory.gradients == zero[2].memory.gradients);
    CHECK(zero[3].memory.weights <= plain.memory.weights / p + buckets);
}

int main(int argc, char **argv)
{
    if (pdl_ranks_create(&ranks)) return 1;
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    bf16 = argc > 1 && strcmp(argv[1], "bf16") == 0;
    RUN(every_optimizer_agrees);
    RUN(micro_batches_agree);
    if (!bf16) {
        RUN(without_overlap_and_by_the_library);
        RUN(together_with_other_axes);
        RUN(norms_of_split_weights);
        RUN(memory_falls);
    }
    printf("%d ranks\n", pdl_ranks_size(ranks));
    int failed = test_done();
    pdl_ranks_destroy(ranks);
    return failed;
}
