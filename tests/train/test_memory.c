/*
 * What the oracle projects for a run on this kind of machine against what a session takes: models of the zoo are
 * lowered and their buffers placed, but nothing is allocated.
 */
#include "test.h"
#include "train/graph.h"
#include <math.h>
#include <paradl/oracle.h>
#include <stdlib.h>

#define SHARE 0.05

/* Bytes of a session, as pdl_session_memory() counts them. */
typedef struct taken {
    double weights, gradients, optimizer, activations, live;
} taken_t;

typedef struct variant {
    const char     *label;
    int             micro_batches;
    pdl_recompute_t recompute;
    pdl_optimizer_t optimizer;
} variant_t;

static const struct zoo {
    const char *name;
    int64_t     batch;
} zoo[] = {{"lenet", 64},         {"resnet-tiny", 64},  {"resnet18-cifar", 64}, {"resnet50", 8}, {"vgg16", 4},
           {"alexnet", 32},       {"unet", 1},          {"unet3d", 1},          {"cosmoflow-128", 1},
           {"gpt-char", 12},      {"gpt-char-small", 12}, {"gpt2-124m", 4},     {"bert-large", 1},
           {"vit-b16", 4},        {"wrn-28-10", 16},    {"deepcam", 1}};

static double weight_elements(const pdl__graph_t *graph, bool trainable)
{
    double elements = 0;

    for (int u = 0; u < graph->unit_count; u++) {
        const pdl__unit_t *unit = &graph->unit[u];
        for (int k = 0; unit->op && k < unit->op->weight_count; k++)
            if (unit->op->weight[k].trainable == trainable && !(k == 0 && unit->tied_to >= 0))
                elements += (double)((unit->op->weight[k].elements + 15) / 16 * 16);
    }
    return elements;
}

static void lower(const pdl_plan_t *plan, pdl_backend_t *backend, taken_t *taken)
{
    static const double moments[PDL_OPTIMIZER_COUNT] = {0, 1, 2};
    pdl__graph_spec_t   spec = {.plan = plan,
                                .backend = backend,
                                .samples = plan->batch / plan->micro_batches,
                                .training = true};
    pdl_tape_options_t  options = {.micro_batches = (int)plan->micro_batches, .training = true};
    pdl__graph_t       *graph = NULL;
    pdl_tape_t         *tape = NULL;
    pdl_ranks_t        *ranks = NULL;

    CHECK_OK(pdl_ranks_create(&ranks));
    CHECK_OK(pdl__layouts_create(plan, ranks, spec.samples, &spec.layouts));
    CHECK_OK(pdl__graph_create(&spec, &graph));
    if (!graph) return;
    CHECK_OK(pdl_tape_create(graph->node, graph->unit_count, &options, &tape));
    double trainable = weight_elements(graph, true);
    taken->weights = 4 * (trainable + weight_elements(graph, false));
    taken->gradients = 4 * trainable;
    taken->optimizer = 4 * trainable * moments[plan->optimizer];
    taken->activations = (double)tape->arena_bytes;
    taken->live = (double)tape->live_bytes;
    if (getenv("CONV"))
        for (int u = 0; u < graph->unit_count; u++) {
            const pdl_op_t *op = graph->unit[u].op;
            if (!op) continue;
            const pdl_layer_t *l = op->spec.layer;
            if (l->type != PDL_LAYER_CONV && l->type != PDL_LAYER_CONV_TRANSPOSE) continue;
            printf("CONV %s t%d n%d ic %d oc %d in %d %d %d out %d %d %d k %d %d %d s %d d %d g %d relu %d ig %d acc %d out %.0f weight %.0f work %.0f\n", l->name, l->type == PDL_LAYER_CONV_TRANSPOSE, (int)op->spec.samples, (int)l->in.channels, (int)l->out.channels,
                   (int)l->in.extent[0], (int)l->in.extent[1], (int)l->in.extent[2], (int)l->out.extent[0], (int)l->out.extent[1], (int)l->out.extent[2], (int)l->kernel[0], (int)l->kernel[1], (int)l->kernel[2],
                   (int)l->stride[0], (int)l->dilation[0], (int)l->groups, op->spec.fusion.activation != PDL_LAYER_INPUT, op->spec.input_gradient, op->spec.accumulates, (double)op->out_bytes, (double)op->weight[0].elements * 4, (double)op->workspace_bytes);
        }
    if (getenv("DUMP")) {
        int peak = 0; size_t most = 0;
        for (int i = 0; i < tape->op_count; i++) {
            size_t alive = 0;
            for (int k = 0; k < tape->buffer_count; k++)
                if (tape->buffer[k].first <= i && i <= tape->buffer[k].last) alive += tape->buffer[k].bytes;
            if (alive > most) { most = alive; peak = i; }
        }
        const pdl_tape_op_t *op = &tape->op[peak];
        printf("peak at op %d of %d kind %d node %d again %d\n", peak, tape->op_count, op->kind, op->node, op->again);
        for (int u = 0; u < graph->unit_count; u++) {
            const pdl__unit_t *unit = &graph->unit[u];
            const pdl_tape_node_t *n = &graph->node[u];
            double held = 0;
            for (int k = 0; k < tape->buffer_count; k++)
                if (tape->buffer[k].node == u && tape->buffer[k].first <= peak && peak <= tape->buffer[k].last) held += (double)tape->buffer[k].bytes;
            printf("%3d %-16s %-16s kind %d fmt %d out %9.3f saved %8.3f work %8.3f keeps %x %d inpl %d sums %d use %d%d re %d held %9.3f\n", u,
                   pdl_layer_type_name(pdl_model_layer(plan->model, unit->layer)->type), pdl_model_layer(plan->model, unit->tail)->name, unit->kind, unit->format, (double)n->out_bytes / 1e6,
                   (double)n->saved_bytes / 1e6, (double)n->workspace_bytes / 1e6, n->keeps_inputs, n->keeps_output, n->inplace,
                   n->sums_gradients, n->gradient[0], n->gradient[1], n->recompute, held / 1e6);
        }
    }
    pdl_tape_destroy(tape);
    pdl__graph_destroy(graph);
    pdl__layouts_destroy(spec.layouts);
    pdl_ranks_destroy(ranks);
}

static void check(const struct zoo *entry, const variant_t *variant, pdl_backend_t *backend)
{
    pdl_mesh_t          mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_model_t        *model = NULL;
    pdl_plan_t         *plan = NULL;
    const pdl_system_t *system = NULL;
    pdl_parameters_t    parameters;
    pdl_oracle_t       *oracle = NULL;
    pdl_projection_t    r;
    taken_t             t = {0};

    CHECK_OK(pdl_model_load(entry->name, &model));
    CHECK_OK(pdl_plan_create(model, &mesh, entry->batch, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    if (entry->batch % variant->micro_batches != 0) plan->batch = variant->micro_batches;
    plan->micro_batches = variant->micro_batches;
    plan->recompute = variant->recompute;
    plan->optimizer = variant->optimizer;
    CHECK_OK(pdl_system_load("local", &system));
    CHECK_OK(pdl_parameters_choose(NULL, system, &parameters));
    CHECK_OK(pdl_oracle_create(model, system, &parameters, &oracle));
    CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &r));
    lower(plan, backend, &t);
    double total = t.weights + t.gradients + t.optimizer + t.activations;
    double states = r.memory.weights + r.memory.gradients + r.memory.optimizer;
    double kept = r.memory.saved_activations + r.memory.transient;
    printf("%-15s %3lld %-10s states %8.1f %8.1f %5.3f  arena %8.1f live %8.1f %5.3f proj %8.1f + %7.1f %5.3f total %9.1f %5.3f\n",
           entry->name, (long long)plan->batch, variant->label, (t.weights + t.gradients + t.optimizer) / 1e6,
           states / 1e6, states / (t.weights + t.gradients + t.optimizer), t.activations / 1e6, t.live / 1e6,
           t.activations / t.live, r.memory.saved_activations / 1e6, r.memory.transient / 1e6, kept / t.activations,
           total / 1e6, r.memory_bytes / total);
    pdl_oracle_destroy(oracle);
    pdl_system_destroy(system);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

int main(int argc, char **argv)
{
    static const variant_t variants[] = {{"momentum", 1, PDL_RECOMPUTE_NONE, PDL_OPTIMIZER_MOMENTUM},
                                         {"adamw", 1, PDL_RECOMPUTE_NONE, PDL_OPTIMIZER_ADAM},
                                         {"micro 2", 2, PDL_RECOMPUTE_NONE, PDL_OPTIMIZER_MOMENTUM},
                                         {"recompute", 1, PDL_RECOMPUTE_FULL, PDL_OPTIMIZER_MOMENTUM}};
    pdl_cpu_options_t      options = {.threads = 2};
    pdl_backend_t         *backend = NULL;

    CHECK_OK(pdl_backend_create_cpu(&options, &backend));
    for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++)
        for (size_t i = 0; i < sizeof(zoo) / sizeof(zoo[0]); i++)
            if ((argc < 2 || strcmp(argv[1], zoo[i].name) == 0) && (argc < 3 || atoi(argv[2]) == (int)v)) check(&zoo[i], &variants[v], backend);
    pdl_backend_destroy(backend);
    return test_done();
}
