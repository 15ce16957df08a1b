/*
 * Under mpirun: random plans. A small network, a random mesh over the ranks, a random legal mode for every layer and
 * axis, and random sharding over the data axes; losses of a few updates and the weights after them equal those of the
 * same network on one rank, and to the bit those of the plan with nothing overlapped, and with everything on the device.
 *
 *     program_plans FIRST COUNT [guard | emulated | real]      plans FIRST .. FIRST + COUNT - 1
 *
 * With `guard` bits are compared with those of the guard device, whose memory goes between ranks by the transports host and
 * ipc. With `emulated` or `real` all is computed on a GPU, and bits are those of both transports.
 */
#include <math.h>
#include <paradl/train/session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dry_check.h"
#include "random_plan.h"

#define STEPS   3
#define SAMPLES 32 /* at most */

static pdl_ranks_t *world, *alone;
static const char  *device; /* NULL: the processor, for all */
static bool         guard, gpu;

typedef enum way { OVERLAPPED, ONE_BY_ONE, BY_HOST, BY_IPC } way_t;

/* The guard shows what the processor does, on the same processor. */
static pdl_status_t create_backend(way_t way, pdl_backend_t **backend)
{
    pdl_cpu_options_t cpu = {.threads = 1, .direct = true};

    if (gpu)
        return pdl_backend_create_cuda(&(pdl_cuda_options_t){.emulated = strcmp(device, "emulated") == 0}, backend);
    if (way >= BY_HOST) return pdl_backend_create_guard(&cpu, way == BY_HOST, backend);
    return pdl_backend_create_cpu(&cpu, backend);
}

static void fill_batch(const pdl_model_t *model, int64_t batch, float *values, int32_t *tokens, int32_t *labels,
                       float *numbers, int classes)
{
    (void)model;
    for (int64_t i = 0; i < batch * 1024; i++) {
        values[i] = (float)between(-1000, 1000) / 700;
        tokens[i] = (int32_t)between(0, 12);
        labels[i] = (int32_t)between(0, classes - 1);
        numbers[i] = (float)between(-1000, 1000) / 700;
    }
}

typedef struct outcome {
    double loss[STEPS];
    double weights; /* a checksum of them all */
    double samples; /* the losses of single samples in the last step, as the ranks that speak for them have them */
} outcome_t;

static pdl_status_t sum_samples(pdl_session_t *session, pdl_ranks_t *ranks, const pdl_batch_t *whole, double *sum)
{
    pdl_status_t         status = pdl_session_gather_samples(session);
    pdl_sample_results_t results = pdl_session_samples(session);
    int64_t              first, count;

    pdl_session_share(session, &first, &count);
    for (int64_t i = 0; i < count && pdl_session_reports(session); i++)
        *sum += (double)whole->weight[first + i] * (double)results.loss[i];
    return status ? status : pdl_ranks_sum(ranks, sum, 1);
}

static pdl_status_t run_plan(const pdl_plan_t *plan, pdl_ranks_t *ranks, way_t way, const pdl_batch_t *whole,
                             outcome_t *outcome)
{
    pdl_session_spec_t spec;
    pdl_session_t     *session = NULL;
    pdl_backend_t     *backend = NULL;
    pdl_status_t       status = create_backend(way, &backend);

    pdl_session_defaults(&spec);
    spec.plan = plan;
    spec.backend = backend;
    spec.ranks = ranks;
    spec.optimizer.lr = 0.02;
    spec.bucket_bytes = 2000;
    spec.overlap = way != ONE_BY_ONE;
    if (way >= BY_HOST) spec.transport = way == BY_HOST ? PDL_TRANSPORT_HOST : PDL_TRANSPORT_IPC;
    size_t                held = pdl_memory_held();
    double                before[PDL_SENT_KINDS] = {0};
    pdl_session_traffic_t traffic = {0};
    if (!status) status = pdl_session_create(&spec, &session);
    if (!status && way < BY_HOST && !gpu)
        status = pdl_ranks_agree(ranks, check_dry(&spec, session, pdl_memory_held() - held, &traffic));
    if (!status && (way >= BY_HOST || gpu)) pdl_session_traffic(session, &traffic);
    for (int k = 0; k < PDL_SENT_KINDS; k++) before[k] = pdl_ranks_sent(ranks, (pdl_sent_t)k);
    for (int step = 0; step < STEPS && !status; step++) {
        pdl_step_result_t  result;
        pdl_batch_t        batch = *whole;
        int64_t            first, count, positions = 1;
        const pdl_layer_t *loss = pdl_model_layer(plan->model, pdl_model_layer_count(plan->model) - 1);
        pdl_shape_t        input = pdl_model_input(plan->model);
        pdl_session_share(session, &first, &count);
        positions = pdl_shape_positions(&loss->in);
        batch.values += first * pdl_shape_elements(&input);
        batch.tokens += first * pdl_shape_positions(&input);
        batch.labels += first * positions;
        batch.numbers += first * pdl_shape_elements(&loss->in);
        batch.weight += first;
        status = pdl_session_step(session, &batch, &result);
        outcome->loss[step] = result.loss;
        /* The others may wait in an exchange which this rank will not join. */
        if (status && pdl_ranks_size(ranks) > 1) pdl_ranks_abort(ranks, status);
    }
    if (!status) status = pdl_ranks_agree(ranks, check_sent(session, ranks, before, STEPS, &traffic));
    outcome->samples = 0;
    if (!status) status = sum_samples(session, ranks, whole, &outcome->samples);
    outcome->weights = 0;
    for (int i = 0; !status && i < pdl_session_tensor_count(session); i++) {
        const pdl_session_tensor_t *info = pdl_session_tensor(session, i);
        float                      *plain = malloc((size_t)info->elements * sizeof(*plain));
        status = pdl_session_get(session, i, PDL_ARRAY_WEIGHT, plain);
        for (int64_t k = 0; k < info->elements && info->trainable; k++) outcome->weights += fabs((double)plain[k]);
        free(plain);
    }
    pdl_session_destroy(session);
    pdl_backend_destroy(backend);
    return status;
}

static void describe(const pdl_plan_t *plan, char *text, size_t size)
{
    char   mesh[128];
    size_t used =
        (size_t)snprintf(text, size,
                         "%s on %s, sharding %s, state on %s, weights on %s:", pdl_model_name(plan->model),
                         pdl_mesh_format(&plan->mesh, mesh, sizeof(mesh)), pdl_sharding_names[plan->sharding],
                         pdl_tier_names[plan->optimizer_tier], pdl_tier_names[plan->weights_tier]);

    for (int i = 1; i < pdl_model_layer_count(plan->model) && used + 64 < size; i++) {
        used += (size_t)snprintf(text + used, size - used, " %s", pdl_model_layer(plan->model, i)->name);
        for (int a = 0; a < plan->mesh.axis_count; a++)
            used += (size_t)snprintf(text + used, size - used, "%c%s", a ? ',' : '=',
                                     pdl_mode_names[plan->modes[i].on[a]]);
    }
}

/* With state and weights on the device. */
static pdl_status_t run_in_core(pdl_plan_t *plan, const pdl_batch_t *whole, outcome_t *outcome)
{
    pdl_tier_t optimizer = plan->optimizer_tier, weights = plan->weights_tier;

    plan->optimizer_tier = plan->weights_tier = PDL_TIER_DEVICE;
    pdl_status_t status = run_plan(plan, world, gpu ? BY_HOST : OVERLAPPED, whole, outcome);
    plan->optimizer_tier = optimizer;
    plan->weights_tier = weights;
    return status;
}

/* 1: agrees; 0: the plan is refused, which is not counted; -1: differs. */
static int try_plan(int seed)
{
    static float   values[SAMPLES * 1024], numbers[SAMPLES * 1024], weight[SAMPLES];
    static int32_t tokens[SAMPLES * 1024], labels[SAMPLES * 1024];
    pdl_model_t   *model;
    pdl_plan_t    *plan, *serial;
    pdl_mesh_t     mesh, one = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    char           text[4096];
    int            verdict = -1;

    random_seed = (uint64_t)seed * 7919 + 1;
    int         which = (int)between(0, NETWORKS - 1);
    int64_t     batch = 4 + between(0, 2) * pdl_ranks_size(world) + between(0, 1);
    pdl_batch_t data = {.values = values, .tokens = tokens, .labels = labels, .numbers = numbers, .weight = weight};
    if (pdl_model_read_yaml_memory(networks[which], strlen(networks[which]), "network", &model)) return -1;
    fill_batch(model, batch, values, tokens, labels, numbers, 4);
    for (int i = 0; i < SAMPLES; i++) weight[i] = (float)between(1, 4) / 2;
    draw_mesh(&mesh, model, pdl_ranks_size(world));
    if (pdl_plan_create(model, &mesh, batch, &plan) || pdl_plan_create(model, &one, batch, &serial)) return -1;
    draw_modes(plan);
    if (draw_policies(plan, which > 0)) return -1; /* the first network has batch norm */
    plan->sync_batch_norm = true;
    serial->sync_batch_norm = true;
    describe(plan, text, sizeof(text));
    outcome_t    expected, got, one_by_one = {0}, shared = {0}, in_core = {0};
    pdl_status_t status = pdl_plan_check(plan);
    if (status) {
        verdict = 0;
    } else if ((status = run_plan(serial, alone, OVERLAPPED, &data, &expected)) ||
               (status = run_plan(plan, world, gpu ? BY_HOST : OVERLAPPED, &data, &got)) ||
               (status = run_plan(plan, world,
                                  gpu     ? BY_IPC
                                  : guard ? BY_HOST
                                          : ONE_BY_ONE,
                                  &data, &one_by_one)) ||
               (guard && (status = run_plan(plan, world, BY_IPC, &data, &shared))) ||
               (plan->optimizer_tier != PDL_TIER_DEVICE && (status = run_in_core(plan, &data, &in_core)))) {
        verdict = status == PDL_ERR_LIMIT || status == PDL_ERR_UNSUPPORTED ? 0 : -1;
        if (pdl_ranks_rank(world) == 0)
            printf("%s %d: %s\n  %s\n", verdict ? "FAIL" : "refused", seed, pdl_error_message(), text);
    } else {
        double worst = fabs(got.weights - expected.weights) / expected.weights;
        worst = fmax(worst, fabs(got.samples - expected.samples) / expected.samples);
        for (int s = 0; s < STEPS; s++)
            worst = fmax(worst, fabs(got.loss[s] - expected.loss[s]) / expected.loss[s]);
        /* Tensors in flight while something else is computed have the same bits. */
        if (memcmp(&got, &one_by_one, sizeof(got)) != 0) worst = INFINITY;
        if (guard && memcmp(&got, &shared, sizeof(got)) != 0) worst = INFINITY;
        if (plan->optimizer_tier != PDL_TIER_DEVICE && memcmp(&got, &in_core, sizeof(got)) != 0) worst = INFINITY;
        verdict = worst < 1e-4 ? 1 : -1;
        if (verdict < 0 && pdl_ranks_rank(world) == 0)
            printf("FAIL %d: off by %.1e, losses %g %g %g, on one rank %g %g %g\n  %s\n", seed, worst, got.loss[0],
                   got.loss[1], got.loss[2], expected.loss[0], expected.loss[1], expected.loss[2], text);
    }
    pdl_plan_destroy(plan);
    pdl_plan_destroy(serial);
    pdl_model_destroy(model);
    return verdict;
}

int main(int argc, char **argv)
{
    int first = argc > 1 ? atoi(argv[1]) : 1, count = argc > 2 ? atoi(argv[2]) : 10, agreed = 0, failed = 0,
        tried = 0;

    device = argc > 3 ? argv[3] : NULL;
    guard = device != NULL && strcmp(device, "guard") == 0;
    gpu = device != NULL && !guard;
    if (pdl_ranks_create(&world)) return 1;
    pdl_backend_t *backend = NULL;
    if (pdl_ranks_agree(world, create_backend(OVERLAPPED, &backend))) {
        if (pdl_ranks_rank(world) == 0) printf("skipped: %s\n", pdl_error_message());
        pdl_ranks_destroy(world);
        return 77;
    }
    pdl_backend_destroy(backend);
    if (pdl_ranks_split(world, pdl_ranks_rank(world), 0, &alone)) return 1;
    for (int seed = first; agreed + failed < count && tried < 4 * count; seed++, tried++) {
        int verdict = try_plan(seed);
        agreed += verdict > 0;
        failed += verdict < 0;
    }
    if (pdl_ranks_rank(world) == 0)
        printf("%d ranks: %d plans agree with one rank, %d do not, %d were refused\n", pdl_ranks_size(world),
               agreed, failed, tried - agreed - failed);
    bool enough = failed == 0 && agreed == count;
    pdl_ranks_destroy(alone);
    pdl_ranks_destroy(world);
    return enough ? 0 : 1;
}
