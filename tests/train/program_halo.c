/*
 * Under mpirun: halos in flight while a convolution runs on the rows that are there. Losses and weights are those
 * of one rank, and to the bit those with nothing overlapped; memory and bytes are those of dry sessions; and it is
 * done so where the geometry allows it, otherwise not.
 *
 *     program_halo
 */
#include <math.h>
#include <paradl/train/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dry_check.h"
#include "random.h"
#include "test.h"
#include "train/exec/session.h"

#define STEPS 3
#define BATCH 4
#define ROOM  16384 /* values of a sample at most */
#define MOST  60000 /* weights of a network */

static pdl_ranks_t *world, *alone;
static float        values[BATCH * ROOM], weight[BATCH];
static int32_t      labels[BATCH * ROOM];

#define TAIL                                                                                        \
    "  - global_avg_pool: {name: avg}\n  - flatten: {name: flat}\n  - linear: {name: fc, out: 5}\n" \
    "  - cross_entropy: {name: loss}\n"

/* Blocks of channels, ReLU in the same op, windows of 3, 5 and 1, a sum. */
static const char blocks[] =
    "paradl: model/1\nname: blocks\ninput: {channels: 3, size: [34, 33]}\nlayers:\n"
    "  - conv: {name: a, out: 16, kernel: 3, pad: 1}\n  - relu: {name: ra}\n"
    "  - conv: {name: b, out: 32, kernel: 3, pad: 1}\n  - relu: {name: rb}\n"
    "  - conv: {name: c, out: 16, kernel: 5, pad: 2, bias: false}\n  - add: {name: sum, from: [ra, c]}\n"
    "  - relu: {name: rs}\n  - conv: {name: d, out: 32, kernel: 1}\n  - gelu: {name: g}\n"
    "  - conv: {name: e, out: 20, kernel: 3, pad: 1}\n  - relu: {name: re}\n" TAIL;
/* Strides with odd and even windows, dilation, a window that is wider in one direction, groups; pieces are uneven.
   */
static const char strides[] =
    "paradl: model/1\nname: strides\ninput: {channels: 3, size: [66, 66]}\nlayers:\n"
    "  - conv: {name: a, out: 16, kernel: 3, stride: 2, pad: 1}\n  - gelu: {name: ga}\n"
    "  - conv: {name: b, out: 16, kernel: 3, dilation: 2, pad: 2}\n  - gelu: {name: gb}\n"
    "  - conv: {name: c, out: 32, kernel: 3, pad: 1, groups: 2}\n  - relu: {name: gc}\n"
    "  - conv: {name: d, out: 16, kernel: 5, stride: 2, pad: 2}\n  - relu: {name: rd}\n" TAIL;
/* Few channels, plain. */
static const char few[] = "paradl: model/1\nname: few\ninput: {channels: 2, size: [20, 18]}\nlayers:\n"
                          "  - conv: {name: a, out: 6, kernel: 3, pad: 1}\n  - tanh: {name: t}\n"
                          "  - conv: {name: b, out: 8, kernel: 3, pad: 1}\n  - relu: {name: r}\n" TAIL;
static const char volume[] = "paradl: model/1\nname: volume\ninput: {channels: 2, size: [16, 17, 18]}\nlayers:\n"
                             "  - conv: {name: a, out: 16, kernel: 3, pad: 1}\n  - relu: {name: ra}\n"
                             "  - conv: {name: b, out: 16, kernel: 3, pad: 1}\n  - silu: {name: sb}\n" TAIL;
/* Borders that are most of a piece. */
static const char thin[] = "paradl: model/1\nname: thin\ninput: {channels: 3, size: [9, 10]}\nlayers:\n"
                           "  - conv: {name: a, out: 16, kernel: 5, pad: 2}\n  - relu: {name: ra}\n"
                           "  - conv: {name: b, out: 16, kernel: 5, pad: 2}\n  - relu: {name: rb}\n" TAIL;

typedef struct setting {
    int         ranks;
    const char *network;
    pdl_mesh_t  mesh;
    int         halos; /* units with one */
    int         micro_batches;
    bool        recompute, half, fast; /* bf16; Winograd */
} setting_t;

#define OVER(n, d)                    \
    {                                 \
        {{PDL_AXIS_SPATIAL, n, d}}, 1 \
    }
#define OVER2(n, d, m, e)                                       \
    {                                                           \
        {{PDL_AXIS_SPATIAL, n, d}, {PDL_AXIS_SPATIAL, m, e}}, 2 \
    }

static const setting_t settings[] = {
    {2, blocks, OVER(2, 0), 4, 1, false, false, false},
    {2, blocks, OVER(2, 1), 4, 2, false, false, false},
    {2, blocks, OVER(2, 0), 4, 2, true, false, false},
    {2, blocks, OVER(2, 0), 4, 1, false, false, true},
    {2, blocks, OVER(2, 0), 4, 1, false, true, false},
    {2, strides, OVER(2, 0), 4, 1, false, false, false},
    {2, strides, OVER(2, 1), 4, 2, true, false, false},
    {2, few, OVER(2, 0), 2, 1, false, false, false},
    {2, volume, OVER(2, 0), 2, 1, false, false, false},
    {2, volume, OVER(2, 2), 2, 2, false, false, false},
    {2, thin, OVER(2, 0), 0, 1, false, false, false},
    {3, blocks, OVER(3, 0), 3, 1, false, false, false},
    {3, strides, OVER(3, 0), 2, 1, false, false, false},
    {3, few, OVER(3, 1), 0, 1, false, false, false},
    {4, blocks, OVER2(2, 0, 2, 1), 4, 1, false, false, false},
    {4, blocks, OVER2(2, 1, 2, 0), 4, 2, true, false, false},
    {4, strides, OVER2(2, 0, 2, 1), 4, 1, false, false, false},
    {4, few, OVER(4, 0), 0, 1, false, false, false},
    {4, blocks, {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2}, 4, 1, false, false, false},
    {8,
     volume,
     {{{PDL_AXIS_SPATIAL, 2, 1}, {PDL_AXIS_SPATIAL, 2, 2}, {PDL_AXIS_SPATIAL, 2, 0}}, 3},
     2,
     1,
     false,
     false,
     false},
};

typedef struct outcome {
    double loss[STEPS + 1]; /* the last of them of an evaluation */
    int    halos, count;
    float  weights[MOST];
} outcome_t;

static void fill_batch(void)
{
    for (int i = 0; i < BATCH * ROOM; i++) values[i] = (float)between(-1000, 1000) / 700;
    for (int i = 0; i < BATCH * ROOM; i++) labels[i] = (int32_t)between(0, 4);
    for (int i = 0; i < BATCH; i++) weight[i] = 1;
}

static void get_weights(pdl_session_t *session, outcome_t *outcome)
{
    for (int i = 0; i < pdl_session_tensor_count(session); i++) {
        int64_t elements = pdl_session_tensor(session, i)->elements;
        CHECK(outcome->count + elements <= MOST);
        if (outcome->count + elements > MOST) return;
        CHECK_OK(pdl_session_get(session, i, PDL_ARRAY_WEIGHT, outcome->weights + outcome->count));
        outcome->count += (int)elements;
    }
}

static int count_halos(const pdl_session_t *s)
{
    int count = 0;

    for (int u = 0; u < s->graph->unit_count; u++) count += s->graph->unit[u].halo != NULL;
    return count;
}

static void train_steps(const pdl_plan_t *plan, pdl_session_t *session, pdl_ranks_t *ranks,
                        const pdl_session_traffic_t *traffic, outcome_t *outcome)
{
    double            before[PDL_SENT_KINDS];
    int64_t           first, count;
    pdl_shape_t       input = pdl_model_input(plan->model);
    pdl_step_result_t result;

    CHECK(pdl_shape_elements(&input) <= ROOM);
    pdl_session_share(session, &first, &count);
    pdl_batch_t batch = {.values = values + first * pdl_shape_elements(&input),
                         .labels = labels + first,
                         .weight = weight + first};
    for (int k = 0; k < PDL_SENT_KINDS; k++) before[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k);
    for (int step = 0; step < STEPS; step++) {
        CHECK_OK(pdl_session_step(session, &batch, &result));
        outcome->loss[step] = result.loss;
    }
    CHECK_OK(check_sent(session, ranks, before, STEPS, traffic));
    CHECK_OK(pdl_session_evaluate(session, &batch, &result));
    outcome->loss[STEPS] = result.loss;
}

static void train(const pdl_plan_t *plan, const setting_t *setting, pdl_ranks_t *ranks, bool overlap,
                  outcome_t *outcome)
{
    pdl_cpu_options_t     cpu = {.threads = 1,
                                 .direct = !setting->fast,
                                 .precision = setting->half ? PDL_DTYPE_BF16 : PDL_DTYPE_F32};
    pdl_backend_t        *backend = NULL;
    pdl_session_t        *session = NULL;
    pdl_session_spec_t    spec;
    pdl_session_traffic_t traffic;

    memset(outcome, 0, sizeof(*outcome));
    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &backend));
    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.optimizer.lr = 0.2;
    spec.overlap = overlap;
    size_t held = pdl_memory_held();
    REQUIRE_OK(pdl_session_create(&spec, &session));
    if (!session) return;
    CHECK_OK(pdl_ranks_agree(ranks, check_dry(&spec, session, pdl_memory_held() - held, &traffic)));
    train_steps(plan, session, ranks, &traffic, outcome);
    get_weights(session, outcome);
    outcome->halos = count_halos(session);
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
}

/* The largest difference of losses and weights. */
static double difference(const outcome_t *a, const outcome_t *b)
{
    double worst = 0;

    CHECK_INT(a->count, b->count);
    for (int i = 0; i <= STEPS; i++) worst = fmax(worst, fabs(a->loss[i] - b->loss[i]));
    for (int i = 0; i < a->count; i++) worst = fmax(worst, fabs((double)a->weights[i] - (double)b->weights[i]));
    return worst;
}

static pdl_plan_t *make_plan(const pdl_model_t *model, const pdl_mesh_t *mesh, const setting_t *setting)
{
    pdl_plan_t *plan = NULL;
    bool        data = mesh->axis[0].kind == PDL_AXIS_DATA && mesh->axis_count > 1;

    REQUIRE_OK(pdl_plan_create(model, mesh, BATCH, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan,
                                   pdl_mesh_size(mesh) == 1 ? "serial"
                                   : data                   ? "data+spatial"
                                                            : "spatial",
                                   NULL));
    plan->micro_batches = setting->micro_batches;
    if (setting->recompute) plan->recompute = PDL_RECOMPUTE_FULL;
    CHECK_OK(pdl_plan_check(plan));
    return plan;
}

static void compare(const setting_t *setting)
{
    static outcome_t serial, together, apart;
    pdl_mesh_t       one = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_model_t     *model = NULL;
    char             mesh[128];

    CHECK_OK(pdl_model_read_yaml_memory(setting->network, strlen(setting->network), "network", &model));
    pdl_plan_t *split = make_plan(model, &setting->mesh, setting), *whole = make_plan(model, &one, setting);
    train(whole, setting, alone, true, &serial);
    train(split, setting, world, true, &together);
    train(split, setting, world, false, &apart);
    double off = difference(&serial, &together), allowed = setting->half ? 2e-3 : setting->fast ? 1e-4 : 1e-5;
    if (pdl_ranks_rank(world) == 0)
        printf("%s %s: %d halos, off by %.1e\n", pdl_model_name(model),
               pdl_mesh_format(&setting->mesh, mesh, sizeof(mesh)), together.halos, off);
    CHECK(off < allowed);
    CHECK_INT(serial.halos, 0);
    CHECK_INT(together.halos, setting->halos);
    CHECK_INT(apart.halos, setting->halos);
    CHECK(memcmp(&together, &apart, sizeof(apart)) == 0);
    pdl_plan_destroy(split);
    pdl_plan_destroy(whole);
    pdl_model_destroy(model);
}

static bool has_half(void)
{
    pdl_cpu_options_t cpu = {.threads = 1, .precision = PDL_DTYPE_BF16};
    pdl_backend_t    *backend = NULL;
    bool              has = !pdl_backend_create_cpu(&cpu, &backend);

    pdl_backend_destroy(backend);
    return has;
}

static void test_settings(void)
{
    fill_batch();
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (settings[i].ranks == pdl_ranks_size(world) && (!settings[i].half || has_half())) compare(&settings[i]);
}

int main(void)
{
    if (pdl_ranks_create(&world) || pdl_ranks_split(world, pdl_ranks_rank(world), 0, &alone)) return 1;
    RUN(test_settings);
    printf("%d ranks\n", pdl_ranks_size(world));
    pdl_ranks_destroy(alone);
    pdl_ranks_destroy(world);
    return test_done();
}
