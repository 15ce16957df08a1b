/*
 * Ranks that sum gradients together cut them into the same buckets, although uneven pieces of other weights give them
 * different totals.
 */
#include "random.h"
#include "test.h"
#include "train/exec/session.h"
#include <paradl/train/dry.h>

enum { LAYERS = 24, DATA = 2, TENSOR = 3, RANKS = DATA * TENSOR, NETWORKS = 40 };

static pdl_backend_t *backend;

/* Layers of random width, so that a bucket may end anywhere. */
static pdl_model_t *draw_model(void)
{
    char         text[4096];
    pdl_model_t *model = NULL;
    int          used = snprintf(text, sizeof(text),
                                 "paradl: model/1\nname: layers\ninput: {channels: 100, size: [1]}\n"
                                          "layers:\n  - flatten: {name: flat}\n");

    for (int i = 0; i < LAYERS; i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used, "  - linear: {name: fc%d, out: %d}\n", i,
                         (int)between(100, 200));
    used += snprintf(text + used, sizeof(text) - (size_t)used, "  - cross_entropy: {name: loss}\n");
    CHECK_OK(pdl_model_read_yaml_memory(text, (size_t)used, "layers", &model));
    return model;
}

/* Every other layer is cut by filters, into uneven pieces; the others by samples, so that all ranks sum their gradients. */
static pdl_plan_t *make_plan(const pdl_model_t *model)
{
    pdl_mesh_t  mesh = {{{PDL_AXIS_DATA, DATA, 0}, {PDL_AXIS_TENSOR, TENSOR, 0}}, 2};
    pdl_plan_t *plan = NULL;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 12, &plan));
    for (int i = 1; i < pdl_model_layer_count(model); i++) {
        bool linear = pdl_model_layer(model, i)->type == PDL_LAYER_LINEAR;
        plan->modes[i].on[0] = PDL_MODE_SAMPLE;
        plan->modes[i].on[1] = linear && i % 2 == 0 ? PDL_MODE_FILTER : PDL_MODE_SAMPLE;
    }
    plan->sharding = PDL_SHARDING_ZERO2;
    CHECK_OK(pdl_plan_check(plan));
    return plan;
}

/* Of the group that all ranks share: where its buckets end. */
static int ends_of(const pdl_session_t *s, int64_t *ends)
{
    for (int g = 0; g < s->exchange.bucket_groups; g++) {
        const pdl__buckets_t *group = &s->exchange.buckets[g];
        if (group->axes != 3) continue;
        for (int b = 0; b < group->count; b++) ends[b] = group->bucket[b].high - group->bucket[0].low;
        return group->count;
    }
    return 0;
}

static void ranks_cut_alike(void)
{
    for (int n = 0; n < NETWORKS; n++) {
        pdl_model_t *model = draw_model();
        pdl_plan_t  *plan = make_plan(model);
        int64_t      first[LAYERS] = {0}, ends[LAYERS] = {0};
        int          count = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            pdl_session_spec_t spec;
            pdl_session_t     *session = NULL;
            pdl_session_defaults(&spec);
            spec.plan = plan;
            spec.backend = backend;
            REQUIRE_OK(pdl_session_create_dry(&spec, rank, &session));
            if (rank == 0) count = ends_of(session, first);
            CHECK(count > 1 && ends_of(session, ends) == count);
            for (int b = 0; b < count; b++) CHECK(ends[b] == first[b]);
            pdl_session_destroy(session);
        }
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
}

int main(void)
{
    pdl_cpu_options_t cpu = {.threads = 1};

    REQUIRE_OK(pdl_backend_create_cpu(&cpu, &backend));
    RUN(ranks_cut_alike);
    pdl_backend_destroy(backend);
    return test_done();
}
