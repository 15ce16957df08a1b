/*
 * Bytes that the oracle projects against those that sessions of all ranks together would send: equal, class by
 * class. Pieces are uneven and ranks send different amounts; of all together nothing is left to approximate.
 * Gradients are summed by rings, as they are projected; "auto" may send more of a small bucket to save start-ups.
 * Tokens go to experts as if these were asked equally often.
 */
#include "test.h"
#include "train/exec/session.h"
#include "train/exec/shard.h"
#include <math.h>
#include <paradl/oracle/oracle.h>
#include <paradl/train/dry.h>
#include <unistd.h>

#define D(n)                \
    {                       \
        PDL_AXIS_DATA, n, 0 \
    }
#define S(n, dim)                \
    {                            \
        PDL_AXIS_SPATIAL, n, dim \
    }
#define T(n)                  \
    {                         \
        PDL_AXIS_TENSOR, n, 0 \
    }
#define P(n)                    \
    {                           \
        PDL_AXIS_PIPELINE, n, 0 \
    }

static const struct trial {
    const char    *model, *strategy;
    pdl_mesh_t     mesh;
    int            micro_batches;
    pdl_sharding_t sharding;
    bool           sequence;
} trials[] = {
    {"resnet-tiny", "data", {{D(4)}, 1}, 1, 0, 0},
    {"resnet-tiny", "spatial", {{S(4, 0)}, 1}, 1, 0, 0},
    {"resnet-tiny", "spatial", {{S(3, 0)}, 1}, 1, 0, 0},
    {"resnet-tiny", "spatial", {{S(2, 0)}, 1}, 2, 0, 0},
    {"resnet-tiny", "spatial", {{S(4, 1)}, 1}, 1, 0, 0},
    {"resnet-tiny", "spatial", {{S(2, 0), S(3, 1)}, 2}, 1, 0, 0},
    {"resnet-tiny", "data+spatial", {{D(2), S(2, 0)}, 2}, 1, 0, 0},
    {"resnet-tiny", "filter", {{T(4)}, 1}, 1, 0, 0},
    {"resnet-tiny", "filter", {{T(3)}, 1}, 1, 0, 0},
    {"resnet-tiny", "channel", {{T(4)}, 1}, 1, 0, 0},
    {"resnet-tiny", "channel", {{T(3)}, 1}, 1, 0, 0},
    {"resnet-tiny", "tensor", {{T(4)}, 1}, 2, 0, 0},
    {"resnet-tiny", "data+filter", {{D(2), T(2)}, 2}, 1, 0, 0},
    {"resnet-tiny", "data+filter", {{D(2), T(3)}, 2}, 1, PDL_SHARDING_ZERO2, 0},
    {"resnet-tiny", "pipeline", {{P(4)}, 1}, 4, 0, 0},
    {"resnet-tiny", "data+pipeline", {{P(3), D(2)}, 2}, 2, 0, 0},
    {"lenet", "data", {{D(3)}, 1}, 1, 0, 0},
    {"lenet", "spatial", {{S(2, 0)}, 1}, 1, 0, 0},
    {"lenet", "spatial", {{S(3, 0)}, 1}, 1, 0, 0},
    {"lenet", "spatial", {{S(2, 0), S(2, 1)}, 2}, 1, 0, 0},
    {"lenet", "spatial", {{S(3, 1), S(2, 0)}, 2}, 2, 0, 0},
    {"lenet", "filter", {{T(4)}, 1}, 1, 0, 0},
    {"lenet", "channel", {{T(4)}, 1}, 1, 0, 0},
    {"lenet", "data+spatial", {{D(2), S(3, 0)}, 2}, 1, PDL_SHARDING_ZERO1, 0},
    {"lenet", "pipeline", {{P(3)}, 1}, 2, 0, 0},
    {"vgg-small", "spatial", {{S(2, 0), S(2, 1)}, 2}, 1, 0, 0},
    {"vgg-small", "tensor", {{T(3)}, 1}, 1, 0, 0},
    {"vgg-small", "data+filter", {{D(2), T(2)}, 2}, 1, 0, 0},
    {"vgg-small", "pipeline", {{P(2)}, 1}, 4, 0, 0},
    {"unet-small", "spatial", {{S(2, 0), S(2, 1)}, 2}, 1, 0, 0},
    {"unet-small", "data+spatial", {{D(2), S(2, 0)}, 2}, 1, PDL_SHARDING_ZERO2, 0},
    {"unet-small", "filter", {{T(2)}, 1}, 1, 0, 0},
    {"unet-small", "pipeline", {{P(4)}, 1}, 2, 0, 0},
    {"cosmoflow-32", "spatial", {{S(2, 0), S(2, 1), S(2, 2)}, 3}, 1, 0, 0},
    {"cosmoflow-32", "spatial", {{S(3, 0)}, 1}, 1, 0, 0},
    {"cosmoflow-32", "channel", {{T(3)}, 1}, 1, 0, 0},
    {"cosmoflow-32", "data+spatial", {{D(2), S(2, 2)}, 2}, 1, 0, 0},
    {"gpt-char-small", "data", {{D(4)}, 1}, 1, 0, 0},
    {"gpt-char-small", "data", {{D(4)}, 1}, 2, PDL_SHARDING_ZERO1, 0},
    {"gpt-char-small", "data", {{D(4)}, 1}, 2, PDL_SHARDING_ZERO2, 0},
    {"gpt-char-small", "data", {{D(3)}, 1}, 2, PDL_SHARDING_ZERO3, 0},
    {"gpt-char-small", "tensor", {{T(4)}, 1}, 1, 0, 0},
    {"gpt-char-small", "tensor", {{T(2)}, 1}, 2, 0, 1},
    {"gpt-char-small", "filter", {{T(4)}, 1}, 2, 0, 0},
    {"gpt-char-small", "channel", {{T(3)}, 1}, 1, 0, 0},
    {"gpt-char-small", "data+tensor", {{D(2), T(2)}, 2}, 1, PDL_SHARDING_ZERO3, 1},
    {"gpt-char-small", "pipeline", {{P(4)}, 1}, 4, 0, 0},
    {"gpt-char-small", "data+pipeline", {{P(2), D(2)}, 2}, 2, PDL_SHARDING_ZERO2, 0},
    {"experts", "tensor", {{T(2)}, 1}, 1, 0, 0},
    {"experts", "tensor", {{T(3)}, 1}, 2, 0, 0},
    {"experts", "tensor", {{T(4)}, 1}, 1, 0, 0},
    {"experts", "tensor", {{T(4)}, 1}, 1, 0, 1},
    {"experts", "data+tensor", {{D(2), T(3)}, 2}, 1, PDL_SHARDING_ZERO1, 0},
    {"gpt-char-small", "3d", {{P(2), D(2), T(2)}, 3}, 2, 0, 0},
};
enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

static pdl_backend_t      *backend;
static const pdl_system_t *local;

/* Of weights that are gathered for forward and for backward of every micro-batch: less those that were still there,
   and more those that two layers share. */
static double not_gathered(const pdl_session_t *s)
{
    double bytes = 0, saved = 0;

    if (s->weights.sharding < PDL_SHARDING_ZERO3) return 0;
    for (int g = 0; g < s->exchange.bucket_groups; g++)
        for (int b = 0; b < s->exchange.buckets[g].count && s->exchange.buckets[g].shard_ranks; b++)
            bytes += 2 * s->micro_batches * pdl_exchange_bucket_bytes(s->exchange.buckets[g].gather, b);
    saved = bytes;
    for (int i = 0; i < s->program->op_count; i++)
        if (s->program->op[i].kind == PDL_OP_COLLECTIVE && s->program->op[i].role == PDL_ROLE_WEIGHTS)
            saved -= s->program->op[i].bytes;
    CHECK(saved < bytes / 10 && saved > -bytes / 10);
    return saved;
}

/* What all ranks send in an update. */
static void session_bytes(const pdl_plan_t *plan, pdl_session_traffic_t *all)
{
    *all = (pdl_session_traffic_t){0};
    for (int rank = 0; rank < pdl_mesh_size(&plan->mesh); rank++) {
        pdl_session_spec_t    spec;
        pdl_session_t        *session = NULL;
        pdl_session_traffic_t traffic;
        pdl_session_defaults(&spec);
        spec.plan = plan;
        spec.backend = backend;
        spec.algorithm = "ring";
        REQUIRE_OK(pdl_session_create_dry(&spec, rank, &session));
        if (session == NULL) return;
        pdl_session_traffic(session, &traffic);
        all->moves += traffic.moves - traffic.moves_padding;
        all->moves += traffic.routed;
        all->stages += traffic.stages;
        all->gradients += traffic.gradients - traffic.gradients_padding + not_gathered(session);
        all->moves_padding += traffic.moves_padding;
        all->gradients_padding += traffic.gradients_padding;
        all->statistics += traffic.statistics;
        pdl_session_destroy(session);
    }
}

/* To the byte: the mean of three ranks is no number of bits. */
static bool same_bytes(double a, double b)
{
    return llround(a) == llround(b);
}

static void compare(const struct trial *trial, const pdl_plan_t *plan, const pdl_projection_t *projection)
{
    pdl_session_traffic_t sent;
    double                moves = projection->bytes[PDL_COMM_LAYER] + projection->bytes[PDL_COMM_HALO];

    session_bytes(plan, &sent);
    printf("  %-14s %-13s %2lld ranks: moves %.0f / %.0f, stages %.0f / %.0f, gradients %.0f / %.0f, and %.0f "
           "to fill blocks\n",
           trial->model, trial->strategy, (long long)pdl_mesh_size(&plan->mesh), moves,
           sent.moves + sent.statistics, projection->bytes[PDL_COMM_STAGE], sent.stages,
           projection->bytes[PDL_COMM_GRADIENT], sent.gradients, sent.moves_padding + sent.gradients_padding);
    CHECK(same_bytes(moves, sent.moves + sent.statistics));
    CHECK(same_bytes(projection->bytes[PDL_COMM_STAGE], sent.stages));
    CHECK(same_bytes(projection->bytes[PDL_COMM_GRADIENT], sent.gradients));
}

static pdl_status_t load(const char *name, pdl_model_t **model)
{
    char path[4096];

    snprintf(path, sizeof(path), PDL_TEST_SOURCE "/tests/train/models/%s.yaml", name);
    return pdl_model_load(access(path, R_OK) == 0 ? path : name, model);
}

static void test_bytes(void)
{
    for (int i = 0; i < TRIALS; i++) {
        pdl_model_t     *model = NULL;
        pdl_plan_t      *plan = NULL;
        pdl_oracle_t    *oracle = NULL;
        pdl_projection_t projection;
        pdl_parameters_t parameters;
        CHECK_OK(pdl_parameters_choose(NULL, local, &parameters));
        CHECK_OK(load(trials[i].model, &model));
        REQUIRE_OK(pdl_oracle_create(model, local, &parameters, &oracle));
        int64_t batch = 2 * trials[i].micro_batches * pdl_mesh_extent(&trials[i].mesh, PDL_AXIS_DATA);
        REQUIRE_OK(pdl_plan_create(model, &trials[i].mesh, batch, &plan));
        plan->micro_batches = trials[i].micro_batches;
        plan->sharding = trials[i].sharding;
        plan->sequence_parallel = trials[i].sequence;
        CHECK_OK(pdl_plan_apply_preset(plan, trials[i].strategy, NULL));
        CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &projection));
        compare(&trials[i], plan, &projection);
        pdl_plan_destroy(plan);
        pdl_oracle_destroy(oracle);
        pdl_model_destroy(model);
    }
}

int main(void)
{
    static const char text[] =
        "paradl: system/1\nname: four\ndevice: {name: core, memory: 4GB, memory_bandwidth: 8GB/s, "
        "peak: {fp32: 80GFLOP/s}}\nlevels:\n  - {name: node, fanout: 16, bandwidth: 4GB/s, "
        "latency: 2us}\nparameters: local\n";
    pdl_cpu_options_t cpu = {.threads = 1};

    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &backend));
    CHECK_OK(pdl_system_read_memory(text, sizeof(text) - 1, "four", &local));
    RUN(test_bytes);
    pdl_system_destroy(local);
    pdl_backend_destroy(backend);
    return test_done();
}
