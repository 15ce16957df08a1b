/*
 * The published program's projections of its own layer tables: the regression values, what its saved outputs say of
 * memory and of the other strategies, and the limits. Infeasible cases are answers, not errors.
 */
#include "test.h"

#include <paradl/base/csv.h>
#include <paradl/validate/orig.h>

#include <stdlib.h>
#include <unistd.h>

#define MODELS    PDL_TEST_SOURCE "/share/models/"
#define TABLES    PDL_TEST_SOURCE "/tests/model/tables/"
#define IMAGENET  1280000
#define COSMOFLOW 1584

static const pdl_system_t *abci;

/* Asks one question about one of our models; an error counts as a failed check. */
static pdl_orig_result_t ask(const char *model_name, const char *strategy, const char *lc, pdl_orig_case_t question)
{
    pdl_orig_result_t result = {0};
    pdl_model_t      *model = NULL;
    bool             *flags = NULL;
    char              path[512];

    REQUIRE_OK(pdl_model_load(model_name, &model));
    if (model == NULL) return result;
    if (lc != NULL) {
        flags = calloc((size_t)pdl_model_layer_count(model), sizeof(*flags));
        snprintf(path, sizeof(path), MODELS "%s.%s.lc", model_name, lc);
        if (flags != NULL) CHECK_OK(pdl_model_read_lc(path, model, flags));
    }
    question.model = model;
    question.split = flags;
    if (question.system == NULL) question.system = abci;
    if (question.dataset_samples == 0) question.dataset_samples = IMAGENET;
    CHECK_OK(pdl_orig_project(&question, strategy, &result));
    free(flags);
    pdl_model_destroy(model);
    return result;
}

/* The regression values of docs/oracle.md, all to a millionth. */
static void reproduces_regression_values(void)
{
    pdl_orig_result_t r;

    r = ask("resnet50-orig", "data", NULL, (pdl_orig_case_t){.pe = 16, .batch = 1024});
    CHECK_NEAR(r.compute_s, 249.56016, 1e-6);
    CHECK_NEAR(r.comm_s, 18.562137, 1e-6);
    CHECK_INT(r.iterations, 1250);
    CHECK(r.feasible && r.fits);
    CHECK_STR(r.reason, "");
    r = ask("vgg16-orig", "data", NULL, (pdl_orig_case_t){.pe = 16, .batch = 512});
    CHECK_NEAR(r.compute_s, 659.64712, 1e-6);
    CHECK_NEAR(r.comm_s, 257.725362, 1e-6);
    r = ask("resnet50-orig", "filter", "filter", (pdl_orig_case_t){.pe = 8, .batch = 64});
    CHECK_NEAR(r.compute_s, 676.691771, 1e-6);
    CHECK_NEAR(r.comm_s, 10609.874251, 1e-6);
    CHECK_INT(r.iterations, 20000);
    r = ask("resnet50-orig", "data+filter", "filter", (pdl_orig_case_t){.pe = 16, .batch = 256, .divisor = 8});
    CHECK_NEAR(r.compute_s, 287.611185, 1e-6);
    CHECK_NEAR(r.comm_s, 981.491753, 1e-6);
    r = ask("cosmoflow512-orig", "data+spatial", "spatial",
            (pdl_orig_case_t){.pe = 8, .batch = 2, .dataset_samples = COSMOFLOW});
    CHECK_NEAR(r.compute_s, 438.901608, 1e-6);
    CHECK_NEAR(r.comm_s, 358.945351, 1e-6);
    CHECK(r.feasible && !r.fits); /* the program does not look: the runs were on memory that pages */
}

/* The parts of the last regression value, by hand from the formulas of docs/oracle.md. */
static void gives_parts_of_communication(void)
{
    double            I = 792, w = 2128064, host_alpha = 3.00011e-3, host_beta = 1 / 16e9;
    double            halo = 0, gather, local, leaders;
    pdl_orig_result_t r = ask("cosmoflow512-orig", "data+spatial", "spatial",
                              (pdl_orig_case_t){.pe = 8, .groups = 2, .batch = 2, .dataset_samples = COSMOFLOW});

    halo += 4 * (host_alpha + 4.0 * 512 * 512 * 4 * 8 * host_beta);
    halo += 4 * (host_alpha + 16.0 * 255 * 255 * 4 * 8 * host_beta);
    gather = 2 * 3 * (host_alpha + 32.0 * 253 * 253 * 253 * 4 * 2 * host_beta / 4);
    local = 2 * 3 * (9e-6 + w * 4 / 50e9 / 4);
    leaders = 2 * 1 * (40.31e-6 + 8 * w * 4 / 12.5e9 / 2);
    CHECK_NEAR(r.halo_s, I * halo, 1e-12);
    CHECK_NEAR(r.gather_s, I * gather, 1e-12);
    CHECK_NEAR(r.gradient_s, I * (local + leaders), 1e-12);
    CHECK_NEAR(r.collective_s + r.transfer_s, 0, 0);
    CHECK_NEAR(r.comm_s, r.halo_s + r.gather_s + r.gradient_s, 1e-15);
}

/* Memory; the last ones are what the program printed: weights divided twice, layers without gamma. */
static void reproduces_memory(void)
{
    pdl_orig_result_t r;

    r = ask("resnet50-orig", "serial", NULL, (pdl_orig_case_t){.pe = 1, .batch = 64});
    CHECK_NEAR(r.memory_bytes, 15.43e9, 0.005 / 15.43);
    CHECK(r.fits && r.samples_fit > 64 && r.samples_fit < 67);
    r = ask("vgg16-orig", "data", NULL, (pdl_orig_case_t){.pe = 4, .batch = 128});
    CHECK_NEAR(r.memory_bytes, 9.36e9, 0.005 / 9.36);
    r = ask("alexnet-orig", "data", NULL, (pdl_orig_case_t){.pe = 2, .batch = 1024});
    CHECK_NEAR(r.memory_bytes, 7.51e9, 0.005 / 7.51);
    r = ask("resnet50-orig", "filter", "filter", (pdl_orig_case_t){.pe = 8, .batch = 64});
    CHECK_NEAR(r.memory_bytes, 15257607320.0, 1e-12);
    r = ask("resnet50-orig", "data+filter", "filter", (pdl_orig_case_t){.pe = 16, .batch = 256});
    CHECK_NEAR(r.memory_bytes, 15310729600.0, 1e-12);
    r = ask("resnet50-orig", "data+spatial", "spatial", (pdl_orig_case_t){.pe = 16, .batch = 1024});
    CHECK_NEAR(r.memory_bytes, 1.07183259136e+11, 1e-11);
    CHECK_NEAR(r.samples_fit, 37.8447499464, 1e-10);
}

/* What the program printed for ResNet-50 on 2, 4, 8 and 16 GPUs, 64 samples. */
static void reproduces_filter_and_channel(void)
{
    static const double published[4][2] = {{2097.95068038, 1423.6449216},
                                           {1150.44474057, 2175.1573824},
                                           {676.691770662, 10609.8742512},
                                           {439.81528571, 12256.557912}};

    for (int i = 0; i < 4; i++) {
        pdl_orig_case_t   question = {.pe = 2 << i, .batch = 64};
        pdl_orig_result_t filter = ask("resnet50-orig", "filter", "filter", question);
        pdl_orig_result_t channel = ask("resnet50-orig", "channel", "channel", question);

        CHECK_NEAR(filter.compute_s, published[i][0], 1e-11);
        CHECK_NEAR(filter.comm_s, published[i][1], 1e-11);
        CHECK_NEAR(channel.compute_s, filter.compute_s, 0);
        CHECK_NEAR(channel.comm_s, filter.comm_s, 0);
        CHECK_NEAR(channel.memory_bytes, filter.memory_bytes, 0);
    }
}

/* ABCI with nothing but direct transport, as in the saved output of the pure spatial strategy. That output has the
   borders of one sample, the program as published those of all samples that fit: 1787 items in all layers, both
   directions, 5000 iterations. */
static const char direct_only[] = "paradl: system/1\n"
                                  "name: direct\n"
                                  "device: {name: gpu, memory: 16GB, memory_bandwidth: 900GB/s, "
                                  "peak: {fp64: 7.8TFLOP/s, fp32: 15.7TFLOP/s}}\n"
                                  "levels:\n"
                                  "  - {name: node, fanout: 4, bandwidth: 50GB/s, latency: 9us}\n"
                                  "  - {name: rack, fanout: 17, bandwidth: 12.5GB/s, latency: 40.31us}\n";

static void reproduces_spatial(void)
{
    const pdl_system_t *direct;
    double              border_s = 2 * 5000 * 1787 * 4 / 50e9;
    pdl_orig_result_t   r;

    CHECK_OK(pdl_system_read_memory(direct_only, strlen(direct_only), "direct", &direct));
    r = ask("resnet50-orig", "spatial", "spatial", (pdl_orig_case_t){.system = direct, .pe = 2, .batch = 256});
    CHECK_NEAR(r.compute_s, 2097.95068038, 1e-11);
    CHECK_NEAR(r.comm_s - border_s * (r.samples_fit - 1), 22.6110808, 1e-10);
    CHECK_NEAR(r.memory_bytes, 1.17658326528e+11, 1e-11);
    r = ask("resnet50-orig", "spatial", "spatial", (pdl_orig_case_t){.system = direct, .pe = 4, .batch = 256});
    CHECK_NEAR(r.compute_s, 1150.44474057, 1e-11);
    CHECK_NEAR(r.comm_s - border_s * (r.samples_fit - 1), 32.6559064, 1e-10);
    CHECK_NEAR(r.memory_bytes, 1.08632342016e+11, 1e-11);
    CHECK(r.feasible && !r.fits);
    pdl_system_destroy(direct);
}

/* Start-up times come from the level that the devices span; 128 and 1024 devices are beyond the second one. The values are
   the program's for VGG-16 with 32 samples a node, seconds per iteration. */
static void chooses_level_by_span(void)
{
    static const struct {
        int64_t pe;
        double  gradient_s, compute_s;
    } published[] = {{16, 0.67270943568, 0.0655887084138},
                     {64, 0.83668622736, 0.0655887084138},
                     {128, 0.86515553264, 0.0655887084138},
                     {1024, 0.90731714976, 0.0652753865583}};

    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        pdl_orig_result_t r = ask("vgg16-orig", "data+spatial", "spatial",
                                  (pdl_orig_case_t){.pe = published[i].pe, .batch = 8 * published[i].pe});

        CHECK_NEAR(r.gradient_s / (double)r.iterations, published[i].gradient_s, 1e-10);
        CHECK_NEAR(r.compute_s / (double)r.iterations, published[i].compute_s, 1e-10);
        CHECK_NEAR(r.halo_s / (double)r.iterations, 0.250178288, 1e-9);
    }
}

/* Through the host the program knows two levels; 128 devices use the direct start-up time of the rack. */
static void falls_back_to_direct_transport(void)
{
    pdl_orig_result_t r = ask("cosmoflow512-orig", "spatial", "spatial",
                              (pdl_orig_case_t){.pe = 64, .batch = 1, .dataset_samples = COSMOFLOW});

    CHECK_NEAR(r.gradient_s, COSMOFLOW * 2 * 63 * (80.53e-6 + 2128064.0 * 4 / 12.5e9 / 64), 1e-9);
    r = ask("cosmoflow512-orig", "spatial", "spatial",
            (pdl_orig_case_t){.pe = 128, .batch = 1, .dataset_samples = COSMOFLOW});
    CHECK_NEAR(r.gradient_s, COSMOFLOW * 2 * 127 * (40.49e-6 + 2128064.0 * 4 / 12.5e9 / 128), 1e-9);
}

static void compare_table(const char *model_name, const char *table_name)
{
    char         path[512];
    pdl_csv_t   *table = NULL;
    pdl_model_t *model = NULL;
    double      *seconds;

    snprintf(path, sizeof(path), TABLES "%s.csv", table_name);
    CHECK_OK(pdl_csv_read_file(path, &table));
    REQUIRE_OK(pdl_model_load(model_name, &model));
    if (table == NULL || model == NULL) return;
    CHECK_INT(pdl_model_layer_count(model), pdl_csv_rows(table) + 1);
    seconds = calloc((size_t)pdl_model_layer_count(model), sizeof(*seconds));
    if (seconds == NULL) return;
    CHECK_OK(pdl_orig_layer_seconds(model, 0, seconds));
    CHECK_NEAR(seconds[0], 0, 0);
    for (size_t row = 0; row < pdl_csv_rows(table); row++) {
        double flop = -1, estimate = -1;

        CHECK_OK(pdl_csv_number(table, row, pdl_csv_column(table, "orig_flop_weight"), &flop));
        CHECK_OK(pdl_csv_number(table, row, pdl_csv_column(table, "orig_est_s_per_sample"), &estimate));
        CHECK_NEAR(pdl_orig_flop(pdl_model_layer(model, (int)row + 1)), flop, 0);
        CHECK_NEAR(seconds[row + 1], estimate, 1e-8);
    }
    free(seconds);
    pdl_csv_destroy(table);
    pdl_model_destroy(model);
}

static void counts_operations_as_the_program(void)
{
    compare_table("resnet50-orig", "resnet50_orig");
    compare_table("vgg16-orig", "vgg16");
    compare_table("alexnet-orig", "alexnet");
    compare_table("cosmoflow512-orig", "cosmoflow512");
    compare_table("cosmoflow256-orig", "cosmoflow256");
}

/* One convolution of 2*2*3*3*3*5*5 = 2700 operations forward and 54 weights, then as many ReLUs as asked for. */
static pdl_model_t *small_model(int relus, const char *seconds)
{
    char         text[1024];
    int          length;
    pdl_model_t *model = NULL;

    length =
        snprintf(text, sizeof(text), "Dataset|d\nInput|100x2x7x7\nModel|m\nCONV|2x7x7|2x3x3x3|3x5x5%s\n", seconds);
    for (int i = 0; i < relus; i++)
        length += snprintf(text + length, sizeof(text) - (size_t)length, "RELU|3x5x5|0x0x0x0|3x5x5%s\n", seconds);
    CHECK_OK(pdl_model_read_net_memory(text, (size_t)length, "m.net", &model));
    return model;
}

static void replaces_missing_times_by_speed(void)
{
    pdl_orig_platform_t slow = {.memory_bytes = 1e6, .flop_per_s = 5604, .max_pe = 4, .pe_per_node = 2};
    pdl_model_t        *model = small_model(1, "");
    pdl_orig_case_t     question = {.model = model, .system = abci, .dataset_samples = 100, .pe = 1, .batch = 10};
    pdl_orig_result_t   r;
    double              seconds[3];

    CHECK_ERROR(pdl_orig_layer_seconds(model, 0, seconds), "no measured times");
    CHECK_OK(pdl_orig_project(&question, "serial", &r));
    CHECK_NEAR(r.compute_s, 100 * 5604 / 7.8e12, 1e-12);
    question.platform = &slow;
    CHECK_OK(pdl_orig_project(&question, "serial", &r));
    CHECK_NEAR(r.compute_s, 100, 1e-12);
    CHECK_NEAR(r.memory_bytes, 8 * (10 * (98 + 75) + 54), 1e-12);
    question.pe = 8;
    CHECK_OK(pdl_orig_project(&question, "data", &r));
    CHECK_STR(r.reason, "8 devices are more than the 4 of the machine");
    question.pe = 4;
    CHECK_OK(pdl_orig_batch(&question, "data+filter", 3, &question.batch));
    CHECK_INT(question.batch, 6); /* groups of two, by the platform */
    pdl_model_destroy(model);
}

/* However many layers have a time, their sum is spread by operations. */
static void spreads_the_sum_of_times(void)
{
    pdl_model_t *model = small_model(2, "|0.5");
    double       seconds[4];

    CHECK_OK(pdl_orig_layer_seconds(model, 0, seconds));
    CHECK_NEAR(seconds[1], 1.5 * 5454 / (5454 + 300), 1e-12);
    CHECK_NEAR(seconds[2], 1.5 * 150 / (5454 + 300), 1e-12);
    pdl_model_destroy(model);
}

/* VGG-16 in two stages, by the formulas of docs/oracle.md: S = p unless said otherwise. */
static void pipelines(void)
{
    const pdl_layer_t *layer;
    pdl_model_t       *model = NULL;
    double             seconds[64], total = 0, first = 0, link = 0;
    int                i = 1;
    pdl_orig_case_t    question = {.pe = 2, .batch = 32, .segments = 8};
    pdl_orig_result_t  r = ask("vgg16-orig", "pipeline", NULL, question);

    REQUIRE_OK(pdl_model_load("vgg16-orig", &model));
    CHECK_OK(pdl_orig_layer_seconds(model, 0, seconds));
    for (int l = 1; l < pdl_model_layer_count(model); l++) total += seconds[l];
    for (; first + seconds[i] <= total / 2; i++) first += seconds[i];
    layer = pdl_model_layer(model, i - 1);
    link = 9e-6 + 32.0 / 8 * (double)layer->y_elements * 4 / 50e9;
    CHECK_NEAR(r.compute_s, 1280000.0 * 9 / 8 * (total - first), 1e-9);
    CHECK_NEAR(r.transfer_s, 2 * 40000.0 * 8 * link, 1e-9);
    CHECK_NEAR(r.comm_s, r.transfer_s, 0);
    pdl_model_destroy(model);

    r = ask("vgg16-orig", "pipeline", NULL, (pdl_orig_case_t){.pe = 1, .batch = 32});
    CHECK_NEAR(r.compute_s, 1280000 * total, 1e-9);
    CHECK_NEAR(r.comm_s, 0, 0);
    CHECK_NEAR(r.memory_bytes, 9.36e9, 0.005 / 9.36);
    r = ask("vgg16-orig", "pipeline", NULL, (pdl_orig_case_t){.pe = 64, .batch = 64});
    CHECK_STR(r.reason, "64 devices are more than the 38 layers");
    r = ask("vgg16-orig", "pipeline", NULL, (pdl_orig_case_t){.pe = 32, .batch = 32});
    CHECK(!r.feasible && strstr(r.reason, "stages of about equal time, not 32") != NULL);
    r = ask("vgg16-orig", "pipeline", NULL, (pdl_orig_case_t){.pe = 2, .batch = 1});
    CHECK_STR(r.reason, "2 segments are more than the 1 samples of a batch");
}

static void keeps_limits(void)
{
    pdl_orig_result_t r;

    r = ask("resnet50-orig", "serial", NULL, (pdl_orig_case_t){.pe = 2, .batch = 64});
    CHECK_STR(r.reason, "serial training uses one device, not 2");
    CHECK(!r.feasible && r.compute_s == 0 && r.memory_bytes == 0);
    r = ask("resnet50-orig", "data", NULL, (pdl_orig_case_t){.pe = 16, .batch = 8});
    CHECK_STR(r.reason, "16 devices are more than the 8 samples of a batch");
    r = ask("resnet50-orig", "filter", "filter", (pdl_orig_case_t){.pe = 128, .batch = 64});
    CHECK_STR(r.reason, "128 devices are more than the 64 filters of layer CONV_1");
    r = ask("vgg16-orig", "channel", "channel", (pdl_orig_case_t){.pe = 64, .batch = 32});
    CHECK(r.feasible);
    r = ask("vgg16-orig", "channel", "channel", (pdl_orig_case_t){.pe = 65, .batch = 32});
    CHECK_STR(r.reason, "65 devices are more than the 64 channels of layer CONV1_2");
    r = ask("vgg16-orig", "spatial", "spatial", (pdl_orig_case_t){.pe = 8, .batch = 32});
    CHECK(r.feasible);
    r = ask("vgg16-orig", "spatial", "spatial", (pdl_orig_case_t){.pe = 9, .batch = 32});
    CHECK(!r.feasible && strstr(r.reason, "9 devices are more than the 8 columns of layer MPOOL") != NULL);
    r = ask("resnet50-orig", "data", NULL, (pdl_orig_case_t){.pe = 8192, .batch = 8192});
    CHECK_STR(r.reason, "8192 devices are more than the 4352 of the machine");
    r = ask("resnet50-orig", "data+filter", "filter", (pdl_orig_case_t){.pe = 16, .batch = 2});
    CHECK_STR(r.reason, "4 groups are more than the 2 samples of a batch");
    r = ask("resnet50-orig", "data+spatial", "spatial", (pdl_orig_case_t){.pe = 16, .groups = 2, .batch = 64});
    CHECK(!r.feasible && strstr(r.reason, "8 devices are more than the 7 columns") != NULL);
    r = ask("resnet50-orig", "data+filter", "filter", (pdl_orig_case_t){.pe = 6, .batch = 64});
    CHECK_STR(r.reason, "6 devices do not form groups of equal size");
    r = ask("resnet50-orig", "data+filter", "filter", (pdl_orig_case_t){.pe = 6, .groups = 2, .batch = 64});
    CHECK(r.feasible);
}

/* Filter and channel are refused when the batch does not fit, the others when one sample does not. */
static void refuses_for_memory(void)
{
    pdl_orig_platform_t tiny = {.memory_bytes = 3e8, .flop_per_s = 1e12, .max_pe = 64, .pe_per_node = 4};
    pdl_orig_result_t   r;

    r = ask("resnet50-orig", "filter", "filter", (pdl_orig_case_t){.pe = 8, .batch = 128});
    CHECK(!r.feasible && !r.fits && r.compute_s > 0 && r.comm_s > 0);
    CHECK(strstr(r.reason, "a device needs") != NULL);
    r = ask("resnet50-orig", "data", NULL, (pdl_orig_case_t){.pe = 8, .batch = 1024});
    CHECK(r.feasible && !r.fits);
    r = ask("resnet50-orig", "data", NULL, (pdl_orig_case_t){.pe = 8, .batch = 8, .platform = &tiny});
    CHECK(!r.feasible && strstr(r.reason, "the model and one sample need more than") != NULL);
    CHECK(r.samples_fit < 1);
}

static void scales_the_batch(void)
{
    pdl_orig_case_t question = {.system = abci, .pe = 16};
    int64_t         batch = 0;

    CHECK_OK(pdl_orig_batch(&question, "data", 64, &batch));
    CHECK_INT(batch, 1024);
    CHECK_OK(pdl_orig_batch(&question, "data+spatial", 64, &batch));
    CHECK_INT(batch, 256);
    CHECK_OK(pdl_orig_batch(&question, "filter", 64, &batch));
    CHECK_INT(batch, 64);
    question.pe = 6;
    CHECK_ERROR(pdl_orig_batch(&question, "data+filter", 64, &batch), "do not form groups");
    CHECK_ERROR(pdl_orig_batch(&question, "data", INT64_MAX, &batch), "too many");
    CHECK_ERROR(pdl_orig_batch(&question, "data", 0, &batch), "at least 1");
    CHECK_STR(pdl_orig_strategy_name(0), "serial");
    CHECK_STR(pdl_orig_strategy_name(7), "data+spatial");
    CHECK(pdl_orig_strategy_name(8) == NULL && pdl_orig_strategy_name(-1) == NULL);
}

static void rejects_wrong_questions(void)
{
    pdl_model_t      *model = small_model(1, "");
    pdl_orig_case_t   good = {.model = model, .system = abci, .dataset_samples = 100, .pe = 1, .batch = 10};
    pdl_orig_case_t   question = good;
    pdl_orig_result_t r;

    CHECK_ERROR(pdl_orig_project(&question, "filters", &r), "no strategy 'filters'");
    question.batch = 0;
    CHECK_ERROR(pdl_orig_project(&question, "data", &r), "at least 1");
    question = good;
    question.divisor = -1;
    CHECK_ERROR(pdl_orig_project(&question, "data", &r), "must not be negative");
    question = good;
    question.split = (const bool[]){false, false, false};
    CHECK_OK(pdl_orig_project(&question, "spatial", &r));
    CHECK_STR(r.reason, "no layer is split");
    pdl_model_destroy(model);
}

static pdl_status_t read_plat(const char *text, pdl_orig_platform_t *platform)
{
    char         path[] = "test_orig_XXXXXX";
    int          descriptor = mkstemp(path);
    FILE        *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    pdl_status_t status;

    if (file == NULL) return pdl_error(PDL_ERR_IO, "cannot create a file for the test");
    fputs(text, file);
    fclose(file);
    status = pdl_orig_read_plat(path, platform);
    unlink(path);
    return status;
}

static void reads_platforms(void)
{
    pdl_orig_platform_t p = {0};

    CHECK_OK(read_plat("# a machine\nMEM_PER_NODE|16e9|Bytes\r\nNODE_SPEED|7.8E12|FLOPS\nBANDWIDTH|12.5E9|Bps\n"
                       "LATENCY|500E-9|second \nMAX_NODE|4096|GPUs\nGPU_PER_NODE|4|GPUs",
                       &p));
    CHECK_NEAR(p.memory_bytes, 16e9, 0);
    CHECK_NEAR(p.flop_per_s, 7.8e12, 0);
    CHECK_NEAR(p.bandwidth_bytes_per_s, 12.5e9, 0);
    CHECK_NEAR(p.latency_s, 5e-7, 1e-15);
    CHECK_INT(p.max_pe, 4096);
    CHECK_INT(p.pe_per_node, 4);
    CHECK_ERROR(read_plat("MEM_PER_NODE|16e9|Bytes\nBANDWIDTH|1|Bps\n", &p), ":2: expected NODE_SPEED|value|unit");
    CHECK_ERROR(read_plat("MEM_PER_NODE|16e9\nNODE_SPEED|fast|FLOPS\n", &p), ":2: NODE_SPEED must be a number");
    CHECK_ERROR(read_plat("MEM_PER_NODE|16e9\n", &p), "expected a line NODE_SPEED");
    CHECK_ERROR(pdl_orig_read_plat("no-such.plat", &p), "cannot open no-such.plat");
}

int main(void)
{
    if (pdl_system_load("abci-v", &abci)) {
        printf("%s\n", pdl_error_message());
        return 1;
    }
    RUN(reproduces_regression_values);
    RUN(gives_parts_of_communication);
    RUN(reproduces_memory);
    RUN(reproduces_filter_and_channel);
    RUN(reproduces_spatial);
    RUN(chooses_level_by_span);
    RUN(falls_back_to_direct_transport);
    RUN(counts_operations_as_the_program);
    RUN(replaces_missing_times_by_speed);
    RUN(spreads_the_sum_of_times);
    RUN(pipelines);
    RUN(keeps_limits);
    RUN(refuses_for_memory);
    RUN(scales_the_batch);
    RUN(rejects_wrong_questions);
    RUN(reads_platforms);
    pdl_system_destroy(abci);
    return test_done();
}
