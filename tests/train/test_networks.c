/*
 * Whole networks: ten steps of training give the losses and the weights that an independent implementation got
 * (PyTorch in double precision; tests/reference/make_networks.py). Weights and data come from the formulas of
 * tests/reference/README.md.
 */
#include "tensor/op_value.h"
#include "test.h"

#include <paradl/train/session.h>
#include <stdlib.h>

#define STEPS           10
#define REFERENCE_STEPS 3
#define SAMPLES         8
#define BATCHES         2
#define MAX_TENSORS     160

typedef struct tensor_sums {
    char   name[64];
    double sum, squares;
} tensor_sums_t;

/* What is stored about one network. */
typedef struct stored {
    double        loss[STEPS];
    tensor_sums_t tensors[MAX_TENSORS];
    int           tensor_count;
} stored_t;

typedef struct network {
    const char *name;  /* in networks.txt */
    const char *model; /* a file of tests/reference, or a built-in name */
    double      lr, decay;
    bool        adam; /* with epsilon 1e-6; otherwise SGD with momentum 0.9 */
    double      loss_tolerance, weight_tolerance;
} network_t;

typedef struct bench {
    pdl_model_t   *model;
    pdl_plan_t    *plan;
    pdl_backend_t *backend;
    pdl_ranks_t   *ranks;
    pdl_session_t *session;
    float         *values, *numbers;
    int32_t       *tokens, *labels;
    float          weight[SAMPLES];
} bench_t;

static void read_line(const char *line, stored_t *stored)
{
    tensor_sums_t *tensor = &stored->tensors[stored->tensor_count];
    char          *at;

    if (strncmp(line, "float64 ", strlen("float64 ")) == 0) {
        at = (char *)line + strlen("float64 ");
        for (int i = 0; i < STEPS; i++) stored->loss[i] = strtod(at, &at);
    }
    if (strncmp(line, "tensor ", strlen("tensor ")) != 0 || stored->tensor_count == MAX_TENSORS) return;
    if (sscanf(line, "tensor %63s %lf %lf", tensor->name, &tensor->sum, &tensor->squares) == 3)
        stored->tensor_count++;
}

static bool read_stored(const char *name, stored_t *stored)
{
    FILE *file = fopen(PDL_TEST_SOURCE "/tests/reference/networks.txt", "r");
    char  line[512], head[64];
    bool  inside = false;

    *stored = (stored_t){.tensor_count = 0};
    if (file == NULL) return false;
    snprintf(head, sizeof(head), "network %s\n", name);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "network ", strlen("network ")) == 0)
            inside = strcmp(line, head) == 0;
        else if (inside)
            read_line(line, stored);
    }
    fclose(file);
    return stored->tensor_count > 0;
}

/* FNV-1a. */
static uint32_t name_hash(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static double named_value(uint32_t hash, int64_t i)
{
    return op_value(0, 0, (int64_t)(hash + (uint32_t)i));
}

static bool ends(const char *name, const char *end)
{
    size_t length = strlen(name), part = strlen(end);

    return length >= part && strcmp(name + length - part, end) == 0;
}

static double weight_value(const pdl_session_tensor_t *tensor, uint32_t hash, int64_t i)
{
    double u = named_value(hash, i), fan_in = (double)tensor->elements / (double)tensor->dims[0];
    bool   table = strcmp(tensor->name, "wte.weight") == 0 || strcmp(tensor->name, "wpe.weight") == 0;

    if (ends(tensor->name, ".running_mean")) return 0;
    if (ends(tensor->name, ".running_var")) return 1;
    if (tensor->rank == 1) return ends(tensor->name, ".weight") ? 1 + 0.1 * u : 0.05 * u;
    return u * (table ? 0.05 : sqrt(6 / fan_in));
}

static void set_weights(bench_t *b)
{
    for (int t = 0; t < pdl_session_tensor_count(b->session); t++) {
        const pdl_session_tensor_t *tensor = pdl_session_tensor(b->session, t);
        float                      *plain = malloc((size_t)tensor->elements * sizeof(*plain));
        uint32_t                    hash = name_hash(tensor->name);

        if (plain == NULL) abort();
        for (int64_t i = 0; i < tensor->elements; i++) plain[i] = (float)weight_value(tensor, hash, i);
        CHECK_OK(pdl_session_set(b->session, t, PDL_ARRAY_WEIGHT, plain));
        free(plain);
    }
}

static void open_bench(bench_t *b, const network_t *network, bool reference)
{
    pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_cpu_options_t  cpu = {.threads = 2};
    pdl_session_spec_t spec;
    pdl_shape_t        input;
    size_t             elements;

    *b = (bench_t){.model = NULL};
    REQUIRE_OK(pdl_model_load(network->model, &b->model));
    REQUIRE_OK(pdl_plan_create(b->model, &mesh, SAMPLES, &b->plan));
    CHECK_OK(pdl_plan_apply_preset(b->plan, "data", NULL));
    CHECK_OK(reference ? pdl_backend_create_reference(&b->backend) : pdl_backend_create_cpu(&cpu, &b->backend));
    REQUIRE_OK(pdl_ranks_create(&b->ranks));
    pdl_session_defaults(&spec);
    spec.plan = b->plan;
    spec.backend = b->backend;
    spec.ranks = b->ranks;
    spec.optimizer.method = network->adam ? PDL_METHOD_ADAMW : PDL_METHOD_SGD;
    spec.optimizer.lr = network->lr;
    spec.optimizer.weight_decay = network->decay;
    spec.optimizer.epsilon = 1e-6;
    REQUIRE_OK(pdl_session_create(&spec, &b->session));
    set_weights(b);
    input = pdl_model_input(b->model);
    elements = (size_t)pdl_shape_elements(&input) * SAMPLES;
    b->values = calloc(elements, sizeof(*b->values));
    b->tokens = calloc(elements, sizeof(*b->tokens));
    b->labels = calloc(elements, sizeof(*b->labels));
    b->numbers = calloc(elements, sizeof(*b->numbers));
    if (!b->values || !b->tokens || !b->labels || !b->numbers) abort();
    for (int i = 0; i < SAMPLES; i++) b->weight[i] = 1;
}

static void close_bench(bench_t *b)
{
    free(b->values);
    free(b->tokens);
    free(b->labels);
    free(b->numbers);
    pdl_session_destroy(b->session);
    pdl_backend_destroy(b->backend);
    pdl_ranks_destroy(b->ranks);
    pdl_plan_destroy(b->plan);
    pdl_model_destroy(b->model);
}

static int32_t named_class(uint32_t hash, int64_t i, int64_t limit)
{
    return (int32_t)((named_value(hash, i) + 1) / 2 * (double)limit);
}

/* Inputs "input.STEP", labels or numbers "target.STEP". */
static pdl_batch_t make_batch(bench_t *b, int step)
{
    const pdl_layer_t *loss = pdl_model_layer(b->model, pdl_model_layer_count(b->model) - 1);
    pdl_shape_t        input = pdl_model_input(b->model);
    int64_t            vocabulary = pdl_model_layer(b->model, 0)->vocabulary;
    int64_t            elements = pdl_shape_elements(&input) * SAMPLES;
    char               name[32];
    uint32_t           hash;

    snprintf(name, sizeof(name), "input.%d", step % BATCHES);
    hash = name_hash(name);
    for (int64_t i = 0; i < elements; i++) {
        b->values[i] = (float)named_value(hash, i);
        b->tokens[i] = named_class(hash, i, vocabulary);
    }
    snprintf(name, sizeof(name), "target.%d", step % BATCHES);
    hash = name_hash(name);
    for (int64_t i = 0; i < SAMPLES * pdl_shape_positions(&loss->in); i++)
        b->labels[i] = named_class(hash, i, loss->in.channels);
    for (int64_t i = 0; i < SAMPLES * pdl_shape_elements(&loss->in) && i < elements; i++)
        b->numbers[i] = (float)named_value(hash, i);
    return (pdl_batch_t){.values = vocabulary ? NULL : b->values,
                         .tokens = vocabulary ? b->tokens : NULL,
                         .labels = b->labels,
                         .numbers = b->numbers,
                         .weight = b->weight};
}

/* A sum is compared on the scale that it could have: sqrt(elements * squares). */
static void check_tensor(bench_t *b, const network_t *network, const tensor_sums_t *stored, double bound)
{
    int                         t = pdl_session_find(b->session, stored->name);
    const pdl_session_tensor_t *tensor = t >= 0 ? pdl_session_tensor(b->session, t) : NULL;
    float                      *plain = tensor ? malloc((size_t)tensor->elements * sizeof(*plain)) : NULL;
    double                      sum = 0, squares = 0, off_sum, off_squares;

    if (plain == NULL) {
        test_fail_at(__FILE__, __LINE__);
        printf("%s has no %s\n", network->name, stored->name);
        return;
    }
    CHECK_OK(pdl_session_get(b->session, t, PDL_ARRAY_WEIGHT, plain));
    for (int64_t i = 0; i < tensor->elements; i++) {
        sum += (double)plain[i];
        squares += (double)plain[i] * (double)plain[i];
    }
    off_sum = fabs(sum - stored->sum) / sqrt((double)tensor->elements * stored->squares);
    off_squares = fabs(squares - stored->squares) / stored->squares;
    if (!(off_sum <= bound) || !(off_squares <= bound)) {
        test_fail_at(__FILE__, __LINE__);
        printf("%s: %s has sum %.9g and squares %.9g, expected %.9g and %.9g (off by %.1g and %.1g)\n",
               network->name, stored->name, sum, squares, stored->sum, stored->squares, off_sum, off_squares);
    }
    free(plain);
}

/* The reference is slow: it takes a few steps only, and its weights are not looked at. */
static void check_network(const network_t *network, bool reference)
{
    double   bound = reference ? 1e-6 : network->loss_tolerance, worst = 0;
    int      steps = reference ? REFERENCE_STEPS : STEPS;
    stored_t stored;
    bench_t  b;

    CHECK(read_stored(network->name, &stored));
    open_bench(&b, network, reference);
    for (int step = 0; step < steps && b.session; step++) {
        pdl_batch_t       batch = make_batch(&b, step);
        pdl_step_result_t result = {.loss = 0};

        CHECK_OK(pdl_session_step(b.session, &batch, &result));
        CHECK_NEAR(result.loss, stored.loss[step], bound);
        worst = fmax(worst, fabs(result.loss / stored.loss[step] - 1));
    }
    printf("     %s, %s: losses within %.1e\n", network->name, reference ? "reference" : "cpu", worst);
    for (int i = 0; i < stored.tensor_count && b.session && !reference; i++)
        check_tensor(&b, network, &stored.tensors[i], network->weight_tolerance);
    close_bench(&b);
}

#define FOLDER PDL_TEST_SOURCE "/tests/reference/"

static const network_t resnet18 = {.name = "resnet18-cifar",
                                   .model = "resnet18-cifar",
                                   .lr = 0.00005,
                                   .decay = 5e-4,
                                   .loss_tolerance = 1e-4,
                                   .weight_tolerance = 1e-4};
static const network_t gpt = {.name = "gpt",
                              .model = FOLDER "gpt.yaml",
                              .lr = 1e-3,
                              .decay = 0.1,
                              .adam = true,
                              .loss_tolerance = 1e-5,
                              .weight_tolerance = 1e-4};
static const network_t cosmoflow = {.name = "cosmoflow-32",
                                    .model = FOLDER "cosmoflow-32.yaml",
                                    .lr = 0.01,
                                    .decay = 5e-4,
                                    .loss_tolerance = 1e-5,
                                    .weight_tolerance = 1e-5};

static void ten_steps_of_a_residual_network(void)
{
    check_network(&resnet18, false);
}

static void ten_steps_of_a_transformer(void)
{
    check_network(&gpt, false);
}

static void a_transformer_in_double_precision(void)
{
    check_network(&gpt, true);
}

static void ten_steps_of_a_3d_network(void)
{
    check_network(&cosmoflow, false);
}

int main(void)
{
    RUN(ten_steps_of_a_residual_network);
    RUN(ten_steps_of_a_transformer);
    RUN(a_transformer_in_double_precision);
    RUN(ten_steps_of_a_3d_network);
    return test_done();
}
