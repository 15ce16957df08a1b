/*
 * Weights on the host give the bits of weights on the device: on the CPU, on the guard device, whose memory the host cannot
 * touch and whose streams know no order but that of events, and on a GPU, emulated or with `--device N` a real one. A device
 * holds what is said before, to the byte, and less than with its weights. So does state on disk.
 */
#include "train/exec/session.h"

#define STEPS 10
#define BATCH 4
#define ROOM  4096
#include "batch_fixture.h"
#include "devices_fixture.h"

typedef struct setting {
    const char  *model;
    pdl_method_t method;
    double       momentum, clip, ema;
    int          micro_batches;
    bool         swaps; /* activations too */
} setting_t;

#define LANGUAGE PDL_TEST_SOURCE "/tests/train/models/language.yaml"

static const setting_t settings[] = {
    {"resnet-tiny", PDL_METHOD_SGD, 0.9, 0, 0, 1, true},    {LANGUAGE, PDL_METHOD_ADAMW, 0, 0, 0, 1, false},
    {"lenet", PDL_METHOD_SGD, 0, 0, 0, 1, false}, /* no state at all */
    {LANGUAGE, PDL_METHOD_ADAMW, 0, 1, 0.9, 1, true},       {"lenet", PDL_METHOD_ADAMW, 0, 0, 0.5, 2, false},
    {"resnet-tiny", PDL_METHOD_ADAMW, 0, 0.5, 0, 2, false},
};
#define SETTINGS ((int)(sizeof(settings) / sizeof(*settings)))

typedef struct outcome {
    double loss[STEPS + 1]; /* the last of them of an evaluation, with averaged weights where there are such */
    double sum[PDL_ARRAY_COUNT];
    size_t held;
} outcome_t;

/* A machine with a GPU may not have the files of the tests. */
static const char *model_of(const setting_t *setting)
{
    return on_real_gpu() && strcmp(setting->model, LANGUAGE) == 0 ? "gpt-char-small" : setting->model;
}

static pdl_tier_t updates = PDL_TIER_DEVICE; /* who updates weights that are on the host */
static size_t     held;                      /* of the device */

static pdl_status_t (*alloc)(pdl_tensor_device_t *device, pdl_space_t space, size_t bytes, void **memory);

static pdl_status_t count_bytes(pdl_tensor_device_t *device, pdl_space_t space, size_t bytes, void **memory)
{
    if (space == PDL_SPACE_DEVICE) held += bytes;
    return alloc(device, space, bytes, memory);
}

/* Events that were recorded in the stream that copies in, each once. */
static const pdl_tensor_event_t *recorded[512];
static int                       recorded_count;
static const pdl_session_t      *watched;

static pdl_status_t (*record)(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event);

static pdl_status_t note_event(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    bool known = watched == NULL || stream != watched->executor.stream[PDL_STREAM_COPY_IN];

    for (int i = 0; i < recorded_count && !known; i++) known = recorded[i] == event;
    if (!known && recorded_count < 512) recorded[recorded_count++] = event;
    return record(device, stream, event);
}

static int count_copies_in(const pdl_program_t *program)
{
    int count = 0;

    for (int i = 0; i < program->op_count; i++) count += program->op[i].kind == PDL_OP_COPY_IN;
    return count;
}

static pdl_session_spec_t spec_of(const setting_t *setting, const pdl_plan_t *plan, pdl_backend_t *backend,
                                  pdl_ranks_t *ranks)
{
    pdl_session_spec_t spec;

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.optimizer.method = setting->method;
    spec.optimizer.momentum = setting->momentum;
    spec.optimizer.clip_norm = setting->clip;
    spec.optimizer.ema = setting->ema;
    spec.optimizer.weight_decay = 0.01;
    spec.optimizer.lr = 1e-3;
    return spec;
}

static void execute(pdl_session_t *session, const pdl_plan_t *plan, int steps, outcome_t *outcome)
{
    pdl_batch_t       batch = part_of_batch(plan, session);
    pdl_step_result_t result = {0};

    for (int i = 0; i < steps; i++) {
        CHECK_OK(pdl_session_step(session, &batch, &result));
        outcome->loss[i] = result.loss;
    }
    for (int a = 0; a < PDL_ARRAY_COUNT; a++)
        if (a != PDL_ARRAY_GRADIENT) outcome->sum[a] = sum_array(session, (pdl_session_array_t)a);
    CHECK_OK(pdl_session_swap_ema(session));
    CHECK_OK(pdl_session_evaluate(session, &batch, &result));
    outcome->loss[STEPS] = result.loss;
}

/* Gradients go to the host, where pieces are updated; no state comes to the device. */
static void check_host_updates(const pdl_program_t *program)
{
    int updates_there = 0, gradients = 0;

    for (int i = 0; i < program->op_count; i++) {
        const pdl_program_op_t *op = &program->op[i];
        updates_there += op->kind == PDL_OP_UPDATE && op->stream == PDL_STREAM_HOST;
        gradients += op->kind == PDL_OP_COPY_OUT && op->piece >= 0;
        CHECK(op->kind != PDL_OP_COPY_IN || op->piece < 0);
    }
    CHECK_INT(updates_there, program->piece_count);
    CHECK_INT(gradients, program->piece_count);
}

static outcome_t train(const setting_t *setting, device_t device, pdl_tier_t optimizer, pdl_tier_t weights,
                       int steps)
{
    outcome_t               outcome = {0};
    pdl_model_t            *model = NULL;
    pdl_plan_t             *plan = NULL;
    pdl_ranks_t            *ranks = NULL;
    pdl_session_t          *session = NULL;
    pdl_backend_t          *backend = backend_of(device);
    const pdl_device_ops_t *ops = backend->device->ops;
    pdl_device_ops_t        counting = *ops;
    pdl_session_memory_t    memory;

    alloc = counting.alloc;
    counting.alloc = count_bytes;
    record = counting.record;
    counting.record = note_event;
    backend->device->ops = &counting;
    REQUIRE_OK(pdl_model_load(model_of(setting), &model));
    REQUIRE_OK(pdl_plan_create(model, &(pdl_mesh_t){.axis_count = 0}, BATCH, &plan));
    REQUIRE_OK(pdl_ranks_create(&ranks));
    plan->micro_batches = setting->micro_batches;
    plan->optimizer_tier = optimizer;
    plan->weights_tier = weights;
    if (weights == PDL_TIER_HOST) plan->update_tier = updates;
    if (device == GPU_BF16) plan->precision = PDL_BF16;
    if (setting->swaps)
        CHECK_OK(pdl_plan_set_blocks(plan,
                                     (pdl_plan_block_t[]){{.last = 5, .policy = PDL_MEMORY_SWAP, .prefetch = 1},
                                                          {.last = 9, .policy = PDL_MEMORY_RECOMPUTE},
                                                          {.last = pdl_model_layer_count(model) - 1,
                                                           .policy = PDL_MEMORY_KEEP}},
                                     3));
    CHECK_OK(pdl_plan_check(plan));
    pdl_session_spec_t spec = spec_of(setting, plan, backend, ranks);
    held = 0;
    REQUIRE_OK(pdl_session_create(&spec, &session));
    outcome.held = held;
    pdl_session_memory(session, &memory);
    CHECK_INT((int64_t)memory.total, (int64_t)held);
    if (plan->update_tier == PDL_TIER_HOST) check_host_updates(session->program);
    watched = session;
    recorded_count = 0;
    execute(session, plan, steps, &outcome);
    /* Whoever waits for a copy does not wait for those behind it. */
    CHECK(recorded_count >= count_copies_in(session->program));
    watched = NULL;
    CHECK_INT((int64_t)held, (int64_t)outcome.held); /* no step takes any */
    pdl_session_destroy(session);
    pdl_ranks_destroy(ranks);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
    backend->device->ops = ops; /* the CPU has one for all */
    pdl_backend_destroy(backend);
    return outcome;
}

/* With weights and state on these tiers. */
static void compare_tiers(device_t device, pdl_tier_t optimizer, pdl_tier_t weights, int first, int last, int steps)
{
    for (int i = first; i < last; i++) {
        if (optimizer == PDL_TIER_DISK && settings[i].ema > 0) continue; /* averages are not on disk */
        outcome_t kept = train(&settings[i], device, PDL_TIER_DEVICE, PDL_TIER_DEVICE, steps);
        outcome_t passing = train(&settings[i], device, optimizer, weights, steps);
        CHECK(memcmp(kept.loss, passing.loss, sizeof(kept.loss)) == 0 && kept.loss[0] != kept.loss[steps - 1]);
        CHECK(memcmp(kept.sum, passing.sum, sizeof(kept.sum)) == 0);
        if (i == 4) CHECK(passing.held < kept.held);
        if (memcmp(kept.loss, passing.loss, sizeof(kept.loss)) != 0)
            printf("device %d, setting %d: loss %.9g, with weights on the host %.9g\n", (int)device, i,
                   kept.loss[steps - 1], passing.loss[steps - 1]);
    }
}

/* With state on the host. */
static void compare(device_t device, pdl_tier_t weights, int first, int last, int steps)
{
    compare_tiers(device, PDL_TIER_HOST, weights, first, last, steps);
}

static void bits_are_those_of_weights_on_the_device(void)
{
    fill_batch(2);
    compare(CPU, PDL_TIER_HOST, 0, SETTINGS, STEPS);
}

static void processors_of_the_host_update_what_is_there(void)
{
    fill_batch(2);
    updates = PDL_TIER_HOST;
    compare(CPU, PDL_TIER_HOST, 0, SETTINGS, 3);
    compare(EAGER, PDL_TIER_HOST, 3, 5, 2);
    compare(LAZY, PDL_TIER_HOST, 0, 2, 2);
    updates = PDL_TIER_DEVICE;
}

static void streams_wait_for_what_they_need(void)
{
    fill_batch(2);
    compare(EAGER, PDL_TIER_DEVICE, 0, SETTINGS, 2);
    compare(LAZY, PDL_TIER_HOST, 0, SETTINGS, 2);
}

static void gpus_have_the_same_bits(void)
{
    bool real = on_real_gpu();
    int  first = real ? 0 : 1, last = real ? SETTINGS : 3, steps = real ? STEPS : 2;

    fill_batch(2);
    compare(GPU_F32, PDL_TIER_HOST, first, last, steps);
    compare(GPU_BF16, PDL_TIER_DEVICE, first, last, steps);
    compare(GPU_BF16, PDL_TIER_HOST, first, last, steps);
    compare_tiers(GPU_BF16, PDL_TIER_DISK, PDL_TIER_DEVICE, first, real ? last : first + 1, steps);
    if (real) compare_tiers(GPU_BF16, PDL_TIER_DISK, PDL_TIER_HOST, first, last, steps);
    /* Processors and GPU make the same update of an element (tensor/steps.h). */
    updates = PDL_TIER_HOST;
    compare(GPU_F32, PDL_TIER_HOST, first, real ? last : first + 1, steps);
    compare(GPU_BF16, PDL_TIER_HOST, first, last, steps);
    updates = PDL_TIER_DEVICE;
}

int main(int count, char **arguments)
{
    argument_count = count;
    argument = arguments;
    RUN(bits_are_those_of_weights_on_the_device);
    RUN(processors_of_the_host_update_what_is_there);
    RUN(streams_wait_for_what_they_need);
    RUN(gpus_have_the_same_bits);
    return test_done();
}
