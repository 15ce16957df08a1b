/*
 * Which transfers a plan compiles to, and how large they are: the worked example of the layout algebra, the
 * published forms, transformer pairs, and sizes against an enumeration of what every rank holds.
 */
#include "random.h"
#include "test.h"

#include <paradl/plan/partition.h>

#include <stdlib.h>

static const char two_convolutions[] =
    "paradl: model/1\nname: two\ninput: {channels: 8, size: [12, 12]}\nlayers:\n"
    "  - conv: {name: conv1, out: 16, kernel: 3, pad: 1}\n  - relu: {name: relu}\n"
    "  - conv: {name: conv2, out: 8, kernel: 3, pad: 1}\n  - global_avg_pool: {name: pool}\n  - flatten: {name: "
    "flat}\n"
    "  - linear: {name: fc, out: 10}\n  - cross_entropy: {name: loss}\n";

static pdl_model_t *read_model(const char *text)
{
    pdl_model_t *model = NULL;

    CHECK_OK(pdl_model_read_yaml_memory(text, strlen(text), "model", &model));
    return model;
}

static pdl_model_t *load_model(const char *name)
{
    pdl_model_t *model = NULL;

    REQUIRE_OK(pdl_model_load(name, &model));
    return model;
}

static pdl_partition_t *compile(pdl_plan_t *plan, double micro_batch)
{
    pdl_partition_t *partition = NULL;

    CHECK_OK(pdl_plan_check(plan));
    REQUIRE_OK(pdl_partition_create(plan, micro_batch, &partition));
    return partition;
}

static void set_mode(pdl_plan_t *plan, const char *layer, int axis, pdl_mode_t mode)
{
    int i = pdl_model_find_layer(plan->model, layer);

    CHECK(i >= 0);
    if (i >= 0) plan->modes[i].on[axis] = (uint8_t)mode;
}

/* How many transfers of a kind, and their elements together; layer NULL: all. */
static int count(const pdl_partition_t *p, const char *layer, pdl_phase_t phase, pdl_primitive_t primitive,
                 double *elements)
{
    int index = layer ? pdl_model_find_layer(p->plan->model, layer) : -1, found = 0;

    if (elements) *elements = 0;
    for (int i = 0; i < p->transfer_count; i++) {
        const pdl_transfer_t *t = &p->transfers[i];
        if (t->phase != phase || t->primitive != primitive || (layer && t->layer != index)) continue;
        found++;
        if (elements) *elements += t->elements;
    }
    return found;
}

static int total(const pdl_partition_t *p, pdl_phase_t phase)
{
    int found = 0;

    for (int i = 0; i < p->transfer_count; i++) found += p->transfers[i].phase == phase;
    return found;
}

static void worked_example(void)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2};
    pdl_model_t     *model = read_model(two_convolutions);
    pdl_plan_t      *plan;
    double           elements;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    set_mode(plan, "conv1", 1, PDL_MODE_FILTER);
    set_mode(plan, "conv2", 1, PDL_MODE_CHANNEL);
    set_mode(plan, "fc", 1, PDL_MODE_REPLICATE);
    pdl_partition_t *p = compile(plan, 4);
    /* One allreduce in the tensor axis forward, none backward, one exchange in the data axis. */
    CHECK_INT(total(p, PDL_PHASE_FORWARD), 1);
    CHECK_INT(count(p, "pool", PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 1);
    CHECK_NEAR(elements, 4 * 8 * 12 * 12, 0);
    CHECK_INT(p->transfers[0].axis, 1);
    CHECK_INT(total(p, PDL_PHASE_BACKWARD), 0);
    CHECK_INT(total(p, PDL_PHASE_GRADIENT), 3);
    for (int i = p->first_gradient; i < p->transfer_count; i++) CHECK_INT(p->transfers[i].axis_mask, 1);
    /* The bias follows the output: split with the filters of conv1, whole beside the channels of conv2. */
    count(p, "conv1", PDL_PHASE_GRADIENT, PDL_ALLREDUCE, &elements);
    CHECK_NEAR(elements, 8 * 8 * 9 + 8, 0);
    count(p, "conv2", PDL_PHASE_GRADIENT, PDL_ALLREDUCE, &elements);
    CHECK_NEAR(elements, 8 * 8 * 9 + 8, 0);
    count(p, "fc", PDL_PHASE_GRADIENT, PDL_ALLREDUCE, &elements);
    CHECK_NEAR(elements, 8 * 10 + 10, 0);
    /* What rank 3 holds: samples 4..7; y1 channels 8..15; y2 whole, as a partial sum. */
    CHECK_NEAR(p->local[1].samples, 4, 0);
    CHECK_NEAR(p->local[1].y_elements, 8 * 144, 0);
    CHECK_NEAR(p->local[2].y_elements, 8 * 144, 0);
    CHECK_NEAR(p->local[3].x_elements, 8 * 144, 0);
    CHECK_NEAR(p->local[3].y_elements, 8 * 144, 0);
    CHECK_INT(p->local[1].out[1], PDL_SPLIT_C);
    CHECK_INT(p->local[3].out[1], PDL_PARTIAL);
    CHECK_INT(p->local[4].out[1], PDL_REPLICATED);
    CHECK_NEAR(p->local[1].share_forward, 0.5, 0);
    CHECK_NEAR(p->local[6].replication, 2, 0);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* A preset on one inner axis (and data replicas), compiled. */
typedef struct made {
    pdl_model_t     *model;
    pdl_plan_t      *plan;
    pdl_partition_t *partition;
} made_t;

static made_t make(const char *name, const char *strategy, pdl_axis_kind_t kind, int64_t data, int64_t inner,
                   bool published, bool sequence_parallel, double micro_batch)
{
    const pdl_mesh_t           mesh = {{{PDL_AXIS_DATA, data, 0}, {kind, inner, 0}}, 2};
    const pdl_preset_options_t options = {.published = published};
    made_t                     m = {load_model(name), NULL, NULL};

    REQUIRE_OK(pdl_plan_create(m.model, &mesh, (int64_t)micro_batch * data, &m.plan));
    m.plan->sequence_parallel = sequence_parallel;
    CHECK_OK(pdl_plan_apply_preset(m.plan, strategy, &options));
    m.partition = compile(m.plan, micro_batch);
    return m;
}

static void drop(made_t *m)
{
    pdl_partition_destroy(m->partition);
    pdl_plan_destroy(m->plan);
    pdl_model_destroy(m->model);
}

/* Output elements of the convolutions of a model, per sample; the first one or the last one left out. */
static double conv_outputs(const pdl_model_t *model, bool without_first)
{
    double sum = 0, first = -1;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type != PDL_LAYER_CONV) continue;
        if (first < 0) first = (double)layer->y_elements;
        sum += (double)layer->y_elements;
    }
    return without_first ? sum - first : sum;
}

static double conv_inputs_but_first(const pdl_model_t *model)
{
    double sum = 0;

    for (int i = 0; i < pdl_model_layer_count(model); i++) {
        const pdl_layer_t *layer = pdl_model_layer(model, i);
        if (layer->type == PDL_LAYER_CONV && layer->needs_input_gradient) sum += (double)layer->x_elements;
    }
    return sum;
}

/* Published: y of every convolution gathered, dx of every one but the first reduced. */
static void published_filter_form(void)
{
    made_t m = make("vgg16", "filter", PDL_AXIS_TENSOR, 1, 4, true, false, 32);
    double elements;

    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLGATHER, &elements), 13);
    CHECK_NEAR(elements, 32 * conv_outputs(m.model, false), 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_FORWARD), 13);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_ALLREDUCE, &elements), 12);
    CHECK_NEAR(elements, 32 * conv_inputs_but_first(m.model), 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_BACKWARD), 12);
    CHECK_INT(total(m.partition, PDL_PHASE_GRADIENT), 0);
    drop(&m);
}

/* Published: y of every convolution but the first reduced, dx gathered. */
static void published_channel_form(void)
{
    made_t m = make("vgg16", "channel", PDL_AXIS_TENSOR, 1, 4, true, false, 32);
    double elements;

    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 12);
    CHECK_NEAR(elements, 32 * conv_outputs(m.model, true), 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_FORWARD), 12);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_ALLGATHER, &elements), 12);
    CHECK_NEAR(elements, 32 * conv_inputs_but_first(m.model), 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_BACKWARD), 12);
    drop(&m);
}

/* Better form: S(C) passes through channel-wise layers; dx is scattered to where its producer's piece is. */
static void default_filter_form(void)
{
    made_t m = make("vgg16", "filter", PDL_AXIS_TENSOR, 1, 4, false, false, 32);

    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLGATHER, NULL), 15);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_REDUCE_SCATTER, NULL), 15);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_ALLREDUCE, NULL), 0);
    /* The loss finds the classes split: maximum and sum of each sample. */
    CHECK_INT(count(m.partition, "loss", PDL_PHASE_FORWARD, PDL_ALLREDUCE, NULL), 1);
    drop(&m);
}

static void data_exchanges_all_gradients(void)
{
    made_t             m = make("resnet50", "data", PDL_AXIS_TENSOR, 8, 1, false, false, 32);
    pdl_model_totals_t totals;
    double             elements;
    int                tensors = 0;

    pdl_model_totals(m.model, &totals);
    CHECK_INT(total(m.partition, PDL_PHASE_FORWARD) + total(m.partition, PDL_PHASE_BACKWARD), 0);
    count(m.partition, NULL, PDL_PHASE_GRADIENT, PDL_ALLREDUCE, &elements);
    CHECK_NEAR(elements, (double)totals.weights, 0);
    for (int i = m.partition->first_gradient; i < m.partition->transfer_count; i++)
        tensors += m.partition->transfers[i].tensors;
    CHECK_INT(tensors, totals.weight_tensors);
    /* In backward order. */
    for (int i = m.partition->first_gradient + 1; i < m.partition->transfer_count; i++)
        CHECK(m.partition->transfers[i].layer < m.partition->transfers[i - 1].layer);
    drop(&m);
}

/* Two rows of every 3x3 convolution's input to an inner piece, one gather at the end of the split. */
static void spatial_exchanges_halos(void)
{
    made_t m = make("vgg16", "data+spatial", PDL_AXIS_SPATIAL, 2, 4, false, false, 8);
    double elements;

    CHECK_INT(count(m.partition, "features.2", PDL_PHASE_FORWARD, PDL_HALO, &elements), 1);
    CHECK_NEAR(elements, 8 * 64 * 224, 0);
    CHECK_INT(count(m.partition, "features.2", PDL_PHASE_BACKWARD, PDL_HALO, &elements), 1);
    CHECK_NEAR(elements, 8 * 64 * 224, 0);
    /* The first convolution needs no input gradient. */
    CHECK_INT(count(m.partition, "features.0", PDL_PHASE_FORWARD, PDL_HALO, NULL), 1);
    CHECK_INT(count(m.partition, "features.0", PDL_PHASE_BACKWARD, PDL_HALO, NULL), 0);
    /* 13 convolutions; and two poolings whose 14 and 7 outputs four pieces share out at other borders. */
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_HALO, NULL), 13 + 2);
    CHECK_INT(count(m.partition, "features.4", PDL_PHASE_FORWARD, PDL_HALO, NULL), 0);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLGATHER, &elements), 1);
    CHECK_NEAR(elements, 8 * 512 * 7 * 7, 0);
    for (int i = m.partition->first_gradient; i < m.partition->transfer_count; i++) {
        const pdl_transfer_t *t = &m.partition->transfers[i];
        bool                  linear = pdl_model_layer(m.model, t->layer)->type == PDL_LAYER_LINEAR;
        CHECK_INT(t->axis_mask, linear ? 1 : 3);
    }
    drop(&m);
}

/* Global pooling of pieces is a partial sum: C values are reduced instead of a tensor gathered. */
static void pooled_pieces_are_summed(void)
{
    made_t m = make("resnet50", "spatial", PDL_AXIS_SPATIAL, 1, 2, false, false, 4);
    double elements;

    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 1);
    CHECK_NEAR(elements, 4 * 2048, 0);
    CHECK_INT(count(m.partition, "avgpool", PDL_PHASE_FORWARD, PDL_HALO, NULL), 0);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLGATHER, NULL), 0);
    CHECK_INT(total(m.partition, PDL_PHASE_BACKWARD), count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_HALO, NULL));
    drop(&m);
}

/* Two axes cut an image: faces and, dimension by dimension, corners. */
static void two_spatial_axes(void)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_SPATIAL, 3, 0}, {PDL_AXIS_SPATIAL, 3, 1}}, 2};
    pdl_model_t     *model = read_model(two_convolutions);
    pdl_plan_t      *plan;
    double           elements = 0;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 2, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "spatial", NULL));
    pdl_partition_t *p = compile(plan, 2);
    for (int i = 0; i < p->transfer_count; i++)
        if (p->transfers[i].layer == 3 && p->transfers[i].phase == PDL_PHASE_FORWARD)
            elements += p->transfers[i].elements * p->transfers[i].neighbours;
    /* The middle piece has 4x4 pixels and needs 6x6. */
    CHECK_NEAR(elements, 2 * 16 * (36 - 16), 1e-12);
    CHECK_NEAR(p->local[3].y_elements, 8 * 16, 0);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* Column and row pairs: 2 allreduces of b s h forward and 2 backward a layer, one more at each end. */
static void transformer_pairs(void)
{
    made_t m = make("megatron-1.7b", "data+tensor", PDL_AXIS_TENSOR, 2, 8, false, false, 4);
    int    layers = 24, hidden = 2304, tokens = 2048;
    double elements, one = 4.0 * tokens * hidden;

    CHECK_INT(count(m.partition, NULL, PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 2 * layers + 2);
    CHECK_NEAR(elements, (2 * layers + 1) * one + 2 * 4 * tokens, 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_FORWARD), 2 * layers + 2);
    CHECK_INT(count(m.partition, NULL, PDL_PHASE_BACKWARD, PDL_ALLREDUCE, &elements), 2 * layers + 1);
    CHECK_NEAR(elements, (2 * layers + 1) * one, 1e-12);
    CHECK_INT(total(m.partition, PDL_PHASE_BACKWARD), 2 * layers + 1);
    /* The embedding is split by words; the loss reduces a maximum and a sum per token. */
    count(m.partition, "loss", PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements);
    CHECK_NEAR(elements, 2 * 4 * tokens, 0);
    int wte = pdl_model_find_layer(m.model, "wte");
    CHECK_NEAR(m.partition->local[wte].weights, (double)pdl_model_layer(m.model, wte)->weights / 8, 1e-12);
    drop(&m);
}

/* Sequence parallelism: reduce-scatter and allgather of the same volume, activations in between split. */
static void sequence_parallel_pairs(void)
{
    made_t m = make("megatron-1.7b", "data+tensor", PDL_AXIS_TENSOR, 2, 8, false, true, 4);
    int    layers = 24, hidden = 2304, tokens = 2048;
    double elements, one = 4.0 * tokens * hidden;

    for (int phase = PDL_PHASE_FORWARD; phase <= PDL_PHASE_BACKWARD; phase++) {
        CHECK_INT(count(m.partition, NULL, (pdl_phase_t)phase, PDL_REDUCE_SCATTER, &elements), 2 * layers + 1);
        CHECK_NEAR(elements, (2 * layers + 1) * one, 1e-12);
        CHECK_INT(count(m.partition, NULL, (pdl_phase_t)phase, PDL_ALLGATHER, &elements), 2 * layers + 1);
        CHECK_NEAR(elements, (2 * layers + 1) * one, 1e-12);
        CHECK_INT(count(m.partition, NULL, (pdl_phase_t)phase, PDL_ALLREDUCE, NULL), phase == PDL_PHASE_FORWARD);
    }
    int ln = pdl_model_find_layer(m.model, "h.3.ln_1");
    CHECK_NEAR(m.partition->local[ln].y_elements, (double)tokens * hidden / 8, 0);
    CHECK_INT(m.partition->local[ln].gradient_axes, 3);
    drop(&m);
}

/* Tokens on the spatial axis, channels on the tensor axis inside of it: a pair sums its rank's tokens over the tensor axis, and
   attention gets the heads of a tensor rank from all tokens over the spatial one. */
static void tokens_beside_pairs(void)
{
    enum { SPATIAL = 1, TENSOR = 2 };
    const pdl_mesh_t mesh = {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 4, 0}}, 3};
    pdl_model_t     *model = load_model("megatron-1.7b");
    pdl_plan_t      *plan;
    int              layers = 24, hidden = 2304, tokens = 2048, moves = 0;
    double           one = 4.0 * tokens * hidden, elements;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data+tensor+context", NULL));
    pdl_partition_t *p = compile(plan, 4);
    CHECK_INT(count(p, NULL, PDL_PHASE_FORWARD, PDL_ALLTOALL, &elements), 2 * layers);
    CHECK_NEAR(elements, layers * (3 + 1) * one / 4, 1e-12);
    CHECK_INT(count(p, NULL, PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 2 * layers + 2);
    CHECK_NEAR(elements, (2 * layers + 1) * one / 2 + 2 * 4 * tokens, 1e-12);
    for (int i = 0; i < p->first_gradient; i++) {
        moves += p->transfers[i].axis == SPATIAL;
        CHECK_INT(p->transfers[i].axis, p->transfers[i].primitive == PDL_ALLTOALL ? SPATIAL : TENSOR);
    }
    CHECK_INT(moves, 4 * layers);
    int attention = pdl_model_find_layer(model, "h.3.attn"), norm = pdl_model_find_layer(model, "h.3.ln_1");
    CHECK_NEAR(p->local[attention].share_forward, 1.0 / 8, 0);
    CHECK_NEAR(p->local[norm].y_elements, (double)tokens * hidden / 2, 0);
    /* Weights of a pair are summed over replicas and tokens; norms see all tokens of their part on every tensor rank. */
    CHECK_INT(p->local[pdl_model_find_layer(model, "h.3.mlp.c_fc")].gradient_axes, 1u << 0 | 1u << SPATIAL);
    CHECK_INT(p->local[norm].gradient_axes, 1u << 0 | 1u << SPATIAL);
    pdl_partition_destroy(p);
    plan->sequence_parallel = true;
    CHECK_OK(pdl_plan_apply_preset(plan, "data+tensor+context", NULL));
    p = compile(plan, 4);
    CHECK_NEAR(p->local[norm].y_elements, (double)tokens * hidden / 8, 0);
    CHECK_INT(p->local[norm].gradient_axes, 1u << 0 | 1u << SPATIAL | 1u << TENSOR);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static const char mixture[] = "paradl: model/1\nname: mixture\ninput: {tokens: 6, vocabulary: 11}\nlayers:\n"
                              "  - embedding: {name: wte, out: 8}\n"
                              "  - moe: {name: m, experts: 8, top_k: 2, hidden: 10, gated: true}\n"
                              "  - linear: {name: head, out: 11}\n  - cross_entropy: {name: loss}\n";

/* Replicas that share experts out send each other the tokens of all of them, and sum gradients of experts with the others alone. */
static void experts_of_replicas(void)
{
    const pdl_mesh_t           mesh = {{{PDL_AXIS_DATA, 3, 0}, {PDL_AXIS_DATA, 4, 0}}, 2};
    const pdl_preset_options_t options = {.expert_axis = 1};
    pdl_model_t               *model = read_model(mixture);
    pdl_plan_t                *plan;
    double                     elements;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 24, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", &options));
    CHECK_INT(pdl_plan_expert_axis(plan), 1);
    pdl_partition_t *p = compile(plan, 2);
    int              m = pdl_model_find_layer(model, "m"), head = pdl_model_find_layer(model, "head");
    CHECK_INT(count(p, "m", PDL_PHASE_FORWARD, PDL_ALLTOALL, &elements), 2);
    CHECK_NEAR(elements, 2 * 4 * 2 * 2 * 6 * 8, 0);
    CHECK_INT(count(p, "m", PDL_PHASE_BACKWARD, PDL_ALLTOALL, NULL), 2);
    CHECK_INT(total(p, PDL_PHASE_FORWARD) + total(p, PDL_PHASE_BACKWARD), 4);
    for (int i = 0; i < p->first_gradient; i++) CHECK_INT(p->transfers[i].axis, 1);
    CHECK_INT(p->local[m].gradient_axes, 1);
    CHECK_INT(p->local[head].gradient_axes, 3);
    CHECK_NEAR(p->local[m].weights, (double)pdl_model_layer(model, m)->weights / 4, 1e-12);
    CHECK_NEAR(p->local[m].experts_over, 4, 0);
    CHECK_NEAR(p->local[m].share_forward, 1, 0);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    /* Ranks of a context axis share them out with the replicas, each with its own tokens; by hand they may have the same ones. */
    const pdl_mesh_t context = {{{PDL_AXIS_DATA, 3, 0}, {PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 3};
    REQUIRE_OK(pdl_plan_create(model, &context, 24, &plan));
    CHECK_ERROR(pdl_plan_apply_preset(plan, "data+context", &options), "no attention");
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        plan->modes[i].on[0] = plan->modes[i].on[1] = PDL_MODE_SAMPLE;
        plan->modes[i].on[2] = PDL_MODE_SPACE;
    }
    plan->modes[m].on[1] = plan->modes[m].on[2] = PDL_MODE_EXPERT;
    CHECK_INT(pdl_plan_expert_ranks(plan, PDL_AXIS_DATA), 2);
    CHECK_INT(pdl_plan_expert_ranks(plan, PDL_AXIS_SPATIAL), 2);
    p = compile(plan, 2);
    CHECK_INT(count(p, "m", PDL_PHASE_FORWARD, PDL_ALLTOALL, &elements), 4);
    CHECK_INT(p->local[m].gradient_axes, 1);
    CHECK_INT(p->local[head].gradient_axes, 7);
    CHECK_NEAR(p->local[m].weights, (double)pdl_model_layer(model, m)->weights / 4, 1e-12);
    CHECK_NEAR(p->local[m].y_elements, 3 * 8, 0);
    pdl_partition_destroy(p);
    plan->modes[m].on[2] = PDL_MODE_SPACE;
    p = compile(plan, 2);
    CHECK_INT(count(p, "m", PDL_PHASE_FORWARD, PDL_ALLTOALL, NULL), 2);
    CHECK_INT(p->local[m].gradient_axes, 1 | 4);
    CHECK_NEAR(p->local[m].weights, (double)pdl_model_layer(model, m)->weights / 2, 1e-12);
    pdl_partition_destroy(p);
    pdl_plan_destroy(plan);
    /* Nine ranks have no expert each; a network without mixtures has none to share out. */
    const pdl_mesh_t wide = {{{PDL_AXIS_PIPELINE, 1, 0}, {PDL_AXIS_DATA, 9, 0}}, 2};
    REQUIRE_OK(pdl_plan_create(model, &wide, 18, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", &options));
    CHECK_ERROR(pdl_plan_check(plan), "layer m has 8 experts");
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
    model = load_model("lenet");
    REQUIRE_OK(pdl_plan_create(model, &mesh, 24, &plan));
    CHECK_ERROR(pdl_plan_apply_preset(plan, "data", &options), "no mixture of experts");
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void inference_has_no_backward(void)
{
    made_t m = make("gpt2-124m", "data+tensor", PDL_AXIS_TENSOR, 2, 4, false, false, 2);

    pdl_partition_destroy(m.partition);
    m.plan->run_mode = PDL_INFERENCE;
    m.partition = compile(m.plan, 2);
    CHECK(total(m.partition, PDL_PHASE_FORWARD) > 0);
    CHECK_INT(total(m.partition, PDL_PHASE_BACKWARD) + total(m.partition, PDL_PHASE_GRADIENT), 0);
    drop(&m);
}

static void statistics_of_synchronised_norms(void)
{
    made_t m = make("resnet18", "data+spatial", PDL_AXIS_SPATIAL, 2, 2, false, false, 4);

    CHECK_INT(count(m.partition, "bn1", PDL_PHASE_FORWARD, PDL_ALLREDUCE, NULL), 0);
    pdl_partition_destroy(m.partition);
    m.plan->sync_batch_norm = true;
    m.partition = compile(m.plan, 4);
    double elements;
    CHECK_INT(count(m.partition, "bn1", PDL_PHASE_FORWARD, PDL_ALLREDUCE, &elements), 2);
    CHECK_NEAR(elements, 2 * 2 * 64, 0);
    CHECK_INT(count(m.partition, "bn1", PDL_PHASE_BACKWARD, PDL_ALLREDUCE, NULL), 2);
    drop(&m);
}

/* --- Sizes against an enumeration over all ranks, with extents that no axis divides. --- */

static const char uneven_text[] = "paradl: model/1\nname: uneven\ninput: {channels: 5, size: [11, 9]}\nlayers:\n"
                                  "  - conv: {name: first, out: 7, kernel: 1, bias: false}\n  - conv: {name: "
                                  "second, out: 5, kernel: 1, bias: false}\n";

/* Elements of the group's whole vector of a tensor [n][c][s0][s1], for the largest group of an axis. */
static int64_t largest_group(const pdl_mesh_t *mesh, const int64_t dims[4], const pdl_placement_t *on, int axis)
{
    static const int dim_of[PDL_PLACEMENT_COUNT] = {-1, -1, 0, 1, 2, 3, -1};
    int64_t          most = 0, c[PDL_MAX_AXES];

    for (int64_t rank = 0; rank < pdl_mesh_size(mesh); rank++) {
        int64_t low[4] = {0}, high[4], elements = 1;
        memcpy(high, dims, sizeof(high));
        pdl_mesh_coordinates(mesh, rank, c);
        for (int a = 0; a < mesh->axis_count; a++) {
            int d = dim_of[on[a]];
            if (a == axis || d < 0) continue;
            int64_t from, to;
            pdl_block_range(high[d] - low[d], mesh->axis[a].size, c[a], &from, &to);
            high[d] = low[d] + to;
            low[d] += from;
        }
        for (int d = 0; d < 4; d++) elements *= high[d] - low[d];
        if (elements > most) most = elements;
    }
    return most;
}

static const struct choice {
    pdl_mode_t      mode;
    pdl_placement_t writes, reads;
} choices[] = {
    {PDL_MODE_REPLICATE, PDL_REPLICATED, PDL_REPLICATED}, {PDL_MODE_SAMPLE, PDL_SPLIT_N, PDL_SPLIT_N},
    {PDL_MODE_SPACE, PDL_SPLIT_S0, PDL_SPLIT_S0},         {PDL_MODE_FILTER, PDL_SPLIT_C, PDL_REPLICATED},
    {PDL_MODE_CHANNEL, PDL_PARTIAL, PDL_SPLIT_C},
};

static void check_edge(const pdl_partition_t *p, const int64_t dims[4], const int pick[2][2])
{
    const pdl_mesh_t *mesh = &p->plan->mesh;
    pdl_placement_t   now[PDL_MAX_AXES] = {0}, reads[PDL_MAX_AXES] = {0};
    int               moves = 0;
    double            before = 0;

    for (int a = 0; a < 2; a++) {
        now[a] = choices[pick[0][a]].writes;
        reads[a] = choices[pick[1][a]].reads;
        if (choices[pick[0][a]].mode == PDL_MODE_SPACE)
            now[a] = (pdl_placement_t)(PDL_SPLIT_S0 + mesh->axis[a].dim);
        if (choices[pick[1][a]].mode == PDL_MODE_SPACE)
            reads[a] = (pdl_placement_t)(PDL_SPLIT_S0 + mesh->axis[a].dim);
        if (now[a] == PDL_REPLICATED)
            now[a] = reads[a] == PDL_REPLICATED ? now[a] : reads[a]; /* a slice, at once */
        moves += pdl_redistribution(now[a], reads[a]) != PDL_LOCAL;
    }
    for (int i = 0; i < p->transfer_count; i++) {
        const pdl_transfer_t *t = &p->transfers[i];
        if (t->layer != 2 || t->phase != PDL_PHASE_FORWARD) continue;
        moves--;
        CHECK_INT(t->primitive, pdl_redistribution(now[t->axis], reads[t->axis]));
        CHECK_NEAR(t->elements, (double)largest_group(mesh, dims, now, t->axis), 1e-12);
        now[t->axis] = reads[t->axis];
        /* Cheapest order: what shrinks the tensor comes first. */
        double growth = t->primitive == PDL_REDUCE_SCATTER ? 0 : t->primitive == PDL_ALLGATHER ? 2 : 1;
        CHECK(growth >= before);
        before = growth;
    }
    CHECK_INT(moves, 0);
    CHECK_NEAR(p->local[2].x_elements * p->local[2].samples, (double)largest_group(mesh, dims, reads, -1), 1e-12);
}

static void sizes_equal_enumeration(void)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 3, 1}}, 2};
    const int64_t    dims[4] = {5, 7, 11, 9};
    pdl_model_t     *model = read_model(uneven_text);
    pdl_plan_t      *plan;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 5, &plan));
    for (int combination = 0; combination < 625; combination++) {
        const int pick[2][2] = {{combination % 5, combination / 5 % 5}, {combination / 25 % 5, combination / 125}};
        for (int a = 0; a < 2; a++) {
            plan->modes[1].on[a] = (uint8_t)choices[pick[0][a]].mode;
            plan->modes[2].on[a] = (uint8_t)choices[pick[1][a]].mode;
        }
        /* One dimension cut by two axes nests; the pieces of a group are then no block of it. */
        if (choices[pick[0][0]].writes == choices[pick[0][1]].writes && pick[0][0] != 0 && pick[0][0] != 2)
            continue;
        if (choices[pick[1][0]].reads == choices[pick[1][1]].reads && choices[pick[1][0]].reads != PDL_REPLICATED &&
            pick[1][0] != 2)
            continue;
        if (choices[pick[0][0]].writes == choices[pick[1][1]].reads && choices[pick[1][1]].reads > PDL_PARTIAL)
            continue;
        if (choices[pick[0][1]].writes == choices[pick[1][0]].reads && choices[pick[1][0]].reads > PDL_PARTIAL)
            continue;
        pdl_partition_t *p = compile(plan, 5);
        if (p) check_edge(p, dims, pick);
        pdl_partition_destroy(p);
    }
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* Halo bytes of the busiest of uneven pieces, by enumeration of the rows it lacks. */
static void halo_bytes_equal_enumeration(void)
{
    for (int64_t pieces = 2; pieces <= 6; pieces++) {
        const pdl_mesh_t mesh = {{{PDL_AXIS_SPATIAL, pieces, 0}}, 1};
        pdl_model_t     *model = load_model("lenet");
        pdl_plan_t      *plan;

        REQUIRE_OK(pdl_plan_create(model, &mesh, 3, &plan));
        CHECK_OK(pdl_plan_apply_preset(plan, "spatial", NULL));
        pdl_partition_t *p = compile(plan, 3);
        for (int i = 0; i < p->transfer_count; i++) {
            const pdl_transfer_t *t = &p->transfers[i];
            const pdl_layer_t    *layer = pdl_model_layer(model, t->layer);
            int64_t               most = 0;
            if (t->primitive != PDL_HALO) continue;
            for (int64_t r = 0; r < pieces; r++) {
                int64_t low, high, own_low, own_high, missing = 0;
                pdl_block_range(layer->out.extent[0], pieces, r, &low, &high);
                pdl_block_range(layer->in.extent[0], pieces, r, &own_low, &own_high);
                low = low * layer->stride[0] - layer->pad_low[0];
                high = (high - 1) * layer->stride[0] - layer->pad_low[0] + layer->kernel[0];
                for (int64_t x = 0; x < layer->in.extent[0]; x++)
                    missing += x >= low && x < high && (x < own_low || x >= own_high);
                if (missing > most) most = missing;
            }
            CHECK_NEAR(t->elements * t->neighbours, 3.0 * (double)(most * layer->in.channels * layer->in.extent[1]),
                       1e-12);
        }
        pdl_partition_destroy(p);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

int main(void)
{
    RUN(worked_example);
    RUN(published_filter_form);
    RUN(published_channel_form);
    RUN(default_filter_form);
    RUN(data_exchanges_all_gradients);
    RUN(spatial_exchanges_halos);
    RUN(pooled_pieces_are_summed);
    RUN(two_spatial_axes);
    RUN(transformer_pairs);
    RUN(sequence_parallel_pairs);
    RUN(tokens_beside_pairs);
    RUN(experts_of_replicas);
    RUN(inference_has_no_backward);
    RUN(statistics_of_synchronised_norms);
    RUN(sizes_equal_enumeration);
    RUN(halo_bytes_equal_enumeration);
    return test_done();
}
