/*
 * Under mpirun: training on the guard device, whose memory the host cannot touch and whose streams know no order but
 * that of events, has the bits of the CPU; and what is left out is noticed.
 *
 *     program_guard [quick | race | strategies]
 *
 * quick: eager streams, no mutations; race: eager streams that do not wait, for the thread sanitizer; strategies: all that
 * have a name, on any number of ranks. Otherwise there are two ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/exec/session.h"

#define STEPS 2
#define BATCH 8
#define ROOM  4096
#include "batch_fixture.h"
#include "comm/fake_library.h"

static pdl_ranks_t *ranks;
static bool         quick, race;
static int          steps = STEPS;

typedef struct setting {
    const char    *model, *preset;
    pdl_mesh_t     mesh;
    pdl_sharding_t sharding;
    int            micro_batches;
    bool           mutated; /* without waits the numbers are others */
    bool           shares;  /* statistics of batch norm */
    bool           swaps;   /* blocks with all memory policies */
} setting_t;

static const setting_t settings[] = {
    {"lenet", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, true, false, false},
    {"gpt-char-small", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_NONE, 2, false, false, false},
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_ZERO3, 1, false, false, false},
    {"lenet", "pipeline", {{{PDL_AXIS_PIPELINE, 2, 0}}, 1}, PDL_SHARDING_NONE, 2, true, false, false},
    {"gpt-char-small", "pipeline", {{{PDL_AXIS_PIPELINE, 2, 0}}, 1}, PDL_SHARDING_NONE, 2, false, false, false},
    {"resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, true, false, false},
    {"lenet", "filter", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, false, false, false},
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, false, true, false},
    {"gpt-char-small", "tensor", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, false, false, false},
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_NONE, 1, true, false, true},
    {"gpt-char-small", "data", {{{PDL_AXIS_DATA, 2, 0}}, 1}, PDL_SHARDING_ZERO2, 2, false, false, true},
};

typedef struct outcome {
    double loss[STEPS + 1]; /* the last of them of an evaluation */
    double sum;             /* of weights */
} outcome_t;

typedef enum device { CPU, EAGER, LAZY, MUTATED, RACE } device_t;

/* A device on which nobody waits for anybody. */
static pdl_status_t no_wait(pdl_tensor_device_t *device, pdl_tensor_stream_t *stream, pdl_tensor_event_t *event)
{
    (void)device, (void)stream, (void)event;
    return PDL_OK;
}

/* With a learning rate as low as this a mutation changes numbers, and none of them is infinite. */
static void train(const pdl_plan_t *plan, device_t device, pdl_transport_kind_t transport, outcome_t *outcome)
{
    pdl_cpu_options_t  cpu = {.threads = 1};
    pdl_backend_t     *backend = NULL;
    pdl_session_t     *session = NULL;
    pdl_session_spec_t spec;
    pdl_step_result_t  result;
    pdl_device_ops_t   mutated;

    memset(outcome, 0, sizeof(*outcome));
    REQUIRE_OK(device == CPU ? pdl_backend_create("cpu", &cpu, &backend)
                             : pdl_backend_create_guard(&cpu, device == LAZY || device == MUTATED, &backend));
    if (device >= MUTATED) {
        mutated = *backend->device->ops;
        mutated.wait = no_wait;
        backend->device->ops = &mutated;
    }
    if (transport == PDL_TRANSPORT_NCCL) {
        mutated = with_library(backend->device->ops);
        backend->device->ops = &mutated;
    }
    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.transport = device == CPU ? PDL_TRANSPORT_AUTO : transport;
    spec.optimizer.lr = 1e-3;
    spec.bucket_bytes = 50000;
    REQUIRE_OK(pdl_session_create(&spec, &session));
    if (!session) return;
    pdl_batch_t batch = part_of_batch(plan, session);
    for (int step = 0; step <= steps; step++) {
        pdl_status_t status = step < steps ? pdl_session_step(session, &batch, &result)
                                           : pdl_session_evaluate(session, &batch, &result);
        if (device < MUTATED) CHECK_OK(status);
        outcome->loss[step] = status ? -1 : result.loss;
        if (status) break;
    }
    outcome->sum = device < MUTATED ? sum_weights(session) : 0;
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
}

static bool same(const outcome_t *a, const outcome_t *b)
{
    return memcmp(a->loss, b->loss, sizeof(a->loss)) == 0 && a->sum == b->sum;
}

/* Every third layer ends a block. */
static void set_blocks(pdl_plan_t *plan)
{
    static const pdl_memory_policy_t policies[] = {PDL_MEMORY_SWAP,          PDL_MEMORY_RECOMPUTE,
                                                   PDL_MEMORY_SWAP_BOUNDARY, PDL_MEMORY_SWAP_CHEAP,
                                                   PDL_MEMORY_KEEP,          PDL_MEMORY_RECOMPUTE_CHEAP};
    pdl_plan_block_t                 blocks[64];
    int                              count = 0, last = pdl_model_layer_count(plan->model) - 1;

    for (int i = 2; i <= last; i += 3) {
        blocks[count] = (pdl_plan_block_t){.last = i, .policy = policies[count % 6]};
        if (pdl_memory_swaps(blocks[count].policy)) blocks[count].prefetch = 1 + count % 3;
        count++;
    }
    blocks[count - 1].last = last;
    REQUIRE_OK(pdl_plan_set_blocks(plan, blocks, count));
}

static void compare(const setting_t *setting)
{
    char         mesh[128];
    pdl_model_t *model = NULL;
    pdl_plan_t  *plan = NULL;
    outcome_t    cpu, guard;

    REQUIRE_OK(pdl_model_load(setting->model, &model));
    REQUIRE_OK(pdl_plan_create(model, &setting->mesh, BATCH, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, setting->preset, NULL));
    plan->sharding = setting->sharding;
    plan->micro_batches = setting->micro_batches;
    plan->sync_batch_norm = setting->shares;
    if (setting->swaps) set_blocks(plan);
    if (setting->swaps) plan->optimizer_tier = PDL_TIER_HOST;
    CHECK_OK(pdl_plan_check(plan));
    train(plan, race ? RACE : CPU, PDL_TRANSPORT_HOST, &cpu);
    if (pdl_ranks_rank(ranks) == 0)
        printf("%s %s: loss %.9g\n", setting->model, pdl_mesh_format(&setting->mesh, mesh, sizeof(mesh)),
               cpu.loss[STEPS]);
    for (device_t device = EAGER; !race && device <= (quick ? EAGER : LAZY); device++) {
        train(plan, device, device == EAGER ? PDL_TRANSPORT_IPC : PDL_TRANSPORT_HOST, &guard);
        CHECK(same(&cpu, &guard) && cpu.loss[0] > 0);
    }
    if (setting->mutated && !quick && !race) {
        train(plan, MUTATED, PDL_TRANSPORT_HOST, &guard);
        double differs = memcmp(cpu.loss, guard.loss, sizeof(cpu.loss)) != 0;
        CHECK_OK(pdl_ranks_sum(ranks, &differs, 1));
        CHECK(differs > 0);
    }
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static pdl_mesh_t mesh_of(const pdl_strategy_t *strategy, const pdl_strategy_mesh_t *at)
{
    pdl_axis_kind_t inner = pdl_strategy_has(strategy, PDL_AXIS_TENSOR) ? PDL_AXIS_TENSOR : PDL_AXIS_SPATIAL;
    pdl_axis_t      axes[] = {{PDL_AXIS_PIPELINE, at->pipeline, 0},
                              {PDL_AXIS_DATA, at->data, 0},
                              {PDL_AXIS_SPATIAL, pdl_strategy_splits_twice(strategy) ? at->context : 1, 0},
                              {inner, at->inner, 0}};
    pdl_mesh_t      mesh = {.axis_count = 0};

    for (int i = 0; i < 4; i++)
        if (axes[i].size > 1) mesh.axis[mesh.axis_count++] = axes[i];
    return mesh;
}

/* By a strategy on its first mesh of so many ranks, over all transports, NCCL being an imitation; false where it cannot be. */
static bool compare_strategy(const pdl_model_t *model, const pdl_strategy_t *strategy)
{
    pdl_strategy_mesh_t at = {0};
    pdl_plan_t         *plan = NULL;
    outcome_t           cpu, host, ipc, nccl;
    bool made = pdl_strategy_next_mesh(strategy, pdl_ranks_size(ranks), pdl_model_layer_count(model), &at);

    if (made) {
        pdl_mesh_t mesh = mesh_of(strategy, &at);
        made = pdl_mesh_size(&mesh) == pdl_ranks_size(ranks) && !pdl_plan_create(model, &mesh, BATCH, &plan) &&
               !pdl_plan_apply_preset(plan, strategy->name, NULL);
    }
    if (made && pdl_strategy_has(strategy, PDL_AXIS_PIPELINE)) plan->micro_batches = 2;
    made = made && !pdl_plan_check(plan);
    if (made) {
        train(plan, CPU, PDL_TRANSPORT_AUTO, &cpu);
        train(plan, EAGER, PDL_TRANSPORT_IPC, &ipc);
        train(plan, LAZY, PDL_TRANSPORT_HOST, &host);
        train(plan, EAGER, PDL_TRANSPORT_NCCL, &nccl);
        CHECK(same(&cpu, &ipc) && same(&cpu, &host) && same(&cpu, &nccl) && cpu.loss[0] > 0);
        if (pdl_ranks_rank(ranks) == 0)
            printf("%s %s: loss %.9g\n", pdl_model_name(model), strategy->name, cpu.loss[0]);
    }
    if (plan != NULL) pdl_plan_destroy(plan);
    return made;
}

/* One update each; images on an odd number of ranks, tokens on an even one. */
static void test_strategies(void)
{
    pdl_model_t *model = NULL;
    int          made = 0;

    fill_batch(2);
    steps = 1;
    REQUIRE_OK(pdl_model_load(pdl_ranks_size(ranks) % 2 ? "lenet" : "gpt-char-small", &model));
    for (int i = 0; pdl_strategy_at(i) != NULL; i++) made += compare_strategy(model, pdl_strategy_at(i));
    CHECK(made >= 4);
    pdl_model_destroy(model);
}

static void test_settings(void)
{
    fill_batch(2);
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) compare(&settings[i]);
}

int main(int argc, char **argv)
{
    quick = argc == 2 && strcmp(argv[1], "quick") == 0;
    race = argc == 2 && strcmp(argv[1], "race") == 0;
    bool named = argc == 2 && strcmp(argv[1], "strategies") == 0;
    if (argc > 2 || pdl_ranks_create(&ranks) || (pdl_ranks_size(ranks) != 2 && !named)) return 1;
    if (named)
        RUN(test_strategies);
    else
        RUN(test_settings);
    pdl_ranks_destroy(ranks);
    return test_done();
}
