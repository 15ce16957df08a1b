/*
 * Programs of all ranks of divided plans, compiled without any ranks: those of one class are the same, and a generic
 * backend serves where nothing can be computed.
 */
#include "test.h"
#include <paradl/program/compile.h>
#include <stdlib.h>
#include <string.h>

static pdl_backend_t *cpu, *generic;

typedef struct divided {
    const char *model, *strategy;
    pdl_mesh_t  mesh;
    int64_t     batch, micro_batches;
} divided_t;

static const divided_t plans[] = {
    {"resnet-tiny", "spatial", {{{PDL_AXIS_DATA, 1, 0}, {PDL_AXIS_SPATIAL, 5, 1}}, 2}, 8, 1},
    {"resnet-tiny", "data+spatial", {{{PDL_AXIS_DATA, 3, 0}, {PDL_AXIS_SPATIAL, 3, 1}}, 2}, 10, 1},
    {"resnet-tiny", "filter", {{{PDL_AXIS_DATA, 1, 0}, {PDL_AXIS_TENSOR, 3, 1}}, 2}, 8, 2},
    {"gpt-char-small", "data+tensor", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_TENSOR, 2, 1}}, 2}, 8, 2},
    {"gpt-char-small", "data+context", {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2}, 8, 2},
    {"gpt-char-small",
     "data+tensor+context",
     {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 3},
     8,
     2},
    {"resnet-tiny", "data", {{{PDL_AXIS_DATA, 4, 0}}, 1}, 10, 1}};
enum { PLANS = sizeof(plans) / sizeof(plans[0]) };

static size_t arena_of(const pdl_plan_t *plan, pdl_backend_t *backend, int64_t rank)
{
    pdl_program_spec_t spec = {.plan = plan, .backend = backend, .rank = rank, .training = true, .overlap = true};
    pdl_program_t     *program = NULL;

    REQUIRE_OK(pdl_program_compile(&spec, &program));
    size_t bytes = program->arena_bytes, saved = pdl_program_saved_bytes(program);
    CHECK(saved > 0 && saved <= bytes && program->op_count > 0);
    pdl_program_destroy(program);
    return bytes;
}

/* Every rank's program is that of one of the ranks that speak for all. */
static void check_classes(const pdl_plan_t *plan, pdl_backend_t *backend)
{
    int64_t *ranks = NULL, size = pdl_mesh_size(&plan->mesh);
    int      count = 0;
    size_t   arena[16];

    REQUIRE_OK(pdl_program_ranks(plan, &ranks, &count));
    REQUIRE(count >= 1 && count <= size && count <= 16);
    for (int k = 0; k < count; k++) arena[k] = arena_of(plan, backend, ranks[k]);
    for (int64_t r = 0; r < size; r++) {
        size_t bytes = arena_of(plan, backend, r);
        bool   found = false;
        for (int k = 0; k < count; k++) found |= arena[k] == bytes;
        CHECK(found);
    }
    free(ranks);
}

static void ranks_of_a_class_have_one_program(void)
{
    for (int i = 0; i < PLANS; i++) {
        pdl_model_t *model = NULL;
        pdl_plan_t  *plan = NULL;

        REQUIRE_OK(pdl_model_load(plans[i].model, &model));
        REQUIRE_OK(pdl_plan_create(model, &plans[i].mesh, plans[i].batch, &plan));
        CHECK_OK(pdl_plan_apply_preset(plan, plans[i].strategy, NULL));
        plan->micro_batches = plans[i].micro_batches;
        check_classes(plan, cpu);
        check_classes(plan, generic);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

/* Dropout is no operation where nothing is trained, and what stands before it takes in the sum behind it. */
static void inference_drops_nothing(void)
{
    pdl_mesh_t mesh = {{{PDL_AXIS_DATA, 1, 0}}, 1};

    for (int mode = 0; mode < 2; mode++) {
        pdl_model_t   *model = NULL;
        pdl_plan_t    *plan = NULL;
        pdl_program_t *program = NULL;
        char           name[128];
        int            drops = 0, sums = 0;

        REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
        REQUIRE_OK(pdl_plan_create(model, &mesh, 2, &plan));
        plan->run_mode = mode == 0 ? PDL_TRAINING : PDL_INFERENCE;
        REQUIRE_OK(pdl_program_compile(&(pdl_program_spec_t){.plan = plan, .backend = cpu}, &program));
        for (int i = 0; i < program->op_count; i++) {
            drops += strstr(pdl_program_op_name(program, i, name, sizeof(name)), "drop") != NULL;
            sums += strstr(name, "add_") != NULL;
        }
        CHECK(mode == 0 ? drops == 25 && sums == 24 : drops == 0 && sums == 0);
        pdl_program_destroy(program);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

int main(void)
{
    pdl_cpu_options_t     options = {.threads = 2, .describes = true};
    pdl_generic_options_t any = {.precision = PDL_DTYPE_BF16};

    REQUIRE_OK(pdl_backend_create_cpu(&options, &cpu));
    REQUIRE_OK(pdl_backend_create_generic(&any, &generic));
    RUN(ranks_of_a_class_have_one_program);
    RUN(inference_drops_nothing);
    pdl_backend_destroy(cpu);
    pdl_backend_destroy(generic);
    return test_done();
}
