/*
 * A plan written to a file and read again is the same plan, whatever its modes; and a file that is wrong is
 * refused with the line and the remedy.
 */
#include "test.h"

#include "plan/file.h"

#include <paradl/base/share.h>

#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>

static const char *const extensions[] = {".yaml", NULL};

static uint64_t seed = 1;

/* splitmix64: the same sequence everywhere. */
static uint64_t draw(void)
{
    uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int below(int n)
{
    return (int)(draw() % (uint64_t)n);
}

/* Writes a plan to memory; NULL after a failed check. The caller frees it. */
static char *written(const pdl_plan_t *plan, const char *system_name, const char *data_name,
                     const pdl_plan_projection_t *projection)
{
    char  *text = NULL;
    size_t length;
    FILE  *stream = open_memstream(&text, &length);

    if (stream == NULL) return NULL;
    CHECK_OK(pdl_plan_write(plan, NULL, system_name, data_name, projection, stream));
    fclose(stream);
    return text;
}

static bool same_modes(const pdl_plan_t *a, const pdl_plan_t *b)
{
    size_t size = (size_t)pdl_model_layer_count(a->model) * sizeof(*a->modes);

    return memcmp(a->modes, b->modes, size) == 0;
}

static bool same_mesh(const pdl_mesh_t *a, const pdl_mesh_t *b)
{
    if (a->axis_count != b->axis_count) return false;
    for (int i = 0; i < a->axis_count; i++) {
        if (a->axis[i].kind != b->axis[i].kind || a->axis[i].size != b->axis[i].size) return false;
        if (a->axis[i].dim != b->axis[i].dim) return false;
    }
    return true;
}

static void check_same(const pdl_plan_t *a, const pdl_plan_t *b)
{
    CHECK(pdl_model_hash(a->model) == pdl_model_hash(b->model));
    CHECK_STR(b->strategy, a->strategy);
    CHECK(same_mesh(&a->mesh, &b->mesh));
    CHECK(same_modes(a, b));
    CHECK_INT(b->batch, a->batch);
    CHECK_INT(b->micro_batches, a->micro_batches);
    CHECK_INT(b->stages_given, a->stages_given);
    CHECK_INT(b->schedule, a->schedule);
    CHECK_INT(b->virtual_stages, a->virtual_stages);
    for (int64_t s = 0; a->stages_given && s <= pdl_plan_stage_count(a); s++)
        CHECK_INT(b->stage_first[s], a->stage_first[s]);
    CHECK_INT(b->recompute, a->recompute);
    CHECK_INT(b->block_count, a->block_count);
    for (int k = 0; k < a->block_count && k < b->block_count; k++) {
        CHECK_INT(b->block[k].last, a->block[k].last);
        CHECK_INT(b->block[k].policy, a->block[k].policy);
    }
    CHECK_INT(b->sharding, a->sharding);
    CHECK_INT(b->sequence_parallel, a->sequence_parallel);
    CHECK_INT(b->sync_batch_norm, a->sync_batch_norm);
    for (int i = 0; i < a->mesh.axis_count; i++) {
        CHECK_STR(b->collective[i].algorithm, a->collective[i].algorithm);
        CHECK_INT(b->collective[i].ranks_per_node, a->collective[i].ranks_per_node);
    }
    CHECK_INT(b->optimizer, a->optimizer);
    CHECK_INT(b->precision, a->precision);
    CHECK_INT(b->run_mode, a->run_mode);
}

static void check_round_trip(const pdl_plan_t *plan)
{
    pdl_plan_file_t file;
    char           *text = written(plan, "abci-v", NULL, NULL);
    pdl_status_t    st;

    if (text == NULL) return;
    st = pdl_plan_read_memory(text, strlen(text), "plan.yaml", &file);
    CHECK_OK(st);
    if (st == PDL_OK) {
        pdl_plan_t *brief = NULL;

        REQUIRE_OK(pdl_plan_copy(plan, &brief));
        pdl_plan_drop_unit_axes(brief);
        check_same(brief, file.plan);
        pdl_plan_destroy(brief);
        CHECK_STR(file.model_name, pdl_model_name(plan->model));
        CHECK_STR(file.system_name, "abci-v");
        CHECK_STR(file.data_name, "");
        pdl_plan_file_free(&file);
    }
    free(text);
}

static int count_rules(const pdl_plan_t *plan)
{
    pdl__mode_rules_t rules;
    int               count;

    if (pdl__mode_rules_create(plan, &rules) != PDL_OK) return -1;
    count = rules.count;
    pdl__mode_rules_free(&rules);
    return count;
}

static pdl_plan_t *make_plan(pdl_model_t **model, const char *name, const pdl_mesh_t *mesh, int64_t batch)
{
    pdl_plan_t *plan = NULL;

    *model = NULL;
    REQUIRE_OK(pdl_model_load(name, model));
    if (*model != NULL) REQUIRE_OK(pdl_plan_create(*model, mesh, batch, &plan));
    return plan;
}

static void free_plan(pdl_plan_t *plan, pdl_model_t *model)
{
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static const struct {
    const char *name;
    pdl_mesh_t  mesh;
} strategies[] = {
    {"serial", {.axis_count = 0}},
    {"serial", {{{PDL_AXIS_PIPELINE, 1, 0}, {PDL_AXIS_DATA, 1, 0}, {PDL_AXIS_TENSOR, 1, 0}}, 3}},
    {"data", {{{PDL_AXIS_DATA, 16, 0}}, 1}},
    {"spatial", {{{PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}}, 2}},
    {"filter", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}},
    {"channel", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}},
    {"tensor", {{{PDL_AXIS_TENSOR, 2, 0}}, 1}},
    {"pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}}, 1}},
    {"data+filter", {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}},
    {"data+channel", {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}},
    {"data+tensor", {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 2}},
    {"data+spatial", {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2}},
    {"context", {{{PDL_AXIS_SPATIAL, 2, 0}}, 1}},
    {"data+context", {{{PDL_AXIS_DATA, 8, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 2}},
    {"data+pipeline", {{{PDL_AXIS_PIPELINE, 4, 0}, {PDL_AXIS_DATA, 8, 0}}, 2}},
    {"3d-context", {{{PDL_AXIS_PIPELINE, 4, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_SPATIAL, 2, 0}}, 3}},
    {"data+tensor+context", {{{PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 3}},
    {"4d",
     {{{PDL_AXIS_PIPELINE, 4, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 4}},
    {"3d", {{{PDL_AXIS_PIPELINE, 4, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 3}},
};

static int preset_round_trips(const pdl_model_t *model, bool published)
{
    const pdl_preset_options_t options = {.published = published, .spatial_until = NULL};
    int                        count = 0;

    for (size_t s = 0; s < sizeof(strategies) / sizeof(strategies[0]); s++) {
        pdl_plan_t *plan;

        if (pdl_plan_create(model, &strategies[s].mesh, 64, &plan) != PDL_OK) continue;
        plan->sequence_parallel = s % 2 == 1;
        if (pdl_plan_apply_preset(plan, strategies[s].name, &options) == PDL_OK && pdl_plan_check(plan) == PDL_OK) {
            check_round_trip(plan);
            count++;
        }
        pdl_plan_destroy(plan);
    }
    return count;
}

/* Calls a function on every built-in model. */
static void for_each_model(void (*function)(const pdl_model_t *model))
{
    char **names;
    size_t count;

    CHECK_OK(pdl_share_list("models", extensions, &names, &count));
    CHECK(count > 40);
    for (size_t i = 0; i < count; i++) {
        pdl_model_t *model = NULL;

        REQUIRE_OK(pdl_model_load(names[i], &model));
        if (model == NULL) continue;
        function(model);
        pdl_model_destroy(model);
    }
    pdl_share_free_list(names, count);
}

/* Models of very many blocks take most of the time and show little that shorter ones do not. */
static bool is_long(const pdl_model_t *model)
{
    return pdl_model_layer_count(model) > 400;
}

static void check_presets(const pdl_model_t *model)
{
    CHECK(preset_round_trips(model, false) >= 7);
    if (!is_long(model)) CHECK(preset_round_trips(model, true) >= 7);
}

static void presets_read_back(void)
{
    for_each_model(check_presets);
}

/* Any allowed modes, in the manner of a search: long runs, alternations, single exceptions. */
static void randomize_modes(pdl_plan_t *plan)
{
    int kind = below(3), run = 1 + below(20), last[PDL_MAX_AXES] = {0};

    for (int i = 0; i < pdl_model_layer_count(plan->model); i++) {
        for (int a = 0; a < plan->mesh.axis_count; a++) {
            const pdl_axis_t *axis = &plan->mesh.axis[a];

            if (axis->kind == PDL_AXIS_PIPELINE) continue;
            if (kind == 0 || (kind == 1 && i % run == 0)) last[a] = below(PDL_MODE_COUNT);
            if (kind == 2) last[a] = below(run) == 0 ? below(PDL_MODE_COUNT) : PDL_MODE_REPLICATE;
            if (!pdl_mode_allowed(pdl_model_layer(plan->model, i), (pdl_mode_t)last[a], axis, NULL, 0)) continue;
            plan->modes[i].on[a] = (uint8_t)last[a];
        }
    }
}

/* Blocks that end anywhere, and where stages end. */
static void randomize_blocks(pdl_plan_t *plan)
{
    int               layers = pdl_model_layer_count(plan->model), count = 0, run = 1 + below(20);
    pdl_plan_block_t *blocks = calloc((size_t)layers, sizeof(*blocks));

    for (int i = 0; i < layers; i++) {
        bool ends = i == layers - 1 || below(run) == 0;

        for (int64_t s = 1; s < pdl_plan_stage_count(plan); s++) ends |= plan->stage_first[s] == i + 1;
        if (!ends) continue;
        pdl_plan_block_t block = {.last = i, .policy = (pdl_memory_policy_t)below(PDL_MEMORY_POLICY_COUNT)};
        if (pdl_memory_swaps(block.policy)) {
            block.release_after = below(3);
            block.prefetch = below(3);
        }
        blocks[count++] = block;
    }
    plan->recompute = PDL_RECOMPUTE_NONE;
    CHECK_OK(pdl_plan_set_blocks(plan, blocks, count));
    for (int i = 0, k = 0; i < layers; i++) {
        CHECK_INT(pdl_plan_block_of(plan, i), k);
        CHECK_INT(pdl_plan_memory_policy(plan, i), blocks[k].policy);
        k += blocks[k].last == i;
    }
    free(blocks);
}

static void randomize_settings(pdl_plan_t *plan)
{
    plan->micro_batches = 1 + below(4);
    plan->schedule = (pdl_pipeline_schedule_t)below(PDL_SCHEDULE_COUNT);
    CHECK_OK(pdl_plan_set_virtual_stages(plan, plan->schedule == PDL_SCHEDULE_INTERLEAVED ? 1 + below(3) : 1));
    plan->recompute = (pdl_recompute_t)below(PDL_RECOMPUTE_COUNT);
    plan->sharding = (pdl_sharding_t)below(PDL_SHARDING_COUNT);
    plan->sequence_parallel = below(2);
    plan->sync_batch_norm = below(2);
    plan->optimizer = (pdl_optimizer_t)below(PDL_OPTIMIZER_COUNT);
    plan->precision = (pdl_precision_t)below(PDL_PRECISION_COUNT);
    plan->run_mode = (pdl_run_mode_t)below(2);
    for (int a = 0; a < plan->mesh.axis_count; a++) {
        static const char *const names[] = {"", "ring", "circulant"};

        snprintf(plan->collective[a].algorithm, sizeof(plan->collective[a].algorithm), "%s", names[below(3)]);
        if (plan->mesh.axis[a].size % 2 == 0) plan->collective[a].ranks_per_node = below(2);
    }
    snprintf(plan->strategy, sizeof(plan->strategy), "%s", below(2) ? "mixed" : "");
    plan->stages_given = below(2);
    /* The second stage moves to the middle of what the first and second have. */
    if (pdl_plan_stage_count(plan) > 1) plan->stage_first[1] = plan->stage_first[2] / 2;
    if (plan->stages_given && below(2)) randomize_blocks(plan);
}

static void check_random(const pdl_model_t *model)
{
    static const pdl_mesh_t meshes[] = {
        {{{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 3},
        {{{PDL_AXIS_TENSOR, 2, 0}, {PDL_AXIS_SPATIAL, 2, 1}, {PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_SPATIAL, 3, 0}},
         4},
        {{{PDL_AXIS_DATA, 2, 0},
          {PDL_AXIS_SPATIAL, 2, 0},
          {PDL_AXIS_PIPELINE, 2, 0},
          {PDL_AXIS_SPATIAL, 2, 0},
          {PDL_AXIS_DATA, 2, 0},
          {PDL_AXIS_TENSOR, 3, 0}},
         6},
    };

    for (size_t m = 0; m < (is_long(model) ? 1 : sizeof(meshes) / sizeof(meshes[0])); m++) {
        pdl_plan_t *plan = NULL;

        REQUIRE_OK(pdl_plan_create(model, &meshes[m], 256, &plan));
        if (plan == NULL) continue;
        randomize_modes(plan);
        randomize_settings(plan);
        check_round_trip(plan);
        pdl_plan_destroy(plan);
    }
}

static void random_plans_read_back(void)
{
    for_each_model(check_random);
}

/* An axis of size 1 splits nothing: a reader would look for a meaning in its modes. Files that have some are read. */
static void unit_axes_are_left_out(void)
{
    const pdl_mesh_t mesh = {
        {{PDL_AXIS_PIPELINE, 1, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_SPATIAL, 1, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 4};
    static const char old[] = "paradl: plan/1\nmodel: lenet\ndata: {batch: 8}\nmesh: [{data: 4}, {spatial_0: 1}]\n"
                              "modes: {default: {data: sample, spatial_0: space}}\n";
    pdl_model_t      *model;
    pdl_plan_t       *plan = make_plan(&model, "lenet", &mesh, 8);
    pdl_plan_file_t   file;
    char             *text;

    if (plan == NULL) return;
    CHECK_OK(pdl_plan_apply_preset(plan, "data+filter", NULL));
    text = written(plan, NULL, NULL, NULL);
    CHECK(strstr(text, "mesh: [{data: 4}, {tensor: 2}]") != NULL);
    CHECK(strstr(text, "spatial") == NULL);
    free(text);
    free_plan(plan, model);
    CHECK_OK(pdl_plan_read_memory(old, sizeof(old) - 1, "old.yaml", &file));
    CHECK_INT(file.plan->mesh.axis_count, 2);
    CHECK_INT(file.plan->modes[1].on[1], PDL_MODE_SPACE);
    pdl_plan_file_free(&file);
}

/* Parts of a machine in their order; which stage is on which is a comment. Names that no machine has are text all the same. */
static void parts_read_back(void)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_PIPELINE, 2, 0}}, 1};
    pdl_model_t     *model;
    pdl_plan_t      *plan = make_plan(&model, "lenet", &mesh, 8);
    pdl_plan_file_t  file;
    char            *text;

    if (plan == NULL) return;
    plan->part_count = 2;
    snprintf(plan->part[0], sizeof(plan->part[0]), "v100");
    snprintf(plan->part[1], sizeof(plan->part[1]), "a, \"b\"\n# c");
    snprintf(plan->stage_devices, sizeof(plan->stage_devices), "stage 0: v100");
    text = written(plan, NULL, NULL, NULL);
    CHECK(strstr(text, "] # stage 0: v100\n") != NULL);
    CHECK_OK(pdl_plan_read_memory(text, strlen(text), "p.yaml", &file));
    CHECK_INT(file.plan->part_count, 2);
    CHECK_STR(file.plan->part[0], "v100");
    CHECK_STR(file.plan->part[1], "a, \"b\"\n# c");
    pdl_plan_file_free(&file);
    free(text);
    plan->part_count = 0;
    text = written(plan, NULL, NULL, NULL);
    CHECK(strstr(text, "parts") == NULL);
    free(text);
    free_plan(plan, model);
}

static void blocks_collapse(void)
{
    const pdl_mesh_t mesh = {{{PDL_AXIS_PIPELINE, 8, 0}, {PDL_AXIS_DATA, 16, 0}, {PDL_AXIS_TENSOR, 8, 0}}, 3};
    pdl_model_t     *model;
    pdl_plan_t      *plan = make_plan(&model, "gpt3-175b", &mesh, 1536);

    if (plan != NULL) {
        CHECK_OK(pdl_plan_apply_preset(plan, "3d", NULL));
        CHECK(count_rules(plan) > 0 && count_rules(plan) <= 8);
    }
    free_plan(plan, model);

    plan = make_plan(&model, "resnet50", &mesh, 8192);
    if (plan != NULL) {
        for (int i = 0; i < pdl_model_layer_count(model); i++) {
            bool last = strncmp(pdl_model_layer(model, i)->name, "layer4.", 7) == 0;

            plan->modes[i].on[1] = PDL_MODE_SAMPLE;
            plan->modes[i].on[2] = last ? PDL_MODE_REPLICATE : PDL_MODE_PASS;
        }
        CHECK_INT(count_rules(plan), 1);
    }
    free_plan(plan, model);
}

static void numbers_read_back_exactly(void)
{
    const pdl_mesh_t      mesh = {{{PDL_AXIS_DATA, 4, 0}}, 1};
    pdl_model_t          *model;
    pdl_plan_t           *plan = make_plan(&model, "lenet", &mesh, 2147483647);
    pdl_plan_projection_t p = {0.1 + 0.2, 1e-300, 5e-324, 1.7976931348623157e308, 1.0 / 3, 0, -0.0, 15139340288.0};
    pdl_plan_file_t       file;
    char                 *text;

    for (int round = 0; plan != NULL && round < 50; round++) {
        text = written(plan, "my machine: \"A\\B\"", "/some/where #1.yaml", &p);
        CHECK_OK(pdl_plan_read_memory(text, strlen(text), "plan.yaml", &file));
        CHECK(file.has_projection);
        for (const pdl__projection_key_t *k = pdl__projection_keys; k->key != NULL; k++) {
            CHECK_NEAR(*(double *)((char *)&file.projection + k->offset), *(double *)((char *)&p + k->offset), 0);
        }
        CHECK_INT(file.plan->batch, 2147483647);
        CHECK_STR(file.system_name, "my machine: \"A\\B\"");
        CHECK_STR(file.data_name, "/some/where #1.yaml");
        pdl_plan_file_free(&file);
        free(text);
        p.iteration_s = (double)(draw() >> 11) * ldexp(1, below(200) - 150);
        p.memory_bytes = (double)(draw() >> 11);
    }
    free_plan(plan, model);
}

static void writing_refuses_what_cannot_be_read(void)
{
    const pdl_mesh_t      mesh = {{{PDL_AXIS_DATA, 4, 0}}, 1};
    pdl_model_t          *model;
    pdl_plan_t           *plan = make_plan(&model, "lenet", &mesh, 8);
    pdl_plan_projection_t p = {.comm_s = INFINITY};
    char                  name[1100];
    FILE                 *full = fopen("/dev/full", "w"), *null = fopen("/dev/null", "w");

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    if (plan != NULL && full != NULL && null != NULL) {
        CHECK_ERROR(pdl_plan_write(plan, NULL, NULL, NULL, NULL, full), "cannot write the plan");
        CHECK_ERROR(pdl_plan_write(plan, NULL, NULL, NULL, &p, null), "comm_s is projected to be inf");
        CHECK_ERROR(pdl_plan_write(plan, name, NULL, NULL, NULL, null), "name of its model is too long");
        CHECK_ERROR(pdl_plan_write(plan, NULL, NULL, "", NULL, null), "name of its data set is empty");
        plan->batch = INT64_MAX;
        CHECK_ERROR(pdl_plan_write(plan, NULL, NULL, NULL, NULL, null), "its batch is 9223372036854775807");
    }
    if (full != NULL) fclose(full);
    if (null != NULL) fclose(null);
    free_plan(plan, model);
}

static pdl_status_t read_text(const char *text, pdl_plan_file_t *file)
{
    return pdl_plan_read_memory(text, strlen(text), "p.yaml", file);
}

static void hand_written_plans(void)
{
    pdl_plan_file_t file;
    const char     *text = "paradl: plan/1\nmodel: resnet50\ndata: {batch: 256}\nstrategy: data+filter\n"
                           "mesh: [{data: 8}, {tensor: 4}]\n";

    CHECK_OK(read_text(text, &file));
    CHECK_INT(file.plan->modes[1].on[0], PDL_MODE_SAMPLE);
    CHECK_INT(file.plan->modes[1].on[1], PDL_MODE_FILTER);
    CHECK(!file.has_projection);
    pdl_plan_file_free(&file);
    CHECK(file.model == NULL && file.plan == NULL);

    text = "paradl: plan/1\nmodel: resnet50\ndata: {batch: 256}\nmesh: [{pipeline: 2}, {spatial: 4}]\n"
           "modes:\n  default: {spatial: replicate}\n  layers:\n    - {match: \"layer[12].*.conv?\", spatial_0: "
           "space}\n"
           "    - {match: layer1.0.conv1, spatial: pass}\n"
           "pipeline: {stages: [input, layer3.0.conv1]}\ncollectives: {spatial: {algorithm: circulant}}\nmode: "
           "inference\n";
    CHECK_OK(read_text(text, &file));
    CHECK_INT(file.plan->modes[pdl_model_find_layer(file.model, "layer2.1.conv2")].on[1], PDL_MODE_SPACE);
    CHECK_INT(file.plan->modes[pdl_model_find_layer(file.model, "layer1.0.conv1")].on[1], PDL_MODE_PASS);
    CHECK_INT(file.plan->modes[pdl_model_find_layer(file.model, "layer3.0.conv1")].on[1], PDL_MODE_REPLICATE);
    CHECK_INT(file.plan->stage_first[1], pdl_model_find_layer(file.model, "layer3.0.conv1"));
    CHECK_STR(file.plan->collective[1].algorithm, "circulant");
    CHECK_INT(file.plan->run_mode, PDL_INFERENCE);
    pdl_plan_file_free(&file);
}

/* Every case is the file below with one of its lines replaced (or, when it matches none, added at the end). */
static const char *const good[] = {
    "paradl: plan/1",
    "model: lenet",
    "data: {batch: 64}",
    "mesh: [{pipeline: 2}, {data: 4}, {tensor: 2}]",
    "modes: {default: {data: sample, tensor: replicate}}",
};

static char *with_line(const char *line, char *text, size_t size)
{
    size_t key = strcspn(line, ":"), used = 0;
    bool   found = false;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        bool same = strncmp(good[i], line, key + 1) == 0;

        found |= same;
        if (same && line[key + 1] == '\0') continue;
        used += (size_t)snprintf(text + used, size - used, "%s\n", same ? line : good[i]);
    }
    if (!found) snprintf(text + used, size - used, "%s\n", line);
    return text;
}

#define STAGES "pipeline: {stages: [input, conv2]}\n"

static void mistakes_name_the_place(void)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"paradl: model/1", "p.yaml:1: expected a plan file"},
        {"colour: red", "p.yaml:6: unknown key \"colour\""},
        {"model: lenett", "p.yaml:2: unknown model \"lenett\": did you mean lenet"},
        {"model:", "key \"model\" is missing"},
        {"model_hash: 0123456789abcdef", "p.yaml:6: model lenet changed since the plan was made"},
        {"model_hash: 12", "p.yaml:6: model_hash: expected 16 hexadecimal digits"},
        {"data: {batch: 0}", "p.yaml:3: batch: expected a whole number from 1"},
        {"data: {set: mnist}", "p.yaml:3: key \"batch\" is missing"},
        {"data: {batch: 8, policy: x}", "p.yaml:3: unknown key \"policy\""},
        {"data:", "key \"data\" is missing"},
        {"data: {batch: 3}", "p.yaml: data axis of 4 is larger than the batch of 3"},
        {"mesh:", "key \"mesh\" is missing"},
        {"parts: a100", "p.yaml:6: expected the parts of the machine"},
        {"parts: []", "p.yaml:6: expected 1 to 4 parts, found 0"},
        {"parts: [a, b, c, d, e]", "p.yaml:6: expected 1 to 4 parts, found 5"},
        {"parts: ['']", "p.yaml:6: expected the name of a part, of 1 to 31 characters"},
        {"parts: [abcdefghijklmnopqrstuvwxyzabcdef]", "p.yaml:6: expected the name of a part"},
        {"mesh: {data: 4}", "p.yaml:4: expected a list of axes"},
        {"mesh: [{data: 4, tensor: 2}]", "p.yaml:4: expected one axis such as {data: 4}, found 2"},
        {"mesh: [{model: 4}]", "p.yaml:4: unknown axis \"model\""},
        {"mesh: [{spatial_3: 4}]", "p.yaml:4: unknown axis \"spatial_3\""},
        {"mesh: [{data: 0}]", "p.yaml:4: expected a whole number from 1"},
        {"mesh: [{data: 4}, {data: 4}]", "p.yaml:4: axis \"data\" must be called data_0 here"},
        {"mesh: [{data_1: 4}]", "p.yaml:4: axis \"data_1\" must be called data here"},
        {"mesh: [{data: 65536}, {tensor: 65536}]", "p.yaml:4: the mesh has more than 2147483647 ranks"},
        {"mesh: [{pipeline: 100}]", "p.yaml:4: 100 pipeline stages, but model lenet"},
        {"mesh: [{data: 1}, {tensor: 1}, {pipeline: 1}, {spatial_0: 1}, {spatial_1: 1}, {spatial_2: 1}, {data: 1}]",
         "p.yaml:4: expected at most 6 axes, found 7"},
        {"modes:", "p.yaml:1: modes are missing"},
        {"modes: {default: {data: samples}}", "p.yaml:5: expected pass, replicate, sample"},
        {"modes: {default: {expert: sample}}",
         "p.yaml:5: unknown axis \"expert\": the mesh has pipeline, data, tensor"},
        {"modes: {default: {pipeline: pass}}", "p.yaml:5: the pipeline axis takes no mode"},
        {"modes: {default: {match: x}}", "p.yaml:5: the default matches every layer"},
        {"modes: {layers: [\n{match: \"conv9*\", tensor: filter}]}",
         "p.yaml:6: no layer of model lenet matches \"conv9*\""},
        {"modes: {layers: [\n{match: \"*\"}]}", "p.yaml:6: no mode for the layers that match \"*\""},
        {"modes: {layers: [\n{tensor: filter}]}", "p.yaml:6: key \"match\" is missing"},
        {"modes: {default: {tensor: heads}}", "p.yaml: tensor axis of 2: layer input"},
        {"pipeline: {schedule: zigzag}", "p.yaml:6: schedule: expected gpipe, 1f1b, interleaved or zero-bubble"},
        {"pipeline: {micro_batches: 65}", "p.yaml: 65 micro-batches"},
        {"pipeline: {virtual_stages: 2}", "p.yaml: 2 virtual stages need the interleaved schedule"},
        {"pipeline: {schedule: interleaved, virtual_stages: 999}",
         "p.yaml:6: virtual_stages: expected a whole number"},
        {"pipeline: {stages: 2}", "p.yaml:6: stages: expected auto or a list"},
        {"pipeline: {stages: [input]}", "p.yaml:6: stages: expected 2 names"},
        {"pipeline: {stages: [input, nowhere]}", "p.yaml:6: model lenet has no layer \"nowhere\""},
        {"pipeline: {stages: [loss, input]}",
         "p.yaml:6: the first stage must begin with the first layer, \"input\""},
        {"pipeline: {stages: [input, input]}",
         "p.yaml:6: stage 1 begins with \"input\", which does not come after"},
        {"memory: {recompute: some}", "p.yaml:6: recompute: expected none, selective or full"},
        {STAGES "memory: {recompute: none, blocks: [{to: loss, policy: keep}]}", "p.yaml:7: memory has recompute"},
        {STAGES "memory: {blocks: []}", "p.yaml:7: expected 1 to 14 blocks, found 0"},
        {STAGES "memory: {blocks: keep}", "p.yaml:7: expected a list of blocks"},
        {STAGES "memory: {blocks: [keep]}", "p.yaml:7: expected a block such as"},
        {STAGES "memory: {blocks: [{to: loss}]}", "p.yaml:7: key \"policy\" is missing"},
        {STAGES "memory: {blocks: [{to: pool1, policy: keep},\n{to: loss, policy: drop}]}",
         "p.yaml:8: policy: expected keep, recompute, swap, swap_boundary, recompute_cheap or swap_cheap"},
        {STAGES "memory: {blocks: [{to: pool1, policy: keep},\n{to: nowhere, policy: keep}]}",
         "p.yaml:8: model lenet has no layer \"nowhere\" for a block to end with"},
        {STAGES "memory: {blocks: [{to: pool1, policy: keep},\n{to: conv1, policy: keep}]}",
         "p.yaml:8: the block to \"conv1\" overlaps the one before it, which goes to \"pool1\""},
        {STAGES "memory: {blocks: [{to: pool1, policy: keep},\n{to: fc3, policy: keep}]}",
         "p.yaml:8: the last block ends with \"fc3\" and leaves out the layers behind it"},
        {STAGES "memory: {blocks: [{to: conv1, policy: keep},\n{to: loss, policy: recompute}]}",
         "p.yaml:8: the block from \"relu1\" to \"loss\" crosses into the stage that begins with \"conv2\": end a "
         "block with \"pool1\""},
        {STAGES "memory: {blocks: [{to: pool1, policy: swap},\n{to: loss, policy: recompute, prefetch: 2}]}",
         "p.yaml:8: prefetch is of blocks that are swapped, and policy is recompute"},
        {STAGES "memory: {blocks: [{to: pool1, policy: swap, release_after: 0},\n{to: loss, policy: keep}]}",
         "p.yaml:7: release_after: expected"},
        {"memory: {blocks: [{to: loss, policy: keep}]}", "p.yaml:6: blocks end where stages do: name the first"},
        {"memory: {sharding: zero4}", "p.yaml:6: sharding: expected none"},
        {"memory: {sequence_parallel: 1}", "p.yaml:6: sequence_parallel: expected true or false"},
        {"collectives: {spatial: {algorithm: ring}}", "p.yaml:6: unknown axis \"spatial\""},
        {"collectives: {data: {algorithm: best}}", "p.yaml:6: there is no schedule \"best\": use auto or one"},
        {"collectives: {data: rign}", "p.yaml:6: there is no schedule \"rign\": did you mean ring"},
        {"collectives: {data: [ring]}", "p.yaml:6: expected a mapping"},
        {"collectives: {data: {ring: 1}}", "p.yaml:6: unknown key \"ring\""},
        {"collectives: {data: {algorithm: ring, ranks_per_node: 0}}", "p.yaml:6: ranks_per_node: expected"},
        {"precision: fp7", "p.yaml:6: precision: expected fp64"},
        {"optimizer: lion", "p.yaml:6: optimizer: expected sgd, momentum or adam"},
        {"sync_batch_norm: maybe", "p.yaml:6: sync_batch_norm: expected true or false"},
        {"mode: dreaming", "p.yaml:6: mode: expected training or inference"},
        {"projected: {iteration_s: -1}", "p.yaml:6: iteration_s: expected a time"},
        {"projected: {speed: 1}", "p.yaml:6: unknown key \"speed\""},
        {"strategy: a strategy with a name that is too long", "p.yaml:6: strategy: expected at most 31 characters"},
    };
    pdl_plan_file_t file;
    char            text[1024];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pdl_status_t st = read_text(with_line(cases[i].line, text, sizeof(text)), &file);

        CHECK_ERROR(st, cases[i].message);
        if (st == PDL_OK) pdl_plan_file_free(&file);
    }
    CHECK_OK(read_text(with_line("precision: fp16", text, sizeof(text)), &file));
    pdl_plan_file_free(&file);
    CHECK_ERROR(pdl_plan_read("no/such/plan.yaml", &file), "no/such/plan.yaml");
}

static void axes_have_names(void)
{
    const pdl_mesh_t         mesh = {{{PDL_AXIS_DATA, 2, 0},
                                      {PDL_AXIS_SPATIAL, 2, 1},
                                      {PDL_AXIS_DATA, 2, 0},
                                      {PDL_AXIS_SPATIAL, 2, 0},
                                      {PDL_AXIS_SPATIAL, 2, 1},
                                      {PDL_AXIS_PIPELINE, 2, 0}},
                                     6};
    static const char *const names[] = {"data_0", "spatial_1_0", "data_1", "spatial_0", "spatial_1_1", "pipeline"};
    char                     name[PDL__AXIS_NAME_SIZE];

    for (int a = 0; a < 6; a++) {
        pdl__axis_name(&mesh, a, name);
        CHECK_STR(name, names[a]);
        CHECK_INT(pdl__axis_find(&mesh, name), a);
    }
    CHECK_INT(pdl__axis_find(&mesh, "spatial"), 3);
    CHECK_INT(pdl__axis_find(&mesh, "data"), -1);
    CHECK_INT(pdl__axis_find(&mesh, "tensor"), -1);
}

/* The same answers as the C library, but on patterns on which that takes forever. */
static void patterns_match_as_in_a_shell(void)
{
    static const char *const tokens[] = {"a",   "b",    ".",    "*",    "?",    "[ab]", "[!a]",  "[a-b]", "\\*",
                                         "\\a", "[]a]", "[!.]", "[*?]", "[^b]", "*",    "[.-a]", "*",     "[b-]"};
    static const char        letters[] = "ab.*]-";

    for (int round = 0; round < 200000; round++) {
        char pattern[64] = "", name[16] = "";
        int  parts = below(7), length = below(9);

        for (int i = 0; i < parts; i++) strcat(pattern, tokens[below(sizeof(tokens) / sizeof(tokens[0]))]);
        for (int i = 0; i < length; i++) name[i] = letters[below(6)];
        if (pdl__glob_match(pattern, name) == (fnmatch(pattern, name, 0) == 0)) continue;
        printf("%s %s\n", pattern, name);
        CHECK_INT(pdl__glob_match(pattern, name), fnmatch(pattern, name, 0) == 0);
    }
    CHECK(!pdl__glob_match("*a*a*a*a*a*a*a*a*a*a*a*a*b",
                           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    CHECK(pdl__glob_match("[", "[") && pdl__glob_match("\\", "\\") && pdl__glob_match("[a", "[a"));
}

int main(void)
{
    RUN(axes_have_names);
    RUN(patterns_match_as_in_a_shell);
    RUN(presets_read_back);
    RUN(random_plans_read_back);
    RUN(unit_axes_are_left_out);
    RUN(parts_read_back);
    RUN(blocks_collapse);
    RUN(numbers_read_back_exactly);
    RUN(writing_refuses_what_cannot_be_read);
    RUN(hand_written_plans);
    RUN(mistakes_name_the_place);
    return test_done();
}
