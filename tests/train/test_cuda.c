/*
 * Whole networks on a GPU, emulated or with `--device N` a real one: ten steps in both precisions give the losses of the CPU; a
 * checkpoint's worth of weights of the CPU goes on there; steps that the device replays have the bits of those whose kernels are
 * launched one by one; memory is what is said before, and no step takes any.
 */
#include "tensor/cuda_device.h"

#define STEPS 10
#define BATCH 4
#define ROOM  (4 * 32 * 32 * 32)
#include "batch_fixture.h"

#define F32_TOLERANCE  1e-4
#define BF16_TOLERANCE 3e-2

typedef struct network {
    const char *model;
    int         classes;
    int         steps; /* of the emulation; 0: too much for it */
    bool        adam;
} network_t;

static const network_t networks[] = {
    {"lenet", 10, 10, false},
    {"resnet-tiny", 10, 2, false},
    {PDL_TEST_SOURCE "/tests/train/models/language.yaml", 13, 10, true},
    {PDL_TEST_SOURCE "/tests/train/models/experts.yaml", 13, 5, true},
    {PDL_TEST_SOURCE "/tests/train/models/many_classes.yaml", 1031, 3, true},
    {PDL_TEST_SOURCE "/tests/train/models/unet-small.yaml", 2, 0, false},
    {PDL_TEST_SOURCE "/tests/train/models/cosmoflow-32.yaml", 1, 0, false},
    {"resnet18-cifar", 10, 0, false},
    {"gpt-char-small", 13, 0, true},
};
#define NETWORKS ((int)(sizeof(networks) / sizeof(networks[0])))

static int    argument_count;
static char **argument;
static bool   real, launches;

typedef struct bench {
    pdl_model_t   *model;
    pdl_plan_t    *plan;
    pdl_backend_t *backend;
    pdl_ranks_t   *ranks;
    pdl_session_t *session;
} bench_t;

static void close_bench(bench_t *b)
{
    pdl_session_destroy(b->session);
    pdl_backend_destroy(b->backend);
    pdl_ranks_destroy(b->ranks);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
}

static pdl_session_spec_t spec_of(const bench_t *b, const network_t *network)
{
    pdl_session_spec_t spec;

    pdl_session_defaults(&spec);
    spec.plan = b->plan;
    spec.backend = b->backend;
    spec.ranks = b->ranks;
    spec.optimizer.method = network->adam ? PDL_METHOD_ADAMW : PDL_METHOD_SGD;
    spec.optimizer.lr = 1e-3;
    return spec;
}

static pdl_status_t open_bench(bench_t *b, const network_t *network, bool cuda, pdl_dtype_t precision)
{
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_cpu_options_t  cpu = {.threads = 1, .direct = true};
    pdl_session_spec_t spec;

    *b = (bench_t){.model = NULL};
    REQUIRE_OK(pdl_model_load(network->model, &b->model));
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, BATCH, &b->plan));
    REQUIRE_OK(pdl_plan_apply_preset(b->plan, "data", NULL));
    b->plan->precision = precision == PDL_DTYPE_BF16 ? PDL_BF16 : PDL_FP32;
    if (cuda) b->backend = cuda_backend(argument_count, argument, precision);
    if (cuda && launches) b->backend->device->captures = false;
    if (!cuda) REQUIRE_OK(pdl_backend_create("cpu", &cpu, &b->backend));
    REQUIRE_OK(pdl_ranks_create(&b->ranks));
    spec = spec_of(b, network);
    return pdl_session_create(&spec, &b->session);
}

static void run_steps(bench_t *b, int steps, double *loss)
{
    pdl_batch_t batch = part_of_batch(b->plan, b->session);

    for (int i = 0; i < steps; i++) {
        pdl_step_result_t result = {0};

        CHECK_OK(pdl_session_step(b->session, &batch, &result));
        loss[i] = result.loss;
    }
}

/* Differences count against the first loss. */
static void compare_losses(const network_t *network, pdl_dtype_t precision, double bound)
{
    double  expected[STEPS], found[STEPS];
    int     steps = real ? STEPS : network->steps;
    bench_t b;

    fill_batch(network->classes);
    REQUIRE_OK(open_bench(&b, network, false, PDL_DTYPE_F32));
    run_steps(&b, steps, expected);
    close_bench(&b);
    REQUIRE_OK(open_bench(&b, network, true, precision));
    run_steps(&b, steps, found);
    close_bench(&b);
    CHECK(expected[steps - 1] != expected[0]);
    for (int i = 0; i < steps; i++) {
        if (fabs(found[i] - expected[i]) <= bound * fabs(expected[0])) continue;
        test_fail_at(__FILE__, __LINE__);
        printf("%s, step %d: loss %.9g, on the CPU %.9g\n", network->model, i, found[i], expected[i]);
        return;
    }
}

static void networks_learn_as_on_the_cpu(void)
{
    for (int i = 0; i < NETWORKS; i++)
        if (real || networks[i].steps > 0) compare_losses(&networks[i], PDL_DTYPE_F32, F32_TOLERANCE);
}

static void networks_learn_in_bf16(void)
{
    for (int i = 0; i < NETWORKS; i++)
        if (real || networks[i].steps > 0) compare_losses(&networks[i], PDL_DTYPE_BF16, BF16_TOLERANCE);
}

/* Weights and moments of the CPU in the middle of a run. */
static void runs_of_the_cpu_go_on(void)
{
    const network_t *network = &networks[2];
    double           before[STEPS], expected[STEPS], found[STEPS];
    bench_t          cpu, cuda;

    fill_batch(network->classes);
    REQUIRE_OK(open_bench(&cpu, network, false, PDL_DTYPE_F32));
    REQUIRE_OK(open_bench(&cuda, network, true, PDL_DTYPE_F32));
    run_steps(&cpu, 3, before);
    run_steps(&cuda, 3, found);
    for (int t = 0; t < pdl_session_tensor_count(cpu.session); t++) {
        const pdl_session_tensor_t *info = pdl_session_tensor(cpu.session, t);
        float                      *plain = malloc((size_t)info->elements * sizeof(*plain));
        int                         last = info->trainable ? PDL_ARRAY_MOMENT2 : PDL_ARRAY_WEIGHT;

        for (int a = PDL_ARRAY_WEIGHT; a <= last; a++) {
            if (a == PDL_ARRAY_GRADIENT) continue;
            CHECK_OK(pdl_session_get(cpu.session, t, (pdl_session_array_t)a, plain));
            CHECK_OK(pdl_session_set(cuda.session, t, (pdl_session_array_t)a, plain));
        }
        free(plain);
    }
    run_steps(&cpu, 3, expected);
    run_steps(&cuda, 3, found);
    for (int i = 0; i < 3; i++) CHECK_NEAR(found[i], expected[i], F32_TOLERANCE);
    close_bench(&cpu);
    close_bench(&cuda);
}

/* The message of the CPU, whose host sees labels before they are used. */
static void labels_that_are_no_class_are_refused(void)
{
    const network_t  *network = &networks[0];
    pdl_step_result_t result = {0};
    pdl_batch_t       batch;
    bench_t           b;

    fill_batch(network->classes);
    labels[BATCH - 1] = 10;
    for (int cuda = 0; cuda < 2; cuda++) {
        REQUIRE_OK(open_bench(&b, network, cuda == 1, PDL_DTYPE_F32));
        batch = part_of_batch(b.plan, b.session);
        CHECK_INT(pdl_session_evaluate(b.session, &batch, &result), PDL_ERR_INPUT);
        CHECK_INT(pdl_session_step(b.session, &batch, &result), PDL_ERR_INPUT);
        CHECK_STR(pdl_error_message(),
                  "loss: sample 3 of the batch has label 10, but the network tells only 10 classes apart");
        close_bench(&b);
    }
}

/* Numbers that change with every step are among them: rates, corrections, what is dropped; and both slots of the input. */
static void collect(const network_t *network, double *numbers, int64_t *replayed)
{
    pdl_batch_t       batch;
    pdl_step_result_t result = {0};
    bench_t           b;

    REQUIRE_OK(open_bench(&b, network, true, PDL_DTYPE_BF16));
    batch = part_of_batch(b.plan, b.session);
    for (int i = 0; i < STEPS; i++) {
        if (i % 3 != 0) CHECK_OK(pdl_session_expect(b.session, &batch));
        pdl_session_set_rate(b.session, i, 1.0 / (1 + i));
        CHECK_OK(pdl_session_step(b.session, &batch, &result));
        *numbers++ = result.loss;
    }
    *replayed = pdl_session_replayed(b.session);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(pdl_session_evaluate(b.session, &batch, &result));
        *numbers++ = result.loss;
    }
    *numbers = sum_weights(b.session);
    close_bench(&b);
}

static void replayed_steps_have_the_bits_of_launches(void)
{
    static const int chosen[] = {0, 2};
    double           numbers[2][STEPS + 4];
    int64_t          replayed;

    for (int k = 0; k < 2; k++) {
        fill_batch(networks[chosen[k]].classes);
        for (int way = 0; way < 2; way++) {
            launches = way == 1;
            collect(&networks[chosen[k]], numbers[way], &replayed);
            CHECK_INT(replayed, launches ? 0 : STEPS - 2);
        }
        launches = false;
        for (int i = 0; i < STEPS + 4; i++) CHECK(numbers[0][i] == numbers[1][i]);
        CHECK(numbers[0][STEPS] == numbers[0][STEPS + 2] && numbers[0][0] != numbers[0][STEPS - 1]);
    }
}

static size_t free_bytes(const bench_t *b)
{
    size_t left = 0, all;

    CHECK_OK(b->backend->device->ops->memory(b->backend->device, &left, &all));
    return left;
}

/* To the byte in the emulation; a real GPU gives memory in large pieces. */
static void memory_is_what_is_said(void)
{
    const network_t     *network = &networks[2];
    pdl_session_memory_t memory;
    pdl_session_spec_t   spec;
    double               loss[STEPS];
    bench_t              b;
    size_t               before, after;

    fill_batch(network->classes);
    REQUIRE_OK(open_bench(&b, network, true, PDL_DTYPE_BF16));
    pdl_session_destroy(b.session);
    spec = spec_of(&b, network);
    before = free_bytes(&b);
    REQUIRE_OK(pdl_session_create(&spec, &b.session));
    run_steps(&b, 3, loss); /* the third is captured, which takes memory of a real GPU */
    after = free_bytes(&b);
    run_steps(&b, 2, loss);
    CHECK_INT((int64_t)free_bytes(&b), (int64_t)after);
    pdl_session_memory(b.session, &memory);
    if (!real) CHECK_INT((int64_t)(before - after), (int64_t)memory.total);
    close_bench(&b);
}

int main(int count, char **arguments)
{
    argument_count = count;
    argument = arguments;
    real = count > 1;
    RUN(networks_learn_as_on_the_cpu);
    RUN(networks_learn_in_bf16);
    RUN(runs_of_the_cpu_go_on);
    RUN(labels_that_are_no_class_are_refused);
    RUN(replayed_steps_have_the_bits_of_launches);
    RUN(memory_is_what_is_said);
    return test_done();
}
