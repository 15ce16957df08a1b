/*
 * Sessions: the gradient of a whole network against finite differences, micro-batches and recomputation against the
 * plain run, names and arrays, and what is refused. On the reference backend and on the CPU's.
 */
#include "random.h"
#include "test.h"
#include <math.h>
#include <paradl/train/session.h>
#include <paradl/train/train.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 6

static const char images[] = "paradl: model/1\nname: images\ninput: {channels: 3, size: [7, 6]}\nlayers:\n"
                             "  - conv: {name: stem, out: 5, kernel: 3, pad: 1, bias: false}\n"
                             "  - batch_norm: {name: bn0}\n"
                             "  - relu: {name: relu0}\n"
                             "  - conv: {name: a, out: 5, kernel: 3, pad: 1, bias: false}\n"
                             "  - batch_norm: {name: bn1}\n"
                             "  - add: {name: sum, from: [bn1, relu0]}\n"
                             "  - relu: {name: relu1}\n"
                             "  - max_pool: {name: pool, kernel: 2}\n"
                             "  - conv: {name: b, out: 4, kernel: 1}\n"
                             "  - gelu: {name: gelu}\n"
                             "  - flatten: {name: flat}\n"
                             "  - linear: {name: fc, out: 3}\n"
                             "  - cross_entropy: {name: loss}\n";

static const char tokens[] = "paradl: model/1\nname: tokens\ninput: {tokens: 6, vocabulary: 11}\nlayers:\n"
                             "  - embedding: {name: wte, out: 8, init: normal, std: 0.5}\n"
                             "  - position: {name: wpe}\n"
                             "  - layer_norm: {name: ln1}\n"
                             "  - linear: {name: qkv, out: 24}\n"
                             "  - attention: {name: attn, heads: 2, causal: true}\n"
                             "  - linear: {name: proj, out: 8}\n"
                             "  - add: {name: sum, from: [proj, wpe]}\n"
                             "  - layer_norm: {name: ln2}\n"
                             "  - linear: {name: head, out: 11, bias: false, tied: wte}\n"
                             "  - cross_entropy: {name: loss}\n";

typedef struct bench {
    pdl_model_t   *model;
    pdl_plan_t    *plan;
    pdl_backend_t *backend;
    pdl_ranks_t   *ranks;
    pdl_session_t *session;
    pdl_batch_t    batch;
    float          values[SAMPLES * 3 * 7 * 6], weight[SAMPLES];
    int32_t        tokens[SAMPLES * 6], labels[SAMPLES * 6];
    bool           reads_tokens;
} bench_t;

static void fill_batch(bench_t *b)
{
    random_seed = 7;
    for (size_t i = 0; i < sizeof(b->values) / sizeof(*b->values); i++)
        b->values[i] = (float)between(-1000, 1000) / 700;
    for (int i = 0; i < SAMPLES; i++) b->weight[i] = 1;
    for (int i = 0; i < SAMPLES * 6; i++) {
        b->tokens[i] = (int32_t)between(0, 10);
        b->labels[i] = (int32_t)between(0, b->reads_tokens ? 10 : 2);
    }
    b->batch = (pdl_batch_t){.values = b->values, .tokens = b->tokens, .labels = b->labels, .weight = b->weight};
}

static void open_bench(bench_t *b, const char *text, bool reference, int micro_batches, pdl_recompute_t recompute)
{
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_session_spec_t spec;
    pdl_cpu_options_t  cpu = {.threads = 2};

    memset(b, 0, sizeof(*b));
    b->reads_tokens = text == tokens;
    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "test", &b->model));
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, SAMPLES, &b->plan));
    CHECK_OK(pdl_plan_apply_preset(b->plan, "data", NULL));
    b->plan->micro_batches = micro_batches;
    b->plan->recompute = recompute;
    CHECK_OK(reference ? pdl_backend_create_reference(&b->backend) : pdl_backend_create_cpu(&cpu, &b->backend));
    REQUIRE_OK(pdl_ranks_create(&b->ranks));
    pdl_session_defaults(&spec);
    spec.plan = b->plan;
    spec.backend = b->backend;
    spec.ranks = b->ranks;
    spec.optimizer.lr = 1e-30; /* weights stay where they are */
    REQUIRE_OK(pdl_session_create(&spec, &b->session));
    fill_batch(b);
}

static void close_bench(bench_t *b)
{
    pdl_session_destroy(b->session);
    pdl_backend_destroy(b->backend);
    pdl_ranks_destroy(b->ranks);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
}

static double loss_of(bench_t *b)
{
    pdl_step_result_t result;

    CHECK_OK(pdl_session_step(b->session, &b->batch, &result));
    return result.loss;
}

static float *array_of(bench_t *b, int i, pdl_session_array_t array)
{
    float *plain = calloc((size_t)pdl_session_tensor(b->session, i)->elements, sizeof(*plain));

    CHECK_OK(pdl_session_get(b->session, i, array, plain));
    return plain;
}

/* A few elements of every weight, by central differences. Storage of the reference is double, but weights pass through
   float here, so the step is one that float holds exactly. */
static void check_gradients(bench_t *b)
{
    const double step = 1.0 / 1024;

    loss_of(b);
    int count = pdl_session_tensor_count(b->session);
    for (int i = 0; i < count; i++) {
        const pdl_session_tensor_t *info = pdl_session_tensor(b->session, i);
        if (!info->trainable) continue;
        loss_of(b);
        float *gradient = array_of(b, i, PDL_ARRAY_GRADIENT), *weight = array_of(b, i, PDL_ARRAY_WEIGHT);
        for (int k = 0; k < 3; k++) {
            int64_t at = between(0, info->elements - 1);
            float   before = weight[at];
            double  loss[2], moved[2];
            for (int side = 0; side < 2; side++) {
                weight[at] = before + (float)(side ? step : -step);
                moved[side] = (double)weight[at];
                CHECK_OK(pdl_session_set(b->session, i, PDL_ARRAY_WEIGHT, weight));
                loss[side] = loss_of(b);
            }
            weight[at] = before;
            CHECK_OK(pdl_session_set(b->session, i, PDL_ARRAY_WEIGHT, weight));
            double expected = (loss[1] - loss[0]) / (moved[1] - moved[0]);
            if (fabs(expected - (double)gradient[at]) > 1e-4 * (1 + fabs(expected)))
                printf("%s[%lld]\n", info->name, (long long)at);
            CHECK(fabs(expected - (double)gradient[at]) <= 1e-4 * (1 + fabs(expected)));
        }
        free(gradient);
        free(weight);
    }
}

static void test_gradients(void)
{
    const char *const texts[] = {images, tokens};

    for (int t = 0; t < 2; t++) {
        bench_t b;
        open_bench(&b, texts[t], true, 1, PDL_RECOMPUTE_NONE);
        check_gradients(&b);
        close_bench(&b);
    }
}

/* Largest difference of all gradients of two sessions, relative to the largest gradient. */
static double difference(bench_t *a, bench_t *b)
{
    double most = 0, scale = 0;

    for (int i = 0; i < pdl_session_tensor_count(a->session); i++) {
        if (!pdl_session_tensor(a->session, i)->trainable) continue;
        float *x = array_of(a, i, PDL_ARRAY_GRADIENT), *y = array_of(b, i, PDL_ARRAY_GRADIENT);
        for (int64_t k = 0; k < pdl_session_tensor(a->session, i)->elements; k++) {
            most = fmax(most, fabs((double)x[k] - (double)y[k]));
            scale = fmax(scale, fabs((double)x[k]));
        }
        free(x);
        free(y);
    }
    return most / scale;
}

static void test_backends_agree(void)
{
    const char *const texts[] = {images, tokens};

    for (int t = 0; t < 2; t++) {
        bench_t a, b;
        open_bench(&a, texts[t], true, 1, PDL_RECOMPUTE_NONE);
        open_bench(&b, texts[t], false, 1, PDL_RECOMPUTE_NONE);
        CHECK_NEAR(loss_of(&b), loss_of(&a), 1e-5);
        CHECK(difference(&a, &b) < 1e-4);
        close_bench(&a);
        close_bench(&b);
    }
}

/* Batch norm sees other batches in micro-batches, so this is about the network without. */
static void test_micro_batches(void)
{
    for (int reference = 0; reference < 2; reference++) {
        bench_t a, b;
        open_bench(&a, tokens, reference, 1, PDL_RECOMPUTE_NONE);
        open_bench(&b, tokens, reference, 3, PDL_RECOMPUTE_NONE);
        for (int step = 0; step < 2; step++) CHECK_NEAR(loss_of(&b), loss_of(&a), 1e-5);
        CHECK(difference(&a, &b) < 1e-5);
        close_bench(&a);
        close_bench(&b);
    }
}

static void test_recompute(void)
{
    const char *const texts[] = {images, tokens};

    for (int t = 0; t < 4; t++) {
        bench_t              a, b;
        pdl_session_memory_t plain, small;
        open_bench(&a, texts[t % 2], t < 2, 1, PDL_RECOMPUTE_NONE);
        open_bench(&b, texts[t % 2], t < 2, 1, PDL_RECOMPUTE_FULL);
        CHECK(loss_of(&a) == loss_of(&b));
        CHECK(difference(&a, &b) == 0);
        pdl_session_memory(a.session, &plain);
        pdl_session_memory(b.session, &small);
        CHECK(small.live <= plain.live);
        int mean = pdl_session_find(a.session, "bn0.running_mean");
        if (mean >= 0) { /* recomputation does not count twice */
            float *x = array_of(&a, mean, PDL_ARRAY_WEIGHT), *y = array_of(&b, mean, PDL_ARRAY_WEIGHT);
            CHECK(memcmp(x, y, 5 * sizeof(float)) == 0);
            free(x);
            free(y);
        }
        close_bench(&a);
        close_bench(&b);
    }
}

static void test_names(void)
{
    bench_t b;

    open_bench(&b, tokens, true, 1, PDL_RECOMPUTE_NONE);
    CHECK(pdl_session_find(b.session, "wte.weight") >= 0);
    CHECK(pdl_session_find(b.session, "qkv.bias") >= 0);
    CHECK_INT(pdl_session_find(b.session, "head.weight"), -1); /* it is wte's */
    CHECK_INT(pdl_session_find(b.session, "nothing"), -1);
    CHECK(!pdl_session_has(b.session, 0, PDL_ARRAY_EMA));
    close_bench(&b);
}

/* A weight that is not finite: the message names the first layer behind it. */
static void test_not_finite(void)
{
    for (int reference = 0; reference < 2; reference++) {
        bench_t           b;
        pdl_step_result_t result;
        open_bench(&b, images, reference, 1, PDL_RECOMPUTE_NONE);
        int    i = pdl_session_find(b.session, "b.weight");
        float *weight = array_of(&b, i, PDL_ARRAY_WEIGHT);
        weight[3] = NAN;
        CHECK_OK(pdl_session_set(b.session, i, PDL_ARRAY_WEIGHT, weight));
        CHECK_ERROR(pdl_session_step(b.session, &b.batch, &result), "output of layer b");
        free(weight);
        close_bench(&b);
    }
}

/* A sample that is not finite is the cause, not the rate; also of a score, whatever the loss comes to. */
static void test_bad_samples(void)
{
    for (int reference = 0; reference < 2; reference++)
        for (int k = 0; k < 2; k++) {
            bench_t           b;
            pdl_step_result_t result;
            open_bench(&b, images, reference, 1, PDL_RECOMPUTE_NONE);
            b.values[2 * 3 * 7 * 6 + 5] = k ? INFINITY : NAN;
            CHECK_ERROR(pdl_session_step(b.session, &b.batch, &result), "sample 2 of the batch");
            close_bench(&b);
            open_bench(&b, images, reference, 1, PDL_RECOMPUTE_NONE);
            b.values[4 * 3 * 7 * 6] = k ? INFINITY : NAN;
            CHECK(pdl_session_evaluate(b.session, &b.batch, &result) == PDL_ERR_NOT_FINITE);
            CHECK_ERROR(PDL_ERR_NOT_FINITE, "sample 4 of the batch");
            close_bench(&b);
        }
}

/* Statistics do not enter the loss of training, but they are what a score and a checkpoint come from. */
static void test_bad_statistics(void)
{
    bench_t           b;
    pdl_step_result_t result;

    open_bench(&b, images, false, 1, PDL_RECOMPUTE_NONE);
    int    i = pdl_session_find(b.session, "bn1.running_var");
    float *variance = array_of(&b, i, PDL_ARRAY_WEIGHT);
    variance[1] = INFINITY;
    CHECK_OK(pdl_session_set(b.session, i, PDL_ARRAY_WEIGHT, variance));
    CHECK_ERROR(pdl_session_step(b.session, &b.batch, &result),
                "statistic bn1.running_var is not finite after update 1");
    free(variance);
    close_bench(&b);
}

static void test_refusals(void)
{
    bench_t            b;
    pdl_session_spec_t spec;
    pdl_session_t     *session;

    open_bench(&b, images, true, 1, PDL_RECOMPUTE_NONE);
    pdl_session_defaults(&spec);
    spec.plan = b.plan;
    spec.backend = b.backend;
    spec.ranks = b.ranks;
    b.plan->micro_batches = 4;
    CHECK_ERROR(pdl_session_create(&spec, &session), "4 micro-batches");
    b.plan->micro_batches = 1;
    b.plan->mesh.axis[0].size = 2;
    CHECK_ERROR(pdl_session_create(&spec, &session), "needs 2 ranks");
    b.plan->mesh.axis[0].size = 1;
    pdl_source_info_t info = {.name = "x",
                              .shape = {.channels = 1, .extent = {7, 6, 1}, .rank = 2},
                              .classes = 3,
                              .target_count = 1};
    CHECK_ERROR(pdl_check_data(b.model, &info), "reads samples of 3x7x6");
    info.shape.channels = 3;
    CHECK_OK(pdl_check_data(b.model, &info));
    info.classes = 4;
    CHECK_ERROR(pdl_check_data(b.model, &info), "4 classes");
    info.tokens = true;
    CHECK_ERROR(pdl_check_data(b.model, &info), "reads numbers");
    close_bench(&b);
}

int main(void)
{
    RUN(test_gradients);
    RUN(test_backends_agree);
    RUN(test_micro_batches);
    RUN(test_recompute);
    RUN(test_names);
    RUN(test_not_finite);
    RUN(test_bad_samples);
    RUN(test_bad_statistics);
    RUN(test_refusals);
    return test_done();
}
