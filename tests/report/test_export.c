/* Plans for other frameworks: every option that is written is one that the framework's own parser knows (the lists in
   tests/report/options say of which version), settings of the plan are found again, and the rest is named. */
#include "report/export/export.h"

#include "test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_NAMES 1000

static char folder[64];

typedef struct names {
    char text[MOST_NAMES][80];
    int  count;
} names_t;

static void read_names(const char *framework, names_t *names)
{
    char  path[512], line[256];
    FILE *file;

    names->count = 0;
    snprintf(path, sizeof(path), "%s/tests/report/options/%s.txt", getenv("SOURCE"), framework);
    file = fopen(path, "r");
    REQUIRE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL && names->count < MOST_NAMES)
        if (line[0] != '#') snprintf(names->text[names->count++], 80, "%.*s", (int)strcspn(line, "\n"), line);
    fclose(file);
    CHECK(names->count > 40 && names->count < MOST_NAMES);
}

static bool is_known(const names_t *names, const char *key)
{
    for (int i = 0; i < names->count; i++)
        if (strcmp(names->text[i], key) == 0) return true;
    return false;
}

static pdl_plan_t *make_plan(const pdl_model_t *model, const char *strategy, int64_t data, int64_t pipeline,
                             int64_t tensor)
{
    pdl_mesh_t  mesh = {{{PDL_AXIS_PIPELINE, pipeline, 0}, {PDL_AXIS_DATA, data, 0}, {PDL_AXIS_TENSOR, tensor, 0}},
                        3};
    pdl_plan_t *plan = NULL;

    REQUIRE_OK(pdl_plan_create(model, &mesh, 8 * data, &plan));
    REQUIRE_OK(pdl_plan_apply_preset(plan, strategy, NULL));
    plan->micro_batches = 4;
    return plan;
}

static const pdl_projection_t projection = {
    .total_s = 2, .low_s = 1, .high_s = 3, .flop = 1e15, .memory_bytes = 3e10, .compute_s = 1.5, .comm_s = 0.5};

/* What an exporter collected for a plan; the caller frees it. */
static pdl__exported_t *collect(const pdl_plan_t *plan, const pdl__exporter_t *exporter)
{
    pdl__exported_t *x = calloc(1, sizeof(*x));

    REQUIRE(x != NULL);
    *x = (pdl__exported_t){.plan = plan, .framework = exporter->name, .folder = folder, .nodes = 1, .per_node = 8};
    x->net = pdl__export_network(plan->model);
    x->data = pdl_mesh_extent(&plan->mesh, PDL_AXIS_DATA);
    x->tensor = x->experts = pdl_mesh_extent(&plan->mesh, PDL_AXIS_TENSOR);
    x->pipeline = pdl_mesh_extent(&plan->mesh, PDL_AXIS_PIPELINE);
    x->micro = plan->batch / x->data / plan->micro_batches;
    x->outer = true;
    x->overlaps = x->data > 1;
    x->recompute = plan->recompute;
    x->list = fopen("/dev/null", "w");
    REQUIRE(x->list != NULL);
    pdl__export_common(x);
    CHECK_OK(exporter->write(x));
    fclose(x->list);
    return x;
}

static bool has(const pdl__exported_t *x, const char *key)
{
    for (int i = 0; i < x->options; i++)
        if (strcmp(x->option[i].key, key) == 0) return true;
    return false;
}

static const char *value_of(const pdl__exported_t *x, const char *key)
{
    for (int i = 0; i < x->options; i++)
        if (strcmp(x->option[i].key, key) == 0) return x->option[i].value;
    return "";
}

static void check_keys(const pdl__exported_t *x, const names_t *names)
{
    CHECK(x->options < PDL__MOST_OPTIONS - 1 && x->notes < PDL__MOST_NOTES);
    for (int i = 0; i < x->options; i++)
        if (!is_known(names, x->option[i].key)) {
            fprintf(stderr, "%s has no %s\n", x->framework, x->option[i].key);
            CHECK(false);
        }
}

/* Every setting of a plan, in turn. */
static void vary(pdl_plan_t *plan, int turn)
{
    plan->sharding = (pdl_sharding_t)(turn % PDL_SHARDING_COUNT);
    plan->recompute = (pdl_recompute_t)(turn % PDL_RECOMPUTE_COUNT);
    plan->precision = (pdl_precision_t)(turn % PDL_PRECISION_COUNT);
    plan->optimizer = (pdl_optimizer_t)((turn + 1) % PDL_OPTIMIZER_COUNT);
    plan->optimizer_tier = (pdl_tier_t)(turn % PDL_TIER_COUNT);
    plan->schedule = (pdl_pipeline_schedule_t)(turn % PDL_SCHEDULE_COUNT);
    plan->sequence_parallel = turn % 2 == 0;
}

static void options_are_those_of_the_frameworks(void)
{
    static const char *const models[] = {"llama3-8b", "gpt2-124m", "mixtral-8x7b", "bert-large", "resnet50"};
    static names_t           names;

    for (int f = 0; f < PDL_EXPORT_COUNT - 1; f++) {
        const pdl__exporter_t *exporter = &pdl__exporters[f];

        CHECK_STR(exporter->name, pdl_export_names[f]);
        read_names(exporter->name, &names);
        for (int m = 0; m < 5; m++) {
            pdl_model_t *model = NULL;
            bool         image = m == 4, language = f == 0 || f == 2 || f == 4;

            if (image && language) continue;
            REQUIRE_OK(pdl_model_load(models[m], &model));
            for (int turn = 0; turn < 12; turn++) {
                pdl_plan_t *plan = image ? make_plan(model, "data", 4, 1, 1)
                                         : make_plan(model, "3d", 2, turn % 3 == 0 ? 1 : 2, turn % 4 == 0 ? 1 : 2);

                vary(plan, turn);
                pdl__exported_t *x = collect(plan, exporter);
                check_keys(x, &names);
                free(x);
                pdl_plan_destroy(plan);
            }
            pdl_model_destroy(model);
        }
    }
}

static void megatron_gets_the_numbers_of_the_plan(void)
{
    pdl_model_t     *model = NULL;
    pdl_plan_t      *plan;
    pdl__exported_t *x;

    REQUIRE_OK(pdl_model_load("mixtral-8x7b", &model));
    plan = make_plan(model, "3d", 4, 2, 8);
    plan->sharding = PDL_SHARDING_ZERO1;
    plan->recompute = PDL_RECOMPUTE_SELECTIVE;
    plan->precision = PDL_BF16;
    plan->sequence_parallel = true;
    x = collect(plan, &pdl__exporters[0]);
    CHECK_STR(value_of(x, "num-layers"), "32");
    CHECK_STR(value_of(x, "hidden-size"), "4096");
    CHECK_STR(value_of(x, "ffn-hidden-size"), "14336");
    CHECK_STR(value_of(x, "num-query-groups"), "8");
    CHECK_STR(value_of(x, "num-experts"), "8");
    CHECK_STR(value_of(x, "moe-router-topk"), "2");
    CHECK_STR(value_of(x, "tensor-model-parallel-size"), "8");
    CHECK_STR(value_of(x, "expert-model-parallel-size"), "8");
    CHECK_STR(value_of(x, "pipeline-model-parallel-size"), "2");
    CHECK_STR(value_of(x, "micro-batch-size"), "2");
    CHECK_STR(value_of(x, "global-batch-size"), "32");
    CHECK_STR(value_of(x, "recompute-granularity"), "selective");
    CHECK_STR(value_of(x, "vocab-size"), "31999");
    CHECK_STR(value_of(x, "data-parallel-sharding-strategy"), "");
    CHECK(!has(x, "fp4-format"));
    free(x);
    plan->precision = PDL_NVFP4;
    x = collect(plan, &pdl__exporters[0]);
    CHECK_STR(value_of(x, "fp4-format"), "e2m1");
    CHECK_STR(value_of(x, "fp4-recipe"), "nvfp4");
    CHECK(has(x, "bf16") && !has(x, "fp8-format"));
    free(x);
    plan->precision = PDL_BF16;
    /* What Megatron-LM and DeepSpeed refuse otherwise. */
    plan->sharding = PDL_SHARDING_ZERO2;
    plan->optimizer = PDL_OPTIMIZER_ADAM;
    plan->optimizer_tier = PDL_TIER_HOST;
    plan->sequence_parallel = false;
    x = collect(plan, &pdl__exporters[0]);
    CHECK_STR(value_of(x, "ckpt-format"), "fsdp_dtensor");
    CHECK(has(x, "use-precision-aware-optimizer") && has(x, "sequence-parallel") && has(x, "moe-grouped-gemm"));
    free(x);
    x = collect(plan, pdl__exporter_find("deepspeed"));
    CHECK_STR(value_of(x, "train_batch_size"), "32");
    free(x);
    pdl_plan_destroy(plan);
    plan = make_plan(model, "data+tensor", 4, 1, 8);
    x = collect(plan, pdl__exporter_find("deepspeed"));
    CHECK(!has(x, "train_batch_size"));
    free(x);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static bool is_noted(const pdl__exported_t *x, const char *part)
{
    for (int i = 0; i < x->notes; i++)
        if (strstr(x->note[i], part) != NULL) return true;
    return false;
}

static void what_is_not_expressed_is_named(void)
{
    pdl_model_t     *model = NULL;
    pdl_plan_t      *plan;
    pdl__exported_t *x;

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    plan = make_plan(model, "3d", 2, 2, 2);
    plan->optimizer = PDL_OPTIMIZER_SGD;
    plan->sharding = PDL_SHARDING_ZERO3;
    x = collect(plan, pdl__exporter_find("deepspeed"));
    CHECK(is_noted(x, "PipelineModule(num_stages=2)") && is_noted(x, "zero3 with a pipeline") &&
          is_noted(x, "NCCL"));
    free(x);
    x = collect(plan, pdl__exporter_find("fsdp"));
    CHECK(is_noted(x, "pipeline of 2") && is_noted(x, "gradient_accumulation_steps=4"));
    free(x);
    x = collect(plan, pdl__exporter_find("torchtitan"));
    CHECK(is_noted(x, "optimizer sgd") && is_noted(x, "flavor") && is_noted(x, "RMS norms"));
    free(x);
    pdl_plan_destroy(plan);
    plan = make_plan(model, "data+filter", 4, 1, 2);
    x = collect(plan, pdl__exporter_find("megatron"));
    CHECK(is_noted(x, "strategy data+filter"));
    free(x);
    pdl_plan_destroy(plan);
    pdl_model_destroy(model);
}

static void a_folder_has_all_files(void)
{
    static const char *const files[] = {"megatron_args.sh", "job.slurm", "first_iterations.txt"};
    pdl_model_t             *model = NULL;
    const pdl_system_t      *system = NULL;
    pdl_plan_t              *plan;
    char                     path[128], *text;
    size_t                   length;
    FILE                    *stream = open_memstream(&text, &length);
    pdl_export_t what = {.projection = &projection, .model_name = "x'$(id)'\n", .system_name = "selene"};

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    what.plan = plan = make_plan(model, "3d", 4, 2, 2);
    what.system = system;
    CHECK_OK(pdl_report_export(&what, "megatron", folder, stream));
    CHECK_INT(pdl_report_export(&what, "caffe", folder, stream), PDL_ERR_INPUT);
    CHECK_INT(pdl_report_export(&what, "megatron", "/nonexistent/folder", stream), PDL_ERR_IO);
    fclose(stream);
    CHECK(strstr(text, "not expressed: schedules of collectives") != NULL);
    free(text);
    for (int i = 0; i < 3; i++) {
        char  line[4096];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        file = fopen(path, "r");
        REQUIRE(file != NULL);
        while (fgets(line, sizeof(line), file) != NULL) CHECK(strstr(line, "$(id)") == NULL);
        fclose(file);
    }
    pdl_plan_destroy(plan);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* Both inner axes of a plan, by the name that each has. */
static void tokens_and_channels_at_once(void)
{
    static const char *const files[][4] = {{"megatron", "megatron_args.sh", "--tensor-model-parallel-size 4",
                                            "--context-parallel-size 2"},
                                           {"torchtitan", "torchtitan.toml", "tensor_parallel_degree = 4",
                                            "context_parallel_degree = 2"}};
    pdl_mesh_t               mesh = {
                      {{PDL_AXIS_PIPELINE, 2, 0}, {PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 4, 0}}, 4};
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_plan_t         *plan = NULL;
    pdl_export_t        what = {.projection = &projection, .model_name = "llama2-7b", .system_name = "selene"};
    FILE               *list = fopen("/dev/null", "w");

    REQUIRE_OK(pdl_model_load("llama2-7b", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    REQUIRE_OK(pdl_plan_create(model, &mesh, 16, &plan));
    REQUIRE_OK(pdl_plan_apply_preset(plan, "4d", NULL));
    what.plan = plan;
    what.system = system;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char  path[128], text[16384] = {0};
        FILE *file;

        CHECK_OK(pdl_report_export(&what, files[i][0], folder, list));
        snprintf(path, sizeof(path), "%s/%s", folder, files[i][1]);
        file = fopen(path, "r");
        REQUIRE(file != NULL);
        CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
        fclose(file);
        CHECK(strstr(text, files[i][2]) != NULL && strstr(text, files[i][3]) != NULL);
    }
    fclose(list);
    pdl_plan_destroy(plan);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* A file that an export wrote; it is there until the next call. */
static const char *exported(const pdl_export_t *what, const char *framework, const char *name)
{
    static char text[16384];
    char        path[128];
    FILE       *list = fopen("/dev/null", "w"), *file;

    REQUIRE(list != NULL);
    CHECK_OK(pdl_report_export(what, framework, folder, list));
    fclose(list);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    REQUIRE(file != NULL);
    memset(text, 0, sizeof(text));
    CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    return text;
}

static pdl_plan_t *mixture_plan(const pdl_model_t *model, const pdl_mesh_t *mesh, const char *strategy)
{
    const pdl_preset_options_t options = {.expert_axis = 1};
    pdl_plan_t                *plan = NULL;

    REQUIRE_OK(pdl_plan_create(model, mesh, 16, &plan));
    REQUIRE_OK(pdl_plan_apply_preset(plan, strategy, &options));
    return plan;
}

/* Two tensor ranks of each of four replicas share experts out: eight ranks. */
static void experts_of_replicas(void)
{
    pdl_mesh_t mesh = {{{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_DATA, 4, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 3};
    /* With a context axis of two, whose ranks are of the eight. */
    pdl_mesh_t context = {
        {{PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_DATA, 2, 0}, {PDL_AXIS_SPATIAL, 2, 0}, {PDL_AXIS_TENSOR, 2, 0}}, 4};
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_export_t        what = {.projection = &projection, .model_name = "mixtral-8x7b", .system_name = "selene"};

    REQUIRE_OK(pdl_model_load("mixtral-8x7b", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    pdl_plan_t *plan = mixture_plan(model, &mesh, "data+tensor"),
               *with_context = mixture_plan(model, &context, "data+tensor+context");
    what.plan = plan;
    what.system = system;
    const char *text = exported(&what, "megatron", "megatron_args.sh");
    CHECK(strstr(text, "--expert-model-parallel-size 8") != NULL);
    CHECK(strstr(text, "--moe-token-dispatcher-type 'alltoall'") != NULL);
    CHECK(strstr(text, "--tensor-model-parallel-size 2") != NULL);
    CHECK(strstr(text, "--overlap-moe-expert-parallel-comm") == NULL);
    CHECK(strstr(text, "--tp-comm-overlap") == NULL);
    CHECK(strstr(exported(&what, "torchtitan", "torchtitan.toml"), "async_tensor") == NULL);
    what.plan = with_context;
    text = exported(&what, "megatron", "megatron_args.sh");
    CHECK(strstr(text, "--expert-model-parallel-size 8") != NULL);
    CHECK(strstr(text, "--context-parallel-size 2") != NULL);
    /* Overlap as it was projected, where it can be: of experts with two micro-batches, not with one. */
    pdl_parameters_t parameters = {.expert_overlap = 0.7, .layer_overlap = 0.6};
    what.plan = plan;
    what.parameters = &parameters;
    for (plan->micro_batches = 1; plan->micro_batches <= 2; plan->micro_batches++) {
        text = exported(&what, "megatron", "megatron_args.sh");
        CHECK_INT(strstr(text, "--overlap-moe-expert-parallel-comm") != NULL, plan->micro_batches == 2);
        CHECK(strstr(text, "--tp-comm-overlap") != NULL);
    }
    text = exported(&what, "torchtitan", "torchtitan.toml");
    CHECK(strstr(text, "enable_async_tensor_parallel = true") != NULL);
    pdl_plan_destroy(with_context);
    pdl_plan_destroy(plan);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* Of every stage the first blocks: what Megatron-LM and NeMo call method block. Others recompute all of them then. */
static void some_blocks_are_recomputed(void)
{
    static const char *const all = "recompute of 2 blocks a stage: all are recomputed";
    pdl_model_t             *model = NULL;
    const pdl_system_t      *system = NULL;
    pdl_export_t             what = {.projection = &projection, .model_name = "gpt2-124m", .system_name = "selene"};

    REQUIRE_OK(pdl_model_load("gpt2-124m", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    pdl_plan_t      *plan = make_plan(model, "3d", 2, 2, 1);
    int              border = pdl_model_find_layer(model, "h.5.add_2"), layers = pdl_model_layer_count(model);
    pdl_plan_block_t block[] = {{.last = pdl_model_find_layer(model, "drop")},
                                {.last = pdl_model_find_layer(model, "h.1.add_2"), .policy = PDL_MEMORY_RECOMPUTE},
                                {.last = border},
                                {.last = pdl_model_find_layer(model, "h.7.add_2"), .policy = PDL_MEMORY_RECOMPUTE},
                                {.last = layers - 1}};
    plan->stage_first[1] = border + 1;
    plan->stages_given = true;
    REQUIRE_OK(pdl_plan_set_blocks(plan, block, 5));
    what.plan = plan;
    what.system = system;
    const char *text = exported(&what, "megatron", "megatron_args.sh");
    CHECK(strstr(text, "--recompute-granularity 'full'") != NULL);
    CHECK(strstr(text, "--recompute-method 'block'") != NULL);
    CHECK(strstr(text, "--recompute-num-layers 2\n") != NULL);
    CHECK(strstr(exported(&what, "nemo", "nemo_pretrain.py"), "recompute_num_layers=2") != NULL);
    CHECK(strstr(exported(&what, "torchtitan", "torchtitan.toml"), "mode = \"full\"") != NULL);
    CHECK(strstr(exported(&what, "torchtitan", "first_iterations.txt"), all) != NULL);
    /* Other blocks than the first of a stage: nobody knows these. */
    block[0].policy = block[1].policy = PDL_MEMORY_KEEP;
    block[2].policy = PDL_MEMORY_RECOMPUTE;
    REQUIRE_OK(pdl_plan_set_blocks(plan, block, 5));
    CHECK(strstr(exported(&what, "megatron", "megatron_args.sh"), "--recompute") == NULL);
    CHECK(strstr(exported(&what, "megatron", "first_iterations.txt"), "memory policy per block") != NULL);
    pdl_plan_destroy(plan);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

static void images_are_not_for_language_frameworks(void)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_export_t        what = {.projection = &projection, .model_name = "resnet50", .system_name = "selene"};
    pdl_plan_t         *plan;
    FILE               *stream = fopen("/dev/null", "w");

    REQUIRE_OK(pdl_model_load("resnet50", &model));
    REQUIRE_OK(pdl_system_load("selene", &system));
    what.plan = plan = make_plan(model, "data", 4, 1, 1);
    what.system = system;
    CHECK_INT(pdl_report_export(&what, "nemo", folder, stream), PDL_ERR_UNSUPPORTED);
    CHECK(strstr(pdl_error_message(), "export deepspeed, fsdp or slurm") != NULL);
    CHECK_OK(pdl_report_export(&what, "fsdp", folder, stream));
    fclose(stream);
    pdl_plan_destroy(plan);
    pdl_system_destroy(system);
    pdl_model_destroy(model);
}

/* For tests/long/test_export_parsers.sh: exports of every setting in turn, which a search would not choose. */
static void write_exports(void)
{
    static const char *const models[] = {"llama3-8b", "gpt2-124m", "mixtral-8x7b", "bert-large"};
    const pdl_system_t      *system = NULL;
    FILE                    *list = fopen("/dev/null", "w");
    char                     path[512];

    REQUIRE(list != NULL);
    REQUIRE_OK(pdl_system_load("dgx-h100", &system));
    for (int i = 0; i < 4 * 4 * 12; i++) {
        const char  *framework = pdl_export_names[i / 48], *name = models[i / 12 % 4];
        pdl_model_t *model = NULL;
        int          turn = i % 12;

        REQUIRE_OK(pdl_model_load(name, &model));
        pdl_plan_t  *plan = make_plan(model, "3d", 2, turn % 3 == 0 ? 1 : 2, turn % 4 == 0 ? 1 : 2);
        pdl_export_t what = {.plan = plan,
                             .projection = &projection,
                             .system = system,
                             .model_name = name,
                             .system_name = "dgx-h100"};
        vary(plan, turn);
        snprintf(path, sizeof(path), "%s/%s/%s-%d", getenv("EXPORTS"), framework, name, turn);
        CHECK(mkdir(path, 0777) == 0);
        CHECK_OK(pdl_report_export(&what, framework, path, list));
        snprintf(path + strlen(path), 20, "/plan.yaml");
        FILE *file = fopen(path, "w");
        REQUIRE(file != NULL);
        CHECK_OK(pdl_plan_write(plan, name, "dgx-h100", NULL, NULL, file));
        fclose(file);
        pdl_plan_destroy(plan);
        pdl_model_destroy(model);
    }
    fclose(list);
    pdl_system_destroy(system);
}

int main(void)
{
    static const char *const made[] = {"megatron_args.sh",    "ds_config.json",   "torchtitan.toml",
                                       "accelerate.yaml",     "nemo_pretrain.py", "job.slurm",
                                       "first_iterations.txt"};
    char                     path[128];

    if (getenv("EXPORTS") != NULL) {
        RUN(write_exports);
        return test_done();
    }
    snprintf(folder, sizeof(folder), "/tmp/paradl-export-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    RUN(options_are_those_of_the_frameworks);
    RUN(megatron_gets_the_numbers_of_the_plan);
    RUN(what_is_not_expressed_is_named);
    RUN(a_folder_has_all_files);
    RUN(tokens_and_channels_at_once);
    RUN(experts_of_replicas);
    RUN(some_blocks_are_recomputed);
    RUN(images_are_not_for_language_frameworks);
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, made[i]);
        unlink(path);
    }
    rmdir(folder);
    return test_done();
}
