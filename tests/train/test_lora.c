/*
 * Training of adapters: their gradients are differences of the loss, frozen weights keep their bits, and state is that of adapters.
 */
#include "tensor/op_value.h"
#include "test.h"

#include <paradl/train/session.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 2, TOKENS = 6, CLASSES = 11 };

static const char network[] =
    "paradl: model/1\nname: small\nextends: gpt2-124m\n"
    "parameters: {layers: 2, hidden: 16, heads: 2, tokens: 6, vocabulary: 11, dropout: 0}\n";

typedef struct bench {
    pdl_model_t   *model;
    pdl_plan_t    *plan;
    pdl_backend_t *backend;
    pdl_ranks_t   *ranks;
    pdl_session_t *session;
    int32_t        tokens[SAMPLES * TOKENS], labels[SAMPLES * TOKENS];
    float          weight[SAMPLES];
} bench_t;

static void open_bench(bench_t *b, pdl_lora_layers_t layers, bool reference, double lr)
{
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_cpu_options_t  cpu = {.threads = 2};
    pdl_lora_t         lora = {3, layers};
    pdl_session_spec_t spec;
    pdl_model_t       *whole;

    *b = (bench_t){.model = NULL};
    REQUIRE_OK(pdl_model_read_yaml_memory(network, strlen(network), "network", &whole));
    REQUIRE_OK(pdl_model_adapt(whole, &lora, &b->model));
    pdl_model_destroy(whole);
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, SAMPLES, &b->plan));
    CHECK_OK(pdl_plan_apply_preset(b->plan, "data", NULL));
    REQUIRE_OK(reference ? pdl_backend_create_reference(&b->backend) : pdl_backend_create_cpu(&cpu, &b->backend));
    REQUIRE_OK(pdl_ranks_create(&b->ranks));
    pdl_session_defaults(&spec);
    spec.plan = b->plan;
    spec.backend = b->backend;
    spec.ranks = b->ranks;
    spec.optimizer.method = PDL_METHOD_SGD;
    spec.optimizer.momentum = 0;
    spec.optimizer.lr = lr;
    REQUIRE_OK(pdl_session_create(&spec, &b->session));
    for (int i = 0; i < SAMPLES * TOKENS; i++) {
        b->tokens[i] = (5 * i + 2) % CLASSES;
        b->labels[i] = (7 * i + 3) % CLASSES;
    }
    for (int i = 0; i < SAMPLES; i++) b->weight[i] = 1;
}

static void close_bench(bench_t *b)
{
    pdl_session_destroy(b->session);
    pdl_backend_destroy(b->backend);
    pdl_ranks_destroy(b->ranks);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
}

static double step(bench_t *b)
{
    pdl_batch_t       batch = {.tokens = b->tokens, .labels = b->labels, .weight = b->weight};
    pdl_step_result_t result = {.loss = 0};

    CHECK_OK(pdl_session_step(b->session, &batch, &result));
    return result.loss;
}

static float *values(const bench_t *b, int t, pdl_session_array_t array)
{
    float *plain = calloc((size_t)pdl_session_tensor(b->session, t)->elements, sizeof(*plain));

    if (plain == NULL) abort();
    CHECK_OK(pdl_session_get(b->session, t, array, plain));
    return plain;
}

/* The loss with one element of a weight moved; the rate is so small that steps change nothing that shows. */
static double moved(bench_t *b, int t, float *plain, int64_t at, float by)
{
    float before = plain[at];

    plain[at] = before + by;
    CHECK_OK(pdl_session_set(b->session, t, PDL_ARRAY_WEIGHT, plain));
    double loss = step(b);
    plain[at] = before;
    CHECK_OK(pdl_session_set(b->session, t, PDL_ARRAY_WEIGHT, plain));
    return loss;
}

static void check_gradient(bench_t *b, int t)
{
    const float by = 1.0f / 64; /* losses have 24 bits */
    int64_t     elements = pdl_session_tensor(b->session, t)->elements;
    float      *plain = values(b, t, PDL_ARRAY_WEIGHT), *gradient;

    step(b);
    gradient = values(b, t, PDL_ARRAY_GRADIENT);
    for (int64_t i = 0; i < elements; i += 7) {
        double difference = (moved(b, t, plain, i, by) - moved(b, t, plain, i, -by)) / (2 * (double)by);
        CHECK(fabs(difference - (double)gradient[i]) < 2e-5 + 5e-3 * fabs(difference));
    }
    free(plain);
    free(gradient);
}

/* Second matrices begin at 0, where the first have no gradient: both are given values. In double precision. */
static void gradients_of_adapters_are_differences_of_the_loss(void)
{
    bench_t b;
    int     adapters = 0;

    open_bench(&b, PDL_LORA_ALL, true, 1e-30);
    for (int t = 0; t < pdl_session_tensor_count(b.session); t++) {
        const pdl_session_tensor_t *tensor = pdl_session_tensor(b.session, t);
        float                      *plain = values(&b, t, PDL_ARRAY_WEIGHT);

        CHECK_INT(tensor->trainable, strstr(tensor->name, ".lora_") != NULL);
        for (int64_t i = 0; i < tensor->elements && tensor->trainable; i++)
            plain[i] = (float)(0.3 * op_value(0, t, i));
        CHECK_OK(pdl_session_set(b.session, t, PDL_ARRAY_WEIGHT, plain));
        free(plain);
    }
    for (int t = 0; t < pdl_session_tensor_count(b.session); t++)
        if (pdl_session_tensor(b.session, t)->trainable) {
            check_gradient(&b, t);
            adapters++;
        }
    CHECK_INT(adapters,
              2 * 2 *
                  4); /* two matrices at qkv, behind attention and twice in the network behind it, in two blocks */
    close_bench(&b);
}

static void frozen_weights_keep_their_bits(void)
{
    bench_t b;

    open_bench(&b, PDL_LORA_ATTENTION, false, 0.1);
    int                  count = pdl_session_tensor_count(b.session);
    float              **before = calloc((size_t)count, sizeof(*before));
    pdl_session_memory_t memory;
    pdl_model_totals_t   totals;

    if (before == NULL) abort();
    for (int t = 0; t < count; t++) before[t] = values(&b, t, PDL_ARRAY_WEIGHT);
    double first = step(&b), last = 0;
    for (int i = 0; i < 20; i++) last = step(&b);
    CHECK(last < first);
    for (int t = 0; t < count; t++) {
        const pdl_session_tensor_t *tensor = pdl_session_tensor(b.session, t);
        float                      *after = values(&b, t, PDL_ARRAY_WEIGHT);

        CHECK_INT(memcmp(before[t], after, (size_t)tensor->elements * sizeof(*after)) != 0, tensor->trainable);
        free(after);
        free(before[t]);
    }
    free(before);
    /* Gradients of adapters alone, each weight filled up to a line. */
    pdl_session_memory(b.session, &memory);
    pdl_model_totals(b.model, &totals);
    CHECK_INT(totals.trained, 2 * 3 * (16 + 48 + 16 + 16));
    CHECK(memory.gradients >= 4 * (size_t)totals.trained &&
          memory.gradients < 4 * (size_t)totals.trained + 2 * 4 * 64);
    close_bench(&b);
}

/* A network of which nothing is trained. */
static void nothing_to_train_is_refused(void)
{
    static const char frozen[] =
        "paradl: model/1\nname: f\ninput: {channels: 4, size: [2, 2]}\nlayers:\n  - flatten:\n"
        "  - linear: {out: 3, frozen: true}\n  - cross_entropy:\n";
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_cpu_options_t  cpu = {.threads = 1};
    pdl_session_spec_t spec;
    pdl_session_t     *session;
    bench_t            b = {.model = NULL};

    REQUIRE_OK(pdl_model_read_yaml_memory(frozen, strlen(frozen), "frozen", &b.model));
    REQUIRE_OK(pdl_plan_create(b.model, &mesh, SAMPLES, &b.plan));
    CHECK_OK(pdl_plan_apply_preset(b.plan, "data", NULL));
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &b.backend));
    REQUIRE_OK(pdl_ranks_create(&b.ranks));
    pdl_session_defaults(&spec);
    spec.plan = b.plan;
    spec.backend = b.backend;
    spec.ranks = b.ranks;
    CHECK_ERROR(pdl_session_create(&spec, &session), "all weights of f are frozen");
    close_bench(&b);
}

int main(void)
{
    RUN(gradients_of_adapters_are_differences_of_the_loss);
    RUN(frozen_weights_keep_their_bits);
    RUN(nothing_to_train_is_refused);
    return test_done();
}
