/*
 * Presets on the whole zoo: each gives a plan that checks, or says which layer forbids it; and the limits of the
 * strategies are where they should be.
 */
#include "random.h"
#include "test.h"

#include <paradl/base/share.h>
#include <paradl/plan/partition.h>
#include <paradl/plan/plan.h>

#include <stdlib.h>

static pdl_mesh_t mesh_of(const pdl_strategy_t *strategy, int64_t size)
{
    pdl_mesh_t mesh = {{{PDL_AXIS_PIPELINE, pdl_strategy_has(strategy, PDL_AXIS_PIPELINE) ? 2 : 1, 0},
                        {PDL_AXIS_DATA, pdl_strategy_has(strategy, PDL_AXIS_DATA) ? 2 : 1, 0},
                        {PDL_AXIS_SPATIAL, pdl_strategy_has(strategy, PDL_AXIS_SPATIAL) ? size : 1, 0},
                        {PDL_AXIS_TENSOR, pdl_strategy_has(strategy, PDL_AXIS_TENSOR) ? size : 1, 0}},
                       4};
    return mesh;
}

/* The message of a refusal must name a layer of the model (or say that none can be split). */
static bool names_a_layer(const pdl_model_t *model, const char *message)
{
    for (int i = 1; i < pdl_model_layer_count(model); i++)
        if (strstr(message, pdl_model_layer(model, i)->name)) return true;
    return strstr(message, "no convolution or pooling to split") != NULL || strstr(message, "no attention") != NULL;
}

/* Shares of a checked plan are shares, and its redistributions have something to move. */
static void check_program(const pdl_plan_t *plan)
{
    pdl_partition_t *p = NULL;

    REQUIRE_OK(pdl_partition_create(plan, 2, &p));
    if (!p) return;
    for (int i = 0; i < p->layer_count; i++) {
        const pdl_local_t *local = &p->local[i];
        const pdl_layer_t *layer = pdl_model_layer(plan->model, i);
        CHECK(local->share_forward > 0 && local->share_forward <= 1);
        CHECK(local->y_elements > 0 && local->y_elements <= (double)layer->y_elements);
        CHECK(local->x_elements >= 0 && local->x_elements <= (double)layer->x_elements);
        CHECK(local->weights >= 0 && local->weights <= (double)layer->weights);
    }
    for (int i = 0; i < p->transfer_count; i++) {
        const pdl_transfer_t *t = &p->transfers[i];
        CHECK(t->elements > 0 && t->primitive != PDL_LOCAL);
        CHECK(t->primitive != PDL_HALO || t->neighbours > 0);
        if (t->phase != PDL_PHASE_GRADIENT) CHECK(t->axis >= 0 && plan->mesh.axis[t->axis].size > 1);
    }
    pdl_partition_destroy(p);
}

static void check_preset(const pdl_model_t *model, const pdl_strategy_t *strategy, int64_t size, int counts[2])
{
    const pdl_mesh_t mesh = mesh_of(strategy, size);
    pdl_plan_t      *plan = NULL;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 16, &plan));
    if (!plan) return;
    plan->sequence_parallel = size == 4;
    pdl_status_t status = pdl_plan_apply_preset(plan, strategy->name, NULL);
    if (!status) status = pdl_plan_check(plan);
    counts[status != PDL_OK]++;
    if (status) {
        if (!names_a_layer(model, pdl_error_message()))
            printf("%s %s: %s\n", pdl_model_name(model), strategy->name, pdl_error_message());
        CHECK_INT(status, PDL_ERR_LIMIT);
        CHECK(names_a_layer(model, pdl_error_message()));
    } else
        check_program(plan);
    pdl_plan_destroy(plan);
}

/* Every mesh once, of all devices, with the axes of the strategy; against plain enumeration. */
static void check_meshes(const pdl_strategy_t *row, int64_t devices, int64_t layers)
{
    bool inner = pdl_strategy_has(row, PDL_AXIS_SPATIAL) || pdl_strategy_has(row, PDL_AXIS_TENSOR);
    bool pipeline = pdl_strategy_has(row, PDL_AXIS_PIPELINE), data = pdl_strategy_has(row, PDL_AXIS_DATA);
    bool hybrid = pdl_strategy_is_hybrid(row), twice = pdl_strategy_splits_twice(row);
    pdl_strategy_mesh_t at = {0};

    for (int64_t c = 1; c <= (twice ? devices : 1); c++)
        for (int64_t t = 1; t <= devices / c; t++)
            for (int64_t q = 1; q <= devices / c / t; q++) {
                int64_t d = devices / c / t / q;
                if (devices % (c * t * q) != 0 || (t > 1 && !inner) || (q > 1 && !pipeline) || (d > 1 && !data))
                    continue;
                if (hybrid &&
                    ((inner && t == 1) || (pipeline && q == 1) || (t > 1) + (q > 1) + (d > 1) + (c > 1) < 2))
                    continue;
                if (hybrid && (t > row->most_inner * inner + !inner || (q > 1 && q >= layers))) continue;
                if (twice && (c == 1 || c > row->most_inner)) continue;
                CHECK(pdl_strategy_next_mesh(row, devices, layers, &at));
                CHECK(at.inner == t && at.pipeline == q && at.data == d && at.context == c);
            }
    CHECK(!pdl_strategy_next_mesh(row, devices, layers, &at));
}

static void rows_are_a_table(void)
{
    const pdl_strategy_t *row;
    pdl_strategy_mesh_t   at = {0};

    for (int i = 0; (row = pdl_strategy_at(i)) != NULL; i++) {
        CHECK(pdl_strategy_find(row->name) == row && pdl_strategy_place(row) == i);
        CHECK(row->about != NULL && (row->family != NULL) != row->per_layer);
        CHECK(row->per_layer || (row->axes & ~row->family->axes) == 0);
        CHECK(i == 0 || pdl_strategy_is_hybrid(row) >= pdl_strategy_is_hybrid(pdl_strategy_at(i - 1)));
        for (int64_t devices = 1; devices <= 144 && row->axes != 0; devices++) check_meshes(row, devices, 20);
    }
    row = pdl_strategy_find("serial");
    CHECK(pdl_strategy_next_mesh(row, 8, 20, &at) && at.data == 1 && at.inner == 1 && at.pipeline == 1);
    CHECK(!pdl_strategy_next_mesh(row, 8, 20, &at));
}

static void every_preset_on_every_model(void)
{
    static const char *const extensions[] = {".yaml", NULL};
    static const int64_t     sizes[] = {1, 2, 3, 4, 8, 64};
    char                   **names;
    size_t                   count;
    int                      counts[2] = {0, 0};

    CHECK_OK(pdl_share_list("models", extensions, &names, &count));
    CHECK(count > 40);
    for (size_t m = 0; m < count; m++) {
        pdl_model_t *model = NULL;
        REQUIRE_OK(pdl_model_load(names[m], &model));
        /* Deep models repeat what shallow ones have. */
        const pdl_strategy_t *row;
        for (int i = 0; model && pdl_model_layer_count(model) < 800 && (row = pdl_strategy_at(i)) != NULL; i++)
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && !row->per_layer; s++)
                check_preset(model, row, sizes[s], counts);
        pdl_model_destroy(model);
    }
    CHECK(counts[0] > 1000 && counts[1] > 100);
    pdl_share_free_list(names, count);
}

static int64_t limit_of(const char *name, const char *strategy, bool published, const char *until,
                        const char **layer)
{
    const pdl_preset_options_t options = {.published = published, .spatial_until = until};
    pdl_model_t               *model = NULL;
    static char                text[128];
    int                        limiting;

    REQUIRE_OK(pdl_model_load(name, &model));
    int64_t limit = pdl_preset_limit(model, pdl_strategy_find(strategy), &options, &limiting);
    snprintf(text, sizeof(text), "%s", limiting >= 0 ? pdl_model_layer(model, limiting)->name : "");
    *layer = text;
    pdl_model_destroy(model);
    return limit;
}

/* The smallest filters or channels of the layers that are split, the first left out for channels; extents. */
static void limits_are_known(void)
{
    const char *layer;

    CHECK_INT(limit_of("vgg16", "filter", true, NULL, &layer), 64);
    CHECK_STR(layer, "features.0");
    CHECK_INT(limit_of("resnet50", "filter", true, NULL, &layer), 64);
    CHECK_STR(layer, "conv1");
    CHECK_INT(limit_of("vgg16", "channel", true, NULL, &layer), 64);
    CHECK_STR(layer, "features.2");
    CHECK_INT(limit_of("resnet50", "channel", true, NULL, &layer), 64);
    CHECK_INT(limit_of("vgg16", "data+filter", true, NULL, &layer), 64);
    CHECK_INT(limit_of("gpt2-124m", "tensor", false, NULL, &layer), 12);
    CHECK_STR(layer, "h.0.attn");
    CHECK_INT(limit_of("llama2-70b", "tensor", false, NULL, &layer), 8);
    CHECK_INT(limit_of("llama2-70b", "context", false, NULL, &layer), 8);
    CHECK_INT(limit_of("gpt2-124m", "data+context", false, NULL, &layer), 12);
    CHECK_STR(layer, "h.0.attn");
    CHECK_INT(limit_of("vgg16", "spatial", false, NULL, &layer), 224);
    CHECK_STR(layer, "features.0");
    CHECK_INT(limit_of("vgg16", "spatial", false, "features.30", &layer), 7);
    CHECK_STR(layer, "features.30");
    /* 7x7 windows: pieces of three rows hold the halo. */
    CHECK_INT(limit_of("resnet50", "spatial", false, NULL, &layer), 74);
}

/* At its limit a preset checks, one beyond it does not. */
static void limits_are_sharp(void)
{
    static const char *const models[] = {"vgg16", "resnet50", "lenet", "alexnet", "cosmoflow-128"};
    static const char *const inner[] = {"filter", "channel", "spatial"};

    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        for (size_t s = 0; s < sizeof(inner) / sizeof(inner[0]); s++) {
            pdl_model_t *model = NULL;
            int          limiting;
            REQUIRE_OK(pdl_model_load(models[m], &model));
            int64_t limit = pdl_preset_limit(model, pdl_strategy_find(inner[s]), NULL, &limiting);
            for (int64_t size = limit; size <= limit + 1; size++) {
                const pdl_mesh_t mesh = mesh_of(pdl_strategy_find(inner[s]), size);
                pdl_plan_t      *plan;
                REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
                pdl_status_t status = pdl_plan_apply_preset(plan, inner[s], NULL);
                if (!status) status = pdl_plan_check(plan);
                if ((status == PDL_OK) != (size == limit))
                    printf("%s %s %lld\n", models[m], inner[s], (long long)size);
                CHECK_INT(status, size == limit ? PDL_OK : PDL_ERR_LIMIT);
                pdl_plan_destroy(plan);
            }
            pdl_model_destroy(model);
        }
}

/* Twelve heads for all ranks of both axes together. */
static void heads_are_shared_out_over_both_axes(void)
{
    static const int64_t sizes[][3] = {{2, 2, 1}, {2, 6, 1}, {3, 4, 1}, {4, 4, 0}, {6, 12, 0}};
    pdl_model_t         *model = NULL;

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    CHECK_INT(pdl_preset_heads(model), 12);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const pdl_mesh_t mesh = {{{PDL_AXIS_SPATIAL, sizes[i][0], 0}, {PDL_AXIS_TENSOR, sizes[i][1], 0}}, 2};
        pdl_plan_t      *plan;
        REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
        CHECK_OK(pdl_plan_apply_preset(plan, "data+tensor+context", NULL));
        if (sizes[i][2])
            CHECK_OK(pdl_plan_check(plan));
        else
            CHECK_ERROR(pdl_plan_check(plan), "layer h.0.attn has 12 key-value heads, so mode heads over");
        pdl_plan_destroy(plan);
    }
    pdl_model_destroy(model);
    REQUIRE_OK(pdl_model_load("vgg16", &model));
    CHECK_INT(pdl_preset_heads(model), 0);
    pdl_model_destroy(model);
}

/* Splits windows as long as pieces hold the halo, or up to the named layer; whole from there on. */
static void space_ends_where_it_must(void)
{
    const pdl_mesh_t     mesh = mesh_of(pdl_strategy_find("spatial"), 8);
    pdl_preset_options_t options = {.spatial_until = "features.9"};
    pdl_model_t         *model = NULL;
    pdl_plan_t          *plan;

    REQUIRE_OK(pdl_model_load("vgg16", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "spatial", NULL));
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "features.28")].on[2], PDL_MODE_SPACE);
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "features.30")].on[2], PDL_MODE_REPLICATE); /* 14 rows to 7 */
    CHECK_OK(pdl_plan_apply_preset(plan, "spatial", &options));
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "features.9")].on[2], PDL_MODE_SPACE);
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "features.10")].on[2], PDL_MODE_REPLICATE);
    options.spatial_until = "nowhere";
    CHECK_ERROR(pdl_plan_apply_preset(plan, "spatial", &options), "nowhere");
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* A layer that is too small for the axis is refused, or stays whole if asked; the others are split as ever. */
static void small_layers_may_stay_whole(void)
{
    const pdl_mesh_t           mesh = mesh_of(pdl_strategy_find("filter"), 8);
    const pdl_preset_options_t keep = {.keep_small = true};
    pdl_model_t               *model = NULL;
    pdl_plan_t                *plan;
    int                        axis = pdl_mesh_find(&mesh, PDL_AXIS_TENSOR);

    REQUIRE_OK(pdl_model_load("lenet", &model)); /* conv1 has 6 filters */
    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    CHECK_OK(pdl_plan_apply_preset(plan, "filter", NULL));
    CHECK_ERROR(pdl_plan_check(plan), "conv1");
    CHECK_OK(pdl_plan_apply_preset(plan, "filter", &keep));
    CHECK_OK(pdl_plan_check(plan));
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "conv1")].on[axis], PDL_MODE_REPLICATE);
    CHECK_INT(plan->modes[pdl_model_find_layer(model, "conv2")].on[axis], PDL_MODE_FILTER);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

/* No micro-batch is empty. */
static void micro_batches_are_filled(void)
{
    const pdl_mesh_t mesh = mesh_of(pdl_strategy_find("data"), 1);
    pdl_model_t     *model = NULL;
    pdl_plan_t      *plan;

    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 64, &plan)); /* for two replicas */
    CHECK_OK(pdl_plan_apply_preset(plan, "data", NULL));
    plan->micro_batches = 32;
    CHECK_OK(pdl_plan_check(plan));
    plan->micro_batches = 31;
    CHECK_ERROR(pdl_plan_check(plan), "16 of 2 samples each hold them all");
    plan->micro_batches = 33;
    CHECK_ERROR(pdl_plan_check(plan), "only 32 samples");
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void plans_are_checked(void)
{
    pdl_mesh_t   mesh = mesh_of(pdl_strategy_find("data"), 1);
    pdl_model_t *model = NULL;
    pdl_plan_t  *plan, *copy;

    REQUIRE_OK(pdl_model_load("lenet", &model));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 1, &plan));
    CHECK_ERROR(pdl_plan_check(plan), "larger than the batch");
    plan->batch = 8;
    plan->micro_batches = 5;
    CHECK_ERROR(pdl_plan_check(plan), "only 4 samples");
    plan->micro_batches = 0;
    CHECK_ERROR(pdl_plan_check(plan), "at least 1");
    plan->micro_batches = 1;
    plan->virtual_stages = 2;
    CHECK_ERROR(pdl_plan_check(plan), "interleaved");
    plan->virtual_stages = 1;
    CHECK_OK(pdl_plan_check(plan));
    plan->stage_first[1] = 3;
    CHECK_ERROR(pdl_plan_check(plan), "last stage");
    REQUIRE_OK(pdl_plan_copy(plan, &copy));
    CHECK_INT(copy->stage_first[1], 3);
    pdl_plan_destroy(copy);
    CHECK_ERROR(pdl_plan_apply_preset(plan, "filter", NULL), "no data axis");
    CHECK_ERROR(pdl_plan_apply_preset(plan, "diagonal", NULL), "unknown strategy");
    pdl_plan_destroy(plan);
    mesh.axis[2] = (pdl_axis_t){PDL_AXIS_SPATIAL, 2, 3};
    CHECK_ERROR(pdl_plan_create(model, &mesh, 8, &plan), "extents are 0 to 2");
    mesh.axis[2] = (pdl_axis_t){PDL_AXIS_SPATIAL, 0, 0};
    CHECK_ERROR(pdl_plan_create(model, &mesh, 8, &plan), "start at 1");
    mesh = mesh_of(pdl_strategy_find("data"), 1);
    mesh.axis[0] = (pdl_axis_t){PDL_AXIS_PIPELINE, 14, 0};
    CHECK_ERROR(pdl_plan_create(model, &mesh, 8, &plan), "only 13 layers");
    mesh.axis[0].size = 13;
    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    /* The input is no stage of its own. */
    CHECK_INT(plan->stage_first[1], 2);
    CHECK_OK(pdl_plan_check(plan));
    plan->modes[3].on[3] = PDL_MODE_COUNT;
    CHECK_OK(pdl_plan_check(plan)); /* on an axis of one rank modes mean nothing */
    pdl_plan_destroy(plan);
    mesh = mesh_of(pdl_strategy_find("tensor"), 2);
    REQUIRE_OK(pdl_plan_create(model, &mesh, 8, &plan));
    plan->modes[3].on[3] = PDL_MODE_COUNT;
    CHECK_ERROR(pdl_plan_check(plan), "pool1");
    plan->modes[3].on[3] = PDL_MODE_SAMPLE;
    plan->micro_batches = 4;
    CHECK_OK(pdl_plan_check(plan));
    plan->micro_batches = 8;
    CHECK_ERROR(pdl_plan_check(plan), "layer pool1 splits samples over 2 ranks, but a micro-batch has only 1");
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

int main(void)
{
    RUN(rows_are_a_table);
    RUN(every_preset_on_every_model);
    RUN(limits_are_known);
    RUN(limits_are_sharp);
    RUN(heads_are_shared_out_over_both_axes);
    RUN(space_ends_where_it_must);
    RUN(small_layers_may_stay_whole);
    RUN(micro_batches_are_filled);
    RUN(plans_are_checked);
    return test_done();
}
