/*
 * The memory that the oracle projects for a run on processor cores against what a session takes: models of the zoo
 * are lowered on the CPU backend and their buffers placed, but nothing is allocated.
 */
#include "program/lower/graph.h"
#include "program/lower/layouts.h"
#include "test.h"
#include <math.h>
#include <paradl/oracle/oracle.h>
#include <string.h>

/* What is promised: projected and taken bytes differ by no more than this share. Padding of weights is not projected. */
#define PROMISED 0.005
/* How far the placing of buffers may be above the most bytes alive at once. */
#define LOST 0.06

static const struct network {
    const char *name;
    int64_t     batch;
} networks[] = {{"lenet", 64},     {"resnet-tiny", 64},    {"resnet18-cifar", 64},
                {"resnet50", 8},   {"vgg16", 4},           {"alexnet", 32},
                {"unet", 1},       {"unet3d", 1},          {"cosmoflow-128", 1},
                {"gpt-char", 12},  {"gpt-char-small", 12}, {"gpt2-124m", 4},
                {"bert-large", 1}, {"vit-b16", 4},         {"wrn-28-10", 16},
                {"deepcam", 1}};
enum { NETWORKS = sizeof(networks) / sizeof(networks[0]) };

/* One way to train. */
typedef struct way {
    pdl_optimizer_t optimizer;
    int             micro_batches;
    pdl_recompute_t recompute;
} way_t;

static pdl_backend_t      *backend;
static const pdl_system_t *local;

static double weight_bytes(const pdl__graph_t *graph, bool trainable)
{
    double elements = 0;

    for (int u = 0; u < graph->unit_count; u++) {
        const pdl__unit_t *unit = &graph->unit[u];
        for (int k = 0; k < unit->description.weight_count; k++)
            if (unit->description.weight[k].trainable == trainable && !(k == 0 && unit->tied_to >= 0))
                elements += (double)((unit->description.weight[k].elements + 15) / 16 * 16);
    }
    return 4 * elements;
}

/* Bytes of a session, as pdl_session_memory() counts them. */
static double taken_bytes(const pdl_plan_t *plan)
{
    static const double   moments[PDL_OPTIMIZER_COUNT] = {0, 1, 2};
    pdl__graph_spec_t     spec = {.plan = plan, .backend = backend, .training = true};
    pdl_program_options_t options = {.micro_batches = (int)plan->micro_batches, .training = true};
    pdl__layouts_t       *layouts = NULL;
    pdl__graph_t         *graph = NULL;
    pdl_program_t        *program = NULL;

    REQUIRE_OK(pdl__layouts_create(plan, 0, plan->batch / plan->micro_batches, &layouts));
    spec.layouts = layouts;
    REQUIRE_OK(pdl__graph_create(&spec, &graph));
    if (!graph) return 0;
    REQUIRE_OK(pdl_program_create(graph->node, graph->unit_count, &options, &program));
    if ((double)program->arena_bytes > (1 + LOST) * (double)program->live_bytes)
        printf("%s: arena %zu, alive %zu\n", pdl_model_name(plan->model), program->arena_bytes,
               program->live_bytes);
    CHECK((double)program->arena_bytes <= (1 + LOST) * (double)program->live_bytes);
    double trainable = weight_bytes(graph, true);
    double bytes =
        trainable * (2 + moments[plan->optimizer]) + weight_bytes(graph, false) + (double)program->arena_bytes;
    pdl_program_destroy(program);
    pdl__graph_destroy(graph);
    pdl__layouts_destroy(layouts);
    return bytes;
}

static double projected_bytes(pdl_plan_t *plan)
{
    pdl_parameters_t parameters;
    pdl_oracle_t    *oracle = NULL;
    pdl_projection_t projection = {0};

    CHECK_OK(pdl_parameters_choose(NULL, local, &parameters));
    REQUIRE_OK(pdl_oracle_create(plan->model, local, &parameters, &oracle));
    CHECK_OK(pdl_oracle_project(oracle, plan, NULL, &projection));
    pdl_oracle_destroy(oracle);
    return projection.memory_bytes;
}

/* A plan for one rank, with its model. */
static pdl_plan_t *plan_of(const struct network *network, pdl_model_t **model)
{
    pdl_mesh_t  mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};
    pdl_plan_t *plan = NULL;

    REQUIRE_OK(pdl_model_load(network->name, model));
    REQUIRE_OK(pdl_plan_create(*model, &mesh, network->batch, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    return plan;
}

static void compare(const struct network *network, const way_t *way)
{
    pdl_model_t *model = NULL;
    pdl_plan_t  *plan = plan_of(network, &model);

    if (plan->batch < way->micro_batches) plan->batch = way->micro_batches;
    plan->micro_batches = way->micro_batches;
    plan->recompute = way->recompute;
    plan->optimizer = way->optimizer;
    double taken = taken_bytes(plan), projected = projected_bytes(plan);
    printf("  %-15s %4lld  taken %8.1f MB  projected %8.1f MB  %5.3f\n", network->name, (long long)plan->batch,
           taken / 1e6, projected / 1e6, projected / taken);
    CHECK_NEAR(projected, taken, PROMISED);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void compare_all(way_t way)
{
    for (int i = 0; i < NETWORKS; i++) compare(&networks[i], &way);
}

static void test_momentum(void)
{
    compare_all((way_t){PDL_OPTIMIZER_MOMENTUM, 1, PDL_RECOMPUTE_NONE});
}

static void test_adamw(void)
{
    compare_all((way_t){PDL_OPTIMIZER_ADAM, 1, PDL_RECOMPUTE_NONE});
}

static void test_micro_batches(void)
{
    compare_all((way_t){PDL_OPTIMIZER_MOMENTUM, 2, PDL_RECOMPUTE_NONE});
}

static void test_full_recompute(void)
{
    compare_all((way_t){PDL_OPTIMIZER_MOMENTUM, 1, PDL_RECOMPUTE_FULL});
}

/* The first half is recomputed; one block of all layers is as the rule for all. */
static void test_blocks(void)
{
    for (int i = 0; i < NETWORKS; i++) {
        pdl_model_t     *model = NULL;
        pdl_plan_t      *plan = plan_of(&networks[i], &model);
        int              last = pdl_model_layer_count(model) - 1;
        pdl_plan_block_t keep = {.last = last}, again = {.last = last, .policy = PDL_MEMORY_RECOMPUTE};
        pdl_plan_block_t halves[] = {{.last = last / 2, .policy = PDL_MEMORY_RECOMPUTE}, keep};

        double none = taken_bytes(plan), projected_none = projected_bytes(plan);
        plan->recompute = PDL_RECOMPUTE_FULL;
        double full = taken_bytes(plan), projected_full = projected_bytes(plan);
        plan->recompute = PDL_RECOMPUTE_NONE;
        CHECK_OK(pdl_plan_set_blocks(plan, halves, 2));
        double mixed = taken_bytes(plan);
        printf("  %-15s keep %8.1f MB  half recomputed %8.1f MB  all %8.1f MB\n", networks[i].name, none / 1e6,
               mixed / 1e6, full / 1e6);
        /* Tensors that the other block reads are kept: with long skips that may take less than making them again. */
        CHECK(mixed <= fmax(none, full) && (mixed < none || full >= none));
        CHECK(mixed >= full || strcmp(networks[i].name, "deepcam") == 0);
        CHECK_NEAR(projected_bytes(plan), mixed, PROMISED);
        CHECK_OK(pdl_plan_set_blocks(plan, &keep, 1));
        CHECK_NEAR(taken_bytes(plan), none, 0);
        CHECK_NEAR(projected_bytes(plan), projected_none, 0);
        CHECK_OK(pdl_plan_set_blocks(plan, &again, 1));
        CHECK_NEAR(taken_bytes(plan), full, 0);
        CHECK_NEAR(projected_bytes(plan), projected_full, 0);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

int main(void)
{
    pdl_cpu_options_t options = {.threads = 2};

    REQUIRE_OK(pdl_backend_create_cpu(&options, &backend));
    REQUIRE_OK(pdl_system_load("local", &local));
    RUN(test_momentum);
    RUN(test_adamw);
    RUN(test_micro_batches);
    RUN(test_full_recompute);
    RUN(test_blocks);
    pdl_system_destroy(local);
    pdl_backend_destroy(backend);
    return test_done();
}
