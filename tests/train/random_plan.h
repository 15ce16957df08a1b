/*
 * Random plans of small networks: a random mesh over some ranks, a random legal mode for every layer and axis, random sharding
 * over the data axes and random memory policies.
 */
#ifndef PDL_TESTS_RANDOM_PLAN_H
#define PDL_TESTS_RANDOM_PLAN_H

#include "random.h"
#include <paradl/plan/plan.h>
#include <paradl/plan/strategy.h>

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

/* Axes whose product is the number of ranks, in random order and of random kind. */
static void draw_mesh(pdl_mesh_t *mesh, const pdl_model_t *model, int ranks)
{
    int left = ranks;

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

    if (axis->kind == PDL_AXIS_DATA)
        return layer->type == PDL_LAYER_MOE && layer->experts >= axis->size && between(0, 1) ? PDL_MODE_EXPERT
                                                                                             : PDL_MODE_SAMPLE;
    for (int attempt = 0; attempt < 20; attempt++) {
        pdl_mode_t mode = axis->kind == PDL_AXIS_SPATIAL ? spatial[between(0, 4)] : tensor[between(0, 7)];
        if (layer->type == PDL_LAYER_MOE && axis->kind == PDL_AXIS_TENSOR && between(0, 1)) mode = PDL_MODE_EXPERT;
        /* Half of the tokens that are cut; without a number of its own, so that all other plans are what they were. */
        if (layer->type == PDL_LAYER_MOE && axis->kind == PDL_AXIS_SPATIAL && axis->dim == 0 &&
            mode == PDL_MODE_SPACE && (random_seed >> 40 & 1))
            mode = PDL_MODE_EXPERT;
        bool twice = mode == PDL_MODE_SPACE && cuts_the_same(mesh, a);
        for (int b = 0; b < a; b++)
            twice |= mode != PDL_MODE_PASS && modes->on[b] == (uint8_t)mode && mode != PDL_MODE_REPLICATE &&
                     mode != PDL_MODE_SPACE && mode != PDL_MODE_SAMPLE;
        if (!twice && pdl_mode_allowed(layer, mode, axis, NULL, 0)) return mode;
    }
    return PDL_MODE_REPLICATE;
}

static bool takes_preset(pdl_plan_t *plan, const char *name)
{
    return !pdl_strategy_check_mesh(pdl_strategy_find(name), &plan->mesh) &&
           !pdl_plan_apply_preset(plan, name, NULL) && !pdl_plan_check(plan);
}

static bool has_both(const pdl_mesh_t *mesh)
{
    return pdl_mesh_find(mesh, PDL_AXIS_SPATIAL) >= 0 && pdl_mesh_find(mesh, PDL_AXIS_TENSOR) >= 0;
}

/* A mode for every layer; of a sequence sometimes those of the preset with sequence parallelism, over tensor axes, or that splits
   tokens and heads, over a spatial one, or those of both. */
static void draw_modes(pdl_plan_t *plan)
{
    plan->sequence_parallel = between(0, 1);
    if (plan->sequence_parallel && pdl_model_input(plan->model).sequence &&
        (takes_preset(plan, "data+tensor") || takes_preset(plan, "data+context")))
        return;
    if (has_both(&plan->mesh) && pdl_model_input(plan->model).sequence &&
        (plan->sequence_parallel || plan->batch % 2 == 0) && takes_preset(plan, "data+tensor+context"))
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

/* Sharding, micro-batches and policies of blocks; batch norm would see other samples together in several micro-batches. */
static pdl_status_t draw_policies(pdl_plan_t *plan, bool micro_batches)
{
    plan->sharding = (pdl_sharding_t)between(PDL_SHARDING_NONE, PDL_SHARDING_ZERO3);
    if (micro_batches && plan->batch % (2 * pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA)) == 0)
        plan->micro_batches = between(1, 2);
    plan->optimizer_tier = (pdl_tier_t)between(PDL_TIER_DEVICE, PDL_TIER_HOST);
    if (plan->optimizer_tier == PDL_TIER_HOST &&
        (plan->sharding == PDL_SHARDING_NONE || plan->sharding == PDL_SHARDING_ZERO3))
        plan->weights_tier = (pdl_tier_t)between(PDL_TIER_DEVICE, PDL_TIER_HOST);
    return between(0, 1) ? draw_blocks(plan) : PDL_OK;
}

#endif
