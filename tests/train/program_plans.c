/*
 * Under mpirun: random plans. A small network, a random mesh over the ranks, a random legal mode for every layer and
 * axis, and random sharding over the data axes; losses of a few updates and the weights after them equal those of the
 * same network on one rank, and to the bit those of the plan with nothing overlapped.
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
#include "random.h"

#define STEPS   3
#define SAMPLES 32 /* at most */

static const char *const networks[] = {
    /* a residual block with batch norm */
    "paradl: model/1\nname: residual\ninput: {channels: 3, size: [12, 10]}\nlayers:\n"
    "  - conv: {name: stem, out: 8, kernel: 3, pad: 1, bias: false}\n  - batch_norm: {name: bn0}\n  - relu: {name: "
    "r0}\n"
    "  - conv: {name: a, out: 8, kernel: 3, pad: 1, bias: false}\n  - batch_norm: {name: bn1}\n"
    "  - add: {name: sum, from: [bn1, r0]}\n  - relu: {name: r1}\n  - max_pool: {name: pool, kernel: 2}\n"
    "  - conv: {name: b, out: 6, kernel: 3, stride: 2, pad: 1}\n  - gelu: {name: g}\n  - global_avg_pool: {name: "
    "avg}\n"
    "  - flatten: {name: flat}\n  - linear: {name: fc, out: 5}\n  - cross_entropy: {name: loss}\n",
    /* strides, dilation, average pooling, a flattened image, two linear layers */
    "paradl: model/1\nname: windows\ninput: {channels: 2, size: [17, 16]}\nlayers:\n"
    "  - conv: {name: a, out: 6, kernel: 5, stride: 2, pad: 2}\n  - tanh: {name: t}\n"
    "  - conv: {name: b, out: 8, kernel: 3, dilation: 2, pad: 2}\n  - silu: {name: s}\n"
    "  - avg_pool: {name: pool, kernel: 3, stride: 2, pad: 1}\n  - conv: {name: c, out: 8, kernel: 1}\n  - gelu: "
    "{name: g}\n"
    "  - flatten: {name: flat}\n  - linear: {name: fc1, out: 12}\n  - gelu: {name: g2}\n  - dropout: {name: drop, "
    "rate: "
    "0.2}\n  - linear: {name: fc2, out: 6}\n"
    "  - cross_entropy: {name: loss}\n",
    /* volumes and regression */
    "paradl: model/1\nname: volume\ninput: {channels: 2, size: [8, 6, 7]}\nlayers:\n"
    "  - conv: {name: a, out: 6, kernel: 3, pad: 1}\n  - leaky_relu: {name: l}\n  - avg_pool: {name: pool, kernel: "
    "2}\n"
    "  - conv: {name: b, out: 8, kernel: 3, pad: 1}\n  - silu: {name: s}\n  - flatten: {name: flat}\n"
    "  - linear: {name: fc1, out: 8}\n  - gelu: {name: g}\n  - linear: {name: fc2, out: 4}\n  - mse: {name: "
    "loss}\n",
    /* down, up and a concatenation; a class for every pixel */
    "paradl: model/1\nname: pixels\ninput: {channels: 3, size: [12, 8]}\nlayers:\n"
    "  - conv: {name: a, out: 6, kernel: 3, pad: 1}\n  - gelu: {name: ga}\n  - max_pool: {name: pool, kernel: 2}\n"
    "  - conv: {name: b, out: 8, kernel: 3, pad: 1}\n  - gelu: {name: gb}\n  - upsample: {name: up, factor: 2}\n"
    "  - concat: {name: both, from: [ga, up]}\n  - conv: {name: c, out: 8, kernel: 3, pad: 1}\n  - gelu: {name: "
    "gc}\n"
    "  - conv: {name: d, out: 4, kernel: 1}\n  - cross_entropy: {name: loss}\n",
    /* a transformer block */
    "paradl: model/1\nname: block\ninput: {tokens: 12, vocabulary: 13}\nlayers:\n"
    "  - embedding: {name: wte, out: 16, init: normal, std: 0.3}\n  - position: {name: wpe, init: normal, std: "
    "0.3}\n"
    "  - layer_norm: {name: ln1}\n  - linear: {name: qkv, out: 48}\n  - attention: {name: attn, heads: 4, causal: "
    "true}\n"
    "  - linear: {name: proj, out: 16}\n  - dropout: {name: drop, rate: 0.1}\n  - add: {name: sum1, from: [wpe, "
    "drop]}\n  - layer_norm: {name: ln2}\n"
    "  - linear: {name: up, out: 32}\n  - gelu: {name: g}\n  - linear: {name: down, out: 16}\n"
    "  - add: {name: sum2, from: [sum1, down]}\n  - layer_norm: {name: ln3}\n  - linear: {name: head, out: 13, "
    "bias: false}\n"
    "  - cross_entropy: {name: loss}\n",
    /* experts; over four ranks a piece has one token or two */
    "paradl: model/1\nname: experts\ninput: {tokens: 7, vocabulary: 13}\nlayers:\n"
    "  - embedding: {name: wte, out: 12, init: normal, std: 0.5}\n  - position: {name: wpe, init: normal, std: "
    "0.3}\n"
    "  - rms_norm: {name: n1}\n"
    "  - moe: {name: m1, experts: 6, top_k: 2, hidden: 10, gated: true}\n  - add: {name: sum1, from: [wpe, m1]}\n"
    "  - moe: {name: m2, experts: 9, top_k: 3, hidden: 8}\n  - layer_norm: {name: n2}\n"
    "  - linear: {name: head, out: 13}\n  - cross_entropy: {name: loss}\n",
    /* patches and a class token */
    "paradl: model/1\nname: patches\ninput: {channels: 3, size: [12, 8]}\nlayers:\n"
    "  - conv: {name: patch, out: 16, kernel: 4, stride: 4}\n  - to_sequence: {name: seq}\n"
    "  - position: {name: pos, class_token: true, init: normal, std: 0.3}\n  - layer_norm: {name: ln1}\n"
    "  - linear: {name: qkv, out: 48}\n  - attention: {name: attn, heads: 4}\n  - linear: {name: proj, out: 16}\n"
    "  - add: {name: sum, from: [pos, proj]}\n  - layer_norm: {name: ln2}\n  - select: {name: token, index: 0}\n"
    "  - linear: {name: fc, out: 5}\n  - cross_entropy: {name: loss}\n",
    /* groups, a gate for every channel, a transposed convolution, norms over groups and neighbouring channels */
    "paradl: model/1\nname: groups\ninput: {channels: 4, size: [9, 12]}\nlayers:\n"
    "  - conv: {name: a, out: 8, kernel: 3, pad: 1, groups: 2}\n  - local_response_norm: {name: lrn, size: 3}\n"
    "  - conv: {name: depth, out: 8, kernel: 3, stride: 2, pad: 1, groups: 8}\n  - silu: {name: s}\n"
    "  - global_avg_pool: {name: squeeze}\n  - conv: {name: fc1, out: 6, kernel: 1}\n  - tanh: {name: t}\n"
    "  - conv: {name: fc2, out: 8, kernel: 1}\n  - sigmoid: {name: gate}\n  - mul: {name: scaled, from: [s, "
    "gate]}\n"
    "  - conv_transpose: {name: up, out: 6, kernel: 4, stride: 2, pad: 1}\n"
    "  - group_norm: {name: gn, groups: 2}\n  - gelu: {name: g}\n  - conv: {name: d, out: 4, kernel: 1}\n"
    "  - cross_entropy: {name: loss}\n",
};
#define NETWORKS ((int)(sizeof(networks) / sizeof(*networks)))

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

/* Axes whose product is the number of ranks, in random order and of random kind. */
static void draw_mesh(pdl_mesh_t *mesh, const pdl_model_t *model)
{
    int left = pdl_ranks_size(world);

    *mesh = (pdl_mesh_t){0};
    while (left > 1 || mesh->axis_count == 0) {
        int size = left;
        for (int divisor = 2; divisor < left; divisor++)
            if (left % divisor == 0 && between(0, 1)) size = divisor;
        pdl_axis_t axis = {.kind = (pdl_axis_kind_t)between(PDL_AXIS_DATA, PDL_AXIS_TENSOR), .size = size};
        if (axis.kind == PDL_AXIS_SPATIAL) axis.dim = (int)between(0, pdl_model_input(model).rank - 1);
        mesh->axis[mesh->axis_count++] = axis;
        left /= size;
    }
}

static bool cuts_the_same(const pdl_mesh_t *mesh, int a)
{
    for (int b = 0; b < mesh->axis_count; b++)
        if (b != a && mesh->axis[b].kind != PDL_AXIS_DATA && mesh->axis[b].dim == mesh->axis[a].dim) return true;
    return false;
}

/* A mode that the layer allows on an axis; splits of one dimension over two axes are left to the presets, but for
   samples. */
static pdl_mode_t draw_mode(const pdl_layer_t *layer, const pdl_mesh_t *mesh, int a, const pdl_modes_t *modes)
{
    static const pdl_mode_t spatial[] = {PDL_MODE_SPACE, PDL_MODE_SPACE, PDL_MODE_PASS, PDL_MODE_REPLICATE,
                                         PDL_MODE_SAMPLE};
    static const pdl_mode_t tensor[] = {PDL_MODE_VOCABULARY, PDL_MODE_FILTER,    PDL_MODE_CHANNEL, PDL_MODE_HEADS,
                                        PDL_MODE_PASS,       PDL_MODE_REPLICATE, PDL_MODE_SAMPLE,  PDL_MODE_SPACE};
    const pdl_axis_t       *axis = &mesh->axis[a];

    if (axis->kind == PDL_AXIS_DATA) return PDL_MODE_SAMPLE;
    for (int attempt = 0; attempt < 20; attempt++) {
        pdl_mode_t mode = axis->kind == PDL_AXIS_SPATIAL ? spatial[between(0, 4)] : tensor[between(0, 7)];
        if (layer->type == PDL_LAYER_MOE && axis->kind == PDL_AXIS_TENSOR && between(0, 1)) mode = PDL_MODE_EXPERT;
        bool twice = mode == PDL_MODE_SPACE && cuts_the_same(mesh, a);
        for (int b = 0; b < a; b++)
            twice |= mode != PDL_MODE_PASS && modes->on[b] == (uint8_t)mode && mode != PDL_MODE_REPLICATE &&
                     mode != PDL_MODE_SPACE && mode != PDL_MODE_SAMPLE;
        if (!twice && pdl_mode_allowed(layer, mode, axis, NULL, 0)) return mode;
    }
    return PDL_MODE_REPLICATE;
}

/* A mode for every layer; of a sequence over tensor axes sometimes those of the preset with sequence parallelism. */
static void draw_modes(pdl_plan_t *plan)
{
    plan->sequence_parallel = between(0, 1);
    if (plan->sequence_parallel && pdl_model_input(plan->model).sequence &&
        !pdl_strategy_check_mesh(pdl_strategy_find("data+tensor"), &plan->mesh) &&
        !pdl_plan_apply_preset(plan, "data+tensor", NULL))
        return;
    for (int i = 1; i < pdl_model_layer_count(plan->model); i++)
        for (int a = 0; a < plan->mesh.axis_count; a++)
            plan->modes[i].on[a] =
                (uint8_t)draw_mode(pdl_model_layer(plan->model, i), &plan->mesh, a, &plan->modes[i]);
}

/* Blocks with any memory policy; stages are none. */
static pdl_status_t draw_blocks(pdl_plan_t *plan)
{
    pdl_plan_block_t blocks[64];
    int              count = 0, layers = pdl_model_layer_count(plan->model);

    for (int i = 0; i < layers; i++) {
        pdl_plan_block_t block = {.last = i,
                                  .policy = (pdl_memory_policy_t)between(0, PDL_MEMORY_POLICY_COUNT - 1)};
        if (pdl_memory_swaps(block.policy)) {
            block.release_after = (int)between(0, 3);
            block.prefetch = (int)between(0, 3);
        }
        if (i == layers - 1 || (count < 63 && between(0, 2) == 0)) blocks[count++] = block;
    }
    return pdl_plan_set_blocks(plan, blocks, count);
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
        (size_t)snprintf(text, size, "%s on %s, sharding %s:", pdl_model_name(plan->model),
                         pdl_mesh_format(&plan->mesh, mesh, sizeof(mesh)), pdl_sharding_names[plan->sharding]);

    for (int i = 1; i < pdl_model_layer_count(plan->model) && used + 64 < size; i++) {
        used += (size_t)snprintf(text + used, size - used, " %s", pdl_model_layer(plan->model, i)->name);
        for (int a = 0; a < plan->mesh.axis_count; a++)
            used += (size_t)snprintf(text + used, size - used, "%c%s", a ? ',' : '=',
                                     pdl_mode_names[plan->modes[i].on[a]]);
    }
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
    draw_mesh(&mesh, model);
    if (pdl_plan_create(model, &mesh, batch, &plan) || pdl_plan_create(model, &one, batch, &serial)) return -1;
    draw_modes(plan);
    plan->sharding = (pdl_sharding_t)between(PDL_SHARDING_NONE, PDL_SHARDING_ZERO3);
    /* Batch norm, in the first network, would see other samples together. */
    if (which > 0 && batch % (2 * pdl_mesh_extent(&mesh, PDL_AXIS_DATA)) == 0) plan->micro_batches = between(1, 2);
    if (between(0, 1) && draw_blocks(plan)) return -1;
    plan->sync_batch_norm = true;
    serial->sync_batch_norm = true;
    describe(plan, text, sizeof(text));
    outcome_t    expected, got, one_by_one = {0}, shared = {0};
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
               (guard && (status = run_plan(plan, world, BY_IPC, &data, &shared)))) {
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
