/*
 * Bytes that the oracle projects for the busiest rank against those that its session would send. They are the same
 * numbers but for what is said below, each of which has its bounds here:
 *
 * - gradients: every weight begins at a cache line, so an exchange carries up to 15 floats more a weight;
 * - split losses: the oracle counts two numbers a row in 32 bits as part of the layer's collectives, the trainer gathers
 *   four or five in 64 bits, which are counted as statistics;
 * - gathers of uneven pieces: the oracle counts their mean, the busiest rank sends the largest.
 */
#include "test.h"
#include <paradl/dry.h>
#include <paradl/oracle.h>

#define SIXTEEN 16

static const struct trial {
    const char *model, *strategy;
    pdl_mesh_t  mesh;
    int         micro_batches;
    double      uneven; /* of what is sent, that the oracle may be below; 0: exact */
} trials[] = {
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 4, 0}}, 1}, 1, 0},
    {"resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 4, 0}}, 1}, 1, 0},
    {"resnet-tiny", "data+spatial", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2}, 1, 0},
    {"resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, 2, 0},
    {"resnet-tiny", "spatial", {{{PDL_AXIS_SPATIAL, 4, 1}}, 1}, 1, 0},
    {"lenet", "spatial", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}, 1, 0.06},
    {"resnet-tiny", "filter", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 1, 0},
    {"resnet-tiny", "channel", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 1, 0},
    {"resnet-tiny", "tensor", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 2, 0},
    {"resnet-tiny", "data+filter", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}, 1, 0},
    {"resnet-tiny", "pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}}, 1}, 4, 0},
    {"gpt-char-small", "data", {{{PDL_AXIS_DATA, 4, 0}}, 1}, 1, 0},
    {"gpt-char-small", "tensor", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 1, 0},
    {"gpt-char-small", "filter", {{{PDL_AXIS_TENSOR, 4, 0}}, 1}, 2, 0},
    {"gpt-char-small", "pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}}, 1}, 4, 0},
    {"gpt-char-small", "3d", {{{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}, 4, 0},
};
enum { TRIALS = sizeof(trials) / sizeof(trials[0]) };

static pdl_backend_t      *backend;
static const pdl_system_t *local;

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/* The most of any rank, and the weight tensors of the rank with most. */
static void session_bytes(const pdl_plan_t *plan, pdl_session_traffic_t *most, int *tensors)
{
    *most = (pdl_session_traffic_t){0};
    *tensors = 0;
    for (int rank = 0; rank < pdl_mesh_size(&plan->mesh); rank++) {
        pdl_session_spec_t    spec;
        pdl_session_t        *session = NULL;
        pdl_session_traffic_t traffic;
        pdl_session_defaults(&spec);
        spec.plan = plan;
        spec.backend = backend;
        CHECK_OK(pdl_session_create_dry(&spec, rank, &session));
        if (session == NULL) return;
        pdl_session_traffic(session, &traffic);
        most->moves = greater(most->moves, traffic.moves);
        most->stages = greater(most->stages, traffic.stages);
        most->gradients = greater(most->gradients, traffic.gradients);
        most->statistics = greater(most->statistics, traffic.statistics);
        if (pdl_session_tensor_count(session) > *tensors) *tensors = pdl_session_tensor_count(session);
        pdl_session_destroy(session);
    }
}

static void compare(const struct trial *trial, pdl_plan_t *plan, const pdl_projection_t *projection)
{
    pdl_session_traffic_t sent;
    int                   tensors;
    double                moves = projection->bytes[PDL_COMM_LAYER] + projection->bytes[PDL_COMM_HALO];
    double                gradients = projection->bytes[PDL_COMM_GRADIENT];

    session_bytes(plan, &sent, &tensors);
    printf("  %-14s %-12s moves %.0f / %.0f, stages %.0f / %.0f, gradients %.0f / %.0f\n", trial->model,
           trial->strategy, moves, sent.moves, projection->bytes[PDL_COMM_STAGE], sent.stages, gradients,
           sent.gradients);
    /* Two 32-bit numbers a row in a ring of the same ranks, where the trainer sends four 64-bit ones to each of P - 1:
       2 (P-1)/P * 8 to (P-1) * 32 bytes, that is 1 / (2 P). */
    double ranks = (double)pdl_mesh_extent(&plan->mesh, PDL_AXIS_TENSOR);
    if (moves > sent.moves) moves -= sent.statistics / (2 * ranks); /* the busiest stage may have no loss */
    CHECK(moves <= sent.moves && moves >= (1 - trial->uneven) * sent.moves);
    CHECK(projection->bytes[PDL_COMM_STAGE] == sent.stages);
    CHECK(gradients <= sent.gradients + SIXTEEN && sent.gradients <= gradients + 2.0 * tensors * 15 * 4 + 64);
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
        CHECK_OK(pdl_model_load(trials[i].model, &model));
        CHECK_OK(pdl_oracle_create(model, local, &parameters, &oracle));
        CHECK_OK(pdl_plan_create(model, &trials[i].mesh, SIXTEEN, &plan));
        CHECK_OK(pdl_plan_apply_preset(plan, trials[i].strategy, NULL));
        plan->micro_batches = trials[i].micro_batches;
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
        "peak: {fp32: 80GFLOP/s}}\nlevels:\n  - {name: node, fanout: 4, bandwidth: 4GB/s, "
        "latency: 2us}\nparameters: local\n";
    pdl_cpu_options_t cpu = {.threads = 1};

    CHECK_OK(pdl_backend_create_cpu(&cpu, &backend));
    CHECK_OK(pdl_system_read_memory(text, sizeof(text) - 1, "four", &local));
    RUN(test_bytes);
    pdl_system_destroy(local);
    pdl_backend_destroy(backend);
    return test_done();
}
