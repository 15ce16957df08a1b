/*
 * Published runs: the stored parameters against the stored table, what a row's words become, and tables that cannot
 * be read.
 */
#include "test.h"
#include "validate/published/published.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const table = PDL_TEST_SOURCE "/share/measured/published_runs.csv";

#define HEADER                                                                                                    \
    "run_id,source,family,model,params_b,layers,hidden,ffn_hidden,heads,kv_heads,vocab,seq_len,accelerator,"      \
    "accel_mem_gb,gpus,gpus_per_node,internode,precision,tp,pp,vpp,dp,cp,ep,sharding,recompute,offload,schedule," \
    "micro_batch,grad_accum,global_batch,framework,iter_time_s,samples_per_s,tflops_per_gpu,tflops_kind,mem_gb,"  \
    "mem_kind,outcome,notes\n"
/* gpus, precision, tp, pp, cp, micro-batch, batch, framework, seconds */
#define GPT(id, gpus, tp, pp, cp, micro, batch, framework, seconds)                                        \
    id ",here,transformer,GPT,,24,2048,,16,,,1024,A100-SXM,80," gpus                                       \
       ",8,4 links per node (nominal 400 Gb/s),bf16," tp "," pp ",,," cp ",,,full,,1f1b," micro ",," batch \
       "," framework "," seconds ",,,,,,ok,\n"

/* Reads a table given as text and projects it; NULL after a failed check. */
static pdl_published_t *projected_text(const char *text)
{
    pdl_published_t *runs = NULL;
    pdl_parameters_t parameters;
    char             path[] = "/tmp/paradl-published-XXXXXX";
    int              fd = mkstemp(path);
    FILE            *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    CHECK(file != NULL);
    if (!file) return NULL;
    fputs(text, file);
    fclose(file);
    CHECK_OK(pdl_published_read(path, "published", &runs));
    remove(path);
    REQUIRE_OK(pdl_parameters_load("published", &parameters));
    if (runs) CHECK_OK(pdl_published_project(runs, &parameters));
    return runs;
}

static double projected_of(const pdl_published_t *runs, const char *id)
{
    for (size_t i = 0; i < pdl_published_count(runs); i++)
        if (strcmp(pdl_published_row(runs, i)->id, id) == 0) return pdl_published_row(runs, i)->projected_s;
    return 0;
}

/* The stored table but for rows whose names begin so. The caller frees it. */
static char *table_without(const char *names)
{
    FILE  *from = fopen(table, "r"), *to;
    char  *text = NULL, *line = NULL;
    size_t length, size = 0;

    REQUIRE(from != NULL);
    to = open_memstream(&text, &length);
    REQUIRE(to != NULL);
    while (getline(&line, &size, from) > 0)
        if (strncmp(line, names, strlen(names)) != 0) fputs(line, to);
    free(line);
    fclose(from);
    fclose(to);
    return text;
}

/* On machines whose devices are alike. */
static void stored_parameters_are_accurate(void)
{
    char            *text = table_without("sailor_hetero-");
    pdl_published_t *runs = projected_text(text);

    free(text);
    REQUIRE(runs != NULL);
    pdl_published_summary_t s = pdl_published_summary(runs);
    pdl_published_score_t   all = pdl_published_score(runs, NULL);
    CHECK_INT(all.rows, 1518);
    CHECK(all.expressed >= 1515); /* two of them with states on the host */
    CHECK_INT(s.sources, 20);
    CHECK(s.source_mean < 0.1);
    CHECK(s.memory_mean < 0.06);
    CHECK(s.rank_correlation > 0.83);
    CHECK(s.covered_mean > 0.85 && s.covered_mean < 0.95);
    CHECK(s.width_mean > 0.1 && s.width_mean < 0.2);
    CHECK(all.false_oom <= 12);
    CHECK_INT(all.oom_found, 3);
    for (size_t i = 0; i < pdl_published_count(runs); i++) {
        const pdl_published_row_t *row = pdl_published_row(runs, i);
        CHECK(row->expressed ? row->low_s <= row->projected_s && row->projected_s <= row->high_s
                             : row->reason[0] != '\0');
    }
    /* Heads of 216 and of 108 values, whose rows are not aligned: measured 1.42 times as long. */
    CHECK(projected_of(runs, "bigscience_a100-0037") > 0);
    CHECK(projected_of(runs, "bigscience_a100-0039") > 1.2 * projected_of(runs, "bigscience_a100-0037"));
    pdl_published_destroy(runs);
}

/* With stages on different devices: their times. Memory of two of the five rows is far from what is reported (docs/accuracy.md). */
static void stages_on_different_devices(void)
{
    pdl_published_t *runs = NULL;
    pdl_parameters_t parameters;

    CHECK_OK(pdl_published_read(table, "published", &runs));
    REQUIRE_OK(pdl_parameters_load(pdl_published_parameters(runs), &parameters));
    CHECK_OK(pdl_published_project(runs, &parameters));
    pdl_published_score_t mixed = pdl_published_score(runs, "sailor_hetero"), all = pdl_published_score(runs, NULL);
    CHECK_INT(all.rows, 1523);
    CHECK(all.expressed >= 1520);
    CHECK_INT(mixed.expressed, 5);
    CHECK(mixed.error < 0.15);
    CHECK_INT(mixed.false_oom, 0);
    CHECK(pdl_published_summary(runs).source_mean < 0.1);
    pdl_published_destroy(runs);
}

#define MIXED(id, gpus, pp, notes)                                                                           \
    id ",here,transformer,OPT,,24,1024,,16,,,2048,mixed RTX-3090/RTX-2080/Titan-RTX,," gpus ",,,mixed,2," pp \
       ",,,,,,,,1f1b,2,,64,Megatron-DeepSpeed (Sailor),1,,,,,,ok,devices by stage " notes "\n"

static void remarks_say_the_devices(void)
{
    pdl_published_t *runs = projected_text(
        HEADER MIXED("a", "4", "2", "2xRTX-3090;2xTitan-RTX; and more")
            MIXED("b", "4", "1", "2xTitan-RTX+2xRTX-3090") MIXED("c", "4", "2", "2xTitan-RTX;2xTitan-RTX")
                MIXED("d", "6", "3", "2xRTX-3090;4xTitan-RTX")
                    MIXED("e", "4", "2", "2xRTX-3090;2xTitan-RTX;2xTitan-RTX") MIXED("f", "4", "2", "many")
                        MIXED("g", "4", "2", "2xRTX-3090;2xAbacus"));

    REQUIRE(runs != NULL);
    const pdl_system_t *system = &runs->machines[runs->lines[0].machine].system;
    CHECK_INT(runs->lines[0].recipe.part_count, 2);
    CHECK_STR(runs->lines[0].recipe.part[1], "Titan-RTX");
    CHECK_INT(system->part_count, 2);
    CHECK_INT(system->pe_count, 4);
    CHECK_INT(system->level[0].fanout, 2);
    CHECK_STR(system->part[0].device.name, "NVIDIA GeForce RTX 3090");
    CHECK(runs->lines[0].machine != runs->lines[1].machine);
    /* Two nodes of one kind. */
    CHECK_INT(runs->machines[runs->lines[2].machine].system.part[1].kind, 0);
    CHECK(runs->lines[2].row.expressed);
    for (size_t i = 3; i < 7; i++) CHECK(!pdl_published_row(runs, i)->expressed);
    for (size_t i = 3; i < 6; i++)
        CHECK_STR(pdl_published_row(runs, i)->reason,
                  "the devices of stages are not nodes of as many devices each");
    CHECK_STR(pdl_published_row(runs, 6)->reason, "no part of rtx-mixed is called Abacus");
    pdl_published_destroy(runs);
}

static void rows_become_configurations(void)
{
    pdl_published_t *runs = projected_text(HEADER GPT("a", "32", "8", "2", "", "2", "64", "Megatron-LM", "1")
                                               GPT("b", "32", "4", "1", "2", "", "64", "Megatron-LM", "1"));

    if (!runs) return;
    const pdl_recipe_t *a = &runs->lines[0].recipe, *b = &runs->lines[1].recipe;
    CHECK_STR(a->system, "selene");
    CHECK_INT(a->config.tensor, 8);
    CHECK_INT(a->config.pipeline, 2);
    CHECK_INT(a->config.data, 2);
    CHECK_INT(a->micro_batch, 2);
    CHECK_INT(a->config.recompute, PDL_RECOMPUTE_FULL);
    CHECK_NEAR(a->ports, 4, 0);
    CHECK_NEAR(a->port_bytes_per_s, 12.5e9, 1e-12);
    CHECK_INT(b->config.context, 2);
    CHECK_INT(b->config.data, 8);
    CHECK(b->choose_micro_batch);
    CHECK(runs->lines[0].row.expressed && runs->lines[1].row.expressed);
    CHECK(runs->lines[0].machine == runs->lines[1].machine);
    pdl_published_destroy(runs);
}

/* What a row says of formats and padding changes the machine and the model that stand for it. */
/* Blocks of every stage and the way that a program was run are in the remarks. */
static void remarks_are_read(void)
{
    static const char *const form = "%s,here,transformer,GPT,,24,2048,,16,,,1024,A100-SXM,80,4,8,,bf16,1,%s,,,,,,"
                                    "full,,1f1b,1,,16,%s,1,,,,,,ok,%s\n";
    char                     text[2048] = HEADER;

    for (int i = 0; i < 4; i++) {
        static const char *const rows[][4] = {{"a", "4", "Megatron-LM", "layers per stage 5/7/7/7"},
                                              {"b", "4", "Megatron-LM", "layers per stage 6/6/6/6"},
                                              {"c", "4", "Megatron-LM", "layers per stage 6/6/6/9"},
                                              {"d", "1", "torchtitan", "\"compile, async TP\""}};
        size_t                   used = strlen(text);
        snprintf(text + used, sizeof(text) - used, form, rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
    }
    pdl_published_t *runs = projected_text(text);
    if (!runs) return;
    CHECK_INT(runs->lines[0].recipe.stage_blocks[0], 4);
    CHECK_INT(runs->lines[0].recipe.stage_blocks[1], 7);
    CHECK_INT(runs->lines[0].recipe.stage_blocks[3], 6);
    CHECK_INT(runs->lines[1].recipe.stage_blocks[0], 6);
    CHECK(runs->lines[0].row.projected_s != runs->lines[1].row.projected_s);
    /* A row that contradicts itself is projected, but counts nowhere. */
    CHECK(runs->lines[2].row.contradicts && runs->lines[2].row.expressed && runs->lines[2].row.projected_s > 0);
    CHECK(strstr(runs->lines[2].row.reason, "27 layers in 4 stages") != NULL);
    CHECK(!runs->lines[0].row.contradicts);
    CHECK_INT(pdl_published_score(runs, NULL).timed, 3);
    CHECK_STR(runs->lines[3].recipe.framework->name, "torchtitan-async");
    pdl_published_destroy(runs);
}

/* The numbers in parentheses are parameters of the model: U-Net(6, 72) has the published 362.2 million weights. */
static void arguments_of_a_model_are_read(void)
{
    pdl_published_t *runs =
        projected_text(HEADER "a,here,cnn2d,\"U-Net(6,72)\",0.3622,,,,,,,,P40,24,1,8,,fp32,1,1,,1,,,,none"
                              ",,,1,,4,torchgpipe,1,,,,,,ok,\n");
    pdl_model_totals_t totals;

    if (!runs) return;
    CHECK(runs->lines[0].row.expressed);
    pdl_model_totals(runs->machines[0].model, &totals);
    CHECK_NEAR((double)totals.weights, 362.2e6, 1e-3);
    pdl_published_destroy(runs);
}

#define AMOEBA(id, width, gpus, recompute, parts, rate, outcome)                                               \
    id ",here,cnn2d,\"AmoebaNet-D(18," width ")\",,,,,,,,,P40,24," gpus ",8,,fp32,1," gpus ",,1,,,," recompute \
       ",,gpipe,," parts ",,torchgpipe,," rate ",,,,," outcome ",\n"

/* How many micro-batches a batch that is not said has stands in the row. A run of memory alone has the batch of its source. */
static void batches_of_pipelines_are_those_of_the_row(void)
{
    pdl_published_t   *runs = projected_text(HEADER AMOEBA("a", "256", "2", "gpipe_checkpoint", "1", "26.7", "ok")
                                                 AMOEBA("b", "256", "2", "gpipe_checkpoint", "4", "41.1", "ok")
                                                     AMOEBA("c", "256", "2", "gpipe_checkpoint", "32", "47.4", "ok")
                                                         AMOEBA("d", "208", "1", "none", "", "", "oom"));
    pdl_model_totals_t totals;
    double             rate[3];

    if (!runs) return;
    for (int i = 0; i < 3; i++) rate[i] = (double)runs->lines[i].batch / runs->lines[i].row.projected_s;
    CHECK(rate[1] > 1.3 * rate[0] && rate[2] > 1.05 * rate[1]);
    CHECK_INT(runs->lines[0].recipe.config.optimizer, PDL_OPTIMIZER_SGD);
    CHECK_INT(runs->lines[3].batch, 128);
    CHECK(runs->lines[3].row.projected_oom);
    for (int m = 0; m < runs->machine_count; m++) {
        pdl_model_totals(runs->machines[m].model, &totals);
        CHECK(fabs((double)totals.weights - 81.5e6) < 0.1e6 || fabs((double)totals.weights - 122.5e6) < 0.1e6);
    }
    pdl_published_destroy(runs);
}

#define NAMED(id, family, model, layers, accelerator, vpp, ep, framework)                              \
    id ",here," family "," model ",," layers ",,,,,,," accelerator ",,64,8,,bf16,1,4," vpp ",16,1," ep \
       ",,,,,1,,128," framework ",1,,,,,,ok,\n"

static int64_t weights_of_line(const pdl_published_t *runs, size_t i)
{
    pdl_model_totals_t totals;

    REQUIRE(runs->lines[i].machine >= 0);
    pdl_model_totals(runs->machines[runs->lines[i].machine].model, &totals);
    return totals.weights;
}

/* A row without a shape has that of the model of this name in the zoo, whatever case and separators it is written with. */
static void names_are_those_of_the_zoo(void)
{
    pdl_published_t *runs = projected_text(
        HEADER NAMED("a", "transformer", "QWEN3_8B", "", "h100 SXM", "", "", "Megatron-Core")
            NAMED("b", "transformer", "qwen3_8b cut to 4 layers", "4", "H200", "", "", "megatron-core")
                NAMED("c", "moe", "Mixtral 8x22B", "", "L40S", "", "1", "Megatron-Core")
                    NAMED("d", "moe", "DeepSeekV3 (w/o MTP)", "", "B300", "", "64", "Megatron-Bridge 25.11")
                        NAMED("e", "transformer", "Qwen3_9000B", "", "H100", "", "", "Megatron-Core")
                            NAMED("f", "transformer", "GPT3-175B", "", "Abacus", "", "", "Megatron-Core"));

    REQUIRE(runs != NULL);
    CHECK_INT(weights_of_line(runs, 0), 8190735360);
    CHECK_STR(runs->lines[0].recipe.system, "dgx-h100");
    CHECK_INT(runs->lines[0].recipe.size.layers, 36);
    CHECK_INT(runs->lines[0].recipe.size.ffn, 12288);
    CHECK_INT(weights_of_line(runs, 1), 8190735360 - 32 * INT64_C(192946432));
    CHECK_INT(runs->lines[1].recipe.size.layers, 4);
    CHECK_STR(runs->lines[1].recipe.system, "dgx-h200");
    CHECK_INT(weights_of_line(runs, 2), 140620634112);
    CHECK_STR(runs->lines[2].recipe.system, "l40s");
    /* 64 ranks have four experts each; a token goes to four nodes at most. */
    CHECK_INT(runs->lines[3].recipe.experts_over, 64);
    CHECK_INT(runs->lines[3].recipe.size.experts, 256);
    CHECK_INT(runs->lines[3].recipe.size.top_k, 8);
    CHECK_INT(runs->lines[3].recipe.size.most_nodes, 4);
    /* Fewer experts than a token chooses: four that are twice as wide. */
    CHECK_INT(weights_of_line(runs, 3), 671026404352 - INT64_C(58) * (256 - 8) * 3 * 7168 * 2048 - 58 * 252 * 7168);
    CHECK(!runs->lines[4].row.expressed && strstr(runs->lines[4].row.reason, "Qwen3_9000B is not known") != NULL);
    CHECK(!runs->lines[5].row.expressed && strstr(runs->lines[5].row.reason, "no system for Abacus") != NULL);
    pdl_published_destroy(runs);
}

/* With interleaved stages Megatron Bridge exchanges tokens with experts beside computation. */
static void interleaved_runs_overlap_their_experts(void)
{
    pdl_published_t *runs =
        projected_text(HEADER NAMED("a", "moe", "Qwen3_235B", "96", "H100", "", "16", "Megatron-Bridge 26.04")
                           NAMED("b", "moe", "Qwen3_235B", "96", "H100", "2", "16", "Megatron-Bridge 26.04")
                               NAMED("c", "moe", "Qwen3_235B", "96", "H100", "2", "1", "Megatron-Bridge 26.08"));

    REQUIRE(runs != NULL);
    CHECK_STR(runs->lines[0].recipe.framework->name, "megatron-bridge");
    CHECK_STR(runs->lines[1].recipe.framework->name, "megatron-bridge-overlap");
    CHECK_STR(runs->lines[2].recipe.framework->name, "megatron-bridge-26.06");
    CHECK(runs->lines[1].projection.comm_s < 0.6 * runs->lines[0].projection.comm_s);
    pdl_published_destroy(runs);
}

static void formats_are_read(void)
{
    pdl_published_t *runs = projected_text(
        HEADER
        "a,here,transformer,BERT-large,,24,1024,,16,,,512,A100-SXM,80,8,8,,amp_fp16,1,1,,8,,,,,,,4,,32,PyTorch,1,,,"
        ",,,ok,\n"
        "b,here,transformer,LLAMA3-8B,,32,4096,14336,32,8,128256,8192,GB200,186,8,8,,nvfp4,1,1,,8,,,,,,,1,,8,"
        "Megatron-Bridge 26.08,1,,,,9,max_allocated_gib,ok,\n"
        "c,here,transformer,LLAMA3-8B,,32,4096,14336,32,8,128256,8192,GB200,186,8,8,,mxfp8,1,1,,8,,,,,,,1,,8,"
        "Megatron-Bridge 26.04,1,,,,,,ok,\n"
        "d,here,transformer,GPT,,24,2048,,16,,,1024,A100-SXM,80,8,8,,bf16_fp32_grad,1,1,,8,,,,full,,,1,,8,"
        "Megatron-DeepSpeed,1,,,,,,ok,\n"
        "e,here,transformer,GPT,,24,2048,,16,,,1024,A100-SXM,80,8,8,,bf16,1,1,,8,,,,full,,,1,,8,"
        "Megatron-DeepSpeed,1,,,,,,ok,\n");

    if (!runs) return;
    const pdl_published_line_t *line = runs->lines;
    for (int i = 0; i < 5; i++) CHECK(line[i].row.expressed);
    CHECK_INT(line[0].recipe.size.tokens, 320);
    CHECK_STR(line[1].recipe.framework->name, "megatron-bridge-26.06");
    CHECK(line[1].row.projected_s < line[2].row.projected_s);
    CHECK(line[1].recipe.tensors_only && !line[2].recipe.tensors_only);
    /* Sums of gradients in 32 bits beside those in 16: four bytes more for every weight. */
    CHECK_NEAR(line[3].projection.memory.gradients, 3 * line[4].projection.memory.gradients, 1);
    pdl_published_destroy(runs);
}

static void what_cannot_be_expressed_is_named(void)
{
    pdl_published_t *runs =
        projected_text(HEADER GPT("a", "32", "3", "1", "", "1", "64", "Megatron-LM", "1")
                           GPT("b", "32", "4", "1", "", "1", "64", "Abacus", "1")
                               GPT("c", "32", "4", "1", "", "1", "4", "Megatron-LM",
                                   "1") "d,here,cnn2d,Squeezed,,,,,,,,,A100,80,8,8,,fp16,1,1,,8,,,,,,,8,,64,"
                                        "PyTorch,1,,,,,,ok,\n");

    if (!runs) return;
    static const char *const reasons[] = {"tp, pp and cp do not divide the devices", "no rule for framework Abacus",
                                          "fewer samples than replicas", "model Squeezed is not in the zoo"};
    for (size_t i = 0; i < 4; i++) {
        CHECK(!pdl_published_row(runs, i)->expressed);
        CHECK_STR(pdl_published_row(runs, i)->reason, reasons[i]);
    }
    CHECK_INT(pdl_published_score(runs, "here").expressed, 0);
    pdl_published_destroy(runs);
}

/* Three runs whose order by time per sample is as projected, and then not. */
static void order_is_scored(void)
{
    pdl_published_t *runs = projected_text(HEADER GPT("a", "8", "1", "1", "", "4", "256", "Megatron-LM", "1")
                                               GPT("b", "8", "4", "1", "", "4", "256", "Megatron-LM", "2")
                                                   GPT("c", "8", "8", "1", "", "1", "256", "Megatron-LM", "9"));

    if (!runs) return;
    CHECK_INT(pdl_published_summary(runs).groups, 1);
    CHECK_NEAR(pdl_published_summary(runs).rank_correlation, 1, 1e-12);
    runs->lines[0].row.measured_s = 20;
    CHECK_NEAR(pdl_published_summary(runs).rank_correlation, -0.5, 1e-12);
    pdl_published_destroy(runs);
}

/* A rate and a count of operations are turned into the time of the batch. */
static void throughput_becomes_time(void)
{
    pdl_published_t *runs = projected_text(
        HEADER
        "a,here,cnn2d,ResNet-50,,,,,,,,,V100-SXM2,16,8,8,,fp16,1,1,,8,,,,,,,32,,256,PyTorch,,1024,,,,,ok,\n"
        "b,here,transformer,GPT,,24,2048,,16,,51200,1024,H100,80,8,8,,bf16,1,1,,8,,,,,,,4,,64,Megatron-Core,,,400,"
        "model,,,ok,\n");

    if (!runs) return;
    CHECK_NEAR(pdl_published_row(runs, 0)->measured_s, 0.25, 1e-12);
    CHECK_NEAR(pdl_published_row(runs, 1)->measured_s, runs->lines[1].projection.flop / 8 / 400e12, 1e-12);
    pdl_published_destroy(runs);
}

static void check_table(const char *text, const char *message)
{
    pdl_published_t *runs = NULL;
    char             path[] = "/tmp/paradl-published-XXXXXX";
    int              fd = mkstemp(path);
    FILE            *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
    CHECK_ERROR(pdl_published_read(path, "published", &runs), message);
    remove(path);
}

static void bad_tables_are_refused(void)
{
    check_table("run_id,source\n", "column \"family\" is missing");
    check_table(HEADER GPT("a", "many", "1", "1", "", "1", "64", "Megatron-LM", "1"), ":2:");
    CHECK_ERROR(pdl_published_read(table, "nonesuch", &(pdl_published_t *){NULL}), "nonesuch");
    CHECK_ERROR(pdl_published_read(table, "abci", &(pdl_published_t *){NULL}), "published");
    CHECK_ERROR(pdl_published_read("no-such-file.csv", "published", &(pdl_published_t *){NULL}),
                "no-such-file.csv");
}

int main(void)
{
    RUN(stored_parameters_are_accurate);
    RUN(stages_on_different_devices);
    RUN(remarks_say_the_devices);
    RUN(rows_become_configurations);
    RUN(remarks_are_read);
    RUN(arguments_of_a_model_are_read);
    RUN(batches_of_pipelines_are_those_of_the_row);
    RUN(names_are_those_of_the_zoo);
    RUN(interleaved_runs_overlap_their_experts);
    RUN(formats_are_read);
    RUN(what_cannot_be_expressed_is_named);
    RUN(order_is_scored);
    RUN(throughput_becomes_time);
    RUN(bad_tables_are_refused);
    return test_done();
}
