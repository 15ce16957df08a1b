/*
 * Under mpirun: tensors in flight while something else is computed. Losses and weights have the bits of the same plan
 * with nothing overlapped, and something is overlapped.
 *
 *     program_overlap FOLDER      with the models of tests/train/models
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/exec/session.h"

#define STEPS 2
#define BATCH 4
#define ROOM  4096
#include "batch_fixture.h"

static pdl_ranks_t *ranks;
static const char  *folder;

typedef struct setting {
    int            ranks;
    const char    *model, *preset;
    pdl_mesh_t     mesh;
    pdl_sharding_t sharding;
    int            micro_batches; /* 0: 1 */
    bool           recompute;
} setting_t;

static const setting_t settings[] = {
    {2, "lenet", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {2, "resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 2, 1}}, 1}, PDL_SHARDING_NONE, 0, false},
    {2, "resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, PDL_SHARDING_NONE, 2, true},
    {2, "unet-small", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {2, "lenet", "filter", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {2, "resnet-tiny", "channel", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {2, "gpt-char-small", "tensor", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {3, "lenet", "spatial", {{{PDL_AXIS_SPATIAL, 3, 0}}, 1}, PDL_SHARDING_NONE, 0, false}, /* 28 rows: uneven */
    {3, "resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 3, 0}}, 1}, PDL_SHARDING_NONE, 0, false},
    {3, "unet-small", "spatial", {{{PDL_AXIS_SPATIAL, 3, 1}}, 1}, PDL_SHARDING_NONE, 0, false},
    {3, "lenet", "tensor", {{{PDL_AXIS_TENSOR, 3, 0}}, 1}, PDL_SHARDING_NONE, 2, false},
    {4, "lenet", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}}, 2}, PDL_SHARDING_NONE, 0, false},
    {4,
     "resnet-tiny",
     "spatial",
     {{{PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}}, 2},
     PDL_SHARDING_NONE,
     0,
     false},
    {4,
     "unet-small",
     "spatial",
     {{{PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}}, 2},
     PDL_SHARDING_NONE,
     0,
     false},
    {4,
     "lenet",
     "data+spatial",
     {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2},
     PDL_SHARDING_ZERO2,
     0,
     false},
    {4,
     "resnet-tiny",
     "data+spatial",
     {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2},
     PDL_SHARDING_ZERO3,
     0,
     false},
    {4,
     "unet-small",
     "data+spatial",
     {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2},
     PDL_SHARDING_NONE,
     0,
     false},
};

typedef struct outcome {
    double loss[STEPS + 1]; /* the last of them of an evaluation */
    double sum;             /* of weights */
    int    overlapped;      /* redistributions */
} outcome_t;

/* Operations that were in flight while another one ran. */
static int count_overlapped(const pdl_session_t *s)
{
    int overlapped = 0;

    for (int i = 0; i < s->program->op_count; i++) {
        const pdl_program_op_t *op = &s->program->op[i];
        for (int k = 0; k < op->wait_count; k++) {
            int issued = s->program->wait[op->first_wait + k];
            overlapped += s->program->op[issued].kind == PDL_OP_REDISTRIBUTE && i > issued + 1;
        }
    }
    return overlapped;
}

static void train(const pdl_plan_t *plan, bool overlap, outcome_t *outcome)
{
    pdl_cpu_options_t  cpu = {.threads = 1};
    pdl_backend_t     *backend = NULL;
    pdl_session_t     *session = NULL;
    pdl_session_spec_t spec;
    pdl_step_result_t  result;

    memset(outcome, 0, sizeof(*outcome));
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &backend));
    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.optimizer.lr = 0.01;
    spec.bucket_bytes = 50000;
    spec.overlap = overlap;
    REQUIRE_OK(pdl_session_create(&spec, &session));
    if (!session) return;
    pdl_batch_t batch = part_of_batch(plan, session);
    for (int step = 0; step <= STEPS; step++) {
        CHECK_OK(step < STEPS ? pdl_session_step(session, &batch, &result)
                              : pdl_session_evaluate(session, &batch, &result));
        outcome->loss[step] = result.loss;
    }
    outcome->sum = sum_weights(session);
    outcome->overlapped = count_overlapped(session);
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
}

static void compare(const setting_t *setting)
{
    char         path[1024], mesh[128];
    pdl_model_t *model = NULL;
    pdl_plan_t  *plan = NULL;
    outcome_t    together, apart;
    bool         ours = strcmp(setting->model, "unet-small") == 0;

    snprintf(path, sizeof(path), "%s/%s.yaml", folder, setting->model);
    REQUIRE_OK(pdl_model_load(ours ? path : setting->model, &model));
    REQUIRE_OK(pdl_plan_create(model, &setting->mesh, BATCH, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, setting->preset, NULL));
    plan->sharding = setting->sharding;
    plan->micro_batches = setting->micro_batches ? setting->micro_batches : 1;
    if (setting->recompute) plan->recompute = PDL_RECOMPUTE_FULL;
    CHECK_OK(pdl_plan_check(plan));
    train(plan, true, &together);
    train(plan, false, &apart);
    if (pdl_ranks_rank(ranks) == 0)
        printf("%s %s: %d overlapped, loss %.9g\n", setting->model,
               pdl_mesh_format(&setting->mesh, mesh, sizeof(mesh)), together.overlapped, together.loss[STEPS]);
    CHECK(together.overlapped > 0);
    CHECK_INT(apart.overlapped, 0);
    CHECK(memcmp(together.loss, apart.loss, sizeof(apart.loss)) == 0);
    CHECK(together.sum == apart.sum && together.loss[0] > 0);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void test_settings(void)
{
    fill_batch(2);
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (settings[i].ranks == pdl_ranks_size(ranks)) compare(&settings[i]);
}

int main(int argc, char **argv)
{
    if (argc != 2 || pdl_ranks_create(&ranks)) return 1;
    folder = argv[1];
    RUN(test_settings);
    printf("%d ranks\n", pdl_ranks_size(ranks));
    pdl_ranks_destroy(ranks);
    return test_done();
}
