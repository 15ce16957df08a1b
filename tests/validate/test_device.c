/*
 * Steps and operations on one device: the stored tables with the stored frameworks, rows that cannot be expressed, and tables
 * that cannot be read.
 */
#include "test.h"
#include <paradl/oracle/framework.h>
#include <paradl/validate/device.h>
#include <stdlib.h>
#include <string.h>

static const char *const steps = PDL_TEST_SOURCE "/share/measured/h200_runs.csv";
static const char *const operations = PDL_TEST_SOURCE "/share/measured/h200_ops.csv";

static pdl_device_score_t score_of(const char *table, const char *group)
{
    pdl_device_runs_t *runs = NULL;
    pdl_device_score_t score = {0};

    REQUIRE_OK(pdl_device_runs_read(table, "h200", &runs));
    CHECK_OK(pdl_device_runs_project(runs, NULL));
    score = pdl_device_runs_score(runs, group);
    pdl_device_runs_destroy(runs);
    return score;
}

static void steps_are_projected(void)
{
    pdl_device_score_t s = score_of(steps, NULL);

    CHECK_INT(s.rows, 18);
    CHECK_INT(s.expressed, 18);
    CHECK(s.error < 0.06);
    CHECK(s.memory_error < 0.05);
    CHECK_INT(s.false_oom, 0);
    CHECK(s.covered >= 0.85 && s.width < 0.2);
    /* Buffers of transformers are known to two percent. */
    CHECK(score_of(steps, "gpt2-1.5b").memory_error < 0.02);
}

static void operations_are_projected(void)
{
    pdl_device_score_t s = score_of(operations, NULL);

    CHECK_INT(s.rows, 230);
    CHECK_INT(s.expressed, 230);
    CHECK(s.error < 0.12);
    CHECK(s.covered >= 0.85 && s.covered <= 0.97 && s.width < 0.35);
}

/* Reads a table given as text. */
static pdl_status_t read_text(const char *text, pdl_device_runs_t **runs)
{
    char         path[] = "/tmp/paradl-device-XXXXXX";
    int          fd = mkstemp(path);
    FILE        *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    pdl_status_t status = PDL_ERR_INPUT;

    CHECK(file != NULL);
    if (!file) return status;
    fputs(text, file);
    fclose(file);
    status = pdl_device_runs_read(path, "h200", runs);
    remove(path);
    return status;
}

static void odd_rows_are_named(void)
{
    pdl_device_runs_t *runs = NULL;

    REQUIRE_OK(read_text("op,shape,precision,forward_s,backward_s\n"
                         "matmul,4096x4096,bf16,1e-4,\nfold,3x3,bf16,1e-4,\nmatmul,64x64x64,int8,1e-4,\n"
                         "layer_norm,64x64,bf16,1e-4,2e-4\n",
                         &runs));
    CHECK_OK(pdl_device_runs_project(runs, NULL));
    CHECK_INT(pdl_device_runs_count(runs), 5);
    CHECK_STR(pdl_device_runs_row(runs, 0)->reason, "shape 4096x4096 is not one of matmul");
    CHECK_STR(pdl_device_runs_row(runs, 1)->reason, "operation fold is not known");
    CHECK_STR(pdl_device_runs_row(runs, 2)->reason, "precision int8 is not known");
    CHECK(pdl_device_runs_row(runs, 4)->expressed && pdl_device_runs_row(runs, 4)->backward);
    pdl_device_runs_destroy(runs);
    CHECK_ERROR(read_text("op,shape,precision,forward_s\n", &runs), "backward_s");
    REQUIRE_OK(
        read_text("model,batch,seq_len,precision,optimizer,mode,recompute,step_s,peak_bytes,outcome\n"
                  "resnet50,0,,bf16,momentum,eager,none,1,1,ok\nresnet50,8,,bf16,momentum,graph,none,1,1,ok\n"
                  "resnet50,4000,,bf16,momentum,eager,none,,,oom\n",
                  &runs));
    CHECK_OK(pdl_device_runs_project(runs, NULL));
    CHECK_STR(pdl_device_runs_row(runs, 0)->reason, "the batch is not a count");
    CHECK_STR(pdl_device_runs_row(runs, 1)->reason, "no framework for mode graph");
    CHECK_INT(pdl_device_runs_score(runs, NULL).oom_found, 1);
    pdl_device_runs_destroy(runs);
}

/* Shapes: odd depths, few rows and half-filled waves cost more time than their operations say. */
static double product_seconds(const char *yaml, double rows)
{
    pdl_model_t        *model = NULL;
    const pdl_system_t *system = NULL;
    pdl_oracle_t       *oracle = NULL;
    pdl_parameters_t    p;
    double              seconds[2] = {0};

    REQUIRE_OK(pdl_system_load("h200", &system));
    REQUIRE_OK(pdl_framework_choose("pytorch", NULL, system, &p));
    REQUIRE_OK(pdl_model_read_yaml_memory(yaml, strlen(yaml), "product", &model));
    REQUIRE_OK(pdl_oracle_create(model, system, &p, &oracle));
    CHECK_OK(pdl_oracle_layer_seconds(oracle, pdl_model_layer_count(model) - 1, rows, PDL_BF16, seconds));
    pdl_oracle_destroy(oracle);
    pdl_model_destroy(model);
    pdl_system_destroy(system);
    return seconds[0];
}

#define PRODUCT(k, n) \
    "paradl: model/1\nname: product\ninput: {channels: " k "}\nlayers:\n  - linear: {out: " n ", bias: false}\n"

static void shapes_count(void)
{
    double large = product_seconds(PRODUCT("4096", "4096"), 8192) / 8192;

    CHECK(product_seconds(PRODUCT("4096", "4096"), 64) / 64 > 2 * large);
    CHECK(product_seconds(PRODUCT("4095", "4096"), 8192) / 8192 > 3 * large);
    CHECK(product_seconds(PRODUCT("4104", "4096"), 8192) / 8192 > 1.2 * large);
    CHECK(product_seconds(PRODUCT("64", "4096"), 8192) / 8192 > 1.5 * large / 64);
}

int main(void)
{
    RUN(steps_are_projected);
    RUN(operations_are_projected);
    RUN(odd_rows_are_named);
    RUN(shapes_count);
    return test_done();
}
