/*
 * Measured collectives beside their prices: the published table, a table whose values are known, mistakes.
 */
#include "test.h"

#include <paradl/validate/collectives.h>

#define HEAD "source,collective,accelerator,gpus,nodes,bytes,dtype,time_us\n"

static const char *write_table(const char *text)
{
    static const char path[] = "measured_collectives.csv";
    FILE             *file = fopen(path, "w");

    REQUIRE(file != NULL);
    fputs(text, file);
    fclose(file);
    return path;
}

/* What the documents say of both machines. */
static void published_tables_with_devices_left_out(void)
{
    pdl_measured_collectives_t *table = NULL;
    pdl_collective_score_t      all, a100, v100;

    REQUIRE_OK(pdl_measured_collectives_read(PDL_TEST_SOURCE "/share/measured/published_collectives.csv",
                                             "collectives", &table));
    all = pdl_measured_collectives_score(table, NULL, 0);
    a100 = pdl_measured_collectives_score(table, "A100-SXM", 0);
    v100 = pdl_measured_collectives_score(table, "V100", 0);
    CHECK_INT(all.rows, 170);
    CHECK_INT(all.unseen_rows, 170);
    CHECK(all.error < 0.05);
    CHECK(a100.unseen_error < 0.06);
    CHECK(v100.unseen_error < 0.06);
    CHECK(pdl_measured_collectives_score(table, "V100", 8).unseen_error < 0.12);
    CHECK_INT(pdl_measured_collectives_score(table, "V100", 5).rows, 0);
    pdl_measured_collectives_destroy(table);
}

/* Times made from values are fitted by these, also where one is 0. */
static void a_fit_finds_what_was_put_in(void)
{
    const pdl_system_t         *system = NULL;
    pdl_measured_collectives_t *table = NULL;
    pdl_fabric_t                fabric, fitted;
    char                        text[8192] = HEAD;

    REQUIRE_OK(pdl_system_load("dgx-v100", &system));
    fabric = *system->fabric;
    fabric.value[PDL_FABRIC_STARTUP] = 30e-6;
    fabric.value[PDL_FABRIC_STEP] = 0;
    fabric.value[PDL_FABRIC_LINK] = 1 / 20e9;
    fabric.value[PDL_FABRIC_PASS] = 1 / 900e9;
    for (int n = 2; n <= 4; n++)
        for (double bytes = 1e6; bytes < 1e9; bytes *= 10) {
            pdl_fabric_use_t use = {n, 1, 1, 2};

            snprintf(text + strlen(text), sizeof(text) - strlen(text),
                     "made,all_reduce,V100,%d,1,%.0f,float,%.17g\n", n, bytes,
                     1e6 * pdl_fabric_seconds(&fabric, &use, bytes));
        }
    REQUIRE_OK(pdl_measured_collectives_read(write_table(text), "collectives", &table));
    REQUIRE_OK(pdl_measured_collectives_fit(table, 0, &fitted));
    for (int i = 0; i < PDL_FABRIC_TERMS; i++)
        CHECK_NEAR(fitted.value[i], fabric.value[i], 1e-6 * fabric.value[i] + 1e-12);
    CHECK(pdl_measured_collectives_score(table, NULL, 0).unseen_error < 1e-6);
    pdl_measured_collectives_destroy(table);
    pdl_system_destroy(system);
}

static void mistakes_are_named(void)
{
    pdl_measured_collectives_t *table = NULL;

#define REFUSED(text, message) \
    CHECK_ERROR(pdl_measured_collectives_read(write_table(text), "collectives", &table), message)
    REFUSED("collective,time_us\nall_reduce,1\n", "column \"accelerator\" is missing");
    REFUSED(HEAD "s,all_reduce,P100,2,1,1024,float,5\n", "csv:2: no system for this accelerator");
    REFUSED(HEAD "s,all_gather,V100,2,1,1024,float,5\n", "csv:2: only rows of all_reduce");
    REFUSED(HEAD "s,all_reduce,V100,16,2,1024,float,5\n", "csv:2: expected 2 or more devices of one node");
    REFUSED(HEAD "s,all_reduce,V100,2,1,1024,float,0\n", "csv:2: bytes and time_us");
    REQUIRE_OK(pdl_measured_collectives_read(write_table(HEAD "s,all_reduce,V100,2,1,1024,float,5\n"),
                                             "collectives", &table));
    pdl_fabric_t fabric;
    CHECK_ERROR(pdl_measured_collectives_fit(table, 0, &fabric), "at least 4 rows and two numbers of devices");
    pdl_measured_collectives_destroy(table);
}

int main(void)
{
    RUN(published_tables_with_devices_left_out);
    RUN(a_fit_finds_what_was_put_in);
    RUN(mistakes_are_named);
    return test_done();
}
