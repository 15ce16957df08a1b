/*
 * The stored parameters against the measured runs: accuracy, ranking and intervals on the core rows, and tables that
 * cannot be read.
 */
#include "test.h"
#include <paradl/validate/validate.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const measured = PDL_TEST_SOURCE "/share/measured/abci_measured.csv";

static pdl_validation_t *projected(void)
{
    pdl_validation_t *validation = NULL;
    pdl_parameters_t  parameters;

    CHECK_OK(pdl_validation_read(measured, "abci", &validation));
    REQUIRE_OK(pdl_parameters_load(pdl_validation_parameters(validation), &parameters));
    CHECK_OK(pdl_validation_project(validation, &parameters));
    return validation;
}

static double core_mean(const pdl_validation_t *validation, const char *quantity)
{
    return pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, quantity, true).mean;
}

static void stored_parameters_are_accurate(void)
{
    pdl_validation_t *validation = projected();
    pdl_accuracy_t    totals = pdl_validation_accuracy(validation, PDL_BY_ALL, NULL, "total", true);

    CHECK_INT(totals.rows, 67);
    CHECK(totals.mean > 0.93);
    CHECK(core_mean(validation, "compute") > 0.85);
    CHECK(core_mean(validation, "comm") > 0.83);
    CHECK(totals.covered >= 0.85 && totals.covered <= 0.99);
    pdl_validation_destroy(validation);
}

static void strategies_are_ranked_as_measured(void)
{
    pdl_validation_t *validation = projected();
    pdl_ranking_t     ranking = pdl_validation_ranking(validation);

    CHECK_INT(ranking.pairs + ranking.ties, 55);
    CHECK(ranking.share >= 0.95);
    pdl_validation_destroy(validation);
}

static void every_row_is_expressed(void)
{
    pdl_validation_t *validation = projected();

    CHECK_INT((long long)pdl_validation_count(validation), 473);
    for (size_t i = 0; i < pdl_validation_count(validation); i++) {
        const pdl_measured_row_t *row = pdl_validation_row(validation, i);
        CHECK(row->expressed);
        CHECK(row->low_s <= row->projected_s && row->projected_s <= row->high_s);
    }
    pdl_validation_destroy(validation);
}

static void check_table(const char *text, const char *message)
{
    pdl_validation_t *validation = NULL;
    char              path[] = "/tmp/paradl-table-XXXXXX";
    int               fd = mkstemp(path);
    FILE             *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    CHECK(file != NULL);
    if (!file) return;
    fputs(text, file);
    fclose(file);
    CHECK_ERROR(pdl_validation_read(path, "abci", &validation), message);
    remove(path);
}

static void bad_tables_are_refused(void)
{
    static const char header[] =
        "id,source,model,dataset,strategy,p,p_data,p_model,global_batch,quantity,value_seconds,per,quality\n";
    char row[512];

    check_table("id,source\n", "column \"model\" is missing");
    snprintf(row, sizeof(row), "%sa,s,vgg16,ImageNet,data,4,4,1,128,total,-1,iteration,A\n", header);
    check_table(row, ":2: a measured time");
    snprintf(row, sizeof(row), "%sa,s,vgg16,ImageNet,data,4,4,1,128,total,soon,iteration,A\n", header);
    check_table(row, ":2:");
    CHECK_ERROR(pdl_validation_read("no-such-file.csv", "abci", &(pdl_validation_t *){NULL}), "no-such-file.csv");
}

int main(void)
{
    RUN(stored_parameters_are_accurate);
    RUN(strategies_are_ranked_as_measured);
    RUN(every_row_is_expressed);
    RUN(bad_tables_are_refused);
    return test_done();
}
