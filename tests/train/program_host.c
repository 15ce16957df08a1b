/*
 * Under mpirun: state and weights on the hosts of several ranks, or state on their disks. Gradients are summed and weights updated bucket by bucket during
 * backward, and all bits are those of the same plan with everything on the devices: on the CPU, on the guard device and on a GPU that
 * the ranks share, emulated (`all`: in all settings) or with `--device N` a real one. A rank holds what a dry session says of it, to the byte.
 */
#include "train/exec/session.h"

#define STEPS 10
#define BATCH 6
#define ROOM  4096
#include "batch_fixture.h"
#include "devices_fixture.h"
#include "dry_check.h"

typedef struct setting {
    const char    *model;
    pdl_method_t   method;
    pdl_sharding_t sharding;
    pdl_tier_t     state, weights;
    double         clip, ema;
    int            micro_batches;
    bool           swaps; /* activations too */
} setting_t;

static const setting_t settings[] = {
    {"resnet-tiny", PDL_METHOD_SGD, PDL_SHARDING_NONE, PDL_TIER_HOST, PDL_TIER_HOST, 0, 0, 1, false},
    {"language", PDL_METHOD_ADAMW, PDL_SHARDING_ZERO3, PDL_TIER_DISK, PDL_TIER_HOST, 0, 0, 1, false},
    {"unet-small", PDL_METHOD_ADAMW, PDL_SHARDING_NONE, PDL_TIER_HOST, PDL_TIER_HOST, 0, 0.9, 1, true},
    {"language", PDL_METHOD_ADAMW, PDL_SHARDING_ZERO2, PDL_TIER_DISK, PDL_TIER_DEVICE, 0, 0, 1, true},
    {"resnet-tiny", PDL_METHOD_ADAMW, PDL_SHARDING_ZERO1, PDL_TIER_HOST, PDL_TIER_DEVICE, 0, 0.9, 1, false},
    {"resnet-tiny", PDL_METHOD_SGD, PDL_SHARDING_ZERO3, PDL_TIER_HOST, PDL_TIER_HOST, 0, 0, 1, true},
    {"language", PDL_METHOD_ADAMW, PDL_SHARDING_NONE, PDL_TIER_DISK, PDL_TIER_HOST, 0, 0, 2, false},
    {"language", PDL_METHOD_ADAMW, PDL_SHARDING_ZERO3, PDL_TIER_HOST, PDL_TIER_HOST, 0.5, 0, 2, false},
    {"unet-small", PDL_METHOD_SGD, PDL_SHARDING_ZERO2, PDL_TIER_HOST, PDL_TIER_DEVICE, 0, 0, 2, false},
};
#define SETTINGS ((int)(sizeof(settings) / sizeof(*settings)))

static pdl_ranks_t *ranks;

typedef struct outcome {
    double loss[STEPS + 1]; /* the last of them of an evaluation, with averaged weights where there are such */
    double weights, moments;
    pdl_session_memory_t memory;
} outcome_t;

static pdl_model_t *load(const char *name)
{
    const char  *source = getenv("SOURCE");
    char         path[1024];
    pdl_model_t *model = NULL;

    if (strcmp(name, "resnet-tiny") == 0)
        snprintf(path, sizeof(path), "%s", name);
    else
        snprintf(path, sizeof(path), "%s/tests/train/models/%s.yaml", source != NULL ? source : ".", name);
    REQUIRE_OK(pdl_model_load(path, &model));
    return model;
}

static pdl_plan_t *make_plan(const pdl_model_t *model, const setting_t *setting, bool bf16)
{
    pdl_plan_t *plan = NULL;
    int         last = pdl_model_layer_count(model) - 1;

    REQUIRE_OK(pdl_plan_create(model, &(pdl_mesh_t){{{PDL_AXIS_DATA, pdl_ranks_size(ranks), 0}}, 1}, BATCH, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    plan->optimizer = setting->method == PDL_METHOD_ADAMW ? PDL_OPTIMIZER_ADAM : PDL_OPTIMIZER_MOMENTUM;
    plan->sharding = setting->sharding;
    plan->micro_batches = setting->micro_batches;
    if (BATCH / pdl_ranks_size(ranks) % plan->micro_batches != 0) plan->micro_batches = 1;
    if (bf16) plan->precision = PDL_BF16;
    if (setting->swaps)
        CHECK_OK(pdl_plan_set_blocks(plan,
                                     (pdl_plan_block_t[]){{.last = 5, .policy = PDL_MEMORY_SWAP, .prefetch = 1},
                                                          {.last = 9, .policy = PDL_MEMORY_RECOMPUTE},
                                                          {.last = last, .policy = PDL_MEMORY_KEEP}},
                                     3));
    return plan;
}

/* Whether an update is made before the gradients of the first layers are. */
static bool updates_early(const pdl_program_t *program)
{
    int first = program->op_count, last = -1;

    for (int i = 0; i < program->op_count; i++) {
        pdl_op_kind_t kind = program->op[i].kind;
        if (kind == PDL_OP_UPDATE && i < first) first = i;
        if (kind == PDL_OP_BACKWARD || kind == PDL_OP_WGRAD) last = i;
    }
    return first < last;
}

static void check_program_of(const setting_t *setting, const pdl_plan_t *plan, const pdl_session_t *session)
{
    bool passes = plan->optimizer_tier != PDL_TIER_DEVICE;

    CHECK(updates_early(pdl_session_program(session)) == (passes && setting->clip == 0));
    if (passes && setting->clip == 0 && plan->micro_batches == 1)
        CHECK(session->weights.array[PDL_ARRAY_GRADIENT] == NULL);
}

/* What a checkpoint does with moments: they are got and set where they are. */
static void set_moments_again(pdl_session_t *session)
{
    for (int i = 0; i < pdl_session_tensor_count(session); i++) {
        float *plain = malloc((size_t)pdl_session_tensor(session, i)->elements * sizeof(*plain));
        if (pdl_session_has(session, i, PDL_ARRAY_MOMENT1)) {
            CHECK_OK(pdl_session_get(session, i, PDL_ARRAY_MOMENT1, plain));
            CHECK_OK(pdl_session_set(session, i, PDL_ARRAY_MOMENT1, plain));
        }
        free(plain);
    }
}

static outcome_t train(const setting_t *setting, const pdl_plan_t *plan, device_t device, int steps)
{
    outcome_t             outcome = {0};
    pdl_backend_t        *backend = backend_of(device);
    pdl_session_t        *session = NULL;
    pdl_session_spec_t    spec;
    pdl_session_traffic_t traffic;
    pdl_step_result_t     result = {0};
    size_t                held = pdl_memory_held();
    double                before[PDL_SENT_KINDS];

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.bucket_bytes = on_real_gpu() ? 50000 : 20000; /* ranks that share a GPU wait for each other at each */
    spec.transport = device == EAGER ? PDL_TRANSPORT_IPC : device == LAZY ? PDL_TRANSPORT_HOST : PDL_TRANSPORT_AUTO;
    spec.optimizer.method = setting->method;
    spec.optimizer.momentum = 0.9;
    spec.optimizer.clip_norm = setting->clip;
    spec.optimizer.ema = setting->ema;
    spec.optimizer.weight_decay = 0.01;
    spec.optimizer.lr = 1e-3;
    CHECK_OK(pdl_plan_check(plan));
    REQUIRE_OK(pdl_session_create(&spec, &session));
    bool exact = device == CPU && setting->ema == 0; /* a plan knows of no averages */
    if (exact) CHECK_OK(check_dry(&spec, session, pdl_memory_held() - held, &traffic));
    for (int k = 0; k < PDL_SENT_KINDS; k++) before[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k);
    check_program_of(setting, plan, session);
    pdl_batch_t batch = part_of_batch(plan, session);
    for (int i = 0; i < steps; i++) {
        CHECK_OK(pdl_session_step(session, &batch, &result));
        outcome.loss[i] = result.loss;
        if (i == 1 && device == CPU) set_moments_again(session);
    }
    if (exact) CHECK_OK(check_sent(session, ranks, before, steps, &traffic));
    outcome.weights = sum_weights(session);
    outcome.moments = sum_array(session, PDL_ARRAY_MOMENT1);
    CHECK_OK(pdl_session_swap_ema(session));
    CHECK_OK(pdl_session_evaluate(session, &batch, &result));
    outcome.loss[STEPS] = result.loss;
    pdl_session_memory(session, &outcome.memory);
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
    return outcome;
}

static void compare(device_t device, int first, int last, int steps)
{
    for (int i = first; i < last; i++) {
        pdl_model_t *model = load(settings[i].model);
        pdl_plan_t  *plan = make_plan(model, &settings[i], device == GPU_BF16);
        outcome_t    kept = train(&settings[i], plan, device, steps);
        plan->optimizer_tier = settings[i].state;
        plan->weights_tier = settings[i].weights;
        /* GPUs round otherwise than processors; for the guard device test_host_weights.c has it. */
        if (plan->optimizer_tier == PDL_TIER_HOST && plan->weights_tier == PDL_TIER_HOST && device == CPU)
            plan->update_tier = PDL_TIER_HOST;
        outcome_t passing = train(&settings[i], plan, device, steps);
        CHECK(memcmp(kept.loss, passing.loss, sizeof(kept.loss)) == 0 && kept.loss[0] != kept.loss[STEPS]);
        CHECK(kept.weights == passing.weights && kept.moments == passing.moments && kept.moments != 0);
        CHECK(passing.memory.optimizer == 0 && passing.memory.host > kept.memory.host);
        if (argument_count > 1 && pdl_ranks_rank(ranks) == 0) printf("device %d, setting %d\n", (int)device, i);
        fflush(stdout);
        if (memcmp(kept.loss, passing.loss, sizeof(kept.loss)) != 0 || kept.weights != passing.weights)
            printf("device %d, setting %d: loss %.9g, from the host %.9g\n", (int)device, i, kept.loss[STEPS],
                   passing.loss[STEPS]);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

static void bits_are_those_of_plans_in_core(void)
{
    compare(CPU, 0, SETTINGS, STEPS);
}

static void streams_wait_for_what_they_need(void)
{
    compare(pdl_ranks_size(ranks) == 2 ? LAZY : EAGER, 0, SETTINGS, 1);
}

static void ranks_share_a_gpu(void)
{
    bool real = on_real_gpu();

    bool all = argument_count > 1;
    int  first = all ? 0 : 1, last = all ? SETTINGS : 2, steps = real ? STEPS : 1;

    if (all || pdl_ranks_size(ranks) == 2) compare(GPU_F32, first, last, steps);
    if (all || pdl_ranks_size(ranks) == 3) compare(GPU_BF16, first, last, steps);
}

int main(int count, char **arguments)
{
    argument_count = count;
    argument = arguments;
    if (pdl_ranks_create(&ranks)) return 1;
    fill_batch(2);
    if (count == 1) RUN(bits_are_those_of_plans_in_core);
    if (count == 1) RUN(streams_wait_for_what_they_need);
    RUN(ranks_share_a_gpu);
    printf("%d ranks\n", pdl_ranks_size(ranks));
    pdl_ranks_destroy(ranks);
    return test_done();
}
